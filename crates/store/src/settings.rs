//! Editing the settings of other programs: all files or none, with a backup that undoes it.
//!
//! The order is what makes it safe. The backup (old content and a manifest with the digests of old and new) is durable
//! before the first file is touched; every place is tried before the first file is touched; a file that fails takes the
//! ones before it back. A symbolic link is followed and its target replaced, so that a dotfile repository keeps its
//! link. The mode of a file stays.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use pintle_wire::{Digest, Profile, ScanLimits, scan, to_canonical};
use serde::{Deserialize, Serialize};

use crate::{
    atomic::{self, Durability, ReplaceError, ReplaceOptions},
    fs::{FileKind, Fs, LockKind, OpenHow},
    fsx::{self, FsAction, FsError},
    lock::{self, LockError},
};

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
}

/// Reads a settings file of at most `limit_bytes`, following links.
///
/// # Errors
/// [`SettingsError::Destination`] for what is not a regular file or a link to nowhere; [`SettingsError::Io`].
pub fn read(fs: &dyn Fs, path: &Path, limit_bytes: usize) -> Result<Settings, SettingsError> {
    let Some(found) = fsx::symlink_metadata(fs, path)? else {
        return Ok(Settings { path: path.to_owned(), resolved: path.to_owned(), bytes: None, mode: fsx::FILE_MODE });
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
    Ok(Settings { path: path.to_owned(), resolved, bytes: Some(bytes), mode: target.mode })
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
        /// Why the write failed.
        source: Box<ReplaceError>,
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
            Self::Destination { .. } => "DESTINATION_INVALID",
            Self::Raced { .. } => "PATH_CHANGED",
            Self::Backup(_) => "BACKUP_FAILED",
            Self::BadBackup { .. } => "BACKUP_INVALID",
            Self::Undone { .. } => "INSTALL_FAILED",
            Self::Stuck { .. } => "INSTALL_AND_ROLLBACK_FAILED",
            Self::Locked(_) => "LOCK_TIMEOUT",
        }
    }
}

/// Makes every change that is one, or none of them. Returns the backup's directory below `backups`, or `None` when there
/// was nothing to change. `now` is the wall clock, for the name of the backup.
///
/// # Errors
/// [`SettingsError`]; but for [`SettingsError::Stuck`] every file is as it was.
pub fn apply(
    fs: &dyn Fs,
    backups: &Path,
    action: &str,
    now: SystemTime,
    changes: &[FileChange],
) -> Result<Option<PathBuf>, SettingsError> {
    let changes: Vec<&FileChange> = changes.iter().filter(|change| change.is_change()).take(FILES_MAX).collect();
    if changes.is_empty() {
        return Ok(None);
    }
    fsx::ensure_dir(fs, backups)?;
    let _lock = lock::acquire(fs, &backups.join("lock"), LockKind::Exclusive, LOCK_WAIT)?;
    for change in &changes {
        try_place(fs, change)?;
        let found = read(fs, &change.settings.path, usize::MAX)?;
        if found.bytes != change.settings.bytes {
            return Err(SettingsError::Raced { path: change.settings.path.clone() });
        }
    }
    let backup = save(fs, backups, action, now, &changes).map_err(|e| SettingsError::Backup(Box::new(e)))?;
    for (done, change) in changes.iter().enumerate() {
        let Err(source) = write(fs, &change.settings.resolved, change.after.as_deref(), change.settings.mode) else {
            continue;
        };
        let (path, source) = (change.settings.path.clone(), Box::new(source));
        // The file that failed is as it was: a write that cannot be completed leaves the old content.
        let back = changes[..done].iter().rev().find(|change| {
            write(fs, &change.settings.resolved, change.settings.bytes.as_deref(), change.settings.mode).is_err()
        });
        return Err(match back {
            None => SettingsError::Undone { path, source },
            Some(stuck) => SettingsError::Stuck { path, stuck: stuck.settings.path.clone(), backup, source },
        });
    }
    Ok(Some(backup))
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

fn save(
    fs: &dyn Fs,
    backups: &Path,
    action: &str,
    now: SystemTime,
    changes: &[&FileChange],
) -> Result<PathBuf, SettingsError> {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let dir = new_dir(fs, backups, seconds)?;
    let mut files = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let before = change.settings.bytes.as_deref();
        if let Some(bytes) = before {
            put(fs, &saved_path(&dir, index), bytes)?;
        }
        files.push(BackupFile {
            path: change.settings.path.clone(),
            resolved: change.settings.resolved.clone(),
            label: change.label.clone(),
            created: before.is_none(),
            mode: change.settings.mode,
            before: before.map(Content::of),
            after: change.after.as_deref().map(Content::of),
        });
    }
    let backup = Backup { schema: BACKUP_SCHEMA.to_owned(), action: action.to_owned(), created_at: seconds, files };
    let bytes = to_canonical(&backup)
        .map_err(|_| SettingsError::BadBackup { path: dir.clone(), what: "a path in it is not UTF-8" })?;
    put(fs, &dir.join(MANIFEST), &bytes)?;
    fsx::sync_dir(fs, backups)?;
    Ok(dir)
}

/// A directory that sorts by time and that nobody else has: the seconds, and a counter where two share one.
fn new_dir(fs: &dyn Fs, backups: &Path, seconds: u64) -> Result<PathBuf, SettingsError> {
    for counter in 0..1000 {
        let dir = backups.join(format!("{seconds:012}-{counter:03}"));
        match fs.create_dir(&dir, fsx::DIR_MODE) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(FsError::Io { action: FsAction::CreateDir, path: dir, source }.into()),
        }
    }
    Err(SettingsError::BadBackup { path: backups.to_owned(), what: "too many backups in one second" })
}

fn saved_path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("{index}.before"))
}

fn put(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<(), SettingsError> {
    match atomic::replace(fs, path, bytes) {
        Ok(()) => Ok(()),
        Err(ReplaceError::Unchanged(error)) => Err(error.into()),
        Err(_) => Err(SettingsError::BadBackup { path: path.to_owned(), what: "it could not be written durably" }),
    }
}

/// Whether a file could be written there, found out by writing one: permission bits do not tell of a read-only file
/// system, and a refusal must come before the first edit.
fn try_place(fs: &dyn Fs, change: &FileChange) -> Result<(), SettingsError> {
    let target = &change.settings.resolved;
    let parent = fsx::parent(target);
    if fsx::metadata(fs, parent)?.is_none() {
        if change.after.is_none() {
            return Ok(());
        }
        fsx::ensure_dir(fs, parent)?;
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".pintle-probe-{}", std::process::id()));
    let probe = target.with_file_name(name);
    drop(fsx::open(fs, &probe, OpenHow::CreateNew { mode: fsx::FILE_MODE })?);
    Ok(fsx::remove_file(fs, &probe)?)
}

fn write(fs: &dyn Fs, path: &Path, content: Option<&[u8]>, mode: u32) -> Result<(), ReplaceError> {
    match content {
        Some(bytes) => {
            let options = ReplaceOptions { mode, durability: Durability::Synced };
            match atomic::replace_with(fs, path, bytes, options) {
                // The content is in place; what a power loss may undo is no reason to take it back.
                Err(error) if error.is_replaced() => Ok(()),
                other => other,
            }
        }
        None => match fsx::remove_file(fs, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(ReplaceError::from),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealFs;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn change(path: &Path, after: Option<&str>) -> FileChange {
        let settings = read(&RealFs, path, 1 << 20).expect("reads");
        FileChange { settings, after: after.map(|text| text.as_bytes().to_vec()), label: "test".into() }
    }

    fn content(path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    #[test]
    fn every_file_changes_and_the_backup_holds_the_old_ones() {
        let dir = tempfile::tempdir().expect("temp");
        let (old, new, gone) = (dir.path().join("old"), dir.path().join("sub/new"), dir.path().join("gone"));
        std::fs::write(&old, "1").expect("writes");
        std::fs::write(&gone, "2").expect("writes");
        let backups = dir.path().join("backups");
        let changes = [change(&old, Some("11")), change(&new, Some("n")), change(&gone, None)];
        let backup = apply(&RealFs, &backups, "install", NOW, &changes).expect("applies").expect("changed");
        assert_eq!((content(&old), content(&new), content(&gone)), (Some("11".into()), Some("n".into()), None));
        let manifest = load_backup(&RealFs, &backup).expect("loads");
        let created: Vec<bool> = manifest.files.iter().map(|file| file.created).collect();
        assert_eq!(created, [false, true, false]);
        let saved: Vec<_> = (0..3).map(|at| saved(&RealFs, &backup, &manifest, at).expect("saved")).collect();
        assert_eq!(saved, [Some(b"1".to_vec()), None, Some(b"2".to_vec())]);
        assert!(is_as_left(&manifest.files[0], Some(b"11")) && !is_as_left(&manifest.files[0], Some(b"12")));
        assert_eq!(list_backups(&RealFs, &backups).expect("lists").len(), 1);
        assert_eq!(apply(&RealFs, &backups, "install", NOW, &[change(&old, Some("11"))]).expect("none"), None);
    }

    #[test]
    fn a_place_that_cannot_be_written_stops_before_the_first_edit() {
        let dir = tempfile::tempdir().expect("temp");
        let (first, file) = (dir.path().join("first"), dir.path().join("file"));
        std::fs::write(&file, "").expect("writes");
        let below = Settings { path: file.join("below"), resolved: file.join("below"), bytes: None, mode: 0o600 };
        let below = FileChange { settings: below, after: Some(b"2".to_vec()), label: "test".into() };
        let changes = [change(&first, Some("1")), below];
        let error = apply(&RealFs, &dir.path().join("b"), "install", NOW, &changes).expect_err("refused");
        assert_eq!(error.code(), "PATH_IO", "{error}");
        assert_eq!(content(&first), None);
    }

    #[test]
    fn an_edit_in_the_meantime_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("temp");
        let file = dir.path().join("file");
        std::fs::write(&file, "1").expect("writes");
        let changes = [change(&file, Some("2"))];
        std::fs::write(&file, "mine").expect("writes");
        let error = apply(&RealFs, &dir.path().join("b"), "install", NOW, &changes).expect_err("refused");
        assert_eq!((error.code(), content(&file)), ("PATH_CHANGED", Some("mine".into())));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_the_mode_stays() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().expect("temp");
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::write(&real, "1").expect("writes");
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("mode");
        symlink(&real, &link).expect("links");
        apply(&RealFs, &dir.path().join("b"), "install", NOW, &[change(&link, Some("2"))]).expect("applies");
        assert_eq!(content(&real).as_deref(), Some("2"));
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(std::fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
        symlink(dir.path().join("nowhere"), dir.path().join("broken")).expect("links");
        let error = read(&RealFs, &dir.path().join("broken"), 10).expect_err("refused");
        assert_eq!(error.code(), "DESTINATION_INVALID");
    }

    #[test]
    fn a_backup_that_was_tampered_with_is_refused() {
        let dir = tempfile::tempdir().expect("temp");
        let file = dir.path().join("file");
        std::fs::write(&file, "1").expect("writes");
        let changes = [change(&file, Some("2"))];
        let backup =
            apply(&RealFs, &dir.path().join("b"), "install", NOW, &changes).expect("applies").expect("changed");
        let manifest = load_backup(&RealFs, &backup).expect("loads");
        std::fs::write(backup.join("0.before"), "9").expect("writes");
        assert_eq!(saved(&RealFs, &backup, &manifest, 0).expect_err("refused").code(), "BACKUP_INVALID");
        std::fs::write(backup.join(MANIFEST), "{}").expect("writes");
        assert_eq!(load_backup(&RealFs, &backup).expect_err("refused").code(), "BACKUP_INVALID");
    }
}
