//! The published vectors of kinds decode, stream, encode, machine, typed and size, scored as `testdata/driver/README.md`
//! says. Where it leaves a choice, what was decided stands here beside the cases it is about.
//!
//! A case without a recorded class is one where the reference gives a plain error. Every error here has a class, so any
//! class is taken there.

use pintle_driver::{
    CancelResult, CapabilitiesResult, Contract, DataFrameHeader, Decoder, ErrorClass, ErrorParts, HelloResult, Machine,
    Message, MessageParts, ObjectRef, PrepareResult, ProtocolError, ResetResult, decode_control_frame,
    decode_params_strict, encode_contract, encode_control_frame, validate_control_frame_size, validate_data_frame_size,
};
use pintle_testkit::vectors::{Vector, assert_canonical, driver_vectors};
use serde_json::{Value, json};

/// What a case wants: a success, or a failure of one class or of any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Accept,
    Refuse(Option<ErrorClass>),
}

/// The class of the two notifications' params is their own; everything else that the decisions refuse is an invalid
/// request.
fn refusal_class(frame: &[u8]) -> ErrorClass {
    let text = String::from_utf8_lossy(frame);
    let notification = text.contains("\"driver.observation\"") || text.contains("\"driver.completed\"");
    if notification { ErrorClass::MalformedObservation } else { ErrorClass::InvalidRequest }
}

/// The recorded verdict, or the project's decision where the case has a quirk.
fn verdict(vector: &Vector) -> Verdict {
    let refusal = || {
        let class = if vector.kind == "decode" { refusal_class(&vector.bytes()) } else { ErrorClass::InvalidRequest };
        Verdict::Refuse(Some(class))
    };
    match vector.quirk.as_deref() {
        // Strictness: nothing is guessed, folded or rounded.
        Some(
            "case_insensitive_member_match"
            | "lossy_integer"
            | "missing_member_becomes_zero"
            | "null_or_empty_member_treated_as_absent"
            | "surrogate_escape_pair_replaced"
            | "canonicalizer_desync"
            | "u64_max_rejected_after_rounding",
        ) => refusal(),
        // An integer may be spelled 1.0, 1e2 or -0.
        Some("number_rewritten_before_typed_check" | "number_rewritten_before_id_check") => Verdict::Accept,
        // The codec takes any text; the sessions negotiate and hold the chain.
        Some("permissions_unvalidated" | "version_strings_unparsed") => Verdict::Accept,
        Some(other) => panic!("{}: no decision on the quirk {other}", vector.id),
        None => recorded(&vector.expect),
    }
}

fn recorded(expect: &Value) -> Verdict {
    if expect["ok"] == true {
        return Verdict::Accept;
    }
    Verdict::Refuse(expect["class"].as_str().map(|class| class.parse().expect("one of the ten classes")))
}

/// Asserts the verdict; hands out the value where it was accepted as wanted.
fn score<T: std::fmt::Debug>(id: &str, wanted: Verdict, found: Result<T, ProtocolError>) -> Option<T> {
    match (wanted, found) {
        (Verdict::Accept, Ok(value)) => Some(value),
        (Verdict::Accept, Err(error)) => panic!("{id}: refused at {}: {error}", error.stage()),
        (Verdict::Refuse(_), Ok(value)) => panic!("{id}: accepted {value:?}"),
        (Verdict::Refuse(class), Err(error)) => {
            if let Some(class) = class {
                assert_eq!(error.class(), class, "{id}: {error}");
            }
            None
        }
    }
}

fn check_message(id: &str, expect: &Value, message: &Message) {
    assert_eq!(message.kind().as_str(), expect["kind"], "{id}");
    assert_eq!(message.method().map(|method| method.as_str()), expect["method"].as_str(), "{id}");
    let raw_id = message.id().map(|id| serde_json::to_string(id).expect("an id has a text"));
    // The corpus leaves very long ids out; they are part of the canonical digest.
    if let Some(wanted) = expect["id_raw"].as_str() {
        assert_eq!(raw_id.as_deref(), Some(wanted), "{id}");
    }
    let encoded = encode_control_frame(message);
    if expect["reencode_error"].is_object() {
        score(id, recorded(&expect["reencode_error"]), encoded);
        return;
    }
    let encoded = encoded.unwrap_or_else(|error| panic!("{id}: does not encode: {error}"));
    let canonical = encoded.strip_suffix(b"\n").expect("a frame ends in LF");
    assert_canonical(id, expect, canonical);
    let again = decode_control_frame(&encoded).expect("what we encode decodes");
    assert_eq!(encode_control_frame(&again).as_deref(), Ok(&encoded[..]), "{id}: encoding is stable");
}

#[test]
fn decode() {
    for vector in driver_vectors("decode") {
        let message = score(&vector.id, verdict(&vector), decode_control_frame(&vector.bytes()));
        if let Some(message) = message {
            check_message(&vector.id, &vector.expect, &message);
        }
    }
}

#[test]
fn the_stages_are_those_of_the_corpus() {
    for vector in driver_vectors("decode") {
        if vector.quirk.is_some() || vector.ok() {
            continue;
        }
        let error = decode_control_frame(&vector.bytes()).expect_err("refused");
        // The reference checks missing and null members as values, and surrogates in names in its canonicaliser.
        let (found, wanted) = (error.stage(), vector.stage().expect("a stage"));
        let alike = [("params_shape", "params_value"), ("params_missing", "params_shape")].contains(&(found, wanted))
            || (found.starts_with("json:") && wanted.starts_with("json:"));
        assert!(found == wanted || alike, "{}: {found}, the corpus says {wanted}", vector.id);
    }
}

#[test]
fn stream() {
    for vector in driver_vectors("stream") {
        let bytes = vector.bytes();
        for chunk in [bytes.len().max(1), 1, 7, 4096] {
            if chunk == 1 && bytes.len() > 10_000 {
                continue;
            }
            check_stream(&vector, &bytes, chunk);
        }
    }
}

fn check_stream(vector: &Vector, bytes: &[u8], chunk: usize) {
    let mut decoder = Decoder::new();
    let mut found = Vec::new();
    for piece in bytes.chunks(chunk) {
        decoder.feed(piece.to_vec());
        found.extend(std::iter::from_fn(|| decoder.decode()));
    }
    found.extend(std::iter::from_fn(|| decoder.finish()));
    let events = vector.expect["events"].as_array().expect("a stream has events");
    let (eof, events) = events.split_last().expect("a stream ends");
    assert_eq!(*eof, json!({"eof": true}));
    assert_eq!(found.len(), events.len(), "{} in chunks of {chunk}", vector.id);
    for (event, found) in events.iter().zip(found) {
        if let Some(message) = score(&vector.id, recorded(event), found) {
            check_message(&vector.id, event, &message);
        }
    }
}

#[test]
fn encode() {
    for vector in driver_vectors("encode") {
        let text = |member: &str| vector.input[member].as_str();
        let error = vector.input.get("error").map(|error| ErrorParts {
            code: error["code"].as_i64().expect("a code"),
            message: error["message"].as_str().expect("a message"),
            class: error["data"]["class"].as_str(),
            details: error["data"]["details_raw"].as_str(),
        });
        let parts = MessageParts {
            jsonrpc: text("jsonrpc").unwrap_or_default(),
            id: text("id_raw"),
            method: text("method"),
            params: text("params_raw"),
            result: text("result_raw"),
            error,
        };
        let encoded = parts.into_message().and_then(|message| encode_control_frame(&message));
        if let Some(encoded) = score(&vector.id, verdict(&vector), encoded) {
            let canonical = encoded.strip_suffix(b"\n").expect("a frame ends in LF");
            vector.assert_canonical(canonical);
        }
    }
}

#[test]
fn machine() {
    for vector in driver_vectors("machine") {
        let mut machine = Machine::new();
        let frames = vector.input.as_array().expect("frames");
        let steps = vector.expect["steps"].as_array().expect("steps");
        assert_eq!(frames.len(), steps.len(), "{}", vector.id);
        for (frame, step) in frames.iter().zip(steps) {
            let frame = frame.as_str().expect("a frame").as_bytes();
            let applied = decode_control_frame(frame).and_then(|message| machine.apply(&message));
            score(&vector.id, recorded(step), applied);
            assert_eq!(machine.state().as_str(), step["state"], "{}", vector.id);
        }
        let active = serde_json::to_value(machine.active()).expect("a snapshot has a text");
        assert_eq!(active, vector.expect["active"], "{}", vector.id);
    }
}

#[test]
fn typed() {
    for vector in driver_vectors("typed") {
        match vector.contract.as_deref() {
            Some("hello_result") => check_typed::<HelloResult>(&vector),
            Some("prepare_result") => check_typed::<PrepareResult>(&vector),
            Some("cancel_result") => check_typed::<CancelResult>(&vector),
            Some("capabilities_result") => check_typed::<CapabilitiesResult>(&vector),
            Some("empty") => check_typed::<ResetResult>(&vector),
            Some("object_ref") => check_typed::<ObjectRef>(&vector),
            Some("data_frame_header") => check_typed::<DataFrameHeader>(&vector),
            other => panic!("{}: unknown contract {other:?}", vector.id),
        }
    }
}

fn check_typed<T: Contract + std::fmt::Debug + PartialEq>(vector: &Vector) {
    if let Some(document) = score(&vector.id, verdict(vector), decode_params_strict::<T>(&vector.bytes())) {
        let encoded = encode_contract(&document).expect("what was decoded encodes");
        let again = decode_params_strict::<T>(&encoded).expect("what we encode decodes");
        assert_eq!(again, document, "{}", vector.id);
        assert_eq!(pintle_wire::canonicalize_bytes(&encoded).as_deref(), Ok(&encoded[..]), "{}: canonical", vector.id);
    }
}

#[test]
fn size() {
    for vector in driver_vectors("size") {
        let size = vector.input["size"].as_i64().expect("a size");
        let found = match vector.input["plane"].as_str() {
            Some("control") => validate_control_frame_size(size),
            Some("data") => validate_data_frame_size(size),
            other => panic!("{}: unknown plane {other:?}", vector.id),
        };
        score(&vector.id, verdict(&vector), found);
    }
}
