//! Carrying out a change of several files.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use pintle_wire::to_canonical;

use super::{
    BACKUP_SCHEMA, Backup, BackupFile, Content, FILES_MAX, FileChange, LOCK_WAIT, MANIFEST, Settings, SettingsError,
    read, saved_path,
};
use crate::{
    atomic::{self, Durability, ReplaceError, ReplaceOptions},
    fs::{Fs, LockKind, OpenHow},
    fsx::{self, FsAction, FsError},
    lock,
};

/// Makes every change that is one, or none of them. Returns the backup's directory below `backups`, or `None` when there
/// was nothing to change. `now` is the wall clock, for the name of the backup. What an interrupted change left beside the
/// files is removed.
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
    let moving: Vec<&FileChange> = changes.iter().filter(|change| change.is_change()).take(FILES_MAX).collect();
    let files = || changes.iter().map(|change| change.settings.resolved.as_path());
    if moving.is_empty() && !files().any(|file| atomic::has_leftovers(fs, file)) {
        return Ok(None);
    }
    check_names(&moving)?;
    fsx::ensure_dir(fs, backups)?;
    let _lock = lock::acquire(fs, &backups.join("lock"), LockKind::Exclusive, LOCK_WAIT)?;
    // Nobody else is writing now. What cannot be removed harms nobody.
    files().for_each(|file| drop(atomic::remove_leftovers(fs, file)));
    if moving.is_empty() {
        return Ok(None);
    }
    let mut made = Vec::new();
    let done = carry_out(fs, backups, action, now, &moving, &mut made);
    if done.is_err() {
        // Only those that are empty go.
        made.iter().flatten().rev().for_each(|dir| drop(fs.remove_dir(dir)));
    }
    done.map(Some)
}

/// `made` takes the directories that were made for each change.
fn carry_out(
    fs: &dyn Fs,
    backups: &Path,
    action: &str,
    now: SystemTime,
    changes: &[&FileChange],
    made: &mut Vec<Vec<PathBuf>>,
) -> Result<PathBuf, SettingsError> {
    for change in changes {
        try_place(fs, change, made)?;
        if !is_still(fs, &change.settings, change.settings.bytes.as_deref())? {
            return Err(SettingsError::Raced { path: change.settings.path.clone() });
        }
    }
    let backup = new_dir(fs, backups, now)?;
    if let Err(error) = save(fs, &backup, action, now, changes, made) {
        // It names nothing that was changed, and on a full disk its room is needed.
        let _ = fsx::remove_tree(fs, &backup);
        return Err(SettingsError::Backup(Box::new(error)));
    }
    let mut done: Vec<&FileChange> = Vec::new();
    for change in changes {
        // Another name of a file that is done.
        if done.iter().any(|done| done.settings.resolved == change.settings.resolved) {
            continue;
        }
        let before = change.settings.bytes.as_deref();
        let Err(failure) = write(fs, &change.settings, before, change.after.as_deref()) else {
            done.push(change);
            continue;
        };
        let path = change.settings.path.clone();
        // The file that failed is as it was: a write that cannot be completed leaves the old content.
        let back = done.iter().rev().find(|change| {
            write(fs, &change.settings, change.after.as_deref(), change.settings.bytes.as_deref()).is_err()
        });
        return Err(match (back, failure) {
            (None, Failure::Raced) => SettingsError::Raced { path },
            (None, Failure::Io(source)) => SettingsError::Undone { path, source },
            (Some(stuck), failure) => {
                let source = if let Failure::Io(source) = failure { Some(source) } else { None };
                SettingsError::Stuck { path, stuck: stuck.settings.path.clone(), backup, source }
            }
        });
    }
    for change in changes.iter().filter(|change| change.after.is_none()) {
        change.made_dirs.iter().rev().for_each(|dir| drop(fs.remove_dir(dir)));
    }
    Ok(backup)
}

/// What the backup could not name, or would undo twice, is refused.
fn check_names(changes: &[&FileChange]) -> Result<(), SettingsError> {
    for (at, change) in changes.iter().enumerate() {
        let settings = &change.settings;
        if settings.path.to_str().is_none() || settings.resolved.to_str().is_none() {
            return Err(SettingsError::Unnameable { path: settings.path.clone() });
        }
        let same = changes[..at].iter().find(|other| other.settings.resolved == settings.resolved);
        if let Some(same) = same.filter(|same| same.after != change.after) {
            let (path, other) = (settings.path.clone(), same.settings.path.clone());
            return Err(SettingsError::SameFile { path, other });
        }
    }
    Ok(())
}

fn save(
    fs: &dyn Fs,
    dir: &Path,
    action: &str,
    now: SystemTime,
    changes: &[&FileChange],
    made: &[Vec<PathBuf>],
) -> Result<(), SettingsError> {
    let mut files = Vec::new();
    for (index, (change, made)) in changes.iter().zip(made).enumerate() {
        let before = change.settings.bytes.as_deref();
        if let Some(bytes) = before {
            put(fs, &saved_path(dir, index), bytes)?;
        }
        files.push(BackupFile {
            path: change.settings.path.clone(),
            resolved: change.settings.resolved.clone(),
            label: change.label.clone(),
            created: before.is_none(),
            made_dirs: made.clone(),
            mode: change.settings.mode,
            before: before.map(Content::of),
            after: change.after.as_deref().map(Content::of),
        });
    }
    let backup =
        Backup { schema: BACKUP_SCHEMA.to_owned(), action: action.to_owned(), created_at: seconds(now), files };
    let bytes = to_canonical(&backup)
        .map_err(|_| SettingsError::BadBackup { path: dir.to_owned(), what: "its manifest cannot be written" })?;
    put(fs, &dir.join(MANIFEST), &bytes)?;
    Ok(fsx::sync_parent(fs, dir)?)
}

/// A directory that sorts by time and that nobody else has: the seconds, and a counter where two share one.
fn new_dir(fs: &dyn Fs, backups: &Path, now: SystemTime) -> Result<PathBuf, SettingsError> {
    let failed = |error| Err(SettingsError::Backup(Box::new(error)));
    for counter in 0..1000 {
        let dir = backups.join(format!("{:012}-{counter:03}", seconds(now)));
        match fs.create_dir(&dir, fsx::DIR_MODE) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return failed(FsError::Io { action: FsAction::CreateDir, path: dir, source }.into()),
        }
    }
    failed(SettingsError::BadBackup { path: backups.to_owned(), what: "too many backups in one second" })
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
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
fn try_place(fs: &dyn Fs, change: &FileChange, made: &mut Vec<Vec<PathBuf>>) -> Result<(), SettingsError> {
    let target = &change.settings.resolved;
    let parent = fsx::parent(target);
    let missing = missing_dirs(fs, parent)?;
    if !missing.is_empty() && change.after.is_none() {
        made.push(Vec::new());
        return Ok(());
    }
    made.push(missing);
    fsx::ensure_dir(fs, parent)?;
    let probe = atomic::temp_path(target).map_err(|source| unchanged(target, source))?;
    drop(fsx::open(fs, &probe, OpenHow::CreateNew { mode: fsx::FILE_MODE })?);
    Ok(fsx::remove_file(fs, &probe)?)
}

fn unchanged(path: &Path, source: ReplaceError) -> SettingsError {
    SettingsError::Undone { path: path.to_owned(), source: Box::new(source) }
}

/// The directories that are not there, outermost first.
fn missing_dirs(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>, FsError> {
    let mut missing = Vec::new();
    for dir in dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty()) {
        if fsx::metadata(fs, dir)?.is_some() {
            break;
        }
        missing.insert(0, dir.to_owned());
    }
    Ok(missing)
}

/// Whether a file, by whichever links, still has the content that it is taken to have.
fn is_still(fs: &dyn Fs, settings: &Settings, expected: Option<&[u8]>) -> Result<bool, SettingsError> {
    match read(fs, &settings.path, expected.map_or(0, <[u8]>::len)) {
        Ok(found) => Ok(found.resolved == settings.resolved && found.bytes.as_deref() == expected),
        Err(SettingsError::Destination { .. } | SettingsError::Io(FsError::TooLarge { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Why one file was not changed.
enum Failure {
    /// It has not the content that it is taken to have.
    Raced,
    Io(Box<ReplaceError>),
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self::Io(Box::new(error.into()))
    }
}

/// Puts `content` where `expected` is, and nowhere else.
fn write(fs: &dyn Fs, settings: &Settings, expected: Option<&[u8]>, content: Option<&[u8]>) -> Result<(), Failure> {
    let path = &settings.resolved;
    let check = || match is_still(fs, settings, expected) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Raced),
        Err(SettingsError::Io(error)) => Err(error.into()),
        Err(_) => Err(Failure::Raced),
    };
    let Some(bytes) = content else {
        check()?;
        return match fsx::remove_file(fs, path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        };
    };
    let access = settings.bytes.is_some().then_some((settings.mode, settings.owner));
    let options = ReplaceOptions { mode: fsx::FILE_MODE, durability: Durability::Synced, access };
    fsx::ensure_dir(fs, fsx::parent(path))?;
    // The comparison comes last: between it and the rename is nothing that waits for a disk.
    let temp = atomic::write_temp(fs, path, bytes, options).map_err(|error| Failure::Io(Box::new(error)))?;
    let moved = check().and_then(|()| fsx::rename(fs, &temp, path).map_err(Failure::from));
    if let Err(failure) = moved {
        atomic::discard(fs, &temp);
        return Err(failure);
    }
    // The content is in place; what a power loss may undo is no reason to take it back.
    let _ = fsx::sync_parent(fs, path);
    Ok(())
}
