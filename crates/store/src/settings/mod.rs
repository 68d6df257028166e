//! Editing the settings of other programs: all files or none, with a backup that undoes it.
//!
//! The order is what makes it safe. The backup (old content and a manifest with the digests of old and new) is durable
//! before the first file is touched; every place is tried before the first file is touched; a file that fails takes the
//! ones before it back. A symbolic link is followed and its target replaced, so that a dotfile repository keeps its
//! link. The mode and the owner of a file stay.
//!
//! On Windows the read-only attribute stays, and a file that has it is replaced as any other. The new file has the access
//! control list that its directory hands down to it: entries that somebody gave the old file alone are gone, and so are
//! the other attributes (hidden, compressed) and alternate data streams. Settings lie in the user's own profile, where
//! what is handed down is what is right for a file of the user.
//!
//! Nobody can be kept from editing a file that we edit, so each one is compared with what was read once more in the
//! moment before its new content takes its place, and on the way back with what we wrote.

mod apply;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use pintle_wire::{Digest, Profile, ScanLimits, scan};
use serde::{Deserialize, Serialize};

use crate::{
    atomic::ReplaceError,
    fs::{FileKind, Fs, Owner},
    fsx::{self, FsError},
    lock::LockError,
};

pub use apply::apply;

/// The schema of a backup's manifest.
pub const BACKUP_SCHEMA: &str = "pintle.settings-backup.v1";
/// A manifest larger than this is not ours.
pub const MANIFEST_MAX_BYTES: usize = 1 << 20;
/// The most files that one change touches.
pub const FILES_MAX: usize = 64;
/// How long one change waits for another one to end.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

const MANIFEST: &str = "manifest.json";
const MANIFEST_DEPTH: usize = 8;

/// A settings file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The path that the other program opens.
    pub path: PathBuf,
    /// Where its content is, links followed.
    pub resolved: PathBuf,
    /// Its content; `None` where there is no file.
    pub bytes: Option<Vec<u8>>,
    /// The permission bits to keep.
    pub mode: u32,
    /// The owner to keep; `None` where there is no file.
    pub owner: Option<Owner>,
}

/// Reads a settings file of at most `limit_bytes`, following links.
///
/// # Errors
/// [`SettingsError::Destination`] for what is not a regular file or a link to nowhere; [`SettingsError::Io`].
pub fn read(fs: &dyn Fs, path: &Path, limit_bytes: usize) -> Result<Settings, SettingsError> {
    let Some(found) = fsx::symlink_metadata(fs, path)? else {
        let (path, resolved) = (path.to_owned(), path.to_owned());
        return Ok(Settings { path, resolved, bytes: None, mode: fsx::FILE_MODE, owner: None });
    };
    let resolved = if found.kind == FileKind::Symlink {
        std::fs::canonicalize(path).map_err(|_| SettingsError::Destination { path: path.to_owned() })?
    } else {
        path.to_owned()
    };
    let Some(target) = fsx::symlink_metadata(fs, &resolved)?.filter(|target| target.kind == FileKind::File) else {
        return Err(SettingsError::Destination { path: path.to_owned() });
    };
    let bytes = fsx::read_bounded(fs, &resolved, limit_bytes)?;
    Ok(Settings { path: path.to_owned(), resolved, bytes: Some(bytes), mode: target.mode, owner: target.owner })
}

/// One file with its new content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file as it was read.
    pub settings: Settings,
    /// Its new content; `None` removes it.
    pub after: Option<Vec<u8>>,
    /// Words for the manifest: whose file it is and what for.
    pub label: String,
    /// Directories that we made for the file, outermost first: they go with it, unless something else is in them.
    pub made_dirs: Vec<PathBuf>,
}

impl FileChange {
    /// Whether there is anything to write.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.settings.bytes != self.after
    }
}

/// What a backup says of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupFile {
    /// The path that the other program opens.
    pub path: PathBuf,
    /// Where its content is.
    pub resolved: PathBuf,
    /// Whose file it is and what for.
    pub label: String,
    /// The file did not exist before.
    pub created: bool,
    /// Directories that were made for it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_dirs: Vec<PathBuf>,
    /// Permission bits.
    pub mode: u32,
    /// The old content; `None` where there was none.
    pub before: Option<Content>,
    /// The new content; `None` where the file was removed.
    pub after: Option<Content>,
}

/// Digest and size of a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// SHA-256.
    pub digest: Digest,
    /// Length in bytes.
    pub bytes: u64,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        Self { digest: Digest::of(bytes), bytes: bytes.len() as u64 }
    }
}

/// A backup's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// [`BACKUP_SCHEMA`].
    pub schema: String,
    /// What was done, in one word.
    pub action: String,
    /// Seconds since 1970.
    pub created_at: u64,
    /// Every file that was changed, in order.
    pub files: Vec<BackupFile>,
}

/// Why settings were not changed, or not changed back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Nothing was changed: a file could not be read, or its place not written.
    #[error(transparent)]
    Io(#[from] FsError),
    /// Nothing was changed: the path holds no regular file.
    #[error("edit `{}`: it is not a regular file, or a link to nowhere", path.display())]
    Destination {
        /// The path.
        path: PathBuf,
    },
    /// Nothing was changed: somebody edited the file since it was read.
    #[error("edit `{}`: it changed in the meantime; run the command again", path.display())]
    Raced {
        /// The file.
        path: PathBuf,
    },
    /// Nothing was changed: the backup could not be made.
    #[error("make the backup: {0}")]
    Backup(#[source] Box<Self>),
    /// Nothing was changed: the backup cannot be used.
    #[error("use the backup `{}`: {what}", path.display())]
    BadBackup {
        /// Its directory.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Nothing was changed: two names lead to one file, and the changes differ.
    #[error("edit `{}`: `{}` is the same file, and both are to be changed", path.display(), other.display())]
    SameFile {
        /// One name.
        path: PathBuf,
        /// The other one.
        other: PathBuf,
    },
    /// Nothing was changed: the backup could not name the file.
    #[error("edit `{}`: its path is not UTF-8", path.display())]
    Unnameable {
        /// The path.
        path: PathBuf,
    },
    /// A write failed, and the files before it, if there are any, were changed back.
    #[error("write `{}`: {source}; every file is as it was", path.display())]
    Undone {
        /// The file that failed.
        path: PathBuf,
        /// Why.
        source: Box<ReplaceError>,
    },
    /// A write failed, and a file before it could not be changed back.
    #[error("write `{}`, and change `{}` back: the backup is `{}`", path.display(), stuck.display(), backup.display())]
    Stuck {
        /// The file that failed.
        path: PathBuf,
        /// The first file that could not be changed back.
        stuck: PathBuf,
        /// Where the old contents are.
        backup: PathBuf,
        /// Why the write failed; nothing where the file changed in the meantime.
        source: Option<Box<ReplaceError>>,
    },
    /// Another change is going on.
    #[error(transparent)]
    Locked(#[from] LockError),
}

impl SettingsError {
    /// The stable code of the receipt.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io(_) => "PATH_IO",
            Self::Destination { .. } | Self::SameFile { .. } => "DESTINATION_INVALID",
            Self::Unnameable { .. } => "PATH_ENCODING",
            Self::Raced { .. } => "PATH_CHANGED",
            Self::Backup(_) => "BACKUP_FAILED",
            Self::BadBackup { .. } => "BACKUP_INVALID",
            Self::Undone { .. } => "INSTALL_FAILED",
            Self::Stuck { .. } => "INSTALL_AND_ROLLBACK_FAILED",
            Self::Locked(_) => "LOCK_TIMEOUT",
        }
    }
}

/// Reads a backup's manifest.
///
/// # Errors
/// [`SettingsError::BadBackup`], [`SettingsError::Io`].
pub fn load_backup(fs: &dyn Fs, dir: &Path) -> Result<Backup, SettingsError> {
    let bad = |what| SettingsError::BadBackup { path: dir.to_owned(), what };
    let bytes = match fsx::read_bounded(fs, &dir.join(MANIFEST), MANIFEST_MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(bad("it has no manifest.json")),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(bad("it is no directory")),
        Err(error) => return Err(error.into()),
    };
    let limits = ScanLimits { max_bytes: MANIFEST_MAX_BYTES, max_depth: MANIFEST_DEPTH };
    let text = scan(&bytes, Profile::DriverRpc, limits).map_err(|_| bad("its manifest is not strict JSON"))?;
    let backup: Backup = text.decode().map_err(|_| bad("its manifest has another shape"))?;
    if backup.schema != BACKUP_SCHEMA {
        return Err(bad("its schema is not known"));
    }
    Ok(backup)
}

/// The backups below `backups`, oldest first; what is not one is passed over.
///
/// # Errors
/// [`SettingsError::Io`] where the folder cannot be listed.
pub fn list_backups(fs: &dyn Fs, backups: &Path) -> Result<Vec<(PathBuf, Backup)>, SettingsError> {
    if fsx::metadata(fs, backups)?.is_none() {
        return Ok(Vec::new());
    }
    let mut names: Vec<_> = fsx::read_dir(fs, backups)?
        .into_iter()
        .filter(|entry| entry.kind == FileKind::Dir)
        .map(|entry| backups.join(entry.name))
        .collect();
    names.sort();
    Ok(names.into_iter().filter_map(|dir| load_backup(fs, &dir).ok().map(|backup| (dir, backup))).collect())
}

/// The saved old content of the file at `index` of a backup, its digest checked.
///
/// # Errors
/// [`SettingsError::BadBackup`] where it is missing or not what the manifest says.
pub fn saved(fs: &dyn Fs, dir: &Path, backup: &Backup, index: usize) -> Result<Option<Vec<u8>>, SettingsError> {
    let Some(content) = backup.files.get(index).and_then(|file| file.before.as_ref()) else { return Ok(None) };
    let bad = |what| SettingsError::BadBackup { path: dir.to_owned(), what };
    let limit = usize::try_from(content.bytes).map_err(|_| bad("a saved file is too large"))?;
    let bytes =
        fsx::read_bounded(fs, &saved_path(dir, index), limit).map_err(|_| bad("a saved file cannot be read"))?;
    if Content::of(&bytes) != *content {
        return Err(bad("a saved file is not what the manifest says"));
    }
    Ok(Some(bytes))
}

/// Whether a file is still as the backup's change left it.
#[must_use]
pub fn is_as_left(file: &BackupFile, current: Option<&[u8]>) -> bool {
    current.map(Content::of) == file.after
}

fn saved_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("{index}.before"))
}

#[cfg(test)]
mod tests;
