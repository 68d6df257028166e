//! Each way in which a driver can break the protocol, seen from Core's end. The session is dead after it.

use std::time::Duration;

use pintle_driver::{
    CommandError, CoreConfig, CoreEvent, DataFrameHeader, Digest, ErrorClass, Fault, HelloResult, Life,
    MAX_DETAILS_BYTES, StreamFault, StreamLimits, VersionRange, encode_contract,
};
use pintle_wire::{SafeU64, encode_data_frame};
use serde_json::{Value, json};

use crate::pair::{Pair, hello_result, id, invoke_params, permissions, prepare_params};

const COMPANION: &[&str] = &["companion-stream"];

fn feed(pair: &mut Pair, frame: &Value) {
    pair.core.feed(pair.now, format!("{frame}\n"));
}

fn observation(sequence: u64) -> Value {
    json!({"jsonrpc":"2.0","method":"driver.observation","params":
        {"invocation_id":id(1),"attempt_id":id(101),"sequence":sequence,"kind":"k","monotonic_ns":0}})
}

fn naming(sequence: u64, stream_id: &str) -> Value {
    let mut frame = observation(sequence);
    frame["params"]["data_stream"] = json!({ "stream_id": stream_id });
    frame
}

fn completed(last_sequence: Option<u64>) -> Value {
    let mut frame = json!({"jsonrpc":"2.0","method":"driver.completed","params":
        {"invocation_id":id(1),"attempt_id":id(101),"status":"completed","summary_digest":Digest::of(b"")}});
    if let Some(last) = last_sequence {
        frame["params"]["last_sequence"] = json!(last);
    }
    frame
}

fn data(stream_id: &str, sequence: u64, payload: &[u8], is_final: bool) -> Vec<u8> {
    let header = DataFrameHeader {
        attempt_id: id(101),
        is_final,
        invocation_id: id(1),
        length: payload.len() as u32,
        sequence: SafeU64::new(sequence).expect("a sequence"),
        stream_id: stream_id.to_owned(),
    };
    let mut frame = Vec::new();
    encode_data_frame(&header, payload, usize::MAX, &mut frame).expect("a frame");
    frame
}

/// Asserts that exactly this fault came, with its class, and that the session is dead and deaf.
fn check(mut pair: Pair, fault: &Fault, class: ErrorClass) {
    pair.drive();
    assert_eq!(pair.core_events.last(), Some(&CoreEvent::Fault(fault.clone())));
    assert_eq!(fault.class(), class, "{fault}");
    assert_eq!(pair.core.life(), &Life::Dead(fault.clone()));
    assert_eq!(pair.core.poll_timeout(), None);
    feed(&mut pair, &observation(99));
    pair.core.feed_data(pair.now, data("late", 0, b"x", true));
    pair.core.eof(pair.now);
    assert_eq!(pair.core.poll_event(), None, "a dead session is deaf");
    assert_eq!(pair.core.capabilities(pair.now), Err(CommandError::Over));
}

/// As [`check`], for faults that carry a cause which the decoder's own tests cover.
fn check_class(mut pair: Pair, class: ErrorClass) {
    pair.drive();
    let Some(CoreEvent::Fault(fault)) = pair.core_events.last().cloned() else { panic!("{:?}", pair.core_events) };
    check(pair, &fault, class);
}

fn invoking() -> Pair {
    Pair::invoking(CoreConfig::default(), COMPANION)
}

#[test]
fn frames_that_do_not_decode() {
    let mut pair = invoking();
    pair.core.feed(pair.now, &b"debug: hello\n"[..]);
    check_class(pair, ErrorClass::InvalidRequest);
    let mut pair = invoking();
    pair.core.feed(pair.now, vec![b'x'; 2 << 20]);
    pair.core.feed(pair.now, &b"\n"[..]);
    check_class(pair, ErrorClass::BudgetExceeded);
    let mut pair = invoking();
    pair.core.feed(pair.now, &b"\n"[..]);
    check_class(pair, ErrorClass::InvalidRequest);
    let mut pair = invoking();
    feed(&mut pair, &json!({"jsonrpc":"2.0","method":"driver.observation","params":{}}));
    check_class(pair, ErrorClass::MalformedObservation);
    let mut pair = invoking();
    feed(&mut pair, &json!({"jsonrpc":"2.0","id":1,"method":"driver.reset"}));
    check_class(pair, ErrorClass::DriverInternal);
}

#[test]
fn a_last_line_without_its_end_counts_at_the_end_of_input() {
    let mut pair = invoking();
    pair.core.feed(pair.now, observation(3).to_string());
    assert_eq!(pair.core.poll_event(), None);
    pair.core.eof(pair.now);
    assert!(matches!(pair.core.poll_event(), Some(CoreEvent::Observation(_))));
    check(pair, &Fault::Closed, ErrorClass::DriverInternal);
}

#[test]
fn responses_to_nothing() {
    let answer = |id: Value| json!({"jsonrpc":"2.0","id":id,"result":{}});
    for unknown in [json!(99), json!("1"), json!(0), json!(-1)] {
        let mut pair = invoking();
        feed(&mut pair, &answer(unknown));
        check(pair, &Fault::UnknownResponse, ErrorClass::DriverInternal);
    }
    // 1 was hello, answered long ago.
    let mut pair = invoking();
    feed(&mut pair, &answer(json!(1)));
    check(pair, &Fault::DuplicateResponse, ErrorClass::DriverInternal);
}

#[test]
fn a_request_that_stays_unanswered_times_out_and_a_late_response_is_a_fault() {
    let mut pair = Pair::prepared(CoreConfig::default(), &[]);
    let request = pair.core.reset(pair.now).expect("reset");
    pair.core.poll_output();
    pair.wait(Duration::from_secs(10));
    let method = pintle_driver::Method::Reset;
    assert_eq!(pair.core_events, [CoreEvent::TimedOut { method, invocation_id: None }]);
    feed(&mut pair, &json!({"jsonrpc":"2.0","id":request,"result":{}}));
    check(pair, &Fault::LateResponse { method }, ErrorClass::DriverInternal);
}

fn answer_hello(config: CoreConfig, change: impl FnOnce(&mut HelloResult)) -> Pair {
    let mut pair = Pair::new(config);
    let request = pair.core.hello(pair.now).expect("hello");
    pair.core.poll_output();
    let mut result = hello_result();
    change(&mut result);
    let result = String::from_utf8(encode_contract(&result).expect("it validates")).expect("UTF-8");
    pair.core.feed(pair.now, format!("{{\"jsonrpc\":\"2.0\",\"id\":{request},\"result\":{result}}}\n"));
    pair
}

#[test]
fn handshakes_that_do_not_agree() {
    let pair = answer_hello(CoreConfig::default(), |result| {
        result.driver_version_range = VersionRange::new("2.0.0", "3.0.0");
    });
    check_class(pair, ErrorClass::UnsupportedRpcVersion);
    let pair = answer_hello(CoreConfig::default(), |result| {
        result.driver_version_range = VersionRange::new("one", "two");
    });
    check_class(pair, ErrorClass::UnsupportedRpcVersion);
    let pair = answer_hello(CoreConfig::default(), |result| {
        result.requested_permissions = permissions(&["x-a", "x-a"]);
    });
    check_class(pair, ErrorClass::PermissionDenied);
    let pair = answer_hello(CoreConfig::default(), |result| result.requested_permissions = permissions(&["root"]));
    check_class(pair, ErrorClass::PermissionDenied);
    let expected_artifact = Some(Digest::of(b"another"));
    let pair = answer_hello(CoreConfig { expected_artifact, ..CoreConfig::default() }, |_| {});
    check(pair, &Fault::Artifact, ErrorClass::ArtifactMismatch);
}

#[test]
fn results_that_break_their_contract_or_the_permission_chain() {
    for (result, class) in [
        (json!({"accepted_permissions":["ephemeral-input"]}), ErrorClass::PermissionDenied),
        (json!({"accepted_permissions":["x-test","x-test"]}), ErrorClass::PermissionDenied),
        (json!({"accepted":[]}), ErrorClass::InvalidRequest),
        (json!(7), ErrorClass::InvalidRequest),
    ] {
        let mut pair = Pair::new(CoreConfig::default());
        pair.core.hello(pair.now).expect("hello");
        pair.drive();
        let request = pair.core.prepare(pair.now, prepare_params(&["x-test"])).expect("prepare");
        pair.core.poll_output();
        feed(&mut pair, &json!({"jsonrpc":"2.0","id":request,"result":result}));
        check_class(pair, class);
    }
}

#[test]
fn details_over_their_bound() {
    let bytes = MAX_DETAILS_BYTES + 1;
    for (size, dead) in [(bytes - 1, false), (bytes, true)] {
        let mut pair = Pair::prepared(CoreConfig::default(), &[]);
        let request = pair.core.reset(pair.now).expect("reset");
        pair.core.poll_output();
        let details = "x".repeat(size - 2);
        feed(
            &mut pair,
            &json!({"jsonrpc":"2.0","id":request,"error":
            {"code":-1,"message":"m","data":{"class":"invalid_state","details":details}}}),
        );
        if dead {
            check(pair, &Fault::Details { bytes }, ErrorClass::BudgetExceeded);
        } else {
            assert!(matches!(pair.core.poll_event(), Some(CoreEvent::Refused { .. })));
            assert_eq!(pair.core.life(), &Life::Alive);
        }
    }
}

#[test]
fn observations_and_ends_out_of_order() {
    let wrong_attempt = |mut frame: Value| {
        frame["params"]["attempt_id"] = json!(id(9));
        frame
    };
    for frames in [
        vec![wrong_attempt(observation(0))],
        vec![observation(5), observation(5)],
        vec![observation(5), observation(4)],
        vec![wrong_attempt(completed(None))],
        vec![completed(Some(0))],
        vec![observation(5), completed(None)],
        vec![observation(5), completed(Some(4))],
    ] {
        let mut pair = invoking();
        frames.iter().for_each(|frame| feed(&mut pair, frame));
        check_class(pair, ErrorClass::MalformedObservation);
    }
    for frame in [observation(0), completed(None)] {
        let mut pair = Pair::prepared(CoreConfig::default(), &[]);
        feed(&mut pair, &frame);
        check_class(pair, ErrorClass::InvalidState);
    }
}

#[test]
fn a_summary_that_does_not_fit() {
    let mut pair = Pair::invoking(CoreConfig { verify_summary: true, ..CoreConfig::default() }, &[]);
    feed(&mut pair, &observation(0));
    feed(&mut pair, &completed(Some(0)));
    check(pair, &Fault::Summary, ErrorClass::MalformedObservation);
}

#[test]
fn an_invocation_that_does_not_end_after_its_cancel() {
    let mut pair = invoking();
    pair.core.cancel(pair.now, id(1), "enough", Duration::from_secs(3)).expect("cancel");
    pair.drive();
    pair.wait(Duration::from_secs(3));
    check(pair, &Fault::CancellationTimeout, ErrorClass::CancellationTimeout);
}

fn stream_fault(frames: &[Vec<u8>], fault: StreamFault, class: ErrorClass) {
    let limits = StreamLimits { max_streams: 2, max_stream_bytes: 10, max_invocation_bytes: 15 };
    let config = CoreConfig { stream_limits: limits, max_data_frame_bytes: 100, ..CoreConfig::default() };
    let mut pair = Pair::invoking(config, COMPANION);
    for frame in frames {
        pair.core.feed_data(pair.now, frame.clone());
    }
    check(pair, &Fault::Stream(fault), class);
}

#[test]
fn streams_that_break_a_rule() {
    let malformed = ErrorClass::MalformedObservation;
    let budget = ErrorClass::BudgetExceeded;
    stream_fault(&[data("a", 1, b"x", false)], StreamFault::Sequence { expected: 0, found: 1 }, malformed);
    let gap = [data("a", 0, b"x", false), data("a", 2, b"x", false)];
    stream_fault(&gap, StreamFault::Sequence { expected: 1, found: 2 }, malformed);
    let again = [data("a", 0, b"x", true), data("a", 1, b"x", false)];
    stream_fault(&again, StreamFault::AfterFinal, malformed);
    let three = [data("a", 0, b"", false), data("b", 0, b"", false), data("c", 0, b"", false)];
    stream_fault(&three, StreamFault::TooManyStreams { limit: 2 }, budget);
    let long = [data("a", 0, b"123456", false), data("a", 1, b"78901", false)];
    stream_fault(&long, StreamFault::StreamBudget { limit: 10 }, budget);
    let both = [data("a", 0, b"12345678", false), data("b", 0, b"12345678", false)];
    stream_fault(&both, StreamFault::InvocationBudget { limit: 15 }, budget);
    let too_large = pintle_wire::DataError::PayloadTooLarge { bytes: 101, limit_bytes: 100 };
    stream_fault(&[data("a", 0, &[0; 101], false)], StreamFault::Frame(too_large), budget);
    let no_header = StreamFault::Frame(pintle_wire::DataError::HeaderEmpty);
    stream_fault(&[vec![0; 4]], no_header, malformed);
    let mut other = data("a", 0, b"x", false);
    let at = other.windows(36).position(|window| window == id(1).to_string().as_bytes()).expect("an id");
    other[at..at + 36].copy_from_slice(id(2).to_string().as_bytes());
    stream_fault(&[other], StreamFault::OtherInvocation, malformed);
}

#[test]
fn streams_outside_of_an_invocation_or_without_permission() {
    let mut pair = Pair::prepared(CoreConfig::default(), COMPANION);
    pair.core.feed_data(pair.now, data("a", 0, b"x", true));
    check(pair, &Fault::Stream(StreamFault::NoInvocation), ErrorClass::MalformedObservation);
    let mut pair = Pair::invoking(CoreConfig::default(), &[]);
    pair.core.feed_data(pair.now, data("a", 0, b"x", true));
    check_class(pair, ErrorClass::PermissionDenied);
    let mut pair = Pair::invoking(CoreConfig::default(), &[]);
    feed(&mut pair, &naming(0, "a"));
    check_class(pair, ErrorClass::PermissionDenied);
    let mut pair = invoking();
    feed(&mut pair, &naming(0, &"s".repeat(257)));
    check(pair, &Fault::Stream(StreamFault::StreamId), ErrorClass::MalformedObservation);
}

#[test]
fn streams_that_are_not_settled_at_the_end() {
    let grace = Duration::from_secs(1);
    // Named, and no final frame within the grace.
    let mut pair = invoking();
    feed(&mut pair, &naming(0, "a"));
    feed(&mut pair, &completed(Some(0)));
    pair.core.feed_data(pair.now, data("a", 0, b"x", false));
    pair.wait(grace);
    check(pair, &Fault::Stream(StreamFault::NotFinal), ErrorClass::MalformedObservation);
    // Complete, and no observation that names it.
    let mut pair = invoking();
    pair.core.feed_data(pair.now, data("a", 0, b"x", true));
    feed(&mut pair, &completed(None));
    pair.wait(grace);
    check(pair, &Fault::Stream(StreamFault::NotNamed), ErrorClass::MalformedObservation);
    // The data stream has ended, so there is nothing to wait for.
    let mut pair = invoking();
    feed(&mut pair, &naming(0, "a"));
    feed(&mut pair, &completed(Some(0)));
    pair.core.eof_data(pair.now);
    check(pair, &Fault::Stream(StreamFault::NotFinal), ErrorClass::MalformedObservation);
    // In the middle of a frame.
    let mut pair = invoking();
    let frame = data("a", 0, b"xyz", true);
    pair.core.feed_data(pair.now, frame[..frame.len() - 1].to_vec());
    pair.core.eof_data(pair.now);
    let truncated = StreamFault::Frame(pintle_wire::DataError::Truncated);
    check(pair, &Fault::Stream(truncated), ErrorClass::MalformedObservation);
    // A final frame whose payload is not all there is not final.
    let mut pair = invoking();
    feed(&mut pair, &naming(0, "a"));
    pair.core.feed_data(pair.now, frame[..frame.len() - 1].to_vec());
    feed(&mut pair, &completed(Some(0)));
    pair.wait(grace);
    check(pair, &Fault::Stream(StreamFault::NotFinal), ErrorClass::MalformedObservation);
}

#[test]
fn commands_that_core_itself_may_not_give() {
    let class = |result: Result<i64, CommandError>| result.map_err(|error| error.class());
    let state = Err(ErrorClass::InvalidState);
    let mut pair = Pair::new(CoreConfig { max_pending_requests: 1, ..CoreConfig::default() });
    let now = pair.now;
    assert_eq!(class(pair.core.prepare(now, prepare_params(&[]))), state);
    assert_eq!(class(pair.core.capabilities(now)), state);
    assert_eq!(class(pair.core.invoke(now, invoke_params(1, "run"))), state);
    assert_eq!(class(pair.core.cancel(now, id(1), "r", Duration::from_secs(1))), state);
    assert_eq!(class(pair.core.reset(now)), state);
    assert_eq!(class(pair.core.shutdown(now)), state);
    pair.core.hello(now).expect("hello");
    assert_eq!(class(pair.core.hello(now)), state, "its answer is awaited");
    pair.drive();
    assert_eq!(class(pair.core.hello(now)), state);
    let denied = class(pair.core.prepare(now, prepare_params(&["target-exec"])));
    assert_eq!(denied, Err(ErrorClass::PermissionDenied));
    pair.core.capabilities(now).expect("capabilities");
    let full = class(pair.core.prepare(now, prepare_params(&[])));
    assert_eq!(full, Err(ErrorClass::BudgetExceeded), "the request table is full");
    pair.drive();

    let mut pair = Pair::prepared(CoreConfig::default(), &[]);
    let undeclared = class(pair.core.invoke(now, invoke_params(1, "jump")));
    assert_eq!(undeclared, Err(ErrorClass::CapabilityMismatch));
    pair.core.invoke(now, invoke_params(1, "run")).expect("invoke");
    assert_eq!(class(pair.core.invoke(now, invoke_params(2, "run"))), state);
    assert_eq!(class(pair.core.shutdown(now)), state);
    assert_eq!(class(pair.core.reset(now)), state);
    assert_eq!(class(pair.core.capabilities(now)), state);
    assert_eq!(class(pair.core.cancel(now, id(1), "", Duration::from_secs(1))), Err(ErrorClass::InvalidRequest));
    pair.drive();
    pair.driver.accept_invoke(id(1)).expect("accept");
    pair.driver.complete(id(1), pintle_driver::TerminalStatus::Completed).expect("complete");
    pair.drive();
    assert_eq!(class(pair.core.invoke(now, invoke_params(1, "run"))), Err(ErrorClass::InvalidRequest), "a used id");
}

#[test]
fn a_refused_invocation_leaves_the_session_prepared_and_its_id_free() {
    let mut pair = Pair::prepared(CoreConfig::default(), &[]);
    pair.core.invoke(pair.now, invoke_params(1, "run")).expect("invoke");
    pair.drive();
    pair.driver.refuse_invoke(id(1), pintle_driver::RpcError::new(ErrorClass::DriverInternal, "no")).expect("refuse");
    pair.drive();
    assert!(matches!(pair.core_events[..], [CoreEvent::Refused { .. }]));
    pair.core.invoke(pair.now, invoke_params(1, "run")).expect("the id is free");
}
