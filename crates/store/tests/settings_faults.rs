//! The promise of `settings::apply` (section 8): all files or none, with an error or a crash at each of its operations.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use pintle_store::{
    Fs, fsx,
    settings::{self, FileChange, SettingsError},
};
use pintle_testkit::faulty::{FaultyFs, Loss};

const BACKUPS: &str = "/state/backups";
const FILES: [(&str, Option<&str>, Option<&str>); 3] = [
    ("/home/hooks.json", Some("{\"a\":1}"), Some("{\"a\":1,\"hooks\":{}}")),
    ("/home/new.json", None, Some("{}")),
    ("/home/gone.js", Some("old"), None),
];

fn disk() -> FaultyFs {
    let fs = FaultyFs::new();
    fsx::ensure_dir(&fs, Path::new("/home")).expect("mkdir");
    for (path, before, _) in FILES {
        if let Some(before) = before {
            pintle_store::atomic::replace(&fs, Path::new(path), before.as_bytes()).expect("write");
        }
    }
    fs.reboot(Loss::Nothing)
}

fn changes(fs: &FaultyFs, count: usize) -> Vec<FileChange> {
    let change = |(path, _, after): &(&str, Option<&str>, Option<&str>)| FileChange {
        settings: settings::read(fs, Path::new(path), 1 << 20).expect("reads"),
        after: after.map(|text| text.as_bytes().to_vec()),
        label: "test".into(),
        made_dirs: Vec::new(),
    };
    FILES[..count].iter().map(change).collect()
}

fn apply(fs: &FaultyFs, changes: &[FileChange]) -> Result<Option<PathBuf>, SettingsError> {
    settings::apply(fs, Path::new(BACKUPS), "install", SystemTime::UNIX_EPOCH, changes)
}

fn contents(fs: &FaultyFs) -> Vec<Option<String>> {
    let content = |path: &str| fsx::read_bounded(fs, Path::new(path), 1 << 20).ok();
    FILES.iter().map(|(path, ..)| content(path).map(|bytes| String::from_utf8(bytes).expect("UTF-8"))).collect()
}

fn expected(new: bool) -> Vec<Option<String>> {
    FILES.iter().map(|(_, before, after)| if new { *after } else { *before }.map(str::to_owned)).collect()
}

fn strays(fs: &FaultyFs) -> Vec<String> {
    let entries = fs.read_dir(Path::new("/home")).expect("list");
    entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).filter(|name| name.starts_with('.')).collect()
}

#[test]
fn an_error_anywhere_changes_every_file_or_none() {
    let whole = disk();
    let start = whole.ops();
    apply(&whole, &changes(&whole, 3)).expect("no fault on order");
    let end = whole.ops();
    assert_eq!(contents(&whole), expected(true));
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
        for count in start + 1..=end {
            let fs = disk();
            let wanted = changes(&fs, 3);
            fs.fail_at(count, kind);
            match apply(&fs, &wanted) {
                Ok(_) => assert_eq!(contents(&fs), expected(true), "fault {count}"),
                Err(error) => {
                    assert_eq!(contents(&fs), expected(false), "fault {count} {kind}: {error}");
                    assert_ne!(error.code(), "INSTALL_AND_ROLLBACK_FAILED", "fault {count}: nothing else failed");
                }
            }
            // A probe whose removal failed is the one thing that may stay.
            assert!(strays(&fs).iter().all(|name| name.contains(".tmp-")), "fault {count}: {:?}", strays(&fs));
        }
    }
}

/// A crash leaves each file old or new, and where one is new, the backup that takes it back.
#[test]
fn a_crash_anywhere_leaves_whole_files_and_the_way_back() {
    let whole = disk();
    let start = whole.ops();
    apply(&whole, &changes(&whole, 3)).expect("no fault on order");
    for count in start + 1..=whole.ops() {
        for loss in [Loss::Everything, Loss::Nothing].into_iter().chain((0..16).map(Loss::Dice)) {
            let fs = disk();
            let wanted = changes(&fs, 3);
            fs.crash_after(count);
            let _ = apply(&fs, &wanted);
            let after = fs.reboot(loss);
            let (found, old, new) = (contents(&after), expected(false), expected(true));
            for ((found, old), new) in found.iter().zip(&old).zip(&new) {
                assert!(found == old || found == new, "crash {count} {loss:?}: {found:?}");
            }
            if found != old {
                let backups = settings::list_backups(&after, Path::new(BACKUPS)).expect("lists");
                let [(dir, backup)] = &backups[..] else { panic!("crash {count} {loss:?}: a backup") };
                for (at, old) in old.iter().enumerate() {
                    let saved = settings::saved(&after, dir, backup, at).expect("the old content");
                    assert_eq!(saved.map(|bytes| String::from_utf8(bytes).expect("UTF-8")), *old);
                }
            }
        }
    }
}

/// A file that cannot be replaced, now or later, such as an immutable one, was not changed: that is no failed way back.
#[test]
fn a_file_that_stays_unwritable_is_no_failed_rollback() {
    let whole = disk();
    apply(&whole, &changes(&whole, 1)).expect("no fault on order");
    let rename = whole.trace().iter().rposition(|op| op.name == "rename").expect("a rename") as u64;
    let fs = disk();
    let wanted = changes(&fs, 1);
    fs.crash_after(rename);
    let error = apply(&fs, &wanted).expect_err("it fails");
    assert_eq!(error.code(), "INSTALL_FAILED", "{error}");
    assert_eq!(contents(&fs.reboot(Loss::Nothing)), expected(false));
}

/// A file that was changed and cannot be changed back is the loudest error, and names both files and the backup.
#[test]
fn a_failed_way_back_is_told() {
    let whole = disk();
    apply(&whole, &changes(&whole, 2)).expect("no fault on order");
    let rename = whole.trace().iter().rposition(|op| op.name == "rename").expect("a rename") as u64;
    let fs = disk();
    let wanted = changes(&fs, 2);
    fs.crash_after(rename);
    let error = apply(&fs, &wanted).expect_err("it fails");
    assert_eq!(error.code(), "INSTALL_AND_ROLLBACK_FAILED", "{error}");
    for part in ["/home/new.json", "/home/hooks.json", BACKUPS] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// On a full disk nothing is changed, and no backup that undoes nothing takes room.
#[test]
fn a_full_disk_keeps_no_half_backup() {
    let fs = disk();
    fs.set_capacity_bytes(0);
    let error = apply(&fs, &changes(&fs, 3)).expect_err("nothing fits");
    assert_eq!((error.code(), contents(&fs)), ("BACKUP_FAILED", expected(false)), "{error}");
    let left = fs.read_dir(Path::new(BACKUPS)).expect("lists");
    let left: Vec<_> = left.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
    assert_eq!(left, ["lock"]);
}
