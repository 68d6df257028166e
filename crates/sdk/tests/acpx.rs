//! The cases of `acpx_conformance_cases.json`: an agent with the words that they need, driven by a client of ours. Both are
//! on this runtime, so what is judged is the runtime.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_sdk::acp::host::Host;
use pintle_sdk::acp::permission::Approve;
use pintle_sdk::acp::types::*;
use pintle_sdk::acp::{Agent, ClientConnection, Ctx, Error, RequestError, Turn, connect, serve};
use pintle_sdk::transport::memory;
use serde_json::{Value, json};

/// The words of the cases: `echo`, `sleep`, `read`, `write`, `late-tool`, `inspect-prompt`.
#[derive(Default)]
struct Worded {
    sessions: AtomicUsize,
}

impl Agent for Worded {
    async fn initialize(&self, request: InitializeRequest, _: &Ctx) -> Result<InitializeResponse, Error> {
        let mut capabilities = AgentCapabilities::new();
        capabilities.prompt_capabilities.embedded_context = true;
        Ok(InitializeResponse::new(request.protocol_version.answer()).agent_capabilities(capabilities))
    }

    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        Ok(NewSessionResponse::new(format!("s{}", self.sessions.fetch_add(1, Ordering::SeqCst))))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        let text = request.text();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match (word, rest.split_once(' ')) {
            ("echo", _) if rest.is_empty() => {}
            ("echo", _) => turn.agent_text(rest).await?,
            ("sleep", _) => {
                let sleep = Duration::from_millis(rest.parse().map_err(|_| Error::internal_error())?);
                tokio::select! {
                    () = turn.cancelled() => {}
                    () = tokio::time::sleep(sleep) => {} // virtual time
                }
            }
            ("read", _) => {
                if allowed(turn, ToolKind::Read).await? {
                    let text = turn.read_text_file(in_root(turn, rest)).await?;
                    turn.agent_text(text).await?;
                }
            }
            ("write", Some((path, content))) => {
                if allowed(turn, ToolKind::Edit).await? {
                    turn.write_text_file(in_root(turn, path), content).await?;
                    turn.agent_text(format!("wrote {path}")).await?;
                }
            }
            ("late-tool", Some((delay, what))) => {
                let tool = turn.start_tool(ToolCall::new("late", what)).await?;
                turn.agent_text(what).await?;
                turn.agent_text("done soon").await?;
                let delay = Duration::from_millis(delay.parse().map_err(|_| Error::internal_error())?);
                // The turn is held open for it.
                turn.spawn(async move {
                    tokio::time::sleep(delay).await; // virtual time
                    tool.complete().await.expect("the turn waits");
                })?;
            }
            ("inspect-prompt", _) | ("inspect-prompt\n", _) => {
                let kinds: Vec<&str> = request
                    .prompt
                    .iter()
                    .map(|block| match block {
                        ContentBlock::Text(_) => "text",
                        ContentBlock::Resource(_) => "resource",
                        _ => "other",
                    })
                    .collect();
                turn.agent_text(kinds.join(", ")).await?;
            }
            _ => turn.agent_text(format!("unrecognized prompt: {text}")).await?,
        }
        Ok(PromptResponse::end_turn())
    }
}

async fn allowed(turn: &Turn, kind: ToolKind) -> Result<bool, Error> {
    let mut call = ToolCall::new("c1", "Use a file");
    call.kind = kind;
    let tool = turn.start_tool(call).await?;
    let options = [
        PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
        PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
    ];
    let allowed = tool.ask(options).await?.is_allowed();
    if allowed {
        tool.complete().await?;
    } else {
        tool.fail().await?;
        turn.agent_text("permission denied").await?;
    }
    Ok(allowed)
}

/// The cases name files without a directory, or below the root of all; the client's root is the root.
fn in_root(_: &Turn, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

struct Case {
    agent: Option<ClientConnection>,
    root: tempfile::TempDir,
    approve: Approve,
    session: Value,
    /// Turns that have ended, oldest first.
    turns: Vec<(StopReason, Vec<SessionNotification>)>,
    background: Option<tokio::task::JoinHandle<(StopReason, Vec<SessionNotification>)>>,
    started: tokio::time::Instant,
    hello: Option<InitializeResponse>,
}

const README: &str = "read me";

impl Case {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        fs::write(root.path().join("README.md"), README).expect("a file");
        Self {
            agent: None,
            root,
            approve: Approve::All,
            session: Value::Null,
            turns: Vec::new(),
            background: None,
            started: tokio::time::Instant::now(),
            hello: None,
        }
    }

    fn root(&self) -> PathBuf {
        self.root.path().canonicalize().expect("it is there")
    }

    /// Connects, with the policy that was set before.
    async fn agent(&mut self) -> &ClientConnection {
        if self.agent.is_none() {
            let host =
                Host::builder().root(self.root()).rerooted().read_files().write_files().permissions(self.approve);
            let (ours, theirs) = memory();
            tokio::spawn(serve(Worded::default(), theirs));
            let agent = connect(host.build().expect("the root opens"), ours).expect("memory opens");
            self.hello = Some(agent.initialize().await.expect("an answer"));
            self.agent = Some(agent);
        }
        self.agent.as_ref().expect("connected")
    }

    async fn step(&mut self, step: &Value) {
        let members = step.as_object().expect("an object");
        let beside = ["expect_error", "session"];
        let (name, argument) = members.iter().find(|(name, _)| !beside.contains(&name.as_str())).expect("a step");
        match name.as_str() {
            "mode" => self.approve = if argument == "deny-all" { Approve::None } else { Approve::All },
            "sleep_ms" => tokio::time::sleep(Duration::from_millis(argument.as_u64().expect("ms"))).await, // virtual time
            "new_session" => {
                let cwd = argument.get("cwd").cloned().unwrap_or_else(|| json!("/"));
                let params = json!({ "cwd": cwd, "mcpServers": [] });
                let made = self.agent().await.ext_request("session/new", &params).await;
                if let Some(made) = expected(step, made) {
                    let made: Value = serde_json::from_str(made.as_str()).expect("JSON");
                    self.session = made["sessionId"].clone();
                }
            }
            "prompt" if step.get("expect_error").is_some() => {
                let params = json!({ "sessionId": step["session"], "prompt": argument });
                let answer = self.agent().await.ext_request("session/prompt", &params).await;
                assert!(expected(step, answer).is_none());
            }
            "prompt" => {
                self.prompt(argument).await;
                self.ended().await;
            }
            "prompt_background" => self.prompt(argument).await,
            "cancel" => {
                let session = SessionId::from(self.session.as_str().expect("a session"));
                self.agent().await.cancel(&session);
            }
            "await" => self.ended().await,
            other => panic!("nobody can do `{other}`"),
        }
    }

    async fn prompt(&mut self, prompt: &Value) {
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        let request: PromptRequest = serde_json::from_value(params).expect("a prompt");
        let mut stream = self.agent().await.prompt_stream(request).await.expect("sent");
        self.background = Some(tokio::spawn(async move {
            let mut updates = Vec::new();
            while let Some(update) = stream.next().await {
                updates.push(update);
            }
            (stream.finish().await.expect("an answer").stop_reason, updates)
        }));
    }

    async fn ended(&mut self) {
        let turn = self.background.take().expect("a turn runs").await.expect("no panic");
        self.turns.push(turn);
    }

    fn said(&self) -> String {
        let chunks = self.turns.iter().flat_map(|(_, updates)| updates).filter_map(|update| update.update.chunk());
        chunks.filter_map(|chunk| chunk.content.as_text()).collect()
    }

    fn stops(&self) -> Vec<&StopReason> {
        self.turns.iter().map(|(stop, _)| stop).collect()
    }

    fn updates(&self) -> impl Iterator<Item = &SessionNotification> {
        self.turns.iter().flat_map(|(_, updates)| updates)
    }

    fn all_mine(&self) -> bool {
        self.updates().all(|update| json!(update.session_id.as_str()) == self.session)
    }

    /// Whether what the case says of itself is so.
    fn holds(&self, check: &str) -> bool {
        let hello = self.hello.as_ref().expect("a handshake");
        match check {
            "reply carries an integer protocolVersion" => hello.protocol_version == ProtocolVersion::V1,
            // A reply whose capabilities are no object would not have been read as one.
            "agentCapabilities absent or an object" => hello.agent_capabilities.prompt_capabilities.embedded_context,
            "session id is a non-empty string" => self.session.as_str().is_some_and(|id| !id.is_empty()),
            "stop reason end_turn" | "end_turn" | "following prompt runs" => self.stops() == [&StopReason::EndTurn],
            "both end_turn" => self.stops() == [&StopReason::EndTurn; 2],
            "at least one update, all for this session" => self.updates().count() > 0 && self.all_mine(),
            "at least 4 updates, all this session" => self.updates().count() >= 4 && self.all_mine(),
            "a tool_call and a tool_call_update among them" => {
                self.updates().any(|update| matches!(update.update, SessionUpdate::ToolCall(_)))
                    && self.updates().any(|update| matches!(update.update, SessionUpdate::ToolCallUpdate(_)))
            }
            // A stream ends with the reply: what it gave came before.
            "updates arrive before the reply" => self.updates().count() > 0,
            "reply carries the stop reason" => self.stops().len() == 1,
            "stop reason cancelled, well under 5 s" => {
                self.stops() == [&StopReason::Cancelled] && self.started.elapsed() < Duration::from_secs(1)
            }
            "no reply to the cancel" => self.agent.as_ref().is_some_and(|agent| agent.counters().late_response == 0),
            "first cancelled, second end_turn" => self.stops() == [&StopReason::Cancelled, &StopReason::EndTurn],
            "stop reason in end_turn, cancelled, failed" => {
                matches!(self.stops()[..], [StopReason::EndTurn | StopReason::Cancelled])
            }
            "updates contain hello" => self.said().contains("hello"),
            "updates contain one and two" => self.said() == "onetwo",
            "updates contain 'permission denied'" => self.said().contains("permission denied"),
            "updates contain 'unrecognized prompt'" => self.said().contains("unrecognized prompt: gibberish"),
            "updates describe both blocks" => self.said() == "text, resource",
            "updates contain the file's text" => self.said().contains(README),
            "updates contain 'wrote /tmp/x.txt'" => {
                let written = fs::read_to_string(self.root().join("tmp/x.txt"));
                self.said().contains("wrote /tmp/x.txt") && written.is_ok_and(|text| text == "hello")
            }
            other => panic!("nobody can check `{other}`"),
        }
    }
}

/// What came of a request, if that is what the step expects; the result where no error is expected.
fn expected<T: std::fmt::Debug>(step: &Value, answer: Result<T, RequestError>) -> Option<T> {
    match (&step["expect_error"], answer) {
        (Value::Null, answer) => Some(answer.expect("a result")),
        (Value::Number(code), Err(RequestError::Peer(error))) => {
            assert_eq!(Some(error.code.get()), code.as_i64(), "{step}");
            None
        }
        (Value::String(_), Err(RequestError::Peer(_))) => None,
        (_, answer) => panic!("{step}: {answer:?}"),
    }
}

/// Time is virtual: a case that says "sleep" costs nothing, and "well under 5 s" is exact.
#[tokio::test(start_paused = true)]
async fn every_acpx_case_holds() {
    let file: Value =
        serde_json::from_str(include_str!("../../../testdata/acp/acpx_conformance_cases.json")).expect("JSON");
    let cases = file["cases"].as_array().expect("a list");
    for case in cases {
        let id = case["id"].as_str().expect("an id");
        let mut run = Case::new();
        for step in case["steps"].as_array().expect("a list") {
            run.step(step).await;
        }
        run.agent().await;
        for check in case["checks"].as_array().expect("a list") {
            let check = check.as_str().expect("a text");
            assert!(run.holds(check), "{id}: {check}: {:?} {:?}", run.stops(), run.said());
        }
    }
    assert_eq!(cases.len(), 21);
}
