//! A peer that writes whatever a test wants, and an agent that does what a prompt says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pintle_sdk::acp::types::{
    AgentCapabilities, AvailableCommandsUpdate, List, NewSessionRequest, NewSessionResponse, PermissionOption,
    PermissionOptionKind, PromptRequest, PromptResponse, Raw, ReadTextFileRequest, SessionUpdate, ToolCallUpdate,
};
use pintle_sdk::acp::{Agent, Closed, Connection, CounterClass, Ctx, Error, RawJson, ServeError, Turn, serve};
use pintle_sdk::transport::{Stream, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

/// Bytes that each direction of a test's pipe holds.
pub(crate) const PIPE_BYTES: usize = 64 * 1024;

pub(crate) type End = Stream<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// The other end of a connection: lines as text.
pub(crate) struct Peer {
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
    buffer: Vec<u8>,
    pub(crate) sentinel: Sentinel,
}

impl Peer {
    /// A peer, and the transport to it.
    pub(crate) fn pair() -> (Self, End) {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (reader, writer) = tokio::io::split(theirs);
        let transport = stream(reader, writer);
        let (reader, writer) = tokio::io::split(ours);
        (Self { reader, writer, buffer: Vec::new(), sentinel: Sentinel::default() }, transport)
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.expect("the other end is there");
    }

    /// Writes a line again and again, as long as somebody reads; how many bytes were taken.
    pub(crate) async fn push_until_stuck(&mut self, line: &[u8], most: usize) -> usize {
        let mut taken = 0;
        while taken < most {
            let rest = &line[taken % line.len()..];
            // Virtual time moves when nothing in the program can go on: then nobody reads any more.
            match tokio::time::timeout(Duration::from_secs(1), self.writer.write(rest)).await {
                Ok(written) => taken += written.expect("the other end is there"),
                Err(_) => break,
            }
        }
        taken
    }

    pub(crate) async fn send(&mut self, frame: Value) {
        self.raw(format!("{frame}\n").as_bytes()).await;
    }

    pub(crate) async fn request(&mut self, id: i64, method: &str, params: Value) {
        self.send(json!({"jsonrpc":"2.0","id":id,"method":method,"params":params})).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc":"2.0","method":method,"params":params})).await;
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc":"2.0","id":request["id"],"result":result})).await;
    }

    /// The next line; `None` at the end of the stream.
    pub(crate) async fn try_line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("every line is JSON"));
            }
            if self.reader.read_buf(&mut self.buffer).await.expect("readable") == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn line(&mut self) -> Value {
        self.try_line().await.expect("the stream goes on")
    }

    /// The next line, if one comes before nothing in the program can go on.
    pub(crate) async fn line_if_any(&mut self) -> Option<Value> {
        tokio::time::timeout(Duration::from_millis(1), self.line()).await.ok()
    }

    /// Ends the stream towards the other end; what that still says can be read.
    pub(crate) async fn hang_up(&mut self) {
        self.writer.shutdown().await.expect("closable");
    }

    // As a client.

    pub(crate) async fn prompt(&mut self, id: i64, session: &str, text: &str) {
        let prompt = json!({"sessionId":session,"prompt":[{"type":"text","text":text}]});
        self.request(id, "session/prompt", prompt).await;
    }

    // As an agent.

    /// Answers the next request, which is `method`.
    pub(crate) async fn expect(&mut self, method: &str, result: Value) -> Value {
        let request = self.line().await;
        assert_eq!(request["method"], method, "{request}");
        self.answer(&request, result).await;
        request
    }

    pub(crate) async fn update(&mut self, session: &str, text: &str) {
        let update = json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":text}});
        self.notify("session/update", json!({"sessionId":session,"update":update})).await;
    }
}

/// R-290: what only this program can cause fails the test in which it happens, unless the test says that it means to; and
/// so does saying so in vain.
#[derive(Default)]
pub(crate) struct Sentinel {
    connection: Option<Connection>,
    expected: Vec<&'static str>,
}

impl Sentinel {
    pub(crate) fn over(connection: &Connection) -> Self {
        Self { connection: Some(connection.clone()), expected: Vec::new() }
    }

    /// This test makes its program do what counts so.
    pub(crate) fn expect(&mut self, counter: &'static str) {
        self.expected.push(counter);
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let Some(connection) = self.connection.as_ref().filter(|_| !std::thread::panicking()) else { return };
        for (name, _, number) in connection.counters().iter().filter(|(_, class, _)| *class == CounterClass::Program) {
            assert_eq!(number > 0, self.expected.contains(&name), "{name}: {number}, unlike what the test said");
        }
    }
}

pub(crate) type Served = tokio::task::JoinHandle<Result<Closed, ServeError>>;

/// Does what the prompt says.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    pub(crate) updates: Arc<AtomicUsize>,
    sessions: Arc<AtomicUsize>,
    connection: Arc<OnceLock<Connection>>,
}

impl Scripted {
    /// This agent at work, with two sessions open, `s1` and `s2`.
    pub(crate) async fn start() -> (Peer, Self, Served) {
        let (mut peer, transport) = Peer::pair();
        let agent = Self::default();
        let served = tokio::spawn(serve(agent.clone(), transport));
        let capabilities = json!({"fs":{"readTextFile":true}});
        peer.request(-1, "initialize", json!({"protocolVersion":1,"clientCapabilities":capabilities})).await;
        assert_eq!(peer.line().await["result"]["protocolVersion"], 1);
        for session in ["s1", "s2"] {
            peer.request(-2, "session/new", json!({"cwd":"/","mcpServers":[]})).await;
            assert_eq!(peer.line().await["result"]["sessionId"], session);
            assert_eq!(peer.line().await["method"], "session/update", "the commands");
        }
        peer.sentinel = Sentinel::over(agent.connection());
        (peer, agent, served)
    }

    pub(crate) fn connection(&self) -> &Connection {
        self.connection.get().expect("started")
    }
}

impl Agent for Scripted {
    async fn init(&self, cx: &Ctx) -> Result<(), Error> {
        self.connection.set(cx.connection().clone()).map_err(|_| Error::internal_error())
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::new().load_session(true)
    }

    async fn new_session(&self, _: NewSessionRequest, cx: &Ctx) -> Result<NewSessionResponse, Error> {
        let id = format!("s{}", self.sessions.fetch_add(1, Ordering::SeqCst) + 1);
        let commands = AvailableCommandsUpdate::new(List::default());
        cx.update_session(id.as_str(), SessionUpdate::AvailableCommandsUpdate(commands)).await?;
        Ok(NewSessionResponse::new(id))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        let text = request.text();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match word {
            "flood" => {
                let line = "x".repeat(1000);
                for _ in 0..rest.parse().unwrap_or(0) {
                    turn.agent_text(&line).await?;
                    self.updates.fetch_add(1, Ordering::SeqCst);
                }
            }
            "wait" => turn.cancelled().await,
            "size" => turn.agent_text(rest.len().to_string()).await?,
            "ask" => {
                let options = [PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce)];
                let decision = turn.ask_permission(ToolCallUpdate::new("c1"), options).await?;
                turn.agent_text(decision.to_string()).await?;
            }
            "read" => {
                let read = turn.request(ReadTextFileRequest::new(turn.session_id(), "/f")).await;
                turn.agent_text(read.map_or_else(|error| error.to_string(), |read| read.content)).await?;
            }
            "empty" => {
                let refused = turn.agent_text("").await;
                turn.agent_text(refused.expect_err("an empty chunk").to_string()).await?;
            }
            "error" => return Err(Error::new(-32099, "mine").data(Raw::from(json!({"why":1})))),
            "meta" => {
                let mut response = PromptResponse::end_turn();
                response.meta = pintle_sdk::acp::types::decode(r#"{"kept":true}"#).ok();
                return Ok(response);
            }
            "panic" => panic!("secret detail"),
            "group" => {
                let (member, tell) = (turn.clone(), turn.clone());
                turn.spawn(async move {
                    member.cancelled().await;
                    member.agent_text("a subtask was told").await.expect("the turn winds down");
                })?;
                turn.spawn(async { panic!("secret detail") })?;
                turn.agent_text("all are at work").await?;
                turn.cancelled().await;
                tell.agent_text("the root was told").await?;
            }
            "silent" => {}
            _ => turn.agent_text(text.as_str()).await?,
        }
        Ok(PromptResponse::end_turn())
    }

    async fn ext_request(&self, method: &str, params: Option<RawJson>, cx: &Ctx) -> Result<Raw, Error> {
        match method {
            "_t/echo" => Ok(Raw::parse(params.map_or("null".to_owned(), |p| p.as_str().to_owned())).expect("scanned")),
            "_t/map" => Ok(Raw::from(json!({"plain":{"map":[1]}}))),
            "_t/ask" => {
                let answer = cx.connection().ext_request("_c/ask", &json!({})).await;
                Ok(Raw::from(json!(answer.map_or_else(|error| error.to_string(), |answer| answer.as_str().to_owned()))))
            }
            "_t/forget" => {
                drop(cx.delegate_reply::<Value>());
                cx.deferred()
            }
            "_t/never" => std::future::pending().await,
            "_t/inside" => {
                cx.flush().await;
                let known = (cx.is_initialized(), cx.peer_offers("terminal/create"), cx.close_reason().is_none());
                cx.connection().ext_notify("_t/note", &json!({})).await?;
                let frames = cx.counters().frames_in;
                cx.close();
                Ok(Raw::from(json!([known.0, known.1, known.2, frames > 0])))
            }
            _ => Err(Error::method_not_found(method)),
        }
    }

    async fn ext_notification(&self, method: &str, _: Option<RawJson>, _: &Ctx) {
        match method {
            "_t/block" => std::future::pending().await,
            "_t/panic" => panic!("secret detail"),
            _ => {}
        }
    }
}

pub(crate) fn code(frame: &Value) -> i64 {
    frame["error"]["code"].as_i64().unwrap_or(0)
}

/// The text of an update.
pub(crate) fn text(frame: &Value) -> &str {
    frame["params"]["update"]["content"]["text"].as_str().unwrap_or_default()
}
