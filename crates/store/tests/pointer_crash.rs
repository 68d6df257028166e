//! A crash, an error or a full disk after every operation of every kind of write: the record is the old one or the new
//! one, never another, and never absent where there was one.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use pintle_pointer::{
    Event, Expectation, ExpectedGeneration, Fresh, Observed, Pointer, PointerText, PublishRequest, SessionId, Start,
    State, Task, TaskId,
};
use pintle_store::{
    Fs, atomic, fsx,
    pointer::{PointerError, PointerStore},
};
use pintle_testkit::faulty::{FaultyFs, Loss};

const ROOT: &str = "/home/state/tasks";
const NOW: i64 = 1_767_225_600;

fn session() -> SessionId {
    "s-1".parse().expect("legal id")
}

fn state_path() -> PathBuf {
    Path::new(ROOT).join("s-1/state.json")
}

fn fresh(seed: u8) -> Fresh {
    Fresh { now_unix_seconds: NOW, random: [seed; 16] }
}

fn task(text: &str) -> Pointer {
    Pointer::Clean(Task { id: TaskId::from_random([1; 16]), text: PointerText::publish(text).expect("legal") })
}

/// What a disk holds before the operation that is swept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Cleared,
    Clean,
    Legacy,
    Garbage,
}

/// The operation that is swept.
#[derive(Clone, Copy, Debug)]
enum Act {
    Prompt,
    Clear,
    Publish,
    PublishClear,
    Repair,
}

fn disk(before: Before) -> FaultyFs {
    let fs = FaultyFs::new();
    let store = PointerStore::new(&fs, ROOT);
    match before {
        Before::Nothing => {}
        Before::Cleared | Before::Clean => {
            let mut locked = store.lock(&session(), Duration::ZERO).expect("lock");
            locked.apply(Event::Prompt, fresh(1)).expect("fence");
            if before == Before::Clean {
                let request = request(locked.observed(), task("old"));
                locked.apply(Event::Publish(&request), fresh(2)).expect("publish");
            }
        }
        Before::Legacy | Before::Garbage => {
            fsx::ensure_dir(&fs, &Path::new(ROOT).join("s-1")).expect("mkdir");
            let content = if before == Before::Legacy { LEGACY } else { "{\"schema_version\": 3, \"sess" };
            atomic::replace(&fs, &state_path(), content.as_bytes()).expect("write");
        }
    }
    fs.reboot(Loss::Everything)
}

const LEGACY: &str = r#"{"schema_version":2,"session_id":"s-1","revision":4,"status":"CLEAN","task_id":"01010101-0101-4101-8101-010101010101","pointer_text":"old","updated_at":"2025-12-31T00:00:00Z"}"#;

fn request(observed: &Observed, target: Pointer) -> PublishRequest {
    let absent = Expectation { generation: ExpectedGeneration::Absent, revision: 0 };
    PublishRequest { session_id: session(), expected: observed.expectation().unwrap_or(absent), target }
}

/// The whole of a command: lock, write, sidecar, history.
fn run(fs: &FaultyFs, act: Act) -> Result<Option<State>, PointerError> {
    let store = PointerStore::new(fs, ROOT);
    let mut locked = store.lock(&session(), Duration::ZERO)?;
    let before = locked.observed().clone();
    let publish = request(&before, task("new\ntext"));
    let clear = request(&before, Pointer::Cleared);
    let event = match act {
        Act::Prompt => Event::Prompt,
        Act::Clear => Event::SessionStart(Start::Clear),
        Act::Publish => Event::Publish(&publish),
        Act::PublishClear => Event::Publish(&clear),
        Act::Repair => Event::Repair,
    };
    locked.apply(event, fresh(9))?;
    let state = match locked.observed() {
        Observed::Current(state) if *locked.observed() != before => Some(state.clone()),
        _ => None,
    };
    let mut meta = locked.meta();
    meta.touch(NOW, Some("/project"), None);
    let _ = locked.save_meta(&meta);
    if let (Act::Publish | Act::PublishClear, Some(state)) = (act, &state) {
        let _ = locked.add_to_history(state);
    }
    Ok(state)
}

fn observe(fs: &FaultyFs) -> Observed {
    PointerStore::new(fs, ROOT).observe(&session()).expect("the disk answers")
}

fn losses() -> impl Iterator<Item = Loss> {
    [Loss::Everything, Loss::Nothing].into_iter().chain((0..24).map(Loss::Dice))
}

fn cases() -> impl Iterator<Item = (Before, Act)> {
    use Before::{Clean, Cleared, Garbage, Legacy, Nothing};
    [Nothing, Cleared, Clean, Legacy, Garbage].into_iter().flat_map(|before| {
        [Act::Prompt, Act::Clear, Act::Publish, Act::PublishClear, Act::Repair].map(|act| (before, act))
    })
}

#[test]
fn after_a_crash_anywhere_the_record_is_old_or_new() {
    for (before, act) in cases() {
        let whole = disk(before);
        let old = observe(&disk(before));
        let new = run(&whole, act).expect("no fault on order").map(Observed::Current);
        for count in 1..=whole.ops() {
            let fs = disk(before);
            fs.crash_after(count);
            let outcome = run(&fs, act);
            assert!(fs.has_crashed());
            let told = outcome.ok().flatten().map(Observed::Current);
            for loss in losses() {
                let after = fs.reboot(loss);
                let found = observe(&after);
                assert!(
                    found == old || Some(&found) == new.as_ref(),
                    "{before:?} {act:?} crash {count} {loss:?}: {found:?}"
                );
                if let Some(told) = &told {
                    assert_eq!(&found, told, "{before:?} {act:?} crash {count} {loss:?}: what was told stands");
                }
                // The next process works on whatever is there.
                let mut locked = PointerStore::new(&after, ROOT).lock(&session(), Duration::ZERO).expect("lock");
                locked.apply(Event::SessionStart(Start::Clear), fresh(200)).expect("clear");
                locked.remove_leftovers().expect("leftovers");
                let left = fsx::read_dir(&after, &Path::new(ROOT).join("s-1")).expect("list");
                assert!(left.iter().all(|entry| !entry.name.to_string_lossy().contains(".tmp-")), "{left:?}");
            }
        }
        for loss in losses() {
            let found = observe(&whole.reboot(loss));
            assert_eq!(&found, new.as_ref().unwrap_or(&old), "{before:?} {act:?} {loss:?}: a success is durable");
        }
    }
}

#[test]
fn an_error_anywhere_leaves_the_old_record_or_says_that_the_new_one_stands() {
    for (before, act) in cases() {
        let whole = disk(before);
        let old = observe(&disk(before));
        let new = run(&whole, act).expect("no fault on order").map(Observed::Current);
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied] {
            for count in 1..=whole.ops() {
                let fs = disk(before);
                fs.fail_at(count, kind);
                let outcome = run(&fs, act);
                let found = observe(&fs.reboot(Loss::Nothing));
                match outcome {
                    Ok(_) => assert_eq!(&found, new.as_ref().unwrap_or(&old), "{before:?} {act:?} fault {count}"),
                    Err(PointerError::NotDurable { .. }) => assert_eq!(Some(&found), new.as_ref()),
                    Err(error) => {
                        assert_eq!(found, old, "{before:?} {act:?} fault {count} {kind}: {error}");
                        assert!(error.code().as_str().starts_with("STATE_"), "{error:?}");
                    }
                }
                let temps = fs.read_dir(&Path::new(ROOT).join("s-1")).map(|entries| {
                    entries.iter().filter(|entry| entry.name.to_string_lossy().contains(".tmp-")).count()
                });
                assert_eq!(temps.unwrap_or(0), 0, "{before:?} {act:?} fault {count}");
            }
        }
    }
}

/// Item 9: what could not be read is set aside, byte for byte, also where the file system has no hard links.
#[test]
fn corrupt_files_are_kept() {
    let find = |fs: &FaultyFs| {
        let entries = fsx::read_dir(fs, &Path::new(ROOT).join("s-1")).expect("list");
        let names = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned());
        let aside: Vec<String> = names.filter(|name| name.starts_with("state.json.corrupt-")).collect();
        assert_eq!(aside.len(), 1, "{aside:?}");
        assert!(aside[0].starts_with("state.json.corrupt-20260101T000000Z-"), "{aside:?}");
        fsx::read_bounded(fs, &Path::new(ROOT).join("s-1").join(&aside[0]), 1 << 16).expect("read")
    };
    let fs = disk(Before::Garbage);
    run(&fs, Act::Repair).expect("repaired").expect("written");
    assert_eq!(find(&fs), b"{\"schema_version\": 3, \"sess");

    let fs = disk(Before::Garbage);
    run(&fs, Act::Repair).expect("repaired");
    let link = fs.trace().iter().position(|op| op.name == "link").expect("a link") as u64 + 1;
    let fs = disk(Before::Garbage);
    fs.fail_at(link, io::ErrorKind::Unsupported);
    run(&fs, Act::Repair).expect("repaired").expect("written");
    assert_eq!(find(&fs), b"{\"schema_version\": 3, \"sess");
}

/// Item 17: without locks a lock file stands in, and the caller can say so.
#[test]
fn file_systems_without_locks_degrade_and_say_so() {
    let fs = disk(Before::Clean);
    run(&fs, Act::Prompt).expect("no fault on order");
    let lock = fs.trace().iter().position(|op| op.name == "lock").expect("a lock") as u64 + 1;
    let fs = disk(Before::Clean);
    fs.fail_at(lock, io::ErrorKind::Unsupported);
    let store = PointerStore::new(&fs, ROOT);
    let mut locked = store.lock(&session(), Duration::ZERO).expect("lock file");
    assert!(locked.is_lock_degraded());
    locked.apply(Event::Prompt, fresh(3)).expect("written");
    assert!(fsx::symlink_metadata(&fs, &Path::new(ROOT).join("s-1/lock.held")).expect("stat").is_some());
    drop(locked);
    assert!(fsx::symlink_metadata(&fs, &Path::new(ROOT).join("s-1/lock.held")).expect("stat").is_none());
}

/// Part 9: a prompt touches the disk as often as it must and not once more.
#[test]
fn a_prompt_costs_these_operations() {
    let fs = disk(Before::Clean);
    let start = fs.trace().len();
    run(&fs, Act::Prompt).expect("no fault on order");
    let trace = fs.trace();
    let names: Vec<&str> = trace[start..].iter().map(|op| op.name).collect();
    let lock = ["open", "lock"];
    let read = ["open", "read", "read"];
    let write = ["create", "write", "sync", "open", "read", "read", "rename", "sync_dir"];
    let no_sidecar_yet = ["open"];
    let sidecar = ["create", "write", "rename"];
    let expected = [&lock[..], &read, &write, &no_sidecar_yet, &sidecar].concat();
    assert_eq!(names, expected);
}

/// The first write of a session makes its folder durable before it says so.
#[test]
fn a_first_prompt_makes_the_folder_durable() {
    let fs = FaultyFs::new();
    run(&fs, Act::Prompt).expect("written");
    assert!(matches!(observe(&fs.reboot(Loss::Everything)), Observed::Current(_)));
}
