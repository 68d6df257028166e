//! What a hook costs: spawn to exit of the release binary, against an empty Rust program and a bare durable replace, all
//! in one run and in turns, since both the wake-ups and the syncs of a machine move with its neighbours.
//!
//! `cargo bench -p pintle --bench task_hook`. Targets (design section 6): prompt and publish at most twice the sum of
//! empty program and replace; before a compaction at most 1.3 times the empty program.
//!
//! On a machine with other work, wall time says more of the neighbours. So on Linux the processor time and the page faults
//! of the children are counted as well, in blocks that take turns.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 400;
const WARM_UP_ROUNDS: usize = 20;
/// Processor time is told in hundredths of a second: a block must be long enough for them.
const BLOCKS: usize = 4;
const BLOCK_ROUNDS: usize = 100;

fn main() {
    // `cargo test` also starts benches, to see that they start.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { ROUNDS } else { 1 };
    let dir = tempfile::tempdir().expect("scratch directory");
    let empty = empty_program(dir.path());
    let pintle = Path::new(env!("CARGO_BIN_EXE_pintle"));
    let root = dir.path().join("tasks");
    let root = root.to_str().expect("UTF-8");
    let event = |name: &str| {
        format!(
            r#"{{"session_id":"0199a1b2-0000-7000-8000-000000000001","cwd":"/project","hook_event_name":"{name}","prompt":"go on"}}"#
        )
    };
    let hook = ["task", "hook", "--agent", "codex", "--on-error", "open", "--mcp", "--root", root];
    let (prompt, compaction) = (event("UserPromptSubmit"), event("PreCompact"));
    let state = dir.path().join("bare.json");
    let mut cases: Vec<Case<'_>> = vec![
        Case::new("empty program", Box::new(|| spawn(&empty, &[], ""))),
        Case::new("bare durable replace", Box::new(|| replace(&state))),
        Case::new("hook, prompt", Box::new(|| spawn(pintle, &hook, &prompt))),
        Case::new("hook, before compaction", Box::new(|| spawn(pintle, &hook, &compaction))),
        Case::new("publish", Box::new(|| publish(pintle, root))),
    ];
    for round in 0..WARM_UP_ROUNDS.min(rounds) + rounds {
        for case in &mut cases {
            let start = Instant::now();
            let inner = (case.run)();
            let took = inner.unwrap_or_else(|| start.elapsed());
            if round >= WARM_UP_ROUNDS.min(rounds) {
                case.times.push(took);
            }
        }
    }
    println!("{:<24} {:>9} {:>9} {:>9}", "", "p10 us", "p50 us", "p90 us");
    for case in &mut cases {
        case.times.sort();
        println!("{:<24} {:>9} {:>9} {:>9}", case.name, case.at(10), case.at(50), case.at(90));
    }
    let of = |case: usize, percent: usize| cases[case].at(percent) as f64;
    for percent in [10, 50] {
        let sum = of(0, percent) + of(1, percent);
        println!(
            "p{percent}: prompt / (empty + replace) = {:.2} (target 2), publish = {:.2} (target 2), before compaction / empty = {:.2} (target 1.3)",
            of(2, percent) / sum,
            of(4, percent) / sum,
            of(3, percent) / of(0, percent),
        );
    }
    if rounds > 1 && cfg!(target_os = "linux") {
        count_processor_time(&mut cases);
    }
}

/// The same cases by processor time and page faults.
fn count_processor_time(cases: &mut [Case<'_>]) {
    let mut used = vec![Used::default(); cases.len()];
    for _ in 0..BLOCKS {
        for (case, used) in cases.iter_mut().zip(&mut used) {
            let before = Used::so_far();
            for _ in 0..BLOCK_ROUNDS {
                (case.run)();
            }
            used.add(before, Used::so_far());
        }
    }
    // The replace runs in this process, everything else in children.
    let cpu = |at: usize| if at == 1 { used[at].own_ticks } else { used[at].children_ticks } as f64;
    let runs = (BLOCKS * BLOCK_ROUNDS) as f64;
    println!("{:<24} {:>9} {:>9}", "", "cpu us", "faults");
    for (at, case) in cases.iter().enumerate() {
        println!("{:<24} {:>9.0} {:>9.0}", case.name, cpu(at) * TICK_US / runs, used[at].children_faults as f64 / runs);
    }
    println!(
        "cpu: prompt / (empty + replace) = {:.2}, publish = {:.2}, before compaction / empty = {:.2}",
        cpu(2) / (cpu(0) + cpu(1)),
        cpu(4) / (cpu(0) + cpu(1)),
        cpu(3) / cpu(0),
    );
}

/// Linux tells processor time in this unit, whatever the kernel's own clock is.
const TICK_US: f64 = 10_000.0;

/// What this process and its children have used.
#[derive(Clone, Copy, Default)]
struct Used {
    own_ticks: u64,
    children_ticks: u64,
    children_faults: u64,
}

impl Used {
    fn so_far() -> Self {
        let line = fs::read_to_string("/proc/self/stat").expect("Linux tells");
        // The name in parentheses may hold blanks; the fields are counted from behind it.
        let (_, fields) = line.rsplit_once(')').expect("a name");
        let fields: Vec<u64> = fields.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect();
        Self { own_ticks: fields[11] + fields[12], children_ticks: fields[13] + fields[14], children_faults: fields[8] }
    }

    fn add(&mut self, before: Self, after: Self) {
        self.own_ticks += after.own_ticks - before.own_ticks;
        self.children_ticks += after.children_ticks - before.children_ticks;
        self.children_faults += after.children_faults - before.children_faults;
    }
}

struct Case<'a> {
    name: &'static str,
    /// Runs once; times itself where only a part counts.
    run: Box<dyn FnMut() -> Option<Duration> + 'a>,
    times: Vec<Duration>,
}

impl<'a> Case<'a> {
    fn new(name: &'static str, run: Box<dyn FnMut() -> Option<Duration> + 'a>) -> Self {
        Self { name, run, times: Vec::new() }
    }

    fn at(&self, percent: usize) -> u128 {
        self.times[(self.times.len() - 1) * percent / 100].as_micros()
    }
}

/// An empty program, built by the compiler that built the binary and linked as it is.
fn empty_program(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("empty.rs"), dir.join("empty"));
    fs::write(&source, "fn main() {}\n").expect("write");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "-O"]).arg(&source).arg("-o").arg(&program);
    if cfg!(target_os = "linux") {
        command.args(["-C", "link-arg=-no-pie"]);
    }
    assert!(command.status().expect("rustc").success());
    program
}

fn spawn(program: &Path, args: &[&str], stdin: &str) -> Option<Duration> {
    let mut command = Command::new(program);
    let mut child =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("spawn");
    // The empty program may be gone before it is written to.
    let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("wait");
    assert!(output.status.success());
    None
}

/// What a durable write cannot do without, for a record of the usual size.
fn replace(path: &Path) -> Option<Duration> {
    let temp = path.with_extension("tmp");
    let mut file = File::create(&temp).expect("create");
    file.write_all(&[b'x'; 400]).expect("write");
    file.sync_all().expect("sync");
    drop(file);
    fs::rename(&temp, path).expect("rename");
    File::open(path.parent().expect("parent")).expect("open").sync_all().expect("sync");
    None
}

/// One publish with the pair that is stored; only the publish itself counts.
fn publish(pintle: &Path, root: &str) -> Option<Duration> {
    const SESSION: &str = "0199a1b2-0000-7000-8000-000000000001";
    let stored = fs::read_to_string(Path::new(root).join(SESSION).join("state.json")).expect("a prompt came before");
    let field = |name: &str| {
        let (_, rest) = stored.split_once(&format!("\"{name}\": ")).expect("a member");
        rest.split([',', '\n']).next().expect("a value").to_owned()
    };
    let request = format!(
        r#"{{"schema_version":3,"session_id":"{SESSION}","expected_generation":{},"expected_revision":{},"task_id":"6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6","target_status":"CLEAN","pointer_text":"Goal: measure\nNext: again"}}"#,
        field("generation"),
        field("revision"),
    );
    let start = Instant::now();
    spawn(pintle, &["task", "publish", "--agent", "codex", "--root", root], &request);
    Some(start.elapsed())
}
