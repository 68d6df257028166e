//! A run as a zip: what goes in comes out, equal runs give equal bytes, and an archive that lies is refused.

use std::{
    io::{Cursor, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use pintle_store::{
    EvidenceRun, Fs, RealFs, Sanitiser, StoredRun,
    evidence::{ArchiveError, ArchiveFault, ArchiveLimits, Places, export, unpack},
};
use pintle_testkit::faulty::{FaultyFs, Loss};
use pintle_wire::InstanceId;
use serde_json::json;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

const RUN: &str = "00000000-03e8-7707-8707-070707070707";

fn id() -> InstanceId {
    InstanceId::new(1_000, [7; 16]).expect("a time")
}

/// A run with a record, an input, a report and two objects.
fn record(fs: &Arc<dyn Fs>, root: &Path) -> StoredRun {
    let places = Places::below(root);
    let sanitiser = Sanitiser::default();
    let value = |value: serde_json::Value| sanitiser.value(&value).expect("canonical");
    let mut run = EvidenceRun::create(Arc::clone(fs), &places, id(), &value(json!({"a": 1}))).expect("a run");
    for n in 0..2 {
        let digest = run.put_object(&value(json!({"object": n, "pad": "p".repeat(5000)}))).expect("object");
        run.append("object", &value(json!({"digest": digest}))).expect("append");
    }
    run.put_input("plan.json", &value(json!({"case": "x"}))).expect("input");
    run.put_report("report.json", &value(json!({"verdict": "conformant"}))).expect("report");
    let dir = run.dir().to_owned();
    run.finish().expect("finish");
    StoredRun::open(Arc::clone(fs), &dir).expect("open")
}

fn real() -> Arc<dyn Fs> {
    Arc::new(RealFs)
}

#[test]
fn a_run_survives_the_trip_and_equal_runs_are_equal_archives() {
    let fs = real();
    let archives = ["one", "two"].map(|name| {
        let scratch = tempfile::tempdir().expect("scratch directory");
        let stored = record(&fs, scratch.path());
        let out = scratch.path().join(format!("{name}.zip"));
        assert!(export(fs.as_ref(), &stored, &out).expect("export") > 0);
        let into = scratch.path().join("into");
        std::fs::create_dir(&into).expect("mkdir");
        let dir = unpack(fs.as_ref(), &out, &into, ArchiveLimits::default()).expect("unpack");
        assert_eq!(dir, into.join(RUN));
        let again = StoredRun::open(Arc::clone(&fs), &dir).expect("open");
        let audit = again.audit().expect("readable");
        assert!(audit.is_whole(), "{:?}", audit.problems);
        assert_eq!((audit.records, audit.objects, audit.files), (2, 2, 2));
        std::fs::read(out).expect("read")
    });
    assert!(archives[0] == archives[1]);
    let mut zip = ZipArchive::new(Cursor::new(&archives[0])).expect("a zip");
    let names: Vec<String> = (0..zip.len())
        .map(|n| String::from_utf8(zip.by_index(n).expect("entry").name_raw().to_vec()).expect("text"))
        .collect();
    let expected = ["manifest.json", "journal.ndjson", "input/plan.json", "report.json"];
    assert_eq!(names[..4], expected.map(|name| format!("{RUN}/{name}")));
    assert!(names[4..].iter().all(|name| name.starts_with(&format!("{RUN}/objects/sha256/"))));
}

/// What is damaged is packed as it is, and told by whoever looks.
#[test]
fn a_damaged_or_interrupted_run_can_be_sent_on() {
    let fs = real();
    let scratch = tempfile::tempdir().expect("scratch directory");
    let stored = record(&fs, scratch.path());
    let journal = stored.dir().join("journal.ndjson");
    let text = std::fs::read_to_string(&journal).expect("read");
    std::fs::write(&journal, text.replace("\"seq\":2", "\"seq\":3")).expect("write");
    let out = scratch.path().join("run.zip");
    export(fs.as_ref(), &stored, &out).expect("export");
    let into = scratch.path().join("into");
    std::fs::create_dir(&into).expect("mkdir");
    let dir = unpack(fs.as_ref(), &out, &into, ArchiveLimits::default()).expect("unpack");
    let audit = StoredRun::open(fs, &dir).expect("open").audit().expect("readable");
    assert_eq!(audit.problems.len(), 1);
}

/// An entry: its name, its content, and what it says it is.
struct Entry<'a> {
    name: &'a str,
    content: &'a [u8],
    mode: u32,
}

fn plain<'a>(name: &'a str, content: &'a [u8]) -> Entry<'a> {
    Entry { name, content, mode: 0o100_600 }
}

fn zip_of(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        if entry.mode & 0o170_000 == 0o120_000 {
            zip.add_symlink(entry.name, "/etc/passwd", options).expect("entry");
            continue;
        }
        if entry.name.ends_with('/') {
            zip.add_directory(entry.name, options).expect("entry");
            continue;
        }
        zip.start_file(entry.name, options.unix_permissions(entry.mode)).expect("entry");
        zip.write_all(entry.content).expect("content");
    }
    zip.finish().expect("finish").into_inner()
}

/// Unpacks these bytes, and looks that nothing was written outside of the target.
fn opened(bytes: &[u8], limits: ArchiveLimits) -> Result<PathBuf, ArchiveError> {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let archive = scratch.path().join("run.zip");
    std::fs::write(&archive, bytes).expect("write");
    let into = scratch.path().join("into");
    std::fs::create_dir(&into).expect("mkdir");
    let result = unpack(&RealFs, &archive, &into, limits);
    let mut names: Vec<_> =
        std::fs::read_dir(scratch.path()).expect("list").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["into", "run.zip"], "something was written beside the target");
    for entry in std::fs::read_dir(&into).expect("list") {
        assert_eq!(entry.expect("entry").file_name().to_str(), Some(RUN));
    }
    result
}

fn refused(bytes: &[u8], limits: ArchiveLimits) -> ArchiveFault {
    match opened(bytes, limits) {
        Err(ArchiveError::Refused { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

fn below(name: &str) -> String {
    format!("{RUN}/{name}")
}

#[test]
fn names_that_are_not_of_a_run_are_refused() {
    let long = below(&format!("input/{}", "x".repeat(65)));
    let manifest = below("manifest.json");
    for name in [
        "../escape".to_owned(),
        "/etc/passwd".to_owned(),
        "manifest.json".to_owned(),
        format!("{RUN}/../../escape"),
        format!("{RUN}//manifest.json"),
        format!("{RUN}\\..\\escape"),
        below("input/../../../escape"),
        below("input/.hidden"),
        below("input/a/b"),
        below("input"),
        below("Manifest.json"),
        below("objects/sha256/aa/../../x"),
        below("objects/sha256/aa/short"),
        below("objects/sha512/aa/x"),
        below(&format!("objects/sha256/AA/{}", "a".repeat(62))),
        below("C:\\x"),
        below("nul\u{0}byte"),
        "00000000-03e9-7707-8707-070707070707/report.json".to_owned(),
        "latest/manifest.json".to_owned(),
        long,
    ] {
        let bytes = zip_of(&[plain(&manifest, b"{}"), plain(&name, b"x")]);
        let fault = refused(&bytes, ArchiveLimits::default());
        assert!(matches!(fault, ArchiveFault::Name { .. }), "{name}: {fault}");
    }
}

#[test]
fn links_devices_and_double_entries_are_refused() {
    let manifest = below("manifest.json");
    let object = below("report.json");
    for mode in [0o120_777, 0o060_600, 0o010_600] {
        let mut bytes = zip_of(&[plain(&manifest, b"{}"), Entry { name: &object, content: b"x", mode }]);
        if mode != 0o120_777 {
            // The writer only knows plain files: put the type into the directory's last entry.
            let at = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").expect("a directory entry");
            bytes[at + 38..at + 42].copy_from_slice(&(mode << 16).to_le_bytes());
        }
        assert!(matches!(refused(&bytes, ArchiveLimits::default()), ArchiveFault::NotPlain { .. }), "{mode:o}");
    }
    // The writer refuses a second entry of one name too: give one the name of the other afterwards.
    let mut bytes = zip_of(&[plain(&below("manifest.json"), b"{}"), plain(&below("manifest.jsom"), b"{}")]);
    for at in 0..bytes.len() - 13 {
        if &bytes[at..at + 13] == b"manifest.jsom" {
            bytes[at + 12] = b'n';
        }
    }
    assert_eq!(refused(&bytes, ArchiveLimits::default()), ArchiveFault::Duplicate);
    assert_eq!(refused(&zip_of(&[plain(&object, b"x")]), ArchiveLimits::default()), ArchiveFault::NoManifest);
    assert_eq!(refused(&zip_of(&[]), ArchiveLimits::default()), ArchiveFault::NoManifest);
}

/// Directories, as other tools put them in, have no place of their own.
#[test]
fn directories_of_a_run_are_passed_over() {
    let entries = ["", "input/", "objects/", "objects/sha256/", "objects/sha256/ab/"].map(below);
    let mut zip: Vec<Entry<'_>> = entries.iter().map(|name| plain(name, b"")).collect();
    let manifest = below("manifest.json");
    zip.push(plain(&manifest, b"{}"));
    assert!(opened(&zip_of(&zip), ArchiveLimits::default()).is_ok());
}

#[test]
fn every_bound_is_kept() {
    let limits = ArchiveLimits {
        archive_bytes: 100_000,
        directory_bytes: 8_000,
        entries: 20,
        entry_bytes: 50_000,
        total_bytes: 60_000,
    };
    let manifest = below("manifest.json");
    let with = |more: &[Entry<'_>]| {
        let mut entries = vec![plain(&manifest, b"{}")];
        entries.extend(more.iter().map(|entry| plain(entry.name, entry.content)));
        zip_of(&entries)
    };
    let zeros = vec![0; 50_001];
    let names: Vec<String> = (0..30).map(|n| below(&format!("input/{n}"))).collect();
    // A thousand to one.
    assert!(matches!(
        refused(&with(&[plain(&names[0], &zeros)]), limits),
        ArchiveFault::Bomb { limit_bytes: 50_000, .. }
    ));
    let two = [plain(&names[0], &zeros[..40_000]), plain(&names[1], &zeros[..40_000])];
    assert!(matches!(refused(&with(&two), limits), ArchiveFault::Bomb { limit_bytes: 19_998, .. }));
    let many: Vec<Entry<'_>> = names.iter().map(|name| plain(name, b"")).collect();
    assert_eq!(refused(&with(&many), limits), ArchiveFault::TooManyEntries { entries: 31, limit: 20 });
    let mut state = 7_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let noise: Vec<u8> = (0..120_000).map(|_| noise()).collect();
    assert!(matches!(refused(&with(&[plain(&names[0], &noise)]), limits), ArchiveFault::TooLarge { .. }));
    let small_directory = ArchiveLimits { directory_bytes: 1_000, entries: 100, ..limits };
    assert!(matches!(opened(&with(&many), small_directory), Err(ArchiveError::Malformed { .. })));
    assert!(opened(&with(&many[..10]), limits).is_ok());
}

/// An entry that says it is small and is not.
#[test]
fn what_comes_out_counts_and_not_what_the_archive_says() {
    let manifest = below("manifest.json");
    let zeros = vec![0; 30_000];
    let mut bytes = zip_of(&[plain(&manifest, &zeros)]);
    let at = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").expect("a directory entry");
    bytes[at + 24..at + 28].copy_from_slice(&100_u32.to_le_bytes());
    assert!(opened(&bytes, ArchiveLimits::default()).is_err());
}

#[test]
fn what_is_no_archive_is_told_with_its_name() {
    for bytes in [&b""[..], b"PK", b"not a zip at all", &[0; 4096]] {
        let error = opened(bytes, ArchiveLimits::default()).expect_err("it is none");
        assert!(matches!(error, ArchiveError::Malformed { .. }));
        assert!(error.to_string().contains("run.zip"), "{error}");
    }
    // Cut anywhere, or with a byte changed, it is an error or the same run, never a panic.
    let good = zip_of(&[plain(&below("manifest.json"), b"{}"), plain(&below("journal.ndjson"), b"text\n")]);
    for at in 0..good.len() {
        let _ = opened(&good[..at], ArchiveLimits::default());
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        let _ = opened(&bad, ArchiveLimits::default());
    }
}

/// After a crash anywhere the target is not there, or whole; the run is as it was.
#[test]
fn a_crash_while_packing_leaves_no_half_archive() {
    let build = || {
        let fs = FaultyFs::new();
        let as_dyn: Arc<dyn Fs> = Arc::new(fs.clone());
        let stored = record(&as_dyn, Path::new("/home"));
        (fs, stored)
    };
    let out = Path::new("/home/run.zip");
    let (whole, stored) = build();
    let before = whole.ops();
    export(&whole, &stored, out).expect("export");
    for count in before + 1..=whole.ops() {
        let (fs, stored) = build();
        fs.crash_after(count);
        assert!(export(&fs, &stored, out).is_err() || count == whole.ops());
        for loss in [Loss::Everything, Loss::Nothing, Loss::Dice(1), Loss::Dice(2)] {
            let after = fs.reboot(loss);
            after.create_dir(Path::new("/into"), 0o700).expect("mkdir");
            match unpack(&after, out, Path::new("/into"), ArchiveLimits::default()) {
                Ok(dir) => {
                    let run = StoredRun::open(Arc::new(after), &dir).expect("open");
                    assert!(run.audit().expect("readable").is_whole(), "crash after {count}, {loss:?}");
                }
                Err(ArchiveError::Fs(error)) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}"),
                Err(error) => panic!("crash after {count}, {loss:?}: {error}"),
            }
        }
    }
}
