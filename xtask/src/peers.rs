//! `pintle check` against agents that we did not write the protocol side of: one on the official Rust SDK, one on the
//! TypeScript SDK, two examples of the Python SDK.
//!
//! `interop/expected/NAME.toml` holds the outcome of every requirement. A non-pass carries one line that says why the
//! peer is truly wrong, or what kept the requirement from being decided. A line for a requirement that no longer
//! exists, a missing line and a different outcome all fail.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

/// Versions that the committed outcomes were seen with.
const PYTHON_SDK: &str = "agent-client-protocol==0.12.1";

struct Peer {
    name: &'static str,
    /// Installs what is needed below the given folder and returns the agent's command.
    install: fn(&Path, &Path) -> Result<Vec<String>, Missing>,
}

/// Why a peer cannot run here.
enum Missing {
    /// A program that the step needs is not installed: said aloud, and an error where `CI` is set.
    Tool(&'static str),
    /// Something that should have worked did not.
    Failed(String),
}

const PEERS: [Peer; 4] = [
    Peer { name: "rust-sdk", install: rust_sdk },
    Peer { name: "typescript-sdk", install: typescript_sdk },
    Peer { name: "python-sdk-echo", install: |root, dir| python_sdk(root, dir, "echo_agent.py") },
    Peer { name: "python-sdk-agent", install: |root, dir| python_sdk(root, dir, "agent.py") },
];

/// One line of an expectation file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The part of `pintle.report.v1` that this step reads.
#[derive(Deserialize)]
struct Report {
    requirements: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    id: String,
    level: String,
    outcome: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Checks every peer, or the one named with `--only`; `--bless` writes what was seen and keeps the reasons.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let only = words.iter().position(|word| *word == "--only").and_then(|at| words.get(at + 1)).copied();
    let bless = words.contains(&"--bless");
    let dir = root.join("target/peers");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for peer in PEERS.iter().filter(|peer| only.is_none_or(|name| name == peer.name)) {
        match check(root, &dir, peer, bless) {
            Ok(count) => {
                println!("peer {}: {count} outcomes as committed", peer.name);
                passed += 1;
            }
            Err(Missing::Tool(tool)) if std::env::var_os("CI").is_none() => {
                println!("peer {}: SKIPPED, {tool} is not installed", peer.name);
                skipped += 1;
            }
            Err(Missing::Tool(tool)) => {
                println!("peer {}: {tool} is not installed", peer.name);
                failed += 1;
            }
            Err(Missing::Failed(why)) => {
                println!("peer {}: {why}", peer.name);
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(root: &Path, dir: &Path, peer: &Peer, bless: bool) -> Result<usize, Missing> {
    let command = (peer.install)(root, dir)?;
    let report = pintle_check(root, dir, peer.name, &command, &[])?;
    let path = root.join("interop/expected").join(format!("{}.toml", peer.name));
    let committed = match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|e| Missing::Failed(format!("{}: {e}", path.display())))?,
        Err(_) if bless => BTreeMap::new(),
        Err(e) => return Err(Missing::Failed(format!("{}: {e}", path.display()))),
    };
    if bless {
        let text = blessed(&committed, &report);
        fs::write(&path, text).map_err(|e| Missing::Failed(format!("{}: {e}", path.display())))?;
        return Ok(report.requirements.len());
    }
    let differences = compare(&committed, &report);
    if differences.is_empty() {
        return Ok(report.requirements.len());
    }
    Err(Missing::Failed(format!("{} differences\n  {}", differences.len(), differences.join("\n  "))))
}

/// Runs the release binary on `command` with an empty home and returns the report.
fn pintle_check(
    root: &Path,
    dir: &Path,
    name: &str,
    command: &[String],
    options: &[String],
) -> Result<Report, Missing> {
    let home = dir.join("home").join(name);
    fs::create_dir_all(&home).map_err(|e| Missing::Failed(format!("{}: {e}", home.display())))?;
    let pintle = root.join("target/release/pintle");
    let output = Command::new(&pintle)
        .args(["check", "--format", "json"])
        .args(options)
        .arg("--")
        .args(command)
        .env("HOME", &home)
        .env("PINTLE_HOME", dir.join("pintle"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| Missing::Failed(format!("{}: {e}; build it with cargo build --release", pintle.display())))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|e| Missing::Failed(format!("pintle check printed no report ({e}), exit {:?}", output.status.code())))
}

fn compare(committed: &BTreeMap<String, Expected>, report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    for requirement in &report.requirements {
        let seen = outcome_text(requirement);
        match committed.get(&requirement.id) {
            None => found.push(format!("{}: {seen}, but no line is committed", requirement.id)),
            Some(line) if line.outcome != seen => {
                found.push(format!("{}: {seen}, committed is {}", requirement.id, line.outcome));
            }
            Some(line) if needs_reason(requirement) && line.why.as_deref().unwrap_or_default().trim().is_empty() => {
                found.push(format!("{}: {seen}, and no line says why", requirement.id));
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

/// A pass speaks for itself, and what is skipped for want of a capability does too.
fn needs_reason(requirement: &Requirement) -> bool {
    let silent = matches!(requirement.outcome.as_str(), "pass" | "skipped");
    !silent && requirement.level != "info"
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
        let why =
            committed.get(&requirement.id).and_then(|line| line.why.clone()).filter(|_| requirement.outcome != "pass");
        let line = Expected { outcome: outcome_text(requirement), why };
        let outcome = toml::Value::String(line.outcome);
        text.push_str(&format!("{} = {{ outcome = {outcome}", requirement.id));
        if let Some(why) = line.why {
            text.push_str(&format!(", why = {}", toml::Value::String(why)));
        }
        text.push_str(" }\n");
    }
    text
}

fn rust_sdk(root: &Path, dir: &Path) -> Result<Vec<String>, Missing> {
    let manifest = root.join("interop/sdk/Cargo.toml");
    let target = dir.join("rust");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--quiet", "--manifest-path"]).arg(manifest).arg("--target-dir").arg(&target);
    done(&mut command, "cargo")?;
    Ok(vec![target.join("debug/sdk-agent").display().to_string()])
}

fn typescript_sdk(root: &Path, dir: &Path) -> Result<Vec<String>, Missing> {
    let dir = dir.join("typescript");
    make(&dir)?;
    for file in ["package.json", "agent.mjs"] {
        let from = root.join("interop/typescript").join(file);
        fs::copy(&from, dir.join(file)).map_err(|e| Missing::Failed(format!("{}: {e}", from.display())))?;
    }
    if !dir.join("node_modules/@agentclientprotocol/sdk").is_dir() {
        let mut command = Command::new("npm");
        command.current_dir(&dir).args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]);
        done(&mut command, "npm")?;
    }
    Ok(vec![program("node")?, dir.join("agent.mjs").display().to_string()])
}

fn python_sdk(_root: &Path, dir: &Path, example: &str) -> Result<Vec<String>, Missing> {
    let dir = dir.join("python");
    let python = dir.join("venv/bin/python");
    let examples = dir.join("sdist");
    if !examples.join(example).is_file() {
        make(&examples)?;
        done(Command::new("python3").args(["-m", "venv"]).arg(dir.join("venv")), "python3")?;
        let pip = |words: &[&OsStr]| {
            done(
                Command::new(&python).args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(words),
                "python3",
            )
        };
        pip(&["install".as_ref(), PYTHON_SDK.as_ref()])?;
        let fetch: [&OsStr; 7] = [
            "download".as_ref(),
            "--no-deps".as_ref(),
            "--no-binary".as_ref(),
            ":all:".as_ref(),
            "--dest".as_ref(),
            examples.as_ref(),
            PYTHON_SDK.as_ref(),
        ];
        pip(&fetch)?;
        let archive = find(&examples, ".tar.gz")?;
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(&examples);
        tar.args(["--strip-components=2", "--wildcards", "*/examples/*.py"]);
        done(&mut tar, "tar")?;
    }
    Ok(vec![python.display().to_string(), examples.join(example).display().to_string()])
}

fn make(dir: &Path) -> Result<(), Missing> {
    fs::create_dir_all(dir).map_err(|e| Missing::Failed(format!("{}: {e}", dir.display())))
}

fn find(dir: &Path, end: &str) -> Result<PathBuf, Missing> {
    let entries = fs::read_dir(dir).map_err(|e| Missing::Failed(format!("{}: {e}", dir.display())))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(end))
        .ok_or_else(|| Missing::Failed(format!("{}: no {end} in it", dir.display())))
}

/// The absolute path of a program on `PATH`, so that an agent starts with a changed environment too.
fn program(name: &'static str) -> Result<String, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .map(|found| found.display().to_string())
        .ok_or(Missing::Tool(name))
}

fn done(command: &mut Command, tool: &'static str) -> Result<(), Missing> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Missing::Failed(format!("{tool} ended with {status}"))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Missing::Tool(tool)),
        Err(e) => Err(Missing::Failed(format!("failed to run {tool}: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(id: &str, level: &str, outcome: &str) -> Report {
        let requirement = Requirement { id: id.into(), level: level.into(), outcome: outcome.into(), reason: None };
        Report { requirements: vec![requirement] }
    }

    #[track_caller]
    fn compared(committed: &str, report: &Report, expected: &[&str]) {
        let committed = toml::from_str(committed).expect("expectation parses");
        assert_eq!(compare(&committed, report), expected);
    }

    #[test]
    fn the_committed_outcome_passes() {
        compared("A = { outcome = 'pass' }", &report("A", "must", "pass"), &[]);
        compared("A = { outcome = 'fail', why = 'echoes 65535' }", &report("A", "must", "fail"), &[]);
        compared("A = { outcome = 'fail' }", &report("A", "info", "fail"), &[]);
    }

    #[test]
    fn a_stale_a_missing_and_an_unexplained_line_fail() {
        compared(
            "B = { outcome = 'pass' }",
            &report("A", "must", "pass"),
            &["A: pass, but no line is committed", "B: committed, but the pack has no such requirement"],
        );
        compared("A = { outcome = 'pass' }", &report("A", "must", "fail"), &["A: fail, committed is pass"]);
        compared("A = { outcome = 'fail' }", &report("A", "must", "fail"), &["A: fail, and no line says why"]);
    }
}
