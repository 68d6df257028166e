//! `pintle task mcp` with the client of the rmcp crate, and with raw lines where a client is too polite.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

const TASK: &str = "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6";

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("scratch directory"))
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("tasks")
    }

    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pintle"));
        command.arg("task").args(words).env_clear().env("HOME", self.0.path()).env("PINTLE_HOME", self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    async fn client(&self, words: &[&str]) -> Client {
        self.client_of(self.command(words)).await
    }

    async fn client_of(&self, command: std::process::Command) -> Client {
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let streams = (child.stdout.take().expect("piped"), child.stdin.take().expect("piped"));
        let service = ClientConfig::default().serve(streams).await.expect("the server answers");
        Client { service, child }
    }

    fn stored(&self, session: &str) -> Value {
        let bytes = std::fs::read(self.root().join(session).join("state.json")).expect("stored");
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

struct Client {
    service: RunningService<RoleClient, ClientConfig>,
    child: tokio::process::Child,
}

impl Client {
    async fn call(&self, tool: &'static str, arguments: Value) -> (bool, Value) {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result: CallToolResult = self.service.call_tool(request).await.expect("a result");
        let text = result.content[0].as_text().expect("text").text.clone();
        let receipt: Value = serde_json::from_str(&text).expect("one line of JSON");
        assert_eq!(receipt["ok"], json!(result.is_error != Some(true)), "{receipt}");
        (receipt["ok"] == json!(true), receipt)
    }

    async fn refused(&self, tool: &'static str, arguments: Value, code: &str) -> Value {
        let (ok, receipt) = self.call(tool, arguments).await;
        assert!(!ok && receipt["code"] == json!(code), "{code}: {receipt}");
        receipt
    }

    async fn end(mut self) {
        self.service.cancel().await.expect("closes");
        let status = self.child.wait().await.expect("ends");
        assert!(status.success(), "the end of input is no failure");
    }
}

fn publish(session: &str, generation: &str, revision: u64, text: &str) -> Value {
    json!({"session_id": session, "expected_generation": generation, "expected_revision": revision, "task_id": TASK,
        "target_status": "CLEAN", "pointer_text": text})
}

#[tokio::test]
async fn the_three_tools_publish_read_and_clear_under_the_same_comparison() {
    let world = World::new();
    let client = world.client(&["mcp"]).await;
    let names: Vec<_> =
        client.service.list_all_tools().await.expect("tools").into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["task_get", "task_publish", "task_clear"]);

    let (_, absent) = client.call("task_get", json!({"session_id": "s"})).await;
    assert_eq!((&absent["generation"], &absent["revision"]), (&json!("ABSENT"), &json!(0)));
    let (ok, first) = client.call("task_publish", publish("s", "ABSENT", 0, "Goal: x\nNext: y")).await;
    assert!(ok, "{first}");
    let generation = first["generation"].as_str().expect("generation").to_owned();
    let (_, read) = client.call("task_get", json!({"session_id": "s"})).await;
    assert_eq!(read["pointer_text"], json!("Goal: x\nNext: y"));
    assert_eq!((&read["generation"], &read["revision"]), (&first["generation"], &first["revision"]));

    let stale = client.refused("task_publish", publish("s", &generation, 7, "secret text"), "STALE_REVISION").await;
    assert_eq!(stale["current"]["revision"], first["revision"]);
    assert!(!stale.to_string().contains("secret text"), "nothing is echoed: {stale}");
    client.refused("task_publish", publish("s", "ABSENT", 0, "x"), "STALE_GENERATION").await;

    let clear = json!({"session_id": "s", "expected_generation": generation, "expected_revision": 1});
    let (ok, cleared) = client.call("task_clear", clear).await;
    assert!(ok && cleared["status"] == json!("CLEARED") && cleared["revision"] == json!(2), "{cleared}");
    assert_ne!(cleared["generation"], first["generation"], "a clear is a new fence");
    assert_eq!(world.stored("s")["status"], json!("CLEARED"));
    client.end().await;
}

#[tokio::test]
async fn a_receipt_is_the_one_of_the_command() {
    let world = World::new();
    let client = world.client(&["mcp"]).await;
    let (_, by_tool) = client.call("task_publish", publish("tool", "ABSENT", 0, "x")).await;
    let mut child = world.command(&["publish"]).spawn().expect("the binary starts");
    let mut request = publish("command", "ABSENT", 0, "x");
    request["schema_version"] = json!(3);
    child.stdin.take().expect("piped").write_all(request.to_string().as_bytes()).expect("writes");
    let output = child.wait_with_output().expect("ends");
    let by_command: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let members = |receipt: &Value| receipt.as_object().expect("object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&by_tool), members(&by_command));
    client.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_a_tool_error_with_its_code() {
    let world = World::new();
    let client = world.client(&["mcp", "--root", world.root().to_str().expect("UTF-8")]).await;
    let with = |name: &str, value: Value| {
        let mut arguments = publish("s", "ABSENT", 0, "x");
        arguments[name] = value;
        arguments
    };
    let long = "x".repeat(8193);
    for (arguments, code) in [
        (with("session_id", json!("../s")), "SESSION_ID_INVALID"),
        (with("session_id", json!("s".repeat(129))), "SESSION_ID_INVALID"),
        (with("pointer_text", json!(long)), "POINTER_TOO_LARGE"),
        (with("pointer_text", json!("x".repeat(20_000))), "REQUEST_TOO_LARGE"),
        (with("pointer_text", json!(" \n")), "POINTER_EMPTY"),
        (with("task_id", json!("not a uuid")), "TASK_ID_INVALID"),
        (with("expected_revision", json!("0")), "REQUEST_SCHEMA"),
        (with("expected_revision", json!(0.5)), "REQUEST_SCHEMA"),
        (with("extra", json!(1)), "REQUEST_SCHEMA"),
        (with("schema_version", json!(2)), "REQUEST_SCHEMA"),
        (json!({}), "REQUEST_SCHEMA"),
    ] {
        client.refused("task_publish", arguments, code).await;
    }
    client.refused("task_get", json!({"session_id": "a b"}), "SESSION_ID_INVALID").await;
    client.refused("task_get", json!({"session_id": "s", "more": 1}), "REQUEST_SCHEMA").await;
    client.refused("task_clear", publish("s", "ABSENT", 0, "x"), "REQUEST_SCHEMA").await;
    let unknown = client.service.call_tool(CallToolRequestParams::new("task_other")).await;
    assert!(unknown.is_err(), "an unknown tool is an error of the protocol");
    assert!(!world.root().exists(), "nothing was written");
    client.end().await;
}

#[tokio::test]
async fn a_corrupt_record_is_told_and_stays() {
    let world = World::new();
    let client = world.client(&["mcp"]).await;
    client.call("task_publish", publish("s", "ABSENT", 0, "x")).await;
    std::fs::write(world.root().join("s/state.json"), "").expect("writes");
    client.refused("task_get", json!({"session_id": "s"}), "STATE_JSON").await;
    client.refused("task_publish", publish("s", "ABSENT", 0, "x"), "STATE_JSON").await;
    client.end().await;
}

/// A host keeps the server through `/clear`, so the session variable in its environment is an old one (A7 is for the
/// command, which runs in the session's own shell).
#[tokio::test]
async fn the_session_variable_of_the_server_does_not_count() {
    let world = World::new();
    let mut command = world.command(&["mcp", "--agent", "claude"]);
    command.env("CLAUDE_CODE_SESSION_ID", "the-old-one");
    let mut command = tokio::process::Command::from(command);
    let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
    let streams = (child.stdout.take().expect("piped"), child.stdin.take().expect("piped"));
    let service = ClientConfig::default().serve(streams).await.expect("the server answers");
    let client = Client { service, child };
    let (ok, receipt) = client.call("task_publish", publish("the-new-one", "ABSENT", 0, "x")).await;
    assert!(ok, "{receipt}");
    client.end().await;
}

/// A panic in one call is an error of that call; the server lives on.
#[tokio::test]
async fn a_panic_in_a_call_does_not_end_the_server() {
    let world = World::new();
    let mut command = world.command(&["mcp"]);
    command.env("PINTLE_TEST_PANIC", "mcp");
    let client = world.client_of(command).await;
    for _ in 0..2 {
        let arguments = json!({"session_id": "s-1"}).as_object().expect("an object").clone();
        let call = client.service.call_tool(CallToolRequestParams::new("task_get").with_arguments(arguments));
        let error = call.await.expect_err("an error of the call").to_string();
        assert!(error.contains("a fault of this server") && !error.contains("asked for"), "{error}");
    }
    assert_eq!(client.service.list_all_tools().await.expect("it lives").len(), 3);
    client.end().await;
}

/// Garbage and an over-long line cost their sender an error and nobody the connection.
#[test]
fn a_line_that_is_no_message_does_not_end_the_server() {
    let world = World::new();
    let mut child = world.command(&["mcp"]).spawn().expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut say = |line: &str| input.write_all(format!("{line}\n").as_bytes()).expect("writes");
    say(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},
        "clientInfo":{"name":"x","version":"0"}}}"#
        .replace('\n', "")
        .as_str());
    let answer = output.next().expect("a line").expect("UTF-8");
    assert!(answer.contains("pintle-task") && answer.contains("2025-06-18"), "{answer}");
    say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    say(&format!("{{\"x\":\"{}\"}}", "y".repeat(2 << 20)));
    say("not json");
    // What a model writes that was cut within an emoji: dropped, it would wait for its answer for ever.
    say(
        r#"{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"name":"task_get","arguments":{"session_id":"\ud83d"}}}"#,
    );
    let answer = output.by_ref().map_while(Result::ok).find(|line| line.contains("\"half\"")).expect("an answer");
    assert!(answer.contains("SESSION_ID_INVALID") || answer.contains("isError"), "{answer}");
    say(r#"{"jsonrpc":"2.0","id":"two","method":"ping"}"#);
    let answer = output.map_while(Result::ok).find(|line| line.contains("\"two\"")).expect("the ping is answered");
    assert!(answer.contains("result"), "{answer}");
    drop(input);
    assert!(child.wait().expect("ends").success());
}
