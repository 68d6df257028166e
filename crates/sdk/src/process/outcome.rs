//! What became of a child and of what it started.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::sandbox::Exceeded;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It exited with this code, 0 to 255 on Unix.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// The code that a shell would report: 128 + the signal's number for a signal.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A process that was found where none should be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// Its process id; it may be another's by now.
    pub pid: u32,
    /// The name that the kernel knows it by (at most 15 bytes on Linux).
    pub name: String,
}

/// How much of a child's supervision the system really did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// A keeper stands between us and the child: every descendant goes when the child's owner goes, however that ends.
    Keeper,
    /// A Windows job object holds the child and all that it starts, and ends them when its last handle is closed, which
    /// the system does however we end.
    JobObject,
    /// There is none. The child's process group is killed, but a descendant that left the group, or an owner that is
    /// killed itself, leaves processes behind.
    None {
        /// Why.
        reason: NoIsolation,
    },
}

/// Why there is no keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoIsolation {
    /// No `pintle` binary was given or found.
    NoShim,
    /// This system has no subreaper.
    Platform,
}

impl fmt::Display for NoIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoShim => "no `pintle` binary was given or found on PATH",
            Self::Platform => "this system has no subreaper",
        })
    }
}

/// What is known when everything is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How the child's own process ended; `None` if that was lost with its keeper.
    pub exit: Option<Exit>,
    /// What it left behind.
    pub descendants: Descendants,
    /// The bound that it exceeded, upon which it was killed.
    pub exceeded: Option<Exceeded>,
    /// What could not be killed: other users' processes, or ones stuck in the kernel.
    pub survivors: Vec<Found>,
    /// How it was supervised.
    pub isolation: Isolation,
}

/// The processes that were alive after the child had ended by itself and the settle time was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descendants {
    /// Nobody looked: the child was killed, or nothing can tell.
    Unknown,
    /// This many; at most 64 of them named. All have been killed.
    Counted {
        /// How many in all.
        count: u32,
        /// Some of them.
        named: Vec<Found>,
    },
}

impl Descendants {
    /// Whether somebody looked and found one.
    #[must_use]
    pub fn any(&self) -> bool {
        matches!(self, Self::Counted { count, .. } if *count > 0)
    }
}
