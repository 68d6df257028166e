//! `manifest.json`: what a run was, and at its end what evidence there is.

use std::path::Path;

use pintle_wire::{Digest, InstanceId, MAX_DEPTH, Profile, ScanLimits, scan};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{EvidenceError, ReadError};
use crate::{atomic, fs::Fs, fsx};

/// The version of the format. A reader refuses another.
pub const MANIFEST_SCHEMA: &str = "pintle.run.v1";

/// The largest manifest that is read; an object's line takes about 100 bytes.
const MAX_MANIFEST_BYTES: usize = 64 * 1024 * 1024;

/// What a run was. Members are declared in the order of their canonical form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What the recorder wanted to say of the run: one JSON object, sanitised.
    pub facts: Box<RawValue>,
    /// The files beside the journal, by name: what is in `input/`, and the report.
    #[serde(default)]
    pub files: Vec<FileRef>,
    /// The run's id; its time is when the run began.
    pub id: InstanceId,
    /// How far the journal goes; not known in an open run, nor after a failure to record.
    pub journal: Option<JournalEnd>,
    /// The objects that the run put into the store, by digest; in an open run, not yet known.
    pub objects: Vec<ObjectRef>,
    /// Whether all that was to be recorded is.
    pub recording: Recording,
    /// How often each rule of the sanitiser replaced something.
    pub redactions: std::collections::BTreeMap<String, u64>,
    /// [`MANIFEST_SCHEMA`].
    pub schema: String,
    /// Whether the run came to its end.
    pub state: RunState,
}

/// Whether a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is still going on, or it ended without being able to say so.
    Open,
    /// It ended; what evidence there is was durable before this was written.
    Finished,
}

/// How far a journal goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalEnd {
    /// Its length.
    pub bytes: u64,
    /// The digest of its last line, or that of the run's id if there is none.
    pub last: Digest,
    /// How many records it has.
    pub records: u64,
}

/// A file beside a run's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRef {
    /// Its length.
    pub bytes: u64,
    /// Its digest.
    pub digest: Digest,
    /// Its name below the run's directory, such as `input/plan.json`.
    pub name: String,
}

/// An object that a run put into the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectRef {
    /// Its length.
    pub bytes: u64,
    /// Its digest.
    pub digest: Digest,
}

/// Whether all that was to be recorded is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// It is, as far as the run has come.
    pub complete: bool,
    /// The class of the first failure.
    pub failure: Option<String>,
}

impl Manifest {
    pub(super) fn write(&self, fs: &dyn Fs, path: &Path) -> Result<(), EvidenceError> {
        let mut bytes = pintle_wire::to_canonical(self)?;
        bytes.push(b'\n');
        Ok(atomic::replace(fs, path, &bytes)?)
    }

    pub(super) fn read(fs: &dyn Fs, path: &Path) -> Result<Self, ReadError> {
        let bytes = fsx::read_bounded(fs, path, MAX_MANIFEST_BYTES)?;
        let refuse = |reason| ReadError::Manifest { path: path.to_owned(), reason };
        let limits = ScanLimits { max_bytes: MAX_MANIFEST_BYTES, max_depth: MAX_DEPTH };
        let text = scan(&bytes, Profile::DriverRpc, limits).map_err(|_| refuse("it is not strict JSON"))?;
        let manifest: Self = text.decode().map_err(|_| refuse("a member is missing, unknown or of the wrong type"))?;
        if manifest.schema == MANIFEST_SCHEMA { Ok(manifest) } else { Err(refuse("it has another schema")) }
    }
}
