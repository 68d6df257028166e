//! The promise of `atomic::replace`, with a crash, an error or a full disk at each of its operations.

use std::{
    io,
    path::{Path, PathBuf},
};

use pintle_store::{Fs, atomic, fsx};
use pintle_testkit::faulty::{FaultyFs, Loss};

const OLD: &[u8] = b"{\"revision\":1}";
const NEW: &[u8] = b"{\"revision\":2,\"text\":\"longer than the old one\"}";

fn target() -> PathBuf {
    PathBuf::from("/state/s.json")
}

/// A disk on which the old content is certain.
fn disk_with_old() -> FaultyFs {
    let fs = FaultyFs::new();
    fsx::ensure_dir(&fs, Path::new("/state")).expect("mkdir");
    atomic::replace(&fs, &target(), OLD).expect("old content");
    fs.reboot(Loss::Everything)
}

fn losses() -> impl Iterator<Item = Loss> {
    [Loss::Everything, Loss::Nothing].into_iter().chain((0..64).map(Loss::Dice))
}

fn content(fs: &FaultyFs) -> Vec<u8> {
    fsx::read_bounded(fs, &target(), 1 << 16).expect("the target is always there")
}

fn names(fs: &FaultyFs) -> usize {
    fs.read_dir(Path::new("/state")).expect("list").len()
}

#[test]
fn after_a_crash_anywhere_the_file_is_old_or_new_and_a_success_is_new() {
    let whole = disk_with_old();
    atomic::replace(&whole, &target(), NEW).expect("no fault on order");
    let operations = whole.ops();
    assert!(operations >= 8, "create, write, sync, open, read, read, rename, sync_dir: {:?}", whole.trace());

    let mut seen_new_before_success = false;
    for count in 1..=operations {
        let fs = disk_with_old();
        fs.crash_after(count);
        let outcome = atomic::replace(&fs, &target(), NEW);
        assert!(fs.has_crashed() && outcome.is_err());
        for loss in losses() {
            let after = fs.reboot(loss);
            let found = content(&after);
            assert!(found == OLD || found == NEW, "crash after {count}, {loss:?}: {found:?}");
            seen_new_before_success |= found == NEW;
            if count == operations {
                assert_eq!(found, NEW, "the last sync was done, {loss:?}");
            }
            atomic::remove_leftovers(&after, &target()).expect("clean");
            assert_eq!(names(&after), 1, "crash after {count}, {loss:?}: only the target stays");
        }
    }
    assert!(seen_new_before_success);

    for loss in losses() {
        assert_eq!(content(&whole.reboot(loss)), NEW);
    }
}

#[test]
fn an_error_anywhere_is_told_by_what_the_file_holds_and_leaves_no_temporary_file() {
    let whole = disk_with_old();
    atomic::replace(&whole, &target(), NEW).expect("no fault on order");
    for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
        for count in 1..=whole.ops() {
            let fs = disk_with_old();
            fs.fail_at(count, kind);
            let error = atomic::replace(&fs, &target(), NEW).expect_err("the fault is reported");
            let expected = if error.is_replaced() { NEW } else { OLD };
            assert_eq!(content(&fs), expected, "fault at {count}: {error}");
            assert_eq!(names(&fs), 1, "fault at {count}: {error}");
            if !error.is_replaced() {
                for loss in losses() {
                    assert_eq!(content(&fs.reboot(loss)), OLD, "fault at {count}, {loss:?}");
                }
            }
        }
    }
}

#[test]
fn on_a_full_disk_the_old_content_stands() {
    for free in 0..NEW.len() {
        let fs = disk_with_old();
        fs.set_capacity_bytes(OLD.len() + free);
        let error = atomic::replace(&fs, &target(), NEW).expect_err("it does not fit");
        assert_eq!(error.class(), "no_space");
        assert_eq!((content(&fs).as_slice(), names(&fs)), (OLD, 1));
    }
}

/// The sweep above can fail: without the syncs it does. This keeps the model of the disk honest.
#[test]
fn the_model_tears_what_is_not_synced() {
    let fs = disk_with_old();
    let options = atomic::ReplaceOptions { durability: atomic::Durability::Unsynced, ..Default::default() };
    atomic::replace_with(&fs, &target(), NEW, options).expect("no fault on order");
    let torn = losses().any(|loss| {
        let found = content(&fs.reboot(loss));
        found != OLD && found != NEW
    });
    assert!(torn);
}
