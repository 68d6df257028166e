//! The handshake and its gates, both ends.

use pintle_acp::{AgentEvent, Config, Outcome};
use serde_json::{Value, json};

use crate::pair::{Agent, Client, Pair, code, error, vectors};

fn initialize(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": { "protocolVersion": 1 } })
}

/// R-013, Inv-10: nothing but `initialize` before it, and no handler hears of it.
#[test]
fn requests_before_initialize_are_refused_r013() {
    let mut agent = Agent::new(Config::default());
    agent.request(json!(1), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    agent.request(json!("x"), "_vendor/thing", json!({}));
    let frames = agent.frames();
    assert_eq!((code(&frames[0]), code(&frames[1])), (-32600, -32600));
    assert_eq!(frames[0]["error"]["data"], json!({ "method": "session/new", "reason": "initialize required" }));
    assert!(agent.events.is_empty());
}

/// R-014, Inv-11: once only.
#[test]
fn a_second_initialize_is_refused_r014() {
    let mut agent = Agent::initialized(json!({ "loadSession": true }));
    agent.send(initialize(3));
    let frames = agent.frames();
    assert_eq!(code(&frames[0]), -32600);
    assert_eq!(frames[0]["error"]["data"], json!({ "reason": "already initialized" }));
    assert!(agent.events.is_empty());
    // R-018: what was negotiated stays.
    agent.request(json!(4), "session/load", json!({ "sessionId": "s", "cwd": "/", "mcpServers": [] }));
    let _ = agent.take_request("session/load");
}

/// R-015: notifications before the handshake are dropped without a frame.
#[test]
fn notifications_before_initialize_are_dropped_r015() {
    let mut agent = Agent::new(Config::default());
    agent.cancel();
    agent.notify("_vendor/thing", json!({}));
    assert!(agent.frames().is_empty() && agent.events.is_empty());
    assert_eq!(agent.end.counters().dropped_notification, 2);
}

/// R-016: before the handshake nothing of ours leaves but `initialize`.
#[test]
fn nothing_is_sent_before_the_handshake_r016() {
    let mut client = Client::new(Config::default());
    assert!(client.ask("session/new", json!({})).is_none());
    assert!(client.frames().is_empty());
    client.ask("initialize", json!({ "protocolVersion": 1 })).expect("the one that may");
    assert!(client.ask("initialize", json!({ "protocolVersion": 1 })).is_none(), "and only once");
    assert!(client.ask("session/new", json!({})).is_none());
    assert_eq!(client.frames().len(), 1);
    client.end.close();
    assert!(client.ask("initialize", json!({})).is_none());
}

/// R-017: an error leaves things as they were, so that `initialize` may be tried again.
#[test]
fn a_failed_handshake_may_be_tried_again_r017() {
    let mut agent = Agent::new(Config::default());
    agent.send(initialize(1));
    let (token, _) = agent.take_request("initialize");
    agent.end.reply(agent.now, token, &error(-32603));
    assert_eq!(code(&agent.frames()[0]), -32603);
    agent.request(json!(2), "session/list", json!({}));
    assert_eq!(code(&agent.frames()[0]), -32600);
    agent.send(initialize(3));
    let (token, _) = agent.take_request("initialize");
    agent.answer(token, json!({ "protocolVersion": 1 }));
    assert!(agent.end.is_initialized());

    let mut client = Client::new(Config::default());
    let first = client.ask("initialize", json!({ "protocolVersion": 1 })).expect("sent");
    client.send(json!({ "jsonrpc": "2.0", "id": first.get(), "error": { "code": -32603, "message": "no" } }));
    let again = client.ask("initialize", json!({ "protocolVersion": 1 })).expect("sent again");
    client.send(json!({ "jsonrpc": "2.0", "id": again.get(), "result": { "protocolVersion": 1 } }));
    assert!(client.end.is_initialized());
}

/// R-019, G-06: two `initialize` before the first answer; acp-sdk 6c: requests behind it wait for it, in order.
#[test]
fn what_comes_behind_initialize_waits_for_it() {
    let mut agent = Agent::new(Config::default());
    agent.send(initialize(1));
    agent.send(initialize(2));
    agent.request(json!(3), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    agent.notify("_vendor/note", json!({}));
    agent.request(json!(4), "_vendor/thing", json!({}));
    assert!(agent.frames().is_empty());
    assert_eq!(agent.events.len(), 1, "one handler runs: {:?}", agent.events);
    let (token, _) = agent.take_request("initialize");
    agent.answer(token, json!({ "protocolVersion": 1 }));
    let frames = agent.frames();
    assert_eq!((&frames[0]["id"], frames.len()), (&json!(1), 2));
    assert_eq!((&frames[1]["id"], code(&frames[1])), (&json!(2), -32600));
    let order: Vec<_> = agent
        .events
        .iter()
        .map(|event| match event {
            AgentEvent::Request { request, .. } => request.method.to_string(),
            AgentEvent::Notification(notification) => notification.method.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, ["session/new", "_vendor/note", "_vendor/thing"]);
}

/// A failed handshake refuses what waited for it, but for an `initialize`, which is the second try.
#[test]
fn what_waits_for_a_failed_handshake_is_answered() {
    let mut agent = Agent::new(Config::default());
    agent.send(initialize(1));
    agent.request(json!(2), "session/new", json!({}));
    agent.send(initialize(3));
    agent.request(json!(4), "_vendor/thing", json!({}));
    let (token, _) = agent.take_request("initialize");
    agent.end.reply(agent.now, token, &error(-32000));
    let frames = agent.frames();
    assert_eq!(frames.iter().map(|frame| frame["id"].clone()).collect::<Vec<_>>(), [json!(1), json!(2)]);
    let (token, _) = agent.take_request("initialize");
    agent.answer(token, json!({ "protocolVersion": 1 }));
    let _ = agent.take_request("_vendor/thing");
}

/// The hold is bounded, and what does not fit is answered.
#[test]
fn the_hold_is_bounded() {
    let mut config = Config::default();
    config.max_held_frames = 2;
    let mut agent = Agent::new(config);
    agent.send(initialize(1));
    for id in 2..5 {
        agent.request(json!(id), "_vendor/thing", json!({}));
    }
    agent.notify("_vendor/note", json!({}));
    let frames = agent.frames();
    assert_eq!((frames.len(), &frames[0]["id"], code(&frames[0])), (1, &json!(4), -32603));
    assert_eq!((agent.end.counters().shed_request, agent.end.counters().shed_notification), (1, 1));
    // A request that waits can be given up like any other.
    agent.notify("$/cancel_request", json!({ "requestId": 2 }));
    assert_eq!(code(&agent.frames()[0]), -32800);
}

/// R-120 to R-124: each row of the vectors, over a connection whose receiver advertised it.
#[test]
fn gates_look_at_what_the_receiver_advertised_r120() {
    for row in vectors("capability_gate")["gate_vectors"].as_array().expect("rows") {
        if row["snapshot"].is_null() {
            continue; // before the handshake everything is refused: see above
        }
        for method in row["methods"].as_array().expect("methods").iter().filter_map(Value::as_str) {
            let to_client =
                method.starts_with("fs/") || method.starts_with("terminal/") || method.ends_with("_permission");
            // Garbage for params: the gate comes before the decoder (R-073).
            let params = json!({ "junk": 1 });
            let refused = if to_client {
                let mut client = Client::initialized(row["snapshot"].clone());
                client.send(json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": params }));
                client.frames().iter().any(|frame| code(frame) == -32601)
            } else {
                let mut agent = Agent::initialized(row["snapshot"].clone());
                agent.request(json!(9), method, params);
                agent.frames().iter().any(|frame| code(frame) == -32601)
            };
            let unknown = matches!(method, "does/not/exist" | "session/cancel" | "session/update");
            let negotiated = row["negotiated"] == true;
            assert_eq!(refused, !negotiated || unknown, "{method} with {}", row["snapshot"]);
        }
    }
}

/// G-20, R-123 overruled: neither do we ask what was not advertised.
#[test]
fn we_do_not_ask_what_was_not_advertised() {
    let mut agent = Agent::initialized_with(
        Config::default(),
        json!({}),
        json!({ "fs": { "readTextFile": true, "writeTextFile": false } }),
    );
    assert!(agent.end.peer_offers("fs/read_text_file"));
    let write = pintle_acp::Call::new("fs/write_text_file", &json!({})).expect("JSON");
    let refused = agent.end.request(&write, None, 1);
    assert!(matches!(refused, Err((pintle_acp::SendError::NotAdvertised, 1))), "{refused:?}");
    assert!(agent.frames().is_empty());
}

/// A client that gets no version it can read is not initialized.
#[test]
fn a_result_without_a_version_is_no_handshake() {
    for version in [json!("1"), json!(-1), json!(65536), json!(null)] {
        let mut client = Client::new(Config::default());
        let id = client.ask("initialize", json!({ "protocolVersion": 1 })).expect("sent");
        client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": { "protocolVersion": version } }));
        assert!(!client.end.is_initialized(), "{version}");
    }
}

/// Both ends face to face, whatever the size of the pieces in which bytes arrive.
#[test]
fn a_pair_shakes_hands_whatever_the_pieces() {
    for piece in [1, 7, 64 * 1024] {
        let mut pair = Pair::new();
        let id = pair.client.ask("initialize", json!({ "protocolVersion": 1 })).expect("sent");
        pair.drive(piece);
        let (token, params) = pair.agent.take_request("initialize");
        assert_eq!(params.expect("params").as_str(), r#"{"protocolVersion":1}"#);
        pair.agent.answer(token, json!({ "protocolVersion": 1 }));
        pair.drive(piece);
        assert!(pair.client.end.is_initialized() && pair.agent.end.is_initialized());
        assert_eq!(id.get(), 1, "R-050: ids count from 1");
        let outcomes = pair.client.events.iter().filter(|event| {
            matches!(event, pintle_acp::ClientEvent::Outcome { waiter: 7, outcome: Outcome::Result(_), .. })
        });
        assert_eq!(outcomes.count(), 1);
    }
}
