//! The checked-in schemas are the generated ones, and they agree with the codecs (A14).

use crate::common;

use std::sync::LazyLock;

use crate::common::session;
use pintle_pointer::{Observed, PublishRequest, publish_request_schema, state_schema};
use proptest::prelude::*;
use serde_json::{Value, json};

static STATE: LazyLock<jsonschema::Validator> = LazyLock::new(|| validator(&state_schema()));
static REQUEST: LazyLock<jsonschema::Validator> = LazyLock::new(|| validator(&publish_request_schema()));

fn validator(schema: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(schema).expect("JSON")).expect("a schema")
}

#[test]
fn checked_in_files_are_the_generated_ones() {
    assert_eq!(include_str!("../../../schemas/state-v3.schema.json"), state_schema());
    assert_eq!(include_str!("../../../schemas/publish-request-v3.schema.json"), publish_request_schema());
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(json!("session-example")),
        1 => Just(json!("bad id")),
        3 => Just(json!("g-0123456789abcdef0123456789abcdef")),
        2 => Just(json!("ABSENT")),
        2 => Just(json!("LEGACY_V2")),
        2 => Just(json!("CLEAN")),
        2 => Just(json!("DIRTY")),
        2 => Just(json!("CLEARED")),
        3 => Just(json!("6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6")),
        1 => Just(json!("6F1C2A9E-3b4d-4c5e-8f60-718293a4b5c6")),
        2 => Just(json!("2026-01-01T00:00:00Z")),
        1 => Just(json!("2026-13-01T00:00:00Z")),
        3 => Just(Value::Null),
        2 => Just(json!(0)),
        2 => Just(json!(1)),
        3 => Just(json!(3)),
        1 => Just(json!(9_007_199_254_740_991_u64)),
        1 => Just(json!(9_007_199_254_740_992_u64)),
        1 => Just(json!(-1)),
        1 => Just(json!(3.5)),
        1 => Just(json!(true)),
        1 => Just(json!([])),
        1 => Just(json!("")),
        1 => Just(json!(" \n")),
        1 => Just(json!("a\u{1}")),
        1 => Just(json!("Goal\nNext\t\u{e9}")),
    ]
}

/// A valid object with up to three members replaced, dropped or added.
fn mutants(valid: &[Value]) -> impl Strategy<Value = Value> + use<> {
    let valid = valid.to_vec();
    let edits = prop::collection::vec(
        (any::<prop::sample::Index>(), prop_oneof![5 => values().prop_map(Some), 1 => Just(None)]),
        0..4,
    );
    (prop::sample::select(valid), edits, prop::bool::weighted(0.05)).prop_map(|(mut object, edits, extra)| {
        let names: Vec<String> = object.as_object().expect("object").keys().cloned().collect();
        let members = object.as_object_mut().expect("object");
        for (index, value) in edits {
            let name = index.get(&names);
            match value {
                Some(value) => members.insert(name.clone(), value),
                None => members.remove(name),
            };
        }
        if extra {
            members.insert("extra".into(), json!(1));
        }
        object
    })
}

fn states() -> Vec<Value> {
    let live = json!({"schema_version": 3, "session_id": "session-example", "generation": "g-0123456789abcdef0123456789abcdef",
        "revision": 3, "status": "CLEAN", "task_id": "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6", "pointer_text": "Goal",
        "updated_at": "2026-01-01T00:00:00Z"});
    let mut cleared = live.clone();
    cleared["status"] = json!("CLEARED");
    cleared["task_id"] = Value::Null;
    cleared["pointer_text"] = Value::Null;
    vec![live, cleared]
}

fn requests() -> Vec<Value> {
    let live = json!({"schema_version": 3, "session_id": "session-example",
        "expected_generation": "g-0123456789abcdef0123456789abcdef", "expected_revision": 2,
        "task_id": "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6", "target_status": "CLEAN", "pointer_text": "Goal"});
    let mut cleared = live.clone();
    cleared["target_status"] = json!("CLEARED");
    cleared["task_id"] = Value::Null;
    cleared["pointer_text"] = Value::Null;
    let mut absent = live.clone();
    absent["expected_generation"] = json!("ABSENT");
    absent["expected_revision"] = json!(0);
    vec![live, cleared, absent]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn state_schema_and_codec_agree(value in mutants(&states())) {
        let by_schema = STATE.is_valid(&value);
        let observed = Observed::decode(value.to_string().as_bytes(), &session());
        let by_code = matches!(observed, Observed::Current(_));
        // The one rule that no schema of a single file can state: the session must be the one that was asked for.
        prop_assume!(value["session_id"] == "session-example" || !by_schema);
        prop_assert_eq!(by_code, by_schema, "{}", value);
    }

    #[test]
    fn request_schema_and_codec_agree(value in mutants(&requests())) {
        let by_schema = REQUEST.is_valid(&value);
        let by_code = PublishRequest::decode(value.to_string().as_bytes()).is_ok();
        prop_assert_eq!(by_code, by_schema, "{}", value);
    }
}

/// What is written is valid.
#[test]
fn what_we_write_is_valid() {
    for observed in [common::current(common::clean("x"), 1, 1), common::current(pintle_pointer::Pointer::Cleared, 2, 9)]
    {
        let Observed::Current(state) = observed else { panic!("current") };
        assert!(STATE.is_valid(&serde_json::from_slice(&state.to_bytes()).expect("JSON")));
    }
}
