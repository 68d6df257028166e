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
