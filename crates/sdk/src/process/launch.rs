//! What to start, and how to end it.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{environment::Environment, program::Program, sandbox::Sandbox};

/// Everything about a child that is chosen before it starts.
#[derive(Debug)]
#[non_exhaustive]
pub struct Launch {
    /// What to run.
    pub program: Program,
    /// Its arguments, without argv 0.
    pub args: Vec<OsString>,
    /// Its whole environment; [`Launch::new`] begins with none.
    pub env: Environment,
    /// Its working directory, absolute; `None` for ours.
    pub cwd: Option<PathBuf>,
    /// Where its standard error goes; [`Stderr::Capture`] unless changed.
    pub stderr: Stderr,
    /// The keeper; [`Shim::None`] unless changed.
    pub shim: Shim,
    /// How long what the child started may take to end after the child itself has, before it counts as left behind: a
    /// helper that sees its pipe close needs a moment. 500 ms unless changed.
    pub settle: Duration,
    /// What the child is kept from; nothing unless changed. It takes a keeper, and Linux.
    pub sandbox: Option<Sandbox>,
    /// A FIFO that the keeper opens for writing, and whose name is gone then: the child has it as descriptor 3. It needs a
    /// keeper.
    #[cfg(unix)]
    pub named_pipe: Option<super::NamedPipe>,
    /// Descriptors that the child gets as 3, 4 and so on, behind that of [`named_pipe`](Self::named_pipe); at most 8 with it.
    /// They need a keeper.
    #[cfg(unix)]
    pub extra_fds: Vec<std::os::fd::OwnedFd>,
}

impl Launch {
    /// `program` without arguments, with an empty environment.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            args: Vec::new(),
            env: Environment::empty(),
            cwd: None,
            stderr: Stderr::Capture,
            shim: Shim::None,
            settle: Duration::from_millis(500),
            sandbox: None,
            #[cfg(unix)]
            named_pipe: None,
            #[cfg(unix)]
            extra_fds: Vec::new(),
        }
    }
}

/// Where a child's standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    /// Drained in the background; head and tail kept. See [`super::StderrCapture`].
    Capture,
    /// A pipe for the caller, who must drain it.
    Piped,
    /// The pipe of its standard output, so that both come as one stream, in order.
    Stdout,
    /// Our own standard error.
    Inherit,
    /// Nowhere.
    Null,
}

/// The binary that becomes the keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shim {
    /// This one: `pintle`, or a program that calls [`crate::shim::run`].
    Path(PathBuf),
    /// None. Children are then killed by process group only, and [`super::Isolation`] says so.
    None,
}

impl Shim {
    /// The one that is given, else `pintle` on PATH, else none.
    #[must_use]
    pub fn find(given: Option<PathBuf>, path_var: Option<&OsStr>, base: &Path) -> Self {
        given
            .or_else(|| Program::find("pintle", path_var, base).ok().map(|program| program.path().to_owned()))
            .map_or(Self::None, Self::Path)
    }
}

/// How a child is brought to its end, one step after the other: close its standard input, wait; TERM to its group, wait;
/// KILL to its group and every descendant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// How long it may take to exit after its standard input was closed. 3 s by default.
    pub close_grace: Duration,
    /// How long it may take to exit after TERM. 2 s by default.
    pub term_grace: Duration,
    /// How long to wait for the rest of its standard error when all is over. 1 s by default.
    pub stream_grace: Duration,
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            close_grace: Duration::from_secs(3),
            term_grace: Duration::from_secs(2),
            stream_grace: Duration::from_secs(1),
        }
    }
}
