//! Whether stored evidence is as it was written, and where it first differs.

use std::io;

use pintle_wire::Digest;

use super::{
    LineFault, ReadError, RunState, Tail,
    gc::named_in,
    journal::{self, Chain},
    read::{Records, StoredRun},
};
use crate::fsx::{self, FsError};

/// The largest file beside a journal that is looked at.
const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;

/// What a look at every digest of a run has found.
#[derive(Debug)]
pub struct Audit {
    /// Whether the run came to its end.
    pub state: RunState,
    /// How many records are as they were written, from the first on.
    pub records: u64,
    /// How the journal ends.
    pub tail: Tail,
    /// How many objects are as they were written.
    pub objects: u64,
    /// How many files beside the journal are as they were written.
    pub files: u64,
    /// The class of a failure to record, which the run itself tells.
    pub failure: Option<String>,
    /// What is not as it was written, the first of each file.
    pub problems: Vec<ReadError>,
}

impl Audit {
    /// Whether this is the whole evidence of a run that came to its end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
            && self.failure.is_none()
            && self.state == RunState::Finished
            && self.tail == Tail::Whole
    }
}

impl StoredRun {
    /// Looks at everything: each record's place in the chain, each object and each file by its digest. What is not as it was
    /// written is in [`Audit::problems`], in the order of manifest, journal, objects, files.
    ///
    /// # Errors
    /// [`ReadError`] only where the disk refuses.
    pub fn audit(&self) -> Result<Audit, ReadError> {
        let manifest = self.manifest();
        let mut audit = Audit {
            state: manifest.state,
            records: 0,
            tail: Tail::Whole,
            objects: 0,
            files: 0,
            failure: manifest.recording.failure.clone(),
            problems: Vec::new(),
        };
        self.audit_journal(&mut audit)?;
        self.audit_objects(&mut audit)?;
        for file in &manifest.files {
            let path = self.dir().join(&file.name);
            match fsx::read_bounded(self.fs(), &path, MAX_FILE_BYTES) {
                Ok(bytes) if Digest::of(&bytes) == file.digest => audit.files += 1,
                Ok(_) | Err(FsError::TooLarge { .. }) => audit.problems.push(ReadError::File { path }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    audit.problems.push(ReadError::NoFile { path });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(audit)
    }

    fn audit_journal(&self, audit: &mut Audit) -> Result<(), ReadError> {
        let manifest = self.manifest();
        let path = journal::path_in(self.dir());
        if fsx::symlink_metadata(self.fs(), &path)?.is_none() {
            audit.problems.push(ReadError::NoFile { path });
            return Ok(());
        }
        let mut records = self.records()?;
        let mut chain = Chain::new(manifest.id);
        let mut good = 0;
        while let Some(line) = records.next_line()? {
            let before = chain.last();
            let number = audit.records + 1;
            let bytes = records.bytes(line);
            if chain.next(bytes).is_some() {
                good += bytes.len() as u64 + 1;
                audit.records = number;
                continue;
            }
            let (claims, digest) = (Chain::claims(bytes), Digest::of(bytes));
            let fault = match claims {
                None => (number, LineFault::NotARecord),
                Some((seq, prev)) if seq == number && prev != before && number > 1 => {
                    // Either this line was changed, or the one before it: whose digest do the others know?
                    let known = match records.next_line()? {
                        Some(next) => Chain::claims(records.bytes(next)).map(|(_, prev)| prev),
                        None => manifest.journal.map(|end| end.last),
                    };
                    let changed = if known == Some(digest) { number - 1 } else { number };
                    (changed, LineFault::Changed)
                }
                Some((seq, prev)) if seq == number && prev != before => (number, LineFault::Changed),
                Some(_) => (number, LineFault::OutOfOrder),
            };
            audit.records = fault.0 - 1;
            audit.problems.push(line_problem(&records, fault));
            return Ok(());
        }
        let lost = records.file_bytes()?.saturating_sub(good);
        if lost > 0 {
            audit.tail = Tail::Torn { bytes: lost };
        }
        let Some(end) = manifest.journal else { return Ok(()) };
        let fault = match audit.records {
            records if records < end.records && lost > 0 => Some((records + 1, LineFault::NotARecord)),
            records if records < end.records => Some((records + 1, LineFault::Missing)),
            records if records > end.records => Some((end.records + 1, LineFault::Added)),
            records if lost > 0 => Some((records + 1, LineFault::Added)),
            records if chain.end(good) != end => Some((records.max(1), LineFault::Changed)),
            _ => None,
        };
        if let Some(fault) = fault {
            audit.records = audit.records.min(fault.0 - 1);
            audit.problems.push(line_problem(&records, fault));
        }
        Ok(())
    }

    fn audit_objects(&self, audit: &mut Audit) -> Result<(), ReadError> {
        let manifest = self.manifest();
        if manifest.state == RunState::Open {
            // Which digests of its journal are those of objects, an interrupted run does not tell: those that are there.
            let path = journal::path_in(self.dir());
            let named: std::collections::BTreeSet<Digest> = named_in(self.fs(), &path)?.into_iter().collect();
            for digest in named {
                match self.objects().check(self.fs(), &digest) {
                    Ok(_) => audit.objects += 1,
                    Err(ReadError::NoObject { .. }) => {}
                    Err(error @ ReadError::Object { .. }) => audit.problems.push(error),
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        for object in &manifest.objects {
            match self.objects().check(self.fs(), &object.digest) {
                Ok(_) => audit.objects += 1,
                Err(error @ (ReadError::NoObject { .. } | ReadError::Object { .. })) => audit.problems.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn line_problem(records: &Records, (line, fault): (u64, LineFault)) -> ReadError {
    ReadError::Journal { path: records.path().to_owned(), line, fault }
}
