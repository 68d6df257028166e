//! Inv-6 for drivers: whatever a driver does not to be ended, and however much it takes, it is ended, with all that it
//! started, and nothing of it is left.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pintle_sdk::driver::{Core, CoreError, ErrorClass, Permission};
use pintle_sdk::process::{Aspect, Enforcement, Exceeded};
use pintle_testkit::deaths::{Watched, descendants, parent_of};
use pintle_testkit::drivers::{All, LIMIT, Place, attempts, invoke, prepared, test};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");
const CORE: &str = env!("CARGO_BIN_EXE_fake-core");

fn place() -> Place {
    Place::new(DRIVER, KEEPER)
}

/// The keeper's process id: the first process of a namespace may stand between it and the driver.
fn keeper_of(driver: u32) -> u32 {
    let mut pid = driver;
    loop {
        pid = parent_of(pid).expect("it lives");
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it lives");
        let parent = parent_of(pid).expect("it lives");
        let of_parent = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
        // The first process of a namespace is a fork of the keeper, and looks like it.
        if arguments != of_parent {
            return pid;
        }
    }
}

/// All that the driver's keeper has below it.
fn family(core_id: u32) -> Vec<Watched> {
    descendants(keeper_of(core_id)).into_iter().map(Watched::new).collect()
}

fn all_end(family: &[Watched]) {
    for process in family {
        assert!(process.ends_within(LIMIT), "{} lives on", process.pid());
    }
}

/// A driver that has detached processes, deaf to TERM, in sessions of their own. With `free` it has no namespace.
async fn with_family(place: &Place, free: bool) -> (Core, Vec<Watched>) {
    let mut launch = place.launch("wide");
    if free {
        launch.rules.grants = vec![Permission::from(Permission::TARGET_EXEC)];
    }
    let mut core = prepared(launch, &[]).await;
    let outcomes = attempts(&mut core, 1, &[("detach", "hold"), ("fork", "2"), ("detach", "write")]).await;
    assert!(outcomes.expect("the driver lives").iter().all(Result::is_ok));
    let family = family(core.id());
    assert!(family.len() >= 5, "the driver and four more: {}", family.len());
    assert!(family.iter().all(Watched::is_alive));
    (core, family)
}

#[test]
fn detached_processes_end_when_the_driver_is_killed_closed_or_dropped() {
    test(async {
        for free in [false, true] {
            let place = place();
            let (core, family) = with_family(&place, free).await;
            let ended = core.kill().await;
            assert_eq!(ended.outcome.survivors, []);
            all_end(&family);
            // One of them wrote into the directory until its end, and beyond the removal if it could.
            assert_eq!(place.left(), Vec::<std::path::PathBuf>::new());

            let (core, family) = with_family(&place, free).await;
            let ended = core.shutdown().await;
            assert_eq!(ended.outcome.survivors, []);
            assert!(ended.outcome.descendants.any(), "what it left behind is told: {:?}", ended.outcome);
            all_end(&family);
            assert_eq!(place.left(), Vec::<std::path::PathBuf>::new());

            let (core, family) = with_family(&place, free).await;
            drop(core);
            all_end(&family);
        }
    });
}

#[test]
fn in_a_namespace_nothing_outlives_a_killed_keeper_either() {
    test(async {
        let place = place();
        let (core, family) = with_family(&place, false).await;
        let namespaces = core.applied().get(Aspect::Namespaces).expect("a measure");
        if namespaces.state != Enforcement::Enforced {
            println!("NOT ENFORCED HERE: {}", namespaces.how);
            return;
        }
        let keeper = keeper_of(core.id()).to_string();
        assert!(Command::new("kill").args(["-KILL", &keeper]).status().expect("kill").success());
        all_end(&family);
    });
}

#[test]
fn a_killed_core_leaves_no_process_and_the_next_one_removes_its_directory() {
    let place = place();
    let mut core = Command::new(CORE)
        .args([place.base.path().as_os_str(), DRIVER.as_ref(), KEEPER.as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a core");
    let mut line = String::new();
    BufReader::new(core.stdout.take().expect("stdout")).read_line(&mut line).expect("stdout");
    let family = family(line.trim().parse().expect("a process id"));
    assert!(family.len() >= 2);
    let left = place.left();
    assert_eq!(left.len(), 1);
    core.kill().expect("kill");
    core.wait().expect("wait");
    all_end(&family);
    assert_eq!(place.left(), left, "nobody was there to remove it");
    test(async {
        let next = prepared(place.launch(""), &[]).await;
        assert!(!left[0].exists(), "the next one has removed it");
        next.shutdown().await;
    });
    assert_eq!(place.left(), Vec::<std::path::PathBuf>::new());
}

async fn exceeds(place: &Place, core: &mut Core, tried: &[(&str, &str)], expected: Exceeded) {
    let family = family(core.id());
    let error = attempts(core, 1, tried).await.expect_err("it takes too much");
    assert!(matches!(error, CoreError::Exceeded(what) if what == expected), "{error}");
    assert_eq!(error.class(), ErrorClass::BudgetExceeded);
    assert!(error.is_drivers());
    all_end(&family);
    assert_eq!(place.left().len(), 1, "the directory goes with Core");
}

#[test]
fn too_many_processes_end_all_of_them() {
    test(async {
        let place = place();
        let mut launch = place.launch("");
        launch.rules.limits.processes = Some(8);
        let mut core = prepared(launch, &[]).await;
        println!("{:?}", core.applied().get(Aspect::Processes));
        exceeds(&place, &mut core, &[("fork", "40"), ("hold", "")], Exceeded::Processes).await;
    });
}

#[test]
fn a_folder_that_is_filled_ends_the_driver() {
    test(async {
        let place = place();
        let mut launch = place.launch("");
        launch.rules.limits.folder_bytes = Some(8 << 20);
        let mut core = prepared(launch, &[]).await;
        exceeds(&place, &mut core, &[("files", &(64 << 20).to_string()), ("hold", "")], Exceeded::FolderBytes).await;
        let ended = core.shutdown().await;
        assert_eq!(ended.outcome.exceeded, Some(Exceeded::FolderBytes));
        assert_eq!(place.left(), Vec::<std::path::PathBuf>::new());
    });
}

#[test]
fn a_file_that_grows_too_large_ends_the_driver() {
    test(async {
        let place = place();
        let mut launch = place.launch("");
        launch.rules.limits.file_bytes = Some(1 << 20);
        let mut core = prepared(launch, &[]).await;
        exceeds(&place, &mut core, &[("file", &(2 << 20).to_string()), ("hold", "")], Exceeded::FileBytes).await;
    });
}

#[test]
fn memory_beyond_the_bound_is_not_to_be_had() {
    test(async {
        let place = place();
        let mut launch = place.launch("");
        launch.rules.limits.memory_bytes = Some(256 << 20);
        let mut core = prepared(launch, &[]).await;
        let (little, much) = ((16_u64 << 20).to_string(), (1_u64 << 30).to_string());
        let outcomes = attempts(&mut core, 1, &[("allocate", &little), ("allocate", &much)]).await;
        let outcomes = outcomes.expect("the driver lives");
        assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false], "{outcomes:?}");
    });
}

/// The companion stream ends with the driver and not with who holds its descriptor: no invocation waits for that.
#[test]
fn a_process_that_keeps_the_data_stream_open_holds_nothing_up() {
    test(async {
        let place = place();
        let mut core = prepared(place.launch(""), &[Permission::COMPANION_STREAM]).await;
        attempts(&mut core, 1, &[("detach", "hold")]).await.expect("the driver lives");
        let family = family(core.id());
        let mut run = core.invoke(invoke(2, "stream", b"bytes")).expect("an invocation");
        assert_eq!(All::of(&mut run).await.expect("it ends well").data, b"bytes");
        let ended = core.shutdown().await;
        assert!(ended.error.is_none(), "{:?}", ended.error);
        all_end(&family);
    });
}
