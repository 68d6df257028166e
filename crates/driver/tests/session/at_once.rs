//! Several invocations at once (issue item 8): what is allowed, and what a driver cannot do with it.

use std::time::Duration;

use pintle_driver::{
    Capabilities, CommandError, CoreConfig, CoreEvent, DataFrameHeader, Digest, DriverConfig, DriverEvent, ErrorClass,
    Fault, HelloResult, InstanceId, Life, MAX_CONCURRENT_INVOCATIONS, ObservationBody, RpcError, State, StreamFault,
    TerminalStatus,
};
use pintle_wire::{SafeU64, encode_data_frame};
use serde_json::{Value, json};

use crate::pair::{Pair, hello_result, id, invoke_params, permissions, prepare_params};

const COMPANION: &[&str] = &["companion-stream"];

pub(crate) fn concurrent(max_concurrency: u32) -> HelloResult {
    let hello = hello_result();
    HelloResult { capabilities: Capabilities { concurrency: true, max_concurrency, ..hello.capabilities }, ..hello }
}

fn prepared(max_concurrency: u32) -> Pair {
    prepared_with(CoreConfig { verify_summary: true, ..CoreConfig::default() }, max_concurrency)
}

fn prepared_with(config: CoreConfig, max_concurrency: u32) -> Pair {
    let mut pair = Pair::with_driver(config, DriverConfig::new(concurrent(max_concurrency)));
    pair.core.hello(pair.now).expect("hello");
    pair.drive();
    pair.core.prepare(pair.now, prepare_params(COMPANION)).expect("prepare");
    pair.drive();
    pair.driver.accept_prepare(permissions(COMPANION)).expect("accept");
    pair.drive();
    pair.core_events.clear();
    pair.driver_events.clear();
    pair
}

/// With these invocations active.
fn active(max_concurrency: u32, numbers: &[u8]) -> Pair {
    let mut pair = prepared(max_concurrency);
    for number in numbers {
        pair.core.invoke(pair.now, invoke_params(*number, "run")).expect("invoke");
    }
    pair.drive();
    for number in numbers {
        pair.driver.accept_invoke(id(*number)).expect("accept");
    }
    pair.drive();
    pair.core_events.clear();
    pair.driver_events.clear();
    pair
}

fn observation(number: u8, attempt: u8, sequence: u64) -> Value {
    json!({"jsonrpc":"2.0","method":"driver.observation","params":
        {"invocation_id":id(number),"attempt_id":id(attempt),"sequence":sequence,"kind":"k","monotonic_ns":0}})
}

fn completed(number: u8, attempt: u8) -> Value {
    json!({"jsonrpc":"2.0","method":"driver.completed","params":{"invocation_id":id(number),"attempt_id":id(attempt),
        "status":"completed","summary_digest":Digest::of(b"")}})
}

fn data(number: u8, attempt: u8, stream_id: &str, is_final: bool) -> Vec<u8> {
    let header = DataFrameHeader {
        attempt_id: id(attempt),
        is_final,
        invocation_id: id(number),
        length: 1,
        sequence: SafeU64::new(0).expect("a sequence"),
        stream_id: stream_id.to_owned(),
    };
    let mut frame = Vec::new();
    encode_data_frame(&header, b"x", usize::MAX, &mut frame).expect("a frame");
    frame
}

fn feed(pair: &mut Pair, frame: &Value) {
    pair.core.feed(pair.now, format!("{frame}\n"));
}

/// Asserts that the session died of this, with every invocation in it, and is deaf.
fn check(mut pair: Pair, fault: impl FnOnce(&Fault) -> bool, class: ErrorClass) {
    pair.drive();
    let faults: Vec<_> = pair
        .core_events
        .iter()
        .filter_map(|event| if let CoreEvent::Fault(fault) = event { Some(fault) } else { None })
        .collect();
    assert!(matches!(faults[..], [found] if fault(found) && found.class() == class), "{faults:?}");
    assert_eq!((pair.core.running().len(), pair.core.poll_timeout()), (0, None));
    feed(&mut pair, &observation(1, 101, 50));
    assert_eq!(pair.core.poll_event(), None);
    assert_eq!(pair.core.invoke(pair.now, invoke_params(9, "run")), Err(CommandError::Over));
}

#[test]
fn the_declared_limit_holds_on_both_sides() {
    let mut pair = active(3, &[1, 2, 3]);
    assert_eq!((pair.core.state(), pair.core.dispatcher().limit()), (State::Invoking, 3));
    let full = pair.core.invoke(pair.now, invoke_params(4, "run")).map_err(|error| error.class());
    assert_eq!(full, Err(ErrorClass::InvalidState));
    // The driver's own end refuses it too, for a Core that does not count.
    pair.driver.feed(
        pair.now,
        format!(
            "{}\n",
            json!({"jsonrpc":"2.0","id":77,"method":"driver.invoke","params":{
        "invocation_id":id(4),"attempt_id":id(104),"operation":"run",
        "ephemeral_exact_input_handle":{"kind":"pipe","value":"v"}}})
        ),
    );
    let answer = pair.driver.poll_control().expect("an answer");
    assert!(String::from_utf8_lossy(&answer).contains("invalid_state"));
    // One ends, the next has room.
    pair.driver.complete(id(2), TerminalStatus::Completed).expect("complete");
    pair.drive();
    assert!(matches!(&pair.core_events[..], [CoreEvent::Completed(params)] if params.invocation_id == id(2)));
    pair.core.invoke(pair.now, invoke_params(4, "run")).expect("there is room");
}

#[test]
fn ids_are_not_used_twice_while_active_or_after() {
    let mut pair = active(3, &[1]);
    let again = |pair: &mut Pair| pair.core.invoke(pair.now, invoke_params(1, "run")).map_err(|error| error.class());
    assert_eq!(again(&mut pair), Err(ErrorClass::InvalidRequest));
    pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    pair.drive();
    assert_eq!(again(&mut pair), Err(ErrorClass::InvalidRequest));
}

#[test]
fn what_a_driver_declares_beyond_reason_is_cut() {
    for (declared, config, limit) in [
        (u32::MAX, MAX_CONCURRENT_INVOCATIONS, MAX_CONCURRENT_INVOCATIONS),
        (0, MAX_CONCURRENT_INVOCATIONS, 1),
        (8, 2, 2),
        (8, 0, 1),
    ] {
        let pair = prepared_with(CoreConfig { max_concurrency: config, ..CoreConfig::default() }, declared);
        assert_eq!(pair.core.dispatcher().limit(), limit, "{declared} declared, {config} wanted");
    }
    let mut pair = prepared(u32::MAX);
    for number in 0..MAX_CONCURRENT_INVOCATIONS as u8 {
        pair.core.invoke(pair.now, invoke_params(number, "run")).expect("invoke");
    }
    pair.drive();
    assert_eq!(pair.driver_events.len(), MAX_CONCURRENT_INVOCATIONS);
}

#[test]
fn a_driver_that_takes_fewer_than_it_declared_loses_only_those() {
    let mut pair = prepared(3);
    for number in 1..=2 {
        pair.core.invoke(pair.now, invoke_params(number, "run")).expect("invoke");
    }
    pair.drive();
    pair.driver.accept_invoke(id(1)).expect("accept");
    pair.driver.refuse_invoke(id(2), RpcError::new(ErrorClass::BudgetExceeded, "one is enough")).expect("refuse");
    pair.driver.observe(id(1), "k", 0, &ObservationBody::None).expect("observe");
    pair.drive();
    assert!(
        matches!(&pair.core_events[..], [
        CoreEvent::InvokeAccepted { invocation_id: first, .. },
        CoreEvent::Refused { invocation_id: Some(second), .. },
        CoreEvent::Observation(_),
    ] if (*first, *second) == (id(1), id(2))),
        "{:?}",
        pair.core_events
    );
    pair.core.invoke(pair.now, invoke_params(2, "run")).expect("the id is free");
}

#[test]
fn a_cancel_reaches_one_and_leaves_the_others() {
    let mut pair = active(3, &[1, 2]);
    pair.core.cancel(pair.now, id(1), "enough", Duration::from_secs(5)).expect("cancel");
    pair.drive();
    assert!(matches!(&pair.driver_events[..], [DriverEvent::Cancel(params)] if params.invocation_id == id(1)));
    pair.driver.complete(id(1), TerminalStatus::Cancelled).expect("complete");
    pair.drive();
    assert_eq!(pair.core.poll_timeout(), None, "its deadline has gone with it");
    pair.driver.observe(id(2), "k", 0, &ObservationBody::None).expect("the other goes on");
    pair.driver.complete(id(2), TerminalStatus::Completed).expect("complete");
    pair.drive();
    let ended = |event: &CoreEvent| if let CoreEvent::Completed(params) = event { Some(params.status) } else { None };
    let statuses: Vec<_> = pair.core_events.iter().filter_map(ended).collect();
    assert_eq!(statuses, [TerminalStatus::Cancelled, TerminalStatus::Completed]);
    let unknown = pair.core.cancel(pair.now, id(1), "again", Duration::from_secs(5)).map_err(|error| error.class());
    assert_eq!(unknown, Err(ErrorClass::InvalidState));
}

#[test]
fn an_invocation_that_does_not_heed_its_cancel_ends_the_driver_and_all_with_it() {
    let mut pair = active(2, &[1, 2]);
    pair.core.cancel(pair.now, id(2), "enough", Duration::from_secs(5)).expect("cancel");
    pair.drive();
    pair.wait(Duration::from_secs(5));
    check(pair, |fault| *fault == Fault::CancellationTimeout, ErrorClass::CancellationTimeout);
}

#[test]
fn streams_of_two_invocations_interleave_and_stay_apart() {
    let mut pair = active(2, &[1, 2]);
    for (number, kind) in [(1, "a"), (2, "b")] {
        pair.driver.observe(id(number), kind, 0, &ObservationBody::Stream("s".into())).expect("observe");
    }
    for _ in 0..3 {
        pair.driver.send_data(id(1), "s", b"one", false).expect("send");
        pair.driver.send_data(id(2), "s", b"two2", false).expect("send");
    }
    pair.driver.send_data(id(2), "s", b"", true).expect("send");
    pair.driver.complete(id(2), TerminalStatus::Completed).expect("complete");
    pair.driver.send_data(id(1), "s", b"", true).expect("send");
    pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    pair.drive();
    let of = |wanted: InstanceId| -> Vec<u8> {
        let bytes = |event: &CoreEvent| match event {
            CoreEvent::Data { invocation_id, bytes, .. } if *invocation_id == wanted => bytes.to_vec(),
            _ => Vec::new(),
        };
        pair.core_events.iter().flat_map(bytes).collect()
    };
    assert_eq!((of(id(1)), of(id(2))), (b"oneoneone".to_vec(), b"two2two2two2".to_vec()));
    assert_eq!(pair.core_events.iter().filter(|event| matches!(event, CoreEvent::Completed(_))).count(), 2);
}

#[test]
fn the_session_waits_for_all_of_them() {
    let mut pair = active(2, &[1, 2]);
    pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    pair.drive();
    let now = pair.now;
    let class = |result: Result<i64, CommandError>| result.map_err(|error| error.class());
    assert_eq!(class(pair.core.capabilities(now)), Err(ErrorClass::InvalidState));
    assert_eq!(class(pair.core.reset(now)), Err(ErrorClass::InvalidState));
    assert_eq!(class(pair.core.shutdown(now)), Err(ErrorClass::InvalidState));
    pair.driver.complete(id(2), TerminalStatus::Completed).expect("complete");
    pair.drive();
    pair.core.shutdown(now).expect("shutdown");
    pair.drive();
    pair.driver.accept_shutdown().expect("accept");
    pair.drive();
    assert_eq!(pair.core.life(), &Life::Closed);
}

#[test]
fn frames_of_unknown_and_finished_invocations_are_faults() {
    let frame = |fault: &Fault| matches!(fault, Fault::Frame(_));
    for strange in [observation(9, 109, 0), completed(9, 109)] {
        let mut pair = active(2, &[1, 2]);
        feed(&mut pair, &strange);
        check(pair, frame, ErrorClass::MalformedObservation);
    }
    // More terminals than invocations, while another one is active and while none is.
    for (numbers, class) in [(&[1, 2][..], ErrorClass::MalformedObservation), (&[1][..], ErrorClass::InvalidState)] {
        for late in [completed(1, 101), observation(1, 101, 7)] {
            let mut pair = active(2, numbers);
            pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
            pair.drive();
            feed(&mut pair, &late);
            check(pair, frame, class);
        }
    }
    // The attempt of one with the id of the other.
    let mut pair = active(2, &[1, 2]);
    feed(&mut pair, &observation(1, 102, 0));
    check(pair, frame, ErrorClass::MalformedObservation);
}

#[test]
fn a_sequence_is_each_invocations_own() {
    let mut pair = active(2, &[1, 2]);
    for (number, sequence) in [(1, 5), (2, 0), (1, 6), (2, 6)] {
        feed(&mut pair, &observation(number, number + 100, sequence));
    }
    assert_eq!(pair.core.life(), &Life::Alive);
    feed(&mut pair, &observation(1, 101, 6));
    check(pair, |fault| matches!(fault, Fault::Frame(_)), ErrorClass::MalformedObservation);
}

#[test]
fn data_of_unknown_finished_and_mixed_up_invocations_is_a_fault() {
    for (number, attempt) in [(9, 109), (1, 102), (2, 101)] {
        let mut pair = active(2, &[1, 2]);
        pair.core.feed_data(pair.now, data(number, attempt, "s", true));
        let fault = |fault: &Fault| *fault == Fault::Stream(StreamFault::OtherInvocation);
        check(pair, fault, ErrorClass::MalformedObservation);
    }
    let mut pair = active(2, &[1, 2]);
    pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    pair.drive();
    pair.core.feed_data(pair.now, data(1, 101, "s", true));
    check(pair, |fault| matches!(fault, Fault::Stream(_)), ErrorClass::MalformedObservation);
}

#[test]
fn an_invocation_is_not_refused_once_it_was_begun() {
    for begun in [observation(2, 102, 0), completed(2, 102)] {
        let mut pair = prepared_with(CoreConfig::default(), 2);
        pair.core.invoke(pair.now, invoke_params(1, "run")).expect("invoke");
        let request = pair.core.invoke(pair.now, invoke_params(2, "run")).expect("invoke");
        pair.core.poll_output();
        feed(&mut pair, &begun);
        feed(
            &mut pair,
            &json!({"jsonrpc":"2.0","id":request,"error":{"code":-32000,"message":"no","data":{"class":"driver_internal"}}}),
        );
        check(pair, |fault| *fault == Fault::RefusedLate, ErrorClass::DriverInternal);
    }
}
