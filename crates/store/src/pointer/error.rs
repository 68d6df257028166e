use std::{
    io,
    path::{Path, PathBuf},
};

use pintle_pointer::Code;

use crate::{atomic::ReplaceError, fsx::FsError, lock::LockError};

/// Why a session's files could not be read or written. The text completes "failed to ..", names paths and never holds
/// pointer text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// A symbolic link or reparse point below the root.
    #[error("use `{}`: links below the state root are not followed", path.display())]
    ReparsePoint {
        /// The link.
        path: PathBuf,
    },
    /// The lock could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Somebody else holds the lock file of a file system that has no locks.
    #[error("lock `{}`: {holder} holds it; remove that file if that process is gone", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Host and process.
        holder: String,
    },
    /// The file was not replaced; the old state stands.
    #[error(transparent)]
    Replace(ReplaceError),
    /// The new state stands, but may be lost with the power.
    #[error("make the new state in `{}` durable; it stands now, read it again before you publish", path.display())]
    NotDurable {
        /// The state file.
        path: PathBuf,
        /// Why.
        source: ReplaceError,
    },
    /// The operating system gave no random bits for a new generation.
    #[error("make a new generation")]
    Random(#[source] getrandom::Error),
    /// Any other operation.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl From<ReplaceError> for PointerError {
    fn from(error: ReplaceError) -> Self {
        match &error {
            ReplaceError::NotDurable { path, .. } => Self::NotDurable { path: path.clone(), source: error },
            _ => Self::Replace(error),
        }
    }
}

impl PointerError {
    /// The protocol's code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::ReparsePoint { .. } => Code::PathReparsePoint,
            Self::Lock(LockError::TimedOut { .. } | LockError::Replaced { .. }) | Self::Held { .. } => {
                Code::LockTimeout
            }
            Self::Lock(LockError::Fs(error)) | Self::Fs(error) | Self::Replace(ReplaceError::Unchanged(error)) => {
                of_kind(error.kind())
            }
            Self::Lock(_) | Self::Replace(_) | Self::NotDurable { .. } | Self::Random(_) => Code::StateIo,
        }
    }

    /// Whether somebody else held the lock.
    #[must_use]
    pub fn is_lock_timeout(&self) -> bool {
        self.code() == Code::LockTimeout
    }

    /// The path in question, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::ReparsePoint { path } | Self::Held { path, .. } | Self::NotDurable { path, .. } => Some(path),
            Self::Fs(error) => Some(error.path()),
            Self::Lock(_) | Self::Replace(_) | Self::Random(_) => None,
        }
    }

    /// The message with the reason of the operating system behind it.
    #[must_use]
    pub fn full_message(&self) -> String {
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            message.push_str(": ");
            message.push_str(&error.to_string());
            source = error.source();
        }
        message
    }
}

fn of_kind(kind: io::ErrorKind) -> Code {
    match kind {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::StatePermission,
        _ => Code::StateIo,
    }
}
