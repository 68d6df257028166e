//! The compatibility window: sessions that were recorded once are still understood, to the byte.
//!
//! A file of `testdata/driver/transcripts` is one session, a JSON object a line: who spoke (`core` or `driver`) and the
//! frame. Files are added with a release and never changed; one that fails here is a break of version 1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pintle_driver::{
    Call, CancelResult, CapabilitiesResult, ErrorClass, HelloResult, Id, Machine, Message, Method, Notification,
    Outcome, PrepareResult, ResetResult, ShutdownResult, State, SummaryDigest, decode_control_frame, decode_free_value,
    encode_control_frame,
};

fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/driver/transcripts");
    let mut files: Vec<_> =
        folder.read_dir().expect("transcripts").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// What a session was, in short: its refusals and how its invocations ended.
#[derive(Debug, Default, PartialEq)]
struct Told {
    refused: Vec<(Method, ErrorClass)>,
    ended: Vec<String>,
    state: Option<State>,
}

fn replay(path: &Path) -> Told {
    let text = std::fs::read_to_string(path).expect("a transcript");
    let name = path.display();
    let mut machine = Machine::new();
    let mut asked: BTreeMap<String, Call> = BTreeMap::new();
    let mut summary = SummaryDigest::new();
    let mut told = Told::default();
    for (at, row) in text.lines().enumerate() {
        let row: serde_json::Value = serde_json::from_str(row).expect("a row is JSON");
        let frame = row["frame"].as_str().expect("a frame");
        let message =
            decode_control_frame(frame.as_bytes()).unwrap_or_else(|error| panic!("{name}:{}: {error}", at + 1));
        let canonical = encode_control_frame(&message).expect("it is encoded again");
        assert_eq!(canonical.strip_suffix(b"\n"), Some(frame.as_bytes()), "{name}:{}", at + 1);
        let from_core = row["from"] == "core";
        match message {
            Message::Request(request) => {
                assert!(from_core, "{name}:{}", at + 1);
                asked.insert(key(&request.id), request.call);
            }
            Message::Notification(notification) => {
                assert!(!from_core, "{name}:{}", at + 1);
                match &notification {
                    Notification::Observation(params) => summary.observe(params).expect("it has a canonical frame"),
                    Notification::Completed(params) => {
                        assert_eq!(params.summary_digest, summary.finish(), "{name}:{}", at + 1);
                        summary = SummaryDigest::new();
                        told.ended.push(params.status.as_str().to_owned());
                    }
                }
                machine.apply(&Message::Notification(notification)).expect("the lifecycle allows it");
            }
            Message::Response(response) => {
                let call = asked.remove(&key(&response.id)).expect("it was asked");
                let method = call.method();
                match response.outcome {
                    // A request changes the state once it has been granted.
                    Outcome::Result(value) => {
                        let valid = match method {
                            Method::Hello => decode_free_value::<HelloResult>(&value).map(drop),
                            Method::Prepare => decode_free_value::<PrepareResult>(&value).map(drop),
                            Method::Capabilities => decode_free_value::<CapabilitiesResult>(&value).map(drop),
                            Method::Cancel => decode_free_value::<CancelResult>(&value).map(drop),
                            Method::Reset => decode_free_value::<ResetResult>(&value).map(drop),
                            Method::Shutdown => decode_free_value::<ShutdownResult>(&value).map(drop),
                            _ => Ok(()),
                        };
                        valid.unwrap_or_else(|error| panic!("{name}:{}: {error}", at + 1));
                        machine.apply(&Message::request(response.id, call)).expect("the lifecycle allows it");
                    }
                    Outcome::Error(error) => told.refused.push((method, error.data.class)),
                }
            }
        }
    }
    assert!(asked.is_empty(), "{name}: every request was answered");
    told.state = Some(machine.state());
    told
}

fn key(id: &Id) -> String {
    format!("{id:?}")
}

fn check(name: &str, refused: &[(Method, ErrorClass)], ended: &[&str]) {
    let path = transcripts().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name));
    let told = replay(&path.expect("the transcript is there"));
    let ended = ended.iter().map(ToString::to_string).collect();
    assert_eq!(told, Told { refused: refused.to_vec(), ended, state: Some(State::Shutdown) }, "{name}");
}

#[test]
fn recorded_sessions_are_still_understood() {
    use ErrorClass::{CapabilityMismatch, InvalidState, UnsupportedRpcVersion};
    check("whole-session", &[], &["completed", "completed"]);
    check("cancelled", &[], &["cancelled"]);
    let refused = [
        (Method::Prepare, InvalidState),
        (Method::Hello, UnsupportedRpcVersion),
        (Method::Hello, InvalidState),
        (Method::Shutdown, InvalidState),
        (Method::Cancel, InvalidState),
        (Method::Invoke, CapabilityMismatch),
    ];
    check("refusals", &refused, &[]);
    assert_eq!(transcripts().len(), 3, "a new transcript has its line here");
}
