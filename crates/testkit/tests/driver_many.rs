//! Several invocations at once on one real driver process (issue item 8).

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::driver::{
    CancelCause, Core, CoreError, ErrorClass, InputKind, InputTaken, InstanceId, InvocationEnd, Observed, Permission,
    Progress, TerminalStatus,
};
use pintle_testkit::deaths::Watched;
use pintle_testkit::drivers::{Place, invoke, plan, test};
use serde_json::Value;

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");

fn base() -> Place {
    Place::new(DRIVER, KEEPER)
}

async fn many(base: &Place, input: InputKind) -> Core {
    let mut launch = base.launch("many");
    launch.input = input;
    let mut core = Core::start(launch).await.expect("the driver starts");
    core.prepare(plan(&["ephemeral-input", Permission::COMPANION_STREAM])).await.expect("the driver prepares");
    assert_eq!(core.max_active_invocations(), 4);
    core
}

/// What came of each invocation.
#[derive(Default)]
struct Of {
    payloads: Vec<Value>,
    data: Vec<u8>,
    end: Option<InvocationEnd>,
}

#[derive(Default)]
struct All(BTreeMap<InstanceId, Of>);

impl All {
    /// Takes what comes, until `enough` of it has.
    async fn until(&mut self, core: &mut Core, enough: impl Fn(&Self) -> bool) -> Result<(), CoreError> {
        while !enough(self) {
            let Some((invocation_id, progress)) = core.next().await? else { break };
            let of = self.0.entry(invocation_id).or_default();
            match progress {
                Progress::Observed(Observed::Observation(params)) => {
                    let payload = params.payload.map(|payload| serde_json::from_str(payload.as_str()).expect("JSON"));
                    of.payloads.extend(payload);
                }
                Progress::Observed(Observed::Data { bytes, .. }) => of.data.extend_from_slice(&bytes),
                Progress::Ended(end) => of.end = Some(end),
            }
        }
        Ok(())
    }

    fn ended(&self) -> usize {
        self.0.values().filter(|of| of.end.is_some()).count()
    }

    fn end(&self, invocation_id: &InstanceId) -> &InvocationEnd {
        self.0[invocation_id].end.as_ref().expect("it has ended")
    }
}

#[test]
fn each_gets_its_own_input_and_gives_its_own_observations() {
    for kind in [InputKind::Pipe, InputKind::Socket, InputKind::Memfd] {
        test(async {
            let base = base();
            let mut core = many(&base, kind).await;
            let inputs: Vec<Vec<u8>> = (1..=4_usize).map(|n| vec![b'a' + n as u8; n * 50_000]).collect();
            let mut ids = Vec::new();
            for (number, input) in (1..).zip(&inputs) {
                ids.push(core.begin(invoke(number, "echo", input)).expect("there is room"));
            }
            assert_eq!(core.active().len(), 4);
            let more = core.begin(invoke(9, "echo", b"")).expect_err("no more were declared");
            assert_eq!(more.class(), ErrorClass::InvalidState);
            let mut all = All::default();
            all.until(&mut core, |_| false).await.expect("all end well");
            for (invocation_id, input) in ids.iter().zip(&inputs) {
                let of = &all.0[invocation_id];
                assert_eq!(of.payloads[0]["bytes"], input.len());
                assert!(of.payloads[0]["text"].as_str().expect("text").bytes().all(|byte| byte == input[0]));
                let end = all.end(invocation_id);
                assert_eq!((end.cancelled, end.input_taken), (None, InputTaken::Whole));
            }
            // The session is prepared again, for one alone as well.
            core.reset().await.expect("reset");
            assert!(core.shutdown().await.error.is_none());
        });
    }
}

#[test]
fn companion_streams_of_several_interleave_and_stay_apart() {
    test(async {
        let base = base();
        let mut core = many(&base, InputKind::Pipe).await;
        let inputs: Vec<Vec<u8>> = (0..4_u8).map(|n| vec![n; 1_500_000]).collect();
        let mut ids = Vec::new();
        for (number, input) in (1..).zip(&inputs) {
            ids.push(core.begin(invoke(number, "stream", input)).expect("there is room"));
        }
        let mut all = All::default();
        all.until(&mut core, |_| false).await.expect("all end well");
        for (invocation_id, input) in ids.iter().zip(&inputs) {
            assert!(all.0[invocation_id].data == *input);
        }
    });
}

#[test]
fn one_is_cancelled_one_runs_out_of_time_and_one_goes_on() {
    test(async {
        let base = base();
        let mut core = many(&base, InputKind::Pipe).await;
        let cancelled = core.begin(invoke(1, "wait", b"")).expect("there is room");
        let lasting = core.begin(invoke(2, "wait", b"")).expect("there is room");
        let mut late = invoke(3, "wait", b"");
        late.deadline = Duration::from_millis(50);
        let late = core.begin(late).expect("there is room");
        core.cancel(cancelled, "enough", Duration::from_secs(30)).expect("cancel");
        let mut all = All::default();
        all.until(&mut core, |all| all.ended() == 2).await.expect("two end");
        assert_eq!(all.end(&cancelled).cancelled, Some(CancelCause::Requested));
        assert_eq!(all.end(&late).cancelled, Some(CancelCause::Deadline));
        assert_eq!(core.active().collect::<Vec<_>>(), [&lasting]);
        let again = core.cancel(cancelled, "again", Duration::from_secs(30)).expect_err("it is over");
        assert_eq!(again.class(), ErrorClass::InvalidRequest);
        // A short one beside the one that goes on.
        let short = core.begin(invoke(4, "echo", b"x")).expect("there is room");
        all.until(&mut core, |all| all.0.get(&short).is_some_and(|of| of.end.is_some())).await.expect("it ends");
        core.cancel(lasting, "enough", Duration::from_secs(30)).expect("cancel");
        all.until(&mut core, |all| all.ended() == 4).await.expect("the last ends");
        assert_eq!(all.end(&lasting).outcome.as_ref().map(|end| end.status), Ok(TerminalStatus::Cancelled));
        assert!(core.next().await.expect("nothing is left").is_none());
    });
}

#[test]
fn a_refusal_and_a_panic_of_one_leave_the_others_alone() {
    test(async {
        let base = base();
        let mut core = many(&base, InputKind::Pipe).await;
        let lasting = core.begin(invoke(1, "wait", b"")).expect("there is room");
        let refused = core.begin(invoke(2, "refuse", b"")).expect("there is room");
        let panics = core.begin(invoke(3, "panic", b"")).expect("there is room");
        let mut all = All::default();
        all.until(&mut core, |all| all.ended() == 2).await.expect("two end");
        let class = all.end(&refused).outcome.as_ref().map_err(|error| error.data.class);
        assert_eq!(class.expect_err("it was refused"), ErrorClass::CapabilityMismatch);
        assert_eq!(all.end(&panics).outcome.as_ref().map(|end| end.status), Ok(TerminalStatus::Errored));
        // For itself alone no invocation can have Core now.
        let alone = core.invoke(invoke(4, "echo", b"")).expect_err("one is active").class();
        assert_eq!(alone, ErrorClass::InvalidState);
        core.cancel(lasting, "enough", Duration::from_secs(30)).expect("cancel");
        all.until(&mut core, |_| false).await.expect("the last ends");
    });
}

#[test]
fn what_the_driver_does_wrong_in_one_ends_all_with_its_class() {
    for (operation, class) in [
        ("die", ErrorClass::DriverInternal),
        ("garbage", ErrorClass::InvalidRequest),
        ("backwards", ErrorClass::MalformedObservation),
    ] {
        test(async {
            let base = base();
            let mut core = many(&base, InputKind::Pipe).await;
            let driver = Watched::new(core.id());
            core.begin(invoke(1, "wait", b"")).expect("there is room");
            core.begin(invoke(2, operation, b"")).expect("there is room");
            let error = All::default().until(&mut core, |_| false).await.expect_err("all end");
            assert_eq!(error.class(), class, "{operation}: {error}");
            assert!(core.next().await.is_err() && core.begin(invoke(3, "echo", b"")).is_err());
            assert!(driver.ends_within(Duration::from_secs(30)));
        });
    }
}

#[test]
fn a_cancel_that_is_not_heeded_ends_the_driver() {
    test(async {
        let base = base();
        let mut core = many(&base, InputKind::Pipe).await;
        core.begin(invoke(1, "wait", b"")).expect("there is room");
        let stubborn = core.begin(invoke(2, "stubborn", b"")).expect("there is room");
        core.cancel(stubborn, "enough", Duration::from_millis(50)).expect("cancel");
        let error = All::default().until(&mut core, |_| false).await.expect_err("all end");
        assert_eq!(error.class(), ErrorClass::CancellationTimeout);
    });
}

#[test]
fn a_serial_driver_stays_serial() {
    test(async {
        let base = base();
        let mut core = Core::start(base.launch("")).await.expect("the driver starts");
        core.prepare(plan(&["ephemeral-input"])).await.expect("the driver prepares");
        assert_eq!(core.max_active_invocations(), 1);
        let first = core.begin(invoke(1, "wait", b"")).expect("there is room");
        let second = core.begin(invoke(2, "wait", b"")).expect_err("there is none").class();
        assert_eq!(second, ErrorClass::InvalidState);
        core.cancel(first, "enough", Duration::from_secs(30)).expect("cancel");
        All::default().until(&mut core, |_| false).await.expect("it ends");
    });
}
