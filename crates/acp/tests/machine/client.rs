//! The client's end: delivery of updates, permissions, early updates.

use pintle_acp::{ClientEvent, Outcome};
use serde_json::{Value, json};

use crate::pair::{Client, code, vectors};

/// R-180 to R-182 (R-181 with the stream above), D1 to D7 (D3, D5, D6, D7): the cases of `client_turn_delivery.json` that the connection decides. (Gaps, wrong ordinals and
/// results belong to the stream above it.)
#[test]
fn updates_are_delivered_in_the_order_of_the_wire() {
    let names: Vec<String> = vectors("client_turn_delivery")["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| case["name"].as_str().expect("a name").to_owned())
        .collect();
    for name in names {
        let mut client = Client::with_session();
        let prompt = client.prompt("s1");
        let own = |ordinal, text: &str| ("s1".to_owned(), Some(ordinal), text.to_owned());
        match name.as_str() {
            "order" => {
                client.update("s1", "u0", json!({}));
                client.update("s1", "u1", json!({}));
                client.end_turn(prompt);
                assert_eq!(client.updates(), [own(0, "u0"), own(1, "u1")]);
                let [ClientEvent::Outcome { turn: Some((session, 2)), .. }] = &client.events[..] else {
                    panic!("{:?}", client.events)
                };
                assert_eq!(&**session, "s1");
            }
            "hostile_meta" => {
                for meta in [json!({ "update_seq": 0 }), json!({ "update_seq": 0 }), json!({ "update_seq": "junk" })] {
                    client.update("s1", "u", meta);
                }
                assert_eq!(client.updates(), [own(0, "u"), own(1, "u"), own(2, "u")]);
            }
            "straggler_after_result" => {
                client.end_turn(prompt);
                client.update("s1", "late", json!({}));
                assert_eq!(client.updates(), [("s1".to_owned(), None, "late".to_owned())]);
            }
            "fresh_turn_resets" => {
                client.update("s1", "u0", json!({}));
                client.end_turn(prompt);
                client.updates();
                client.prompt("s1");
                client.update("s1", "v0", json!({}));
                assert_eq!(client.updates(), [own(0, "v0")]);
            }
            "two_sessions" => {
                client.open_session("s2");
                client.prompt("s2");
                for (session, text) in [("s2", "y0"), ("s1", "x0"), ("s2", "y1"), ("s1", "x1")] {
                    client.update(session, text, json!({}));
                }
                let other = |ordinal, text: &str| ("s2".to_owned(), Some(ordinal), text.to_owned());
                assert_eq!(client.updates(), [other(0, "y0"), own(0, "x0"), other(1, "y1"), own(1, "x1")]);
            }
            "gap" | "out_of_order_ordinal" | "error_result_wins" => {}
            other => panic!("the vectors have a case that nobody plays: {other}"),
        }
    }
}

/// A second prompt of ours on a busy session gets an answer of its own and no updates.
#[test]
fn the_first_prompt_keeps_the_updates() {
    let mut client = Client::with_session();
    let first = client.prompt("s1");
    let second = client.prompt("s1");
    client.update("s1", "u0", json!({}));
    client.send(json!({ "jsonrpc": "2.0", "id": second.get(), "error": { "code": -32600, "message": "busy" } }));
    client.update("s1", "u1", json!({}));
    client.end_turn(first);
    let ordinals: Vec<_> = client.updates().into_iter().map(|(_, ordinal, _)| ordinal).collect();
    assert_eq!(ordinals, [Some(0), Some(1)]);
}

/// acp-sdk 30, 31: updates of a session that is not known yet are kept, and follow the answer that names it.
#[test]
fn early_updates_are_kept_within_bounds() {
    let mut client = Client::initialized(json!({}));
    let id = client.ask("session/new", json!({ "cwd": "/", "mcpServers": [] })).expect("sent");
    client.update("s1", "early", json!({}));
    assert!(client.updates().is_empty());
    client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": { "sessionId": "s1" } }));
    assert!(matches!(client.events[0], ClientEvent::Outcome { .. }), "the id first: {:?}", client.events);
    assert_eq!(client.updates(), [("s1".to_owned(), None, "early".to_owned())]);
    // Of a session that never comes, a bounded number is kept.
    for n in 0..400 {
        client.update("ghost", &n.to_string(), json!({}));
    }
    for n in 0..100 {
        client.update(&format!("ghost {n}"), "x", json!({}));
    }
    assert_eq!(client.end.counters().dropped_early_update, (400 - 256) + (100 - 63));
}

/// A session that the agent has closed is told before the request's own outcome, so that what belongs to it can go.
#[test]
fn a_closed_session_is_told_once() {
    let mut client = Client::new(pintle_acp::Config::default());
    let hello = client.ask("initialize", json!({ "protocolVersion": 1 })).expect("sent");
    let capabilities = json!({ "sessionCapabilities": { "close": {} } });
    let result = json!({ "protocolVersion": 1, "agentCapabilities": capabilities });
    client.send(json!({ "jsonrpc": "2.0", "id": hello.get(), "result": result }));
    client.events.clear();
    let id = client.ask("session/close", json!({ "sessionId": "s1" })).expect("advertised");
    client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": {} }));
    let [ClientEvent::SessionClosed { session }, ClientEvent::Outcome { .. }] = &client.events[..] else {
        panic!("{:?}", client.events);
    };
    assert_eq!(&**session, "s1");
    let refused = client.ask("session/close", json!({ "sessionId": "s2" })).expect("advertised");
    let error = json!({ "code": -32002, "message": "no such session" });
    client.send(json!({ "jsonrpc": "2.0", "id": refused.get(), "error": error }));
    assert!(matches!(client.events.last(), Some(ClientEvent::Outcome { outcome: Outcome::Error(_), .. })));
}

/// The replay of a load is shown as it comes.
#[test]
fn a_loaded_session_is_known_at_once() {
    let mut client = Client::new_with_load();
    client.ask("session/load", json!({ "sessionId": "old", "cwd": "/", "mcpServers": [] })).expect("advertised");
    client.update("old", "history", json!({}));
    assert_eq!(client.updates(), [("old".to_owned(), None, "history".to_owned())]);
}

/// deepchat#1881: a cancel answers every permission request of its session, those that still come too.
#[test]
fn a_cancel_answers_open_permissions() {
    let mut client = Client::with_session();
    let prompt = client.prompt("s1");
    let ask = |id: i64, session: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": { "sessionId": session } });
    client.send(ask(50, "s1"));
    client.send(ask(51, "s2"));
    let token = client.take_request("session/request_permission");
    client.frames();
    client.end.cancel_turn("s1").expect("sent");
    let frames = client.frames();
    assert_eq!(frames[0]["method"], "session/cancel");
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    assert_eq!((&frames[1]["id"], &frames[1]["result"]), (&json!(50), &cancelled));
    assert!(client.events.iter().any(|event| matches!(event, ClientEvent::RequestCancelled(_))));
    // What the user chose too late is not sent.
    client.end.reply(token, &pintle_acp::Reply::ok(&json!({})).expect("JSON"));
    assert!(client.frames().is_empty());
    client.send(ask(52, "s1"));
    assert_eq!(client.frames()[0]["result"], cancelled, "the turn winds down");
    client.end_turn(prompt);
    client.send(ask(53, "s1"));
    let _ = client.take_request("session/request_permission");
}

/// R-038, S1: neither end ever answers what looks like a response.
#[test]
fn responses_are_never_answered_r038() {
    let mut client = Client::with_session();
    for frame in [
        json!({ "jsonrpc": "2.0", "id": 77, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": "x" } }),
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32700, "message": "m" } }),
        json!({ "jsonrpc": "2.0", "id": [1], "result": {} }),
        json!({ "id": 1, "result": {} }),
    ] {
        client.send(frame.clone());
        assert!(client.frames().is_empty() && client.events.is_empty(), "{frame}");
    }
}

/// methods of the other side are unknown here.
#[test]
fn the_agents_methods_are_unknown_to_a_client() {
    let mut client = Client::with_session();
    for method in ["session/new", "session/prompt", "session/cancel", "initialize", "session/update"] {
        client.send(json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": {} }));
        let frames = client.frames();
        assert_eq!(code(&frames[0]), -32601, "{method}");
    }
    client.send(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s1" } }));
    assert!(client.frames().is_empty());
}

impl Client {
    /// Connected to an agent that can load.
    fn new_with_load() -> Self {
        let mut client = Self::new(pintle_acp::Config::default());
        let id = client.ask("initialize", json!({ "protocolVersion": 1 })).expect("sent");
        let result: Value = json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } });
        client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": result }));
        client.events.clear();
        client
    }
}
