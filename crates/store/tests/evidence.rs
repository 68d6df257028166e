//! Evidence runs: what is recorded is read back, what was touched is found out, old runs go.

use std::{path::Path, sync::Arc};

use pintle_store::{
    EvidenceRun, Fs, RealFs, Sanitised, Sanitiser, StoredRun,
    evidence::{
        self, EvidenceError, FindError, GcReport, KeepLimits, Places, ReadError, RunState, Tail, find_run, gc, gc_plan,
        list_runs,
    },
};
use pintle_testkit::faulty::{FaultyFs, Loss};
use pintle_wire::{Digest, InstanceId};
use serde_json::json;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

fn id(unix_millis: i64) -> InstanceId {
    InstanceId::new(unix_millis, [7; 16]).expect("a time")
}

fn value(value: serde_json::Value) -> Sanitised {
    Sanitiser::default().value(&value).expect("canonical")
}

fn begin(fs: &Arc<dyn Fs>, places: &Places, unix_millis: i64) -> EvidenceRun {
    EvidenceRun::create(Arc::clone(fs), places, id(unix_millis), &value(json!({"pack": "acp-v1"}))).expect("a run")
}

/// A finished run of `records` records and one object.
fn record(fs: &Arc<dyn Fs>, places: &Places, unix_millis: i64, records: u64) -> (InstanceId, Digest) {
    let mut run = begin(fs, places, unix_millis);
    for n in 0..records {
        assert_eq!(run.append("acp.frame", &value(json!({"n": n}))).expect("append"), n + 1);
    }
    let digest = run.put_object(&value(json!({"object": unix_millis}))).expect("object");
    run.append("object", &value(json!({"digest": digest}))).expect("append");
    run.put_input("plan.json", &value(json!({"case": "x"}))).expect("input");
    run.put_report("report.json", &value(json!({"verdict": "conformant"}))).expect("report");
    let id = run.id();
    assert!(run.finish().expect("finish").recording.complete);
    (id, digest)
}

fn scratch() -> (tempfile::TempDir, Places, Arc<dyn Fs>) {
    let dir = tempfile::tempdir().expect("scratch directory");
    let places = Places::below(dir.path());
    (dir, places, Arc::new(RealFs))
}

#[test]
fn a_run_is_read_back_as_it_was_recorded() {
    let (_dir, places, fs) = scratch();
    let sanitiser = Sanitiser::new(["a-canary-value"]);
    let mut run = begin(&fs, &places, 1_000);
    run.put_input("plan.json", &value(json!({"case": "x"}))).expect("input");
    run.append("step", &sanitiser.value(&json!({"z": 1, "a": "a-canary-value"})).expect("value")).expect("append");
    // A peer's own JSON is brought into canonical form; a frame of a peer belongs into a string.
    run.append("step", &sanitiser.line(b"{\"b\" : 2, \"a\":1.0}")).expect("append");
    let digest = run.put_object(&sanitiser.text(b"not json", 100)).expect("object");
    assert_eq!(run.put_object(&sanitiser.text(b"not json", 100)).expect("the same"), digest);
    run.put_report("report.json", &value(json!({"verdict": "conformant"}))).expect("report");
    let dir = run.dir().to_owned();
    let manifest = run.finish().expect("finish");
    assert_eq!((manifest.state, manifest.journal.expect("its end").records), (RunState::Finished, 2));

    let stored = StoredRun::open(Arc::clone(&fs), &dir).expect("open");
    let records: Vec<_> = stored.records().expect("journal").map(|record| record.expect("whole")).collect();
    let found: Vec<_> = records.iter().map(|record| (record.seq, record.kind.as_str(), record.value.get())).collect();
    assert_eq!(found, [(1, "step", r#"{"a":"[redacted:canary]","z":1}"#), (2, "step", r#"{"a":1,"b":2}"#)]);
    assert_eq!(stored.object(&digest).expect("object"), b"not json");
    assert_eq!(stored.file("input/plan.json", 100).expect("input"), br#"{"case":"x"}"#);
    assert_eq!(stored.verify().expect("untouched"), (2, Tail::Whole));
    assert_eq!(stored.manifest().facts.get(), r#"{"pack":"acp-v1"}"#);
    assert_eq!(stored.manifest().redactions, [("canary".to_owned(), 1)].into());
}

#[cfg(unix)]
#[test]
fn everything_is_private() {
    fn modes(fs: &dyn Fs, path: &Path, found: &mut Vec<(bool, u32)>) {
        for entry in fs.read_dir(path).expect("list") {
            let below = path.join(entry.name);
            let meta = fs.symlink_metadata(&below).expect("stat");
            let is_dir = meta.kind == pintle_store::FileKind::Dir;
            found.push((is_dir, meta.mode));
            if is_dir {
                modes(fs, &below, found);
            }
        }
    }
    let (dir, places, fs) = scratch();
    let mut run = begin(&fs, &places, 1_000);
    run.put_input("plan.json", &value(json!({}))).expect("input");
    run.put_object(&value(json!({}))).expect("object");
    run.finish().expect("finish");
    let mut found = Vec::new();
    modes(fs.as_ref(), dir.path(), &mut found);
    assert!(found.len() >= 10);
    assert!(found.iter().all(|(is_dir, mode)| *mode == if *is_dir { 0o700 } else { 0o600 }), "{found:?}");
}

#[test]
fn a_bad_argument_is_refused_and_the_run_goes_on() {
    let (_dir, places, fs) = scratch();
    let mut run = begin(&fs, &places, 1_000);
    let sanitiser = Sanitiser::default();
    let ok = value(json!(1));
    assert!(matches!(run.append("Bad Kind", &ok), Err(EvidenceError::Name { .. })));
    assert!(matches!(run.append("a", &sanitiser.text(b"x", 10)), Err(EvidenceError::Value { .. })));
    assert!(matches!(run.append("a", &value(json!("x".repeat(3 << 20)))), Err(EvidenceError::TooLarge { .. })));
    assert!(matches!(run.put_report("manifest.json", &ok), Err(EvidenceError::Name { .. })));
    assert!(matches!(run.put_input("../escape", &ok), Err(EvidenceError::Name { .. })));
    assert_eq!((run.append("a", &ok).expect("append"), run.failure()), (1, None));
    assert!(matches!(
        EvidenceRun::create(Arc::clone(&fs), &places, id(2_000), &value(json!([]))),
        Err(EvidenceError::Value { .. })
    ));
}

/// What was changed is told with the file, and in the journal with the first line that differs.
#[test]
fn a_touched_run_says_where_it_was_touched() {
    let check = |touch: &dyn Fn(&Path, &Path), told: &str| {
        let (_dir, places, fs) = scratch();
        let (id, digest) = record(&fs, &places, 1_000, 5);
        let dir = places.runs.join(id.to_string());
        let object = evidence::Objects::new(places.objects.clone()).path(&digest);
        touch(&dir, &object);
        let audit = StoredRun::open(fs, &dir).expect("open").audit().expect("it can be read");
        let problems: Vec<String> = audit
            .problems
            .iter()
            .map(|problem| {
                let text =
                    problem.to_string().replace(places.runs.parent().expect("parent").to_str().expect("text"), "");
                text.replace(&id.to_string(), "ID")
                    .replace(object.file_name().expect("name").to_str().expect("text"), "HEX")
            })
            .collect();
        assert_eq!(problems, [told]);
        assert!(!audit.is_whole());
    };
    let write = |path: &Path, edit: &dyn Fn(String) -> String| {
        let text = std::fs::read_to_string(path).expect("read");
        std::fs::write(path, edit(text)).expect("write");
    };
    // Lines 1 to 5 are frames, line 6 names the object.
    let journal = |edit: &dyn Fn(Vec<String>) -> Vec<String>, told: &str| {
        let touch = |dir: &Path, _: &Path| {
            write(&dir.join("journal.ndjson"), &|text| {
                edit(text.lines().map(str::to_owned).collect()).iter().map(|line| format!("{line}\n")).collect()
            });
        };
        check(&touch, &format!("read `/runs/ID/journal.ndjson`: {told}"));
    };
    for n in 0..6 {
        let change = |mut lines: Vec<String>| {
            lines[n] = lines[n].replace("\"value\":{", "\"value\":{\"a\":0,");
            lines
        };
        journal(&change, &format!("line {} is not as it was written", n + 1));
        let cut = |mut lines: Vec<String>| {
            lines[n].pop();
            lines
        };
        journal(&cut, &format!("line {} is not a record", n + 1));
        let remove = |mut lines: Vec<String>| {
            lines.remove(n);
            lines
        };
        let told = if n == 5 { "is missing" } else { "is not the next record" };
        journal(&remove, &format!("line {} {told}", n + 1));
    }
    let other_chain = |mut lines: Vec<String>| {
        let at = lines[3].find("sha256:").expect("prev") + 7;
        lines[3].replace_range(at..at + 4, "0000");
        lines
    };
    journal(&other_chain, "line 4 is not as it was written");
    let swap = |mut lines: Vec<String>| {
        lines.swap(1, 2);
        lines
    };
    journal(&swap, "line 2 is not the next record");
    journal(
        &|mut lines| {
            lines.push("{}".to_owned());
            lines
        },
        "line 7 is not a record",
    );
    let torn = |dir: &Path, _: &Path| write(&dir.join("journal.ndjson"), &|text| text + "{\"kind");
    check(&torn, "read `/runs/ID/journal.ndjson`: line 7 was added");
    check(
        &|dir, _| std::fs::remove_file(dir.join("journal.ndjson")).expect("remove"),
        "read `/runs/ID/journal.ndjson`: it is not there",
    );

    let (_dir, places, fs) = scratch();
    let digest = record(&fs, &places, 1_000, 1).1;
    let first = &digest.hex()[..2].to_owned();
    check(
        &|_, object| write(object, &|text| text + " "),
        &format!("read the object `/objects/sha256/{first}/HEX`: its content is another"),
    );
    check(
        &|_, object| std::fs::remove_file(object).expect("remove"),
        &format!("read the object `/objects/sha256/{first}/HEX`: it is not there"),
    );
    check(
        &|dir, _| write(&dir.join("report.json"), &|text| text + " "),
        "read `/runs/ID/report.json`: its content is not what the manifest says",
    );
    check(
        &|dir, _| std::fs::remove_file(dir.join("input/plan.json")).expect("remove"),
        "read `/runs/ID/input/plan.json`: it is not there",
    );
}

#[test]
fn a_touched_journal_or_object_is_found_out() {
    let check = |touch: &dyn Fn(&Path, &Path), class: &str| {
        let (_dir, places, fs) = scratch();
        let (id, digest) = record(&fs, &places, 1_000, 5);
        let dir = places.runs.join(id.to_string());
        let object = evidence::Objects::new(places.objects.clone()).path(&digest);
        touch(&dir.join("journal.ndjson"), &object);
        let stored = StoredRun::open(fs, &dir).expect("open");
        assert_eq!(stored.verify().expect_err("it was touched").class(), class);
        // Reading stops at it too.
        let mut records = stored.records().expect("journal");
        assert_eq!(records.any(|record| record.is_err()), class == "journal");
    };
    let edit = |path: &Path, edit: &dyn Fn(String) -> String| {
        let text = std::fs::read_to_string(path).expect("read");
        std::fs::write(path, edit(text)).expect("write");
    };
    check(&|journal, _| edit(journal, &|text| text.replace("{\"n\":2}", "{\"n\":3}")), "journal");
    check(
        &|journal, _| edit(journal, &|text| text.lines().skip(1).map(|line| format!("{line}\n")).collect()),
        "journal",
    );
    check(
        &|journal, _| edit(journal, &|text| text.lines().take(5).map(|line| format!("{line}\n")).collect()),
        "journal",
    );
    check(&|journal, _| edit(journal, &|text| text + "{}\n"), "journal");
    check(&|_, object| edit(object, &|text| text + " "), "object");
    check(&|_, object| std::fs::remove_file(object).expect("remove"), "no_object");
}

#[test]
fn a_run_is_found_by_latest_id_prefix_or_path() {
    let (dir, places, fs) = scratch();
    let find = |which: &str| find_run(fs.as_ref(), &places, which);
    assert!(matches!(find("latest"), Err(FindError::NoRuns { .. })));
    let ids = [1_000, 1_001, DAY_MS].map(|time| record(&fs, &places, time, 1).0);
    assert_eq!(list_runs(fs.as_ref(), &places).expect("list"), ids);
    let path = |n: usize| places.runs.join(ids[n].to_string());
    assert_eq!(find("latest").expect("found"), path(2));
    assert_eq!(find(&ids[1].to_string()).expect("found"), path(1));
    assert_eq!(find(&ids[2].to_string()[..9]).expect("found"), path(2));
    assert_eq!(find(path(0).to_str().expect("text")).expect("found"), path(0));
    let error = find("0").expect_err("three begin so");
    assert!(error.to_string().contains("3 runs begin so"), "{error}");
    for nothing in ["", "ffff", dir.path().to_str().expect("text")] {
        assert!(matches!(find(nothing), Err(FindError::NotFound { .. })), "{nothing}");
    }
}

#[test]
fn a_run_that_was_copied_away_with_its_objects_is_read() {
    let (dir, places, fs) = scratch();
    let (id, digest) = record(&fs, &places, 1_000, 1);
    let copy = dir.path().join("elsewhere");
    std::fs::rename(places.runs.join(id.to_string()), &copy).expect("move");
    std::fs::rename(&places.objects, copy.join("objects")).expect("move");
    let stored = StoredRun::open(fs, &copy).expect("open");
    assert_eq!(stored.verify().expect("whole"), (2, Tail::Whole));
    assert!(stored.object(&digest).is_ok());
}

#[test]
fn a_manifest_of_another_version_is_refused() {
    let (_dir, places, fs) = scratch();
    let (id, _) = record(&fs, &places, 1_000, 1);
    let dir = places.runs.join(id.to_string());
    let path = dir.join("manifest.json");
    let text = std::fs::read_to_string(&path).expect("read");
    std::fs::write(&path, text.replace("pintle.run.v1", "pintle.run.v2")).expect("write");
    assert!(matches!(StoredRun::open(Arc::clone(&fs), &dir), Err(ReadError::Manifest { .. })));
    std::fs::write(&path, "{").expect("write");
    assert!(matches!(StoredRun::open(fs, &dir), Err(ReadError::Manifest { .. })));
}

fn collect(fs: &Arc<dyn Fs>, places: &Places, now_ms: i64, limits: KeepLimits) -> GcReport {
    gc(fs.as_ref(), places, now_ms, limits).expect("collect")
}

#[test]
fn old_runs_go_with_the_objects_that_only_they_need() {
    let (_dir, places, fs) = scratch();
    let runs: Vec<_> = (0..5).map(|n| record(&fs, &places, n * 10 * DAY_MS, 3)).collect();
    let now = 40 * DAY_MS;
    assert_eq!(collect(&fs, &places, now, KeepLimits { days: 1000, ..KeepLimits::default() }).removed_runs, []);

    let report = collect(&fs, &places, now, KeepLimits { days: 25, ..KeepLimits::default() });
    assert_eq!(report.removed_runs, [runs[0].0, runs[1].0]);
    assert_eq!((report.removed_objects, report.kept_runs), (2, 3));
    assert!(report.freed_bytes > 0);
    let report = collect(&fs, &places, now, KeepLimits { runs: 2, ..KeepLimits::default() });
    assert_eq!(report.removed_runs, [runs[2].0]);
    let report = collect(&fs, &places, now, KeepLimits { bytes: 1, ..KeepLimits::default() });
    assert_eq!(report.removed_runs, [runs[3].0]);
    // The newest stays, whatever the limits.
    let report = collect(&fs, &places, 1000 * DAY_MS, KeepLimits { days: 0, runs: 0, bytes: 0 });
    assert_eq!((report.removed_runs, report.kept_runs), (vec![], 1));
    StoredRun::open(Arc::clone(&fs), &places.runs.join(runs[4].0.to_string())).expect("open").verify().expect("whole");
}

/// Kept are 30 days, 100 runs and 1 GiB, whichever comes first, unless somebody says otherwise.
#[test]
fn the_usual_limits_are_thirty_days_a_hundred_runs_and_a_gibibyte() {
    let KeepLimits { days, runs, bytes } = KeepLimits::default();
    assert_eq!((days, runs, bytes), (30, 100, 1 << 30));
    let (fs, places): (Arc<dyn Fs>, _) = (Arc::new(FaultyFs::new()), places());
    let runs: Vec<_> = (0..102).map(|n| record(&fs, &places, n * 60_000, 1).0).collect();
    let report = collect(&fs, &places, DAY_MS, KeepLimits::default());
    assert_eq!((report.removed_runs.as_slice(), report.kept_runs), (&runs[..2], 100), "beyond the newest hundred");
    // The first of those that are left is a minute over its days, the next one is not.
    let report = collect(&fs, &places, 30 * DAY_MS + 2 * 60_000 + 30_000, KeepLimits::default());
    assert_eq!((report.removed_runs.as_slice(), report.kept_runs), (&runs[2..3], 99), "older than thirty days");
}

#[test]
fn nothing_is_collected_while_a_run_is_recorded_and_an_interrupted_run_keeps_its_objects() {
    let (_dir, places, fs) = scratch();
    let (old, _) = record(&fs, &places, 0, 1);
    let mut run = begin(&fs, &places, 100 * DAY_MS);
    let limits = KeepLimits::default();
    assert!(collect(&fs, &places, 100 * DAY_MS, limits).skipped);
    let digest = run.put_object(&value(json!({"big": true}))).expect("object");
    run.append("object", &value(json!({"digest": digest}))).expect("append");
    run.sync().expect("sync");
    let dir = run.dir().to_owned();
    drop(run);
    let report = collect(&fs, &places, 100 * DAY_MS, limits);
    assert_eq!((report.skipped, report.removed_runs, report.kept_runs), (false, vec![old], 1));
    let stored = StoredRun::open(fs, &dir).expect("open");
    assert_eq!(stored.manifest().state, RunState::Open);
    assert!(stored.object(&digest).is_ok());
}

/// What the program of the crash sweep had promised to be durable when it stopped.
#[derive(Debug, Default)]
struct Promised {
    synced_records: u64,
    objects: Vec<Digest>,
    files: usize,
    is_begun: bool,
    is_finished: bool,
}

fn places() -> Places {
    Places::below(Path::new("/home"))
}

/// An object that is long enough to be hashed beside its writing is the same object.
#[test]
fn a_long_object_has_the_digest_of_its_content() {
    let (_dir, places, fs) = scratch();
    let mut run = begin(&fs, &places, 1_000);
    let sanitiser = Sanitiser::default();
    let (mut writer, mut stream) = (run.begin_object().expect("an object"), sanitiser.stream());
    let piece = "words without a secret in them, ".repeat(3_000);
    for _ in 0..40 {
        run.write_object(&mut writer, stream.push(piece.as_bytes())).expect("written");
    }
    run.write_object(&mut writer, stream.finish()).expect("written");
    let digest = run.finish_object(writer).expect("finished");
    assert_eq!(digest, Digest::of(piece.repeat(40).as_bytes()));
    assert_eq!(
        evidence::Objects::new(places.objects).check(fs.as_ref(), &digest).expect("whole"),
        40 * piece.len() as u64
    );
}

/// Records two batches and two objects; stops at the first failure.
fn program(fs: &FaultyFs, promised: &mut Promised) -> Result<(), EvidenceError> {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let mut run = EvidenceRun::create(fs, &places(), id(1_000), &value(json!({})))?;
    promised.is_begun = true;
    for batch in 0..2_u64 {
        for n in 0..3_u64 {
            run.append("frame", &value(json!({"batch": batch, "n": n, "pad": "p".repeat(200)})))?;
        }
        let digest = run.put_object(&value(json!({"object": batch})))?;
        promised.objects.push(digest);
        run.append("object", &value(json!({"digest": digest})))?;
        run.sync()?;
        promised.synced_records += 4;
    }
    let sanitiser = Sanitiser::new(["a-canary-value"]);
    let mut stream = sanitiser.stream();
    let mut writer = run.begin_object()?;
    for piece in ["in pieces ".repeat(9_000), "a-canary".to_owned(), "-value".to_owned()] {
        run.write_object(&mut writer, stream.push(piece.as_bytes()))?;
    }
    run.write_object(&mut writer, stream.finish())?;
    promised.objects.push(run.finish_object(writer)?);
    run.put_input("plan.json", &value(json!({"case": "x"})))?;
    promised.files += 1;
    run.put_report("report.json", &value(json!({"verdict": "conformant"})))?;
    promised.files += 1;
    run.append("last", &value(json!("behind the last sync")))?;
    promised.is_finished = run.finish()?.recording.complete;
    Ok(())
}

fn check_after(fs: &FaultyFs, promised: &Promised, context: &str) {
    let as_dyn: Arc<dyn Fs> = Arc::new(fs.clone());
    let dir = places().runs.join(id(1_000).to_string());
    let stored = match StoredRun::open(Arc::clone(&as_dyn), &dir) {
        Ok(stored) => stored,
        Err(error) => {
            assert!(!promised.is_begun, "{context}: the run is lost: {error}");
            return;
        }
    };
    // Never an error: what is torn is the tail, since a finished manifest comes after the journal is durable.
    let (records, tail) = stored.verify().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(records >= promised.synced_records, "{context}: {records} of {}", promised.synced_records);
    for digest in &promised.objects {
        stored.object(digest).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    for name in ["input/plan.json", "report.json"].iter().take(promised.files) {
        stored.file(name, 1000).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    if promised.is_finished {
        assert!(stored.audit().expect("readable").is_whole(), "{context}");
        assert_eq!(stored.manifest().redactions, [("canary".to_owned(), 1)].into(), "{context}");
        assert_eq!((records, tail, stored.manifest().state), (9, Tail::Whole, RunState::Finished), "{context}");
    }
    // No object is ever visible that is not whole, promised or not; and the collection copes with what it finds.
    gc(fs, &places(), 1_000, KeepLimits::default()).unwrap_or_else(|error| panic!("{context}: {error}"));
    for batch in 0..2 {
        let digest = Digest::of(value(json!({"object": batch})).bytes());
        match stored.object(&digest) {
            Ok(_) | Err(ReadError::NoObject { .. }) => {}
            Err(error) => panic!("{context}: {error}"),
        }
    }
}

#[test]
fn after_a_crash_anywhere_what_was_promised_is_there_and_what_is_there_is_whole() {
    let whole = FaultyFs::new();
    let mut promised = Promised::default();
    program(&whole, &mut promised).expect("no fault on order");
    let operations = whole.ops();
    assert!(promised.is_finished && operations > 50);
    let losses = [Loss::Everything, Loss::Nothing].into_iter().chain((0..12).map(Loss::Dice));
    for loss in losses.clone() {
        check_after(&whole.reboot(loss), &promised, &format!("after the end, {loss:?}"));
    }
    for count in 1..=operations {
        let fs = FaultyFs::new();
        fs.crash_after(count);
        let mut promised = Promised::default();
        let _ = program(&fs, &mut promised);
        for loss in losses.clone() {
            check_after(&fs.reboot(loss), &promised, &format!("crash after {count} of {operations}, {loss:?}"));
        }
    }
}

/// Old runs go one by one: whatever the last thing done was, each run is there as it was, or not there.
#[test]
fn a_crash_while_old_runs_are_collected_leaves_only_whole_runs() {
    let build = || {
        let fs = FaultyFs::new();
        let as_dyn: Arc<dyn Fs> = Arc::new(fs.clone());
        (0..3).for_each(|n| {
            record(&as_dyn, &places(), n * 10 * DAY_MS, 2);
        });
        fs
    };
    let limits = KeepLimits { runs: 1, ..KeepLimits::default() };
    let planned = gc_plan(&build(), &places(), 40 * DAY_MS, limits).expect("plan");
    let whole = build();
    let before = whole.ops();
    let done = gc(&whole, &places(), 40 * DAY_MS, limits).expect("collect");
    assert_eq!((done.removed_runs.len(), done.removed_objects, done.kept_runs), (2, 2, 1));
    assert_eq!(planned, done, "the plan is what is done");
    for count in before + 1..=whole.ops() {
        let fs = build();
        fs.crash_after(count);
        let _ = gc(&fs, &places(), 40 * DAY_MS, limits);
        for loss in [Loss::Everything, Loss::Nothing].into_iter().chain((0..6).map(Loss::Dice)) {
            let after = fs.reboot(loss);
            let as_dyn: Arc<dyn Fs> = Arc::new(after.clone());
            let runs = list_runs(&after, &places()).expect("list");
            assert!(runs.contains(&id(20 * DAY_MS)), "crash after {count}, {loss:?}: the newest run is gone");
            for run in runs {
                let stored = StoredRun::open(Arc::clone(&as_dyn), &places().runs.join(run.to_string())).expect("open");
                let audit = stored.audit().expect("readable");
                assert!(audit.is_whole(), "crash after {count}, {loss:?}: {:?}", audit.problems);
            }
            gc(&after, &places(), 40 * DAY_MS, limits).expect("the next collection finishes it");
            assert_eq!(list_runs(&after, &places()).expect("list"), [id(20 * DAY_MS)]);
        }
    }
}

/// Two processes on one store: one records, the other collects. No run that was finished is ever short of an object.
#[test]
fn recording_and_collecting_at_the_same_time_is_safe() {
    let (_dir, places, fs) = scratch();
    let recorders: Vec<_> = (0..2_i64)
        .map(|who| {
            let (fs, places) = (Arc::clone(&fs), places.clone());
            std::thread::spawn(move || {
                for n in 0..6 {
                    // The same objects again and again, so that one process needs what the other would remove.
                    let mut run = begin(&fs, &places, n * 10 + who);
                    let digest = run.put_object(&value(json!({"shared": n % 2}))).expect("object");
                    run.append("object", &value(json!({"digest": digest}))).expect("append");
                    assert!(run.finish().expect("finish").recording.complete);
                }
            })
        })
        .collect();
    let mut collections = 0;
    let limits = KeepLimits { runs: 2, ..KeepLimits::default() };
    while recorders.iter().any(|recorder| !recorder.is_finished()) {
        collections += usize::from(!collect(&fs, &places, 1_000, limits).skipped);
    }
    recorders.into_iter().for_each(|recorder| recorder.join().expect("it recorded"));
    assert!(!collect(&fs, &places, 1_000, limits).skipped);
    let runs = list_runs(fs.as_ref(), &places).expect("list");
    assert_eq!(runs.len(), 2, "after {collections} collections");
    for run in runs {
        let stored = StoredRun::open(Arc::clone(&fs), &places.runs.join(run.to_string())).expect("open");
        assert!(stored.audit().expect("readable").is_whole());
    }
}

/// A file under an object's name that is not the object is put right by the next run that needs it.
#[test]
fn a_damaged_object_is_written_again() {
    let (_dir, places, fs) = scratch();
    let (_, digest) = record(&fs, &places, 1_000, 1);
    let path = evidence::Objects::new(places.objects.clone()).path(&digest);
    let good = std::fs::read(&path).expect("read");
    std::fs::write(&path, vec![b'x'; good.len()]).expect("damage");
    let mut run = begin(&fs, &places, 2_000);
    assert_eq!(run.put_object(&value(json!({"object": 1_000}))).expect("object"), digest);
    assert_eq!(std::fs::read(&path).expect("read"), good);
}

#[test]
fn a_failure_to_record_is_told_remembered_and_invents_nothing() {
    let whole = FaultyFs::new();
    program(&whole, &mut Promised::default()).expect("no fault on order");
    let mut told = 0;
    for count in 1..=whole.ops() {
        let fs = FaultyFs::new();
        fs.fail_at(count, std::io::ErrorKind::StorageFull);
        let mut promised = Promised::default();
        told += u32::from(program(&fs, &mut promised).is_err() || !promised.is_finished);
        check_after(&fs, &promised, &format!("fault at {count}"));
        check_after(&fs.reboot(Loss::Everything), &promised, &format!("fault at {count}, then a crash"));
    }
    assert!(told > 40, "{told}");
}

#[test]
fn after_a_failure_the_rest_is_refused_and_the_manifest_says_so() {
    let fs = FaultyFs::new();
    let as_dyn: Arc<dyn Fs> = Arc::new(fs.clone());
    let mut run = EvidenceRun::create(Arc::clone(&as_dyn), &places(), id(1_000), &value(json!({}))).expect("a run");
    run.append("a", &value(json!(1))).expect("append");
    run.sync().expect("sync");
    run.append("b", &value(json!(2))).expect("in memory");
    fs.fail_at(fs.ops() + 1, std::io::ErrorKind::StorageFull);
    assert_eq!(run.sync().expect_err("the disk is full").class(), "no_space");
    assert_eq!(run.failure(), Some("no_space"));
    assert!(matches!(run.append("c", &value(json!(3))), Err(EvidenceError::Stopped { class: "no_space" })));
    let dir = run.dir().to_owned();
    let manifest = run.finish().expect("the manifest fits again");
    assert_eq!((manifest.recording.complete, manifest.recording.failure.as_deref()), (false, Some("no_space")));
    let stored = StoredRun::open(as_dyn, &dir).expect("open");
    assert_eq!(stored.verify().expect("what is there is whole"), (1, Tail::Whole));
}
