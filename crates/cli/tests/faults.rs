//! A check that cannot fail is a defect: every fault of the reference agent breaks exactly the requirements that it
//! declares, and every must of the pack is broken by one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use pintle_check::mock::{FAULTS, FaultInfo};
use pintle_check::pack::{Level, Pack};
use serde_json::Value;

/// Faults whose runs wait for nothing: these are checked by every test run. `PINTLE_FAULTS=all` checks all of them, which
/// takes minutes, since most others hang until a wait ends; `PINTLE_FAULTS=NAME` checks one.
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

/// Faults that are checked at once. They mostly wait for answers that never come.
const WORKERS: usize = 3;

/// A copy of the pack, with shorter waits for the faults that hang: there, what hangs hangs for ever. The quick faults
/// keep the pack's own waits, so that a slow machine changes nothing.
fn pack(dir: &Path, impatient: bool) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packs/acp-v1");
    let to = dir.join("acp-v1");
    std::fs::create_dir(&to).expect("mkdir");
    for entry in std::fs::read_dir(from).expect("the pack").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("reads");
        let text = if impatient {
            text.replace("prompt = 60000", "prompt = 6000").replace("request = 10000", "request = 5000")
        } else {
            text
        };
        std::fs::write(to.join(entry.file_name()), text).expect("writes");
    }
    to
}

/// Requirement to outcome, of a run against the reference agent with or without a fault.
fn outcomes(dir: &Path, pack: &Path, fault: Option<&FaultInfo>) -> BTreeMap<String, String> {
    let pintle = env!("CARGO_BIN_EXE_pintle");
    let name = fault.map_or("none", |fault| fault.name);
    let home = dir.join(name);
    let mut command = Command::new(pintle);
    command.args(["check", "--format", "json", "--jobs", "4", "--pack"]).arg(pack);
    command.args(["--", pintle, "mock", "agent"]);
    if let Some(fault) = fault {
        command.args(["--fault", fault.name]);
    }
    command.env("PINTLE_HOME", &home).env("HOME", &home).current_dir(dir).stdin(Stdio::null());
    let output = command.output().expect("runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{name}: no report ({e}): {}", String::from_utf8_lossy(&output.stderr)));
    let requirements = report["requirements"].as_array().expect("requirements");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let judged = requirements.iter().filter(|one| one["level"] != "info");
    judged.map(|one| (text(&one["id"]), text(&one["outcome"]))).collect()
}

fn broken(outcomes: &BTreeMap<String, String>) -> BTreeSet<&str> {
    let bad = |outcome: &str| matches!(outcome, "fail" | "warn" | "inconclusive");
    outcomes.iter().filter(|(_, outcome)| bad(outcome)).map(|(id, _)| id.as_str()).collect()
}

#[test]
fn every_fault_breaks_what_it_declares_and_nothing_else() {
    let dir = tempfile::tempdir().expect("temp");
    let wanted = std::env::var("PINTLE_FAULTS").ok();
    let pack = pack(dir.path(), wanted.is_some());
    let right = outcomes(dir.path(), &pack, None);
    assert_eq!(broken(&right), BTreeSet::new(), "the reference agent is right");

    let is_wanted = |row: &&FaultInfo| match wanted.as_deref() {
        None => QUICK.contains(&row.name),
        Some("all") => true,
        Some(name) => name == row.name,
    };
    let queue: Mutex<Vec<&FaultInfo>> = Mutex::new(FAULTS.iter().filter(is_wanted).rev().collect());
    if wanted.is_none() {
        println!("SKIPPED: {} faults that take minutes (set PINTLE_FAULTS=all)", FAULTS.len() - QUICK.len());
    }
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(row) = queue.lock().expect("queue").pop() else { break };
                    let seen = outcomes(dir.path(), &pack, Some(row));
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
