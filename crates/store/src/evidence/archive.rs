//! A run as one portable file: a zip with the run's directory and its objects, that every system can open.
//!
//! ```text
//! <uuidv7>/manifest.json
//!          journal.ndjson
//!          input/...
//!          report.json
//!          objects/sha256/aa/<62 hex>
//! ```
//!
//! Equal evidence gives equal bytes: entries stand in a fixed order, without times, compressed in one way. Reading trusts
//! nothing: only the names above are known, each once, below one run id; links, devices, encryption and other compressions
//! are refused; the directory, the number of entries, each entry and their sum are bounded, by what really comes out and not
//! by what the archive says.

use std::{
    collections::BTreeSet,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use pintle_wire::{Digest, InstanceId};
use zip::{
    CompressionMethod, DateTime, ZipArchive, ZipWriter,
    result::ZipError,
    write::{SimpleFileOptions, StreamWriter},
};

use super::{
    JOURNAL, MANIFEST, ReadError, RunState,
    gc::named_in,
    journal::{check_name, path_in},
    read::StoredRun,
};
use crate::{
    atomic::{self, ReplaceError},
    fs::{Fs, FsFile, OpenHow},
    fsx::{self, FsError},
};

const CHUNK_BYTES: usize = 256 * 1024;
const DEFLATE_LEVEL: i64 = 6;
/// The file type bits of a Unix mode, and those of a regular file.
const TYPE_BITS: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// How much of an archive is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Bytes of its central directory.
    pub directory_bytes: u64,
    /// Entries.
    pub entries: usize,
    /// Bytes of one entry, unpacked.
    pub entry_bytes: u64,
    /// Bytes of all entries, unpacked.
    pub total_bytes: u64,
}

impl Default for ArchiveLimits {
    /// 2 GiB, 32 MiB, 100,000 entries, 1 GiB, 2 GiB: beyond what retention keeps.
    fn default() -> Self {
        Self {
            archive_bytes: 2 << 30,
            directory_bytes: 32 << 20,
            entries: 100_000,
            entry_bytes: 1 << 30,
            total_bytes: 2 << 30,
        }
    }
}

/// Why a run was not packed or unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The disk refused.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The file could not be put in place.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file is no archive, or is damaged.
    #[error("read `{}` as a zip archive", path.display())]
    Malformed {
        /// The archive.
        path: PathBuf,
        /// Why.
        source: ZipError,
    },
    /// Writing the archive failed.
    #[error("write the archive `{}`", path.display())]
    Write {
        /// The archive.
        path: PathBuf,
        /// Why.
        source: ZipError,
    },
    /// It is an archive, and not one of a run.
    #[error("unpack `{}`: {fault}", path.display())]
    Refused {
        /// The archive.
        path: PathBuf,
        /// What it has that a run's does not.
        fault: ArchiveFault,
    },
}

/// What an archive has that a run's does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveFault {
    /// It is larger than an archive may be.
    #[error("it has {bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// How large.
        bytes: u64,
        /// How large it may be.
        limit_bytes: u64,
    },
    /// It has more entries than it may.
    #[error("it has {entries} entries, the limit is {limit}")]
    TooManyEntries {
        /// How many.
        entries: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Two entries have one name, or lie on each other.
    #[error("two of its entries have one name or one place")]
    Duplicate,
    /// An entry is not a part of a run, or would leave its directory.
    #[error("its entry `{name}` is not a part of a run")]
    Name {
        /// Its name, escaped and cut.
        name: String,
    },
    /// An entry is a link, a device, encrypted or compressed in another way.
    #[error("its entry `{name}` is not a plain file")]
    NotPlain {
        /// Its name.
        name: String,
    },
    /// More comes out of an entry, or out of all, than may.
    #[error("its entry `{name}` unpacks to more than {limit_bytes} bytes, or to more than it says")]
    Bomb {
        /// Its name.
        name: String,
        /// The limit that it went over.
        limit_bytes: u64,
    },
    /// There is no manifest in it.
    #[error("there is no manifest of a run in it")]
    NoManifest,
}

/// Packs a run into a zip at `out`, which is replaced as a whole; returns how many bytes it has. What is packed is what is
/// there: a run that is damaged or was interrupted can be sent on as it is.
///
/// # Errors
/// [`ArchiveError`]; `out` is as before then.
pub fn export(fs: &dyn Fs, run: &StoredRun, out: &Path) -> Result<u64, ArchiveError> {
    let temp = atomic::temp_path(out)?;
    let written = pack(fs, run, &temp).and_then(|bytes| {
        fsx::rename(fs, &temp, out)?;
        fsx::sync_parent(fs, out)?;
        Ok(bytes)
    });
    if written.is_err() {
        atomic::discard(fs, &temp);
    }
    written
}

fn pack(fs: &dyn Fs, run: &StoredRun, temp: &Path) -> Result<u64, ArchiveError> {
    let failed = |source| ArchiveError::Write { path: temp.to_owned(), source };
    let file = fsx::open(fs, temp, OpenHow::CreateNew { mode: fsx::FILE_MODE })?;
    let (broken, told) = mpsc::channel();
    let mut zip = ZipWriter::new_stream(Sink { file, path: temp.to_owned(), bytes: 0, broken: Some(broken) });
    let id = run.manifest().id;
    for (name, path) in parts(run)? {
        let Some(source) = present(run.fs(), &path)? else { continue };
        add(&mut zip, &format!("{id}/{name}"), source.as_ref(), &path).map_err(|error| match error {
            Adding::Read(error) => error.into(),
            Adding::Write(source) => told.try_recv().map_or_else(|_| failed(source), ArchiveError::Fs),
        })?;
    }
    let finished = zip.finish();
    let finished = finished.map_err(|source| told.try_recv().map_or_else(|_| failed(source), ArchiveError::Fs));
    let mut sink = finished?.into_inner();
    fsx::sync_all(sink.file.as_mut(), temp)?;
    Ok(sink.bytes)
}

/// Every file of a run by its name in the archive, in order.
fn parts(run: &StoredRun) -> Result<Vec<(String, PathBuf)>, ArchiveError> {
    let manifest = run.manifest();
    let mut parts: Vec<(String, PathBuf)> =
        [MANIFEST, JOURNAL].iter().map(|name| ((*name).to_owned(), run.dir().join(name))).collect();
    let files: BTreeSet<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    parts.extend(files.into_iter().map(|name| (name.to_owned(), run.dir().join(name))));
    let mut objects: BTreeSet<Digest> = manifest.objects.iter().map(|object| object.digest).collect();
    if manifest.state == RunState::Open {
        objects.extend(named_in(run.fs(), &path_in(run.dir()))?);
    }
    parts.extend(objects.iter().map(|digest| {
        let hex = digest.hex();
        let (first, rest) = hex.split_at(2);
        (format!("objects/sha256/{first}/{rest}"), run.objects().path(digest))
    }));
    Ok(parts)
}

fn present(fs: &dyn Fs, path: &Path) -> Result<Option<Box<dyn FsFile>>, FsError> {
    match fsx::open(fs, path, OpenHow::Read) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

enum Adding {
    Read(FsError),
    Write(ZipError),
}

fn add(zip: &mut ZipWriter<StreamWriter<Sink>>, name: &str, source: &dyn FsFile, path: &Path) -> Result<(), Adding> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(DEFLATE_LEVEL))
        .last_modified_time(DateTime::default())
        .unix_permissions(fsx::FILE_MODE);
    zip.start_file(name, options).map_err(Adding::Write)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        let got = fsx::read_at(source, path, &mut chunk, at).map_err(Adding::Read)?;
        if got == 0 {
            return Ok(());
        }
        zip.write_all(&chunk[..got]).map_err(|error| Adding::Write(error.into()))?;
        at += got as u64;
    }
}

/// Unpacks a run below `into`, which must exist and should be empty, and returns the run's directory: open it with
/// [`StoredRun::open`]. Its digests have not been looked at then.
///
/// # Errors
/// [`ArchiveError`]. What was unpacked until then stays in `into`, and nothing was written anywhere else.
pub fn unpack(fs: &dyn Fs, archive: &Path, into: &Path, limits: ArchiveLimits) -> Result<PathBuf, ArchiveError> {
    let refuse = |fault| ArchiveError::Refused { path: archive.to_owned(), fault };
    let malformed = |source| ArchiveError::Malformed { path: archive.to_owned(), source };
    let file = fsx::open(fs, archive, OpenHow::Read)?;
    let meta = file.metadata().map_err(|source| FsError::Io {
        action: crate::FsAction::Stat,
        path: archive.to_owned(),
        source,
    })?;
    if meta.len_bytes > limits.archive_bytes {
        return Err(refuse(ArchiveFault::TooLarge { bytes: meta.len_bytes, limit_bytes: limits.archive_bytes }));
    }
    let budget = Arc::new(AtomicU64::new(limits.directory_bytes));
    let source = Source { file, at: 0, len: meta.len_bytes, budget: Arc::clone(&budget) };
    let mut zip = ZipArchive::new(source).map_err(malformed)?;
    if zip.len() > limits.entries {
        return Err(refuse(ArchiveFault::TooManyEntries { entries: zip.len(), limit: limits.entries }));
    }
    if zip.has_duplicate_names() || zip.has_overlapping_entries().map_err(malformed)? {
        return Err(refuse(ArchiveFault::Duplicate));
    }
    budget.store(u64::MAX, Ordering::Relaxed);

    let mut run: Option<InstanceId> = None;
    let mut total = 0_u64;
    let mut has_manifest = false;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(malformed)?;
        let raw = entry.name_raw().to_vec();
        let shown = shown(&raw);
        let place = place(&raw, &mut run).ok_or_else(|| refuse(ArchiveFault::Name { name: shown.clone() }))?;
        let type_bits = entry.unix_mode().unwrap_or_default() & TYPE_BITS;
        let is_dir = place.is_none();
        let known = matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated);
        if entry.encrypted() || !known || entry.is_symlink() || !(is_dir || matches!(type_bits, 0 | REGULAR)) {
            return Err(refuse(ArchiveFault::NotPlain { name: shown }));
        }
        let Some(place) = place else { continue };
        let path = into.join(&place);
        fsx::ensure_dir(fs, fsx::parent(&path))?;
        has_manifest |= path.ends_with(MANIFEST);
        let limit_bytes = limits.entry_bytes.min(limits.total_bytes - total);
        let said = entry.size();
        let bomb = || refuse(ArchiveFault::Bomb { name: shown.clone(), limit_bytes });
        if said > limit_bytes {
            return Err(bomb());
        }
        let mut file = fsx::open(fs, &path, OpenHow::CreateNew { mode: fsx::FILE_MODE })?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut bytes = 0_u64;
        loop {
            let got = entry.read(&mut chunk).map_err(|error| malformed(error.into()))?;
            if got == 0 {
                break;
            }
            bytes += got as u64;
            if bytes > said {
                return Err(bomb());
            }
            fsx::write_all(file.as_mut(), &path, &chunk[..got])?;
        }
        total += bytes;
    }
    match run {
        Some(run) if has_manifest => Ok(into.join(run.to_string())),
        _ => Err(refuse(ArchiveFault::NoManifest)),
    }
}

/// Where an entry belongs below the target; inner `None` for a directory, which needs no place of its own. Every part of the
/// path is one that we know, so that there is nothing to escape with.
fn place(raw: &[u8], run: &mut Option<InstanceId>) -> Option<Option<PathBuf>> {
    let name = std::str::from_utf8(raw).ok()?;
    let (first, rest) = name.split_once('/')?;
    let id: InstanceId = first.parse().ok()?;
    // One archive, one run.
    if *run.get_or_insert(id) != id {
        return None;
    }
    let is_hex = |text: &str, len| text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = rest.split('/').collect();
    let is_dir = match parts.as_slice() {
        [""] | ["input" | "objects", ""] | ["objects", "sha256", ""] => true,
        ["objects", "sha256", two, ""] if is_hex(two, 2) => true,
        ["objects", "sha256", two, rest] if is_hex(two, 2) && is_hex(rest, 62) => false,
        ["input", file] | [file] if check_name(file).is_ok() && !matches!(*file, "input" | "objects") => false,
        _ => return None,
    };
    Some((!is_dir).then(|| parts.iter().fold(PathBuf::from(first), |path, part| path.join(part))))
}

/// A name that can be shown, whatever it is made of.
fn shown(raw: &[u8]) -> String {
    raw.escape_ascii().to_string().chars().take(120).collect()
}

/// What the zip is written to. After a failure, which it tells once, it takes and loses everything: the writer wants to end
/// its archive also when it is given up, and complains on standard error if it cannot.
struct Sink {
    file: Box<dyn FsFile>,
    path: PathBuf,
    bytes: u64,
    broken: Option<mpsc::Sender<FsError>>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(broken) = &self.broken {
            if let Err(error) = fsx::write_all(self.file.as_mut(), &self.path, bytes) {
                let kind = error.kind();
                // Nobody listens any more when the archive was given up already.
                let _ = broken.send(error);
                self.broken = None;
                return Err(kind.into());
            }
            self.bytes += bytes.len() as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the zip is read from.
struct Source {
    file: Box<dyn FsFile>,
    at: u64,
    len: u64,
    /// How much may still be read: bounds what the directory can make the reader keep.
    budget: Arc<AtomicU64>,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        let left = self.budget.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(got as u64) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the central directory is too large"));
        };
        self.budget.store(left, Ordering::Relaxed);
        self.at += got as u64;
        Ok(got)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
