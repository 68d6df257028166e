//! A publish the way the model does it, on a session of its own that is removed afterwards: by the command of the
//! `publisher:` line, and by the MCP server as it is registered.

use std::fmt::Display;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pintle_pointer::{Agent, Expectation, Observed, Pointer, PointerText, PublishRequest, SessionId, Task, TaskId};
use pintle_store::RealFs;
use pintle_store::pointer::{PUBLISH_LOCK_WAIT, PointerStore, fresh};
use serde_json::{Value, json};

use super::super::child::{self, Talk};
use super::finding::{Finding, Report};
use super::scratch_word;

/// How long one publish may take, start of the program and wait for the lock included.
const PUBLISH_WAIT: Duration = Duration::from_secs(20);
/// Messages that the server may send before its answer.
const MESSAGES_MAX: usize = 32;

/// What is published.
const TEXT: &str = "Goal: see whether a publish comes through.";

/// Publishes by both ways and removes what came of it.
pub(super) fn check(agent: Agent, root: &Path, program: &str, server: Option<&[String]>, report: &mut Report) {
    let Ok(word) = scratch_word() else { return };
    let Ok(session) = format!("pintle-doctor-{word}").parse::<SessionId>() else { return };
    let store = PointerStore::new(&RealFs, root);
    match by_command(&store, &session, agent, program) {
        Ok(()) => report.add(Finding::ok(agent, "publish_command", "a publish by the command comes through")),
        Err(why) => report.add(
            Finding::fail(agent, "publish_command", format!("a publish by the command does not come through: {why}"))
                .step("try it: pintle task publish, one JSON request on standard input"),
        ),
    }
    if let Some(server) = server {
        match by_tool(&store, &session, agent, server) {
            Ok(()) => report.add(Finding::ok(agent, "publish_tool", "a publish by the MCP tool comes through")),
            Err(why) => report.add(
                Finding::fail(agent, "publish_tool", format!("a publish by the MCP tool does not come through: {why}"))
                    .step(format!("pintle task install --agent {agent}")),
            ),
        }
    }
    let removed = store.try_lock_existing(&session).and_then(|locked| match locked {
        Some(locked) => fresh().and_then(|fresh| locked.remove(fresh.random)),
        None => Ok(()),
    });
    if let Err(error) = removed {
        report.add(Finding::note(agent, "scratch_left", format!("remove session {session}: {}", error.full_message())));
    }
}

fn by_command(store: &PointerStore<'_>, session: &SessionId, agent: Agent, program: &str) -> Result<(), String> {
    let request = next_request(store, session)?;
    let mut command = Command::new(program);
    command.args(["task", "publish", "--agent", agent.as_str(), "--root"]).arg(store.root());
    unset_session(&mut command, agent);
    let ran = child::run(&mut command, &request.to_json(), PUBLISH_WAIT).map_err(|error| failed(program, &error))?;
    judge(store, &request, &ran.stdout)
}

fn by_tool(store: &PointerStore<'_>, session: &SessionId, agent: Agent, server: &[String]) -> Result<(), String> {
    let Some((program, args)) = server.split_first() else { return Err("its command is empty".to_owned()) };
    let request = next_request(store, session)?;
    let mut command = Command::new(program);
    command.args(args);
    if !args.iter().any(|word| word == "--root") {
        command.arg("--root").arg(store.root());
    }
    unset_session(&mut command, agent);
    let mut talk = Talk::start(&mut command, PUBLISH_WAIT).map_err(|error| failed(program, &error))?;
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "pintle-doctor", "version": env!("CARGO_PKG_VERSION")}});
    ask(&mut talk, 1, "initialize", &hello)?;
    let said = talk.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    said.map_err(|error| failed(program, &error))?;
    let arguments: Value = serde_json::from_str(&request.to_json()).unwrap_or_default();
    let result = ask(&mut talk, 2, "tools/call", &json!({"name": "task_publish", "arguments": arguments}))?;
    talk.close_input();
    judge(store, &request, result["content"][0]["text"].as_str().unwrap_or_default())
}

/// One request of JSON-RPC and its answer.
fn ask(talk: &mut Talk, id: u64, method: &str, params: &Value) -> Result<Value, String> {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    talk.write(&format!("{call}\n")).map_err(|error| format!("{method}: {error}"))?;
    for _ in 0..MESSAGES_MAX {
        let line = talk.line().map_err(|error| format!("{method}: {error}"))?;
        let Some(line) = line else { return Err(format!("{method}: the server ended without an answer")) };
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            return Err(format!("{method}: the server wrote a line that is not JSON"));
        };
        if message["id"] == json!(id) {
            return match message.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(format!("{method}: {}", message["error"]["message"].as_str().unwrap_or("no result"))),
            };
        }
    }
    Err(format!("{method}: no answer among {MESSAGES_MAX} messages"))
}

fn next_request(store: &PointerStore<'_>, session: &SessionId) -> Result<PublishRequest, String> {
    let observed = store.observe(session).map_err(|error| error.full_message())?;
    let expected: Expectation = observed.expectation().ok_or("the scratch session cannot be read")?;
    let random = fresh().map_err(|error| error.full_message())?.random;
    let text = PointerText::publish(TEXT).map_err(|error| error.to_string())?;
    let target = Pointer::Clean(Task { id: TaskId::from_random(random), text });
    Ok(PublishRequest { session_id: session.clone(), expected, target })
}

/// The receipt says yes, and the record says the same: a program that writes to another root is found here.
fn judge(store: &PointerStore<'_>, request: &PublishRequest, receipt: &str) -> Result<(), String> {
    let receipt: Value = serde_json::from_str(receipt.trim()).map_err(|_| "the answer is not a receipt".to_owned())?;
    if receipt["ok"] != json!(true) {
        let part = |name: &str| receipt[name].as_str().unwrap_or("?").to_owned();
        return Err(format!("{}: {}", part("code"), part("message")));
    }
    let locked = store.lock(&request.session_id, PUBLISH_LOCK_WAIT).map_err(|error| error.full_message())?;
    match locked.observed() {
        Observed::Current(state)
            if state.revision.get() == request.expected.revision + 1 && state.pointer == request.target =>
        {
            Ok(())
        }
        _ => Err(format!("it was published, but not into `{}`", store.root().display())),
    }
}

/// The doctor may itself run in a session of that agent, which is not the scratch session.
fn unset_session(command: &mut Command, agent: Agent) {
    if let Some(variable) = agent.session_variable() {
        command.env_remove(variable);
    }
}

fn failed(program: &str, error: &dyn Display) -> String {
    format!("run `{program}`: {error}")
}
