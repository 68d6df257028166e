//! Clients on the official SDKs with our mock agent, and our client with agents on them, step by step.
//!
//! `interop/scenarios.toml` has what clients do with the mock agent, `interop/agents.toml` what our client does with the
//! SDKs' agents, each step with the lines that must come of it. What one SDK cannot do, or does otherwise, stands there
//! with the reason; a step that a client skips without such an entry fails, and so does an entry that is no longer true.
//!
//! Every play is recorded by `pintle trace`, and what our end said in it is held against the JSON Schema of the npm package
//! `@agentclientprotocol/sdk` ([`schema`]).

mod schema;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::facts::{Played, lines};
use crate::install::{self, Missing, Places, Tally};

/// Longer than any client needs for all its steps, on a machine that does much else.
const PLAY_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

/// One file of steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenarios {
    step: Vec<Step>,
}

/// One step. What the clients read of it is passed on as it is.
#[derive(Clone, Deserialize)]
struct Step {
    name: String,
    expect: Vec<String>,
    #[serde(default)]
    summary: bool,
    #[serde(default)]
    except: Vec<Except>,
    #[serde(flatten)]
    action: BTreeMap<String, toml::Value>,
}

/// What one SDK does otherwise.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Except {
    /// Names of clients, or of agents.
    of: Vec<String>,
    why: String,
    /// What comes of the step then; nothing where the SDK cannot do it.
    #[serde(default)]
    expect: Option<Vec<String>>,
    /// The updates to wait for then.
    #[serde(default)]
    updates: Option<usize>,
}

/// A step as a client reads it.
#[derive(Serialize)]
struct Action<'a> {
    name: &'a str,
    #[serde(flatten)]
    action: &'a BTreeMap<String, toml::Value>,
}

type Install = fn(&Places) -> Result<Vec<String>, Missing>;

/// Clients that play with the mock agent.
const CLIENTS: [(&str, Install); 4] = [
    ("pintle-client", ours),
    ("rust-sdk-client", |places| install::rust_sdk(places, "sdk-client")),
    ("typescript-sdk-client", |places| install::typescript_sdk(places, "client.mjs")),
    ("python-sdk-client", |places| install::python_program(places, "client.py")),
];

/// Agents that our client plays with.
const AGENTS: [(&str, Install); 3] = [
    ("rust-sdk-agent", |places| install::rust_sdk(places, "sdk-agent")),
    ("typescript-sdk-agent", |places| install::typescript_sdk(places, "agent.mjs")),
    ("python-sdk-agent", |places| install::python_program(places, "agent.py")),
];

/// One play of a file of steps: a client and an agent, if both could be installed.
struct Game {
    title: String,
    /// The peer that exceptions are for.
    name: &'static str,
    file: &'static str,
    programs: Result<(Vec<String>, Vec<String>), Missing>,
}

/// Plays all, or the one named with `--only`.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let places = Places::new(root, words);
    let only = install::option(words, "--only");
    let chosen = |name: &str| only.is_none_or(|only| only == name);
    let mock = [places.pintle.display().to_string(), "mock".to_owned(), "agent".to_owned()].to_vec();
    let mut said = schema::Said::default();
    let mut games = Vec::new();
    // One after the other: two that install the same thing would be in each other's way.
    for (name, client) in CLIENTS.iter().filter(|(name, _)| chosen(name)) {
        let agent = said.recorded(&places, name, schema::Whose::of_client(name), &mock);
        games.push(Game {
            title: format!("{name} with our mock agent"),
            name,
            file: "scenarios.toml",
            programs: client(&places).map(|client| (client, agent)),
        });
    }
    for (name, agent) in AGENTS.iter().filter(|(name, _)| chosen(name)) {
        let agent = agent(&places).map(|agent| said.recorded(&places, name, schema::Whose::Client, &agent));
        games.push(Game {
            title: format!("our client with {name}"),
            name,
            file: "agents.toml",
            programs: ours(&places).and_then(|client| Ok((client, agent?))),
        });
    }
    let results = install::side_by_side(games, |game: Game| {
        let played = game.programs.and_then(|(client, agent)| play(&places, game.name, game.file, &client, &agent));
        (game.title, played)
    });
    let mut tally = Tally::default();
    for (title, played) in results {
        tally.note(&title, played);
    }
    tally.note("what we say, against the published schema", said.check(&places));
    tally.end()
}

/// Our own client: a program of the test kit, on `pintle_sdk::acp::Client`.
fn ours(places: &Places) -> Result<Vec<String>, Missing> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(&places.root).args(["build", "--workspace", "--quiet", "--bin", "steps-client"]);
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => return Err(Missing::Failed(format!("cargo build --bin steps-client: {other:?}"))),
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| places.root.join("target"), Into::into);
    Ok(vec![target.join("debug/steps-client").display().to_string()])
}

/// Plays the steps of `file` and compares. `name` is the peer that exceptions are for.
fn play(places: &Places, name: &str, file: &str, client: &[String], agent: &[String]) -> Result<String, Missing> {
    let path = places.root.join("interop").join(file);
    let text = fs::read_to_string(&path).map_err(|e| Missing::at(&path, e))?;
    let mut scenarios: Scenarios = toml::from_str(&text).map_err(|e| Missing::at(&path, e))?;
    for step in &mut scenarios.step {
        if let Some(updates) = step.exception(name).and_then(|except| except.updates) {
            let count = i64::try_from(updates).unwrap_or(i64::MAX);
            step.action.insert("updates".to_owned(), toml::Value::Integer(count));
        }
    }
    let dir = places.dir.join("interop").join(name);
    let cwd = dir.join("cwd");
    let _ = fs::remove_dir_all(&cwd);
    install::make(&cwd)?;
    let steps = dir.join("steps.json");
    let actions: Vec<Action<'_>> =
        scenarios.step.iter().map(|step| Action { name: &step.name, action: &step.action }).collect();
    let json = serde_json::to_vec(&actions).map_err(|e| Missing::at(&steps, e))?;
    fs::write(&steps, json).map_err(|e| Missing::at(&steps, e))?;

    let Some((program, args)) = client.split_first() else { return Err(Missing::Failed("no client".to_owned())) };
    let mut command = Command::new(program);
    command.args(args).arg(&steps).arg(&cwd).args(agent).env("HOME", &dir);
    let (status, stdout) =
        bounded(&mut command).map_err(|e| Missing::Failed(format!("failed to run {program}: {e}")))?;
    fs::write(dir.join("played.ndjson"), &stdout).map_err(|e| Missing::at(&dir, e))?;
    let played: Result<Vec<Played>, _> =
        stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(serde_json::from_slice).collect();
    let played = played.map_err(|e| Missing::at(&dir.join("played.ndjson"), e))?;
    let (differences, skipped) = compare(name, &scenarios.step, &played, &cwd.display().to_string());
    for (step, why) in &skipped {
        println!("  SKIPPED for {name}: {step}: {why}");
    }
    match status {
        Some(status) if status.success() => {}
        Some(status) => return Err(Missing::Failed(format!("ended with {status}\n{}", differences.join("\n")))),
        None => return Err(Missing::Failed(format!("hung for {PLAY_MAX:?}\n{}", differences.join("\n")))),
    }
    if !differences.is_empty() {
        return Err(Missing::Failed(format!("{} steps differ\n{}", differences.len(), differences.join("\n"))));
    }
    Ok(format!("{} steps as written, {} skipped", scenarios.step.len() - skipped.len(), skipped.len()))
}

/// Runs a program and reads its output to the end; no status if it hung and was killed.
fn bounded(command: &mut Command) -> io::Result<(Option<ExitStatus>, Vec<u8>)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is what there is to show.
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if began.elapsed() < PLAY_MAX => thread::sleep(POLL),
            None => {
                child.kill()?;
                child.wait()?;
                break None;
            }
        }
    };
    Ok((status, reader.join().unwrap_or_default()))
}

impl Step {
    fn exception(&self, name: &str) -> Option<&Except> {
        self.except.iter().find(|except| except.of.iter().any(|of| of == name))
    }
}

/// What differs, and what was skipped as it may be.
fn compare(name: &str, steps: &[Step], played: &[Played], cwd: &str) -> (Vec<String>, Vec<(String, String)>) {
    let (mut differences, mut skipped) = (Vec::new(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        let Some(played) = played.get(number).filter(|played| played.step == step.name) else {
            differences.push(format!("  {}: not played", step.name));
            break;
        };
        let except = step.exception(name);
        match (&played.skipped, except) {
            (Some(_), Some(Except { expect: None, why, .. })) => {
                skipped.push((step.name.clone(), why.clone()));
                continue;
            }
            (Some(said), _) => {
                differences.push(format!("  {}: skipped, and no entry allows it: {said}", step.name));
                continue;
            }
            (None, Some(Except { expect: None, .. })) => {
                differences.push(format!("  {}: the SDK can do it after all, the entry is stale", step.name));
                continue;
            }
            _ => {}
        }
        let seen = lines(played, cwd, step.summary);
        let expected = except.and_then(|except| except.expect.as_ref());
        if expected.is_some_and(|expected| *expected == step.expect) {
            differences.push(format!("  {}: the entry says what all do, it is stale", step.name));
        }
        if seen != *expected.unwrap_or(&step.expect) {
            let list = |lines: &[String]| lines.join("\n      ");
            let expected = expected.unwrap_or(&step.expect);
            differences.push(format!(
                "  {}\n    expected\n      {}\n    seen\n      {}",
                step.name,
                list(expected),
                list(&seen)
            ));
        }
    }
    if played.len() > steps.len() {
        differences.push(format!("  {} more lines than steps", played.len() - steps.len()));
    }
    (differences, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(steps: &str, played: &str, differences: usize, skipped: usize) {
        let steps: Scenarios = toml::from_str(steps).expect("steps");
        let played: Vec<Played> = serde_json::from_str(played).expect("played");
        let (found, passed_over) = compare("x", &steps.step, &played, "/");
        assert_eq!((found.len(), passed_over.len()), (differences, skipped), "{found:?}");
    }

    #[test]
    fn what_differs_is_told() {
        let steps = "[[step]]\nname = 'a'\ndo = 'cancel'\nexpect = ['{}']\n";
        check(steps, r#"[{"step":"a","result":{}}]"#, 0, 0);
        check(steps, r#"[{"step":"a","error":-1}]"#, 1, 0);
        check(steps, "[]", 1, 0);
        check(steps, r#"[{"step":"a","result":{}},{"step":"b","result":{}}]"#, 1, 0);
        check(steps, r#"[{"step":"a","skipped":"cannot"}]"#, 1, 0);
    }

    #[test]
    fn an_entry_allows_what_it_says_and_goes_stale() {
        let skip = "[[step]]\nname = 'a'\ndo = 'cancel'\nexpect = ['{}']\nexcept = [{ of = ['x'], why = 'cannot' }]\n";
        check(skip, r#"[{"step":"a","skipped":"cannot"}]"#, 0, 1);
        check(skip, r#"[{"step":"a","result":{}}]"#, 1, 0);
        let other = "[[step]]\nname = 'a'\ndo = 'cancel'\nexpect = ['{}']\nexcept = [{ of = ['x'], why = 'w', expect = ['error -1'] }]\n";
        check(other, r#"[{"step":"a","error":-1}]"#, 0, 0);
        check(other, r#"[{"step":"a","result":{}}]"#, 1, 0);
    }
}
