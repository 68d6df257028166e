//! `emitted SCHEMA_DIR client|agent|both TRACE..`: whether what one end said in recordings of `pintle trace` meets the
//! published JSON Schema. Exit code 1 tells that something did not.
//!
//! `SCHEMA_DIR` has `schema.json` and `schema.unstable.json`. Both ends' frames are read, so that answers find what they
//! answer; only those of the end that is named are judged. With `--all` behind the recordings, everything that both ends
//! can say must have been said.

use std::path::Path;
use std::process::ExitCode;

use pintle_interop_schema::emitted::{Checker, From, Schema};
use serde_json::{Value, json};

/// Faults that are shown.
const MAX_SHOWN: usize = 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<String, String> {
    let [dir, whose, traces @ ..] = args else {
        return Err("usage: emitted SCHEMA_DIR client|agent|both TRACE..".into());
    };
    let judged = |from: From| match whose.as_str() {
        "client" => from == From::Client,
        "agent" => from == From::Agent,
        _ => true,
    };
    let mut checker = Checker::new(schema(dir, "schema.json")?, schema(dir, "schema.unstable.json")?);
    can_refuse(&mut checker)?;
    let mut faults = Vec::new();
    let mut frames = 0;
    for trace in traces.iter().filter(|word| *word != "--all") {
        let text = std::fs::read_to_string(trace).map_err(|e| format!("{trace}: {e}"))?;
        checker.begin();
        for (number, row) in text.lines().enumerate() {
            let row: Value = serde_json::from_str(row).map_err(|e| format!("{trace}, row {}: {e}", number + 1))?;
            if row["type"] != "frame" {
                if matches!(row["type"].as_str(), Some("lost" | "unwritten" | "limit")) {
                    return Err(format!("{trace}: the recording is not whole"));
                }
                continue;
            }
            let from = if row["dir"] == "from_agent" { From::Agent } else { From::Client };
            let read = row["text"]
                .as_str()
                .ok_or("no text")
                .and_then(|text| serde_json::from_str::<Value>(text).map_err(|_| "not JSON"));
            let looked = read.map_err(str::to_owned).and_then(|message| checker.frame(from, &message));
            if judged(from) {
                frames += 1;
                if let Err(fault) = looked {
                    faults.push(format!("{trace}, row {}: {from:?}: {fault}", number + 1));
                }
            }
        }
    }
    if frames == 0 {
        return Err("no frame was recorded".to_owned());
    }
    if traces.iter().any(|word| word == "--all") {
        faults.extend(unsaid(&checker));
    }
    if faults.is_empty() {
        return Ok(format!("{frames} frames of {} kinds meet the published schema", checker.seen.len()));
    }
    let shown = faults.len().min(MAX_SHOWN);
    Err(format!("{} faults\n  {}", faults.len(), faults[..shown].join("\n  ")))
}

fn schema(dir: &str, name: &str) -> Result<Schema, String> {
    let path = Path::new(dir).join(name);
    let text = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let root = serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    Schema::new(root).map_err(|why| format!("{}: {why}", path.display()))
}

/// A schema that accepts anything would find nothing: frames that are known to be wrong must be refused first.
fn can_refuse(checker: &mut Checker) -> Result<(), String> {
    let update =
        |update: Value| json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":update}});
    let broken = [
        (From::Client, json!({"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":7,"mcpServers":[]}})),
        (From::Client, json!({"jsonrpc":"2.0","id":{},"method":"initialize","params":{"protocolVersion":1}})),
        (From::Client, json!({"jsonrpc":"2.0","id":2,"method":"session/fly","params":{}})),
        (From::Agent, update(json!({"sessionUpdate":"agent_message_chunk","content":"text"}))),
        (From::Agent, update(json!({"sessionUpdate":"plan_update"}))),
        (From::Agent, update(json!({"sessionUpdate":"no_such_update"}))),
        (From::Agent, json!({"jsonrpc":"2.0","id":77,"result":{}})),
        (From::Agent, json!({"id":1,"method":"session/update"})),
    ];
    for (from, frame) in broken {
        if checker.frame(from, &frame).is_ok() {
            return Err(format!("the schema has nothing against {frame}"));
        }
    }
    checker.seen.clear();
    Ok(())
}

/// Methods of the table that nobody called or answered.
fn unsaid(checker: &Checker) -> Vec<String> {
    let said = |kind: &str| checker.seen.keys().any(|seen| seen == kind || seen.starts_with(&format!("{kind} ")));
    let mut missing = Vec::new();
    for row in pintle_acp::METHODS.iter().filter(|row| !row.wire.starts_with('_')) {
        if !said(row.wire) {
            missing.push(format!("`{}` was never sent", row.wire));
        }
        if row.result.is_some() && !said(&format!("result of {}", row.wire)) {
            missing.push(format!("`{}` was never answered", row.wire));
        }
    }
    for tag in pintle_acp::types::SessionUpdate::TAGS {
        if !said(&format!("session/update {tag}")) {
            missing.push(format!("no update `{tag}` was sent"));
        }
    }
    missing
}
