//! Sessions of an agent's end.

use pintle_acp::{AgentEvent, Call};
use serde_json::json;

use crate::pair::{Agent, code, error};

/// An update that the handler of `session/new` sends leaves behind the answer that makes the id known.
#[test]
fn updates_of_a_new_session_follow_its_answer() {
    let mut agent = Agent::initialized(json!({}));
    agent.request(json!(1), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    let (token, _) = agent.take_request("session/new");
    let update = Call::new("session/update", &json!({ "sessionId": "s9" })).expect("JSON");
    agent.end.session_update(Some(token.key()), "s9", &update).expect("kept");
    assert!(agent.end.session_update(None, "s9", &update).is_err(), "nobody else knows the session");
    assert!(agent.frames().is_empty());
    agent.answer(token, json!({ "sessionId": "s9" }));
    let frames = agent.frames();
    assert_eq!((&frames[0]["id"], &frames[1]["method"]), (&json!(1), &json!("session/update")));
    agent.end.session_update(None, "s9", &update).expect("known now");
}

/// A prompt for a session that is not open is refused, and names the session.
#[test]
fn a_prompt_needs_an_open_session() {
    let mut agent = Agent::initialized(json!({}));
    agent.prompt(1);
    let frames = agent.frames();
    assert_eq!((code(&frames[0]), &frames[0]["error"]["data"]["sessionId"]), (-32002, &json!("s1")));
}

/// Prompts behind a `session/load` wait for it; if it fails there is no session.
#[test]
fn prompts_wait_for_the_load_of_their_session() {
    for loads in [true, false] {
        let mut agent = Agent::initialized(json!({ "loadSession": true }));
        agent.sentinel.tolerate("zero_update_turn");
        agent.request(json!(0), "session/load", json!({ "sessionId": "s1", "cwd": "/", "mcpServers": [] }));
        agent.prompt(1);
        let (token, _) = agent.take_request("session/load");
        assert!(agent.events.is_empty() && agent.frames().is_empty());
        if loads {
            let replay = Call::new("session/update", &json!({ "sessionId": "s1" })).expect("JSON");
            agent.end.session_update(Some(token.key()), "s1", &replay).expect("the replay comes before the answer");
            agent.answer(token, json!(null));
            let frames = agent.frames();
            assert_eq!((&frames[0]["method"], &frames[1]["id"]), (&json!("session/update"), &json!(0)));
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
        } else {
            agent.end.reply(agent.now, token, &error(-32002));
            let frames = agent.frames();
            assert_eq!((&frames[0]["id"], &frames[1]["id"], code(&frames[1])), (&json!(0), &json!(1), -32002));
            assert_eq!(agent.end.load().2, 0);
        }
    }
}

/// A prompt that waits can be given up; the others still run.
#[test]
fn a_waiting_prompt_can_be_given_up() {
    let mut agent = Agent::initialized(json!({ "loadSession": true }));
    agent.request(json!(0), "session/load", json!({ "sessionId": "s1", "cwd": "/", "mcpServers": [] }));
    agent.prompt(1);
    agent.notify("$/cancel_request", json!({ "requestId": 1 }));
    assert_eq!(agent.frames()[0]["result"]["stopReason"], "cancelled");
    let (token, _) = agent.take_request("session/load");
    agent.answer(token, json!({}));
    assert!(!agent.saw(|event| matches!(event, AgentEvent::Prompt { .. })));
}

/// A close cancels the turn that runs, keeps prompts out, and ends the session when the turn is gone.
#[test]
fn a_close_cancels_and_ends_the_session() {
    let mut agent = Agent::with_session();
    agent.prompt(1);
    let turn = agent.take_turn();
    agent.request(json!(2), "session/close", json!({ "sessionId": "s1" }));
    assert!(agent.saw(|event| matches!(event, AgentEvent::TurnCancelled(_))));
    agent.prompt(3);
    assert_eq!(code(&agent.frames()[0]), -32002);
    let (close, _) = agent.take_request("session/close");
    agent.answer(close, json!({}));
    assert_eq!(agent.end.load().2, 1, "the turn winds down");
    agent.end_turn(turn, "end_turn");
    let answers: Vec<_> = agent.frames();
    assert_eq!((&answers[0]["id"], &answers[1]["result"]["stopReason"]), (&json!(2), &json!("cancelled")));
    assert!(agent.saw(|event| matches!(event, AgentEvent::SessionClosed { idle: false, .. })));
    assert_eq!(agent.end.load().2, 0);
}

/// A close that fails leaves the session open.
#[test]
fn a_failed_close_changes_nothing() {
    let mut agent = Agent::with_session();
    agent.request(json!(2), "session/close", json!({ "sessionId": "s1" }));
    let (close, _) = agent.take_request("session/close");
    agent.end.reply(agent.now, close, &error(-32603));
    agent.prompt(3);
    let _ = agent.take_turn();
}

/// Inv-21: `session/cancel` runs no code of a handler; an unknown session is nothing.
#[test]
fn session_cancel_is_the_connections_own_r103() {
    let mut agent = Agent::with_session();
    agent.cancel();
    agent.notify("session/cancel", json!({ "sessionId": "no-such" }));
    agent.notify("session/cancel", json!({ "sessionId": 5 }));
    assert!(agent.events.is_empty() && agent.frames().is_empty());
    assert_eq!(agent.end.counters().dropped_notification, 1);
}

/// R-100, Inv-5: whatever a notification is, it makes no frame.
#[test]
fn a_notification_makes_no_frame_r100() {
    let mut agent = Agent::with_session();
    for (method, params) in [
        ("no/such", json!({})),
        ("session/prompt", json!({ "sessionId": "s1", "prompt": [] })),
        ("session/update", json!({})),
        ("$/cancel_request", json!({})),
        ("$/cancel_request", json!({ "requestId": { "a": 1 } })),
        ("$/cancel_request", json!({ "requestId": 77 })),
        ("initialize", json!({ "protocolVersion": 1 })),
    ] {
        agent.notify(method, params);
        assert!(agent.frames().is_empty() && agent.events.is_empty(), "{method}");
    }
}
