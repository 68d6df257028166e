//! What can go wrong with evidence.

use std::path::PathBuf;

use pintle_wire::{CanonError, Digest};

use crate::{atomic::ReplaceError, fsx::FsError, lock::LockError};

/// Why something was not recorded. The text completes "failed to ...".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The disk refused.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The disk refused to replace a file.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The runs are being collected, or the file system cannot lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The value of a record is not JSON, or has no canonical form.
    #[error("record a `{kind}`: its value is not JSON with a canonical form")]
    Value {
        /// The record's kind.
        kind: String,
    },
    /// Our own members have no canonical form.
    #[error("write evidence in canonical form")]
    Canon(#[from] CanonError),
    /// A record's kind, or a file's name, is not made of 1 to 64 of `a-z 0-9 . _ -`, or begins with a dot.
    #[error("record under the name `{name}`: it is not 1 to 64 of a-z, 0-9, `.`, `_`, `-`")]
    Name {
        /// The name.
        name: String,
    },
    /// More bytes than a record or an object may have.
    #[error("record {bytes} bytes: the limit is {limit_bytes}")]
    TooLarge {
        /// How many there are.
        bytes: usize,
        /// How many there may be.
        limit_bytes: usize,
    },
    /// An earlier failure ended the recording.
    #[error("record: recording ended at an earlier failure ({class})")]
    Stopped {
        /// Its class.
        class: &'static str,
    },
}

impl EvidenceError {
    /// A stable word for reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Fs(error) => error.class(),
            Self::Replace(error) => error.class(),
            Self::Lock(error) => error.class(),
            Self::Value { .. } | Self::Canon(_) => "value",
            Self::Name { .. } => "name",
            Self::TooLarge { .. } => "too_large",
            Self::Stopped { class } => class,
        }
    }

    /// Whether the caller's argument was refused, and recording goes on.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Value { .. } | Self::Name { .. } | Self::TooLarge { .. } | Self::Stopped { .. })
    }
}

/// Why no run is meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// There are no runs at all.
    #[error("find a run: there are none in `{}`", runs.display())]
    NoRuns {
        /// The directory of the runs.
        runs: PathBuf,
    },
    /// No run has this id, prefix or path.
    #[error("find the run `{which}`: there is none in `{}`, and no run at that path", runs.display())]
    NotFound {
        /// What was asked for.
        which: String,
        /// The directory of the runs.
        runs: PathBuf,
    },
    /// More than one has this prefix.
    #[error("find the run `{which}`: {count} runs begin so, such as {first} and {second}")]
    Ambiguous {
        /// What was asked for.
        which: String,
        /// How many there are.
        count: usize,
        /// One of them.
        first: String,
        /// Another.
        second: String,
    },
    /// The directory cannot be read.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Why stored evidence cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The disk refused.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The manifest is not one, or is another version's.
    #[error("read `{}`: it is not a manifest of a run ({reason})", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong, without content.
        reason: &'static str,
    },
    /// The journal is not as it was written: it was damaged or changed afterwards.
    #[error("read `{}`: line {line} {fault}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// The first line, from 1, that differs.
        line: u64,
        /// How.
        fault: LineFault,
    },
    /// An object is missing.
    #[error("read the object `{}`: it is not there", path.display())]
    NoObject {
        /// Its digest.
        digest: Digest,
        /// Where it should be.
        path: PathBuf,
    },
    /// An object's content does not have its digest.
    #[error("read the object `{}`: its content is another", path.display())]
    Object {
        /// Its digest.
        digest: Digest,
        /// The file.
        path: PathBuf,
    },
    /// A file beside the journal is missing.
    #[error("read `{}`: it is not there", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// A file beside the journal is not what the manifest says.
    #[error("read `{}`: its content is not what the manifest says", path.display())]
    File {
        /// The file.
        path: PathBuf,
    },
}

/// How a line of a journal differs from what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It is no record.
    #[error("is not a record")]
    NotARecord,
    /// Its content was changed: the line behind it, or the manifest, has the digest of another.
    #[error("is not as it was written")]
    Changed,
    /// A record is missing before it, or it is in the wrong place.
    #[error("is not the next record")]
    OutOfOrder,
    /// It should be there, and is not.
    #[error("is missing")]
    Missing,
    /// The manifest says that the journal ends before it.
    #[error("was added")]
    Added,
}

impl ReadError {
    /// A stable word for reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Fs(error) => error.class(),
            Self::Manifest { .. } => "manifest",
            Self::Journal { .. } => "journal",
            Self::NoObject { .. } => "no_object",
            Self::Object { .. } => "object",
            Self::NoFile { .. } => "no_file",
            Self::File { .. } => "file",
        }
    }
}
