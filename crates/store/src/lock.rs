//! Advisory locks between processes, with a bounded wait.
//!
//! The lock is the kernel's, on an open file (`flock` on Unix, `LockFileEx` on Windows): it goes away with its holder,
//! however that ends, so no process id is stored and none is ever judged dead. The lock file has no content and is never
//! removed by us.
//!
//! Its enemies, and what is done about each:
//!
//! * **Somebody removes the lock file** (a cleaner, a user) between our open and our lock. We would then hold a lock that
//!   the next process, which creates a new file, cannot see. After each lock the path is looked up again; if it is not
//!   the file that we locked, we start over.
//! * **A symbolic link or a FIFO at the path.** Never followed, never waited for: an error.
//! * **NFS.** Linux clients carry these locks to the server as byte-range locks, which need a file open for writing: it
//!   is. A stale handle (the file was removed on the server) starts over. A server without a lock manager answers
//!   "no locks available": [`LockError::Unsupported`], never a silent success.
//! * **A file system that cannot lock at all**: the same error. Two writers without a lock lose updates, so there is no
//!   quiet fallback.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{
    fs::{Fs, FsFile, LockKind, OpenHow},
    fsx::{self, FsAction, FsError},
};

/// The first pause between two tries; each later one is twice as long.
pub const FIRST_PAUSE_MS: u64 = 1;

/// The longest pause between two tries.
pub const LONGEST_PAUSE_MS: u64 = 25;

/// How often a lock file may vanish under us before we give up.
pub const MAX_RESTARTS: u32 = 32;

/// A lock that is held. Dropping it releases it.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct Lock {
    // Held for its drop.
    _file: Box<dyn FsFile>,
    path: PathBuf,
}

impl Lock {
    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// How long to wait for a lock, and with which clock.
#[expect(missing_debug_implementations, reason = "it holds two closures")]
pub struct Patience<'a> {
    /// Give up after this much time on `elapsed`; zero means one try.
    pub limit: Duration,
    /// Time since some fixed moment; it must not go backwards.
    pub elapsed: &'a dyn Fn() -> Duration,
    /// Lets this much time go by.
    pub pause: &'a dyn Fn(Duration),
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else held it all the time.
    #[error("lock `{}` within {} ms: another process holds it", path.display(), limit.as_millis())]
    TimedOut {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        limit: Duration,
    },
    /// This file system has no locks.
    #[error("lock `{}`: its file system has no locks", path.display())]
    Unsupported {
        /// The lock file.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// The lock file was removed or replaced each time that we had locked it.
    #[error("lock `{}`: the file was replaced {MAX_RESTARTS} times while being locked", path.display())]
    Replaced {
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file could not be opened or locked.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl LockError {
    /// A stable word for reports.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::TimedOut { .. } => "lock_timeout",
            Self::Unsupported { .. } => "lock_unsupported",
            Self::Replaced { .. } => "lock_replaced",
            Self::Fs(error) => error.class(),
        }
    }
}

/// Takes the lock at `path`, creating the file (mode 0600) where it is missing; its directory must exist. Waits at most
/// `limit`, by the system's clock, in pauses of 1 ms to 25 ms.
///
/// # Errors
/// [`LockError`].
pub fn acquire(fs: &dyn Fs, path: &Path, kind: LockKind, limit: Duration) -> Result<Lock, LockError> {
    let start = Instant::now();
    acquire_with(fs, path, kind, &Patience { limit, elapsed: &|| start.elapsed(), pause: &thread::sleep })
}

/// Takes the lock at once, or says with `None` that somebody else has it.
///
/// # Errors
/// [`LockError`], but never `TimedOut`.
pub fn try_acquire(fs: &dyn Fs, path: &Path, kind: LockKind) -> Result<Option<Lock>, LockError> {
    match acquire_with(fs, path, kind, &Patience { limit: Duration::ZERO, elapsed: &|| Duration::ZERO, pause: &|_| {} })
    {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// [`acquire`] with the caller's clock and pause.
///
/// # Errors
/// [`LockError`].
pub fn acquire_with(fs: &dyn Fs, path: &Path, kind: LockKind, patience: &Patience<'_>) -> Result<Lock, LockError> {
    let start = (patience.elapsed)();
    let mut pause = Duration::from_millis(FIRST_PAUSE_MS);
    let mut restarts = 0;
    'open: loop {
        if restarts > MAX_RESTARTS {
            return Err(LockError::Replaced { path: path.to_owned() });
        }
        let file = match fs.open(path, OpenHow::Lock { mode: fsx::FILE_MODE }) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {
                restarts += 1;
                continue;
            }
            Err(source) => return Err(FsError::Io { action: FsAction::Open, path: path.to_owned(), source }.into()),
        };
        loop {
            match file.try_lock(kind) {
                Ok(true) if is_at(fs, file.as_ref(), path)? => return Ok(Lock { _file: file, path: path.to_owned() }),
                Ok(true) => {
                    restarts += 1;
                    continue 'open;
                }
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {
                    restarts += 1;
                    continue 'open;
                }
                Err(source) if is_unsupported(&source) => {
                    return Err(LockError::Unsupported { path: path.to_owned(), source });
                }
                Err(source) => {
                    return Err(FsError::Io { action: FsAction::Lock, path: path.to_owned(), source }.into());
                }
            }
            let waited = (patience.elapsed)().saturating_sub(start);
            let Some(left) = patience.limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
                return Err(LockError::TimedOut { path: path.to_owned(), limit: patience.limit });
            };
            (patience.pause)(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(LONGEST_PAUSE_MS));
        }
    }
}

/// Whether the locked file still has its name. Where the system cannot tell files apart, whether anything has it.
fn is_at(fs: &dyn Fs, file: &dyn FsFile, path: &Path) -> Result<bool, FsError> {
    let held =
        file.metadata().map_err(|source| FsError::Io { action: FsAction::Stat, path: path.to_owned(), source })?;
    Ok(fsx::symlink_metadata(fs, path)?.is_some_and(|named| named.id == held.id) && held.links > 0)
}

fn is_unsupported(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error()) {
        return true;
    }
    error.kind() == io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::fs::RealFs;

    #[test]
    fn the_wait_ends_at_its_limit_by_the_clock_that_is_passed_in() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let path = dir.path().join("lock");
        let _held = acquire(&RealFs, &path, LockKind::Exclusive, Duration::ZERO).expect("free");
        let clock = Cell::new(Duration::from_secs(9));
        let pauses = Cell::new(0);
        let patience = Patience {
            limit: Duration::from_millis(60),
            elapsed: &|| clock.get(),
            pause: &|pause| {
                clock.set(clock.get() + pause);
                pauses.set(pauses.get() + 1);
            },
        };
        let error = acquire_with(&RealFs, &path, LockKind::Exclusive, &patience).expect_err("held");
        assert_eq!(error.class(), "lock_timeout");
        assert_eq!(clock.get(), Duration::from_millis(9060));
        // 1 + 2 + 4 + 8 + 16 + 25, and the 4 ms that are left.
        assert_eq!(pauses.get(), 7);
    }

    #[test]
    fn shared_locks_share_and_exclude_the_exclusive() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let path = dir.path().join("lock");
        let first = try_acquire(&RealFs, &path, LockKind::Shared).expect("lock").expect("free");
        let second = try_acquire(&RealFs, &path, LockKind::Shared).expect("lock").expect("shared");
        assert!(try_acquire(&RealFs, &path, LockKind::Exclusive).expect("lock").is_none());
        drop((first, second));
        assert!(try_acquire(&RealFs, &path, LockKind::Exclusive).expect("lock").is_some());
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_on_a_file_that_lost_its_name_does_not_count() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let path = dir.path().join("lock");
        let old = try_acquire(&RealFs, &path, LockKind::Exclusive).expect("lock").expect("free");
        let clock = Cell::new(Duration::ZERO);
        // The holder's file is removed while we wait for it, and the holder goes away.
        let old = Cell::new(Some(old));
        let patience = Patience {
            limit: Duration::from_secs(1),
            elapsed: &|| clock.get(),
            pause: &|pause| {
                clock.set(clock.get() + pause);
                if let Some(old) = old.take() {
                    RealFs.remove_file(&path).expect("remove");
                    drop(old);
                }
            },
        };
        let held = acquire_with(&RealFs, &path, LockKind::Exclusive, &patience).expect("lock");
        assert!(path.exists());
        assert!(try_acquire(&RealFs, held.path(), LockKind::Exclusive).expect("lock").is_none());
    }
}
