//! A control group that counts processes, made for one child.

use std::{
    fs::{self, File},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
};

/// Where systems mount them.
const MOUNT: &str = "/sys/fs/cgroup";

/// The most that is read of a group's list of events, which is two short lines at most.
const MAX_EVENTS_BYTES: usize = 256;

/// What the groups of keepers are called, with the keeper's process id behind it.
const PREFIX: &str = "pintle-";

/// A control group with a limit on its processes and threads. Dropping it removes it, which takes that nobody is in it.
#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
    events: File,
}

impl Group {
    /// Makes one below the group that this process is in.
    pub(super) fn make(limit: u32) -> Result<Self, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mut why = "no control group counts processes here".to_owned();
        for parent in parents(&groups) {
            if !parent.is_dir() {
                continue;
            }
            sweep(&parent);
            match Self::below(&parent, limit) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("control group: {error}"),
            }
        }
        Err(why)
    }

    fn below(parent: &Path, limit: u32) -> std::io::Result<Self> {
        let dir = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&dir)?;
        let made =
            fs::write(dir.join("pids.max"), limit.to_string()).and_then(|()| File::open(dir.join("pids.events")));
        match made {
            Ok(events) => Ok(Self { dir, events }),
            Err(error) => {
                let _ = fs::remove_dir(&dir);
                Err(error)
            }
        }
    }

    /// The file that a process writes to, to be in the group.
    pub(super) fn join(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// Whether somebody in it was refused a process.
    pub(super) fn refused_one(&self) -> bool {
        let mut text = [0; MAX_EVENTS_BYTES];
        let length = self.events.read_at(&mut text, 0).unwrap_or(0);
        refusals(&String::from_utf8_lossy(&text[..length])) > 0
    }
}

impl AsFd for Group {
    /// It has an exceptional condition when the answer of [`Group::refused_one`] may have changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes what keepers left that were killed. A group that somebody is in stays.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let keeper = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if keeper.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The directories of the groups that may count processes, out of `/proc/self/cgroup`: of the old kind, then the new.
fn parents(groups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|controller| controller == "pids") {
            found.insert(0, Path::new(MOUNT).join(controllers).join(path));
        } else if controllers.is_empty() {
            found.push(Path::new(MOUNT).join(path));
        }
    }
    found
}

fn refusals(events: &str) -> u64 {
    events.lines().find_map(|line| line.strip_prefix("max ")?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_kinds_are_found() {
        let check = |groups: &str, expected: &[&str]| {
            assert_eq!(parents(groups), expected.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check("8:pids:/\n4:memory:/x\n0::/\n", &["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]);
        check("0::/user.slice/session-1.scope\n", &["/sys/fs/cgroup/user.slice/session-1.scope"]);
        check("3:cpu,pids:/a:b\n", &["/sys/fs/cgroup/cpu,pids/a:b"]);
        check("nonsense\n", &[]);
        assert_eq!((refusals("max 3\n"), refusals("max 0\n"), refusals("")), (3, 0, 0));
    }
}
