//! The check of frames against a schema can fail, in every one of its parts.

use pintle_interop_schema::emitted::{Checker, From, Schema};
use serde_json::{Value, json};

fn schema(word: &str) -> Schema {
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "RequestId": { "type": ["string", "integer"] },
            "Error": { "type": "object", "required": ["code", "message"] },
            "AskRequest": { "x-method": "ask", "type": "object", "required": ["what"] },
            "AskResponse": { "x-method": "ask", "type": "object", "required": ["answer"] },
            "SessionNotification": { "x-method": "session/update", "properties": {
                "update": { "type": "object", "required": [word] } } },
        },
    });
    Schema::new(root).expect("a schema")
}

/// The frames of one connection, and the first fault among them; an empty `expected` is none.
#[track_caller]
fn check(frames: &[(From, Value)], expected: &str) {
    let mut checker = Checker::new(schema("stable"), schema("newer"));
    let found = frames.iter().find_map(|(from, frame)| checker.frame(*from, frame).err());
    match found {
        Some(fault) if !expected.is_empty() => assert!(fault.contains(expected), "{fault}"),
        found => assert_eq!(found.as_deref().unwrap_or_default(), expected),
    }
}

#[test]
fn every_part_of_the_check_can_fail() {
    use From::{Agent, Client};
    let ask = |params: Value| (Client, json!({"jsonrpc":"2.0","id":1,"method":"ask","params":params}));
    let good = || ask(json!({"what":1}));
    let result = |result: Value| (Agent, json!({"jsonrpc":"2.0","id":1,"result":result}));
    check(&[good(), result(json!({"answer":1}))], "");
    check(&[ask(json!({}))], "as AskRequest");
    check(&[good(), result(json!({}))], "result of `ask` as AskResponse");
    check(&[result(json!({"answer":1}))], "answers nothing");
    check(&[good(), result(json!({"answer":1})), result(json!({"answer":1}))], "answers nothing");
    check(&[good(), good()], "in use");
    check(&[good(), (Agent, json!({"jsonrpc":"2.0","id":1}))], "exactly one");
    check(&[good(), (Agent, json!({"jsonrpc":"2.0","id":1,"error":{"code":1}}))], "as Error");
    check(&[(Client, json!({"id":1,"method":"ask","params":{"what":1}}))], "jsonrpc");
    check(&[(Client, json!({"jsonrpc":"2.0","id":1.5,"method":"ask","params":{"what":1}}))], "as RequestId");
    check(&[(Client, json!({"jsonrpc":"2.0","method":"fly"}))], "`fly` has no params");
    check(&[(Client, json!({"jsonrpc":"2.0","id":1,"method":"_x","params":[]})), result(json!(7))], "");

    let update = |update: Value| (Agent, json!({"jsonrpc":"2.0","method":"session/update","params":{"update":update}}));
    check(&[update(json!({"sessionUpdate":"plan","stable":1}))], "");
    check(&[update(json!({"sessionUpdate":"plan","newer":1}))], "as SessionNotification");
    check(&[update(json!({"sessionUpdate":"plan_update","newer":1}))], "");
    check(&[update(json!({"sessionUpdate":"plan_update","stable":1}))], "as SessionNotification");
}
