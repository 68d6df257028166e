//! The races of a turn: every case of `session_turn_races.json`, as calls.

use std::time::Duration;

use pintle_acp::{AgentEvent, Begin, Call, Ending, Outcome, Reply, RxSeq, TurnMachine, UpdateError};
use serde_json::{Value, json};

use crate::pair::{Agent, code, epoch, vectors};

fn update(text: &str) -> Call {
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    Call::new("session/update", &json!({ "sessionId": "s1", "update": update })).expect("JSON")
}

/// What was sent, in short: an update's text, or an answer's stop reason or error code with its id.
fn sent(agent: &mut Agent) -> Vec<String> {
    agent
        .frames()
        .iter()
        .map(|frame| match &frame["id"] {
            Value::Null if frame["method"] == "session/update" => {
                frame["params"]["update"]["content"]["text"].as_str().expect("text").to_owned()
            }
            Value::Null => frame["method"].as_str().expect("a method").to_owned(),
            id if code(frame) != 0 => format!("{id} error {}", code(frame)),
            id => format!("{id} {}", frame["result"]["stopReason"].as_str().expect("a stop reason")),
        })
        .collect()
}

/// Plays one case; returns what was sent.
fn play(name: &str) -> Vec<String> {
    let mut agent = Agent::with_session();
    for counter in ["dropped_reply", "zero_update_turn"] {
        agent.sentinel.tolerate(counter);
    }
    match name {
        "happy" => {
            agent.prompt(1);
            let token = agent.take_turn();
            agent.end.turn_update(token.turn(), &update("u1")).expect("the turn runs");
            agent.end_turn(token, "end_turn");
        }
        "hold_open" => {
            agent.prompt(1);
            let token = agent.take_turn();
            let turn = token.turn();
            agent.end.join_turn(turn).expect("the turn runs");
            agent.end_turn(token, "end_turn");
            assert!(agent.frames().is_empty(), "the subtask holds the answer");
            agent.end.leave_turn(agent.now, turn);
        }
        "cancel_beats_root_result" => {
            agent.prompt(1);
            let token = agent.take_turn();
            let turn = token.turn();
            agent.end.join_turn(turn).expect("the turn runs");
            agent.end_turn(token, "end_turn");
            agent.cancel();
            agent.end.leave_turn(agent.now, turn);
        }
        "cancel_mid_turn_once" => {
            agent.prompt(1);
            agent.cancel();
            agent.cancel();
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
            agent.cancel();
        }
        "cancel_idle" | "prompt_after_cancel_unaffected" => {
            agent.cancel();
            agent.prompt(1);
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
        }
        // On the wire the prompt is first; it is handled last, because its session is still being loaded.
        "born_cancelled" => {
            agent = Agent::initialized(json!({ "loadSession": true }));
            agent.sentinel.tolerate("zero_update_turn");
            let load = json!({ "sessionId": "s1", "cwd": "/", "mcpServers": [] });
            agent.request(json!(0), "session/load", load);
            agent.prompt(1);
            agent.cancel();
            let (token, _) = agent.take_request("session/load");
            agent.answer(token, json!({}));
            assert!(!agent.saw(|event| matches!(event, AgentEvent::Prompt { .. })), "nothing runs");
            assert_eq!(agent.frames().remove(0)["id"], 0);
            agent.prompt(2);
            let token = agent.take_turn();
            agent.end_turn(token, "cancelled");
            let frames = agent.frames();
            assert_eq!(frames[0]["id"], 2, "{frames:?}");
            return vec!["1 cancelled".into()];
        }
        "runner_ignores_cancel" => {
            agent.prompt(1);
            let token = agent.take_turn();
            agent.cancel();
            agent.pass(Duration::from_millis(29_999));
            assert!(agent.frames().is_empty(), "the backstop is at 30 s");
            agent.pass(Duration::from_millis(1));
            assert!(agent.saw(|event| matches!(event, AgentEvent::TurnKilled(_))));
            agent.end_turn(token, "end_turn");
        }
        "stale_backstop" => {
            agent.prompt(1);
            agent.cancel();
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
            agent.prompt(2);
            let token = agent.take_turn();
            agent.pass(Duration::from_secs(60));
            assert!(!agent.saw(|event| matches!(event, AgentEvent::TurnKilled(_))));
            agent.end_turn(token, "end_turn");
            let frames = sent(&mut agent);
            assert_eq!(frames, ["1 cancelled", "2 end_turn"]);
            return Vec::new();
        }
        "busy" => {
            agent.prompt(1);
            agent.prompt(2);
            let frames = sent(&mut agent);
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
            assert_eq!(sent(&mut agent), ["1 end_turn"], "the first is untouched");
            return frames;
        }
        "busy_after_cancel" => {
            agent.prompt(1);
            agent.cancel();
            agent.prompt(3);
            let frames = sent(&mut agent);
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
            assert_eq!(sent(&mut agent), ["1 cancelled"]);
            return frames;
        }
        "peer_abandons_prompt_id" => {
            agent.prompt(1);
            agent.notify("$/cancel_request", json!({ "requestId": 1 }));
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
            let frames = sent(&mut agent);
            agent.prompt(1);
            let token = agent.take_turn();
            agent.end_turn(token, "end_turn");
            assert_eq!(sent(&mut agent), ["1 end_turn"], "the id is free, the session too");
            return frames;
        }
        "straggler_update" => {
            agent.prompt(1);
            let token = agent.take_turn();
            let turn = token.turn();
            agent.end_turn(token, "end_turn");
            let late = agent.end.turn_update(turn, &update("late"));
            assert!(matches!(late, Err(UpdateError::TurnOver(_))), "{late:?}");
        }
        "runner_crash" => {
            agent.prompt(1);
            drop(agent.take_turn());
        }
        "subtask_crash" => {
            agent.prompt(1);
            let token = agent.take_turn();
            let turn = token.turn();
            agent.end.join_turn(turn).expect("the turn runs");
            agent.end.leave_turn(agent.now, turn);
            agent.end_turn(token, "end_turn");
        }
        "runner_error_value" => {
            agent.prompt(1);
            let token = agent.take_turn();
            let error = pintle_acp::Error::new(-32603, "mine").data(json!({ "why": 1 }));
            agent.end.end_turn(agent.now, token, Reply::error(&error));
            let frames = agent.frames();
            assert_eq!(frames[0]["error"], json!({ "code": -32603, "message": "mine", "data": { "why": 1 } }));
            return vec!["that very error".into()];
        }
        "set_mode_mid_turn" => {
            agent.request(json!("new"), "session/new", json!({ "cwd": "/", "mcpServers": [] }));
            let (token, _) = agent.take_request("session/new");
            let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "code", "name": "Code" }] });
            agent.answer(token, json!({ "sessionId": "s2", "modes": modes }));
            agent.request(json!(1), "session/prompt", json!({ "sessionId": "s2", "prompt": [] }));
            agent.frames();
            agent.request(json!(2), "session/set_mode", json!({ "sessionId": "s2", "modeId": "nope" }));
            assert_eq!(code(&agent.frames()[0]), -32602);
            agent.request(json!(3), "session/set_mode", json!({ "sessionId": "s2", "modeId": "code" }));
            let _ = agent.take_request("session/set_mode");
            return vec!["ok".into(), "error -32602".into()];
        }
        "set_mode_without_modes" => {
            agent.request(json!(2), "session/set_mode", json!({ "sessionId": "s1", "modeId": "code" }));
            assert_eq!(code(&agent.frames()[0]), -32602);
            return vec!["error -32602".into()];
        }
        other => panic!("the vectors have a case that nobody plays: {other}"),
    }
    sent(&mut agent)
}

/// R-140 to R-156 (R-144, R-146, R-149, R-150 among them), I3 to I7 (I5, I6), I12, I13, I16, I17.
#[test]
fn every_race_ends_as_the_vectors_say() {
    for case in vectors("session_turn_races")["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        // The type system has no nonsense values; empty chunks and durable sessions are tested in the sdk.
        if matches!(name, "runner_nonsense_value" | "empty_text_chunk" | "two_connections_one_session") {
            continue;
        }
        let expected: Vec<&str> = match name {
            "happy" => vec!["u1", "1 end_turn"],
            "hold_open" | "cancel_idle" | "prompt_after_cancel_unaffected" | "straggler_update" | "subtask_crash" => {
                vec!["1 end_turn"]
            }
            "cancel_beats_root_result" | "cancel_mid_turn_once" | "born_cancelled" | "runner_ignores_cancel" => {
                vec!["1 cancelled"]
            }
            // The design answers the abandoned prompt, once, where the original said nothing.
            "peer_abandons_prompt_id" => vec!["1 cancelled"],
            "stale_backstop" => vec![],
            "busy" => vec!["2 error -32600"],
            "busy_after_cancel" => vec!["3 error -32600"],
            "runner_crash" => vec!["1 error -32603"],
            "runner_error_value" => vec!["that very error"],
            "set_mode_mid_turn" => vec!["ok", "error -32602"],
            "set_mode_without_modes" => vec!["error -32602"],
            other => panic!("the vectors have a new case: {other}"),
        };
        assert_eq!(play(name), expected, "{name}");
    }
}

/// R-142, I16: what counts is the order on the wire, in both directions.
#[test]
fn a_cancel_acts_on_the_prompts_before_it_r142_i16() {
    fn check(cancel: u64, prompt: u64, expected: &Begin<()>) {
        let mut turns: TurnMachine<(), u32, ()> = TurnMachine::new(Duration::from_secs(30));
        assert!(turns.cancel(epoch(), RxSeq::new(cancel)).is_empty(), "R-143: a cancel while idle is only remembered");
        assert_eq!(turns.begin(RxSeq::new(prompt), ()), *expected, "cancel at {cancel}, prompt at {prompt}");
    }
    check(5, 3, &Begin::BornCancelled(()));
    check(5, 5, &Begin::Run(1));
    check(5, 6, &Begin::Run(1));
    check(0, 1, &Begin::Run(1));
}

/// busy and born-cancelled prompts take no ordinal.
#[test]
fn only_turns_that_run_are_counted_r161() {
    let mut turns: TurnMachine<u32, u32, ()> = TurnMachine::new(Duration::from_secs(30));
    turns.cancel(epoch(), RxSeq::new(5));
    assert_eq!(turns.begin(RxSeq::new(4), 1), Begin::BornCancelled(1));
    assert_eq!(turns.begin(RxSeq::new(6), 2), Begin::Run(1));
    assert_eq!(turns.begin(RxSeq::new(7), 3), Begin::Busy(3));
    turns.root_ended(1, Some(()), false);
    assert_eq!(turns.begin(RxSeq::new(8), 4), Begin::Run(2));
}

/// G-11: an answer that says `cancelled` itself keeps what it carries.
#[test]
fn a_cancelled_answer_keeps_its_meta() {
    let mut agent = Agent::with_session();
    agent.sentinel.tolerate("dropped_reply");
    agent.sentinel.tolerate("zero_update_turn");
    agent.prompt(1);
    let token = agent.take_turn();
    agent.cancel();
    let answer = json!({ "stopReason": "cancelled", "_meta": { "spent": 3 } });
    agent.end.end_turn(agent.now, token, Reply::ok(&answer).expect("JSON"));
    assert_eq!(agent.frames()[0]["result"], answer);
}

/// G-10: the cooperative cancel is told once per turn, for all of its tasks; R-145: nobody joins a turn that winds down.
#[test]
fn a_cancel_is_told_once_and_closes_the_group() {
    let mut agent = Agent::with_session();
    agent.prompt(1);
    let token = agent.take_turn();
    agent.cancel();
    agent.cancel();
    let told = agent.events.iter().filter(|event| matches!(event, AgentEvent::TurnCancelled(_))).count();
    assert_eq!(told, 1);
    assert!(agent.end.join_turn(token.turn()).is_err());
    agent.end.turn_update(token.turn(), &update("still")).expect("R-153: updates may follow a cancel");
    agent.end_turn(token, "end_turn");
    assert_eq!(sent(&mut agent), ["still", "1 cancelled"]);
}

/// R-147, I9: a cancel gives up every open ask, with a word to the client; R-171: none may begin after it.
#[test]
fn a_cancel_gives_up_open_asks_r147_i9() {
    let mut agent = Agent::with_session();
    agent.prompt(1);
    let token = agent.take_turn();
    let ask = Call::new("session/request_permission", &json!({ "sessionId": "s1" })).expect("JSON");
    agent.end.ask(token.turn(), &ask, None, 11).expect("the turn runs");
    agent.end.ask(token.turn(), &ask, None, 12).expect("R-170: several may be open");
    agent.frames();
    agent.cancel();
    let outcomes: Vec<_> = agent
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Outcome { waiter, outcome } => Some((*waiter, outcome.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [(11, Outcome::TurnCancelled), (12, Outcome::TurnCancelled)]);
    let given_up: Vec<_> = agent.frames().iter().map(|frame| frame["params"]["requestId"].clone()).collect();
    assert_eq!(given_up, [json!(1), json!(2)]);
    assert!(agent.end.ask(token.turn(), &ask, None, 13).is_err());
    // the client's late answer changes nothing.
    agent.send(json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert!(agent.frames().is_empty());
    assert_eq!(agent.end.counters().late_response, 1);
}

/// R-157, I15, G-23: on one connection, two sessions are two lanes.
#[test]
fn two_sessions_of_one_connection_do_not_meet_i15() {
    let mut agent = Agent::with_session();
    agent.sentinel.expect("zero_update_turn");
    agent.open_session("s2");
    agent.prompt(1);
    agent.request(json!(2), "session/prompt", json!({ "sessionId": "s2", "prompt": [] }));
    let (one, two) = (agent.take_turn(), agent.take_turn());
    agent.cancel();
    agent.end_turn(two, "end_turn");
    agent.end_turn(one, "end_turn");
    assert_eq!(sent(&mut agent), ["2 end_turn", "1 cancelled"]);
}

/// the machine itself tells a crash from an ending.
#[test]
fn a_root_without_a_value_has_crashed_r151() {
    let mut turns: TurnMachine<u32, u32, &str> = TurnMachine::new(Duration::from_secs(30));
    turns.begin(RxSeq::new(1), 1);
    let effects = turns.root_ended(1, None, false);
    assert!(matches!(&effects[..], [pintle_acp::Effect::Reply { ending: Ending::Crashed, .. }]), "{effects:?}");
}

/// R-146, I5: the first ending of the root stands; only a cancel overwrites it, also after the root is gone.
#[test]
fn an_ending_is_written_once_r146() {
    let mut turns: TurnMachine<u8, u8, &str> = TurnMachine::new(Duration::from_secs(30));
    assert_eq!(turns.begin(RxSeq::new(1), 1), Begin::Run(1));
    turns.join(1).expect("runs");
    assert!(turns.root_ended(1, Some("first"), false).is_empty());
    assert!(turns.root_ended(1, Some("second"), false).is_empty());
    let effects = turns.member_ended(1);
    assert!(
        matches!(&effects[..], [pintle_acp::Effect::Reply { ending: Ending::Finished("first"), .. }]),
        "{effects:?}"
    );

    assert_eq!(turns.begin(RxSeq::new(2), 2), Begin::Run(2));
    turns.join(2).expect("runs");
    assert!(turns.root_ended(2, Some("done"), false).is_empty());
    turns.cancel(epoch(), RxSeq::new(3));
    let effects = turns.member_ended(2);
    assert!(matches!(&effects[..], [pintle_acp::Effect::Reply { ending: Ending::Cancelled, .. }]), "{effects:?}");
}

/// I2, I11: a session is there from the answer that names it to the answer that ends it.
#[test]
fn a_session_is_found_while_it_is_open_i2_i11() {
    let mut agent = Agent::with_session();
    agent.sentinel.expect("zero_update_turn");
    agent.prompt(1);
    let token = agent.take_turn();
    agent.end_turn(token, "end_turn");
    agent.request(json!(2), "session/close", json!({ "sessionId": "s1" }));
    let (token, _) = agent.take_request("session/close");
    agent.answer(token, json!({}));
    agent.frames();
    assert_eq!(agent.end.load(), (0, 0, 0));
    agent.prompt(3);
    assert_eq!(code(&agent.frames()[0]), -32002);
    // The id may be given out again.
    agent.open_session("s1");
    agent.prompt(4);
    let _ = agent.take_turn();
}
