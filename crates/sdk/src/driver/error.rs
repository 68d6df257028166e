//! Why Core could not go on.

use std::io;
use std::path::PathBuf;

use pintle_driver::{BudgetReport, CommandError, ErrorClass, Fault, InputKind, Method, RpcError};
use pintle_store::FsError;

use super::memory::MAX_MEMORY_INPUTS;
use crate::process::{Captured, Exceeded, Outcome, SpawnError};

/// Why Core could not go on with a driver, or with one step of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The private work directory could not be made.
    #[error("prepare the work directory `{}`", path.display())]
    Work {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file in the work directory could not be made; the error names it.
    #[error(transparent)]
    Files(#[from] FsError),
    /// The driver could not be started.
    #[error("start the driver: {0}")]
    Spawn(#[source] SpawnError),
    /// The FIFO of the companion streams could not be made.
    #[error("make the FIFO of the companion streams")]
    Pipe(#[source] io::Error),
    /// The channel of an exact input, or of the inputs in memory, could not be made. Neither the handle nor the input is in
    /// the text.
    #[error("hand over the exact input ({})", kind.as_str())]
    Input {
        /// The channel.
        kind: InputKind,
        /// Why.
        source: io::Error,
    },
    /// All inputs in memory that the driver inherited are used.
    #[error("hand over the exact input: all {MAX_MEMORY_INPUTS} or fewer inputs in memory are used")]
    NoMemoryInput,
    /// The recorder could not be started.
    #[error("start the recorder")]
    Recorder(#[source] io::Error),
    /// The artifact cannot be read any more.
    #[error("read the driver's artifact `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The artifact is not what it was when it was measured.
    #[error("driver's artifact `{}` has changed since it was measured", path.display())]
    Artifact {
        /// The file.
        path: PathBuf,
    },
    /// The driver was killed because it exceeded a bound.
    #[error("driver exceeded its bound: {0}")]
    Exceeded(Exceeded),
    /// The system gave no randomness for a capability token.
    #[error("make a capability token")]
    Randomness,
    /// Core's own command was against the rules; the driver is as before.
    #[error("{0}")]
    Command(#[from] CommandError),
    /// The driver refused a request; the session goes on.
    #[error("driver refused {method}: {} ({})", error.message, error.data.class)]
    Refused {
        /// Which.
        method: Method,
        /// Why.
        error: RpcError,
    },
    /// The driver left a request unanswered and was killed.
    #[error("driver did not answer {method} in time")]
    TimedOut {
        /// Which.
        method: Method,
    },
    /// The driver broke the protocol, hung or went away, and was killed.
    #[error("{0}")]
    Fault(#[source] Fault),
    /// The invocation's deadline passed and the driver cannot cancel; it was killed.
    #[error("invocation did not end within its deadline, and the driver does not declare cancellation")]
    Deadline,
    /// The session is over.
    #[error("driver session is over")]
    Over,
}

impl CoreError {
    /// The stable class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Work { .. }
            | Self::Files(_)
            | Self::Spawn(_)
            | Self::Pipe(_)
            | Self::Input { .. }
            | Self::Recorder(_)
            | Self::Unreadable { .. }
            | Self::Randomness
            | Self::TimedOut { .. } => ErrorClass::DriverInternal,
            Self::Command(error) => error.class(),
            Self::Refused { error, .. } => error.data.class,
            Self::Fault(fault) => fault.class(),
            Self::Artifact { .. } => ErrorClass::ArtifactMismatch,
            Self::Deadline | Self::Exceeded(_) | Self::NoMemoryInput => ErrorClass::BudgetExceeded,
            Self::Over => ErrorClass::InvalidState,
        }
    }

    /// Whether the driver is at fault, rather than Core or the system.
    pub const fn is_drivers(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::TimedOut { .. }
                | Self::Fault(_)
                | Self::Deadline
                | Self::Exceeded(_)
                | Self::Artifact { .. }
        )
    }
}

/// A driver that could not be started, and what it left.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct StartError {
    /// What went wrong.
    #[source]
    pub error: CoreError,
    /// How the process ended and what it wrote, if there was one.
    pub ended: Option<Box<Ended>>,
}

impl StartError {
    pub(crate) const fn early(error: CoreError) -> Self {
        Self { error, ended: None }
    }
}

/// How a driver ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit and descendants.
    pub outcome: Outcome,
    /// Its standard error: head and tail.
    pub stderr: Captured,
    /// What went wrong during the orderly end, if it was tried, or came to light after it: a bound that was exceeded, an
    /// artifact that changed.
    pub error: Option<CoreError>,
    /// What the session has used.
    pub budget: BudgetReport,
}
