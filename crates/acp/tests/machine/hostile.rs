//! Peers that do what no peer should: the matrix of adversarial inputs, against both ends.
//!
//! Over 600 lines because each hostile input is one row of one table that both ends are played against.
//!
//! Bounds are asserted by what the ends say they hold, never by time. `docs/hostile-peers.md` lists the reports behind these
//! tests.

use std::time::Duration;

use pintle_acp::permission::Decision;
use pintle_acp::types::{PermissionOption, PermissionOptionKind};
use pintle_acp::{AgentEvent, Call, ClientEvent, Config, Outcome, Reply, SendError};
use serde_json::{Value, json};

use crate::pair::{Agent, Client, code};

const MIB: usize = 1 << 20;

/// Either end, as its attacker sees it.
enum Victim {
    Agent(Box<Agent>),
    Client(Box<Client>),
}

impl Victim {
    /// Both ends, after a good handshake.
    fn both(config: &Config) -> [Self; 2] {
        [
            Self::Agent(Box::new(Agent::initialized_with(config.clone(), json!({}), json!({})))),
            Self::Client(Box::new(Client::initialized_with(config.clone(), json!({})))),
        ]
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Client(_) => "client",
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Agent(agent) => agent.feed(bytes),
            Self::Client(client) => client.feed(bytes),
        }
    }

    fn send(&mut self, frame: &Value) {
        self.feed(format!("{frame}\n").as_bytes());
    }

    fn text(&mut self) -> String {
        match self {
            Self::Agent(agent) => agent.text(),
            Self::Client(client) => client.text(),
        }
    }

    /// What was answered: ids and error codes.
    fn answers(&mut self) -> Vec<(Value, i64)> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("every line is JSON"))
            .map(|frame| (frame["id"].clone(), code(&frame)))
            .collect()
    }

    fn counters(&self) -> pintle_acp::Counters {
        match self {
            Self::Agent(agent) => agent.end.counters(),
            Self::Client(client) => client.end.counters(),
        }
    }

    /// Requests of the peer, requests of ours, sessions.
    fn load(&self) -> (usize, usize, usize) {
        match self {
            Self::Agent(agent) => agent.end.load(),
            Self::Client(client) => client.end.load(),
        }
    }

    /// Frames kept, their bytes, bytes of a line in the making.
    fn held(&self) -> (usize, usize, usize) {
        match self {
            Self::Agent(agent) => agent.end.held(),
            Self::Client(client) => client.end.held(),
        }
    }

    fn events(&self) -> usize {
        match self {
            Self::Agent(agent) => agent.events.len(),
            Self::Client(client) => client.events.len(),
        }
    }

    fn forget_events(&mut self) {
        match self {
            Self::Agent(agent) => {
                agent.sentinel.tolerate("dropped_reply");
                agent.events.clear();
            }
            Self::Client(client) => {
                client.sentinel.tolerate("dropped_reply");
                client.events.clear();
            }
        }
    }

    /// Inv-15, Inv-17: a good request is answered, and nothing is left of what came before.
    fn assert_alive(&mut self, after: &str) {
        self.text();
        self.send(&json!({ "jsonrpc": "2.0", "id": "alive", "method": "_vendor/alive" }));
        let answered = match self {
            Self::Agent(agent) => {
                let (token, _) = agent.take_request("_vendor/alive");
                agent.answer(token, json!("yes"));
                agent.frames()
            }
            Self::Client(client) => {
                let token = client.take_request("_vendor/alive");
                client.end.reply(token, &Reply::ok(&json!("yes")).expect("JSON"));
                client.frames()
            }
        };
        assert_eq!(answered, [json!({ "jsonrpc": "2.0", "id": "alive", "result": "yes" })], "{} {after}", self.name());
        assert_eq!((self.load().0, self.load().1, self.held()), (0, 0, (0, 0, 0)), "{} {after}", self.name());
    }
}

/// What an attacker sends, and all that it gets for it.
type Attack = (&'static str, Vec<u8>, Vec<(Value, i64)>);

fn attacks() -> Vec<Attack> {
    let parse = || vec![(Value::Null, -32700)];
    let invalid = || vec![(Value::Null, -32600)];
    let line = |text: &str| format!("{text}\n").into_bytes();
    let with_id = |id: &str| line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_vendor/x"}}"#));
    let mut rows: Vec<Attack> = vec![
        ("log line", line("[INFO] starting up"), parse()),
        ("torn JSON", line(r#"{"jsonrpc":"2.0","id":1,"#), parse()),
        ("two values on a line", line("{}{}"), parse()),
        ("control character in a string", line("{\"jsonrpc\":\"2.0\",\"method\":\"a\u{1}b\"}"), parse()),
        ("zero bytes", b"\0\0\0\n".to_vec(), parse()),
        ("invalid UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n".to_vec(), parse()),
        ("overlong UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc0\xaf\"}\n".to_vec(), parse()),
        ("surrogate in UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}\n".to_vec(), parse()),
        ("byte order mark, late", line("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"_x\"}"), parse()),
        ("blank lines", b"\n\r\n\n\r\n".to_vec(), vec![]),
        ("number out of range", line(r#"{"jsonrpc":"2.0","id":1,"method":"_x","params":1e400}"#), parse()),
        ("duplicate member", line(r#"{"jsonrpc":"2.0","id":1,"method":"_x","method":"_y"}"#), parse()),
        ("duplicate member, escaped", line(r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"_y"}"#), parse()),
        (
            "duplicate member, deep",
            line(r#"{"jsonrpc":"2.0","id":1,"method":"_x","params":{"a":{"b":1,"b":2}}}"#),
            parse(),
        ),
        ("200k nested arrays", line(&"[".repeat(200_000)), parse()),
        ("200k nested arrays, closed", line(&format!("{}{}", "[".repeat(200_000), "]".repeat(200_000))), parse()),
        ("200k nested objects", line(&r#"{"a":"#.repeat(200_000)), parse()),
        (
            "deep params",
            line(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"_x","params":{}{}}}"#,
                "[".repeat(300),
                "]".repeat(300)
            )),
            parse(),
        ),
        ("scalar 42", line("42"), parse()),
        ("scalar null", line("null"), parse()),
        ("scalar string", line(r#""initialize""#), parse()),
        (
            "batch",
            line(r#"[{"jsonrpc":"2.0","id":1,"method":"_x"},{"jsonrpc":"2.0","id":2,"method":"_x"}]"#),
            invalid(),
        ),
        ("empty batch", line("[]"), invalid()),
        ("empty object", line("{}"), invalid()),
        ("no jsonrpc", line(r#"{"id":5,"method":"_x"}"#), vec![(json!(5), -32600)]),
        ("jsonrpc 1.0", line(r#"{"jsonrpc":"1.0","id":5,"method":"_x"}"#), vec![(json!(5), -32600)]),
        ("jsonrpc as a number", line(r#"{"jsonrpc":2.0,"id":5,"method":"_x"}"#), vec![(json!(5), -32600)]),
        ("neither method nor result nor error", line(r#"{"jsonrpc":"2.0","id":7}"#), vec![(json!(7), -32600)]),
        ("method is a number", line(r#"{"jsonrpc":"2.0","id":7,"method":1}"#), vec![(json!(7), -32600)]),
        ("method is null", line(r#"{"jsonrpc":"2.0","id":7,"method":null}"#), vec![(json!(7), -32600)]),
        ("unknown method", line(r#"{"jsonrpc":"2.0","id":8,"method":"no/such"}"#), vec![(json!(8), -32601)]),
        (
            "positional params",
            line(r#"{"jsonrpc":"2.0","id":8,"method":"no/such","params":[1]}"#),
            vec![(json!(8), -32601)],
        ),
        ("late response", line(r#"{"jsonrpc":"2.0","id":424242,"result":{}}"#), vec![]),
        (
            "response, result and error",
            line(r#"{"jsonrpc":"2.0","id":424242,"result":{},"error":{"code":1,"message":"m"}}"#),
            vec![],
        ),
        ("response with a string id", line(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#), vec![]),
        ("response with id null", line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#), vec![]),
        ("response without id", line(r#"{"jsonrpc":"2.0","result":{}}"#), vec![]),
        ("response, error is text", line(r#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#), vec![]),
        ("response, error is null", line(r#"{"jsonrpc":"2.0","id":1,"error":null}"#), vec![]),
        ("unknown notification", line(r#"{"jsonrpc":"2.0","method":"no/such"}"#), vec![]),
        ("notification, garbage params", line(r#"{"jsonrpc":"2.0","method":"session/update","params":[[]]}"#), vec![]),
        (
            "cancel of nothing",
            line(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}}"#),
            vec![],
        ),
    ];
    for id in ["null", "1.5", "1e2", "true", "[1]", "{}", "9223372036854775808", "-9223372036854775809"] {
        rows.push(("illegal id", with_id(id), invalid()));
    }
    // Ids are kept and echoed, so they are bounded; names are neither kept nor echoed whole.
    rows.push(("huge id", with_id(&format!("\"{}\"", "x".repeat(MIB))), invalid()));
    let huge = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{}"}}"#, "m".repeat(MIB));
    rows.push(("huge method name", line(&huge), vec![(json!(9), -32601)]));
    rows
}

/// acp-peers section 3; R-034 to R-038, Inv-15, S1, S5: every input has one right answer, the same from both ends and however
/// the bytes are cut, and the connection is as good as new after it.
#[test]
fn every_attack_has_one_right_answer() {
    for (name, bytes, expected) in attacks() {
        for cut in [bytes.len(), 1 + bytes.len() / 3, 4096] {
            for mut victim in Victim::both(&Config::default()) {
                for chunk in bytes.chunks(cut) {
                    victim.feed(chunk);
                }
                let text = victim.text();
                let sent = text.len();
                victim.feed(b"");
                let answers: Vec<(Value, i64)> = text
                    .lines()
                    .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
                    .map(|frame| (frame["id"].clone(), code(&frame)))
                    .collect();
                assert_eq!(answers, expected, "{} after {name}", victim.name());
                assert!(sent < 600, "no amplification, no echo: {sent} bytes after {name}");
                assert_eq!(victim.events(), 0, "{} handlers hear nothing of {name}", victim.name());
                victim.assert_alive(name);
            }
        }
    }
}

/// Inv-15: all of them one after the other on one connection, which is alive at the end.
#[test]
fn a_connection_survives_all_of_them() {
    let expected: usize = attacks().iter().map(|(_, _, answers)| answers.len()).sum();
    for mut victim in Victim::both(&Config::default()) {
        for (_, bytes, _) in attacks() {
            victim.feed(&bytes);
        }
        assert_eq!(victim.answers().len(), expected);
        victim.assert_alive("everything");
    }
}

/// F4, R-222: a line that never ends costs no more than the limit, is answered once when it does end, and what follows is
/// read.
#[test]
fn no_newline_for_ever() {
    let mut config = Config::default();
    config.max_line_bytes = MIB;
    for mut victim in Victim::both(&config) {
        let chunk = vec![b'x'; 64 * 1024];
        for _ in 0..400 {
            victim.feed(&chunk);
            assert!(victim.held().2 <= MIB + 1, "{} holds {:?}", victim.name(), victim.held());
        }
        assert!(victim.text().is_empty(), "nothing to say before the line ends");
        victim.feed(b"\n");
        assert_eq!(victim.answers(), [(Value::Null, -32700)]);
        victim.assert_alive("an endless line");
    }
}

/// python-sdk#27, #62: a long line within the limit is a line like any other.
#[test]
fn long_lines_within_the_limit_pass() {
    for bytes in [100 * 1024, MIB, 16 * MIB] {
        for mut victim in Victim::both(&Config::default()) {
            victim.send(
                &json!({ "jsonrpc": "2.0", "id": 1, "method": "_vendor/big", "params": { "x": "y".repeat(bytes) } }),
            );
            match &mut victim {
                Victim::Agent(agent) => {
                    let (token, params) = agent.take_request("_vendor/big");
                    assert_eq!(params.expect("params").as_bytes().len(), bytes + 8);
                    agent.answer(token, json!(1));
                }
                Victim::Client(client) => {
                    let token = client.take_request("_vendor/big");
                    client.end.reply(token, &Reply::ok(&1).expect("JSON"));
                }
            }
            victim.assert_alive("a long line");
        }
    }
}

/// R-071, R-072: of a flood of requests as many run as may, the others are answered, nobody is forgotten.
#[test]
fn a_flood_of_requests() {
    let mut config = Config::default();
    config.max_inflight_requests = 100;
    for mut victim in Victim::both(&config) {
        for id in 0..5000 {
            victim.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "_vendor/slow" }));
            assert!(victim.load().0 <= 100);
        }
        assert_eq!((victim.events(), victim.counters().shed_request), (100, 4900));
        assert_eq!(victim.answers().iter().filter(|(_, code)| *code == -32603).count(), 4900);
        // What was accepted and is forgotten by its handlers is answered too.
        victim.forget_events();
        assert_eq!(victim.answers().len(), 100);
        victim.assert_alive("a flood of requests");
    }
}

/// Requests are bounded by their bytes as well as by their number; one of any size is taken.
#[test]
fn a_flood_of_large_requests() {
    let mut config = Config::default();
    config.max_inflight_bytes = MIB;
    for mut victim in Victim::both(&config) {
        let large =
            |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "_vendor/slow", "params": "x".repeat(300_000) });
        for id in 0..10 {
            victim.send(&large(id));
        }
        assert_eq!((victim.load().0, victim.counters().shed_request), (3, 7));
        let limit: Value = serde_json::from_str(victim.text().lines().next().expect("a refusal")).expect("JSON");
        assert_eq!(limit["error"]["data"]["limit"], MIB);
        victim.forget_events();
        victim.text();
        victim.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "_vendor/slow", "params": "x".repeat(2 * MIB) }));
        assert_eq!(victim.load().0, 1, "the only one may have any size");
        victim.forget_events();
        victim.assert_alive("large requests");
    }
}

/// A flood of unknown requests is answered one by one, and nothing of it is kept.
#[test]
fn a_flood_of_unknown_requests() {
    for mut victim in Victim::both(&Config::default()) {
        for id in 0..2000 {
            victim.send(&json!({ "jsonrpc": "2.0", "id": id, "method": format!("no/such{id}") }));
        }
        let answers = victim.answers();
        assert_eq!(answers.len(), 2000);
        assert!(answers.iter().enumerate().all(|(n, answer)| *answer == (json!(n), -32601)));
        victim.assert_alive("unknown requests");
    }
}

/// R-070, Inv-14: an id that is in flight, ten thousand times.
#[test]
fn a_flood_of_one_id() {
    for mut victim in Victim::both(&Config::default()) {
        for _ in 0..10_000 {
            victim.send(&json!({ "jsonrpc": "2.0", "id": 7, "method": "_vendor/slow" }));
        }
        assert_eq!((victim.load().0, victim.events()), (1, 1));
        assert_eq!(victim.counters().duplicate_inflight_id, 9999);
        assert!(victim.answers().is_empty());
        victim.forget_events();
        assert_eq!(victim.answers(), [(json!(7), -32603)]);
        victim.assert_alive("one id");
    }
}

/// R-055: responses to what was never asked are counted, and that is all.
#[test]
fn a_flood_of_unknown_ids() {
    for mut victim in Victim::both(&Config::default()) {
        let before = victim.counters().late_response;
        for id in 1000..11_000 {
            victim.feed(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n").as_bytes());
        }
        assert_eq!(victim.counters().late_response - before, 10_000);
        assert!(victim.answers().is_empty());
        victim.assert_alive("unknown ids");
    }
}

/// R-100, R-101, Inv-5: notifications that nobody takes make no frame and leave nothing.
#[test]
fn a_flood_of_notifications() {
    for mut victim in Victim::both(&Config::default()) {
        for n in 0..10_000 {
            victim.send(&json!({ "jsonrpc": "2.0", "method": format!("no/such{n}"), "params": { "n": n } }));
            victim.send(&json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": n } }));
        }
        assert_eq!((victim.events(), victim.counters().dropped_notification), (0, 10_000));
        assert!(victim.answers().is_empty());
        victim.assert_alive("notifications");
    }
}

/// An agent that streams for sessions of which the client never learns: what is kept is bounded in number, in bytes, and in
/// the length of their names.
#[test]
fn a_flood_of_early_updates() {
    let mut client = Client::initialized(json!({}));
    let limits = Config::default();
    for n in 0..2000 {
        client.update("ghost", &"x".repeat(64 * 1024), json!({ "n": n }));
        assert!(client.end.held().1 <= limits.max_early_bytes, "{:?}", client.end.held());
    }
    let (kept, bytes, _) = client.end.held();
    assert!(bytes > limits.max_early_bytes - 70 * 1024, "the bound was reached: {bytes}");
    client.update(&"long".repeat(limits.max_id_bytes), "x", json!({}));
    assert_eq!(client.end.held().0, kept);
    assert_eq!(client.end.counters().dropped_early_update, 2001 - kept as u64);
    client.open_session("ghost");
    assert_eq!(client.end.held(), (0, 0, 0), "known: they are delivered");
}

/// What is held back before the handshake is bounded in bytes too.
#[test]
fn a_flood_behind_initialize() {
    let mut config = Config::default();
    config.max_held_bytes = MIB;
    let mut agent = Agent::new(config);
    agent.request(json!(0), "initialize", json!({ "protocolVersion": 1 }));
    for id in 1..=20 {
        agent.request(json!(id), "_vendor/x", json!("x".repeat(100_000)));
        agent.notify("_vendor/n", json!("x".repeat(100_000)));
        assert!(agent.end.held().1 <= MIB);
    }
    assert_eq!(agent.end.held().0, 10);
    let counters = agent.end.counters();
    assert_eq!((counters.shed_request, counters.shed_notification), (15, 15));
    assert!(agent.frames().iter().all(|frame| code(frame) == -32603));
    let (token, _) = agent.take_request("initialize");
    agent.answer(token, json!({ "protocolVersion": 1 }));
    assert_eq!(agent.end.held(), (0, 0, 0));
    assert_eq!(agent.events.len(), 10);
}

/// A client cannot make the agent remember names of any length.
#[test]
fn a_session_id_that_a_client_makes_up_is_bounded() {
    let mut agent = Agent::initialized(json!({ "loadSession": true }));
    let id = "s".repeat(Config::default().max_id_bytes + 1);
    agent.request(json!(1), "session/load", json!({ "sessionId": id, "cwd": "/", "mcpServers": [] }));
    agent.request(json!(2), "session/prompt", json!({ "sessionId": id, "prompt": [] }));
    let frames = agent.frames();
    assert_eq!((code(&frames[0]), code(&frames[1])), (-32602, -32002));
    assert!(frames.iter().all(|frame| frame.to_string().len() < 600), "and not echoed whole");
    assert_eq!((agent.events.len(), agent.end.load()), (0, (0, 0, 0)));
}

/// A peer that asks and does not read: its answers are bounded, since nothing more is read from it.
#[test]
fn a_peer_that_stops_reading() {
    let mut config = Config::default();
    config.max_reply_backlog_bytes = 64 * 1024;
    config.max_call_backlog_bytes = 64 * 1024;
    let chunk = "garbage\n".repeat(512);
    let mut agent = Agent::initialized_with(config.clone(), json!({}), json!({}));
    let mut fed = 0;
    while agent.end.wants_input() {
        agent.end.feed(agent.now, chunk.as_bytes());
        fed += 1;
        assert!(agent.end.backlog_bytes().1 < 64 * 1024 + 512 * 100, "one chunk past the bound at most");
    }
    assert!(fed < 10);
    // Calls have a bound of their own: updates cannot crowd out an answer, nor the other way round.
    let call = Call::new("_vendor/note", &"x".repeat(1000)).expect("JSON");
    while agent.end.notify(&call).is_ok() {}
    assert!(agent.end.backlog_bytes().0 <= 64 * 1024 + 1100);
    assert!(matches!(agent.end.notify(&call), Err(SendError::Full { limit_bytes: 65_536 })));
    agent.text();
    assert!(agent.end.wants_input() && agent.end.backlog_bytes() == (0, 0));
}

/// A peer that never answers: our own table is full at its bound, deadlines end what has one, and the end ends the rest.
#[test]
fn a_peer_that_never_answers() {
    let mut config = Config::default();
    config.max_outbound_requests = 64;
    let mut client = Client::initialized_with(config, json!({}));
    let sent = (0..1000).filter(|_| client.ask_within("_agent/x", json!({}), Some(Duration::from_secs(30))).is_some());
    assert_eq!(sent.count(), 64);
    client.frames();
    client.pass(Duration::from_secs(30));
    let ended = client.events.iter().filter(|e| matches!(e, ClientEvent::Outcome { outcome: Outcome::TimedOut, .. }));
    assert_eq!(ended.count(), 64);
    assert_eq!(client.frames().len(), 64, "each is told that nobody waits");
    assert_eq!(client.end.load().1, 0);
    client.ask("_agent/x", json!({})).expect("room again");
}

/// rust-sdk#250: a peer that dies in the middle of a frame, at every place of it.
#[test]
fn a_peer_that_dies_in_a_frame() {
    let frame = br#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#;
    for at in 0..=frame.len() {
        let mut client = Client::initialized(json!({}));
        client.ask("session/new", json!({ "cwd": "/", "mcpServers": [] })).expect("sent");
        client.feed(&frame[..at]);
        client.end.eof(client.now);
        client.settle();
        let outcomes: Vec<_> = client
            .events
            .iter()
            .filter_map(|event| match event {
                ClientEvent::Outcome { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .collect();
        // A last line without its LF still counts, if it is whole.
        let whole = at == frame.len();
        assert_eq!(outcomes.len(), 1, "cut at {at}");
        assert_eq!(matches!(outcomes[0], Outcome::Result(_)), whole, "cut at {at}");
        assert!(matches!(client.events.last(), Some(ClientEvent::Closed(_))));
        assert_eq!((client.end.load(), client.end.held()), ((0, 0, 0), (0, 0, 0)));
    }
    let frame = br#"{"jsonrpc":"2.0","id":2,"method":"_vendor/x"}"#;
    for at in 0..=frame.len() {
        let mut agent = Agent::with_session();
        agent.sentinel.tolerate("dropped_reply");
        agent.sentinel.tolerate("zero_update_turn");
        agent.prompt(1);
        let turn = agent.take_turn();
        agent.feed(&frame[..at]);
        agent.end.eof(agent.now);
        agent.end_turn(turn, "end_turn");
        agent.events.clear();
        agent.settle();
        assert!(agent.end.is_closed(), "cut at {at}");
        assert_eq!((agent.end.load(), agent.end.held()), ((0, 0, 0), (0, 0, 0)));
    }
}

/// R-110, R-111: after the end nothing that comes is read, and nothing is answered.
#[test]
fn nothing_is_read_after_the_end_r111() {
    for mut victim in Victim::both(&Config::default()) {
        match &mut victim {
            Victim::Agent(agent) => agent.end.lost(),
            Victim::Client(client) => client.end.lost(),
        }
        victim.text();
        victim.forget_events();
        for (_, bytes, _) in attacks() {
            victim.feed(&bytes);
        }
        victim.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } }));
        assert_eq!((victim.text().as_str(), victim.events()), ("", 0), "{}", victim.name());
        assert_eq!((victim.load(), victim.held()), ((0, 0, 0), (0, 0, 0)));
    }
}

/// R-112: the keys of two connections are alike, their obligations are not: a token answers only where it came from.
#[test]
fn a_token_of_another_connection_answers_nothing_r112() {
    let mut one = Agent::initialized(json!({}));
    let mut two = Agent::initialized(json!({}));
    one.sentinel.expect("dropped_reply");
    one.request(json!("one"), "_vendor/x", json!({}));
    two.request(json!("two"), "_vendor/x", json!({}));
    let (token, _) = one.take_request("_vendor/x");
    two.answer(token, json!("stolen"));
    assert!(two.frames().is_empty());
    let frames = one.frames();
    assert_eq!((&frames[0]["id"], code(&frames[0])), (&json!("one"), -32603), "its own connection answers for it");
    let (token, _) = two.take_request("_vendor/x");
    two.answer(token, json!("mine"));
    assert_eq!(two.frames()[0]["result"], "mine");
}

/// R-032 and G-05: a response that has an error is an error, whatever else it has; null is how some peers leave a member out.
#[test]
fn an_error_outranks_a_result_r032() {
    fn check(members: &str, expected: Option<bool>) {
        let mut client = Client::with_session();
        let id = client.ask("_agent/thing", json!({})).expect("sent");
        client.line(&format!(r#"{{"jsonrpc":"2.0","id":{},{members}}}"#, id.get()));
        let got = match &client.events[..] {
            [] => None,
            [ClientEvent::Outcome { outcome, .. }] => Some(matches!(outcome, Outcome::Result(_))),
            other => panic!("{members}: {other:?}"),
        };
        assert_eq!(got, expected, "{members}");
    }
    check(r#""result":1"#, Some(true));
    check(r#""result":null"#, Some(true));
    check(r#""error":{"code":1,"message":"m"}"#, Some(false));
    check(r#""result":1,"error":{"code":1,"message":"m"}"#, Some(false));
    check(r#""result":null,"error":{"code":1,"message":"m"}"#, Some(false));
    check(r#""result":1,"error":null"#, Some(true));
    // Not a response at all: dropped and counted, and the request ends by its own time (R-038).
    check(r#""error":null"#, None);
    check(r#""result":1,"error":"text""#, None);
    check(r#""result":1,"error":{"code":"x"}"#, None);
}

/// R-171: a yes beside an error is no yes.
#[test]
fn a_yes_beside_an_error_is_no_yes() {
    let mut agent = Agent::with_session();
    agent.sentinel.expect("zero_update_turn");
    agent.prompt(1);
    let turn = agent.take_turn();
    let ask = Call::new("session/request_permission", &json!({ "sessionId": "s1" })).expect("JSON");
    let id = agent.end.ask(turn.turn(), &ask, None, 9).expect("asked");
    agent.line(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"outcome":{{"outcome":"selected","optionId":"yes"}}}},"error":{{"code":1,"message":"m"}}}}"#,
        id.get()
    ));
    let outcome = agent
        .events
        .iter()
        .find_map(|event| match event {
            AgentEvent::Outcome { waiter: 9, outcome } => Some(outcome.clone()),
            _ => None,
        })
        .expect("answered");
    let offered = [PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce)];
    assert!(!Decision::judge(&offered, &outcome).is_allowed(), "{outcome:?}");
    agent.end_turn(turn, "end_turn");
}

/// rust-sdk#306, zed#61840: neither depth nor the number of methods costs stack: everything here runs on 256 KiB, in a debug
/// build.
#[test]
#[expect(clippy::disallowed_types, reason = "a stack of a given size is that of a thread")]
fn a_small_stack_is_enough() {
    let work = || {
        for mut victim in Victim::both(&Config::default()) {
            for (_, bytes, _) in attacks() {
                victim.feed(&bytes);
            }
            victim.assert_alive("everything, on a small stack");
        }
        let deep = format!("{}1{}", "[".repeat(250), "]".repeat(250));
        let mut agent = Agent::initialized(json!({}));
        agent.line(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"cwd":"/","mcpServers":[],"_meta":{{"x":{deep}}}}}}}"#
        ));
        let (token, params) = agent.take_request("session/new");
        let decoded = pintle_acp::RequestToAgent::decode(
            pintle_acp::MethodId::NewSession,
            params.as_ref().map(|params| params.as_raw_value()),
        );
        assert!(matches!(decoded, Some(Ok(pintle_acp::RequestToAgent::NewSession(_)))), "{decoded:?}");
        agent.answer(token, json!({ "sessionId": "s1" }));
        for method in pintle_acp::METHODS {
            agent.line(&format!(r#"{{"jsonrpc":"2.0","id":"{0}","method":"{0}","params":{deep}}}"#, method.wire));
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(work).expect("a thread");
    thread.join().expect("no overflow, no panic");
}
