//! The driver's end against a Core that breaks rules, and against its own application.

use pintle_driver::{
    CommandError, CoreConfig, CoreEvent, Decoder, DriverConfig, DriverEvent, DriverSession, ErrorClass, FreeValue,
    Life, MAX_DETAILS_BYTES, Message, ObservationBody, Outcome, RpcError, State, StreamLimits, TerminalStatus,
};
use serde_json::{Value, json};

use crate::pair::{Pair, epoch, hello_result, id, invoke_params, permissions};

/// A driver's end and what it says to raw frames.
struct Raw {
    session: DriverSession,
    said: Decoder,
}

impl Raw {
    fn new() -> Self {
        Self::with(DriverConfig::new(hello_result()))
    }

    fn with(config: DriverConfig) -> Self {
        Self { session: DriverSession::new(config).expect("it validates"), said: Decoder::new() }
    }

    /// Feeds one line; returns the response to it, as its id and its class or `ok`.
    fn say(&mut self, line: &str) -> Option<(String, String)> {
        self.session.feed(epoch(), format!("{line}\n"));
        self.answer()
    }

    fn answer(&mut self) -> Option<(String, String)> {
        if let Some(bytes) = self.session.poll_control() {
            self.said.feed(bytes);
        }
        match self.said.decode()?.expect("we write good frames") {
            Message::Response(response) => {
                let outcome = match response.outcome {
                    Outcome::Result(_) => "ok".to_owned(),
                    Outcome::Error(error) => error.data.class.to_string(),
                };
                Some((response.id.to_string(), outcome))
            }
            other => panic!("not a response: {other:?}"),
        }
    }

    fn check(&mut self, frame: &Value, outcome: &str) {
        let expected = Some((frame["id"].to_string(), outcome.to_owned()));
        assert_eq!(self.say(&frame.to_string()), expected, "{frame}");
    }

    fn events(&mut self) -> Vec<DriverEvent> {
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }

    fn prepared() -> Self {
        let mut raw = Self::new();
        raw.check(&hello(1), "ok");
        assert_eq!(raw.say(&prepare(2, &["companion-stream"]).to_string()), None);
        raw.session.accept_prepare(permissions(&["companion-stream"])).expect("accept");
        assert_eq!(raw.answer(), Some(("2".into(), "ok".into())));
        raw.events();
        raw
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc":"2.0","id":id,"method":method,"params":params})
}

fn hello(id: u64) -> Value {
    request(id, "driver.hello", json!({"core_version_range":{"minimum":"1.0.0","maximum":"1.0.0"}}))
}

fn prepare(id: u64, approved: &[&str]) -> Value {
    let plan = pintle_driver::Digest::of(b"plan");
    let params = json!({"resolved_plan_digest":plan,"capability_token":"t","approved_permissions":approved});
    request(id, "driver.prepare", params)
}

fn invoke(request_id: u64, number: u8, operation: &str) -> Value {
    let params = json!({"invocation_id":id(number),"attempt_id":id(101),"operation":operation,
        "ephemeral_exact_input_handle":{"kind":"pipe","value":"p"}});
    request(request_id, "driver.invoke", params)
}

#[test]
fn requests_out_of_order_are_answered_with_their_class_and_the_session_lives() {
    let mut raw = Raw::new();
    raw.check(&invoke(1, 1, "run"), "invalid_state");
    raw.check(&request(2, "driver.reset", json!({})), "invalid_state");
    raw.check(&request(3, "driver.shutdown", json!({})), "invalid_state");
    raw.check(&request(4, "driver.capabilities", json!({})), "invalid_state");
    raw.check(&prepare(5, &[]), "invalid_state");
    let old = json!({"core_version_range":{"minimum":"0.1.0","maximum":"0.2.0"}});
    raw.check(&request(6, "driver.hello", old), "unsupported_rpc_version");
    raw.check(&hello(7), "ok");
    raw.check(&hello(8), "invalid_state");
    raw.check(&request(9, "driver.capabilities", json!({})), "ok");
    raw.check(&prepare(10, &["target-exec"]), "permission_denied");
    raw.check(&prepare(11, &["root"]), "permission_denied");
    assert_eq!(raw.session.state(), State::Hello);

    let mut raw = Raw::prepared();
    raw.check(&invoke(1, 1, "jump"), "capability_mismatch");
    let cancel = |number| json!({"invocation_id":id(number),"reason":"r","deadline_millis":1});
    raw.check(&request(2, "driver.cancel", cancel(1)), "invalid_state");
    assert_eq!(raw.say(&invoke(3, 1, "run").to_string()), None);
    raw.check(&invoke(4, 2, "run"), "invalid_state");
    raw.session.accept_invoke(id(1)).expect("accept");
    assert_eq!(raw.answer(), Some(("3".into(), "ok".into())));
    raw.check(&invoke(5, 2, "run"), "invalid_state");
    raw.check(&request(6, "driver.cancel", cancel(2)), "invalid_request");
    raw.check(&request(7, "driver.cancel", cancel(1)), "ok");
    raw.check(&request(8, "driver.shutdown", json!({})), "invalid_state");
    raw.session.complete(id(1), TerminalStatus::Cancelled).expect("complete");
    raw.session.poll_control();
    raw.check(&invoke(9, 1, "run"), "invalid_request");
}

#[test]
fn frames_that_do_not_decode_are_answered_where_they_have_an_id() {
    let mut raw = Raw::prepared();
    let answered = |raw: &mut Raw, line: &str| raw.say(line).map(|(id, class)| format!("{id} {class}"));
    assert_eq!(answered(&mut raw, "{").as_deref(), None);
    assert_eq!(answered(&mut raw, "").as_deref(), None);
    assert_eq!(answered(&mut raw, r#"{"jsonrpc":"2.0","id":null,"method":"driver.reset"}"#).as_deref(), None);
    let unknown = answered(&mut raw, r#"{"jsonrpc":"2.0","id":"a","method":"driver.future"}"#);
    assert_eq!(unknown.as_deref(), Some("\"a\" invalid_request"));
    let version = answered(&mut raw, r#"{"jsonrpc":"1.0","id":7,"method":"driver.reset"}"#);
    assert_eq!(version.as_deref(), Some("7 unsupported_rpc_version"));
    let params = answered(&mut raw, r#"{"jsonrpc":"2.0","id":8,"method":"driver.reset","params":[]}"#);
    assert_eq!(params.as_deref(), Some("8 invalid_request"));
    let events = raw.events();
    assert_eq!(events.len(), 6);
    assert!(events.iter().all(|event| matches!(event, DriverEvent::Malformed(_))));
    raw.session.feed(epoch(), vec![b'x'; 3 << 20]);
    raw.session.feed(epoch(), &b"\n"[..]);
    let over_long = raw.events();
    assert!(matches!(&over_long[..], [DriverEvent::Malformed(error)] if error.class() == ErrorClass::BudgetExceeded));
    raw.check(&request(9, "driver.capabilities", json!({})), "ok");
}

#[test]
fn what_only_a_driver_sends_is_dropped() {
    let mut raw = Raw::prepared();
    assert_eq!(raw.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), None);
    assert_eq!(raw.events(), [DriverEvent::Unexpected]);
}

#[test]
fn a_second_request_of_a_waiting_id_is_not_answered() {
    let mut raw = Raw::prepared();
    assert_eq!(raw.say(&request(5, "driver.reset", json!({})).to_string()), None);
    assert_eq!(raw.say(&request(5, "driver.reset", json!({})).to_string()), None);
    assert_eq!(raw.say(r#"{"jsonrpc":"2.0","id":5,"method":"driver.future"}"#), None);
    raw.session.accept_reset().expect("accept");
    assert_eq!(raw.answer(), Some(("5".into(), "ok".into())));
    assert_eq!(raw.answer(), None);
}

#[test]
fn cancellation_must_be_declared() {
    let mut hello_result = hello_result();
    hello_result.capabilities.cancellation = false;
    let mut raw = Raw::with(DriverConfig::new(hello_result));
    raw.check(&hello(1), "ok");
    let cancel = json!({"invocation_id":id(1),"reason":"r","deadline_millis":1});
    raw.check(&request(2, "driver.cancel", cancel), "capability_mismatch");
}

#[test]
fn answers_that_the_application_may_not_give() {
    let mut raw = Raw::new();
    let nothing = |result: Result<(), CommandError>| matches!(result, Err(CommandError::NothingPending(_)));
    assert!(nothing(raw.session.accept_prepare(Vec::new())));
    assert!(nothing(raw.session.accept_invoke(id(1))));
    assert!(nothing(raw.session.accept_reset()));
    assert!(nothing(raw.session.accept_shutdown()));
    assert!(nothing(raw.session.refuse(RpcError::new(ErrorClass::DriverInternal, "m"))));
    raw.check(&hello(1), "ok");
    raw.say(&prepare(2, &["x-test"]).to_string());
    let more = raw.session.accept_prepare(permissions(&["ephemeral-input"])).expect_err("it was not approved");
    assert_eq!(more.class(), ErrorClass::PermissionDenied);
    let mut error = RpcError::new(ErrorClass::DriverInternal, "m");
    let details = "x".repeat(MAX_DETAILS_BYTES);
    error.data.details = Some(FreeValue::from_serialize(&details).expect("a value"));
    assert_eq!(raw.session.refuse(error).map_err(|error| error.class()), Err(ErrorClass::BudgetExceeded));
    let empty = raw.session.refuse(RpcError::new(ErrorClass::DriverInternal, ""));
    assert_eq!(empty.map_err(|error| error.class()), Err(ErrorClass::InvalidRequest));
    raw.session.refuse(RpcError::new(ErrorClass::PermissionDenied, "m")).expect("refuse");
    assert_eq!(raw.answer(), Some(("2".into(), "permission_denied".into())));
    // A refused prepare may be tried again.
    assert_eq!(raw.say(&prepare(3, &[]).to_string()), None);
    raw.session.accept_prepare(Vec::new()).expect("accept");
}

#[test]
fn observations_need_an_accepted_invocation_and_room() {
    let mut raw = Raw::with(DriverConfig { max_queued_bytes: 2000, ..DriverConfig::new(hello_result()) });
    let class = |result: Result<u64, CommandError>| result.map_err(|error| error.class());
    assert_eq!(class(raw.session.observe(id(1), "k", 0, &ObservationBody::None)), Err(ErrorClass::InvalidState));
    raw.check(&hello(1), "ok");
    raw.say(&prepare(2, &["x-test"]).to_string());
    raw.session.accept_prepare(Vec::new()).expect("accept");
    raw.answer();
    raw.say(&invoke(3, 1, "run").to_string());
    assert_eq!(class(raw.session.observe(id(1), "k", 0, &ObservationBody::None)), Err(ErrorClass::InvalidState));
    assert!(raw.session.complete(id(1), TerminalStatus::Completed).is_err());
    raw.session.accept_invoke(id(1)).expect("accept");
    raw.answer();
    assert_eq!(class(raw.session.observe(id(1), "", 0, &ObservationBody::None)), Err(ErrorClass::MalformedObservation));
    let stream = ObservationBody::Stream("s".into());
    assert_eq!(class(raw.session.observe(id(1), "k", 0, &stream)), Err(ErrorClass::PermissionDenied));
    let data = raw.session.send_data(id(1), "s", b"x", true).map(|()| 0);
    assert_eq!(class(data), Err(ErrorClass::PermissionDenied));
    let huge = FreeValue::from_serialize(&"x".repeat(2 << 20)).expect("a value");
    let too_large = raw.session.observe(id(1), "k", 0, &ObservationBody::Payload(huge));
    assert_eq!(class(too_large), Err(ErrorClass::BudgetExceeded), "the frame is over its bound");
    let mut taken = 0;
    let full = loop {
        match raw.session.observe(id(1), "k", 0, &ObservationBody::None) {
            Ok(sequence) => assert_eq!(sequence, taken),
            Err(error) => break error,
        }
        taken += 1;
    };
    assert_eq!(full, CommandError::QueueFull { limit: 2000 });
    assert!(raw.session.queued_bytes() < 2500);
    raw.session.poll_control().expect("frames");
    assert_eq!(raw.session.observe(id(1), "k", 0, &ObservationBody::None), Ok(taken), "nothing was lost");
    raw.session.complete(id(1), TerminalStatus::Completed).expect("complete");
}

#[test]
fn a_driver_keeps_its_own_streams_in_order() {
    let mut pair = Pair::invoking(CoreConfig::default(), &["companion-stream"]);
    let class = |result: Result<(), CommandError>| result.map_err(|error| error.class());
    let malformed = Err(ErrorClass::MalformedObservation);
    pair.driver.observe(id(1), "body", 0, &ObservationBody::Stream("a".into())).expect("observe");
    pair.driver.send_data(id(1), "a", b"x", false).expect("data");
    assert_eq!(class(pair.driver.complete(id(1), TerminalStatus::Completed).map(|_| ())), malformed, "a is not final");
    pair.driver.send_data(id(1), "a", b"y", true).expect("data");
    assert_eq!(class(pair.driver.send_data(id(1), "a", b"z", false)), malformed, "after the final frame");
    let large = vec![0; pair.driver.max_data_frame_bytes() + 1];
    assert_eq!(class(pair.driver.send_data(id(1), "b", &large, false)), Err(ErrorClass::BudgetExceeded));
    pair.driver.observe(id(1), "body", 0, &ObservationBody::Stream("c".into())).expect("observe");
    pair.driver.finish_streams(id(1)).expect("finish");
    pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    pair.drive();
    assert!(matches!(pair.core_events.last(), Some(CoreEvent::Completed(_))));
}

/// What is refused leaves nothing behind: the stream can be ended, the invocation completed, the next one begun. Each of these
/// is one step of an invocation that leads over a limit, or breaks a rule.
#[test]
fn what_is_refused_of_a_stream_leaves_the_session_as_it_was() {
    type Step = fn(&mut Pair) -> Result<(), CommandError>;
    let budget = ErrorClass::BudgetExceeded;
    let stream: Step = |pair| pair.driver.send_data(id(1), "a", &[0; 21], false);
    let all: Step = |pair| pair.driver.send_data(id(1), "a", &[0; 19], true);
    let other: Step = |pair| pair.driver.send_data(id(1), "c", b"x", true);
    let one_more: Step = |pair| pair.driver.observe(id(1), "k", 0, &ObservationBody::Stream("c".into())).map(|_| ());
    let no_kind: Step = |pair| pair.driver.observe(id(1), "", 0, &ObservationBody::Stream("a".into())).map(|_| ());
    let over_time: Step =
        |pair| pair.driver.observe(id(1), "k", u64::MAX, &ObservationBody::Stream("a".into())).map(|_| ());
    for (what, step, class, is_last) in [
        ("a frame over the stream's limit", stream, budget, false),
        ("a frame over the invocation's limit", all, budget, false),
        ("data of a stream too many", other, budget, true),
        ("a name of a stream too many", one_more, budget, true),
        ("a name in an observation without a kind", no_kind, ErrorClass::MalformedObservation, false),
        ("a name in an observation at no time", over_time, ErrorClass::MalformedObservation, false),
    ] {
        let limits = StreamLimits { max_streams: 2, max_stream_bytes: 20, max_invocation_bytes: 30 };
        let config = DriverConfig { stream_limits: limits, ..DriverConfig::new(hello_result()) };
        let mut pair = Pair::invoking_with(CoreConfig::default(), config, &["companion-stream"]);
        pair.driver.observe(id(1), "body", 0, &ObservationBody::Stream("b".into())).expect("observe");
        pair.driver.send_data(id(1), "b", &[0; 12], false).expect("data");
        if is_last {
            pair.driver.observe(id(1), "body", 0, &ObservationBody::Stream("a".into())).expect("observe");
        }
        for _ in 0..2 {
            assert_eq!(step(&mut pair).map_err(|error| error.class()), Err(class), "{what}");
        }
        pair.driver.send_data(id(1), "b", &[0; 8], false).expect("what fits is still taken");
        pair.driver.finish_streams(id(1)).expect("the streams end");
        pair.driver.complete(id(1), TerminalStatus::Errored).expect("the invocation ends");
        pair.drive();
        assert_eq!(pair.core.life(), &Life::Alive, "{what}");
        let completed = pair.core_events.iter().any(|event| matches!(event, CoreEvent::Completed(_)));
        assert!(completed, "{what}: {:?}", pair.core_events);
        pair.core.invoke(pair.now, invoke_params(2, "run")).expect("the next one");
        pair.drive();
        pair.driver.accept_invoke(id(2)).expect("accept");
        pair.driver.complete(id(2), TerminalStatus::Completed).expect("complete");
        pair.drive();
        assert_eq!(pair.core.life(), &Life::Alive, "{what}");
    }
}

/// Whatever an application asks for, the bounds that are documented hold.
#[test]
fn stream_limits_are_bounded() {
    let most = usize::MAX;
    let limits = StreamLimits { max_streams: most, max_stream_bytes: u64::MAX, max_invocation_bytes: u64::MAX };
    assert_eq!(limits.at_most(StreamLimits::MAX), StreamLimits::MAX);
    let usual = StreamLimits::default();
    assert_eq!(usual.at_most(StreamLimits::MAX), usual);
    let config = DriverConfig { stream_limits: limits, max_queued_bytes: most, ..DriverConfig::new(hello_result()) };
    let mut pair = Pair::invoking_with(CoreConfig::default(), config, &["companion-stream"]);
    for number in 0..StreamLimits::MAX.max_streams {
        pair.driver.send_data(id(1), &number.to_string(), b"", true).expect("there is room");
    }
    let error = pair.driver.send_data(id(1), "one more", b"", true).expect_err("there is none");
    assert_eq!(error.class(), ErrorClass::BudgetExceeded);
}

/// An answer that does not fit into a frame is refused, and Core may greet again.
#[test]
fn a_greeting_that_is_too_long_for_a_frame_leaves_the_session_as_new() {
    let mut hello_result = hello_result();
    hello_result.capabilities.operations = (0..200_000).map(|number| format!("run-{number}").into()).collect();
    let session = DriverSession::new(DriverConfig::new(hello_result)).expect("it validates");
    let mut raw = Raw { session, said: Decoder::new() };
    raw.check(&hello(1), "budget_exceeded");
    assert_eq!(raw.session.state(), State::New);
    raw.check(&hello(2), "budget_exceeded");
}

#[test]
fn core_going_away_ends_the_session() {
    let mut raw = Raw::prepared();
    raw.say(&invoke(3, 1, "run").to_string());
    raw.session.accept_invoke(id(1)).expect("accept");
    raw.session.eof(epoch());
    assert!(raw.events().contains(&DriverEvent::Closed));
    assert!(matches!(raw.session.life(), Life::Dead(_)));
    assert_eq!(raw.session.observe(id(1), "k", 0, &ObservationBody::None), Err(CommandError::Over));
    assert_eq!(raw.session.poll_timeout(), None);
}
