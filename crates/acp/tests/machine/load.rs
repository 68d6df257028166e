//! Hostile and heavy input.

use pintle_acp::{AgentEvent, Config};
use proptest::prelude::*;
use serde_json::json;

use crate::pair::{Agent, code};

/// R-210, Inv-15: garbage frames by the thousand leave the connection alive and in-flight work unharmed.
#[test]
fn garbage_by_the_thousand_harms_nobody_r210() {
    let mut agent = Agent::with_session();
    agent.sentinel.expect("zero_update_turn");
    agent.prompt(1);
    let token = agent.take_turn();
    let garbage: [&[u8]; 9] = [
        b"\xff\xfe\xfd",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"x\"}",
        b"[[[[[[[[",
        b"{\"jsonrpc\":\"2.0\",\"method\":5}",
        b"null",
        b"[]",
        b"\"\\ud800\"",
        b"{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"x\"}",
        b"{",
    ];
    for n in 0..5000 {
        agent.end.feed(agent.now, garbage[n % garbage.len()]);
        agent.feed(b"\n");
    }
    for frame in agent.frames() {
        assert!(matches!(code(&frame), -32700 | -32600), "{frame}");
        assert!(!frame.to_string().contains("ud800"), "no echo of the content: {frame}");
    }
    agent.end_turn(token, "end_turn");
    assert_eq!(agent.frames()[0]["result"]["stopReason"], "end_turn");
}

/// acp-sdk 6b, 8, 9: 200,000 nested arrays are one small answer; a line without an end is drained and answered once.
#[test]
fn depth_and_length_are_bounded() {
    let mut config = Config::default();
    config.max_line_bytes = 1 << 20;
    let mut agent = Agent::initialized_with(config, json!({}), json!({}));
    agent.line(&"[".repeat(200_000));
    let frames = agent.frames();
    assert_eq!((frames.len(), code(&frames[0])), (1, -32700));
    for _ in 0..64 {
        agent.feed(&[b'x'; 64 * 1024]);
    }
    assert!(agent.frames().is_empty(), "not before its end");
    agent.line("");
    let frames = agent.frames();
    assert_eq!((frames.len(), code(&frames[0]), &frames[0]["id"]), (1, -32700, &json!(null)));
    agent.request(json!(1), "_vendor/a", json!({}));
    let _ = agent.take_request("_vendor/a");
}

/// R-106, Inv-7, I14: names that a peer makes up are kept nowhere.
#[test]
fn made_up_names_are_not_kept() {
    let mut agent = Agent::initialized(json!({}));
    for n in 0..2000 {
        agent.request(json!(n), &format!("made/up/{n}"), json!({}));
        agent.notify(&format!("made/up/{n}"), json!({}));
        agent.notify("session/cancel", json!({ "sessionId": format!("s{n}") }));
        agent.notify("$/cancel_request", json!({ "requestId": format!("r{n}") }));
    }
    assert_eq!(agent.frames().len(), 2000);
    assert_eq!(agent.end.load(), (0, 0, 0));
    assert!(agent.events.is_empty());
}

proptest! {
    /// F5: the pieces in which bytes arrive make no difference.
    #[test]
    fn pieces_make_no_difference(cuts in prop::collection::vec(1usize..40, 0..40)) {
        let stream = concat!(
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\r\n",
            "\n\r\n",
            "garbage\n",
            "{\"jsonrpc\":\"2.0\",\"id\":\"é\",\"method\":\"_x/y\",\"params\":[1,2]}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"_x/z\"}\n",
            "[1]\n",
        );
        let look = |agent: &mut Agent| {
            agent.sentinel.tolerate("dropped_reply");
            let events: Vec<_> = agent.events.drain(..).filter_map(|event| match event {
                AgentEvent::Request { request, .. } => Some((request.method.to_string(), request.rx)),
                AgentEvent::Notification(notification) => Some((notification.method.to_string(), notification.rx)),
                _ => None,
            }).collect();
            (events, agent.frames())
        };
        let mut whole = Agent::new(Config::default());
        whole.feed(stream.as_bytes());
        let mut pieces = Agent::new(Config::default());
        let mut rest = stream.as_bytes();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.feed(piece);
            rest = after;
        }
        pieces.feed(rest);
        prop_assert_eq!(look(&mut whole), look(&mut pieces));
    }
}
