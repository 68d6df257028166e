//! Replacing a file so that a reader, and a machine that loses power, sees the old content or the new, never a mixture.
//!
//! The steps of [`replace`], each of which the crash sweep in `tests/atomic_crash.rs` interrupts:
//!
//! 1. create a temporary file beside the target, with a name that nobody else can have (`O_EXCL`) and mode 0600;
//! 2. write, and make the content durable, so that the name can never appear before it;
//! 3. read it back through a new handle and compare: a disk that lies is found before the old content is gone;
//! 4. rename it over the target;
//! 5. make the directory durable, so that a success that was reported stays one.
//!
//! What a crash leaves behind is at most the temporary file, which [`remove_leftovers`] takes away. A target that is a
//! symbolic link is itself replaced, not what it points to: resolve it first if that is meant.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    fs::{FileKind, Fs, OpenHow, Owner},
    fsx::{self, FsError},
};

/// Behind the target's own name, in front of the random part.
const TEMP_MARK: &str = ".tmp-";

/// Hexadecimal digits of the random part of a temporary name.
const TEMP_RANDOM_DIGITS: usize = 16;

/// How to replace a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaceOptions {
    /// Permission bits of the new file, before the umask; ignored on Windows.
    pub mode: u32,
    /// Whether a success survives a power loss.
    pub durability: Durability,
    /// Exactly these permission bits, whatever the umask, and this owner: those of the file that is replaced. `None`
    /// leaves it at `mode` and at whoever runs this. On Windows the read-only attribute is what there is of them.
    pub access: Option<(u32, Option<Owner>)>,
}

impl Default for ReplaceOptions {
    fn default() -> Self {
        Self { mode: fsx::FILE_MODE, durability: Durability::Synced, access: None }
    }
}

/// Whether a replaced file survives a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It does, once success is reported.
    Synced,
    /// It may be lost, or be empty or torn, after a power loss (not after a crash of the process). For what can be made
    /// again.
    Unsynced,
}

/// Why a file was not replaced, by what its path holds now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The old content stands.
    #[error(transparent)]
    Unchanged(#[from] FsError),
    /// What was written read back differently. The old content stands; this disk is not to be trusted.
    #[error("write `{}`: its content read back differently", path.display())]
    ReadBack {
        /// The target.
        path: PathBuf,
    },
    /// The new content is in place, but may be gone (and the old one back) after a power loss.
    #[error("make durable the new content of `{}`", path.display())]
    NotDurable {
        /// The target.
        path: PathBuf,
        /// Why its directory could not be synced.
        source: FsError,
    },
    /// The operating system gave no random bytes for a temporary name. The old content stands.
    #[error("find a name for a temporary file beside `{}`", path.display())]
    Random {
        /// The target.
        path: PathBuf,
        /// The operating system's reason.
        source: getrandom::Error,
    },
}

impl ReplaceError {
    /// Whether readers see the new content in spite of the error.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        matches!(self, Self::NotDurable { .. })
    }

    /// A stable word for reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Unchanged(error) => error.class(),
            Self::ReadBack { .. } => "read_back",
            Self::NotDurable { .. } => "not_durable",
            Self::Random { .. } => "io",
        }
    }
}

/// Replaces (or creates) `path` with `bytes`: mode 0600, durable when this returns.
///
/// # Errors
/// [`ReplaceError`], whose variants say what the path holds now. The temporary file is removed.
pub fn replace(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<(), ReplaceError> {
    replace_with(fs, path, bytes, ReplaceOptions::default())
}

/// [`replace`] with another mode, or without the waits for the disk.
///
/// # Errors
/// As [`replace`].
pub fn replace_with(fs: &dyn Fs, path: &Path, bytes: &[u8], options: ReplaceOptions) -> Result<(), ReplaceError> {
    let temp = write_temp(fs, path, bytes, options)?;
    if let Err(error) = fsx::rename(fs, &temp, path) {
        discard(fs, &temp);
        return Err(error.into());
    }
    if options.durability == Durability::Synced {
        fsx::sync_parent(fs, path).map_err(|source| ReplaceError::NotDurable { path: path.to_owned(), source })?;
    }
    Ok(())
}

/// Removes temporary files that crashed replacements of `path` left beside it, and says how many.
///
/// Call it only where nobody else can be replacing the same path: under its lock.
///
/// # Errors
/// [`FsError`] of the first one that could not be removed, or of the listing.
pub fn remove_leftovers(fs: &dyn Fs, path: &Path) -> Result<usize, FsError> {
    let dir = fsx::parent(path);
    let mut removed = 0;
    for entry in fsx::read_dir(fs, dir)? {
        if entry.kind == FileKind::File && is_temp(&entry.name, path) {
            fsx::remove_file(fs, &dir.join(&entry.name))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether [`remove_leftovers`] would find something; not where the directory cannot be listed.
pub(crate) fn has_leftovers(fs: &dyn Fs, path: &Path) -> bool {
    let entries = fsx::read_dir(fs, fsx::parent(path)).unwrap_or_default();
    entries.iter().any(|entry| entry.kind == FileKind::File && is_temp(&entry.name, path))
}

/// Writes `bytes` to a new temporary file beside `path`, durable and read back. On an error the file is gone again.
pub(crate) fn write_temp(
    fs: &dyn Fs,
    path: &Path,
    bytes: &[u8],
    options: ReplaceOptions,
) -> Result<PathBuf, ReplaceError> {
    let temp = temp_path(path)?;
    let written = fill(fs, &temp, bytes, options).and_then(|()| {
        let same = options.durability == Durability::Unsynced || holds(fs, &temp, bytes)?;
        if same { Ok(()) } else { Err(ReplaceError::ReadBack { path: path.to_owned() }) }
    });
    match written {
        Ok(()) => Ok(temp),
        Err(error) => {
            discard(fs, &temp);
            Err(error)
        }
    }
}

/// Removes a temporary file whose purpose is gone. Its failure changes nothing for the caller, who is already reporting
/// one, and leaves what a crash would leave.
pub(crate) fn discard(fs: &dyn Fs, temp: &Path) {
    let _ = fs.remove_file(temp);
}

fn fill(fs: &dyn Fs, temp: &Path, bytes: &[u8], options: ReplaceOptions) -> Result<(), ReplaceError> {
    let mut file = fsx::open(fs, temp, OpenHow::CreateNew { mode: options.mode })?;
    fsx::write_all(file.as_mut(), temp, bytes)?;
    if let Some((mode, owner)) = options.access {
        fsx::set_access(file.as_mut(), temp, mode, owner)?;
    }
    if options.durability == Durability::Synced {
        fsx::sync_all(file.as_mut(), temp)?;
    }
    Ok(())
}

fn holds(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<bool, FsError> {
    match fsx::read_bounded(fs, path, bytes.len()) {
        Ok(found) => Ok(found == bytes),
        Err(FsError::TooLarge { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn temp_path(path: &Path) -> Result<PathBuf, ReplaceError> {
    let random = getrandom::u64().map_err(|source| ReplaceError::Random { path: path.to_owned(), source })?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("file")));
    name.push(format!("{TEMP_MARK}{random:0TEMP_RANDOM_DIGITS$x}"));
    Ok(path.with_file_name(name))
}

/// Whether a name is that of a temporary file of `path`.
pub(crate) fn is_temp(name: &OsStr, path: &Path) -> bool {
    let (Some(name), Some(target)) = (name.to_str(), path.file_name().and_then(OsStr::to_str)) else { return false };
    name.strip_prefix('.')
        .and_then(|rest| rest.strip_prefix(target))
        .and_then(|rest| rest.strip_prefix(TEMP_MARK))
        .is_some_and(|random| random.len() == TEMP_RANDOM_DIGITS && random.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let path = dir.path().join("state.json");
        for content in [&b"first"[..], b"", b"third"] {
            replace(&RealFs, &path, content).expect("replace");
            assert_eq!(fsx::read_bounded(&RealFs, &path, 100).expect("read"), content);
        }
        assert_eq!(fsx::read_dir(&RealFs, dir.path()).expect("list").len(), 1);
        #[cfg(unix)]
        assert_eq!(RealFs.symlink_metadata(&path).expect("stat").mode, 0o600);
    }

    #[test]
    fn a_directory_in_the_way_is_told_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let path = dir.path().join("taken");
        fsx::create_dir(&RealFs, &path).expect("mkdir");
        fsx::create_dir(&RealFs, &path.join("child")).expect("mkdir");
        let error = replace(&RealFs, &path, b"x").expect_err("a directory is not replaced");
        assert!(matches!(error, ReplaceError::Unchanged(_)) && !error.is_replaced());
        assert!(error.to_string().contains("taken"), "{error}");
        assert_eq!(fsx::read_dir(&RealFs, dir.path()).expect("list").len(), 1);
    }

    #[test]
    fn leftovers_are_those_of_this_target_only() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let target = dir.path().join("a");
        for name in [".a.tmp-0123456789abcdef", ".ab.tmp-0123456789abcdef", ".a.tmp-short", "a"] {
            replace(&RealFs, &dir.path().join(name), b"x").expect("write");
        }
        assert_eq!(remove_leftovers(&RealFs, &target).expect("remove"), 1);
        assert_eq!(fsx::read_dir(&RealFs, dir.path()).expect("list").len(), 3);
    }
}
