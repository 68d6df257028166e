//! The pointer store on the real file system.

use std::{cell::Cell, path::Path, time::Duration};

use pintle_pointer::{
    Code, Event, Fresh, Observed, Pointer, PointerText, PublishRequest, SessionId, Start, Status, Task, TaskId,
};
use pintle_store::{
    RealFs, fsx,
    lock::Patience,
    pointer::{PointerError, PointerStore},
};

fn id(text: &str) -> SessionId {
    text.parse().expect("legal id")
}

fn fresh(seed: u8) -> Fresh {
    Fresh { now_unix_seconds: 1_767_225_600 + i64::from(seed), random: [seed; 16] }
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("scratch directory")
}

fn write(path: &Path, content: &[u8]) {
    pintle_store::atomic::replace(&RealFs, path, content).expect("write");
}

fn publish(store: &PointerStore<'_>, session: &SessionId, text: &str, seed: u8) {
    let mut locked = store.lock(session, Duration::ZERO).expect("lock");
    let target =
        Pointer::Clean(Task { id: TaskId::from_random([seed; 16]), text: PointerText::publish(text).expect("legal") });
    let expected = locked.observed().expectation().expect("readable");
    let request = PublishRequest { session_id: session.clone(), expected, target };
    locked.apply(Event::Publish(&request), fresh(seed)).expect("published");
    let Observed::Current(state) = locked.observed().clone() else { panic!("current") };
    locked.add_to_history(&state).expect("history");
    let mut meta = locked.meta();
    meta.touch(fresh(seed).now_unix_seconds, Some("/project"), None);
    locked.save_meta(&meta).expect("sidecar");
}

#[cfg(unix)]
#[test]
fn files_are_private() {
    let dir = scratch();
    let root = dir.path().join("a/b");
    let store = PointerStore::new(&RealFs, &root);
    publish(&store, &id("s"), "x", 1);
    for (path, mode) in [(root.clone(), 0o700), (root.join("s"), 0o700), (root.join("s/state.json"), 0o600)] {
        let meta = fsx::symlink_metadata(&RealFs, &path).expect("stat").expect("there");
        assert_eq!(meta.mode, mode, "{path:?}");
    }
    for entry in fsx::read_dir(&RealFs, &root.join("s")).expect("list") {
        let meta = fsx::symlink_metadata(&RealFs, &root.join("s").join(&entry.name)).expect("stat").expect("there");
        assert_eq!(meta.mode, 0o600, "{:?}", entry.name);
    }
}

/// Item 31: the root may be reached through a link, nothing below it may be one.
#[cfg(unix)]
#[test]
fn links_below_the_root_are_refused() {
    use std::os::unix::fs::symlink;
    let dir = scratch();
    let elsewhere = dir.path().join("elsewhere");
    fsx::create_dir(&RealFs, &elsewhere).expect("mkdir");
    let root = dir.path().join("root");
    symlink(&elsewhere, &root).expect("symlink");
    let store = PointerStore::new(&RealFs, &root);
    publish(&store, &id("good"), "x", 1);

    symlink(&elsewhere, root.join("bad")).expect("symlink");
    let check = |result: Result<(), PointerError>| {
        let error = result.expect_err("refused");
        assert_eq!(error.code(), Code::PathReparsePoint, "{error}");
    };
    check(store.observe(&id("bad")).map(drop));
    check(store.lock(&id("bad"), Duration::ZERO).map(drop));

    fsx::create_dir(&RealFs, &root.join("worse")).expect("mkdir");
    symlink(elsewhere.join("good/state.json"), root.join("worse/state.json")).expect("symlink");
    check(store.observe(&id("worse")).map(drop));
    check(store.lock(&id("worse"), Duration::ZERO).map(drop));

    fsx::create_dir(&RealFs, &root.join("lock-link")).expect("mkdir");
    symlink("nowhere", root.join("lock-link/lock")).expect("symlink");
    assert!(store.lock(&id("lock-link"), Duration::ZERO).is_err());
    assert!(!root.join("lock-link/nowhere").exists());
}

/// Item 16: the wait for the lock ends, by the clock that is given.
#[test]
fn the_wait_for_the_lock_is_bounded() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    let _held = store.lock(&id("s"), Duration::ZERO).expect("free");
    let clock = Cell::new(Duration::ZERO);
    let patience = Patience {
        limit: Duration::from_secs(2),
        elapsed: &|| clock.get(),
        pause: &|pause| clock.set(clock.get() + pause),
    };
    let error = store.lock_with(&id("s"), &patience).expect_err("held");
    assert_eq!((error.code(), clock.get()), (Code::LockTimeout, Duration::from_secs(2)));
    assert!(store.try_lock_existing(&id("s")).expect("no error").is_none());
    assert!(store.try_lock_existing(&id("other")).expect("no error").is_none());
    assert!(!dir.path().join("other").exists(), "looking creates nothing");
    // Reading needs no lock.
    assert_eq!(store.observe(&id("s")).expect("readable"), Observed::Absent);
}

/// Item 18: ids equal up to case are two sessions, and a record in the wrong folder is not trusted.
#[test]
fn ids_that_fold_together_stay_apart() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    for (session, seed) in [("ses_Ab", 1), ("ses_aB", 2), ("con", 3), ("x.", 4)] {
        publish(&store, &id(session), session, seed);
    }
    let listed = store.sessions().expect("list");
    let mut found: Vec<(String, String)> = listed
        .iter()
        .map(|one| (one.session.to_string(), one.observed.task().expect("task").text.as_str().to_owned()))
        .collect();
    found.sort();
    let expected = ["con", "ses_Ab", "ses_aB", "x."].map(|name| (name.to_owned(), name.to_owned()));
    assert_eq!(found, expected);
    let from = dir.path().join(id("ses_Ab").dir_name()).join("state.json");
    let bytes = fsx::read_bounded(&RealFs, &from, 1 << 16).expect("read");
    pintle_store::atomic::replace(&RealFs, &dir.path().join("con~").join("state.json"), &bytes).expect_err("no folder");
    publish(&store, &id("thief"), "x", 5);
    pintle_store::atomic::replace(&RealFs, &dir.path().join("thief/state.json"), &bytes).expect("write");
    let observed = store.observe(&id("thief")).expect("readable");
    assert!(matches!(observed, Observed::Corrupt(fault) if fault.code == Code::StateSessionMismatch));
}

#[test]
fn a_file_over_the_limit_is_corrupt_and_survives_a_clear() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    publish(&store, &id("s"), "x", 1);
    let huge = vec![b' '; 70_000];
    pintle_store::atomic::replace(&RealFs, &dir.path().join("s/state.json"), &huge).expect("write");
    let observed = store.observe(&id("s")).expect("readable");
    assert!(matches!(observed, Observed::Corrupt(fault) if fault.code == Code::StateTooLarge));
    let mut locked = store.lock(&id("s"), Duration::ZERO).expect("lock");
    locked.apply(Event::SessionStart(Start::Clear), fresh(7)).expect("cleared");
    let kept = fsx::read_dir(&RealFs, &dir.path().join("s")).expect("list");
    let kept = kept.iter().find(|entry| entry.name.to_string_lossy().contains(".corrupt-")).expect("set aside");
    let meta = fsx::symlink_metadata(&RealFs, &dir.path().join("s").join(&kept.name)).expect("stat").expect("there");
    assert_eq!(meta.len_bytes, 70_000);
}

/// A10: publishes are remembered, the last twenty.
#[test]
fn history_is_a_ring() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    for seed in 1..=23 {
        publish(&store, &id("s"), &format!("text {seed}"), seed);
    }
    let history = store.history(&id("s")).expect("readable");
    let texts: Vec<&str> = history.iter().map(|state| state.pointer.task().expect("task").text.as_str()).collect();
    let expected: Vec<String> = (4..=23).map(|seed| format!("text {seed}")).collect();
    assert_eq!(texts, expected);
    assert_eq!(store.history(&id("none")).expect("readable"), Vec::new());
    // The file itself stays bounded.
    let mut longest = 0;
    for seed in 24..=100 {
        publish(&store, &id("s"), &"\n".repeat(8000).replacen('\n', "x", 1), seed);
        let meta = fsx::symlink_metadata(&RealFs, &dir.path().join("s/history.ndjson")).expect("stat").expect("there");
        longest = longest.max(meta.len_bytes);
    }
    assert!(longest < pintle_pointer::HISTORY_MAX_BYTES as u64, "{longest}");
    assert_eq!(store.history(&id("s")).expect("readable").len(), pintle_pointer::HISTORY_MAX_ENTRIES);
}

/// Item 38: only what is old enough goes, and nobody who waits for the lock writes into a folder that is gone.
#[test]
fn collecting_removes_old_sessions_only() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    publish(&store, &id("old"), "x", 1);
    publish(&store, &id("busy"), "x", 2);
    publish(&store, &id("new"), "x", 100);
    let before = fresh(50).now_unix_seconds;
    let mut seed = 0;
    let mut random = || {
        seed += 1;
        [seed; 16]
    };
    let dry = store.collect(before, true, &mut random).expect("listed");
    assert_eq!(dry.removed, [id("busy"), id("old")]);
    let busy = store.lock(&id("busy"), Duration::ZERO).expect("lock");
    let done = store.collect(before, false, &mut random).expect("collected");
    assert_eq!((done.removed, done.kept.len()), (vec![id("old")], 1));
    drop(busy);
    let left: Vec<SessionId> = store.sessions().expect("list").into_iter().map(|one| one.session).collect();
    assert_eq!(left, [id("busy"), id("new")]);
    assert!(!dir.path().join("old").exists());
    assert_eq!(fsx::read_dir(&RealFs, dir.path()).expect("list").len(), 2, "no trash stays");
}

/// A1: a root with anything else in it is not ours.
#[test]
fn foreign_roots_are_recognised() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    assert!(store.follows_layout(32).expect("readable"));
    publish(&store, &id("s"), "x", 1);
    assert!(store.follows_layout(32).expect("readable"));
    let follows = |root: &Path| PointerStore::new(&RealFs, root).follows_layout(32).expect("readable");
    // A session on its way to its first record, and a stray file beside sessions.
    fsx::create_dir(&RealFs, &dir.path().join("0a1b")).expect("mkdir");
    fsx::create_dir(&RealFs, &dir.path().join("begun")).expect("mkdir");
    write(&dir.path().join("begun/lock"), b"");
    write(&dir.path().join("begun/.state.json.tmp-0123456789abcdef"), b"{");
    write(&dir.path().join("desktop.ini"), b"");
    // A torn record, in its own folder and in a mapped one.
    for name in ["torn", "up~0123456789abcdef"] {
        fsx::create_dir(&RealFs, &dir.path().join(name)).expect("mkdir");
        write(&dir.path().join(name).join("state.json"), b"{\"schema_version\": 3, \"sess");
    }
    assert!(follows(dir.path()));
    assert!(!follows(&dir.path().join("none")));
    for (file, content) in [
        ("x/pointer.json", &b"{}"[..]),
        ("x/state.json", b"{\"envelope\": {}}"),
        ("x/state.json", b"{\"session_id\": \"y\"}"),
        ("Upper/state.json", b""),
    ] {
        let foreign = scratch();
        publish(&PointerStore::new(&RealFs, foreign.path()), &id("s"), "x", 1);
        assert!(follows(foreign.path()));
        let path = foreign.path().join(file);
        fsx::create_dir(&RealFs, path.parent().expect("a folder")).expect("mkdir");
        write(&path, content);
        assert!(!follows(foreign.path()), "{file}");
    }
    let flat = scratch();
    write(&flat.path().join("s-1.json"), b"{}");
    assert!(!follows(flat.path()), "files and no session");
}

#[test]
fn an_unreadable_sidecar_is_an_empty_one() {
    let dir = scratch();
    let store = PointerStore::new(&RealFs, dir.path());
    publish(&store, &id("s"), "x", 1);
    assert_eq!(store.meta(&id("s")).cwd.as_deref(), Some("/project"));
    pintle_store::atomic::replace(&RealFs, &Path::new(dir.path()).join("s/meta.json"), b"{\"cwd\":").expect("write");
    assert_eq!(store.meta(&id("s")), pintle_pointer::Meta::default());
    assert_eq!(store.observe(&id("s")).expect("readable").pointer().map(Pointer::status), Some(Status::Clean));
}
