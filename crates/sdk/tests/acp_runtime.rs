//! Behaviours of the runtime (R-011 to R-095) that show only over a whole connection: handlers, handles, the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pintle_sdk::acp::types::{
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, Raw, SessionNotification,
};
use pintle_sdk::acp::{
    Agent, Client, ClientConnection, Closed, Connection, Ctx, DelegatedReply, Error, RawJson, RequestError, SendError,
    Turn, connect, serve,
};
use pintle_sdk::transport::{memory, stream};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::sync::{Notify, mpsc};

/// Something that cannot be written as JSON.
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("never"))
    }
}

/// What became of a request that was handed on.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Begun,
    Cancelled,
}

/// An agent whose extension methods each show one behaviour.
struct Odd {
    second: Arc<Notify>,
    told: mpsc::Sender<Told>,
    handlers: Arc<AtomicUsize>,
}

impl Odd {
    fn new() -> (Self, mpsc::Receiver<Told>) {
        let (told, hears) = mpsc::channel(8);
        (Self { second: Arc::default(), told, handlers: Arc::default() }, hears)
    }
}

impl Agent for Odd {
    async fn new_session(&self, _: NewSessionRequest, cx: &Ctx) -> Result<NewSessionResponse, Error> {
        assert!(cx.session().is_none());
        Ok(NewSessionResponse::new("s1"))
    }

    async fn prompt(&self, _: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        for n in 0..20 {
            turn.agent_text(n.to_string()).await?;
        }
        Ok(PromptResponse::end_turn())
    }

    async fn ext_request(&self, method: &str, _: Option<RawJson>, cx: &Ctx) -> Result<Raw, Error> {
        self.handlers.fetch_add(1, Ordering::SeqCst);
        match method {
            "_ok" => Ok(Raw::from(json!({ "fine": true }))),
            "_error" => Err(Error::new(pintle_sdk::acp::ErrorCode::Other(7), "mine").data(json!([1]))),
            "_deferred_to_nobody" => cx.deferred(),
            "_waits_for_second" => {
                self.second.notified().await;
                Ok(Raw::from(json!(1)))
            }
            "_second" => {
                self.second.notify_one();
                Ok(Raw::from(json!(2)))
            }
            "_unwritable" => {
                let reply: DelegatedReply<Unwritable> = cx.delegate_reply().expect("the first to take it");
                reply.send(Ok(Unwritable));
                cx.deferred()
            }
            "_handed_on" => {
                let reply: DelegatedReply<Value> = cx.delegate_reply().expect("the first to take it");
                assert!(cx.delegate_reply::<Value>().is_none(), "an obligation is taken once");
                let told = self.told.clone();
                // From one owner to the next, and only the last of them answers.
                let first = tokio::spawn(async move { reply });
                tokio::spawn(async move {
                    let reply = first.await.expect("no panic");
                    told.send(Told::Begun).await.expect("the test listens");
                    reply.cancelled().await;
                    told.send(Told::Cancelled).await.expect("the test listens");
                    reply.send(Ok(json!("late, and owed all the same")));
                });
                cx.deferred()
            }
            "_never" => std::future::pending().await,
            "_context" => Ok(Raw::from(json!({
                "rx": serde_json::to_value(format!("{:?}", cx.rx_seq())).expect("a text"),
                "ready": cx.is_initialized(),
                "kind": cx.transport_kind().to_string(),
                "reads": cx.peer_offers("fs/read_text_file"),
                "handlers": self.handlers.load(Ordering::SeqCst),
            }))),
            _ => Err(Error::method_not_found(method)),
        }
    }
}

/// The other end of an agent: lines in, lines out.
struct Peer {
    out: WriteHalf<DuplexStream>,
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    told: mpsc::Receiver<Told>,
}

impl Peer {
    async fn start() -> Self {
        let (agent, told) = Odd::new();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = split(theirs);
        tokio::spawn(serve(agent, stream(reader, writer)));
        let (reader, out) = split(ours);
        let mut peer = Self { out, lines: BufReader::new(reader).lines(), told };
        let capabilities = json!({ "fs": { "readTextFile": true } });
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        peer.request(0, "initialize", hello).await;
        assert_eq!(peer.line().await["id"], 0);
        peer
    }

    async fn raw(&mut self, line: &str) {
        self.out.write_all(format!("{line}\n").as_bytes()).await.expect("the agent reads");
    }

    async fn request(&mut self, id: i64, method: &str, params: Value) {
        self.raw(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()).await;
    }

    async fn line(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("readable").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The answer to a request, which is the next frame.
    async fn ask(&mut self, id: i64, method: &str) -> Value {
        self.request(id, method, json!({})).await;
        let answer = self.line().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }
}

/// R-034 to R-037: what is no request is answered as what it is, without an echo, and the connection goes on. R-035: a
/// batch is one refusal. R-036: what is no JSON object is no frame. R-037: a request without a usable id is not begun.
#[tokio::test]
async fn frames_that_are_none_are_refused_r035_r036_r037() {
    let mut peer = Peer::start().await;
    let mut check = async |line: &str, code: i64, id: Value| {
        peer.raw(line).await;
        let answer = peer.line().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{line}: {answer}");
        assert!(!answer.to_string().contains("marker"), "{answer}");
        let alive = peer.ask(99, "_ok").await;
        assert_eq!(alive["result"]["fine"], true);
    };
    // R-035
    check(
        r#"[{"jsonrpc":"2.0","id":1,"method":"_marker"},{"jsonrpc":"2.0","id":2,"method":"_ok"}]"#,
        -32600,
        Value::Null,
    )
    .await;
    check("[]", -32600, Value::Null).await;
    // R-036
    for line in ["marker", "{\"marker\":", "\"marker\"", "17", "null", "{\"a\":1,\"a\":2}"] {
        check(line, -32700, Value::Null).await;
    }
    // R-037
    check(r#"{"jsonrpc":"2.0","id":null,"method":"_marker"}"#, -32600, Value::Null).await;
    check(r#"{"jsonrpc":"2.0","id":1.5,"method":"_marker"}"#, -32600, Value::Null).await;
    check(r#"{"jsonrpc":"2.0","id":7,"marker":1}"#, -32600, json!(7)).await;
}

/// R-078: a result, an error with its data, and a deferral that nobody took: these are all the ways there are.
#[tokio::test]
async fn every_way_to_return_has_its_answer_r078() {
    let mut peer = Peer::start().await;
    assert_eq!(peer.ask(1, "_ok").await["result"], json!({ "fine": true }));
    assert_eq!(peer.ask(2, "_error").await["error"], json!({ "code": 7, "message": "mine", "data": [1] }));
    assert_eq!(peer.ask(3, "_deferred_to_nobody").await["error"]["code"], -32603);
}

/// R-058 for handlers: a result that cannot be written is an internal error, not a silence.
#[tokio::test]
async fn a_result_that_cannot_be_written_is_an_error_r058() {
    let answer = Peer::start().await.ask(1, "_unwritable").await;
    assert_eq!(answer["error"]["code"], -32603);
}

/// R-082: handlers start in the order of the wire and run side by side; who is done first answers first.
#[tokio::test]
async fn answers_leave_when_they_are_ready_r082() {
    let mut peer = Peer::start().await;
    peer.request(1, "_waits_for_second", json!({})).await;
    peer.request(2, "_second", json!({})).await;
    assert_eq!(peer.line().await["id"], 2);
    assert_eq!(peer.line().await["id"], 1);
}

/// R-093: the owner of a deferred reply is told that the peer gave it up; the answer is still owed, and one leaves (design
/// section 4 overrules the silence). R-095: the obligation is handed on by moving its value, so there is never a second
/// owner whose end would matter.
#[tokio::test]
async fn a_reply_that_was_handed_on_is_told_of_a_cancel_r093_r095() {
    let mut peer = Peer::start().await;
    peer.request(5, "_handed_on", json!({})).await;
    // A cancel that comes with the request finds no handler yet, and answers by itself.
    assert_eq!(peer.told.recv().await, Some(Told::Begun));
    peer.raw(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":5}}"#).await;
    assert_eq!(peer.told.recv().await, Some(Told::Cancelled));
    let answer = peer.line().await;
    assert_eq!((&answer["id"], &answer["result"]), (&json!(5), &json!("late, and owed all the same")));
    // Once: the next frame answers the next request.
    peer.ask(6, "_ok").await;
}

/// R-094: updates and the reply are one queue; whatever was sent before the reply leaves before it.
#[tokio::test]
async fn updates_leave_before_the_reply_r094() {
    let mut peer = Peer::start().await;
    peer.request(1, "session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
    peer.line().await;
    let prompt = json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": "go" }] });
    peer.request(2, "session/prompt", prompt).await;
    for n in 0..20 {
        let update = peer.line().await;
        assert_eq!(update["params"]["update"]["content"]["text"], n.to_string(), "{update}");
    }
    assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
}

/// R-077, IC-2: what a handler gets beside its params.
#[tokio::test]
async fn a_handler_knows_where_it_is_r077() {
    let mut peer = Peer::start().await;
    let first = peer.ask(1, "_context").await["result"].clone();
    assert_eq!((&first["ready"], &first["kind"], &first["reads"]), (&json!(true), &json!("stream"), &json!(true)));
    let second = peer.ask(2, "_context").await["result"].clone();
    assert_ne!(first["rx"], second["rx"], "each frame has its own place");
    // The state is the agent itself, the same for every call.
    assert_eq!((&first["handlers"], &second["handlers"]), (&json!(1), &json!(2)));
}

/// R-081: when the connection has ended, no handler of it is left, whatever it was doing.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_when_it_is_over_r081() {
    let (agent, _hears) = Odd::new();
    let handlers = Arc::downgrade(&agent.handlers);
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = split(theirs);
    let served = tokio::spawn(serve(agent, stream(reader, writer)));
    let (reader, mut out) = split(ours);
    let mut lines = BufReader::new(reader).lines();
    let frames = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "_never", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "_handed_on", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "_ok", "params": {} }),
    ];
    for frame in &frames {
        out.write_all(format!("{frame}\n").as_bytes()).await.expect("the agent reads");
    }
    while lines.next_line().await.expect("readable").is_some_and(|line| !line.contains("\"id\":3")) {}
    assert_eq!(handlers.strong_count(), 1, "the agent lives as long as its connection");
    drop((out, lines));
    served.await.expect("no panic").expect("a good end");
    assert_eq!(handlers.strong_count(), 0, "and not longer");
}

// Our own requests, from a client.

struct Quiet;

impl Client for Quiet {}

/// A client, and the agent's end of its pipes.
struct Desk {
    agent: ClientConnection,
    out: WriteHalf<DuplexStream>,
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Desk {
    fn connect() -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = split(ours);
        let agent = connect(Quiet, stream(reader, writer)).expect("nothing to open");
        let (reader, out) = split(theirs);
        Self { agent, out, lines: BufReader::new(reader).lines() }
    }

    async fn initialized() -> Self {
        let mut desk = Self::connect();
        let Self { agent, out, lines } = &mut desk;
        let answer = async {
            let hello: Value =
                serde_json::from_str(&lines.next_line().await.expect("readable").expect("a line")).expect("JSON");
            let result = json!({ "protocolVersion": 1 });
            let line = json!({ "jsonrpc": "2.0", "id": hello["id"], "result": result });
            out.write_all(format!("{line}\n").as_bytes()).await.expect("the client reads");
        };
        let (hello, ()) = tokio::join!(agent.initialize(), answer);
        hello.expect("an answer");
        desk
    }

    async fn send(&mut self, frame: Value) {
        self.out.write_all(format!("{frame}\n").as_bytes()).await.expect("the client reads");
    }

    async fn line(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.expect("readable").expect("a line")).expect("JSON")
    }
}

/// R-011: before the handshake, between it and the end, after the end.
#[tokio::test]
async fn a_connection_has_its_phases_r011() {
    let desk = Desk::connect();
    assert!(!desk.agent.is_initialized());
    let early = desk.agent.request(NewSessionRequest::new("/")).await.expect_err("too early");
    assert!(matches!(early, RequestError::Send(SendError::NotInitialized)));
    let desk = Desk::initialized().await;
    assert!(desk.agent.is_initialized() && desk.agent.close_reason().is_none());
    let handle = Connection::clone(&desk.agent);
    desk.agent.shut_down().await.expect("a good end");
    assert_eq!((handle.is_initialized(), handle.close_reason()), (false, Some(Closed::Locally)));
    let late = handle.request(NewSessionRequest::new("/")).await.expect_err("too late");
    assert!(matches!(late, RequestError::Send(SendError::Closed)));
}

/// R-055: answers to nothing are counted and make no frame: unknown, late, twice, of the wrong shape, to nobody.
#[tokio::test]
async fn answers_to_nothing_are_counted_r055() {
    let mut desk = Desk::initialized().await;
    let asked = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let id = desk.line().await["id"].clone();
    let result = json!({ "sessionId": "s1" });
    let error = json!({ "code": -32603, "message": "to nobody" });
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    assert_eq!(asked.await.expect("a session").session_id.as_str(), "s1");
    for frame in [
        json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        json!({ "jsonrpc": "2.0", "id": 77, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "1", "result": {} }),
        json!({ "jsonrpc": "2.0", "id": null, "error": error }),
    ] {
        desk.send(frame).await;
    }
    // What comes behind them is still taken, and the next frame of ours is the next request.
    let asked = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let next = desk.line().await;
    assert_eq!(next["method"], "session/new", "{next}");
    desk.send(json!({ "jsonrpc": "2.0", "id": next["id"], "result": result })).await;
    asked.await.expect("a session");
    let counters = desk.agent.counters();
    assert_eq!(counters.late_response + counters.malformed_response, 4, "{counters:?}");
}

/// R-057: a result is what its method returns, or the outcome is a decode error; an extension's is handed over as it is; an
/// error is the error.
#[tokio::test]
async fn results_have_the_type_of_their_method_r057() {
    let mut desk = Desk::initialized().await;
    let asked = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let id = desk.line().await["id"].clone();
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "result": { "sessionId": 5 } })).await;
    assert!(matches!(asked.await, Err(RequestError::Result(_))));

    let connection = Connection::clone(&desk.agent);
    let asked = tokio::spawn(async move { connection.ext_request("_x", &json!({})).await });
    let id = desk.line().await["id"].clone();
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "result": [1, { "any": "thing" }] })).await;
    assert_eq!(asked.await.expect("no panic").expect("a result").as_str(), r#"[1,{"any":"thing"}]"#);

    let asked = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let id = desk.line().await["id"].clone();
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -1, "message": "no", "data": 3 } })).await;
    let Err(RequestError::Peer(error)) = asked.await else { panic!("an error was sent") };
    assert_eq!((error.code.get(), error.message.as_str()), (-1, "no"));
    assert_eq!(error.data.expect("data").get(), "3");
}

/// R-058, O6: params that cannot be written are the caller's to hear of; nothing leaves and nothing else suffers.
#[tokio::test]
async fn params_that_cannot_be_written_stay_here_r058() {
    let mut desk = Desk::initialized().await;
    let request = desk.agent.ext_request("_x", &Unwritable).await;
    assert!(matches!(request, Err(RequestError::Encode(_))), "{request:?}");
    let notification = desk.agent.ext_notify("_x", &Unwritable).await;
    assert!(matches!(notification, Err(RequestError::Encode(_))), "{notification:?}");
    desk.agent.ext_notify("_y", &json!({})).await.expect("sent");
    assert_eq!(desk.line().await["method"], "_y", "the first frame since");
}

/// R-059: who asked and went away is missed by nobody: the peer is told, its answer is counted, the connection goes on.
#[tokio::test]
async fn a_caller_that_is_gone_harms_nothing_r059() {
    let mut desk = Desk::initialized().await;
    let connection = Connection::clone(&desk.agent);
    let caller = tokio::spawn(async move { connection.ext_request("_slow", &json!({})).await });
    let id = desk.line().await["id"].clone();
    caller.abort();
    let told = desk.line().await;
    assert_eq!((&told["method"], &told["params"]["requestId"]), (&json!("$/cancel_request"), &id));
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "result": {} })).await;
    let asked = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let id = desk.line().await["id"].clone();
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "result": { "sessionId": "s1" } })).await;
    asked.await.expect("a session");
    assert_eq!(desk.agent.counters().late_response, 1);
}

/// R-060: a request that the connection does not take is told to who sent it and to nobody else. When the carrier itself
/// fails, everybody is told.
#[tokio::test]
async fn a_failure_to_send_is_the_senders_or_everybodys_r060() {
    let mut desk = Desk::initialized().await;
    let other = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let listing = desk.agent.request(pintle_sdk::acp::types::ListSessionsRequest::new()).await;
    assert!(matches!(listing, Err(RequestError::Send(SendError::NotAdvertised))), "{listing:?}");
    let id = desk.line().await["id"].clone();
    desk.send(json!({ "jsonrpc": "2.0", "id": id, "result": { "sessionId": "s1" } })).await;
    other.await.expect("untouched");

    let last = desk.agent.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let Desk { agent, out, lines } = desk;
    drop((out, lines));
    assert!(matches!(last.await, Err(RequestError::Closed)));
    assert!(matches!(agent.closed().await, Closed::ByPeer | Closed::Lost));
}

/// R-181: `prompt` collects, `prompt_stream` hands out as they come; the outcome is the answer's.
#[tokio::test]
async fn a_turn_is_collected_or_streamed_r181() {
    let (agent, _hears) = Odd::new();
    let (ours, theirs) = memory();
    let served = tokio::spawn(serve(agent, theirs));
    let client = connect(Quiet, ours).expect("memory opens");
    client.initialize().await.expect("an answer");
    client.request(NewSessionRequest::new("/")).await.expect("a session");
    let prompt = || PromptRequest::new("s1", vec!["go".into()]);
    let text = |update: &SessionNotification| {
        update.update.chunk().and_then(|chunk| chunk.content.as_text().map(str::to_owned)).expect("text")
    };
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let collected = client.prompt(prompt()).await.expect("a turn");
    assert_eq!(collected.updates.iter().map(text).collect::<Vec<_>>(), expected);
    assert_eq!(collected.response, PromptResponse::end_turn());
    let mut streamed = client.prompt_stream(prompt()).await.expect("sent");
    let mut seen = Vec::new();
    while let Some(update) = streamed.next().await {
        seen.push(text(&update));
    }
    assert_eq!((seen, streamed.delivered()), (expected, 20));
    assert_eq!(streamed.finish().await.expect("an answer"), PromptResponse::end_turn());
    client.shut_down().await.expect("a good end");
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, served).await.expect("it ends").expect("no panic").expect("a good end");
}
