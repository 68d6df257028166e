//! A disk that is full or broken ends the recording of a check, and nothing else. The library, with the real driver and the
//! real agent.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pintle_check::cel::{Worker, WorkerConfig};
use pintle_check::judge::FailOn;
use pintle_check::pack::Pack;
use pintle_check::run::{
    AgentUnderTest, CheckRequest, Checked, DriverCommand, EvidencePlace, Secrets, StoredCheck, Waits, check,
};
use pintle_sdk::process::{Environment, Program, Shim};
use pintle_store::evidence::{Places, StoredRun};
use pintle_store::{FileKind, Fs, atomic, fsx};
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

fn copy(from: &dyn Fs, to: &dyn Fs, dir: &Path) {
    fsx::ensure_dir(to, dir).expect("a directory");
    for entry in fsx::read_dir(from, dir).expect("a listing") {
        let path = dir.join(entry.name);
        match entry.kind {
            FileKind::Dir => copy(from, to, &path),
            _ => {
                let bytes = fsx::read_bounded(from, &path, usize::MAX).expect("a file");
                atomic::replace(to, &path, &bytes).expect("a copy");
            }
        }
    }
}

/// What a crash leaves of a journal is judged: an outcome that the whole run did not have is never invented, and what is not
/// known is said to be.
#[test]
fn a_torn_journal_loses_outcomes_and_invents_none() {
    let whole = FaultyFs::new();
    let good = checked(&whole);
    let dir = good.run.clone().expect("a run");
    let before: BTreeMap<String, String> = outcomes(&good).into_iter().collect();
    let journal = fsx::read_bounded(&whole, &dir.join("journal.ndjson"), usize::MAX).expect("a journal");
    let manifest = fsx::read_bounded(&whole, &dir.join("manifest.json"), usize::MAX).expect("a manifest");
    let mut open: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    open["state"] = "open".into();
    open["journal"] = serde_json::Value::Null;
    let open = serde_json::to_vec(&open).expect("JSON");
    let pack = Pack::embedded().expect("the built-in pack");
    let mut worker = Worker::new(WorkerConfig::new(vec![PINTLE.into(), "__cel".into()]));
    let (mut same, mut unknown) = (0, 0);
    for cut in (0..=16).map(|n| journal.len() * n / 16) {
        let fs = FaultyFs::new();
        copy(&whole, &fs, Path::new("/disk"));
        atomic::replace(&fs, &dir.join("journal.ndjson"), &journal[..cut]).expect("a torn journal");
        atomic::replace(&fs, &dir.join("manifest.json"), &open).expect("an open manifest");
        let stored = StoredRun::open(Arc::new(fs), &dir).expect("it can be opened");
        let check = StoredCheck::load(&stored).expect("it can be read");
        assert!(!check.gaps.is_empty(), "the run says that it is not whole");
        for item in check.judge(&pack, FailOn::Must, &mut worker).requirements {
            // Those of other scenarios were not selected.
            let Some(was) = before.get(&item.id) else { continue };
            if item.outcome == *was {
                same += 1;
            } else {
                assert!(matches!(item.outcome.as_str(), "inconclusive" | "skipped"), "{}: {}", item.id, item.outcome);
                unknown += 1;
            }
        }
    }
    assert!(same > 0 && unknown > 0, "{same} same, {unknown} unknown");
}

/// The disk runs full at every stage of a run: the outcomes are the same, and the failure is told once.
#[test]
fn a_disk_that_runs_full_anywhere_changes_no_outcome() {
    let whole = FaultyFs::new();
    let good = checked(&whole);
    for eighth in [1, 3, 5, 7] {
        let fs = FaultyFs::new();
        fs.fail_at(whole.ops() * eighth / 8, ErrorKind::StorageFull);
        let run = checked(&fs);
        assert_eq!(outcomes(&run), outcomes(&good), "full after {eighth} eighths");
        assert_eq!(run.report.recording_faults.len(), 1, "{:?}", run.report.recording_faults);
    }
}

/// Inv-9 with the real binary on a real file system that is full: the verdict and the exit code stay, and the report says
/// that not all was recorded.
#[test]
fn a_file_system_without_room_changes_no_verdict() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["state", "tmp"] {
        std::fs::create_dir(dir.path().join(name)).expect("a directory");
    }
    // In a mount namespace of its own: nothing has to be undone, and no privilege is needed where users may have one.
    let mounted = |options: &str, program: &[&str]| {
        let script = format!("mount -t tmpfs -o {options} none \"$PINTLE_HOME\" && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).args(program);
        command.env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").env("PINTLE_HOME", dir.path().join("state"));
        command.env("TMPDIR", dir.path().join("tmp")).current_dir(dir.path().join("tmp")).stdin(Stdio::null());
        command.output()
    };
    if !mounted("size=8k", &["true"]).is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no file system can be mounted here");
        return;
    }
    for options in ["size=4k", "size=8k", "size=16k", "nr_inodes=1", "nr_inodes=4"] {
        let check = [PINTLE, "check", "--case", "basics", "--format", "json", "--", PINTLE, "mock", "agent"];
        let output = mounted(options, &check).expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{options}: {stderr}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!(report["verdict"], "conformant", "{options}");
        let faults = report["recording_faults"].as_array().cloned().unwrap_or_default();
        assert!(!faults.is_empty(), "{options}: the failure to record is told");
        assert!(faults[0].as_str().is_some_and(|text| text.contains("No space left")), "{options}: {faults:?}");
        let human = [PINTLE, "check", "--case", "basics", "--", PINTLE, "mock", "agent"];
        let output = mounted(options, &human).expect("it runs");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(stdout.contains("No space left"), "{options}: people are told too: {stdout}");
    }
}
