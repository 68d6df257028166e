//! What the published protocol fixes byte for byte, and what our readers accept of it.

use crate::common::{NOW, clean, current, dirty, legacy, session};
use pintle_pointer::{
    Code, Expectation, ExpectedGeneration, Observed, Pointer, PublishRequest, REQUEST_MAX_BYTES, Refusal, Status,
    failure_receipt, success_receipt,
};

const EXAMPLE: &str = r#"{
  "schema_version": 3,
  "session_id": "session-example",
  "generation": "g-0123456789abcdef0123456789abcdef",
  "revision": 3,
  "status": "CLEAN",
  "task_id": "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6",
  "pointer_text": "Goal: finish the example/\nNext: \"run\" the \u00e9 checks",
  "updated_at": "2026-01-01T00:00:00Z"
}
"#;

/// Section 2: the same state is the same bytes; an é is not escaped, a slash is not, LF is `\n`.
#[test]
fn state_bytes_are_canonical() {
    let expected = EXAMPLE.replace("\\u00e9", "\u{e9}");
    let Observed::Current(state) = Observed::decode(EXAMPLE.as_bytes(), &session()) else { panic!("valid state") };
    assert_eq!(String::from_utf8(state.to_bytes()).expect("UTF-8"), expected);
    assert_eq!(Observed::decode(&state.to_bytes(), &session()), Observed::Current(state));
}

#[test]
fn cleared_state_has_nulls() {
    let Observed::Current(state) = current(Pointer::Cleared, 0xab, 5) else { panic!("current") };
    assert_eq!(
        String::from_utf8(state.to_bytes()).expect("UTF-8"),
        "{\n  \"schema_version\": 3,\n  \"session_id\": \"session-example\",\n  \"generation\": \
         \"g-abababababab4bababababababababab\",\n  \"revision\": 5,\n  \"status\": \"CLEARED\",\n  \"task_id\": null,\n  \
         \"pointer_text\": null,\n  \"updated_at\": \"2026-01-01T00:00:00Z\"\n}\n"
    );
}

fn check_state(text: &str, expected: Result<Status, Code>) {
    let observed = Observed::decode(text.as_bytes(), &session());
    let got = match &observed {
        Observed::Corrupt(fault) => {
            assert!(!fault.to_string().contains("Goal"), "a fault never echoes content: {fault}");
            Err(fault.code)
        }
        other => Ok(other.pointer().expect("pointer").status()),
    };
    assert_eq!(got, expected, "{text}");
}

#[test]
fn readers_are_strict_about_content_and_lenient_about_layout() {
    let compact: String = EXAMPLE.lines().map(str::trim_start).collect();
    check_state(&compact, Ok(Status::Clean));
    check_state(EXAMPLE.trim_end(), Ok(Status::Clean));
    let reordered = compact.replace("\"schema_version\": 3,", "").replace("00Z\"}", "00Z\",\"schema_version\":3}");
    check_state(&reordered, Ok(Status::Clean));
    for (from, to, code) in [
        ("{", "\u{feff}{", Code::StateJson),
        ("\"revision\": 3", "\"revision\": 3.0", Code::StateSchema),
        ("\"revision\": 3", "\"revision\": 3e0", Code::StateSchema),
        ("\"revision\": 3", "\"revision\": \"3\"", Code::StateSchema),
        ("\"revision\": 3", "\"revision\": 0", Code::StateSchema),
        ("\"revision\": 3", "\"revision\": -1", Code::StateSchema),
        ("\"revision\": 3", "\"revision\": 9007199254740992", Code::StateSchema),
        ("\"revision\": 3", "\"revision\": NaN", Code::StateJson),
        ("\"revision\": 3", "\"revision\": 3, \"revision\": 3", Code::StateJson),
        ("\"revision\": 3", "\"revision\": 3, \"extra\": 1", Code::StateSchema),
        ("\"revision\": 3,", "", Code::StateSchema),
        ("\"schema_version\": 3", "\"schema_version\": 4", Code::StateSchema),
        ("\"schema_version\": 3", "\"schema_version\": 2", Code::StateSchema),
        ("\"CLEAN\"", "\"clean\"", Code::StateSchema),
        ("\"CLEAN\"", "\"CLEARED\"", Code::StateSchema),
        ("\"6f1c2a9e", "\"6F1C2A9E", Code::StateSchema),
        ("session-example", "session-other", Code::StateSessionMismatch),
        ("abcdef\"", "abcdeg\"", Code::StateSchema),
        ("Goal", "\\ud800Goal", Code::StateJson),
        ("2026-01-01T", "2026-02-30T", Code::StateSchema),
        ("}", "}{}", Code::StateJson),
        ("}", "", Code::StateJson),
    ] {
        check_state(&EXAMPLE.replacen(from, to, 1), Err(code));
    }
    check_state("", Err(Code::StateJson));
    check_state("[]", Err(Code::StateSchema));
    check_state(&format!("{EXAMPLE}{}", " ".repeat(64 * 1024)), Err(Code::StateTooLarge));
    assert!(matches!(
        Observed::decode(b"{\"a\xff\":1}", &session()),
        Observed::Corrupt(fault) if fault.code == Code::StateEncoding
    ));
}

/// Item 10: a file that power loss emptied is corrupt, never absent.
#[test]
fn an_empty_file_is_corrupt() {
    assert!(matches!(Observed::decode(b"", &session()), Observed::Corrupt(_)));
    assert!(matches!(Observed::decode(&[0; 400], &session()), Observed::Corrupt(_)));
}

/// Section 9: schema 2 is schema 3 without a generation, read in place.
#[test]
fn v2_is_read_in_place() {
    let v2 = EXAMPLE
        .replace("\"schema_version\": 3", "\"schema_version\": 2")
        .replace("  \"generation\": \"g-0123456789abcdef0123456789abcdef\",\n", "");
    let observed = Observed::decode(v2.as_bytes(), &session());
    assert!(matches!(observed, Observed::Legacy(_)));
    let pair = observed.expectation().expect("readable");
    assert_eq!(pair, Expectation { generation: ExpectedGeneration::LegacyV2, revision: 3 });
    assert_eq!(pair.generation.as_str(), "LEGACY_V2");
}

const REQUEST: &str = r#"{"schema_version":3,"session_id":"session-example","expected_generation":"g-0123456789abcdef0123456789abcdef","expected_revision":2,"task_id":"6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6","target_status":"CLEAN","pointer_text":"Goal: x\r\nNext: y"}"#;

fn check_request(text: &str, expected: Result<(), Code>) {
    let got = PublishRequest::decode(text.as_bytes()).map(drop).map_err(|error| {
        assert!(!error.to_string().contains("Goal"), "an error never echoes content: {error}");
        error.code()
    });
    assert_eq!(got, expected, "{text}");
}

/// Section 3, items 1, 4, 12, 13, 33, 34, 35.
#[test]
fn requests_are_strict() {
    check_request(REQUEST, Ok(()));
    check_request(&format!("\u{feff}{REQUEST}\n"), Ok(()));
    check_request(&REQUEST.replace("CLEAN", "DIRTY"), Ok(()));
    let cleared = REQUEST
        .replace("CLEAN", "CLEARED")
        .replace("\"6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6\"", "null")
        .replace("\"Goal: x\\r\\nNext: y\"", "null");
    check_request(&cleared, Ok(()));
    let absent = REQUEST.replace("g-0123456789abcdef0123456789abcdef", "ABSENT");
    check_request(&absent.replace("\"expected_revision\":2", "\"expected_revision\":0"), Ok(()));
    check_request(&REQUEST.replace("g-0123456789abcdef0123456789abcdef", "LEGACY_V2"), Ok(()));
    check_request(&absent, Err(Code::RequestSchema));
    for (from, to, code) in [
        ("\"expected_revision\":2", "\"expected_revision\":2.0", Code::RequestSchema),
        ("\"expected_revision\":2", "\"expected_revision\":2e0", Code::RequestSchema),
        ("\"expected_revision\":2", "\"expected_revision\":\"2\"", Code::RequestSchema),
        ("\"expected_revision\":2", "\"expected_revision\":0", Code::RequestSchema),
        ("\"expected_revision\":2", "\"expected_revision\":9007199254740992", Code::RequestSchema),
        ("\"schema_version\":3", "\"schema_version\":2", Code::RequestSchema),
        ("\"schema_version\":3,", "", Code::RequestSchema),
        ("\"schema_version\":3", "\"schema_version\":3,\"x\":1", Code::RequestSchema),
        ("\"schema_version\":3", "\"schema_version\":3,\"schema_versio\\u006e\":3", Code::RequestDuplicateKey),
        ("session-example", "session example", Code::SessionIdInvalid),
        ("g-0123", "G-0123", Code::RequestSchema),
        ("6f1c2a9e", "6F1C2A9E", Code::TaskIdInvalid),
        ("-4c5e-", "-1c5e-", Code::TaskIdInvalid),
        ("Goal: x\\r\\nNext: y", " \\n\\t", Code::PointerEmpty),
        ("Goal: x", "Goal: \\u0000", Code::RequestSchema),
        ("Goal: x", "Goal: \\ud800", Code::RequestJson),
        ("\"CLEAN\"", "\"CLEARED\"", Code::RequestSchema),
        ("\"CLEAN\"", "\"ABSENT\"", Code::RequestSchema),
        ("\"Goal: x\\r\\nNext: y\"", "null", Code::RequestSchema),
        ("}", "} {}", Code::RequestJson),
        ("}", "", Code::RequestJson),
        ("{", "[", Code::RequestJson),
    ] {
        check_request(&REQUEST.replacen(from, to, 1), Err(code));
    }
    check_request("[]", Err(Code::RequestSchema));
    check_request("", Err(Code::RequestJson));
    let padded = |bytes: usize| format!("{REQUEST}{}", " ".repeat(bytes - REQUEST.len()));
    check_request(&padded(REQUEST_MAX_BYTES), Ok(()));
    check_request(&padded(REQUEST_MAX_BYTES + 1), Err(Code::RequestTooLarge));
    check_request(&REQUEST.replace("Goal: x", &"a".repeat(8192)), Err(Code::PointerTooLarge));
    assert_eq!(PublishRequest::decode(b"{\"\xff\":0}").map_err(|error| error.code()), Err(Code::RequestEncoding));
}

#[test]
fn requests_round_trip() {
    let request = PublishRequest::decode(REQUEST.as_bytes()).expect("valid");
    assert_eq!(request.target.task().expect("task").text.as_str(), "Goal: x\nNext: y");
    assert_eq!(PublishRequest::decode(request.to_json().as_bytes()), Ok(request));
}

/// Section 3: the receipts, member for member.
#[test]
fn receipts_are_fixed() {
    let Observed::Current(state) = current(clean("secret"), 0xab, 7) else { panic!("current") };
    assert_eq!(
        success_receipt(&state),
        r#"{"ok":true,"session_id":"session-example","generation":"g-abababababab4bababababababababab","revision":7,"status":"CLEAN","task_id":"07070707-0707-4707-8707-070707070707","updated_at":"2026-01-01T00:00:00Z"}"#
    );
    let message = Refusal::StaleRevision.to_string();
    assert_eq!(
        failure_receipt(Code::StaleRevision, &message, Some(&Observed::Current(state))),
        format!(
            r#"{{"ok":false,"code":"STALE_REVISION","message":"{message}","current":{{"generation":"g-abababababab4bababababababababab","revision":7,"status":"CLEAN"}}}}"#
        )
    );
    for (observed, current) in [
        (Observed::Absent, r#""current":{"generation":"ABSENT","revision":0,"status":"ABSENT"}"#),
        (legacy(dirty("x"), 4), r#""current":{"generation":"LEGACY_V2","revision":4,"status":"DIRTY"}"#),
    ] {
        assert!(failure_receipt(Code::StaleGeneration, "m", Some(&observed)).contains(current));
    }
    assert_eq!(failure_receipt(Code::StateIo, "m", None), r#"{"ok":false,"code":"STATE_IO","message":"m"}"#);
    let _ = NOW;
}
