//! A scripted peer for either end, both ends face to face, and a clock that stands still.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use pintle_acp::{
    AgentEnd, AgentEvent, Call, ClientEnd, ClientEvent, Config, CounterClass, Counters, OutId, Output, RawJson, Reply,
    ReplyToken, TurnToken,
};
use pintle_fuzz::End;
use serde_json::{Value, json};

/// A time to count from. The machines look at no clock, so any will do.
#[expect(clippy::disallowed_methods, reason = "the one look at a clock: a time to count from")]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

/// What comes back with the outcome of a request in these tests.
pub(crate) type Tag = u32;

/// What comes back with the outcome of a request in these tests is a [`Tag`]; what an end does is the same on both sides.
pub(crate) struct Side<E: End<Tag = Tag>> {
    pub(crate) end: E,
    pub(crate) now: Instant,
    pub(crate) events: Vec<E::Event>,
    out: Vec<u8>,
    pub(crate) sentinel: Sentinel,
}

/// An agent's end with a scripted client before it.
pub(crate) type Agent = Side<AgentEnd<Tag>>;
/// A client's end with a scripted agent before it.
pub(crate) type Client = Side<ClientEnd<Tag>>;

impl<E: End<Tag = Tag>> Side<E> {
    pub(crate) fn new(config: Config) -> Self {
        Self { end: E::new(config), now: epoch(), events: Vec::new(), out: Vec::new(), sentinel: Sentinel::default() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.end.feed(self.now, bytes);
        self.settle();
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.feed(format!("{text}\n").as_bytes());
    }

    pub(crate) fn send(&mut self, frame: Value) {
        self.line(&frame.to_string());
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.end.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
            self.end.handle_timeout(self.now);
        }
        self.settle();
    }

    /// Collects what the end has to say, as its loop would.
    pub(crate) fn settle(&mut self) {
        self.end.reap(self.now);
        while let Some(output) = self.end.poll_output() {
            if let Output::Bytes(bytes) = output {
                self.end.wrote(bytes.len());
                self.out.extend_from_slice(&bytes);
            }
        }
        self.events.extend(std::iter::from_fn(|| self.end.poll_event()));
    }

    /// The frames that were sent since the last call.
    pub(crate) fn frames(&mut self) -> Vec<Value> {
        self.settle();
        lines(&mut self.out)
    }

    /// The same, as it was written.
    pub(crate) fn text(&mut self) -> String {
        self.settle();
        String::from_utf8(std::mem::take(&mut self.out)).expect("UTF-8")
    }
}

impl<E: End<Tag = Tag>> Drop for Side<E> {
    fn drop(&mut self) {
        self.sentinel.look(self.end.counters());
    }
}

impl Agent {
    /// After a handshake in which the agent advertised `capabilities`.
    pub(crate) fn initialized(capabilities: Value) -> Self {
        Self::initialized_with(Config::default(), capabilities, json!({}))
    }

    pub(crate) fn initialized_with(config: Config, capabilities: Value, client: Value) -> Self {
        let mut agent = Self::new(config);
        agent.request(json!("init"), "initialize", json!({ "protocolVersion": 1, "clientCapabilities": client }));
        let (token, _) = agent.take_request("initialize");
        agent.answer(token, json!({ "protocolVersion": 1, "agentCapabilities": capabilities }));
        assert_eq!(agent.frames().len(), 1, "the handshake");
        agent
    }

    /// With one open session, `s1`.
    pub(crate) fn with_session() -> Self {
        let mut agent = Self::initialized(json!({ "loadSession": true, "sessionCapabilities": { "close": {} } }));
        agent.open_session("s1");
        agent
    }

    pub(crate) fn open_session(&mut self, id: &str) {
        self.request(json!(format!("new {id}")), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let (token, _) = self.take_request("session/new");
        self.answer(token, json!({ "sessionId": id }));
        assert_eq!(self.frames().len(), 1, "the answer to session/new");
    }

    pub(crate) fn request(&mut self, id: Value, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn prompt(&mut self, id: i64) {
        self.request(json!(id), "session/prompt", json!({ "sessionId": "s1", "prompt": [] }));
    }

    pub(crate) fn cancel(&mut self) {
        self.notify("session/cancel", json!({ "sessionId": "s1" }));
    }

    /// The next request that the application saw.
    pub(crate) fn take_request(&mut self, method: &str) -> (ReplyToken, Option<RawJson>) {
        let at = self
            .events
            .iter()
            .position(|event| matches!(event, AgentEvent::Request { request, .. } if &*request.method == method));
        let Some(AgentEvent::Request { request, .. }) = at.map(|at| self.events.remove(at)) else {
            panic!("no {method} among {:?}", self.events)
        };
        (request.token, request.params)
    }

    /// The next turn that began.
    pub(crate) fn take_turn(&mut self) -> TurnToken {
        let at = self.events.iter().position(|event| matches!(event, AgentEvent::Prompt { .. }));
        let Some(AgentEvent::Prompt { token, .. }) = at.map(|at| self.events.remove(at)) else {
            panic!("no prompt among {:?}", self.events)
        };
        token
    }

    pub(crate) fn answer(&mut self, token: ReplyToken, result: Value) {
        self.end.reply(self.now, token, &Reply::ok(&result).expect("JSON"));
        self.settle();
    }

    pub(crate) fn end_turn(&mut self, token: TurnToken, stop_reason: &str) {
        self.end.end_turn(self.now, token, Reply::ok(&json!({ "stopReason": stop_reason })).expect("JSON"));
        self.settle();
    }

    /// Whether the application was told something.
    pub(crate) fn saw(&self, wanted: impl Fn(&AgentEvent<Tag>) -> bool) -> bool {
        self.events.iter().any(wanted)
    }
}

/// what only this program can cause fails the test in which it happens, unless the test says that it means to; and
/// so does saying so in vain.
#[derive(Default)]
pub(crate) struct Sentinel {
    expected: Vec<&'static str>,
    tolerated: Vec<&'static str>,
}

impl Sentinel {
    /// This test makes its program do what counts so.
    pub(crate) fn expect(&mut self, counter: &'static str) {
        self.expected.push(counter);
    }

    /// This test may.
    pub(crate) fn tolerate(&mut self, counter: &'static str) {
        self.tolerated.push(counter);
    }

    fn look(&self, counters: Counters) {
        if std::thread::panicking() {
            return;
        }
        for (name, _, number) in counters.iter().filter(|(_, class, _)| *class == CounterClass::Program) {
            if !self.tolerated.contains(&name) {
                assert_eq!(number > 0, self.expected.contains(&name), "{name}: {number}, unlike what the test said");
            }
        }
    }
}

/// the sentinel sees what was not declared, and what was declared and did not happen.
#[test]
fn r_290_the_sentinel_can_fail() {
    let check = |drops_a_token: bool, declares: bool| {
        let mut agent = Agent::with_session();
        if drops_a_token {
            agent.request(json!(1), "_x", json!({}));
            drop(agent.take_request("_x"));
            agent.settle();
        }
        if declares {
            agent.sentinel.expect("dropped_reply");
        }
        std::panic::catch_unwind(AssertUnwindSafe(|| drop(agent))).is_ok()
    };
    assert!(check(false, false) && check(true, true));
    assert!(!check(true, false) && !check(false, true));
}

impl Client {
    pub(crate) fn initialized(capabilities: Value) -> Self {
        Self::initialized_with(Config::default(), capabilities)
    }

    pub(crate) fn initialized_with(config: Config, capabilities: Value) -> Self {
        let mut client = Self::new(config);
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        client.ask("initialize", hello).expect("the first request");
        client.send(json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1 } }));
        assert!(client.end.is_initialized());
        client.events.clear();
        client.frames();
        client
    }

    /// With one session, `s1`.
    pub(crate) fn with_session() -> Self {
        let mut client = Self::initialized(json!({}));
        client.open_session("s1");
        client
    }

    pub(crate) fn open_session(&mut self, session: &str) {
        let id = self.ask("session/new", json!({ "cwd": "/", "mcpServers": [] })).expect("sent");
        self.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": { "sessionId": session } }));
        self.events.clear();
        self.frames();
    }

    pub(crate) fn ask(&mut self, method: &'static str, params: Value) -> Option<OutId> {
        self.ask_within(method, params, None)
    }

    pub(crate) fn ask_within(&mut self, method: &'static str, params: Value, limit: Option<Duration>) -> Option<OutId> {
        let call = Call::new(method, &params).expect("JSON");
        let id = self.end.request(&call, limit.map(|limit| self.now + limit), 7).ok();
        self.settle();
        id
    }

    pub(crate) fn prompt(&mut self, session: &str) -> OutId {
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": [] })).expect("sent")
    }

    /// An update of `session` whose text is `text`.
    pub(crate) fn update(&mut self, session: &str, text: &str, meta: Value) {
        let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update, "_meta": meta } }));
    }

    pub(crate) fn end_turn(&mut self, prompt: OutId) {
        self.send(json!({ "jsonrpc": "2.0", "id": prompt.get(), "result": { "stopReason": "end_turn" } }));
    }

    pub(crate) fn take_request(&mut self, method: &str) -> ReplyToken {
        let at = self
            .events
            .iter()
            .position(|event| matches!(event, ClientEvent::Request { request, .. } if &*request.method == method));
        let Some(ClientEvent::Request { request, .. }) = at.map(|at| self.events.remove(at)) else {
            panic!("no {method} among {:?}", self.events)
        };
        request.token
    }

    /// The updates that the application saw, as session, ordinal within its turn, and text.
    pub(crate) fn updates(&mut self) -> Vec<(String, Option<u64>, String)> {
        let mut updates = Vec::new();
        self.events.retain(|event| {
            let ClientEvent::Update { session, delivery, params, .. } = event else { return true };
            let params: Value = serde_json::from_str(params.as_str()).expect("JSON");
            let text = params["update"]["content"]["text"].as_str().unwrap_or_default().to_owned();
            updates.push((session.to_string(), delivery.map(|delivery| delivery.ordinal), text));
            false
        });
        updates
    }
}

/// Both ends face to face, with a pipe each way.
pub(crate) struct Pair {
    pub(crate) agent: Agent,
    pub(crate) client: Client,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self { agent: Agent::new(Config::default()), client: Client::new(Config::default()) }
    }

    /// Carries bytes both ways, in pieces of `piece` bytes, until there are none.
    pub(crate) fn drive(&mut self, piece: usize) {
        loop {
            self.agent.settle();
            self.client.settle();
            let (to_client, to_agent) = (std::mem::take(&mut self.agent.out), std::mem::take(&mut self.client.out));
            if to_client.is_empty() && to_agent.is_empty() {
                return;
            }
            for bytes in to_client.chunks(piece) {
                self.client.end.feed(self.client.now, bytes);
            }
            for bytes in to_agent.chunks(piece) {
                self.agent.end.feed(self.agent.now, bytes);
            }
        }
    }
}

fn lines(bytes: &mut Vec<u8>) -> Vec<Value> {
    let taken = std::mem::take(bytes);
    taken
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("every line is JSON"))
        .collect()
}

/// Error code of a frame; 0 without an error.
pub(crate) fn code(frame: &Value) -> i64 {
    frame["error"]["code"].as_i64().unwrap_or(0)
}

/// The vectors of `testdata/acp`.
pub(crate) fn vectors(name: &str) -> Value {
    let text = match name {
        "capability_gate" => include_str!("../../../../testdata/acp/capability_gate.json"),
        "client_turn_delivery" => include_str!("../../../../testdata/acp/client_turn_delivery.json"),
        "jsonrpc_errors" => include_str!("../../../../testdata/acp/jsonrpc_errors.json"),
        "permission_outcomes" => include_str!("../../../../testdata/acp/permission_outcomes.json"),
        "request_ids" => include_str!("../../../../testdata/acp/request_ids.json"),
        "session_turn_races" => include_str!("../../../../testdata/acp/session_turn_races.json"),
        other => panic!("no vectors called {other}"),
    };
    serde_json::from_str(text).expect("the vectors are JSON")
}

pub(crate) fn error(code: i64) -> Reply {
    Reply::error(&pintle_acp::Error::new(code, "as the test says"))
}
