//! A run that is being recorded.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use pintle_wire::{Digest, InstanceId};
use serde_json::value::RawValue;

use super::{
    EvidenceError, FileRef, INPUT, MANIFEST, Manifest, ObjectWriter, Places, Recording, RunState,
    journal::{self, Journal, check_name},
    manifest::MANIFEST_SCHEMA,
    objects::Objects,
};
use crate::{
    atomic,
    fs::{Fs, LockKind},
    fsx,
    lock::{self, Lock},
    sanitise::{Redactions, Sanitised, Shape},
};

/// How long a new run waits for a collection of old ones to end.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// A run that is being recorded. Synchronous, and for one thread at a time; see the module for what it keeps where.
#[derive(Debug)]
pub struct EvidenceRun {
    fs: Arc<dyn Fs>,
    id: InstanceId,
    dir: PathBuf,
    facts: Box<RawValue>,
    journal: Journal,
    objects: Objects,
    files: BTreeMap<String, (Digest, u64)>,
    redactions: Redactions,
    failure: Option<&'static str>,
    // Held for its drop: while it is held, no old run is collected.
    _lock: Lock,
}

impl EvidenceRun {
    /// Begins a run: its directory, an empty journal and a manifest that says that it is open. `facts` is one JSON object
    /// with what the recorder wants to say of the run.
    ///
    /// # Errors
    /// [`EvidenceError`]; there is no run then.
    pub fn create(fs: Arc<dyn Fs>, places: &Places, id: InstanceId, facts: &Sanitised) -> Result<Self, EvidenceError> {
        let facts = raw_object(facts)?;
        let dir = places.runs.join(id.to_string());
        fsx::ensure_dir(fs.as_ref(), &places.runs)?;
        let lock = lock::acquire(fs.as_ref(), &places.lock(), LockKind::Shared, LOCK_LIMIT)?;
        fsx::ensure_dir(fs.as_ref(), &dir)?;
        fsx::create_dir(fs.as_ref(), &dir.join(INPUT))?;
        let journal = Journal::create(fs.as_ref(), journal::path_in(&dir), id)?;
        let run = Self {
            journal,
            objects: Objects::new(places.objects.clone()),
            id,
            facts,
            files: BTreeMap::new(),
            redactions: Redactions::default(),
            failure: None,
            _lock: lock,
            dir,
            fs,
        };
        // The other names are durable before the manifest's can be: what has a manifest has a journal.
        fsx::sync_dir(run.fs.as_ref(), &run.dir)?;
        run.write_manifest(RunState::Open)?;
        Ok(run)
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> InstanceId {
        self.id
    }

    /// The run's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The class of the first failure, after which nothing more is recorded.
    #[must_use]
    pub fn failure(&self) -> Option<&'static str> {
        self.failure
    }

    /// Appends a record and returns its number, from 1. `kind` is 1 to 64 of `a-z 0-9 . _ -`; `value` is JSON, and goes in
    /// in canonical form, so a peer's frame belongs into a string of it. Durable after the next [`EvidenceRun::sync`].
    ///
    /// # Errors
    /// [`EvidenceError`]. A refused argument leaves the run usable, anything else ends its recording.
    pub fn append(&mut self, kind: &str, value: &Sanitised) -> Result<u64, EvidenceError> {
        self.attempt(value.redactions(), |run| run.journal.append(kind, value))
    }

    /// Puts a larger piece into the object store; durable when this returns. Refer to it by a record.
    ///
    /// # Errors
    /// As [`EvidenceRun::append`].
    pub fn put_object(&mut self, content: &Sanitised) -> Result<Digest, EvidenceError> {
        self.attempt(content.redactions(), |run| run.objects.put(run.fs.as_ref(), content))
    }

    /// Writes a file into `input/`; durable when this returns.
    ///
    /// # Errors
    /// As [`EvidenceRun::append`].
    pub fn put_input(&mut self, name: &str, content: &Sanitised) -> Result<(), EvidenceError> {
        self.put_file(name, &format!("{INPUT}/{name}"), content)
    }

    /// Writes, or replaces, a file beside the manifest, such as `report.json`; durable when this returns.
    ///
    /// # Errors
    /// As [`EvidenceRun::append`]. The names of the run's own files are refused.
    pub fn put_report(&mut self, name: &str, content: &Sanitised) -> Result<(), EvidenceError> {
        if [MANIFEST, super::JOURNAL, INPUT].contains(&name) {
            return Err(EvidenceError::Name { name: name.to_owned() });
        }
        self.put_file(name, name, content)
    }

    fn put_file(&mut self, name: &str, below: &str, content: &Sanitised) -> Result<(), EvidenceError> {
        self.attempt(content.redactions(), |run| {
            check_name(name)?;
            atomic::replace(run.fs.as_ref(), &run.dir.join(below), content.bytes())?;
            let bytes = content.bytes();
            run.files.insert(below.to_owned(), (Digest::of(bytes), bytes.len() as u64));
            Ok(())
        })
    }

    /// Begins an object that comes in pieces, such as those of a [`StreamRedactor`](crate::sanitise::StreamRedactor).
    ///
    /// # Errors
    /// As [`EvidenceRun::append`].
    pub fn begin_object(&mut self) -> Result<ObjectWriter, EvidenceError> {
        self.attempt(&Redactions::default(), |run| run.objects.begin(run.fs.as_ref()))
    }

    /// Writes the next piece of an object.
    ///
    /// # Errors
    /// As [`EvidenceRun::append`]; the object is then not finished.
    pub fn write_object(&mut self, writer: &mut ObjectWriter, piece: Sanitised) -> Result<(), EvidenceError> {
        let redactions = piece.redactions().clone();
        self.attempt(&redactions, |_| writer.write(piece))
    }

    /// Ends an object that came in pieces; durable when this returns.
    ///
    /// # Errors
    /// As [`EvidenceRun::append`].
    pub fn finish_object(&mut self, writer: ObjectWriter) -> Result<Digest, EvidenceError> {
        self.attempt(&Redactions::default(), |run| run.objects.finish(run.fs.as_ref(), writer))
    }

    /// What was replaced so far.
    #[must_use]
    pub fn redactions(&self) -> &Redactions {
        &self.redactions
    }

    /// Makes every record so far durable.
    ///
    /// # Errors
    /// As [`EvidenceRun::append`].
    pub fn sync(&mut self) -> Result<(), EvidenceError> {
        self.attempt(&Redactions::default(), |run| run.journal.sync())
    }

    /// Ends the run: the journal is made durable, then the manifest says how far it goes. After a failure what there is is
    /// still kept, and the manifest that is returned says that it is not whole.
    ///
    /// # Errors
    /// [`EvidenceError`] if the end could not be written: the run then counts as interrupted.
    pub fn finish(mut self) -> Result<Manifest, EvidenceError> {
        // Its failure is in the manifest.
        let _ = self.sync();
        self.write_manifest(RunState::Finished)
    }

    fn write_manifest(&self, state: RunState) -> Result<Manifest, EvidenceError> {
        // After a failure nobody knows where the journal really ends: its reader finds out by the chain.
        let is_known = state == RunState::Finished && self.failure.is_none();
        let manifest = Manifest {
            facts: self.facts.clone(),
            files: self.file_refs(),
            id: self.id,
            journal: is_known.then(|| self.journal.end()),
            objects: self.objects.refs(),
            recording: Recording { complete: self.failure.is_none(), failure: self.failure.map(str::to_owned) },
            redactions: self.redactions.iter().map(|(rule, count)| (rule.id().to_owned(), count)).collect(),
            schema: MANIFEST_SCHEMA.to_owned(),
            state,
        };
        manifest.write(self.fs.as_ref(), &self.dir.join(MANIFEST))?;
        Ok(manifest)
    }

    fn file_refs(&self) -> Vec<FileRef> {
        let file = |(name, (digest, bytes)): (&String, &(Digest, u64))| FileRef {
            bytes: *bytes,
            digest: *digest,
            name: name.clone(),
        };
        self.files.iter().map(file).collect()
    }

    /// One rule for all that records: nothing after a failure, and the first failure is remembered.
    fn attempt<T>(
        &mut self,
        redactions: &Redactions,
        record: impl FnOnce(&mut Self) -> Result<T, EvidenceError>,
    ) -> Result<T, EvidenceError> {
        if let Some(class) = self.failure {
            return Err(EvidenceError::Stopped { class });
        }
        let result = record(self);
        match &result {
            Ok(_) => self.redactions.add(redactions),
            Err(error) if error.is_refusal() => {}
            Err(error) => self.failure = Some(error.class()),
        }
        result
    }
}

fn raw_object(facts: &Sanitised) -> Result<Box<RawValue>, EvidenceError> {
    let refuse = || EvidenceError::Value { kind: "facts".to_owned() };
    if facts.shape() != Shape::Json || facts.bytes().first() != Some(&b'{') {
        return Err(refuse());
    }
    let canonical = pintle_wire::canonicalize_bytes(facts.bytes()).map_err(|_| refuse())?;
    let text = String::from_utf8(canonical).map_err(|_| refuse())?;
    RawValue::from_string(text).map_err(|_| refuse())
}
