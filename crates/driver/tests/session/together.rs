//! What works when both ends keep the rules.

use std::time::Duration;

use pintle_driver::{
    CoreConfig, CoreEvent, DriverEvent, FreeValue, Life, ObservationBody, State, SummaryDigest, TerminalStatus,
    supported_versions,
};
use serde_json::json;

use crate::pair::{Pair, hello_result, id, invoke_params, permissions, prepare_params};

fn verified() -> CoreConfig {
    CoreConfig { verify_summary: true, ..CoreConfig::default() }
}

#[test]
fn a_whole_session() {
    let mut pair = Pair::new(verified());
    pair.core.hello(pair.now).expect("hello");
    pair.drive();
    let CoreEvent::Hello { version, result } = &pair.core_events[0] else { panic!("{:?}", pair.core_events) };
    assert_eq!((version.to_string(), &**result), (supported_versions().maximum.into(), &hello_result()));
    assert!(matches!(pair.driver_events[..], [DriverEvent::Hello { .. }]));

    pair.core.prepare(pair.now, prepare_params(&["x-test"])).expect("prepare");
    pair.drive();
    assert!(
        matches!(&pair.driver_events[1], DriverEvent::Prepare(params) if params.capability_token.expose() == "token")
    );
    pair.driver.accept_prepare(permissions(&["x-test"])).expect("accept");
    pair.drive();
    assert_eq!(pair.core_events[1], CoreEvent::Prepared { accepted: permissions(&["x-test"]) });

    for number in 1..=3 {
        pair.core_events.clear();
        pair.core.invoke(pair.now, invoke_params(number, "run")).expect("invoke");
        pair.drive();
        pair.driver.accept_invoke(id(number)).expect("accept");
        for index in 0..10 {
            let payload = FreeValue::from_serialize(&json!({"index": index})).expect("a payload");
            let sequence = pair.driver.observe(id(number), "delta", index * 5, &ObservationBody::Payload(payload));
            assert_eq!(sequence, Ok(index));
        }
        let digest = pair.driver.complete(id(number), TerminalStatus::Completed).expect("complete");
        pair.drive();
        let mut summary = SummaryDigest::new();
        let mut sequences = Vec::new();
        for event in &pair.core_events {
            if let CoreEvent::Observation(params) = event {
                summary.observe(params).expect("it has a canonical frame");
                sequences.push(params.sequence);
            }
        }
        assert!(sequences.iter().copied().eq(0..10));
        assert_eq!(summary.finish(), digest);
        assert!(
            matches!(pair.core_events.last(), Some(CoreEvent::Completed(params)) if params.summary_digest == digest)
        );

        pair.core.capabilities(pair.now).expect("capabilities");
        pair.core.reset(pair.now).expect("reset");
        pair.drive();
        pair.driver.accept_reset().expect("accept");
        pair.drive();
        assert!(matches!(
            pair.core_events[pair.core_events.len() - 2..],
            [CoreEvent::Capabilities(_), CoreEvent::Reset]
        ));
    }

    pair.core.shutdown(pair.now).expect("shutdown");
    pair.drive();
    pair.driver.accept_shutdown().expect("accept");
    pair.drive();
    assert!(pair.core_events.ends_with(&[CoreEvent::Shutdown, CoreEvent::Closed]));
    assert_eq!((pair.core.life(), pair.core.state()), (&Life::Closed, State::Shutdown));
    assert_eq!((pair.driver.life(), pair.driver.state()), (&Life::Closed, State::Shutdown));
    assert_eq!(pair.core.poll_timeout(), None);
}

#[test]
fn a_stream_may_come_before_or_after_the_observation_that_names_it() {
    for before in [true, false] {
        let mut pair = Pair::invoking(verified(), &["companion-stream"]);
        let name = |pair: &mut Pair| {
            pair.driver.observe(id(1), "body", 1, &ObservationBody::Stream("s1".into())).expect("observe");
            pair.drive();
        };
        if !before {
            name(&mut pair);
        }
        pair.driver.send_data(id(1), "s1", &[7; 1000], false).expect("data");
        pair.driver.send_data(id(1), "s1", &[], true).expect("data");
        pair.drive();
        if before {
            name(&mut pair);
        }
        pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
        pair.drive();
        let bytes: usize = pair
            .core_events
            .iter()
            .map(|event| if let CoreEvent::Data { bytes, .. } = event { bytes.len() } else { 0 })
            .sum();
        assert_eq!(bytes, 1000);
        assert!(pair.core_events.iter().any(|event| matches!(event, CoreEvent::Data { is_final: true, .. })));
        assert!(matches!(pair.core_events.last(), Some(CoreEvent::Completed(_))));
    }
}

#[test]
fn an_end_waits_for_its_streams_within_the_grace() {
    let mut pair = Pair::invoking(verified(), &["companion-stream"]);
    pair.driver.observe(id(1), "body", 1, &ObservationBody::Stream("s1".into())).expect("observe");
    pair.driver.send_data(id(1), "s1", b"late", true).expect("data");
    pair.driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    // The data stream is slower than the control stream.
    let control = pair.driver.poll_control().expect("frames");
    let data = pair.driver.poll_data().expect("a frame");
    pair.core.feed(pair.now, control);
    pair.drive();
    assert!(!pair.core_events.iter().any(|event| matches!(event, CoreEvent::Completed(_))));
    let busy = pair.core.invoke(pair.now, invoke_params(2, "run")).expect_err("streams are coming in");
    assert_eq!(busy.class().as_str(), "invalid_state");
    pair.now += Duration::from_millis(999);
    pair.core.handle_timeout(pair.now);
    pair.core.feed_data(pair.now, data);
    pair.drive();
    assert!(matches!(pair.core_events.last(), Some(CoreEvent::Completed(_))));
}

#[test]
fn a_cancel_is_acknowledged_and_the_end_may_take_its_time() {
    let mut pair = Pair::invoking(verified(), &[]);
    pair.core.cancel(pair.now, id(1), "enough", Duration::from_secs(5)).expect("cancel");
    pair.drive();
    assert_eq!(pair.core_events, [CoreEvent::CancelAcknowledged { invocation_id: id(1), acknowledged: true }]);
    assert!(matches!(&pair.driver_events[..], [DriverEvent::Cancel(params)] if params.deadline_millis == 5000));
    assert_eq!(pair.core.state(), State::Invoking);
    pair.now += Duration::from_millis(4999);
    pair.core.handle_timeout(pair.now);
    pair.driver.observe(id(1), "last", 1, &ObservationBody::None).expect("observe");
    pair.driver.complete(id(1), TerminalStatus::Cancelled).expect("complete");
    pair.drive();
    assert!(matches!(pair.core_events.last(), Some(CoreEvent::Completed(_))));
    assert_eq!((pair.core.state(), pair.core.poll_timeout()), (State::Prepared, None));
}

#[test]
fn the_earliest_of_several_cancel_deadlines_holds() {
    let mut pair = Pair::invoking(verified(), &[]);
    pair.core.cancel(pair.now, id(1), "soon", Duration::from_secs(2)).expect("cancel");
    pair.core.cancel(pair.now, id(1), "later", Duration::from_secs(60)).expect("cancel");
    pair.drive();
    pair.wait(Duration::from_secs(2));
    assert!(matches!(pair.core_events.last(), Some(CoreEvent::Fault(_))));
}

#[test]
fn observations_may_overtake_the_response_to_invoke() {
    let mut pair = Pair::prepared(verified(), &[]);
    let request = pair.core.invoke(pair.now, invoke_params(1, "run")).expect("invoke");
    pair.core.poll_output();
    let (invocation, attempt) = (id(1), id(101));
    let observation = json!({"jsonrpc":"2.0","method":"driver.observation","params":
        {"invocation_id":invocation,"attempt_id":attempt,"sequence":0,"kind":"early","monotonic_ns":0}});
    let response = json!({"jsonrpc":"2.0","id":request,"result":{}});
    pair.core.feed(pair.now, format!("{observation}\n{response}\n"));
    pair.drive();
    assert!(matches!(pair.core_events[..], [CoreEvent::Observation(_), CoreEvent::InvokeAccepted { .. }]));
}

#[test]
fn a_killed_driver_is_not_listened_to() {
    let mut pair = Pair::invoking(verified(), &[]);
    pair.core.killed();
    pair.driver.observe(id(1), "late", 1, &ObservationBody::None).expect("observe");
    pair.drive();
    assert_eq!((pair.core.life(), pair.core_events.len()), (&Life::Killed, 0));
    assert!(pair.core.reset(pair.now).is_err());
    pair.core.eof(pair.now);
    assert_eq!(pair.core.poll_event(), None);
    assert_eq!(pair.core.poll_timeout(), None);
}
