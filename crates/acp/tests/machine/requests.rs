//! Requests in both directions: ids, refusals, cancellation, outcomes, the end.

use std::time::Duration;

use pintle_acp::{AgentEvent, Call, ClientEvent, Closed, Config, Outcome, SendError};
use serde_json::{Value, json};

use crate::pair::{Agent, Client, code, vectors};

/// R-034 to R-038, R-070 to R-079: each case of `jsonrpc_errors.json`.
#[test]
fn every_error_is_answered_as_the_vectors_say() {
    for case in vectors("jsonrpc_errors")["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let mut config = Config::default();
        let mut agent = if case["phase"] == "uninitialized" {
            Agent::new(config)
        } else if name == "oversized_line" {
            config.max_line_bytes = 1024;
            Agent::initialized_with(config, json!({}), json!({}))
        } else {
            Agent::with_session()
        };
        for counter in ["dropped_reply", "zero_update_turn"] {
            agent.sentinel.tolerate(counter);
        }
        if name == "adopter_died" {
            agent.open_session("other");
        }
        match &case["send"] {
            Value::String(line) => agent.line(line),
            frame if frame.get("line_bytes").is_some() => agent.line(&"x".repeat(1025)),
            frame if name == "adopter_died" => {
                let mut frame = frame.clone();
                frame["params"]["sessionId"] = json!("other");
                agent.send(frame);
            }
            frame => agent.send(frame.clone()),
        }
        // What reaches a handler is decoded there; a handler that cannot, panics, or forgets, is a token that comes back.
        let mut frames = agent.frames();
        for event in std::mem::take(&mut agent.events) {
            match event {
                AgentEvent::Request { request, .. } if name.starts_with("handler_") || name.starts_with("deferred") => {
                    drop(request);
                }
                AgentEvent::Request { request, .. } => {
                    let method = pintle_acp::MethodId::from_wire(&request.method);
                    let params = request.params.as_ref().map(|params| params.as_raw_value());
                    let refused = match method {
                        Some(method) => pintle_acp::RequestToAgent::decode(method, params)
                            .expect("a request of an agent")
                            .expect_err(name),
                        None => pintle_acp::Error::method_not_found(&request.method),
                    };
                    agent.end.reply(agent.now, request.token, &pintle_acp::Reply::error(&refused));
                }
                AgentEvent::Prompt { token, .. } => drop(token),
                _ => {}
            }
        }
        frames.extend(agent.frames());
        let expected = case["expect_frames"].as_array().expect("frames");
        assert_eq!(frames.len(), expected.len(), "{name}: {frames:?}");
        for (frame, expected) in frames.iter().zip(expected) {
            assert_eq!(frame["id"], expected["id"], "{name}");
            assert_eq!(code(frame), expected["code"].as_i64().expect("a code"), "{name}: {frame}");
            if let Some(data) = expected.get("data") {
                assert_eq!(&frame["error"]["data"], data, "{name}");
            }
        }
        // Inv-15: the connection lives, and is at rest.
        agent.request(json!("alive"), "_vendor/thing", json!({}));
        if case["phase"] != "uninitialized" {
            let (token, _) = agent.take_request("_vendor/thing");
            agent.answer(token, json!({}));
            assert_eq!(agent.frames().last().expect("an answer")["result"], json!({}), "{name}");
            assert_eq!((agent.end.load().0, agent.end.load().1), (0, 0), "Inv-17, {name}");
        }
    }
}

/// R-030, R-031, Inv-6, Inv-18: ids come back as they were spelled.
#[test]
fn ids_are_echoed_exactly_r030() {
    let vectors = vectors("request_ids");
    let mut ids: Vec<String> =
        vectors["echo_byte_exact"].as_array().expect("ids").iter().map(Value::to_string).collect();
    ids.push(r#""a\u0062\/c""#.into());
    ids.extend(["9007199254740993", "9223372036854775807"].map(str::to_owned));
    for id in ids {
        let mut agent = Agent::initialized(json!({}));
        for (method, refused) in [("_vendor/thing", false), ("no/such", true)] {
            agent.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
            if !refused {
                let (token, _) = agent.take_request(method);
                agent.end.reply(agent.now, token, &pintle_acp::Reply::ok(&1).expect("JSON"));
            }
            let text = agent.text();
            assert!(text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{id}: {text}");
        }
    }
}

/// R-030: `1` and `"1"` are two ids; R-056: an answer with the wrong one is a miss; R-102: so is a cancel.
#[test]
fn ids_match_by_type_r030_r056_r102() {
    for pair in vectors("request_ids")["distinct_in_flight_pairs"].as_array().expect("pairs") {
        let mut agent = Agent::initialized(json!({}));
        agent.sentinel.tolerate("dropped_reply");
        agent.request(pair[0].clone(), "_vendor/a", json!({}));
        agent.request(pair[1].clone(), "_vendor/b", json!({}));
        agent.notify("$/cancel_request", json!({ "requestId": pair[1] }));
        let (a, _) = agent.take_request("_vendor/a");
        let (b, _) = agent.take_request("_vendor/b");
        let cancelled: Vec<_> = agent
            .events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::RequestCancelled(key) => Some(*key),
                _ => None,
            })
            .collect();
        assert_eq!(cancelled, [b.key()]);
        agent.answer(a, json!(1));
        drop(b);
        let frames = agent.frames();
        assert_eq!((&frames[0]["id"], &frames[1]["id"]), (&pair[0], &pair[1]));
        assert_eq!(code(&frames[1]), -32800, "given up by the peer, then forgotten here");
    }
    let mut client = Client::with_session();
    let id = client.ask_within("_agent/thing", json!({}), Some(Duration::from_secs(1))).expect("sent");
    client.send(json!({ "jsonrpc": "2.0", "id": id.get().to_string(), "result": {} }));
    assert!(client.events.is_empty());
    client.pass(Duration::from_secs(1));
    assert!(matches!(&client.events[..], [ClientEvent::Outcome { outcome: Outcome::TimedOut, .. }]));
}

/// R-070, Inv-14, G-17: a second request with an id that is in flight makes no frame and harms nobody.
#[test]
fn a_duplicate_id_is_dropped_r070() {
    let mut agent = Agent::initialized(json!({}));
    agent.request(json!(5), "_vendor/a", json!({}));
    agent.request(json!(5), "_vendor/b", json!({}));
    assert_eq!(agent.events.len(), 1);
    assert_eq!(agent.end.counters().duplicate_inflight_id, 1);
    let (token, _) = agent.take_request("_vendor/a");
    agent.answer(token, json!("a"));
    assert_eq!(agent.frames(), [json!({ "jsonrpc": "2.0", "id": 5, "result": "a" })]);
    agent.request(json!(5), "_vendor/c", json!({}));
    let _ = agent.take_request("_vendor/c");
}

/// R-071: over the cap a request is answered "busy", and its id may be tried again.
#[test]
fn the_cap_on_requests_in_flight_r071() {
    let mut config = Config::default();
    config.max_inflight_requests = 2;
    let mut agent = Agent::initialized_with(config, json!({}), json!({}));
    for id in 1..=3 {
        agent.request(json!(id), "_vendor/a", json!({}));
    }
    let frames = agent.frames();
    assert_eq!((frames.len(), &frames[0]["id"], code(&frames[0])), (1, &json!(3), -32603));
    assert_eq!(frames[0]["error"]["data"]["limit"], 2);
    let (token, _) = agent.take_request("_vendor/a");
    agent.answer(token, json!({}));
    agent.request(json!(3), "_vendor/b", json!({}));
    let _ = agent.take_request("_vendor/b");
}

/// R-158: sessions have a cap; those that are being made count.
#[test]
fn the_cap_on_sessions_r158() {
    let mut config = Config::default();
    config.max_sessions = 2;
    let mut agent = Agent::initialized_with(config, json!({ "sessionCapabilities": { "close": {} } }), json!({}));
    agent.open_session("s1");
    agent.request(json!(1), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    agent.request(json!(2), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    let frames = agent.frames();
    assert_eq!((&frames[0]["id"], code(&frames[0])), (&json!(2), -32603));
    // A session that closed makes room.
    agent.request(json!(3), "session/close", json!({ "sessionId": "s1" }));
    let (token, _) = agent.take_request("session/close");
    agent.answer(token, json!({}));
    agent.request(json!(4), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    assert_eq!(agent.frames().len(), 1);
}

/// R-140: an id of an open session cannot be given out again; that is the agent's own fault.
#[test]
fn a_session_id_is_given_out_once_r140() {
    let mut agent = Agent::with_session();
    agent.request(json!(1), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    let (token, _) = agent.take_request("session/new");
    agent.answer(token, json!({ "sessionId": "s1" }));
    assert_eq!(code(&agent.frames()[0]), -32603);
}

/// R-080, R-091: an answer that is forgotten is given, and it is given once.
#[test]
fn a_dropped_token_is_answered_r092() {
    let mut agent = Agent::initialized(json!({}));
    agent.request(json!(1), "_vendor/a", json!({}));
    agent.sentinel.expect("dropped_reply");
    drop(agent.take_request("_vendor/a"));
    assert_eq!(code(&agent.frames()[0]), -32603);
    assert!(agent.frames().is_empty());
    assert_eq!(agent.end.counters().dropped_reply, 1);
}

/// R-052 to R-054, Inv-3: time out, then forget, then tell; a late answer is counted and nothing else.
#[test]
fn a_timeout_ends_a_request_once_r053() {
    let mut client = Client::with_session();
    let id = client.ask_within("_agent/thing", json!({}), Some(Duration::from_secs(5))).expect("sent");
    client.frames();
    assert_eq!(client.end.poll_timeout(), Some(client.now + Duration::from_secs(5)));
    client.pass(Duration::from_secs(5));
    assert_eq!(
        client.frames(),
        [json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id.get() } })]
    );
    client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": {} }));
    let outcomes = client.events.iter().filter(|event| matches!(event, ClientEvent::Outcome { .. })).count();
    assert_eq!(outcomes, 1);
    assert_eq!((client.end.counters().late_response, client.end.load().1), (1, 0));
    client.ask("_agent/thing", json!({})).expect("the connection is usable");
}

/// R-054: a request that its owner gives up ends without an outcome.
#[test]
fn a_cancelled_request_has_no_outcome_r054() {
    let mut client = Client::with_session();
    let id = client.ask("_agent/thing", json!({})).expect("sent");
    assert_eq!(client.end.cancel_request(id), Some(7));
    assert_eq!(client.end.cancel_request(id), None, "unknown by now");
    let frames = client.frames();
    assert_eq!(frames.last().expect("two frames")["params"]["requestId"], id.get());
    client.send(json!({ "jsonrpc": "2.0", "id": id.get(), "result": {} }));
    assert!(client.events.is_empty());
}

/// R-061, G-07: our own table has a bound.
#[test]
fn our_own_requests_have_a_bound_r061() {
    let mut config = Config::default();
    config.max_outbound_requests = 3;
    let mut client = Client::initialized_with(config, json!({}));
    for _ in 0..3 {
        client.ask("_agent/thing", json!({})).expect("room");
    }
    let call = Call::new("_agent/thing", &json!({})).expect("JSON");
    assert!(matches!(client.end.request(&call, None, 9), Err((SendError::TooManyRequests { limit: 3 }, 9))));
}

/// Backpressure: what a peer does not read is bounded, and a sender is told so.
#[test]
fn unread_calls_have_a_bound() {
    let mut config = Config::default();
    config.max_call_backlog_bytes = 1000;
    let mut agent = Agent::initialized_with(config, json!({}), json!({}));
    let call = Call::new("_vendor/note", &"x".repeat(200)).expect("JSON");
    let sent = (0..100).take_while(|_| agent.end.notify(&call).is_ok()).count();
    assert!((4..=5).contains(&sent), "{sent}");
    assert!(matches!(agent.end.notify(&call), Err(SendError::Full { limit_bytes: 1000 })));
    agent.frames();
    agent.end.notify(&call).expect("room again");
}

/// A peer that asks and does not read its answers is not read any further.
#[test]
fn unread_answers_stop_the_reading() {
    let mut config = Config::default();
    config.max_reply_backlog_bytes = 2000;
    let mut agent = Agent::initialized_with(config, json!({}), json!({}));
    let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\"}\n".repeat(100);
    agent.end.feed(agent.now, &bytes);
    assert!(!agent.end.wants_input());
    agent.frames();
    assert!(agent.end.wants_input());
}

/// R-110, Inv-12, Inv-13: at the end every request of ours ends once, however often the end is told.
#[test]
fn the_end_is_told_once_r110() {
    let mut client = Client::with_session();
    client.ask("_agent/a", json!({})).expect("sent");
    client.prompt("s1");
    client.end.eof(client.now);
    client.end.lost();
    client.end.eof(client.now);
    client.settle();
    let outcomes =
        client.events.iter().filter(|event| matches!(event, ClientEvent::Outcome { outcome: Outcome::Closed, .. }));
    assert_eq!(outcomes.count(), 2);
    let ends: Vec<_> = client.events.iter().filter(|event| matches!(event, ClientEvent::Closed(_))).collect();
    assert!(matches!(&ends[..], [ClientEvent::Closed(Closed::ByPeer)]), "{ends:?}");
    assert_eq!(client.end.load(), (0, 0, 0));
}

/// When a client closes its stream, what is owed may still be answered, for a moment; then the agent is done.
#[test]
fn an_agent_drains_before_it_ends() {
    let mut agent = Agent::with_session();
    agent.request(json!(1), "_vendor/quick", json!({}));
    agent.request(json!(2), "_vendor/slow", json!({}));
    agent.prompt(3);
    let (quick, slow, turn) =
        (agent.take_request("_vendor/quick").0, agent.take_request("_vendor/slow").0, agent.take_turn());
    agent.end.eof(agent.now);
    agent.settle();
    assert!(agent.saw(|event| matches!(event, AgentEvent::TurnCancelled(_))));
    agent.answer(quick, json!({}));
    agent.end_turn(turn, "end_turn");
    let frames = agent.frames();
    assert_eq!((&frames[0]["id"], &frames[1]["result"]["stopReason"]), (&json!(1), &json!("cancelled")));
    assert!(!agent.end.is_closed());
    agent.pass(Duration::from_secs(1));
    assert!(agent.end.is_closed());
    agent.answer(slow, json!({}));
    assert!(agent.frames().is_empty(), "nobody is there any more");
    assert!(agent.saw(|event| matches!(event, AgentEvent::Closed(Closed::ByPeer))));
}

/// A last line without its LF still counts (our choice for the end of a stream).
#[test]
fn a_last_line_without_lf_counts() {
    let mut agent = Agent::initialized(json!({}));
    agent.feed(br#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#);
    agent.end.eof(agent.now);
    assert_eq!(code(&agent.frames()[0]), -32601);
}

/// One byte order mark at the very start is skipped; a later one is no JSON.
#[test]
fn a_byte_order_mark_is_skipped_once() {
    let mut agent = Agent::new(Config::default());
    agent.line("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}");
    assert_eq!(code(&agent.frames()[0]), -32600, "read, and refused before initialize");
    agent.line("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}");
    assert_eq!(code(&agent.frames()[0]), -32700);
}

/// R-105, Inv-20: receive numbers grow by one with every frame, whatever it is.
#[test]
fn receive_numbers_grow_r105() {
    let mut agent = Agent::initialized(json!({}));
    agent.line("");
    agent.line("garbage");
    agent.notify("_vendor/a", json!({}));
    agent.request(json!(1), "_vendor/b", json!({}));
    let seen: Vec<_> = agent
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Notification(notification) => Some(notification.rx.get()),
            AgentEvent::Request { request, .. } => Some(request.rx.get()),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [3, 4], "after initialize and the garbage");
}

/// A lone surrogate is read, and counted.
#[test]
fn half_a_surrogate_pair_is_read_and_counted() {
    let mut agent = Agent::initialized(json!({}));
    agent.line(r#"{"jsonrpc":"2.0","id":1,"method":"_vendor/a","params":{"x":"\ud800!"}}"#);
    let (_token, params) = agent.take_request("_vendor/a");
    assert_eq!(params.expect("params").decode_lax::<Value>().expect("JSON"), json!({ "x": "\u{fffd}!" }));
    assert_eq!(agent.end.counters().lone_surrogates, 1);
}

/// A frame without `jsonrpc` is refused, unless the option says otherwise (R-033).
#[test]
fn the_version_member_is_wanted_unless_told_otherwise_r033() {
    let line = r#"{"id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    let mut strict = Agent::new(Config::default());
    strict.line(line);
    assert_eq!((code(&strict.frames()[0]), strict.events.len()), (-32600, 0));
    let mut config = Config::default();
    config.require_jsonrpc = false;
    let mut lenient = Agent::new(config);
    lenient.line(line);
    let _ = lenient.take_request("initialize");
}

/// R-159: a session on which nothing happens is closed, if that is wanted; a turn keeps it.
#[test]
fn idle_sessions_are_reaped_if_wanted_r159() {
    let mut config = Config::default();
    config.session_idle_timeout = Some(Duration::from_secs(60));
    let mut agent = Agent::initialized_with(config, json!({}), json!({}));
    agent.sentinel.expect("zero_update_turn");
    agent.open_session("s1");
    agent.pass(Duration::from_secs(59));
    agent.prompt(1);
    let token = agent.take_turn();
    agent.pass(Duration::from_secs(600));
    assert!(!agent.saw(|event| matches!(event, AgentEvent::SessionClosed { .. })));
    agent.end_turn(token, "end_turn");
    agent.pass(Duration::from_secs(59));
    assert!(!agent.saw(|event| matches!(event, AgentEvent::SessionClosed { .. })));
    agent.pass(Duration::from_secs(1));
    assert!(agent.saw(|event| matches!(event, AgentEvent::SessionClosed { idle: true, .. })));
    agent.frames();
    agent.prompt(2);
    assert_eq!(code(&agent.frames()[0]), -32002);
}
