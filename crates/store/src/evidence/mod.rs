//! Evidence of a run: what happened, kept so that it can be judged again, and so that it shows when it was touched.
//!
//! ```text
//! runs/<uuidv7>/manifest.json    what the run was; at its end, how much evidence there is and its last digest
//!               journal.ndjson   one record a line, each with the digest of the line before
//!               input/           what the run was given
//!               report.json      what was made of it
//! objects/sha256/aa/<62 hex>     larger pieces, by digest, written once
//! ```
//!
//! Directories have mode 0700, files 0600. Nothing gets in but a [`crate::Sanitised`]. The journal is appended to without
//! waiting for the disk until [`EvidenceRun::sync`]; objects, manifest and reports are durable when their call returns.
//!
//! A failure to record never panics and never changes what is recorded: the call returns it, [`EvidenceRun::failure`]
//! remembers the first, everything later is refused, and the manifest says that the evidence is not whole.

mod archive;
mod audit;
mod error;
mod gc;
mod hashing;
mod journal;
mod manifest;
mod objects;
mod read;
mod run;

pub use archive::{ArchiveError, ArchiveFault, ArchiveLimits, export, unpack};
pub use audit::Audit;
pub use error::{EvidenceError, FindError, LineFault, ReadError};
pub use gc::{GcReport, KeepLimits, gc, gc_plan};
pub use journal::{MAX_RECORD_BYTES, Record, Tail};
pub use manifest::{FileRef, JournalEnd, MANIFEST_SCHEMA, Manifest, ObjectRef, Recording, RunState};
pub use objects::{MAX_OBJECT_BYTES, MAX_STREAMED_OBJECT_BYTES, ObjectWriter, Objects};
pub use read::{Records, StoredRun, find_run, list_runs};
pub use run::EvidenceRun;

use std::path::{Path, PathBuf};

use crate::home::Home;

/// Where runs and their objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The directory of the runs.
    pub runs: PathBuf,
    /// The directory of the objects.
    pub objects: PathBuf,
}

impl Places {
    /// The places of a home.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self { runs: home.runs(), objects: home.objects() }
    }

    /// Both below a directory that somebody chose for one run's results: `DIR/runs`, `DIR/objects`.
    #[must_use]
    pub fn below(dir: &Path) -> Self {
        Self { runs: dir.join("runs"), objects: dir.join("objects") }
    }

    /// Every run holds a shared lock on this while it records, and the collection of old runs an exclusive one.
    fn lock(&self) -> PathBuf {
        self.runs.join(".lock")
    }
}

const MANIFEST: &str = "manifest.json";
const JOURNAL: &str = "journal.ndjson";
const INPUT: &str = "input";
