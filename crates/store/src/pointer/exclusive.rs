//! A lock for file systems that have none: a file that exists while the lock is held (spec item 17).
//!
//! Weaker than a kernel's lock, in two ways that its users are told of. A holder that dies leaves the file; the next
//! process of the same host takes it over once no process has that id, a process of another host never does, because it
//! cannot know. And between "is it still mine" and the rename that follows, two processes that both took a dead holder's
//! file over could overlap: three processes would have to race within microseconds.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{PointerError, host_name, terminal};
use crate::{
    fs::{Fs, OpenHow},
    fsx::{self, FILE_MODE, FsError},
    lock::{FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Patience},
};

const HELD_FILE: &str = "lock.held";
const HELD_MAX_BYTES: usize = 1024;

/// Who holds a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    host: String,
    pid: u32,
    nonce: u64,
}

impl Holder {
    pub(super) fn this_process() -> Self {
        Self { host: host_name(), pid: std::process::id(), nonce: getrandom::u64().unwrap_or_default() }
    }

    fn to_text(&self) -> String {
        format!("{}\n{}\n{:016x}\n", self.pid, self.host, self.nonce)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.parse().ok()?;
        let host = lines.next()?.to_owned();
        let nonce = u64::from_str_radix(lines.next()?, 16).ok()?;
        Some(Self { host, pid, nonce })
    }
}

/// A lock file that is ours. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct ExclusiveFile<'a> {
    fs: &'a dyn Fs,
    path: PathBuf,
    text: String,
}

impl ExclusiveFile<'_> {
    /// Fails when somebody took the lock over: asked for right before a rename makes a write visible.
    pub(super) fn still_held(&self) -> Result<(), PointerError> {
        let text = read(self.fs, &self.path)?;
        if text.as_deref() == Some(&self.text) { Ok(()) } else { Err(held(&self.path, text.as_deref())) }
    }
}

impl Drop for ExclusiveFile<'_> {
    fn drop(&mut self) {
        if self.still_held().is_ok() {
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

/// Takes the lock of a session folder within the patience of the caller.
pub(super) fn acquire<'a>(
    fs: &'a dyn Fs,
    dir: &Path,
    holder: &Holder,
    patience: &Patience<'_>,
) -> Result<ExclusiveFile<'a>, PointerError> {
    let path = dir.join(HELD_FILE);
    let text = holder.to_text();
    let start = (patience.elapsed)();
    let mut pause = Duration::from_millis(FIRST_PAUSE_MS);
    loop {
        match fsx::open(fs, &path, OpenHow::CreateNew { mode: FILE_MODE }) {
            Ok(mut file) => {
                // An incomplete file names no holder and is never taken over, so a failed write gives it back here.
                let written = fsx::write_all(file.as_mut(), &path, text.as_bytes());
                let lock = ExclusiveFile { fs, path, text };
                return match written {
                    Ok(()) => Ok(lock),
                    Err(error) => {
                        let _ = fs.remove_file(&lock.path);
                        Err(error.into())
                    }
                };
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
        let found = read(fs, &path)?;
        if found.as_deref().and_then(Holder::parse).is_some_and(|other| is_gone(&other, holder)) {
            take_away(fs, &path, found.as_deref().unwrap_or_default(), holder)?;
            continue;
        }
        let waited = (patience.elapsed)().saturating_sub(start);
        let Some(left) = patience.limit.checked_sub(waited).filter(|left| !left.is_zero()) else {
            return Err(held(&path, found.as_deref()));
        };
        (patience.pause)(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(LONGEST_PAUSE_MS));
    }
}

/// Only a process of this host can be known to be gone.
fn is_gone(other: &Holder, own: &Holder) -> bool {
    other.host == own.host && !terminal::pid_is_alive(other.pid)
}

/// Moves a dead holder's file aside and looks whether it was that one; if somebody else took the lock meanwhile, gives
/// it back under its name.
fn take_away(fs: &dyn Fs, path: &Path, stale: &str, own: &Holder) -> Result<(), PointerError> {
    let aside = path.with_file_name(format!("{HELD_FILE}.stale-{:016x}", own.nonce));
    match fs.rename(path, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            let action = fsx::FsAction::Rename;
            return Err(FsError::Io { action, path: path.to_owned(), source }.into());
        }
    }
    if read(fs, &aside)?.as_deref() != Some(stale) {
        let _ = fs.hard_link(&aside, path);
    }
    fsx::remove_file(fs, &aside)?;
    Ok(())
}

fn read(fs: &dyn Fs, path: &Path) -> Result<Option<String>, PointerError> {
    match fsx::read_bounded(fs, path, HELD_MAX_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn held(path: &Path, text: Option<&str>) -> PointerError {
    let holder = text
        .and_then(Holder::parse)
        .map_or_else(|| "another process".to_owned(), |holder| format!("process {} of {}", holder.pid, holder.host));
    PointerError::Held { path: path.to_owned(), holder }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealFs;

    const ONE_TRY: Patience<'static> = Patience { limit: Duration::ZERO, elapsed: &|| Duration::ZERO, pause: &|_| {} };

    fn holder(host: &str, pid: u32, nonce: u64) -> Holder {
        Holder { host: host.to_owned(), pid, nonce }
    }

    /// A process id that no system gives out.
    const NO_PROCESS: u32 = i32::MAX as u32 - 1;

    #[test]
    fn one_holder_at_a_time_and_the_file_goes_with_it() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let own = holder("here", std::process::id(), 1);
        let first = acquire(&RealFs, dir.path(), &own, &ONE_TRY).expect("free");
        let second = acquire(&RealFs, dir.path(), &holder("here", std::process::id(), 2), &ONE_TRY);
        let error = second.expect_err("held");
        assert_eq!(error.code(), pintle_pointer::Code::LockTimeout);
        assert!(error.to_string().contains("process"), "{error}");
        first.still_held().expect("ours");
        drop(first);
        assert_eq!(fsx::read_dir(&RealFs, dir.path()).expect("list").len(), 0);
    }

    #[test]
    fn a_dead_holder_of_this_host_is_followed_one_of_another_is_not() {
        let check = |host: &str, taken: bool| {
            let dir = tempfile::tempdir().expect("scratch directory");
            let path = dir.path().join(HELD_FILE);
            crate::atomic::replace(&RealFs, &path, holder(host, NO_PROCESS, 9).to_text().as_bytes()).expect("write");
            let lock = acquire(&RealFs, dir.path(), &holder("here", std::process::id(), 1), &ONE_TRY);
            assert_eq!(lock.is_ok(), taken, "{host}");
        };
        check("here", true);
        check("elsewhere", false);
    }

    #[test]
    fn a_lock_that_was_taken_over_says_so_and_does_not_remove_the_other() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let first = acquire(&RealFs, dir.path(), &holder("here", NO_PROCESS, 1), &ONE_TRY).expect("free");
        let second =
            acquire(&RealFs, dir.path(), &holder("here", std::process::id(), 2), &ONE_TRY).expect("taken over");
        assert!(first.still_held().is_err());
        drop(first);
        second.still_held().expect("still there");
    }
}
