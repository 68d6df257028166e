//! A check that cannot fail is a defect: every fault of the reference agent breaks exactly the requirements that it
//! declares, and every must and should of the pack is broken by one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use pintle_check::mock::{FAULTS, FaultInfo};
use pintle_check::pack::{Level, Pack};
use serde_json::Value;

/// Faults whose runs wait for nothing: these are checked by every test run. `PINTLE_FAULTS=all` checks all of them, as
/// `.ci/run` does with the release binary (`PINTLE_BIN`); `PINTLE_FAULTS=NAME,..` checks some.
const QUICK: [&str; 12] = [
    "version-wrong",
    "mode-error",
    "config-bad-value",
    "update-no-kind",
    "chunk-no-type",
    "tool-call-no-id",
    "stdout-noise",
    "stdout-latin1",
    "notification-answered",
    "uses-fs",
    "refuses-image",
    "permission-bad-kind",
];

/// Faults that hang until a wait of the scenario ends. What hangs here hangs for ever, so shorter waits show the same; what
/// answers does so in milliseconds. All others get the pack's own waits, so that a slow machine changes nothing. They come
/// first, because they take longest and leave the machine to the others.
const HANGING: [&str; 24] = [
    "ext-unanswered",
    "ext-notification-fatal",
    "prompt-unanswered",
    "flood-lost",
    "callback-hang",
    "refusal-hang",
    "cancel-ignored",
    "cancel-wedged",
    "cancel-wrong-session",
    "early-cancel-lost",
    "early-cancel-wedged",
    "permission-allowed-hang",
    "permission-rejected-hang",
    "utf8-fatal",
    "garbage-fatal",
    "blank-fatal",
    "envelope-fatal",
    "bad-id-fatal",
    "batch-fatal",
    "stray-fatal",
    "long-line-lost",
    "permission-blocks",
    "close-loses-turn",
    "other-turn-lost",
];

/// Shorter waits for them.
const SHORTER: [(&str, &str); 4] = [
    ("prompt = 60000", "prompt = 15000"),
    ("timeout_ms = 30000", "timeout_ms = 12000"),
    ("timeout_ms = 20000", "timeout_ms = 12000"),
    ("request = 10000", "request = 8000"),
];

/// Faults that are checked at once. They mostly wait.
const WORKERS: usize = 3;
/// The same when the machine does nothing else and the binary is a fast one.
const WORKERS_ALL: usize = 6;

/// Copies of the pack: as it is, and with shorter waits.
struct Packs {
    own: PathBuf,
    shorter: PathBuf,
}

impl Packs {
    fn copy(dir: &Path) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/acp-v1");
        let copy = |name: &str, waits: &[(&str, &str)]| {
            let to = dir.join(name);
            std::fs::create_dir(&to).expect("mkdir");
            for entry in std::fs::read_dir(&from).expect("the pack").flatten() {
                let text = std::fs::read_to_string(entry.path()).expect("reads");
                let text = waits.iter().fold(text, |text, (long, short)| text.replace(long, short));
                std::fs::write(to.join(entry.file_name()), text).expect("writes");
            }
            to
        };
        Self { own: copy("own", &[]), shorter: copy("shorter", &SHORTER) }
    }

    fn for_fault(&self, fault: Option<&FaultInfo>) -> &Path {
        if fault.is_some_and(|fault| HANGING.contains(&fault.name)) { &self.shorter } else { &self.own }
    }
}

fn pintle() -> String {
    std::env::var("PINTLE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_pintle").to_owned())
}

/// Requirement to outcome, of a run against the reference agent with or without a fault.
fn outcomes(dir: &Path, packs: &Packs, fault: Option<&FaultInfo>) -> BTreeMap<String, String> {
    let pintle = pintle();
    let name = fault.map_or("none", |fault| fault.name);
    let home = dir.join(name);
    let mut command = Command::new(&pintle);
    command.args(["check", "--format", "json", "--jobs", "4", "--pack"]).arg(packs.for_fault(fault));
    command.args(["--", &pintle, "mock", "agent"]);
    if let Some(fault) = fault {
        command.args(["--fault", fault.name]);
    }
    command.env("PINTLE_HOME", &home).env("HOME", &home).current_dir(dir).stdin(Stdio::null());
    let output = command.output().expect("runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{name}: no report ({e}): {}", String::from_utf8_lossy(&output.stderr)));
    let requirements = report["requirements"].as_array().expect("requirements");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    requirements.iter().map(|one| (text(&one["id"]), text(&one["outcome"]))).collect()
}

fn broken(outcomes: &BTreeMap<String, String>) -> BTreeSet<&str> {
    let bad = |outcome: &str| matches!(outcome, "fail" | "warn" | "inconclusive");
    outcomes.iter().filter(|(_, outcome)| bad(outcome)).map(|(id, _)| id.as_str()).collect()
}

#[test]
fn every_fault_breaks_what_it_declares_and_nothing_else() {
    let dir = tempfile::tempdir().expect("temp");
    let wanted = std::env::var("PINTLE_FAULTS").ok();
    let packs = Packs::copy(dir.path());
    let right = outcomes(dir.path(), &packs, None);
    assert_eq!(broken(&right), BTreeSet::new(), "the reference agent is right");

    let mut queue: Vec<&FaultInfo> = match wanted.as_deref() {
        None => FAULTS.iter().filter(|row| QUICK.contains(&row.name)).collect(),
        Some("all") => FAULTS.iter().collect(),
        Some(names) => FAULTS.iter().filter(|row| names.split(',').any(|name| row.name == name)).collect(),
    };
    assert!(!queue.is_empty(), "no fault is called {wanted:?}");
    if wanted.is_none() {
        println!("SKIPPED: {} faults that take minutes (set PINTLE_FAULTS=all)", FAULTS.len() - QUICK.len());
    }
    // The queue is taken from its end.
    queue.sort_by_key(|row| std::cmp::Reverse(HANGING.iter().position(|name| *name == row.name).unwrap_or(usize::MAX)));
    let workers = if wanted.as_deref() == Some("all") { WORKERS_ALL } else { WORKERS };
    let queue = Mutex::new(queue);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(row) = queue.lock().expect("queue").pop() else { break };
                    let began = Instant::now();
                    let seen = outcomes(dir.path(), &packs, Some(row));
                    println!("{}: {} ms", row.name, began.elapsed().as_millis());
                    let declared: BTreeSet<&str> = row.fails.iter().copied().collect();
                    let seen = broken(&seen);
                    if seen != declared {
                        let line = format!("{}: declared {declared:?}, seen {seen:?}", row.name);
                        wrong.lock().expect("list").push(line);
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().expect("list");
    wrong.sort();
    assert!(wrong.is_empty(), "{} faults\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_must_of_the_pack_is_broken_by_a_fault() {
    let pack = Pack::embedded().expect("the pack loads");
    let musts: BTreeSet<&str> = pack
        .requirements()
        .filter(|(_, requirement)| requirement.level == Level::Must)
        .map(|(_, requirement)| requirement.id.as_str())
        .collect();
    let broken: BTreeSet<&str> = FAULTS.iter().flat_map(|row| row.fails.iter().copied()).collect();
    let safe: Vec<&&str> = musts.difference(&broken).collect();
    assert!(safe.is_empty(), "no fault breaks {safe:?}");
}

#[test]
fn every_should_of_the_pack_is_broken_by_a_fault() {
    let pack = Pack::embedded().expect("the pack loads");
    let broken: BTreeSet<&str> = FAULTS.iter().flat_map(|row| row.fails.iter().copied()).collect();
    let shoulds = pack.requirements().filter(|(_, requirement)| requirement.level == Level::Should);
    let safe: BTreeSet<&str> =
        shoulds.map(|(_, requirement)| requirement.id.as_str()).filter(|id| !broken.contains(id)).collect();
    assert!(safe.is_empty(), "no fault breaks {safe:?}");
}

/// The lists above name faults, and the shorter waits replace something that the pack has.
#[test]
fn the_lists_of_this_test_are_not_stale() {
    for name in QUICK.iter().chain(&HANGING) {
        assert!(FAULTS.iter().any(|row| row.name == *name), "no fault {name}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/acp-v1");
    let texts: Vec<String> = std::fs::read_dir(folder)
        .expect("the pack")
        .flatten()
        .map(|entry| std::fs::read_to_string(entry.path()).expect("reads"))
        .collect();
    for (long, _) in SHORTER {
        assert!(texts.iter().any(|text| text.contains(long)), "no wait `{long}`");
    }
}
