//! Many processes on one task pointer (ask 19): always valid, revisions one by one, one winner per revision, no lost
//! update, nothing left behind.

use std::{
    collections::HashSet,
    process::{Child, Command, Stdio},
};

use pintle_pointer::{Observed, SessionId};
use pintle_store::{RealFs, fsx, pointer::PointerStore};

const PROCESSES: u64 = 64;
const OPERATIONS: u32 = 200;

#[test]
fn many_processes_take_turns() {
    // Order is on trial here, not durability: in memory the whole takes seconds, on a disk most of a minute of syncs.
    let memory = std::path::Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.expect("scratch directory");
    let session: SessionId = "shared".parse().expect("legal id");
    let start = |seed: u64| -> Child {
        Command::new(env!("CARGO_BIN_EXE_pointer-worker"))
            .arg(dir.path())
            .args([session.as_str(), &seed.to_string(), &OPERATIONS.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("start")
    };
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    let mut wins: Vec<(u64, String, String, String)> = Vec::new();
    for child in children {
        let output = child.wait_with_output().expect("wait");
        assert!(output.status.success(), "a process saw something wrong: {:?}", output.status);
        for line in String::from_utf8(output.stdout).expect("UTF-8").lines() {
            let mut words = line.split(' ').map(str::to_owned);
            let mut next = || words.next().expect("four words");
            let (name, generation, revision, status) = (next(), next(), next(), next());
            wins.push((revision.parse().expect("a number"), generation, name, status));
        }
    }
    wins.sort();
    let revisions: Vec<u64> = wins.iter().map(|win| win.0).collect();
    let expected: Vec<u64> = (1..=wins.len() as u64).collect();
    assert_eq!(revisions, expected, "revisions go up one by one, with one winner each");

    let mut generations = HashSet::new();
    for pair in wins.windows(2) {
        let [before, after] = pair else { continue };
        let fence = after.3 == "CLEARED" && after.2 != "prompt";
        assert_eq!(before.1 != after.1, fence, "a clear, and nothing else, makes a new generation: {after:?}");
        if fence {
            assert!(generations.insert(after.1.clone()), "a generation came back: {after:?}");
        }
    }
    assert!(generations.len() > 100 && wins.iter().any(|win| win.2 == "publish" && win.3 == "CLEAN"));

    let store = PointerStore::new(&RealFs, dir.path());
    let Observed::Current(last) = store.observe(&session).expect("readable") else { panic!("a state is stored") };
    assert_eq!(last.revision.get(), wins.len() as u64, "no update is lost");
    let files = fsx::read_dir(&RealFs, &dir.path().join("shared")).expect("list");
    let names: Vec<String> = files.iter().map(|file| file.name.to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["lock", "state.json"], "nothing is left behind");
}
