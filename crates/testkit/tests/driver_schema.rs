//! The JSON Schema of Driver RPC v1 that is checked in: made from the table below, and held against the decoder, which
//! knows more than a schema can say.
//!
//! `PINTLE_UPDATE_SCHEMAS=1 cargo test --workspace --test it driver_schema` writes it.

use std::path::{Path, PathBuf};

use pintle_driver::{
    CancelResult, CapabilitiesResult, Contract, DEFAULT_MAX_DATA_FRAME_BYTES, DataFrameHeader, ErrorClass, HelloResult,
    InputKind, MAX_CONCURRENT_INVOCATIONS, Method, MethodInfo, ObjectRef, PrepareResult, ProtocolError, ResetResult,
    TerminalStatus, decode_control_frame, decode_params_strict,
};
use pintle_testkit::vectors::{Vector, driver_vectors};
use serde_json::{Map, Value, json};

const NAME: &str = "pintle.driver-rpc.v1.schema.json";
/// The largest integer of the protocol, 2^53.
const MAX_INTEGER: u64 = 1 << 53;

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

// The table. A member is required unless its name ends with `?`; whatever is not named is refused.

fn object(members: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in members {
        let bare = name.trim_end_matches('?');
        if bare == *name {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), schema.clone());
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
}

fn of(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

fn or_null(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn list(item: &Value) -> Value {
    json!({"type": "array", "items": item})
}

fn integer(minimum: i64, maximum: u64) -> Value {
    json!({"type": "integer", "minimum": minimum, "maximum": maximum})
}

fn filled() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn contracts() -> Vec<(&'static str, Value)> {
    let strings = list(&json!({"type": "string"}));
    let boolean = json!({"type": "boolean"});
    let natural = integer(0, MAX_INTEGER);
    let nothing = json!({"type": "object", "maxProperties": 0});
    let visible = json!({"type": "string", "pattern": "\\S"});
    let mut identity = object(&[
        ("name", visible.clone()),
        ("version", visible.clone()),
        ("sdk_name?", json!({"type": "string"})),
        ("sdk_version?", json!({"type": "string"})),
        ("client_name?", json!({"type": "string"})),
        ("client_version?", json!({"type": "string"})),
        ("runtime_name", visible.clone()),
        ("runtime_version", visible.clone()),
        ("os", visible.clone()),
        ("architecture", visible),
        ("artifact_digest", of("digest")),
        ("lockfile_digest?", json!({"anyOf": [of("digest"), {"const": ""}]})),
    ]);
    let pairs = [("sdk_name", "sdk_version"), ("client_name", "client_version")];
    let together: Map<String, Value> =
        pairs.iter().flat_map(|(a, b)| [((*a).to_owned(), json!([b])), ((*b).to_owned(), json!([a]))]).collect();
    identity["dependentRequired"] = json!(together);
    let mut observation = object(&[
        ("invocation_id", of("instanceId")),
        ("attempt_id", of("instanceId")),
        ("sequence", natural.clone()),
        ("kind", filled()),
        ("monotonic_ns", natural.clone()),
        ("payload?", json!(true)),
        ("data_stream?", object(&[("stream_id", filled())])),
    ]);
    observation["not"] = json!({"required": ["payload", "data_stream"]});
    let statuses: Vec<&str> = TerminalStatus::ALL.iter().map(|status| status.as_str()).collect();
    let kinds: Vec<&str> =
        [InputKind::Pipe, InputKind::Socket, InputKind::Memfd].iter().map(|kind| kind.as_str()).collect();
    let classes: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.as_str()).collect();
    vec![
        ("id", json!({"anyOf": [{"type": "string"}, integer(-(MAX_INTEGER as i64), MAX_INTEGER)]})),
        ("digest", json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})),
        (
            "instanceId",
            json!({"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"}),
        ),
        (
            "objectRef",
            object(&[
                ("kind", json!({"type": "string", "pattern": "^[A-Z][0-9A-Za-z]{1,63}$"})),
                ("instance_id?", of("instanceId")),
                ("content_digest", of("digest")),
            ]),
        ),
        ("versionRange", object(&[("minimum", filled()), ("maximum", filled())])),
        ("identity", identity),
        (
            "capabilities",
            object(&[
                ("protocols?", or_null(&strings)),
                ("operations?", or_null(&strings)),
                ("streaming?", boolean.clone()),
                ("cancellation?", boolean.clone()),
                ("retry_observed?", boolean.clone()),
                ("concurrency?", boolean.clone()),
                ("max_concurrency?", integer(0, u64::from(u32::MAX))),
            ]),
        ),
        ("helloParams", object(&[("core_version_range", of("versionRange"))])),
        (
            "helloResult",
            object(&[
                ("driver_version_range", of("versionRange")),
                ("identity", of("identity")),
                ("capabilities", of("capabilities")),
                ("requested_permissions", or_null(&strings)),
            ]),
        ),
        (
            "prepareParams",
            object(&[
                ("resolved_plan_digest", of("digest")),
                ("capability_token", filled()),
                ("fixture_refs?", or_null(&list(&of("objectRef")))),
                ("approved_permissions", strings.clone()),
            ]),
        ),
        ("prepareResult", object(&[("accepted_permissions?", or_null(&strings))])),
        ("capabilitiesParams", nothing.clone()),
        ("capabilitiesResult", object(&[("capabilities", of("capabilities"))])),
        (
            "invokeParams",
            object(&[
                ("invocation_id", of("instanceId")),
                ("attempt_id", of("instanceId")),
                ("operation", filled()),
                ("ephemeral_exact_input_handle", object(&[("kind", json!({"enum": kinds})), ("value", filled())])),
            ]),
        ),
        ("invokeResult", json!(true)),
        (
            "cancelParams",
            object(&[
                ("invocation_id", of("instanceId")),
                ("reason", filled()),
                ("deadline_millis", integer(1, MAX_INTEGER)),
            ]),
        ),
        ("cancelResult", or_null(&object(&[("acknowledged?", boolean.clone())]))),
        ("resetParams", nothing.clone()),
        ("resetResult", or_null(&nothing)),
        ("shutdownParams", nothing.clone()),
        ("shutdownResult", or_null(&nothing)),
        ("observationParams", observation),
        (
            "completedParams",
            object(&[
                ("invocation_id", of("instanceId")),
                ("attempt_id", of("instanceId")),
                ("status", json!({"enum": statuses})),
                ("last_sequence?", natural.clone()),
                ("summary_digest", of("digest")),
            ]),
        ),
        (
            "error",
            object(&[
                ("code", integer(-(MAX_INTEGER as i64), MAX_INTEGER)),
                ("message", filled()),
                ("data", object(&[("class", json!({"enum": classes})), ("details?", json!(true))])),
            ]),
        ),
        (
            "dataFrameHeader",
            object(&[
                ("attempt_id", of("instanceId")),
                ("final", or_null(&boolean)),
                ("invocation_id", of("instanceId")),
                ("length", integer(0, DEFAULT_MAX_DATA_FRAME_BYTES as u64)),
                ("sequence", natural),
                ("stream_id", json!({"type": "string", "minLength": 1, "maxLength": 256})),
            ]),
        ),
    ]
}

/// The definition that a method's params or result have.
fn definition(method: Method, of: &str) -> String {
    format!("{}{of}", method.as_str().trim_start_matches("driver."))
}

fn schema() -> Value {
    let version = json!({"const": "2.0"});
    let mut frames = Vec::new();
    for MethodInfo { method, params_optional, notification, .. } in Method::TABLE {
        let params = definition(method, "Params");
        let mut members = vec![
            ("jsonrpc", version.clone()),
            ("method", json!({"const": method.as_str()})),
            (if params_optional { "params?" } else { "params" }, of(&params)),
        ];
        if !notification {
            members.push(("id", of("id")));
        }
        frames.push(object(&members));
    }
    frames.push(object(&[("jsonrpc", version.clone()), ("id", of("id")), ("result", json!(true))]));
    frames.push(object(&[("jsonrpc", version), ("id", of("id")), ("error", of("error"))]));
    let definitions: Map<String, Value> =
        contracts().into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pintle.driver-rpc.v1",
        "description": "One control frame of Driver RPC v1; the results by method, and the header of a data frame, are \
            definitions of their own. docs/driver-rpc.md says what a schema cannot: bytes, order, which result answers \
            which method, identities that must agree.",
        "oneOf": frames,
        "$defs": definitions,
    })
}

#[test]
fn the_schema_that_is_checked_in_is_the_one_of_the_table() {
    let path = root("schemas").join(NAME);
    let text = format!("{:#}\n", schema());
    if std::env::var_os("PINTLE_UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &text).expect("the schema can be written");
    }
    let checked_in = std::fs::read_to_string(&path).expect("the schema is checked in");
    assert!(checked_in == text, "{NAME} is not what the table says; see the head of this file");
    // The table is of all methods, and the bound of the page is that of the code.
    for MethodInfo { method, .. } in Method::TABLE {
        assert!(schema()["$defs"][definition(method, "Params")].is_object(), "{method}");
    }
    let page = std::fs::read_to_string(root("docs/driver-rpc.md")).expect("the page");
    assert!(page.contains(&format!("at most {MAX_CONCURRENT_INVOCATIONS}")));
}

fn validator(definition: Option<&str>) -> jsonschema::Validator {
    let mut schema = schema();
    if let Some(definition) = definition {
        let whole = schema.as_object_mut().expect("an object");
        whole.remove("oneOf");
        whole.insert("$ref".to_owned(), json!(format!("#/$defs/{definition}")));
    }
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

/// Stages at which the text itself is refused: there is no JSON value to hold against a schema, or not the one meant.
fn is_text_stage(stage: &str) -> bool {
    stage.starts_with("json:") || matches!(stage, "empty" | "line_break" | "too_large" | "not_text")
}

#[test]
fn the_vectors_agree_with_the_schema() {
    let validator = validator(None);
    let (mut accepted, mut refused, mut too_deep, mut wrong) = (0, 0, 0, Vec::new());
    for vector in driver_vectors("decode") {
        let bytes = vector.bytes();
        let found = decode_control_frame(&bytes);
        let value = serde_json::from_slice::<Value>(&bytes).ok();
        match (found, value) {
            (Ok(_), Some(value)) => {
                accepted += 1;
                if let Err(error) = validator.validate(&value) {
                    wrong.push(format!("{} is a frame: {error}", vector.id));
                }
            }
            // serde_json stops at 128 levels.
            (Ok(_), None) => too_deep += 1,
            (Err(error), Some(value)) if !is_text_stage(error.stage()) => {
                refused += 1;
                if validator.is_valid(&value) {
                    wrong.push(format!(
                        "{} is no frame ({}: {error}), and the schema takes it",
                        vector.id,
                        error.stage()
                    ));
                }
            }
            (Err(_), _) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(accepted > 150 && refused > 200 && too_deep < 10, "{accepted} accepted, {refused} refused, {too_deep}");
}

fn typed<T: Contract>(vector: &Vector, definition: &str) -> Option<String> {
    let bytes = vector.bytes();
    let found: Result<T, ProtocolError> = decode_params_strict(&bytes);
    let value: Value = serde_json::from_slice(&bytes).ok()?;
    let valid = validator(Some(definition)).is_valid(&value);
    let text = matches!(&found, Err(error) if is_text_stage(error.stage().trim_start_matches("params_")));
    let wrong = valid != found.is_ok() && !text;
    wrong.then(|| {
        format!(
            "{}: the schema says {valid}, the decoder {:?}",
            vector.id,
            found.map(|_| ()).map_err(|e| e.to_string())
        )
    })
}

#[test]
fn the_typed_vectors_agree_with_their_definitions() {
    let wrong: Vec<String> = driver_vectors("typed")
        .iter()
        .filter_map(|vector| match vector.contract.as_deref() {
            Some("hello_result") => typed::<HelloResult>(vector, "helloResult"),
            Some("prepare_result") => typed::<PrepareResult>(vector, "prepareResult"),
            Some("cancel_result") => typed::<CancelResult>(vector, "cancelResult"),
            Some("capabilities_result") => typed::<CapabilitiesResult>(vector, "capabilitiesResult"),
            Some("empty") => typed::<ResetResult>(vector, "resetResult"),
            Some("object_ref") => typed::<ObjectRef>(vector, "objectRef"),
            Some("data_frame_header") => typed::<DataFrameHeader>(vector, "dataFrameHeader"),
            other => panic!("{}: unknown contract {other:?}", vector.id),
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Recorded sessions are valid, and each member in them counts: one less is refused where the decoder refuses it, one more
/// everywhere.
#[test]
fn recorded_sessions_are_valid_and_nothing_can_be_added_to_them() {
    let validator = validator(None);
    let mut frames = 0;
    for entry in root("testdata/driver/transcripts").read_dir().expect("transcripts") {
        let path = entry.expect("an entry").path();
        for row in std::fs::read_to_string(&path).expect("a transcript").lines() {
            let row: Value = serde_json::from_str(row).expect("a row");
            let frame: Value = serde_json::from_str(row["frame"].as_str().expect("a frame")).expect("JSON");
            if let Err(error) = validator.validate(&frame) {
                panic!("{}: {error}", path.display());
            }
            frames += 1;
            for pointer in ["", "/params", "/error", "/error/data", "/params/ephemeral_exact_input_handle"] {
                let Some(members) = frame.pointer(pointer).and_then(Value::as_object) else { continue };
                for name in members.keys() {
                    let mut less = frame.clone();
                    less.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object").remove(name);
                    let decodes = decode_control_frame(less.to_string().as_bytes()).is_ok();
                    assert_eq!(validator.is_valid(&less), decodes, "{pointer} without {name}: {less}");
                }
                let mut more = frame.clone();
                more.pointer_mut(pointer)
                    .and_then(Value::as_object_mut)
                    .expect("an object")
                    .insert("x".into(), json!(1));
                let decodes = decode_control_frame(more.to_string().as_bytes()).is_ok();
                assert_eq!(
                    (validator.is_valid(&more), decodes),
                    (false, false),
                    "{pointer} with a member more: {more}"
                );
            }
        }
    }
    assert!(frames > 20, "{frames}");
}
