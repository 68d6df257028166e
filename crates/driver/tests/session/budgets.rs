//! What a session may use, and what happens when a driver uses more: each resource once.

use std::time::Duration;

use pintle_driver::{
    Amounts, BudgetError, BudgetPolicy, CommandError, CoreConfig, CoreEvent, ErrorClass, Fault, Life, Limits, Purpose,
    Resource, TerminalStatus,
};

use crate::pair::{Pair, id, invoke_params};

fn config(work: Limits) -> CoreConfig {
    CoreConfig { budget: BudgetPolicy { work, ..BudgetPolicy::default() }, ..CoreConfig::default() }
}

/// The driver has used too much of `resource`: the session is dead, and says what and how much.
fn check(pair: &Pair, resource: Resource) {
    let Some(CoreEvent::Fault(fault)) = pair.core_events.last() else { panic!("{:?}", pair.core_events) };
    assert_eq!(fault.class(), ErrorClass::BudgetExceeded, "{fault}");
    let Fault::Budget(BudgetError::Exceeded { purpose, resource: found, limit, used, wanted, .. }) = fault else {
        panic!("{fault}")
    };
    assert_eq!((*purpose, *found), (Purpose::Work, resource));
    assert!(used + wanted > *limit || resource == Resource::DurationMs, "{fault}");
    assert_eq!(pair.core.life(), &Life::Dead(fault.clone()));
    // What came is charged, and what was too much is told.
    let report = pair.core.budget().work;
    assert_eq!(report.used.get(resource), used + wanted);
    assert_eq!(report.overshoot.get(resource), (used + wanted).saturating_sub(*limit));
    assert_eq!(report.reserved, Amounts::ZERO, "a session that is over has nothing reserved");
}

#[test]
fn a_driver_that_writes_more_than_it_may() {
    let mut pair = Pair::prepared(config(Limits { bytes_received: 3000, ..Limits::WORK }), &[]);
    pair.core.invoke(pair.now, invoke_params(1, "run")).expect("invoke");
    pair.drive();
    pair.driver.accept_invoke(id(1)).expect("accept");
    let body = pintle_driver::ObservationBody::Payload(
        pintle_driver::FreeValue::from_serialize(&"x".repeat(4000)).expect("a value"),
    );
    pair.driver.observe(id(1), "k", 0, &body).expect("observe");
    pair.drive();
    check(&pair, Resource::BytesReceived);
}

#[test]
fn companion_streams_are_counted_and_their_bytes_too() {
    for (limits, resource) in [
        (Limits { artifacts: 2, ..Limits::WORK }, Resource::Artifacts),
        (Limits { artifact_bytes: 25, ..Limits::WORK }, Resource::ArtifactBytes),
    ] {
        let mut pair = Pair::invoking(config(limits), &["companion-stream"]);
        for n in 0..3 {
            let stream = format!("s{n}");
            let named = pintle_driver::ObservationBody::Stream(stream.as_str().into());
            pair.driver.observe(id(1), "k", 0, &named).expect("observe");
            pair.driver.send_data(id(1), &stream, b"ten bytes.", true).expect("send");
            pair.drive();
        }
        check(&pair, resource);
    }
}

#[test]
fn the_time_of_a_session_runs_out() {
    let mut pair = Pair::invoking(config(Limits { duration: Some(Duration::from_secs(60)), ..Limits::WORK }), &[]);
    pair.wait(Duration::from_secs(60));
    check(&pair, Resource::DurationMs);
}

#[test]
fn what_the_application_learns_of_counts_too() {
    for resource in [Resource::Tokens, Resource::Processes] {
        let limits = Limits { tokens: Some(10), processes: 10, ..Limits::WORK };
        let mut pair = Pair::invoking(config(limits), &[]);
        pair.core.spend(pair.now, Amounts::of(resource, 9));
        assert_eq!(pair.core.life(), &Life::Alive);
        pair.core.spend(pair.now, Amounts::of(resource, 9));
        pair.drive();
        check(&pair, resource);
    }
}

#[test]
fn a_command_that_costs_too_much_is_refused_and_the_session_is_as_before() {
    // hello, prepare, invoke and one more.
    let mut pair = Pair::prepared(config(Limits { requests: 4, ..Limits::WORK }), &[]);
    for n in 1..=2 {
        pair.core.invoke(pair.now, invoke_params(n, "run")).expect("invoke");
        pair.drive();
        pair.driver.accept_invoke(id(n)).expect("accept");
        pair.driver.complete(id(n), TerminalStatus::Completed).expect("complete");
        pair.drive();
    }
    let refused = pair.core.invoke(pair.now, invoke_params(3, "run")).expect_err("the fifth request");
    assert_eq!(refused.class(), ErrorClass::BudgetExceeded);
    assert!(matches!(refused, CommandError::Budget(BudgetError::Exceeded { resource: Resource::Requests, .. })));
    assert_eq!(pair.core.poll_output(), None, "nothing of it was written");
    assert_eq!(
        pair.core.pay(pair.now, Amounts::of(Resource::BytesSent, 5 << 30)).map_err(|e| e.class()),
        Err(ErrorClass::BudgetExceeded)
    );
    // Ending the session has a budget of its own.
    pair.core.shutdown(pair.now).expect("cleaning up");
    pair.drive();
    pair.driver.accept_shutdown().expect("accept");
    pair.drive();
    assert_eq!(pair.core_events.last(), Some(&CoreEvent::Closed));
    let report = pair.core.budget();
    assert_eq!(report.work.used.get(Resource::Requests), 4);
    assert_eq!(report.work.used.get(Resource::Processes), 1);
    assert_eq!(report.cleanup.used.get(Resource::Requests), 1);
    assert!(report.cleanup.used.get(Resource::BytesReceived) > 0);
    assert_eq!((report.work.overshoot, report.work.unknown), (Amounts::ZERO, Amounts::ZERO));
}

#[test]
fn a_request_without_an_answer_is_charged_as_an_estimate() {
    let mut pair = Pair::prepared(CoreConfig::default(), &[]);
    let before = pair.core.budget().work;
    pair.core.reset(pair.now).expect("reset");
    pair.core.poll_output();
    assert_eq!(pair.core.budget().work.reserved.get(Resource::Requests), 1);
    pair.wait(Duration::from_secs(10));
    let after = pair.core.budget().work;
    assert_eq!(after.used.get(Resource::Requests), before.used.get(Resource::Requests) + 1);
    assert_eq!(after.unknown.get(Resource::Requests), 1);
    assert_eq!(after.reserved, Amounts::ZERO);
}
