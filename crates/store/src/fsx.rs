//! The calls of [`Fs`] with errors that say what was attempted and on which path.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use crate::fs::{DirEntry, FileKind, Fs, FsFile, Metadata, OpenHow, Owner};

/// Permission bits of every file that the store creates, unless its caller says otherwise.
pub const FILE_MODE: u32 = 0o600;

/// Permission bits of every directory that the store creates.
pub const DIR_MODE: u32 = 0o700;

/// Why a file operation did not succeed. The text completes "failed to ..." and never has file content in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The operating system refused.
    #[error("{action} `{}`", path.display())]
    Io {
        /// What was attempted.
        action: FsAction,
        /// On which path.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file is larger than its reader accepts.
    #[error("read `{}`: it has more than {limit_bytes} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that its reader accepts.
        limit_bytes: usize,
    },
    /// Something is in the place where a directory must be.
    #[error("use `{}`: it is not a directory", path.display())]
    NotADirectory {
        /// What is not a directory.
        path: PathBuf,
    },
}

impl FsError {
    fn io(action: FsAction, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// The path that the operation was about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::TooLarge { path, .. } | Self::NotADirectory { path } => path,
        }
    }

    /// The kind of the operating system's error; `FileTooLarge` and `NotADirectory` for the other two.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Io { source, .. } => source.kind(),
            Self::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Self::NotADirectory { .. } => io::ErrorKind::NotADirectory,
        }
    }

    /// A stable word for reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self.kind() {
            io::ErrorKind::NotFound => "not_found",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "permission",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "no_space",
            io::ErrorKind::AlreadyExists => "exists",
            io::ErrorKind::FileTooLarge => "too_large",
            io::ErrorKind::NotADirectory => "not_a_directory",
            _ => "io",
        }
    }
}

/// What was attempted, as a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the operation")]
pub enum FsAction {
    Open,
    Create,
    CreateDir,
    Read,
    Write,
    Sync,
    SyncDir,
    Cut,
    Access,
    Rename,
    Link,
    Remove,
    Stat,
    List,
    Lock,
}

impl fmt::Display for FsAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::CreateDir => "create the directory",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "write to disk",
            Self::SyncDir => "write to disk the names in",
            Self::Cut => "cut the length of",
            Self::Access => "keep the mode and owner of",
            Self::Rename => "move into place",
            Self::Link => "link into place",
            Self::Remove => "remove",
            Self::Stat => "look at",
            Self::List => "list",
            Self::Lock => "lock",
        })
    }
}

/// Opens a file; see [`Fs::open`].
///
/// # Errors
/// [`FsError::Io`].
pub fn open(fs: &dyn Fs, path: &Path, how: OpenHow) -> Result<Box<dyn FsFile>, FsError> {
    let action = if matches!(how, OpenHow::CreateNew { .. }) { FsAction::Create } else { FsAction::Open };
    fs.open(path, how).map_err(FsError::io(action, path))
}

/// Reads a whole file of at most `limit_bytes`.
///
/// # Errors
/// [`FsError::TooLarge`], without reading more than one byte past the limit, or [`FsError::Io`].
pub fn read_bounded(fs: &dyn Fs, path: &Path, limit_bytes: usize) -> Result<Vec<u8>, FsError> {
    let file = open(fs, path, OpenHow::Read)?;
    read_open(file.as_ref(), path, limit_bytes)
}

/// [`read_bounded`] for a file that is already open; `path` is for the error.
///
/// # Errors
/// As [`read_bounded`].
pub fn read_open(file: &dyn FsFile, path: &Path, limit_bytes: usize) -> Result<Vec<u8>, FsError> {
    const FIRST_CHUNK_BYTES: usize = 4 * 1024;
    const MAX_CHUNK_BYTES: usize = 256 * 1024;
    let mut bytes = Vec::new();
    let mut chunk = FIRST_CHUNK_BYTES;
    loop {
        let start = bytes.len();
        let want = chunk.min(limit_bytes.saturating_add(1) - start);
        bytes.resize(start + want, 0);
        let got =
            retry(|| file.read_at(&mut bytes[start..], start as u64)).map_err(FsError::io(FsAction::Read, path))?;
        bytes.truncate(start + got);
        if got == 0 {
            return Ok(bytes);
        }
        if bytes.len() > limit_bytes {
            return Err(FsError::TooLarge { path: path.to_owned(), limit_bytes });
        }
        chunk = (chunk * 2).min(MAX_CHUNK_BYTES);
    }
}

/// Reads up to `buf.len()` bytes at an offset; fewer only at the end of the file.
///
/// # Errors
/// [`FsError::Io`].
pub fn read_at(file: &dyn FsFile, path: &Path, buf: &mut [u8], offset: u64) -> Result<usize, FsError> {
    let mut filled = 0;
    while filled < buf.len() {
        let got = retry(|| file.read_at(&mut buf[filled..], offset + filled as u64))
            .map_err(FsError::io(FsAction::Read, path))?;
        if got == 0 {
            break;
        }
        filled += got;
    }
    Ok(filled)
}

/// Writes all of `bytes`.
///
/// # Errors
/// [`FsError::Io`]; some of the bytes may have been written.
pub fn write_all(file: &mut dyn FsFile, path: &Path, mut bytes: &[u8]) -> Result<(), FsError> {
    while !bytes.is_empty() {
        let written = retry(|| file.write(bytes)).map_err(FsError::io(FsAction::Write, path))?;
        if written == 0 {
            return Err(FsError::io(FsAction::Write, path)(io::ErrorKind::WriteZero.into()));
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Makes a file's content and metadata durable; see [`FsFile::sync_all`].
///
/// # Errors
/// [`FsError::Io`].
pub fn sync_all(file: &mut dyn FsFile, path: &Path) -> Result<(), FsError> {
    file.sync_all().map_err(FsError::io(FsAction::Sync, path))
}

/// Makes a file's content durable; see [`FsFile::sync_data`].
///
/// # Errors
/// [`FsError::Io`].
pub fn sync_data(file: &mut dyn FsFile, path: &Path) -> Result<(), FsError> {
    file.sync_data().map_err(FsError::io(FsAction::Sync, path))
}

/// Cuts or extends a file.
///
/// # Errors
/// [`FsError::Io`].
pub fn set_len(file: &mut dyn FsFile, path: &Path, len_bytes: u64) -> Result<(), FsError> {
    file.set_len(len_bytes).map_err(FsError::io(FsAction::Cut, path))
}

/// Gives a file a mode and an owner; see [`FsFile::set_access`].
///
/// # Errors
/// [`FsError::Io`].
pub fn set_access(file: &mut dyn FsFile, path: &Path, mode: u32, owner: Option<Owner>) -> Result<(), FsError> {
    file.set_access(mode, owner).map_err(FsError::io(FsAction::Access, path))
}

/// Renames a file; see [`Fs::rename`]. The error names the destination.
///
/// # Errors
/// [`FsError::Io`].
pub fn rename(fs: &dyn Fs, from: &Path, to: &Path) -> Result<(), FsError> {
    fs.rename(from, to).map_err(FsError::io(FsAction::Rename, to))
}

/// Gives a file a second name; see [`Fs::hard_link`]. The error names the new name.
///
/// # Errors
/// [`FsError::Io`].
pub fn hard_link(fs: &dyn Fs, from: &Path, to: &Path) -> Result<(), FsError> {
    fs.hard_link(from, to).map_err(FsError::io(FsAction::Link, to))
}

/// Removes a file.
///
/// # Errors
/// [`FsError::Io`].
pub fn remove_file(fs: &dyn Fs, path: &Path) -> Result<(), FsError> {
    fs.remove_file(path).map_err(FsError::io(FsAction::Remove, path))
}

/// Removes a directory and all below it. Symbolic links are removed, not followed. What is gone already is no error.
///
/// # Errors
/// [`FsError::Io`] at the first thing that cannot be removed.
pub fn remove_tree(fs: &dyn Fs, path: &Path) -> Result<(), FsError> {
    let entries = match fs.read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FsError::io(FsAction::List, path)(error)),
    };
    for entry in entries {
        let below = path.join(&entry.name);
        if entry.kind == FileKind::Dir {
            remove_tree(fs, &below)?;
        } else {
            match fs.remove_file(&below) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FsError::io(FsAction::Remove, &below)(error));
                }
                _ => {}
            }
        }
    }
    match fs.remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FsError::io(FsAction::Remove, path)(error)),
        _ => Ok(()),
    }
}

/// Makes the names in a directory durable; see [`Fs::sync_dir`].
///
/// # Errors
/// [`FsError::Io`].
pub fn sync_dir(fs: &dyn Fs, path: &Path) -> Result<(), FsError> {
    fs.sync_dir(path).map_err(FsError::io(FsAction::SyncDir, path))
}

/// Makes the name of `path` durable in its directory.
///
/// # Errors
/// [`FsError::Io`].
pub fn sync_parent(fs: &dyn Fs, path: &Path) -> Result<(), FsError> {
    sync_dir(fs, parent(path))
}

/// What is at `path`, links followed; `None` if nothing is.
///
/// # Errors
/// [`FsError::Io`].
pub fn metadata(fs: &dyn Fs, path: &Path) -> Result<Option<Metadata>, FsError> {
    found(fs.metadata(path)).map_err(FsError::io(FsAction::Stat, path))
}

/// What is at `path`, the last component not followed; `None` if nothing is.
///
/// # Errors
/// [`FsError::Io`].
pub fn symlink_metadata(fs: &dyn Fs, path: &Path) -> Result<Option<Metadata>, FsError> {
    found(fs.symlink_metadata(path)).map_err(FsError::io(FsAction::Stat, path))
}

/// The names in a directory, sorted.
///
/// # Errors
/// [`FsError::Io`].
pub fn read_dir(fs: &dyn Fs, path: &Path) -> Result<Vec<DirEntry>, FsError> {
    let mut entries = fs.read_dir(path).map_err(FsError::io(FsAction::List, path))?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Creates one directory, mode 0700; one that exists is no error. Its name is not synced.
///
/// # Errors
/// [`FsError::Io`], or [`FsError::NotADirectory`] if something else (a symbolic link too) has the name.
pub fn create_dir(fs: &dyn Fs, path: &Path) -> Result<(), FsError> {
    match fs.create_dir(path, DIR_MODE) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match symlink_metadata(fs, path)? {
            Some(meta) if meta.kind == FileKind::Dir => Ok(()),
            _ => Err(FsError::NotADirectory { path: path.to_owned() }),
        },
        Err(error) => Err(FsError::io(FsAction::CreateDir, path)(error)),
    }
}

/// Makes sure that a directory exists, with its ancestors: what is missing is created with mode 0700 and its name made
/// durable. What exists is left as it is; a symbolic link to a directory is a directory here, since a home is often one.
///
/// # Errors
/// [`FsError::Io`], or [`FsError::NotADirectory`].
pub fn ensure_dir(fs: &dyn Fs, path: &Path) -> Result<(), FsError> {
    match fs.metadata(path) {
        Ok(meta) if meta.kind == FileKind::Dir => return Ok(()),
        Ok(_) => return Err(FsError::NotADirectory { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(FsError::io(FsAction::Stat, path)(error)),
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        ensure_dir(fs, above)?;
    }
    create_dir(fs, path)?;
    sync_parent(fs, path)
}

/// The directory of a path; `.` for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    }
}

fn found(result: io::Result<Metadata>) -> io::Result<Option<Metadata>> {
    match result {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A signal handler that returns is no reason to fail.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
