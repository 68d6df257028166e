//! A disk that is full or broken ends the recording of a check, and nothing else. The library, with the real driver and the
//! real agent.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use pintle_check::cel::WorkerConfig;
use pintle_check::judge::FailOn;
use pintle_check::pack::Pack;
use pintle_check::run::{
    AgentUnderTest, CheckRequest, Checked, DriverCommand, EvidencePlace, Secrets, StoredCheck, Waits, check,
};
use pintle_sdk::process::{Environment, Program, Shim};
use pintle_store::Fs;
use pintle_store::evidence::{Places, StoredRun};
use pintle_testkit::faulty::FaultyFs;
use tokio_util::sync::CancellationToken;

const PINTLE: &str = env!("CARGO_BIN_EXE_pintle");

fn request(scratch: &Path) -> CheckRequest {
    CheckRequest {
        pack: Pack::embedded().expect("the built-in pack"),
        cases: vec!["basics".to_owned()],
        prompts: BTreeMap::new(),
        agent: AgentUnderTest {
            argv: [PINTLE, "mock", "agent"].map(str::to_owned).to_vec(),
            cwd: scratch.to_owned(),
            env: BTreeMap::new(),
            session_cwd: None,
            auth: None,
            demo: false,
            isolation: None,
        },
        driver: DriverCommand {
            program: Program::at(PINTLE).expect("the binary"),
            args: vec!["driver".into(), "acp".into()],
            env: Environment::driver_allowlist([]),
            shim: Shim::Path(PINTLE.into()),
            artifact: PINTLE.into(),
            require_sandbox: false,
        },
        waits: Waits::default(),
        jobs: 1,
        scratch: scratch.to_owned(),
        secrets: Secrets::default(),
        evaluator: WorkerConfig::new(vec![PINTLE.into(), "__cel".into()]),
    }
}

fn checked(fs: &FaultyFs) -> Checked {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let place = EvidencePlace { fs: Arc::new(fs.clone()), places: Places::below(Path::new("/disk")), required: false };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let checking = check(request(scratch.path()), FailOn::Must, Some(place), |_| {}, CancellationToken::new());
    runtime.block_on(checking).expect("the check is made")
}

fn outcomes(checked: &Checked) -> Vec<(String, String)> {
    checked.report.requirements.iter().map(|item| (item.id.clone(), item.outcome.clone())).collect()
}

/// Inv-9: a failure while recording evidence is reported in the run; it never invents or drops an outcome.
#[test]
fn a_full_disk_is_reported_and_changes_no_outcome() {
    let whole = FaultyFs::new();
    let good = checked(&whole);
    assert_eq!(good.report.recording_faults, Vec::<String>::new());
    assert_eq!(good.report.verdict, "conformant");

    let full = FaultyFs::new();
    full.set_capacity_bytes(4_000);
    let without = checked(&full);
    assert_eq!(outcomes(&without), outcomes(&good));
    assert!(without.report.recording_faults[0].contains("/disk"), "{:?}", without.report.recording_faults);
}

/// What was recorded before the disk failed can be read, and says that it is not whole.
#[test]
fn a_disk_that_fails_in_the_middle_keeps_what_came_before() {
    let whole = FaultyFs::new();
    checked(&whole);
    let broken = FaultyFs::new();
    broken.fail_at(whole.ops() / 2, ErrorKind::StorageFull);
    let run = checked(&broken);
    assert_eq!(run.report.verdict, "conformant");
    assert_eq!(run.report.recording_faults.len(), 1, "{:?}", run.report.recording_faults);
    let fs: Arc<dyn Fs> = Arc::new(broken);
    let stored = StoredRun::open(fs, &run.run.expect("a run was begun")).expect("it can be opened");
    let stored = StoredCheck::load(&stored).expect("it can be read");
    assert!(!stored.gaps.is_empty());
}
