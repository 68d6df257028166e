//! The processes below this one, as `/proc` tells.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs, io,
    os::fd::OwnedFd,
    path::Path,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::process::outcome::Found;

/// One living process below the keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descendant {
    pub(super) pid: Pid,
    parent: i32,
    started: u64,
    name: String,
}

impl Descendant {
    pub(super) fn found(&self) -> Found {
        Found { pid: self.pid.as_raw_nonzero().get().cast_unsigned(), name: self.name.clone() }
    }

    /// Sends a signal to this process, and not to one that was given its number since: the number is looked at again once
    /// the kernel holds the process for us.
    pub(super) fn signal(&self, signal: Signal) {
        let Ok(held) = hold(self.pid) else { return };
        if read_stat(self.pid.as_raw_nonzero().get()).is_some_and(|now| now.started == self.started) {
            let _ = pidfd_send_signal(&held, signal);
        }
    }
}

/// Every process below `root` that is not a zombie, parents before children. `root` itself is not among them.
///
/// # Errors
/// Where there is no `/proc`.
pub(super) fn descendants(root: Pid) -> io::Result<Vec<Descendant>> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from([root.as_raw_nonzero().get()]);
    let mut table = None;
    while let Some(parent) = queue.pop_front() {
        for pid in children_of(parent, &mut table)? {
            if !seen.insert(pid) {
                continue;
            }
            queue.push_back(pid);
            if let (Some(stat), Some(pid)) = (read_stat(pid), Pid::from_raw(pid))
                && !matches!(stat.state, b'Z' | b'X')
            {
                found.push(Descendant { pid, parent: stat.parent, started: stat.started, name: stat.name });
            }
        }
    }
    Ok(found)
}

/// The children of a process, ended ones too, the oldest first.
pub(super) fn children(parent: Pid) -> io::Result<Vec<Pid>> {
    let found = children_of(parent.as_raw_nonzero().get(), &mut None)?;
    Ok(found.into_iter().filter_map(Pid::from_raw).collect())
}

type ChildrenOf = HashMap<i32, Vec<i32>>;

/// The children of a process: from the kernel's own list where it is compiled in, else from a table of all processes.
fn children_of(parent: i32, table: &mut Option<ChildrenOf>) -> io::Result<Vec<i32>> {
    if let Some(table) = table {
        return Ok(table.get(&parent).cloned().unwrap_or_default());
    }
    let tasks = format!("/proc/{parent}/task");
    let mut found = Vec::new();
    let threads = match fs::read_dir(&tasks) {
        Ok(threads) => threads,
        // It is gone; its children are somebody else's now, and found there.
        Err(_) if Path::new("/proc/self/stat").exists() => return Ok(found),
        Err(error) => return Err(error),
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok())),
            Err(_) if !Path::new("/proc/thread-self/children").exists() => {
                let all = all_processes()?;
                let of_parent = all.get(&parent).cloned().unwrap_or_default();
                *table = Some(all);
                return Ok(of_parent);
            }
            // The thread is gone.
            Err(_) => {}
        }
    }
    Ok(found)
}

fn all_processes() -> io::Result<ChildrenOf> {
    let mut table = ChildrenOf::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
            && let Some(stat) = read_stat(pid)
        {
            table.entry(stat.parent).or_default().push(pid);
        }
    }
    Ok(table)
}

struct Stat {
    name: String,
    state: u8,
    parent: i32,
    started: u64,
}

fn read_stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name stands in parentheses and may have any byte in it, parentheses too: the last one ends it.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
    let mut fields = std::str::from_utf8(&line[close + 1..]).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 22 of the line; the state was field 3 and the parent field 4.
    let started = fields.nth(22 - 5)?.parse().ok()?;
    Some(Stat { name, state, parent, started })
}

fn hold(pid: Pid) -> rustix::io::Result<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_spaces_and_parentheses() {
        let line = b"77 (a) b (c) S 5 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1000 10 18446744073709551615";
        let stat = parse_stat(line).expect("a line of stat");
        assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.started), ("a) b (c", b'S', 5, 123_456));
        assert!(parse_stat(b"77 (a").is_none());
        assert!(parse_stat(b"").is_none());
    }

    #[test]
    fn the_table_of_all_processes_agrees_with_the_list_of_children() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("cat");
        let pid = i32::try_from(child.id()).expect("a pid");
        let own = i32::try_from(std::process::id()).expect("a pid");
        assert!(children_of(own, &mut None).expect("proc").contains(&pid));
        assert!(children_of(own, &mut Some(all_processes().expect("proc"))).expect("proc").contains(&pid));
        let below = descendants(Pid::from_raw(own).expect("a pid")).expect("proc");
        let cat = below.iter().find(|d| d.pid.as_raw_nonzero().get() == pid).expect("found");
        assert_eq!(cat.parent, own);
        cat.signal(Signal::KILL);
        child.wait().expect("wait");
        assert!(!descendants(Pid::from_raw(own).expect("a pid")).expect("proc").contains(cat));
    }
}
