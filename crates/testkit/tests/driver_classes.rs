//! Each of the ten error classes, raised end to end by a driver that deserves it, with what becomes of the driver.

#![cfg(target_os = "linux")]

use std::time::Duration;

use pintle_sdk::driver::{Artifact, Core, CoreError, DriverLaunch, ErrorClass, Fault, Invoke, Method, Permission};
use pintle_sdk::process::Program;
use pintle_testkit::deaths::Watched;
use pintle_testkit::drivers::{All, LIMIT, Place, attempts, invoke, plan, prepared, test};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");
const SOON: Duration = Duration::from_millis(50);

fn place() -> Place {
    Place::new(DRIVER, KEEPER)
}

async fn start_fails(launch: DriverLaunch) -> CoreError {
    let failed = Core::start(launch).await.expect_err("the driver does not start");
    assert!(failed.ended.is_none_or(|ended| ended.outcome.survivors.is_empty()));
    failed.error
}

/// An invocation that kills the driver, with the class that it is for.
async fn dies(launch: DriverLaunch, invoke: Invoke, class: ErrorClass) -> CoreError {
    let mut core = prepared(launch, &[]).await;
    let driver = Watched::new(core.id());
    let mut run = core.invoke(invoke).expect("an invocation");
    let error = All::of(&mut run).await.expect_err("it does not end well");
    assert_eq!(error.class(), class, "{error}");
    assert!(driver.ends_within(LIMIT), "the driver was killed");
    error
}

#[test]
fn unsupported_rpc_version() {
    test(async {
        let place = place();
        assert_eq!(start_fails(place.launch("old")).await.class(), ErrorClass::UnsupportedRpcVersion);
    });
}

#[test]
fn invalid_state() {
    test(async {
        let place = place();
        let mut core = prepared(place.launch(""), &[]).await;
        let error = core.prepare(plan(&[])).await.expect_err("it is prepared already");
        assert_eq!(error.class(), ErrorClass::InvalidState);
        core.reset().await.expect("the driver knows nothing of it");
    });
}

#[test]
fn invalid_request() {
    test(async {
        let place = place();
        dies(place.launch(""), invoke(1, "garbage", b""), ErrorClass::InvalidRequest).await;
        // An invocation's id is used once.
        let mut core = prepared(place.launch(""), &[]).await;
        let mut run = core.invoke(invoke(1, "echo", b"")).expect("an invocation");
        All::of(&mut run).await.expect("it ends well");
        let error = core.invoke(invoke(1, "echo", b"")).map(|_| ()).expect_err("it is used");
        assert_eq!(error.class(), ErrorClass::InvalidRequest);
    });
}

#[test]
fn permission_denied() {
    test(async {
        let place = place();
        assert_eq!(start_fails(place.launch("bad-permission")).await.class(), ErrorClass::PermissionDenied);
        for permission in ["temporary-git-repo", Permission::TARGET_EXEC] {
            let mut core = Core::start(place.launch("")).await.expect("the driver starts");
            let error = core.prepare(plan(&[permission])).await.expect_err("it was neither requested nor granted");
            assert_eq!(error.class(), ErrorClass::PermissionDenied, "{permission}");
        }
    });
}

#[test]
fn budget_exceeded() {
    test(async {
        let place = place();
        let late = Invoke { deadline: SOON, ..invoke(1, "stubborn", b"") };
        let error = dies(place.launch("no-cancel"), late, ErrorClass::BudgetExceeded).await;
        assert!(matches!(error, CoreError::Deadline));

        let mut launch = place.launch("");
        launch.rules.limits.folder_bytes = Some(1 << 20);
        let mut core = prepared(launch, &[]).await;
        let error = attempts(&mut core, 1, &[("files", "33554432"), ("hold", "")]).await.expect_err("too much");
        assert_eq!(error.class(), ErrorClass::BudgetExceeded, "{error}");
    });
}

#[test]
fn capability_mismatch() {
    test(async {
        let place = place();
        let mut core = prepared(place.launch("no-cancel"), &[]).await;
        let error = core.invoke(invoke(1, "nope", b"")).map(|_| ()).expect_err("it is not declared");
        assert_eq!(error.class(), ErrorClass::CapabilityMismatch);
        let mut run = core.invoke(invoke(1, "refuse", b"")).expect("it is declared");
        let error = All::of(&mut run).await.expect_err("and refused");
        assert_eq!(error.class(), ErrorClass::CapabilityMismatch);
        let mut run = core.invoke(invoke(2, "stubborn", b"")).expect("an invocation");
        let error = run.cancel("enough", LIMIT).expect_err("it does not declare cancellation");
        assert_eq!(error.class(), ErrorClass::CapabilityMismatch);
    });
}

#[test]
fn driver_internal() {
    test(async {
        let place = place();
        let error = dies(place.launch(""), invoke(1, "die", b""), ErrorClass::DriverInternal).await;
        assert!(matches!(error, CoreError::Fault(Fault::Closed)), "{error}");
    });
}

/// Every request has a deadline, and a driver that lets it pass is killed.
#[test]
fn driver_internal_for_a_request_without_an_answer() {
    test(async {
        let place = place();
        let with_deadline = |fault| {
            let mut launch = place.launch(fault);
            launch.session.request_timeout = SOON;
            launch
        };
        let error = start_fails(with_deadline("hang-hello")).await;
        assert_eq!(error.class(), ErrorClass::DriverInternal);
        assert!(matches!(error, CoreError::TimedOut { method: Method::Hello }), "{error}");

        // A start under load takes longer than the deadline of the test, so only the step in question has a short one.
        let mut launch = place.launch("hang-prepare");
        launch.session.request_timeout = Duration::from_secs(2);
        let mut core = Core::start(launch).await.expect("the driver starts");
        let driver = Watched::new(core.id());
        let error = core.prepare(plan(&[])).await.expect_err("it does not answer");
        assert_eq!(error.class(), ErrorClass::DriverInternal);
        assert!(matches!(error, CoreError::TimedOut { method: Method::Prepare }), "{error}");
        assert!(driver.ends_within(LIMIT));

        let mut launch = place.launch("hang-shutdown");
        launch.ladder.close_grace = SOON;
        launch.ladder.term_grace = SOON;
        let core = prepared(launch, &[]).await;
        let driver = Watched::new(core.id());
        let ended = core.shutdown().await;
        assert!(matches!(ended.error, Some(CoreError::TimedOut { method: Method::Shutdown })), "{:?}", ended.error);
        assert!(driver.ends_within(LIMIT));
    });
}

#[test]
fn cancellation_timeout() {
    test(async {
        let place = place();
        let late = Invoke { deadline: SOON, cancel_grace: SOON, ..invoke(1, "stubborn", b"") };
        let error = dies(place.launch(""), late, ErrorClass::CancellationTimeout).await;
        assert!(matches!(error, CoreError::Fault(Fault::CancellationTimeout)), "{error}");
    });
}

#[test]
fn malformed_observation() {
    test(async {
        let place = place();
        dies(place.launch(""), invoke(1, "backwards", b""), ErrorClass::MalformedObservation).await;
    });
}

/// A copy of the driver, which may be changed.
fn copied(place: &Place) -> (DriverLaunch, std::path::PathBuf) {
    let path = place.base.path().join("the-driver");
    std::fs::copy(DRIVER, &path).expect("a copy");
    let mut launch = place.launch("");
    launch.program = Program::at(&path).expect("it is executable");
    launch.artifact = Some(Artifact::measure(&path).expect("a digest"));
    (launch, path)
}

/// Replaced, because a program that runs cannot be written to.
fn replace(path: &std::path::Path, content: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).expect("a file");
    std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    std::fs::rename(&new, path).expect("rename");
}

#[test]
fn artifact_mismatch() {
    test(async {
        // It declares another digest than that of the file that it should be.
        let place = place();
        let mut launch = place.launch("");
        launch.artifact = Some(Artifact::measure(KEEPER).expect("a digest"));
        let error = start_fails(launch).await;
        assert!(matches!(error, CoreError::Fault(Fault::Artifact)), "{error}");
        assert_eq!(error.class(), ErrorClass::ArtifactMismatch);

        // The file is changed before the driver starts: it does not.
        let (launch, path) = copied(&place);
        let original = std::fs::read(&path).expect("a file");
        replace(&path, b"#!/bin/true\n");
        let error = start_fails(launch).await;
        assert!(matches!(error, CoreError::Artifact { .. }), "{error}");
        assert_eq!(error.class(), ErrorClass::ArtifactMismatch);

        // It is changed while the driver runs: it comes to light at the end.
        replace(&path, &original);
        let (launch, path) = copied(&place);
        let core = prepared(launch, &[]).await;
        replace(&path, b"#!/bin/true\n");
        let ended = core.shutdown().await;
        assert_eq!(ended.error.map(|error| error.class()), Some(ErrorClass::ArtifactMismatch));

        // It is touched and stays the same: nothing is wrong.
        let (launch, path) = copied(&place);
        let core = prepared(launch, &[]).await;
        replace(&path, &original);
        assert!(core.shutdown().await.error.is_none());
    });
}
