//! Why there is no child.

use std::{io, path::PathBuf};

use super::program::ProgramError;

/// Why a program was not started. The text completes "failed to ..."; it has no argument and no variable in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The system refused to run the program.
    #[error("run `{}`", program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The program is there, but the interpreter that its first line or its format names is not.
    #[error("run `{}`: its interpreter is missing", program.display())]
    Interpreter {
        /// The program.
        program: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("enter the working directory `{}`", path.display())]
    Cwd {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Arguments and environment are too large, or have a NUL byte in them.
    #[error("pass the arguments and the environment of `{}`: {reason}", program.display())]
    Order {
        /// The program.
        program: PathBuf,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// The keeper could not be started or set up.
    #[error("start the keeper `{}`", shim.display())]
    Keeper {
        /// The binary that was to be the keeper.
        shim: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What was started as the keeper is none, or is one of another version.
    #[error("start the keeper `{}`: it is not a keeper of this version of pintle", shim.display())]
    NotAKeeper {
        /// The binary that was to be the keeper.
        shim: PathBuf,
    },
    /// Extra descriptors can only be passed through a keeper.
    #[error("pass extra descriptors to `{}`: only a keeper can, and there is none", program.display())]
    NeedsKeeper {
        /// The program.
        program: PathBuf,
    },
    /// No pipe or socket could be made.
    #[error("make the pipes of a child")]
    Pipe {
        /// The system's reason.
        source: io::Error,
    },
}

impl SpawnError {
    /// A stable word for reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Program(ProgramError::NotExecutable { .. } | ProgramError::NotAFile { .. }) => "not_executable",
            Self::Program(_) => "not_found",
            Self::Exec { .. } | Self::Interpreter { .. } => "exec",
            Self::Cwd { .. } => "cwd",
            Self::Order { .. } => "arguments",
            Self::Keeper { .. } | Self::NotAKeeper { .. } | Self::NeedsKeeper { .. } => "keeper",
            Self::Pipe { .. } => "io",
        }
    }
}

/// The system's error for a program that is there, made clearer.
pub(crate) fn exec_error(program: PathBuf, source: io::Error) -> SpawnError {
    if source.kind() == io::ErrorKind::NotFound && program.exists() {
        SpawnError::Interpreter { program }
    } else {
        SpawnError::Exec { program, source }
    }
}
