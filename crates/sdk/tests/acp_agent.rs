//! The agent's side over an in-process pair: raw lines in, raw lines out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_sdk::acp::types::{
    AgentCapabilities, AuthenticateRequest, AuthenticateResponse, List, NewSessionRequest, NewSessionResponse,
    PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse, Raw, ToolCallUpdate,
};
use pintle_sdk::acp::{Agent, Ctx, Error, RawJson, Turn, serve};
use pintle_sdk::transport::memory;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Behaves as the text of the prompt says.
#[derive(Default)]
struct Scripted {
    sessions: AtomicUsize,
    prompts: Arc<AtomicUsize>,
}

impl Agent for Scripted {
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::new().load_session(true)
    }

    async fn authenticate(&self, _: AuthenticateRequest, _: &Ctx) -> Result<AuthenticateResponse, Error> {
        panic!("secret detail")
    }

    async fn new_session(&self, _: NewSessionRequest, cx: &Ctx) -> Result<NewSessionResponse, Error> {
        let id = format!("s{}", self.sessions.fetch_add(1, Ordering::SeqCst) + 1);
        let commands = pintle_sdk::acp::types::AvailableCommandsUpdate::new(List::default());
        cx.update_session(id.as_str(), pintle_sdk::acp::types::SessionUpdate::AvailableCommandsUpdate(commands))
            .await?;
        Ok(NewSessionResponse::new(id))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        self.prompts.fetch_add(1, Ordering::SeqCst);
        match request.text().as_str() {
            "panic" => panic!("secret detail"),
            "wait" => {
                turn.cancelled().await;
                Ok(PromptResponse::end_turn())
            }
            "deaf" => std::future::pending().await,
            "ask" => {
                let options = [
                    PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
                    PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
                ];
                let decision = turn.ask_permission(ToolCallUpdate::new("c1"), options).await?;
                turn.agent_text(decision.to_string()).await?;
                Ok(PromptResponse::end_turn())
            }
            "subtask" => {
                let inner = turn.clone();
                turn.spawn(async move {
                    tokio::time::sleep(Duration::from_secs(1)).await; // virtual time
                    inner.agent_text("from the subtask").await.expect("the turn is held open");
                })?;
                Ok(PromptResponse::end_turn())
            }
            text => {
                turn.agent_text(text).await?;
                Ok(PromptResponse::end_turn())
            }
        }
    }

    async fn ext_request(&self, method: &str, params: Option<RawJson>, cx: &Ctx) -> Result<Raw, Error> {
        match method {
            "_t/echo" => Ok(Raw::parse(params.map_or("null".to_owned(), |p| p.as_str().to_owned())).expect("scanned")),
            "_t/never" => std::future::pending().await,
            "_t/nested" => {
                let answer = cx.ext_request("_c/ask", &json!({})).await?;
                Ok(Raw::parse(answer.as_str()).expect("scanned"))
            }
            "_t/deferred" => {
                let reply = cx.delegate_reply::<Value>().expect("the first to take it");
                tokio::spawn(async move { reply.send(Ok(json!("later"))) });
                cx.deferred()
            }
            "_t/dropped" => {
                drop(cx.delegate_reply::<Value>());
                cx.deferred()
            }
            "_t/undelegated" => cx.deferred(),
            _ => Err(Error::method_not_found(method)),
        }
    }
}

/// The other end of the pair: lines as text.
struct Peer {
    reader: tokio::io::ReadHalf<tokio::io::DuplexStream>,
    writer: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    buffer: Vec<u8>,
    served: tokio::task::JoinHandle<Result<pintle_sdk::acp::Closed, pintle_sdk::acp::ServeError>>,
}

impl Peer {
    async fn start(agent: impl Agent) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let transport = pintle_sdk::transport::stream(reader, writer);
        let served = tokio::spawn(serve(agent, transport));
        let (reader, writer) = tokio::io::split(ours);
        Self { reader, writer, buffer: Vec::new(), served }
    }

    async fn initialized(agent: impl Agent) -> Self {
        let mut peer = Self::start(agent).await;
        peer.send(json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}})).await;
        let answer = peer.line().await;
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        peer
    }

    async fn with_session(agent: impl Agent) -> Self {
        let mut peer = Self::initialized(agent).await;
        peer.request(1000, "session/new", json!({"cwd":"/","mcpServers":[]})).await;
        let answer = peer.line().await;
        assert_eq!(answer["result"]["sessionId"], "s1", "{answer}");
        let update = peer.line().await;
        assert_eq!(update["params"]["update"]["sessionUpdate"], "available_commands_update", "{update}");
        peer
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.expect("the agent reads");
    }

    async fn send(&mut self, frame: Value) {
        self.raw(format!("{frame}\n").as_bytes()).await;
    }

    async fn request(&mut self, id: i64, method: &str, params: Value) {
        self.send(json!({"jsonrpc":"2.0","id":id,"method":method,"params":params})).await;
    }

    async fn prompt(&mut self, id: i64, text: &str) {
        let prompt = json!({"sessionId":"s1","prompt":[{"type":"text","text":text}]});
        self.request(id, "session/prompt", prompt).await;
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc":"2.0","method":method,"params":params})).await;
    }

    async fn line(&mut self) -> Value {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).expect("the agent writes JSON");
            }
            let read = self.reader.read_buf(&mut self.buffer).await.expect("readable");
            assert!(read > 0, "the agent ended its stream");
        }
    }

    /// Everything that comes until the agent is done with the end of its input.
    async fn rest(mut self) -> Vec<Value> {
        self.writer.shutdown().await.expect("closable");
        let mut rest = std::mem::take(&mut self.buffer);
        self.reader.read_to_end(&mut rest).await.expect("readable");
        self.served.await.expect("no panic").expect("a good end");
        rest.split(|b| *b == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .collect()
    }
}

fn code(frame: &Value) -> i64 {
    frame["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {frame}"))
}

/// IC-4, I3: an update leaves before the answer.
#[tokio::test(start_paused = true)]
async fn a_prompt_is_answered_after_its_updates() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "hello").await;
    assert_eq!(peer.line().await["params"]["update"]["content"]["text"], "hello");
    let answer = peer.line().await;
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(1), &json!("end_turn")));
    assert!(peer.rest().await.is_empty());
}

/// R-079, Inv-16: a panic is an answer without its text, and the connection lives on.
#[tokio::test(start_paused = true)]
async fn a_panic_is_answered_and_nothing_of_it_is_told() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.request(1, "authenticate", json!({"methodId":"m"})).await;
    let answer = peer.line().await;
    assert_eq!(code(&answer), -32603);
    assert!(!answer.to_string().contains("secret"));
    peer.prompt(2, "panic").await;
    let answer = peer.line().await;
    assert_eq!((code(&answer), &answer["id"]), (-32603, &json!(2)));
    peer.prompt(3, "again").await;
    assert_eq!(peer.line().await["params"]["update"]["content"]["text"], "again");
}

/// R-147, I7: however many cancels, one answer, and it is `cancelled`.
#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_middle_is_answered_once() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "wait").await;
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    peer.prompt(2, "after").await;
    assert_eq!(peer.line().await["params"]["update"]["content"]["text"], "after");
    assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
    assert!(peer.rest().await.is_empty());
}

/// R-148, I13: a turn that does not listen is stopped after the backstop.
#[tokio::test(start_paused = true)]
async fn a_deaf_turn_is_stopped_by_the_backstop() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "deaf").await;
    let start = tokio::time::Instant::now();
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    assert_eq!(start.elapsed().as_secs(), 30);
}

/// I17 as the design has it: an abandoned prompt is answered `cancelled`, an abandoned request -32800.
#[tokio::test(start_paused = true)]
async fn an_abandoned_request_is_answered_once() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "wait").await;
    peer.request(2, "_t/never", json!({})).await;
    peer.notify("$/cancel_request", json!({"requestId":2})).await;
    let answer = peer.line().await;
    assert_eq!((code(&answer), &answer["id"]), (-32800, &json!(2)));
    peer.notify("$/cancel_request", json!({"requestId":1})).await;
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    assert!(peer.rest().await.is_empty());
}

/// R-145, I4: the answer waits for every task of the turn.
#[tokio::test(start_paused = true)]
async fn the_answer_waits_for_subtasks() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "subtask").await;
    assert_eq!(peer.line().await["params"]["update"]["content"]["text"], "from the subtask");
    assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
}

/// a yes must select what was offered.
#[tokio::test(start_paused = true)]
async fn permissions_fail_closed() {
    for (outcome, said) in [
        (json!({"outcome":"selected","optionId":"yes"}), "allowed"),
        (json!({"outcome":"selected","optionId":"no"}), "rejected"),
        (json!({"outcome":"selected","optionId":"forged"}), "answered with an option that was not offered"),
        (json!({"outcome":"cancelled"}), "cancelled by the client"),
    ] {
        let mut peer = Peer::with_session(Scripted::default()).await;
        peer.prompt(1, "ask").await;
        let ask = peer.line().await;
        assert_eq!(ask["method"], "session/request_permission");
        peer.send(json!({"jsonrpc":"2.0","id":ask["id"],"result":{"outcome":outcome}})).await;
        assert_eq!(peer.line().await["params"]["update"]["content"]["text"], said);
    }
}

/// I9: a cancel releases a parked ask at once, and tells the client that nobody waits for it.
#[tokio::test(start_paused = true)]
async fn a_cancel_releases_a_parked_ask() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "ask").await;
    let ask = peer.line().await;
    let start = tokio::time::Instant::now();
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    let cancel = peer.line().await;
    assert_eq!((&cancel["method"], &cancel["params"]["requestId"]), (&json!("$/cancel_request"), &ask["id"]));
    assert_eq!(peer.line().await["params"]["update"]["content"]["text"], "cancelled with the turn");
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// R-076, IC-7: a handler waits for a request of its own on the same connection.
#[tokio::test(start_paused = true)]
async fn a_handler_calls_back_on_its_own_connection() {
    let mut peer = Peer::initialized(Scripted::default()).await;
    peer.request(1, "_t/nested", json!({})).await;
    let ask = peer.line().await;
    assert_eq!(ask["method"], "_c/ask");
    peer.send(json!({"jsonrpc":"2.0","id":ask["id"],"result":{"x":1}})).await;
    assert_eq!(peer.line().await["result"], json!({"x":1}));
}

/// deferred, forgotten, and never taken.
#[tokio::test(start_paused = true)]
async fn deferred_replies_move_with_their_value() {
    let mut peer = Peer::initialized(Scripted::default()).await;
    peer.request(1, "_t/deferred", json!({})).await;
    assert_eq!(peer.line().await["result"], "later");
    for method in ["_t/dropped", "_t/undelegated"] {
        peer.request(2, method, json!({})).await;
        assert_eq!(code(&peer.line().await), -32603, "{method}");
    }
}

/// an extension's result is what the hook returned, whatever it is.
#[tokio::test(start_paused = true)]
async fn extension_results_are_transparent() {
    let mut peer = Peer::initialized(Scripted::default()).await;
    peer.raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"_t/echo\",\"params\":[1,1.50,{\"z\":null}]}\n").await;
    assert_eq!(peer.line().await, json!({"jsonrpc":"2.0","id":"a","result":[1,1.50,{"z":null}]}));
    peer.request(2, "_t/other", json!({})).await;
    assert_eq!(code(&peer.line().await), -32601);
}

/// A client that pipelines its first frames and closes at once still gets its answers.
#[tokio::test(start_paused = true)]
async fn requests_behind_initialize_wait_for_it() {
    let mut peer = Peer::start(Scripted::default()).await;
    peer.request(0, "initialize", json!({"protocolVersion":65535})).await;
    peer.request(1, "session/new", json!({"cwd":"/","mcpServers":[]})).await;
    peer.request(2, "session/new", json!({"cwd":"relative","mcpServers":[]})).await;
    let rest = peer.rest().await;
    assert_eq!(rest[0]["result"]["protocolVersion"], 1, "never an echo: {rest:?}");
    assert_eq!(rest[1]["result"]["sessionId"], "s1", "{rest:?}");
    assert_eq!(rest[2]["method"], "session/update", "{rest:?}");
    assert_eq!(code(&rest[3]), -32602, "{rest:?}");
}

/// R-021 and Inv-12: dropping the end of the pair ends the agent.
#[tokio::test(start_paused = true)]
async fn the_end_of_input_ends_the_agent() {
    let mut peer = Peer::with_session(Scripted::default()).await;
    peer.prompt(1, "wait").await;
    let rest = peer.rest().await;
    assert_eq!(rest[0]["result"]["stopReason"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn memory_is_a_pair() {
    let (ours, theirs) = memory();
    let served = tokio::spawn(serve(Scripted::default(), theirs));
    drop(ours);
    served.await.expect("no panic").expect("a good end");
}
