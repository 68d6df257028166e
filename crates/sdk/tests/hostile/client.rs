//! A client whose agent misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pintle_sdk::acp::types::{
    ClientCapabilities, NewSessionRequest, PromptRequest, RequestPermissionRequest, RequestPermissionResponse,
    SessionId, SessionNotification, SessionUpdate, SetSessionModeRequest, StopReason,
};
use pintle_sdk::acp::{
    Client, ClientConnection, Closed, Config, Ctx, Error, PromptError, RequestError, SendError, connect_with, timeouts,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::raw::{PIPE_BYTES, Peer, Sentinel, code};

/// Notes its updates; can be told to stop taking them.
#[derive(Clone)]
struct Desk {
    seen: mpsc::UnboundedSender<SessionNotification>,
    blocked: Arc<AtomicBool>,
    go: Arc<Notify>,
    asked: Arc<AtomicUsize>,
}

impl Client for Desk {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    async fn session_update(&self, notification: SessionNotification, cx: &Ctx) {
        assert!(cx.rx_seq().get() > 0 && cx.session().is_some());
        if self.blocked.load(Ordering::SeqCst) {
            self.go.notified().await;
        }
        let panics = matches!(&notification.update, SessionUpdate::AgentThoughtChunk(_));
        let _ = self.seen.send(notification);
        assert!(!panics, "secret detail");
    }

    async fn request_permission(
        &self,
        request: RequestPermissionRequest,
        _: &Ctx,
    ) -> Result<RequestPermissionResponse, Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(request.session_id.as_str() != "panic", "secret detail");
        std::future::pending().await
    }
}

struct Table {
    peer: Peer,
    connection: ClientConnection,
    desk: Desk,
    seen: mpsc::UnboundedReceiver<SessionNotification>,
}

impl Table {
    fn unshaken() -> Self {
        Self::unshaken_with(Config::default())
    }

    fn unshaken_with(config: Config) -> Self {
        let (mut peer, transport) = Peer::pair();
        let (sender, seen) = mpsc::unbounded_channel();
        let desk = Desk { seen: sender, blocked: Arc::default(), go: Arc::default(), asked: Arc::default() };
        let connection = connect_with(desk.clone(), transport, config).expect("opens");
        peer.sentinel = Sentinel::over(&connection);
        Self { peer, connection, desk, seen }
    }

    /// After a handshake, with session `s1`.
    async fn laid() -> Self {
        Self::laid_with(Config::default()).await
    }

    async fn laid_with(config: Config) -> Self {
        let mut table = Self::unshaken_with(config);
        let (hello, _) =
            tokio::join!(table.connection.initialize(), table.peer.expect("initialize", json!({"protocolVersion":1})));
        hello.expect("a handshake");
        let new = table.connection.request(NewSessionRequest::new("/"));
        let (session, _) = tokio::join!(new, table.peer.expect("session/new", json!({"sessionId":"s1"})));
        session.expect("a session");
        table
    }

    async fn next_text(&mut self) -> String {
        let notification = self.seen.recv().await.expect("an update");
        notification.update.chunk().and_then(|chunk| chunk.content.as_text()).unwrap_or_default().to_owned()
    }
}

fn prompt() -> PromptRequest {
    PromptRequest::new("s1", ["go".into()])
}

/// zed#58568, zed#44826, gemini-cli#22647, #25345, claude-agent-acp#69: banners and log lines on the agent's output, before
/// and between its frames, cost an error each and nothing else.
#[tokio::test(start_paused = true)]
async fn log_lines_on_the_agents_output_are_passed_over() {
    let mut table = Table::unshaken();
    table.peer.raw(b"Welcome to bash\nLast login: today\n\x1b[31mred\x1b[0m\n").await;
    let answers = async {
        let mut errors = 0;
        loop {
            let frame = table.peer.line().await;
            if frame["method"] == "initialize" {
                table.peer.raw(b"[debug] initialize\n").await;
                table.peer.answer(&frame, json!({"protocolVersion":1})).await;
                return errors;
            }
            assert_eq!((&frame["id"], code(&frame)), (&json!(null), -32700));
            errors += 1;
        }
    };
    let (hello, errors) = tokio::join!(table.connection.initialize(), answers);
    hello.expect("a handshake all the same");
    assert!(errors <= 3);
    assert_eq!(table.connection.counters().parse_error, 4);
}

/// rust-sdk#250, #89, zed#62828: an agent that dies in the middle of a frame ends every request; after that everything fails
/// at once, and the connection says that it is over.
#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_ends_every_request() {
    let mut table = Table::laid().await;
    let stream = table.connection.prompt_stream(prompt()).await.expect("sent");
    let other = table.connection.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    table.peer.update("s1", "the last word").await;
    table.peer.raw(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"resu").await;
    drop(table.peer);
    assert!(matches!(other.await, Err(RequestError::Closed)));
    let mut stream = stream;
    assert!(stream.next().await.is_some(), "what was said before is not lost");
    assert!(stream.next().await.is_none());
    assert!(stream.finish().await.is_err());
    assert!(matches!(table.connection.closed().await, Closed::ByPeer | Closed::Lost));
    assert!(table.connection.close_reason().is_some());
    let start = Instant::now();
    let after = table.connection.request(NewSessionRequest::new("/")).await;
    assert!(matches!(after, Err(RequestError::Send(SendError::Closed))), "{after:?}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// R-185, claude-agent-acp#497, #630: a prompt has no limit of its own; given one, it ends by it, and the agent is told.
#[tokio::test(start_paused = true)]
async fn a_turn_that_never_ends_has_the_limit_that_it_is_given_r185() {
    let mut table = Table::laid().await;
    let start = Instant::now();
    let limited = table.connection.request_within(prompt(), Some(Duration::from_secs(60)));
    assert!(matches!(limited.await, Err(RequestError::TimedOut)));
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    let sent = table.peer.line().await;
    let cancel = table.peer.line().await;
    assert_eq!((&cancel["method"], &cancel["params"]["requestId"]), (&json!("$/cancel_request"), &sent["id"]));
    let unlimited = tokio::time::timeout(Duration::from_secs(86_400), table.connection.request(prompt())).await;
    assert!(unlimited.is_err(), "waits for a day of virtual time and more");
}

/// what is asked of an agent that never answers ends by its time, which follows from the method; the agent is told,
/// and the handshake may be tried again.
#[tokio::test(start_paused = true)]
async fn an_agent_that_never_answers_is_given_up_by_method() {
    let mut table = Table::unshaken();
    let start = Instant::now();
    let hello = table.connection.initialize().await;
    assert!(matches!(hello, Err(RequestError::TimedOut)), "{hello:?}");
    assert_eq!(start.elapsed().as_secs(), timeouts::INITIALIZE.as_secs());
    assert_eq!(table.peer.line().await["method"], "initialize");
    assert_eq!(table.peer.line().await["method"], "$/cancel_request");
    let (hello, _) =
        tokio::join!(table.connection.initialize(), table.peer.expect("initialize", json!({"protocolVersion":1})));
    hello.expect("the second time");

    let start = Instant::now();
    let new = table.connection.request(NewSessionRequest::new("/")).await;
    assert!(matches!(new, Err(RequestError::TimedOut)), "{new:?}");
    assert_eq!(start.elapsed().as_secs(), timeouts::OPEN_SESSION.as_secs());
    let mode = table.connection.request(SetSessionModeRequest::new("s1", "ask")).await;
    assert!(matches!(mode, Err(RequestError::TimedOut)), "{mode:?}");
    assert_eq!(start.elapsed().as_secs(), (timeouts::OPEN_SESSION + timeouts::CONTROL).as_secs());
    let day = Duration::from_secs(24 * 3600);
    assert!(tokio::time::timeout(day, table.connection.request(prompt())).await.is_err(), "a turn may take a day");
}

/// Answers that nobody takes cost a bounded number of bytes: what finds no room ends as that, and taking makes room.
#[tokio::test(start_paused = true)]
async fn answers_that_nobody_takes_are_bounded() {
    const LIMIT_BYTES: usize = 1 << 20;
    let mut config = Config::default();
    config.max_untaken_answer_bytes = LIMIT_BYTES;
    let mut table = Table::laid_with(config).await;
    let large = |id: usize, bytes: usize| json!({"sessionId":format!("n{id}"),"_meta":{"x":"x".repeat(bytes)}});
    let mut open = Vec::new();
    for id in 0..6 {
        open.push(table.connection.async_request(&NewSessionRequest::new("/")).await.expect("sent"));
        let sent = table.peer.line().await;
        table.peer.answer(&sent, large(id, LIMIT_BYTES * 2 / 5)).await;
    }
    // Everything was read when this is answered.
    table.peer.request(1, "no/such", json!({})).await;
    assert_eq!(table.peer.line().await["id"], 1);
    let mut taken = Vec::new();
    for reply in open {
        taken.push(match reply.await {
            Ok(session) => session.session_id.as_str().to_owned(),
            Err(error) => error.to_string(),
        });
    }
    let no_room = format!("more than {LIMIT_BYTES} bytes of answers wait to be taken");
    assert_eq!(taken[..2], ["n0", "n1"]);
    assert!(taken[2..].iter().all(|told| *told == no_room), "{taken:?}");
    assert_eq!(table.connection.counters().shed_answer, 4);

    // One that is larger than the bound passes when it is the only one, and the room is free again.
    let new = table.connection.request(NewSessionRequest::new("/"));
    let (session, _) = tokio::join!(new, table.peer.expect("session/new", large(7, 2 * LIMIT_BYTES)));
    assert_eq!(session.expect("the only one").session_id.as_str(), "n7");
    // Dropping takes too.
    for id in 8..14 {
        drop(table.connection.async_request(&NewSessionRequest::new("/")).await.expect("sent"));
        let sent = table.peer.line().await;
        assert_eq!(table.peer.line().await["method"], "$/cancel_request");
        table.peer.answer(&sent, large(id, LIMIT_BYTES / 2)).await;
    }
    let new = table.connection.request(NewSessionRequest::new("/"));
    let (session, _) = tokio::join!(new, table.peer.expect("session/new", large(20, LIMIT_BYTES / 2)));
    session.expect("room");
}

/// D2: a turn of which updates had to be dropped, since somebody waited for an answer behind them, says so at its end.
#[tokio::test(start_paused = true)]
async fn a_turn_that_lost_updates_says_so_d2() {
    let mut table = Table::laid().await;
    let turn = table.connection.prompt_stream(prompt()).await.expect("sent");
    let sent = table.peer.line().await;
    let other = table.connection.async_request(&NewSessionRequest::new("/")).await.expect("sent");
    let asked = table.peer.line().await;
    let (updates, text) = (200, "x".repeat(64 * 1024));
    for _ in 0..updates {
        table.peer.update("s1", &text).await;
    }
    table.peer.answer(&asked, json!({"sessionId":"s2"})).await;
    other.await.expect("not stuck behind the updates");
    table.peer.answer(&sent, json!({"stopReason":"end_turn"})).await;
    match turn.finish().await {
        Err(PromptError::DeliveryGap { delivered, expected }) => {
            assert_eq!(expected, updates);
            assert!(0 < delivered && delivered < expected, "{delivered}");
            assert_eq!(table.connection.counters().shed_notification, expected - delivered);
        }
        other => panic!("{other:?}"),
    }
}

/// An agent that does not read: a request that cannot leave ends by its time, and closing does not wait for it for ever.
#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_reading_holds_up_nobody() {
    let table = Table::laid().await;
    let big = |limit| {
        let text = "x".repeat(100 * 1024);
        let prompt = PromptRequest::new("s1", [text.as_str().into()]);
        table.connection.request_within(prompt, Some(Duration::from_secs(limit)))
    };
    let (a, b, c, d) = tokio::join!(big(5), big(6), big(7), big(8));
    for ended in [a, b, c, d] {
        assert!(matches!(ended, Err(RequestError::TimedOut)), "{ended:?}");
    }
    let start = Instant::now();
    assert_eq!(
        table.connection.shut_down().await.expect("no fault of the carrier"),
        Closed::Lost,
        "not all was written"
    );
    assert!(start.elapsed() <= Duration::from_secs(3), "{:?}", start.elapsed());
    drop(table.peer);
}

/// G-08, D1: a client that does not take its updates is not read past a bound; nothing is lost, and the order stays.
#[tokio::test(start_paused = true)]
async fn a_flood_of_updates_waits_at_the_bound() {
    let mut table = Table::laid().await;
    table.desk.blocked.store(true, Ordering::SeqCst);
    let text = "x".repeat(900);
    let update = json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":text}});
    let line =
        format!("{}\n", json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":update}}));
    let taken = table.peer.push_until_stuck(line.as_bytes(), 8 << 20).await;
    assert!(taken < 512 * 1024 + 4 * PIPE_BYTES, "{taken} bytes are underway");
    assert!(taken > 256 * 1024, "{taken}");
    assert_eq!(table.connection.counters().shed_notification, 0, "a client waits, it drops nothing");
    table.desk.blocked.store(false, Ordering::SeqCst);
    table.desk.go.notify_one();
    for _ in 0..taken / line.len() {
        assert_eq!(table.next_text().await.len(), 900);
    }
}

/// An agent that asks a thousand and one times: the cap holds, and a cancel answers all that are open.
#[tokio::test(start_paused = true)]
async fn a_flood_of_permission_requests() {
    let mut table = Table::laid().await;
    let _turn = table.connection.prompt_stream(prompt()).await.expect("sent");
    table.peer.line().await;
    let ask = json!({"sessionId":"s1","toolCall":{"toolCallId":"c"},"options":[]});
    for id in 0..1001 {
        table.peer.request(id, "session/request_permission", ask.clone()).await;
    }
    let refused = table.peer.line().await;
    assert_eq!((&refused["id"], code(&refused)), (&json!(1000), -32603));
    table.connection.cancel(&SessionId::from("s1"));
    assert_eq!(table.peer.line().await["method"], "session/cancel");
    let mut ids = Vec::new();
    for _ in 0..1000 {
        let answer = table.peer.line().await;
        assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled", "deepchat#1881");
        ids.push(answer["id"].as_i64().expect("a number"));
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..1000), "each once");
    assert!(table.peer.line_if_any().await.is_none());
}

/// R-183, cli-sub-agent#2585: an update of an unknown kind reaches the handler, in its place and with all that it has.
/// one that is none is dropped and counted, and makes no frame.
#[tokio::test(start_paused = true)]
async fn unknown_updates_are_kept_and_broken_ones_counted_r183_r184() {
    let mut table = Table::laid().await;
    table.peer.update("s1", "first").await;
    let future = json!({"sessionUpdate":"hologram_update","depth":3});
    table.peer.notify("session/update", json!({"sessionId":"s1","update":future})).await;
    table.peer.notify("session/update", json!({"sessionId":"s1","update":{"sessionUpdate":7}})).await;
    table.peer.notify("session/update", json!({"sessionId":"s1","update":{"sessionUpdate":"plan"}})).await;
    table.peer.update("s1", "last").await;
    assert_eq!(table.next_text().await, "first");
    let unknown = table.seen.recv().await.expect("an update").update;
    assert!(matches!(&unknown, SessionUpdate::Unknown { tag, .. } if tag == "hologram_update"));
    assert_eq!(serde_json::to_value(&unknown).expect("JSON"), future);
    assert_eq!(table.next_text().await, "last");
    assert_eq!(table.connection.counters().dropped_notification, 2);
    assert!(table.peer.line_if_any().await.is_none());
}

/// github/copilot-sdk#2053, Inv-16: a handler that panics is an answer, or nothing at all, and the next one is called.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_clients_handler_is_contained() {
    let mut table = Table::laid().await;
    table.peer.sentinel.expect("handler_panic");
    let ask = json!({"sessionId":"panic","toolCall":{"toolCallId":"c"},"options":[]});
    table.peer.request(1, "session/request_permission", ask).await;
    let answer = table.peer.line().await;
    assert_eq!((&answer["id"], code(&answer)), (&json!(1), -32603));
    assert!(!answer.to_string().contains("secret"));
    let thought = json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"boom"}});
    table.peer.notify("session/update", json!({"sessionId":"s1","update":thought})).await;
    table.peer.update("s1", "after").await;
    assert_eq!((table.next_text().await, table.next_text().await), ("boom".to_owned(), "after".to_owned()));
    assert_eq!(table.connection.counters().handler_panic, 2);
    assert!(table.peer.line_if_any().await.is_none(), "R-100: a notification makes no frame");
}

/// rust-sdk#301: nothing of an answer is lost: settings, modes, and what this version does not know.
#[tokio::test(start_paused = true)]
async fn answers_are_handed_over_whole() {
    let mut table = Table::laid().await;
    let option = json!({"id":"web","name":"Web","type":"boolean","currentValue":true});
    let answer = json!({"sessionId":"s2","configOptions":[option],"models":{"current":"m"},"_meta":{"k":1}});
    let new = table.connection.request(NewSessionRequest::new("/"));
    let (session, _) = tokio::join!(new, table.peer.expect("session/new", answer.clone()));
    assert_eq!(serde_json::to_value(session.expect("a session")).expect("JSON"), answer);
}

/// hermes-agent#108488: what the client does not know is answered, always.
#[tokio::test(start_paused = true)]
async fn unknown_and_unadvertised_requests_are_answered() {
    let mut table = Table::laid().await;
    for method in ["no/such", "_x/y", "fs/read_text_file", "terminal/create", "session/prompt", "elicitation/create"] {
        table.peer.request(1, method, json!({"sessionId":"s1"})).await;
        let answer = table.peer.line().await;
        assert_eq!((&answer["id"], code(&answer)), (&json!(1), -32601), "{method}");
    }
}

/// An agent that answers twice, or under another id: the first right answer counts.
#[tokio::test(start_paused = true)]
async fn answers_are_taken_once_and_by_their_id() {
    let mut table = Table::laid().await;
    let asking = table.connection.request(prompt());
    let answering = async {
        let sent = table.peer.line().await;
        table.peer.send(json!({"jsonrpc":"2.0","id":sent["id"].to_string(),"result":{"stopReason":"refusal"}})).await;
        table.peer.answer(&sent, json!({"stopReason":"end_turn"})).await;
        table.peer.answer(&sent, json!({"stopReason":"refusal"})).await;
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.expect("answered").stop_reason, StopReason::EndTurn);
    assert!(table.peer.line_if_any().await.is_none());
    assert_eq!(table.connection.counters().late_response, 2);
}

/// acp.el#6: an answer without the members that its method has is an error, not an empty success.
#[tokio::test(start_paused = true)]
async fn an_answer_without_its_members_is_an_error() {
    for result in [json!({}), json!(null), json!([]), json!({"stopReason":7})] {
        let mut table = Table::laid().await;
        let (answer, _) =
            tokio::join!(table.connection.request(prompt()), table.peer.expect("session/prompt", result.clone()));
        assert!(matches!(answer, Err(RequestError::Result(_))), "{result}: {answer:?}");
    }
}

/// buzz#4728, connectonion#979: an agent that speaks another version is left alone, as is one that names none.
#[tokio::test(start_paused = true)]
async fn a_version_that_we_do_not_speak_ends_the_connection() {
    let versions: [(Value, bool); 3] = [(json!(2), true), (json!(65535), true), (json!("1"), false)];
    for (version, is_version) in versions {
        let mut table = Table::unshaken();
        let answer = json!({"protocolVersion":version});
        let (hello, _) = tokio::join!(table.connection.initialize(), table.peer.expect("initialize", answer));
        match hello {
            Err(RequestError::Version { offered }) => assert!(is_version && json!(offered) == version),
            Err(RequestError::Result(_)) => assert!(!is_version),
            other => panic!("{version}: {other:?}"),
        }
    }
}
