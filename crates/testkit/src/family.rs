//! A process with descendants of all kinds, for the tests that none of them outlives its owner.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::deaths::Watched;

/// The script of a `fake-child` that prints `NAME PID` for itself and [`FAMILY_SIZE`] in all: in its group, in another
/// session, orphaned into another session, deaf to TERM. It ends at once; `hold` behind it keeps it.
pub const FAMILY: &str = "pid child \
    spawn [ pid member ignore-term hold ] \
    spawn [ setsid pid session hold ] \
    spawn [ setsid spawn [ pid orphan ignore-term hold ] exit 0 ]";
/// How many print their names.
pub const FAMILY_SIZE: usize = 4;

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(30);

/// Processes by the name that they printed.
pub type Family = HashMap<String, Watched>;

/// Watches the process that printed this line, `NAME PID`.
///
/// # Panics
/// The line is another.
#[must_use]
pub fn member(line: &str) -> (String, Watched) {
    let (name, pid) = line.split_once(' ').expect("NAME PID");
    (name.to_owned(), Watched::new(pid.parse().expect("a process id")))
}

/// Waits until all have ended.
///
/// # Panics
/// One lives on.
pub fn all_end(family: &Family) {
    for (name, process) in family {
        assert!(process.ends_within(LIMIT), "{name} ({}) lives on", process.pid());
    }
}

/// Starts `owner`, the program `fake-owner`, which ends in the way `end` when its input does and until then owns a family
/// through `keeper`; brings it to its end, by SIGKILL if `kill`, and waits until the family has ended.
///
/// # Panics
/// One of them lives on.
pub fn owner_ends(owner: impl AsRef<OsStr>, keeper: &str, child: &str, end: &str, kill: bool) {
    let mut owner = Command::new(owner)
        .args([end, keeper, child])
        .args(format!("{FAMILY} hold").split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the owner starts");
    let lines = BufReader::new(owner.stdout.take().expect("a pipe")).lines();
    let family: Family = lines.take(FAMILY_SIZE).map(|line| member(&line.expect("text"))).collect();
    assert_eq!(family.len(), FAMILY_SIZE, "{end}: all have started");
    assert!(family.values().all(Watched::is_alive));
    if kill {
        owner.kill().expect("kill");
    } else {
        drop(owner.stdin.take());
    }
    all_end(&family);
    // One that only let go of its family may live on.
    let _ = owner.kill();
    owner.wait().expect("wait");
}
