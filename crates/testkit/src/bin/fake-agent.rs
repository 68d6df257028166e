//! An ACP agent with scripted faults, for the tests of everything that talks to agents.
//!
//! Without arguments it is small and correct. Each argument `EVENT=ACTION[,ACTION..]` replaces what it does when EVENT
//! happens: a method's name, `start` (before the first line), `prompt-cancelled` (a cancel hits an open prompt), `eof`,
//! `term` (only `term=ignore`). Actions run in order:
//!
//! | action | what it does |
//! | --- | --- |
//! | `reply` | the correct reply (the default of every request) |
//! | `none` | nothing, so that the request stays open |
//! | `error:CODE` | an error reply |
//! | `result:JSON` | a reply with this result |
//! | `wrong-id` | a correct reply to another id |
//! | `print:TEXT` | a line on standard output |
//! | `raw:HEX` | bytes on standard output |
//! | `stderr:TEXT` | a line on standard error |
//! | `flood:N` | N updates |
//! | `flood-stderr:BYTES` | that much on standard error |
//! | `big:BYTES` | one update of about that size |
//! | `call:METHOD[:PATH]` | a request to the client; its answer is written to standard error |
//! | `half` | half of a reply without a line feed, then exit 3 |
//! | `exit:CODE` | exit |
//! | `abort` | die by a signal |
//! | `grandchild` | leave a process in its own session that holds standard output |
//! | `hang` | sleep for ever, reading nothing |
//!
//! A prompt whose text is `wait` stays open until it is cancelled.

use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio, abort};

use serde_json::{Value, json};

fn main() {
    let mut rules: Vec<(String, Vec<String>)> = Vec::new();
    for arg in std::env::args().skip(1) {
        if arg == "sleeper" {
            sleeper();
        }
        if arg == "term=ignore" {
            ignore_term();
        }
        if let Some((event, actions)) = arg.split_once('=') {
            rules.push((event.to_owned(), split_actions(actions)));
        }
    }
    let mut agent = Agent { rules, sessions: 0, open: None, calls: 0 };
    agent.event("start", None, &[]);
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            print(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "parse error"}}));
            continue;
        };
        agent.message(&message);
    }
    agent.event("eof", None, &[]);
}

struct Agent {
    rules: Vec<(String, Vec<String>)>,
    sessions: u32,
    /// Id of a prompt that waits for its cancel.
    open: Option<Value>,
    calls: u32,
}

impl Agent {
    fn message(&mut self, message: &Value) {
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            complain(&format!("answer {message}"));
            return;
        };
        match message.get("id") {
            Some(_) => self.event(method, Some(message), &["reply"]),
            None if method == "session/cancel" => {
                if let Some(id) = self.open.take() {
                    let request = json!({"id": id, "method": "prompt-cancelled"});
                    self.event("prompt-cancelled", Some(&request), &["result:{\"stopReason\":\"cancelled\"}"]);
                }
            }
            None => self.event(method, None, &[]),
        }
    }

    fn event(&mut self, event: &str, request: Option<&Value>, default: &[&str]) {
        let rule = self.rules.iter().find(|(name, _)| name == event).map(|(_, actions)| actions.clone());
        let actions = rule.unwrap_or_else(|| default.iter().map(|action| (*action).to_owned()).collect());
        for action in actions {
            let (verb, argument) = action.split_once(':').unwrap_or((&action, ""));
            self.act(verb, argument, request);
        }
    }

    fn act(&mut self, verb: &str, argument: &str, request: Option<&Value>) {
        let id = request.map_or(Value::Null, |request| request["id"].clone());
        let number = || argument.parse::<usize>().unwrap_or(0);
        match verb {
            "reply" => self.reply(&id, request.unwrap_or(&Value::Null)),
            "none" => {}
            "error" => {
                let code: i64 = argument.parse().unwrap_or(-32603);
                print(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "scripted"}}));
            }
            "result" => {
                let result: Value = serde_json::from_str(argument).unwrap_or(Value::Null);
                print(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
            "wrong-id" => self.reply(&json!("another"), request.unwrap_or(&Value::Null)),
            "print" => write_out(format!("{argument}\n").as_bytes()),
            "raw" => write_out(&from_hex(argument)),
            "stderr" => complain(argument),
            "flood" => {
                for _ in 0..number() {
                    self.update("flood");
                }
            }
            "flood-stderr" => {
                let line = [b'x'; 1024];
                for _ in 0..number().div_ceil(1024) {
                    let _closed = io::stderr().write_all(&line);
                }
            }
            "big" => self.update(&"x".repeat(number())),
            "call" => {
                self.calls += 1;
                let (method, path) = argument.split_once(':').unwrap_or((argument, "/nowhere"));
                let params = json!({"sessionId": format!("s-{}", self.sessions), "path": path, "content": "",
                    "toolCall": {"toolCallId": "t"}, "options": [
                        {"optionId": "no", "name": "No", "kind": "reject_once"},
                        {"optionId": "yes", "name": "Yes", "kind": "allow_once"}]});
                print(
                    &json!({"jsonrpc": "2.0", "id": format!("c-{}", self.calls), "method": method, "params": params}),
                );
            }
            "half" => {
                let reply = json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string();
                write_out(&reply.as_bytes()[..reply.len() / 2]);
                leave(3);
            }
            "exit" => leave(argument.parse().unwrap_or(1)),
            "abort" => abort(),
            "grandchild" => grandchild(),
            "hang" => sleep_for_ever(),
            other => complain(&format!("unknown action {other}")),
        }
    }

    fn reply(&mut self, id: &Value, request: &Value) {
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [],
                "agentInfo": {"name": "fake-agent", "version": "0"}}),
            "authenticate" => json!({}),
            "session/new" => {
                self.sessions += 1;
                json!({"sessionId": format!("s-{}", self.sessions)})
            }
            "session/prompt" => {
                self.update("hello");
                if request.pointer("/params/prompt/0/text") == Some(&json!("wait")) {
                    self.open = Some(id.clone());
                    return;
                }
                json!({"stopReason": "end_turn"})
            }
            _ => {
                let error = json!({"code": -32601, "message": "method not found"});
                return print(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        print(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn update(&self, text: &str) {
        let session = format!("s-{}", self.sessions);
        print(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session,
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}}));
    }
}

/// Splits at commas, but not inside braces, so that an action can carry JSON.
fn split_actions(text: &str) -> Vec<String> {
    let (mut actions, mut depth) = (vec![String::new()], 0_i32);
    for c in text.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                actions.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = actions.last_mut() {
            last.push(c);
        }
    }
    actions
}

fn print(message: &Value) {
    write_out(format!("{message}\n").as_bytes());
}

/// A client that has gone away is no reason to complain.
fn write_out(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        leave(0);
    }
}

#[expect(clippy::exit, reason = "to exit at a chosen moment is what this program is for")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

fn complain(text: &str) {
    let _closed = writeln!(io::stderr(), "{text}");
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// An ignored signal stays ignored over exec, so the shell can do for us what std cannot.
#[cfg(unix)]
fn ignore_term() {
    use std::os::unix::process::CommandExt;
    let args = std::env::args().skip(1).filter(|arg| arg != "term=ignore");
    let Ok(this) = std::env::current_exe() else { return };
    let error = Command::new("/bin/sh").args(["-c", "trap '' TERM; exec \"$0\" \"$@\""]).arg(this).args(args).exec();
    complain(&format!("no shell: {error}"));
}

#[cfg(not(unix))]
fn ignore_term() {}

fn grandchild() {
    let Ok(this) = std::env::current_exe() else { return };
    let mut command = Command::new(this);
    command.arg("sleeper").stdin(Stdio::null());
    match command.spawn() {
        Ok(child) => complain(&format!("grandchild {}", child.id())),
        Err(error) => complain(&format!("no grandchild: {error}")),
    }
}

/// A process in a session of its own that never ends.
fn sleeper() -> ! {
    #[cfg(unix)]
    let _leader_already = rustix::process::setsid();
    sleep_for_ever()
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
