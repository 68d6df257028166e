//! The body of `pintle __exec`: the keeper that stands between an owner and a child.
//!
//! An owner cannot promise by itself that nothing outlives it: it may be killed, and what it started may have started
//! more, in sessions of their own. So it starts a keeper, and the keeper starts the child. The keeper is the subreaper of
//! everything below it: a process whose parent dies becomes the keeper's child, however it was detached. It holds a socket
//! from its owner, and when that ends (the owner dropped it, exited, or was killed) it kills all there is. It never reaps
//! the child before it has signalled the child's group, because the number of a reaped process may be given to another.
//!
//! If the order asks for a sandbox, the child confines itself between its fork and its exec, as far as the kernel can; what
//! takes looking, the keeper looks at. What was really done is told to the owner with the child's process id.
//!
//! A program that wants the same for its children, without a `pintle` binary beside it, calls [`run`] first thing in its
//! `main` when its first argument is [`ARG`], and passes its own path as [`crate::process::Shim`].

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod meter;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod tree;

use std::io;

/// The first argument of a process that is to be a keeper.
pub const ARG: &str = "__exec";

/// Why a process cannot be a keeper.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// Standard input is not the socket of an owner: somebody typed the command.
    #[error("run the keeper: it is started by pintle itself, with a socket as standard input")]
    NotStartedByOwner,
    /// The owner went away before it said what to run.
    #[error("run the keeper: its owner is gone")]
    OwnerGone,
    /// The system refused what a keeper needs.
    #[error("run the keeper")]
    Setup {
        /// The system's reason.
        source: io::Error,
    },
    /// This system has no subreaper.
    #[error("run the keeper: this system has no subreaper")]
    Platform,
}

/// Runs the keeper until nothing is left to keep.
///
/// Call it before anything else in `main`, with one thread and nothing open: it closes every descriptor from 3 on, resets
/// signals, and makes this process the leader of a new session. The environment and the arguments do not matter to it.
///
/// # Errors
/// [`ShimError`]; what went wrong with the child is told to the owner instead.
pub fn run() -> Result<(), ShimError> {
    run_within(Abilities::default())
}

/// What a keeper makes use of, of what its kernel can do. The default is all of it.
///
/// It exists for tests: what a child is kept from on an older kernel, or in a container that allows no namespaces, can be
/// tried on any machine. It only takes away, and what is recorded as enforced says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Namespaces for a child.
    pub namespaces: bool,
    /// The highest level of Landlock, by its ABI number; 0 is a kernel without Landlock.
    pub landlock_abi: u32,
    /// A control group that counts processes.
    pub control_groups: bool,
}

impl Default for Abilities {
    fn default() -> Self {
        Self { namespaces: true, landlock_abi: u32::MAX, control_groups: true }
    }
}

/// The same as [`run`], on a machine that can do less.
///
/// # Errors
/// Those of [`run`].
pub fn run_within(abilities: Abilities) -> Result<(), ShimError> {
    #[cfg(target_os = "linux")]
    return keeper::run(abilities);
    #[cfg(not(target_os = "linux"))]
    {
        let _nothing_to_take_away = abilities;
        Err(ShimError::Platform)
    }
}
