//! Reading a run back.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use pintle_wire::{Digest, InstanceId};

use super::{
    FindError, LineFault, MANIFEST, Manifest, Places, ReadError,
    journal::{self, Chain, MAX_RECORD_BYTES, Record, Tail},
    objects::Objects,
};
use crate::{
    fs::{FileKind, Fs, FsFile, OpenHow},
    fsx::{self, FsError},
};

/// How much of a journal is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// The ids of all runs, oldest first. A directory without a manifest is none.
///
/// # Errors
/// [`FsError`]; a missing directory has no runs.
pub fn list_runs(fs: &dyn Fs, places: &Places) -> Result<Vec<InstanceId>, FsError> {
    let mut ids = Vec::new();
    for (id, dir) in run_dirs(fs, places)? {
        if fsx::symlink_metadata(fs, &dir.join(MANIFEST))?.is_some() {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// Every directory with the name of a run, oldest first, whether it is one or not.
pub(super) fn run_dirs(fs: &dyn Fs, places: &Places) -> Result<Vec<(InstanceId, PathBuf)>, FsError> {
    let entries = match fsx::read_dir(fs, &places.runs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // Sorted by name, which for these ids is sorted by time.
    let named = entries.into_iter().filter(|entry| entry.kind == FileKind::Dir).filter_map(|entry| {
        let id = entry.name.to_str()?.parse().ok()?;
        Some((id, places.runs.join(entry.name)))
    });
    Ok(named.collect())
}

/// The run that is meant by `latest`, an id, the beginning of exactly one id, or the path of a run's directory.
///
/// # Errors
/// [`FindError`].
pub fn find_run(fs: &dyn Fs, places: &Places, which: &str) -> Result<PathBuf, FindError> {
    let runs = || places.runs.clone();
    let ids = list_runs(fs, places)?;
    if which == "latest" {
        let id = ids.last().ok_or_else(|| FindError::NoRuns { runs: runs() })?;
        return Ok(places.runs.join(id.to_string()));
    }
    let matching: Vec<String> = if which.is_empty() {
        Vec::new()
    } else {
        ids.iter().map(InstanceId::to_string).filter(|id| id.starts_with(which)).collect()
    };
    match matching.as_slice() {
        [one] => Ok(places.runs.join(one)),
        [first, second, ..] => Err(FindError::Ambiguous {
            which: which.to_owned(),
            count: matching.len(),
            first: first.clone(),
            second: second.clone(),
        }),
        [] if !which.is_empty()
            && fsx::metadata(fs, &Path::new(which).join(MANIFEST)).is_ok_and(|meta| meta.is_some()) =>
        {
            Ok(PathBuf::from(which))
        }
        [] => Err(FindError::NotFound { which: which.to_owned(), runs: runs() }),
    }
}

/// A run that was recorded, or still is.
#[derive(Debug)]
pub struct StoredRun {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    manifest: Manifest,
    objects: Objects,
}

impl StoredRun {
    /// Opens a run by its directory. Its objects are looked for in `objects` inside it, else beside the directory of the
    /// runs, where [`Places`] has them.
    ///
    /// # Errors
    /// [`ReadError`] if there is no manifest that can be read.
    pub fn open(fs: Arc<dyn Fs>, dir: &Path) -> Result<Self, ReadError> {
        let manifest = Manifest::read(fs.as_ref(), &dir.join(MANIFEST))?;
        let inside = dir.join("objects");
        // By its name where that works; a link to a run leads to the objects of the run itself.
        let beside = dir.parent().and_then(Path::parent).map(|home| home.join("objects"));
        let is_there = |path: &Path| fsx::metadata(fs.as_ref(), path).is_ok_and(|meta| meta.is_some());
        let objects = match beside {
            _ if fsx::metadata(fs.as_ref(), &inside)?.is_some() => inside,
            Some(beside) if is_there(&beside) => beside,
            _ => dir.join("..").join("..").join("objects"),
        };
        Ok(Self { fs, dir: dir.to_owned(), manifest, objects: Objects::new(objects) })
    }

    /// What the run was.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The records from the first on.
    ///
    /// # Errors
    /// [`ReadError`] if the journal cannot be opened.
    pub fn records(&self) -> Result<Records, ReadError> {
        let path = journal::path_in(&self.dir);
        let file = fsx::open(self.fs.as_ref(), &path, OpenHow::Read)?;
        let finished = self.manifest.journal;
        Ok(Records {
            file,
            path,
            chain: Chain::new(self.manifest.id),
            finished,
            buffer: Vec::new(),
            at: 0,
            read: 0,
            good: 0,
            line: 0,
            tail: None,
        })
    }

    /// An object that a record refers to, looked at whether it has its digest.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn object(&self, digest: &Digest) -> Result<Vec<u8>, ReadError> {
        self.objects.get(self.fs.as_ref(), digest)
    }

    /// A file beside the manifest, or below it such as `input/plan.json`.
    ///
    /// # Errors
    /// [`FsError`]; also for a file of more than `limit_bytes`.
    pub fn file(&self, name: &str, limit_bytes: usize) -> Result<Vec<u8>, FsError> {
        fsx::read_bounded(self.fs.as_ref(), &self.dir.join(name), limit_bytes)
    }

    /// Reads everything and looks at every digest: the whole journal and each object of the manifest. Returns how many
    /// records there are, and how the journal ends.
    ///
    /// # Errors
    /// The first thing that is not as it was written.
    pub fn verify(&self) -> Result<(u64, Tail), ReadError> {
        let audit = self.audit()?;
        match audit.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok((audit.records, audit.tail)),
        }
    }

    pub(super) fn fs(&self) -> &dyn Fs {
        self.fs.as_ref()
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }
}

/// The records of a run, in order, each checked against the chain.
///
/// Where a run was interrupted, they end before the first line that is not whole, and [`Records::tail`] says so. In a
/// finished run the same is an error: then the journal was complete, and something happened to it since.
#[derive(Debug)]
pub struct Records {
    file: Box<dyn FsFile>,
    path: PathBuf,
    chain: Chain,
    finished: Option<super::JournalEnd>,
    buffer: Vec<u8>,
    /// Where in the buffer the next line begins.
    at: usize,
    /// How much of the file is in the buffer or was.
    read: u64,
    /// Where in the file the last good line ended.
    good: u64,
    line: u64,
    tail: Option<Tail>,
}

impl Records {
    /// How the journal ends; known when [`Iterator::next`] has returned `None`.
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// The path of the journal.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of a line that [`Records::next_line`] gave.
    pub(super) fn bytes(&self, (start, end): (usize, usize)) -> &[u8] {
        &self.buffer[start..end]
    }

    /// How long the file is.
    pub(super) fn file_bytes(&self) -> Result<u64, FsError> {
        let meta = self.file.metadata().map_err(|source| FsError::Io {
            action: crate::FsAction::Stat,
            path: self.path.clone(),
            source,
        })?;
        Ok(meta.len_bytes)
    }

    /// The next line without its LF; `None` at the end, or where no line ends within the bound.
    pub(super) fn next_line(&mut self) -> Result<Option<(usize, usize)>, FsError> {
        let mut searched = self.at;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                let line = (self.at, searched + end);
                self.at = searched + end + 1;
                return Ok(Some(line));
            }
            if self.buffer.len() - self.at > MAX_RECORD_BYTES {
                return Ok(None);
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            searched = self.buffer.len();
            let start = self.buffer.len();
            self.buffer.resize(start + CHUNK_BYTES, 0);
            let got = fsx::read_at(self.file.as_ref(), &self.path, &mut self.buffer[start..], self.read)?;
            self.buffer.truncate(start + got);
            self.read += got as u64;
            if got == 0 {
                return Ok(None);
            }
        }
    }

    fn end(&mut self) -> Result<(), ReadError> {
        let lost = self.file_bytes()?.saturating_sub(self.good);
        self.tail = Some(if lost == 0 { Tail::Whole } else { Tail::Torn { bytes: lost } });
        match self.finished {
            Some(end) if end != self.chain.end(self.good) || lost > 0 => {
                let fault = if lost > 0 { LineFault::Changed } else { LineFault::Missing };
                Err(ReadError::Journal { path: self.path.clone(), line: self.line + 1, fault })
            }
            _ => Ok(()),
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.tail.is_some() {
            return None;
        }
        let record = match self.next_line() {
            Ok(line) => line.and_then(|(start, end)| {
                let record = self.chain.next(&self.buffer[start..end])?;
                self.good += (end - start) as u64 + 1;
                self.line += 1;
                Some(record)
            }),
            Err(error) => {
                self.tail = Some(Tail::Whole);
                return Some(Err(error.into()));
            }
        };
        match record {
            Some(record) => Some(Ok(record)),
            None => self.end().err().map(Err),
        }
    }
}
