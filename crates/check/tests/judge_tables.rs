//! Every requirement of the built-in pack over hand-written traces: one that passes, and for each way to miss it one that
//! shows precisely which outcomes change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pintle_check::cel::InProcess;
use pintle_check::judge::{Judgement, Outcome, ScenarioEvidence, ScenarioRun, SkipReason, judge};
use pintle_check::pack::{Level, Pack};

use crate::script::{sections, trace};

fn pack() -> Pack {
    Pack::embedded().expect("the built-in pack loads")
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/check/acp-v1")
}

/// The traces of a scenario's file.
fn file(scenario: &str) -> String {
    let path = folder().join(format!("{scenario}.trace"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks a file: the base gives what it says for every requirement, each section changes what it says and nothing else.
fn check(scenario: &str) {
    let pack = pack();
    let mut evaluator = InProcess::default();
    let mut problems = Vec::new();
    let mut base: BTreeMap<String, String> = BTreeMap::new();
    for (at, section) in sections(&file(scenario)).into_iter().enumerate() {
        let found = outcomes(&judge_alone(&pack, scenario, &section.lines, &mut evaluator));
        let mut expected = base.clone();
        for on in &section.blocking {
            for (_, outcome) in expected.iter_mut().filter(|(id, _)| depends(&pack, id, on)) {
                *outcome = format!("blocked:{on}");
            }
        }
        expected.extend(section.expected.clone());
        if at == 0 {
            base = found.clone();
        }
        for id in expected.keys().chain(found.keys()).collect::<BTreeSet<_>>() {
            let (expected, found) = (expected.get(id), found.get(id));
            if expected != found {
                problems.push(format!(
                    "{scenario}, {}: {id} is {}, expected {}",
                    section.title,
                    found.map_or("absent", String::as_str),
                    expected.map_or("nothing", String::as_str)
                ));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

macro_rules! tables {
    ($($name:ident: $scenario:literal,)*) => {
        $(#[test] fn $name() { check($scenario); })*
        const SCENARIOS: &[&str] = &[$($scenario),*];
    };
}

tables! {
    basics: "basics",
    batch: "batch",
    callbacks: "callbacks",
    callbacks_refused: "callbacks-refused",
    cancel: "cancel",
    cancel_at_once: "cancel-at-once",
    concurrent: "concurrent",
    content: "content",
    early: "early",
    invalid_utf8: "invalid-utf8",
    jsonrpc: "jsonrpc",
    long_line: "long-line",
    malformed: "malformed",
    permission: "permission",
    sessions: "sessions",
    slow_reader: "slow-reader",
    updates: "updates",
    version: "version",
    version_string: "version-string",
}

/// A check that cannot fail is a defect: each requirement has a trace that passes, and each but the ones that only record
/// has one that does not.
#[test]
fn every_requirement_can_pass_and_can_fail() {
    let pack = pack();
    let mut evaluator = InProcess::default();
    let mut passed = BTreeSet::new();
    let mut missed = BTreeSet::new();
    for scenario in SCENARIOS {
        for section in sections(&file(scenario)) {
            for (id, outcome) in outcomes(&judge_alone(&pack, scenario, &section.lines, &mut evaluator)) {
                match outcome.as_str() {
                    "pass" => drop(passed.insert(id)),
                    "fail" | "warn" => drop(missed.insert(id)),
                    _ => {}
                }
            }
        }
    }
    let without = |found: &BTreeSet<String>, level: Option<Level>| -> Vec<String> {
        pack.requirements()
            .filter(|(_, requirement)| level.is_none_or(|level| requirement.level <= level))
            .map(|(_, requirement)| requirement.id.clone())
            .filter(|id| !found.contains(id))
            .collect()
    };
    assert_eq!(without(&passed, None), Vec::<String>::new(), "no trace passes these");
    let recording_only = ["ACP-STDERR-001".to_owned()];
    assert_eq!(without(&missed, None), recording_only, "no trace fails these");
}

/// Every scenario has its file, and every file its scenario.
#[test]
fn there_is_a_file_for_each_scenario() {
    let ids: Vec<String> = pack().scenarios.into_iter().map(|scenario| scenario.id).collect();
    assert_eq!(ids, SCENARIOS);
}

/// The judgement over one scenario alone.
fn judge_alone(pack: &Pack, scenario: &str, lines: &[String], evaluator: &mut InProcess) -> Judgement {
    let run = ScenarioRun::Traced(trace(pack, scenario, lines));
    let evidence = [ScenarioEvidence { id: scenario.to_owned(), run }];
    judge(pack, &evidence, evaluator)
}

/// Outcomes by requirement, in the words of the files.
fn outcomes(judgement: &Judgement) -> BTreeMap<String, String> {
    let word = |outcome: &Outcome| match outcome {
        Outcome::Skipped(SkipReason::BlockedBy(id)) => format!("blocked:{id}"),
        Outcome::Skipped(reason) => reason.to_string(),
        Outcome::Inconclusive(fault) => format!("inconclusive:{}", fault.as_str()),
        other => other.as_str().to_owned(),
    };
    judgement.results.iter().map(|result| (result.id.clone(), word(&result.outcome))).collect()
}

/// True when `id` depends on `on`, directly or by way of others.
fn depends(pack: &Pack, id: &str, on: &str) -> bool {
    pack.requirements()
        .find(|(_, requirement)| requirement.id == id)
        .is_some_and(|(_, requirement)| requirement.depends.iter().any(|next| next == on || depends(pack, next, on)))
}
