//! Waiting for processes to end, by their descriptors.

use std::{os::fd::OwnedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// A process that is watched, whoever its parent is. The descriptor stands for this process and for no later one of the
/// same number.
#[derive(Debug)]
pub struct Watched {
    pid: u32,
    held: Option<OwnedFd>,
}

impl Watched {
    /// Watches a process that runs, or has just ended.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self { pid, held: number.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended, or ends within `limit`, which is there so that a failing test ends too.
    #[must_use]
    pub fn ends_within(&self, limit: Duration) -> bool {
        let Some(held) = &self.held else { return true };
        let timeout = Timespec::try_from(limit).ok();
        poll(&mut [PollFd::new(held, PollFlags::IN)], timeout.as_ref()) == Ok(1)
    }

    /// Whether it runs now.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.ends_within(Duration::ZERO)
    }
}

/// The processes below `root` that live, as `/proc` has them, without `root`.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let stats: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parent_of(pid)?))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(stats.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

/// The parent of a process that has not ended.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    (fields.next() != Some("Z")).then(|| fields.next()?.parse().ok())?
}
