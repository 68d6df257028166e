//! The driver conformance kit against a driver that keeps to the protocol, and against one for each way not to.

#![cfg(target_os = "linux")]

use std::time::Duration;

use pintle_check::judge::FailOn;
use pintle_check::kit::{
    DEFAULT_MAX_SESSION_BYTES, DriverReport, KitOperation, KitRequest, REQUIREMENTS, check_driver,
};
use pintle_sdk::driver::artifact_digest;
use pintle_sdk::process::{Environment, Ladder, Program, Shim};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const ROGUE: &str = env!("CARGO_BIN_EXE_rogue-driver");

/// Long enough for a loaded machine; only drivers that never answer wait for it.
const ANSWER: Duration = Duration::from_secs(30);

fn request(scratch: &tempfile::TempDir, fault: &str, cases: &[&str]) -> KitRequest {
    let operation = |name: &str| Some(KitOperation { name: name.to_owned(), input: b"input".to_vec() });
    KitRequest {
        program: Program::at(ROGUE).expect("the driver"),
        args: vec![fault.into()],
        env: Environment::empty(),
        shim: Shim::Path(KEEPER.into()),
        cases: cases.iter().map(ToString::to_string).collect(),
        artifact: Some(artifact_digest(ROGUE.as_ref()).expect("a digest")),
        operation: operation("soon"),
        lasting: operation("lasting"),
        answer: ANSWER,
        invocation: ANSWER,
        cancel: ANSWER,
        ladder: Ladder::default(),
        max_session_bytes: DEFAULT_MAX_SESSION_BYTES,
        scratch: scratch.path().to_owned(),
    }
}

fn report(request: KitRequest) -> DriverReport {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(check_driver(request, FailOn::Must, |_| {})).expect("a report")
}

fn failed(report: &DriverReport) -> Vec<&str> {
    let bad = report.requirements.iter().filter(|item| matches!(item.outcome.as_str(), "fail" | "warn"));
    bad.map(|item| item.id.as_str()).collect()
}

#[test]
fn a_driver_that_keeps_to_the_protocol_passes_everything() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let report = report(request(&scratch, "", &[]));
    let open: Vec<_> = report.requirements.iter().filter(|item| item.outcome != "pass").collect();
    // A serial driver does not say that it could do several at once, so nothing is known about that.
    assert!(open.iter().all(|item| item.area == "conc" && item.outcome == "skipped"), "{open:#?}");
    assert_eq!(open.len(), 6);
    assert_eq!((report.verdict.as_str(), report.requirements.len()), ("conformant", REQUIREMENTS.len()));
    assert_eq!(scratch.path().read_dir().expect("it can be read").count(), 0, "private directories are removed");
}

#[test]
fn a_driver_with_several_invocations_at_once_passes_everything() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let report = report(request(&scratch, "many", &[]));
    let open: Vec<_> = report.requirements.iter().filter(|item| item.outcome != "pass").map(|item| &*item.id).collect();
    assert_eq!((open, &*report.verdict), (vec!["DRV-INVOKE-008"], "conformant"), "it is not serial");
}

/// A requirement that saw nothing is never met.
#[test]
fn of_a_driver_that_says_nothing_nothing_is_known() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let mut request = request(&scratch, "says-nothing", &[]);
    request.answer = Duration::from_secs(3);
    let report = report(request);
    assert_eq!(failed(&report), ["DRV-OUT-006"]);
    let passed: Vec<_> = report.requirements.iter().filter(|item| item.outcome == "pass").collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

/// Tries `cases` alone, so that each fault costs a session or two. Returns what is wrong with what was found.
fn check(fault: &str, cases: &[&str], expected: &[&str]) -> Option<String> {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let report = report(request(&scratch, fault, cases));
    let musts = expected
        .iter()
        .any(|id| REQUIREMENTS.iter().any(|requirement| requirement.id == *id && requirement.level.as_str() == "must"));
    let right = failed(&report) == expected && (report.verdict == "nonconformant") == musts;
    (!right).then(|| format!("{fault}: {} {:?}, expected {expected:?}", report.verdict, failed(&report)))
}

/// Each fault, what is tried, and exactly what fails.
const FAULTS: &[(&str, &[&str], &[&str])] = &[
    ("stray-print", &[], &["DRV-OUT-001"]),
    ("pretty", &[], &["DRV-OUT-001"]),
    ("no-identity", &[], &["DRV-HELLO-001"]),
    ("any-range", &["DRV-HELLO-002", "DRV-HELLO-004"], &["DRV-HELLO-002", "DRV-HELLO-004"]),
    ("exact-range", &["DRV-HELLO-003"], &["DRV-HELLO-003"]),
    ("hello-again", &["DRV-HELLO-005"], &["DRV-HELLO-005"]),
    ("wrong-artifact", &["DRV-HELLO-006"], &["DRV-HELLO-006"]),
    ("unknown-permission", &[], &["DRV-PERM-001"]),
    ("takes-permissions", &["DRV-LIFE-001"], &["DRV-PERM-002"]),
    ("ids-as-strings", &["DRV-FRAME-001"], &["DRV-OUT-005"]),
    ("small-frames", &["DRV-FRAME-005"], &["DRV-OUT-006"]),
    ("dies-of-bad-lines", &["DRV-FRAME-006", "DRV-FRAME-007"], &["DRV-FRAME-006", "DRV-FRAME-007"]),
    ("answers-batches", &["DRV-FRAME-011"], &["DRV-FRAME-011"]),
    ("duplicate-names", &["DRV-FRAME-012"], &["DRV-FRAME-012"]),
    ("any-version", &["DRV-FRAME-013"], &["DRV-FRAME-013"]),
    ("any-id", &["DRV-FRAME-014"], &["DRV-OUT-002"]),
    ("unknown-method-class", &["DRV-FRAME-015"], &["DRV-FRAME-015"]),
    ("any-member", &["DRV-FRAME-016"], &["DRV-FRAME-016"]),
    ("answers-notifications", &["DRV-FRAME-018"], &["DRV-OUT-005"]),
    ("any-plan", &["DRV-LIFE-002", "DRV-INVOKE-003"], &["DRV-LIFE-002", "DRV-INVOKE-003"]),
    ("other-capabilities", &["DRV-LIFE-003"], &["DRV-LIFE-003"]),
    ("early-shutdown", &["DRV-LIFE-005"], &["DRV-LIFE-005"]),
    ("invokes-early", &["DRV-LIFE-005"], &["DRV-LIFE-005"]),
    ("prepare-again", &["DRV-LIFE-006"], &["DRV-LIFE-006"]),
    ("cancels-nothing", &["DRV-LIFE-007"], &["DRV-LIFE-007"]),
    ("exit-code", &["DRV-LIFE-008"], &["DRV-LIFE-008"]),
    ("works-on", &["DRV-LIFE-009"], &["DRV-LIFE-009"]),
    ("ignores-the-end", &["DRV-LIFE-010"], &["DRV-LIFE-010"]),
    ("answers-twice", &["DRV-LIFE-003"], &["DRV-OUT-005"]),
    ("long-details", &["DRV-HELLO-005", "DRV-OUT-007"], &[]),
    ("leaks-token", &["DRV-LIFE-001"], &["DRV-OUT-010"]),
    ("leaks-handle", &["DRV-INVOKE-001"], &["DRV-OUT-010"]),
    ("stays-behind", &["DRV-INVOKE-001"], &["DRV-OUT-011"]),
    ("reset-forgets-all", &["DRV-INVOKE-006"], &["DRV-INVOKE-006"]),
    ("any-operation", &["DRV-INVOKE-002"], &["DRV-INVOKE-002"]),
    ("one-invocation", &["DRV-INVOKE-004"], &["DRV-INVOKE-004"]),
    ("reuses-ids", &["DRV-INVOKE-005"], &["DRV-INVOKE-005"]),
    ("dies-mid-frame", &["DRV-INVOKE-001"], &["DRV-OUT-001"]),
    ("requests", &["DRV-INVOKE-001"], &["DRV-OUT-004"]),
    ("huge-frame", &["DRV-INVOKE-001"], &["DRV-OUT-003"]),
    ("bad-observation", &["DRV-INVOKE-001"], &["DRV-OUT-002"]),
    ("repeats-sequence", &["DRV-INVOKE-001"], &["DRV-OBS-003"]),
    ("foreign-attempt", &["DRV-INVOKE-001"], &["DRV-OBS-002"]),
    ("wrong-summary", &["DRV-INVOKE-001"], &["DRV-OBS-005"]),
    ("wrong-last", &["DRV-INVOKE-001"], &["DRV-OBS-004"]),
    ("ends-twice", &["DRV-INVOKE-001"], &["DRV-OBS-001"]),
    ("unapproved-stream", &["DRV-INVOKE-001"], &["DRV-OBS-006"]),
    ("stream-with-gap", &["DRV-INVOKE-001"], &["DRV-OBS-006"]),
    ("stream-not-final", &["DRV-INVOKE-001"], &["DRV-OBS-006"]),
    ("many-of-none", &["DRV-CONC-001"], &["DRV-CONC-001"]),
    ("many-too-few", &["DRV-CONC-002", "DRV-CONC-003"], &["DRV-CONC-002"]),
    ("many-without-limit", &["DRV-CONC-003"], &["DRV-CONC-003"]),
    ("many-same-id", &["DRV-CONC-004"], &["DRV-CONC-004"]),
    ("many-cancels-all", &["DRV-CONC-005"], &["DRV-CONC-005"]),
    ("many-resets", &["DRV-CONC-007"], &["DRV-CONC-007"]),
    ("many-mixed-up", &["DRV-CONC-002"], &["DRV-OBS-002"]),
    ("mixes-invocations", &["DRV-INVOKE-009"], &["DRV-INVOKE-009"]),
    ("cancels-any", &["DRV-CANCEL-004"], &["DRV-CANCEL-004"]),
    ("denies-cancel", &["DRV-CANCEL-001"], &["DRV-CANCEL-001"]),
    ("cancelled-as-completed", &["DRV-CANCEL-002"], &["DRV-CANCEL-002"]),
    ("one-invocation", &["DRV-CANCEL-005"], &["DRV-CANCEL-005"]),
];

#[test]
fn each_rogue_driver_fails_for_the_right_reason() {
    let wrong: Vec<_> = FAULTS.iter().filter_map(|(fault, cases, expected)| check(fault, cases, expected)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// These never answer, so they wait for a bound: a short one.
#[test]
fn drivers_that_hang_are_told_from_those_that_are_slow() {
    for (fault, case, expected) in [
        ("silent-capabilities", "DRV-LIFE-003", "DRV-OUT-006"),
        ("never-ends", "DRV-INVOKE-001", "DRV-INVOKE-001"),
        ("ignores-cancel", "DRV-CANCEL-001", "DRV-CANCEL-001"),
        ("many-in-turn", "DRV-CONC-006", "DRV-CONC-006"),
    ] {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        // What is watched in invocations stands in the report with the one that it depends on.
        let mut request = request(&scratch, fault, &[case, "DRV-OBS-003", "DRV-OBS-005"]);
        request.answer = Duration::from_secs(5);
        request.invocation = Duration::from_secs(5);
        request.cancel = Duration::from_secs(1);
        let report = report(request);
        assert_eq!(failed(&report), [expected], "{fault}");
        if expected == "DRV-INVOKE-001" {
            let reasons =
                report.requirements.iter().filter(|item| item.area == "obs").map(|item| item.reason.as_deref());
            assert!(reasons.clone().all(|reason| reason == Some("blocked_by DRV-INVOKE-001")), "{fault}");
        }
    }
}

#[test]
fn a_flood_is_cut_off_with_bounded_memory() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let before = pintle_testkit::usage::peak_memory_kib();
    let mut request = request(&scratch, "floods", &["DRV-INVOKE-001"]);
    request.max_session_bytes = 32 << 20;
    assert_eq!(failed(&report(request)), ["DRV-OUT-008"]);
    let grown = pintle_testkit::usage::peak_memory_kib().saturating_sub(before);
    assert!(grown < 24 << 10, "it grew by {grown} KiB");
}
