//! Core against a real driver process, through the keeper: what works, and each way in which a driver can fail.

#![cfg(target_os = "linux")]

use std::time::Duration;

use pintle_sdk::driver::{
    CancelCause, CommandError, Core, CoreConfig, CoreError, ErrorClass, Fault, Fixture, Invoke, Permission, Plan,
    StartError, TerminalStatus, artifact_digest,
};
use pintle_sdk::process::{Exit, Shim};
use pintle_testkit::deaths::Watched;
use pintle_testkit::drivers::{self, All, LIMIT, Place, invoke, test};
use pintle_wire::Digest;
use serde_json::{Value, json};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");

fn base() -> Place {
    Place::new(DRIVER, KEEPER)
}

/// A prepared driver with the given permissions.
async fn prepared(base: &Place, fault: &str, permissions: &[&str]) -> Core {
    drivers::prepared(base.launch(fault), permissions).await
}

async fn fails(core: &mut Core, operation: &str) -> CoreError {
    let mut run = core.invoke(invoke(1, operation, b"")).expect("the operation is declared");
    All::of(&mut run).await.expect_err("the invocation fails")
}

#[test]
fn a_whole_session_in_order() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &["ephemeral-input"]).await;
        let driver = core.driver().expect("a handshake").clone();
        assert_eq!(driver.identity.artifact_digest, artifact_digest(DRIVER.as_ref()).expect("a digest"));
        let input = "x".repeat(300_000);
        for number in 1..=3 {
            let mut run = core.invoke(invoke(number, "echo", input.as_bytes())).expect("an invocation");
            let all = All::of(&mut run).await.expect("it ends well");
            assert_eq!(run.completed().map(|completed| completed.status), Some(TerminalStatus::Completed));
            assert_eq!(all.payload(0)["bytes"], 300_000);
            core.reset().await.expect("reset");
            assert_eq!(core.capabilities().await.expect("capabilities"), driver.capabilities);
        }
        let work = core.work_dir().to_owned();
        let ended = core.shutdown().await;
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert_eq!(ended.outcome.exit, Some(Exit::Code(0)), "{}", ended.stderr.to_text());
        assert!(!work.exists(), "the work directory is removed");
    });
}

#[test]
fn a_driver_sees_an_empty_environment_its_own_directories_and_its_fixtures() {
    test(async {
        let base = base();
        let mut core = Core::start(base.launch("")).await.expect("the driver starts");
        let fixtures = vec![Fixture { kind: "Fixture".into(), bytes: b"content".to_vec() }];
        let plan = Plan { digest: Digest::of(b"plan"), approved: Vec::new(), fixtures };
        core.prepare(plan).await.expect("the driver prepares");
        let mut run = core.invoke(invoke(1, "environment", b"")).expect("an invocation");
        let seen = All::of(&mut run).await.expect("it ends well").payload(0);
        let mut names: Vec<&str> = seen["names"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH", "PINTLE_DATA_STREAM", "TMPDIR"]);
        assert_eq!(seen["cwd"], json!(core.work_dir().canonicalize().expect("it exists")));
        assert_eq!(seen["fixtures"], 1);
    });
}

#[test]
fn a_companion_stream_arrives_whole() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[Permission::COMPANION_STREAM]).await;
        assert!(!core.work_dir().join("data.fifo").exists(), "its name is gone once both ends are open");
        let input: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut run = core.invoke(invoke(1, "stream", &input)).expect("an invocation");
        let all = All::of(&mut run).await.expect("it ends well");
        assert_eq!((all.data == input, all.streams_ended), (true, 1));
        // A stream that its author left open is ended with the invocation.
        let mut run = core.invoke(invoke(2, "half-stream", b"")).expect("an invocation");
        let all = All::of(&mut run).await.expect("it ends well");
        assert_eq!((all.data.as_slice(), all.streams_ended), (&b"half"[..], 1));
    });
}

/// The driver's own end refuses what leads over its limits, and nothing of it is sent. So the invocation has an end, and the
/// driver takes the next one.
#[test]
fn a_driver_that_writes_beyond_its_own_stream_limits_lives_on() {
    test(async {
        let base = base();
        let mut launch = base.launch("short-streams");
        launch.session.max_data_frame_bytes = 400;
        let mut core = drivers::prepared(launch, &["ephemeral-input", Permission::COMPANION_STREAM]).await;
        // Of the first stream two frames fit; the third leads over 1000 bytes.
        for (number, bytes, sent, status) in
            [(1, 3000, 800, TerminalStatus::Errored), (2, 1000, 1000, TerminalStatus::Completed)]
        {
            let mut run = core.invoke(invoke(number, "stream", &vec![7; bytes])).expect("an invocation");
            let all = All::of(&mut run).await.expect("it ends");
            assert_eq!((all.data.len(), all.streams_ended), (sent, 1));
            assert_eq!(run.completed().map(|completed| completed.status), Some(status));
        }
        let ended = core.shutdown().await;
        assert_eq!(ended.outcome.exit, Some(Exit::Code(0)), "{}", ended.stderr.to_text());
    });
}

/// What leads over Core's limits is the driver's fault, whatever its own are.
#[test]
fn a_driver_that_writes_beyond_cores_stream_limits_exceeds_its_budget() {
    test(async {
        let base = base();
        let mut launch = base.launch("long-streams");
        launch.session.stream_limits.max_stream_bytes = 1000;
        let mut core = drivers::prepared(launch, &["ephemeral-input", Permission::COMPANION_STREAM]).await;
        let mut run = core.invoke(invoke(1, "stream", &[7; 3000])).expect("an invocation");
        let error = All::of(&mut run).await.expect_err("it is too much");
        assert_eq!(error.class(), ErrorClass::BudgetExceeded, "{error}");
    });
}

#[test]
fn a_lower_frame_bound_reaches_the_driver() {
    test(async {
        let base = base();
        let mut launch = base.launch("");
        launch.session.max_data_frame_bytes = 1000;
        let mut core = Core::start(launch).await.expect("the driver starts");
        let approved = vec![Permission::new(Permission::COMPANION_STREAM)];
        let plan = Plan { digest: Digest::of(b"plan"), approved, fixtures: Vec::new() };
        core.prepare(plan).await.expect("the driver prepares");
        let mut run = core.invoke(invoke(1, "stream", &[7; 10_000])).expect("an invocation");
        // A frame over the bound would be a fault.
        assert_eq!(All::of(&mut run).await.expect("it ends well").data, [7; 10_000]);
    });
}

#[test]
fn a_stream_without_permission_is_refused_on_the_drivers_side() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let mut run = core.invoke(invoke(1, "stream", b"bytes")).expect("an invocation");
        let all = All::of(&mut run).await.expect("it ends");
        assert!(all.observations.is_empty());
        assert_eq!(run.completed().map(|completed| completed.status), Some(TerminalStatus::Errored));
    });
}

#[test]
fn many_observations_keep_their_order() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let mut run = core.invoke(invoke(1, "flood", b"20000")).expect("an invocation");
        let all = All::of(&mut run).await.expect("it ends well");
        assert!(all.observations.iter().map(|params| params.sequence).eq(0..20_000));
        assert!(all.observations.is_sorted_by_key(|params| params.monotonic_ns));
    });
}

#[test]
fn a_cancel_ends_an_invocation_and_the_session_goes_on() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let mut run = core.invoke(invoke(1, "wait", b"")).expect("an invocation");
        run.next().await.expect("it waits").expect("an observation");
        run.cancel("enough", LIMIT).expect("it can be cancelled");
        run.cancel("enough, I said", LIMIT).expect("twice, too");
        let all = All::of(&mut run).await.expect("it ends well");
        assert!(!all.observations.is_empty());
        assert_eq!(run.completed().map(|completed| completed.status), Some(TerminalStatus::Cancelled));
        assert_eq!(run.cancelled(), Some(CancelCause::Requested));
        let mut run = core.invoke(invoke(2, "echo", b"again")).expect("an invocation");
        assert_eq!(All::of(&mut run).await.expect("it ends well").payload(0)["text"], "again");
    });
}

#[test]
fn a_deadline_cancels_and_then_kills() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let deadline = Duration::from_millis(50);
        let mut run = core.invoke(Invoke { deadline, ..invoke(1, "wait", b"") }).expect("an invocation");
        All::of(&mut run).await.expect("it ends when it is cancelled");
        assert_eq!(run.cancelled(), Some(CancelCause::Deadline));

        // The number that it has for itself is that of its own namespace.
        let driver = Watched::new(core.id());
        let mut run = core.invoke(Invoke { deadline, ..invoke(2, "stubborn", b"") }).expect("an invocation");
        run.next().await.expect("it runs").expect("an observation comes first");
        let error = All::of(&mut run).await.expect_err("it does not end");
        assert_eq!(error.class(), ErrorClass::CancellationTimeout);
        assert!(matches!(error, CoreError::Fault(Fault::CancellationTimeout)));
        assert!(driver.ends_within(LIMIT), "the driver was killed");
        assert!(matches!(core.reset().await, Err(CoreError::Command(CommandError::Over))));
    });
}

#[test]
fn a_driver_that_cannot_cancel_is_killed_at_its_deadline() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "no-cancel", &[]).await;
        let deadline = Duration::from_millis(50);
        let mut run = core.invoke(Invoke { deadline, ..invoke(1, "stubborn", b"") }).expect("an invocation");
        let error = run.cancel("enough", LIMIT).expect_err("it does not declare cancellation");
        assert_eq!(error.class(), ErrorClass::CapabilityMismatch);
        let error = All::of(&mut run).await.expect_err("it does not end");
        assert_eq!(error.class(), ErrorClass::BudgetExceeded);
    });
}

#[test]
fn a_driver_that_dies_is_a_driver_fault_and_its_stderr_is_kept() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let error = fails(&mut core, "die").await;
        assert_eq!(error.class(), ErrorClass::DriverInternal);
        let ended = core.shutdown().await;
        assert!(matches!(ended.outcome.exit, Some(Exit::Signal(_))), "{:?}", ended.outcome.exit);
        // A stray print of the driver ended up here, too, and broke no frame.
        assert_eq!(ended.stderr.to_text(), "stray print\nthe fake driver dies now\n");
    });
}

#[test]
fn a_panic_in_a_driver_ends_the_invocation_and_not_the_driver() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let mut run = core.invoke(invoke(1, "panic", b"")).expect("an invocation");
        All::of(&mut run).await.expect("it ends");
        assert_eq!(run.completed().map(|completed| completed.status), Some(TerminalStatus::Errored));
        let mut run = core.invoke(invoke(2, "echo", b"alive")).expect("an invocation");
        assert_eq!(All::of(&mut run).await.expect("it ends well").payload(0)["text"], "alive");
    });
}

#[test]
fn words_on_standard_output_are_a_protocol_fault() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let error = fails(&mut core, "garbage").await;
        assert!(matches!(error, CoreError::Fault(Fault::Frame(_))), "{error}");
    });
}

#[test]
fn a_refusal_leaves_the_session_as_it_was() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let error = fails(&mut core, "refuse").await;
        assert_eq!(error.class(), ErrorClass::CapabilityMismatch);
        // The refused invocation id is free again.
        let mut run = core.invoke(invoke(1, "echo", b"")).expect("an invocation");
        All::of(&mut run).await.expect("it ends well");
        let unknown = core.invoke(invoke(2, "nope", b"")).map(|_| ()).expect_err("it is not declared");
        assert_eq!(unknown.class(), ErrorClass::CapabilityMismatch);
    });
}

async fn start_fails(fault: &str, change: impl FnOnce(&mut CoreConfig)) -> StartError {
    let base = base();
    let mut launch = base.launch(fault);
    change(&mut launch.session);
    Core::start(launch).await.expect_err("the driver does not start")
}

#[test]
fn a_handshake_fails_with_its_class() {
    test(async {
        let error = start_fails("old", |_| {}).await;
        assert_eq!(error.error.class(), ErrorClass::UnsupportedRpcVersion);
        let error = start_fails("bad-permission", |_| {}).await;
        assert_eq!(error.error.class(), ErrorClass::PermissionDenied);
        let error = start_fails("", |session| session.expected_artifact = Some(Digest::of(b"another"))).await;
        assert_eq!(error.error.class(), ErrorClass::ArtifactMismatch);
        let error = start_fails("hang-hello", |session| session.request_timeout = Duration::from_millis(50)).await;
        assert!(matches!(error.error, CoreError::TimedOut { .. }), "{error}");
        assert!(error.ended.is_some_and(|ended| ended.outcome.survivors.is_empty()));
    });
}

#[test]
fn dropping_core_kills_the_driver_in_the_middle_of_an_invocation() {
    test(async {
        let base = base();
        let mut core = prepared(&base, "", &[]).await;
        let driver = Watched::new(core.id());
        let mut run = core.invoke(invoke(1, "stubborn", b"")).expect("an invocation");
        run.next().await.expect("it runs").expect("an observation");
        drop(core);
        assert!(driver.ends_within(LIMIT), "the driver lives on");
    });
}

#[test]
fn without_a_keeper_there_is_no_companion_stream_and_the_rest_works() {
    test(async {
        let base = base();
        let mut launch = base.launch("");
        launch.shim = Shim::None;
        let mut core = Core::start(launch).await.expect("the driver starts");
        let approved = vec![Permission::new(Permission::COMPANION_STREAM), Permission::new("x-fake")];
        let plan = Plan { digest: Digest::of(b"plan"), approved, fixtures: Vec::new() };
        let accepted = core.prepare(plan).await.expect("the driver prepares");
        assert_eq!(accepted, [Permission::new("x-fake")]);
        let mut run = core.invoke(invoke(1, "echo", b"plain")).expect("an invocation");
        assert_eq!(All::of(&mut run).await.expect("it ends well").payload(0)["text"], "plain");
    });
}
