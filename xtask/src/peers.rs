//! `pintle check` against agents that we did not write the protocol side of: one on the official Rust SDK, one on the
//! TypeScript SDK, two examples of the Python SDK.
//!
//! `interop/expected/NAME.toml` holds the outcome of every requirement. A non-pass carries one line that says why the
//! peer is truly wrong, or what kept the requirement from being decided. A line for a requirement that no longer
//! exists, a missing line and a different outcome all fail, and so does a reason beside a pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::install::{self, Missing, Places, Tally};

struct Peer {
    name: &'static str,
    /// Installs what is needed and returns the agent's command.
    install: fn(&Places) -> Result<Vec<String>, Missing>,
}

const PEERS: [Peer; 5] = [
    Peer { name: "rust-sdk", install: |places| install::rust_sdk(places, "sdk-agent") },
    Peer { name: "typescript-sdk", install: |places| install::typescript_sdk(places, "agent.mjs") },
    Peer { name: "python-sdk", install: |places| install::python_program(places, "agent.py") },
    Peer { name: "python-sdk-echo", install: |places| install::python_example(places, "echo_agent.py") },
    Peer { name: "python-sdk-agent", install: |places| install::python_example(places, "agent.py") },
];

/// One line of an expectation file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The peer races with itself and now and then passes: then the line holds too.
    #[serde(default)]
    or_pass: bool,
}

/// The part of `pintle.report.v1` that this step reads.
#[derive(Deserialize)]
struct Report {
    requirements: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    id: String,
    outcome: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Checks every peer, or the one named with `--only`; `--bless` writes what was seen and keeps the reasons.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let places = Places::new(root, words);
    let only = install::option(words, "--only");
    let bless = words.contains(&"--bless");
    let chosen = PEERS.iter().filter(|peer| only.is_none_or(|name| name == peer.name));
    // One after the other: two that install the same thing would be in each other's way.
    let ready: Vec<_> = chosen.map(|peer| (peer, (peer.install)(&places))).collect();
    let results = install::side_by_side(ready, |(peer, command)| {
        (peer.name, command.and_then(|command| check(&places, peer.name, &command, bless)))
    });
    let mut tally = Tally::default();
    for (name, result) in results {
        tally.note(&format!("peer {name}"), result);
    }
    tally.end()
}

fn check(places: &Places, name: &str, command: &[String], bless: bool) -> Result<String, Missing> {
    let report = pintle_check(places, name, command)?;
    let path = places.root.join("interop/expected").join(format!("{name}.toml"));
    let committed = match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|e| Missing::at(&path, e))?,
        Err(_) if bless => BTreeMap::new(),
        Err(e) => return Err(Missing::at(&path, e)),
    };
    if bless {
        install::make(&places.root.join("interop/expected"))?;
        fs::write(&path, blessed(&committed, &report)).map_err(|e| Missing::at(&path, e))?;
        let silent: Vec<&str> = report.requirements.iter().filter(|r| needs_reason(r)).map(|r| r.id.as_str()).collect();
        return Ok(format!("wrote {} outcomes; a reason each for {}", report.requirements.len(), silent.join(" ")));
    }
    let differences = compare(&committed, &report);
    if differences.is_empty() {
        return Ok(format!("{} outcomes as committed", report.requirements.len()));
    }
    Err(Missing::Failed(format!("{} differences\n  {}", differences.len(), differences.join("\n  "))))
}

/// Runs the binary on `command` with an empty home and returns the report, which stays beside the peers.
fn pintle_check(places: &Places, name: &str, command: &[String]) -> Result<Report, Missing> {
    let home = places.dir.join("home").join(name);
    install::make(&home)?;
    let output = Command::new(&places.pintle)
        .args(["check", "--format", "json", "--"])
        .args(command)
        .env("HOME", &home)
        .env("PINTLE_HOME", places.dir.join("pintle"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| Missing::at(&places.pintle, format!("{e}; build it with cargo build --release")))?;
    let kept = places.dir.join(format!("{name}.json"));
    fs::write(&kept, &output.stdout).map_err(|e| Missing::at(&kept, e))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|e| Missing::Failed(format!("pintle check printed no report ({e}), exit {:?}", output.status.code())))
}

fn compare(committed: &BTreeMap<String, Expected>, report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    for requirement in &report.requirements {
        let seen = outcome_text(requirement);
        match committed.get(&requirement.id) {
            None => found.push(format!("{}: {seen}, but no line is committed", requirement.id)),
            Some(line) if line.or_pass && requirement.outcome == "pass" => {}
            Some(line) if line.outcome != seen => {
                found.push(format!("{}: {seen}, committed is {}", requirement.id, line.outcome));
            }
            Some(line) if needs_reason(requirement) && line.why.as_deref().unwrap_or_default().trim().is_empty() => {
                found.push(format!("{}: {seen}, and no line says why", requirement.id));
            }
            Some(line) if requirement.outcome == "pass" && line.why.is_some() => {
                found.push(format!("{}: pass, and the reason why it is none is stale", requirement.id));
            }
            Some(_) => {}
        }
    }
    for id in committed.keys() {
        if !report.requirements.iter().any(|requirement| requirement.id == *id) {
            found.push(format!("{id}: committed, but the pack has no such requirement"));
        }
    }
    found
}

/// A pass speaks for itself, and what is skipped has its reason in the outcome.
fn needs_reason(requirement: &Requirement) -> bool {
    !matches!(requirement.outcome.as_str(), "pass" | "skipped")
}

fn outcome_text(requirement: &Requirement) -> String {
    match (requirement.outcome.as_str(), requirement.reason.as_deref()) {
        ("skipped" | "inconclusive", Some(reason)) => format!("{} ({reason})", requirement.outcome),
        (outcome, _) => outcome.to_owned(),
    }
}

fn blessed(committed: &BTreeMap<String, Expected>, report: &Report) -> String {
    let mut text = String::new();
    for requirement in &report.requirements {
        let raced = committed.get(&requirement.id).filter(|line| line.or_pass);
        if let (Some(line), true) = (raced, requirement.outcome == "pass") {
            text.push_str(&written(&requirement.id, line));
            continue;
        }
        let why =
            committed.get(&requirement.id).and_then(|line| line.why.clone()).filter(|_| requirement.outcome != "pass");
        let line = Expected { outcome: outcome_text(requirement), why, or_pass: raced.is_some() };
        text.push_str(&written(&requirement.id, &line));
    }
    text
}

fn written(id: &str, line: &Expected) -> String {
    let mut text = format!("{id} = {{ outcome = {}", toml::Value::String(line.outcome.clone()));
    if let Some(why) = &line.why {
        text.push_str(&format!(", why = {}", toml::Value::String(why.clone())));
    }
    if line.or_pass {
        text.push_str(", or_pass = true");
    }
    text.push_str(" }\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(id: &str, outcome: &str) -> Report {
        let requirement = Requirement { id: id.into(), outcome: outcome.into(), reason: None };
        Report { requirements: vec![requirement] }
    }

    fn skipped(id: &str) -> Report {
        let reason = Some("not_advertised".into());
        let requirement = Requirement { id: id.into(), outcome: "skipped".into(), reason };
        Report { requirements: vec![requirement] }
    }

    #[track_caller]
    fn compared(committed: &str, report: &Report, expected: &[&str]) {
        let committed = toml::from_str(committed).expect("expectation parses");
        assert_eq!(compare(&committed, report), expected);
    }

    #[test]
    fn the_committed_outcome_passes() {
        compared("A = { outcome = 'pass' }", &report("A", "pass"), &[]);
        compared("A = { outcome = 'fail', why = 'echoes 65535' }", &report("A", "fail"), &[]);
        compared("A = { outcome = 'skipped (not_advertised)' }", &skipped("A"), &[]);
    }

    #[test]
    fn a_race_of_the_peer_may_pass_and_do_nothing_else() {
        let line = "A = { outcome = 'warn', why = 'it answers too soon', or_pass = true }";
        compared(line, &report("A", "warn"), &[]);
        compared(line, &report("A", "pass"), &[]);
        compared(line, &report("A", "fail"), &["A: fail, committed is warn"]);
        let committed = toml::from_str(line).expect("expectation parses");
        let spelled = "A = { outcome = \"warn\", why = \"it answers too soon\", or_pass = true }\n";
        for outcome in ["warn", "pass"] {
            assert_eq!(blessed(&committed, &report("A", outcome)), spelled);
        }
    }

    #[test]
    fn a_stale_a_missing_and_an_unexplained_line_fail() {
        compared(
            "B = { outcome = 'pass' }",
            &report("A", "pass"),
            &["A: pass, but no line is committed", "B: committed, but the pack has no such requirement"],
        );
        compared("A = { outcome = 'pass' }", &report("A", "fail"), &["A: fail, committed is pass"]);
        compared("A = { outcome = 'fail' }", &report("A", "fail"), &["A: fail, and no line says why"]);
        compared(
            "A = { outcome = 'pass', why = 'echoes 65535' }",
            &report("A", "pass"),
            &["A: pass, and the reason why it is none is stale"],
        );
    }
}
