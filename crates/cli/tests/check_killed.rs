//! SIGKILL of the check, a keeper or a driver at a random moment of a run: no process is left, nothing stays that the next
//! run does not remove, what was recorded verifies, and no agent is blamed. `PINTLE_SEED` repeats a sequence of moments,
//! `PINTLE_ROUNDS` sets their number.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pintle_testkit::deaths::{Watched, descendants};
use serde_json::Value;

use crate::user::{MOCK, PINTLE, User};

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(120);

/// Moments are numbers of records in the journal, below this one: more than these scenarios make, so that some runs come
/// to their end first.
const MOST_RECORDS: u64 = 120;

const CASES: [&str; 6] = ["--case", "basics", "--case", "updates", "--case", "cancel"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Check,
    Keeper,
    Driver,
}

const VICTIMS: [Victim; 3] = [Victim::Check, Victim::Keeper, Victim::Driver];

/// SplitMix64: any seed does.
struct Moments(u64);

impl Moments {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }
}

fn check(user: &User, isolated: bool) -> Command {
    let mut args = vec!["check", "--format", "json", "--jobs", "2"];
    args.extend(CASES);
    if isolated {
        args.push("--isolate-agent");
    }
    args.push("--");
    args.extend(MOCK);
    let mut command = user.command(&args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How many records stand in the journal of the newest run.
fn records(user: &User) -> u64 {
    let runs = fs::read_dir(user.path("state/runs")).into_iter().flatten().flatten();
    let newest = runs.map(|entry| entry.path()).max();
    let journal = newest.and_then(|run| fs::read(run.join("journal.ndjson")).ok()).unwrap_or_default();
    journal.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn command_line(pid: u32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn is(pid: u32, victim: Victim) -> bool {
    let line = command_line(pid);
    let has = |words: &[&str]| line.get(1..=words.len()).is_some_and(|found| found.iter().eq(words.iter()));
    match victim {
        Victim::Check => has(&["check"]),
        Victim::Keeper => has(&["__exec"]),
        Victim::Driver => has(&["driver", "acp"]),
    }
}

/// Processes whose environment names a path in this directory, whoever their parent is by now.
fn processes_of(dir: &Path) -> Vec<u32> {
    let needle = dir.to_str().expect("UTF-8").as_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let names = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(needle.len()).any(|window| window == needle)
    };
    pids.filter(|pid| *pid != std::process::id() && names(pid)).collect()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Inv-6, and issue item 4: SIGKILL leaves no process, and no directory that the next run does not clean.
#[test]
fn a_kill_at_any_moment_leaves_nothing_and_blames_nobody() {
    let seed = setting("PINTLE_SEED", 1);
    let mut moments = Moments(seed);
    let user = User::new();
    let mut killed = 0;
    for round in 0..setting("PINTLE_ROUNDS", 12) {
        let victim = VICTIMS[usize::try_from(moments.below(3)).expect("small")];
        let isolated = moments.below(3) == 0;
        let moment = moments.below(MOST_RECORDS);
        println!("seed {seed}, round {round}: {victim:?} at record {moment}, isolated: {isolated}");
        killed += u32::from(one_round(&user, victim, moment, isolated, &mut moments));
    }
    assert!(killed > 0, "not one was killed");
}

/// Returns whether anything was there to be killed at that moment.
fn one_round(user: &User, victim: Victim, moment: u64, isolated: bool, moments: &mut Moments) -> bool {
    let before = runs_of(user);
    let mut check = check(user, isolated).spawn().expect("the binary runs");
    let (stdout, stderr) = (drain(check.stdout.take()), drain(check.stderr.take()));
    let core = Watched::new(check.id());
    let began = Instant::now();
    // Another look whenever there may be more records; or it has ended.
    while !core.ends_within(Duration::from_millis(2)) {
        if runs_of(user) > before && records(user) >= moment || moment == 0 {
            break;
        }
        assert!(began.elapsed() < LIMIT, "it stands still at record {}", records(user));
    }
    let family = descendants(check.id());
    let mut possible: Vec<u32> = family.iter().copied().chain([check.id()]).filter(|pid| is(*pid, victim)).collect();
    possible.sort_unstable();
    let chosen = possible
        .len()
        .checked_sub(1)
        .map(|most| possible[usize::try_from(moments.below(most as u64 + 1)).expect("small")]);
    let family: Vec<Watched> = family.into_iter().map(Watched::new).collect();
    if let Some(pid) = chosen {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
    }
    assert!(core.ends_within(LIMIT), "the check hangs");
    let status = check.wait().expect("wait");
    for process in &family {
        let line = command_line(process.pid());
        assert!(process.ends_within(LIMIT), "{} lives on: {line:?}", process.pid());
    }
    for pid in processes_of(&user.path("")) {
        assert!(Watched::new(pid).ends_within(LIMIT), "{pid} lives on: {:?}", command_line(pid));
    }
    let (stdout, stderr) = (stdout.join().expect("stdout"), stderr.join().expect("stderr"));
    if let Some(code) = status.code() {
        assert!([0, 3, 5].contains(&code), "the agent is blamed: {code}\n{stdout}\n{stderr}");
        let report: Value = serde_json::from_str(&stdout).expect("a report");
        assert_ne!(report["verdict"], "nonconformant", "{report}");
        assert_eq!(report["recording_faults"].as_array().map_or(0, Vec::len), 0, "{report}");
    }
    the_next_run_is_as_any(user);
    chosen.is_some()
}

fn runs_of(user: &User) -> usize {
    fs::read_dir(user.path("state/runs")).into_iter().flatten().count()
}

fn drain(stream: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.expect("a pipe").read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn the_next_run_is_as_any(user: &User) {
    let next = user.command(&["check", "--case", "basics", "--format", "json", "--", PINTLE, "mock", "agent"]).output();
    let next = next.expect("the binary runs");
    assert_eq!(next.status.code(), Some(0), "{}", String::from_utf8_lossy(&next.stderr));
    let left: Vec<_> = fs::read_dir(user.path("tmp")).expect("a directory").flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let verified =
        user.command(&["evidence", "verify", "--all", "--format", "json"]).output().expect("the binary runs");
    let verified: Value = serde_json::from_slice(&verified.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&verified.stderr)));
    for run in verified["runs"].as_array().expect("runs") {
        for problem in run["problems"].as_array().expect("problems") {
            let problem = problem.as_str().expect("text");
            let of_a_kill = problem.contains("did not come to its end") || problem.contains("are no record");
            assert!(of_a_kill, "{run}");
        }
    }
}
