//! The files of the task pointer: one folder per session below a root, whose `state.json` is replaced under a lock.
//!
//! ```text
//! <root>/                       0700; may itself be reached through links, nothing below it may
//!   <folder of the session>/    0700
//!     state.json                the record; replaced, never edited
//!     lock                      empty; locked, never removed
//!     meta.json                 sidecar: convenience, written without waiting for the disk
//!     history.ndjson            the last published states, likewise
//!     state.json.corrupt-*      files that could not be read and were set aside by a repair or a clear
//! ```
//!
//! [`PointerStore::lock`] gives a [`LockedSession`], on which [`apply`](LockedSession::apply) carries out what
//! `pintle_pointer::decide` decides: new state durable before the answer, or an error and the old state. Reading needs no
//! lock, since a replace is atomic.

mod error;
mod exclusive;
mod inspect;
mod list;
mod session;
mod terminal;

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use pintle_pointer::{
    Fresh, HISTORY_MAX_BYTES, META_MAX_BYTES, Meta, Observed, STATE_MAX_BYTES, SessionId, State, decode_history,
};

pub use error::PointerError;
pub use inspect::{FLAWS_MAX, Flaw, Inspection};
pub use list::{Collected, Listed};
pub use session::LockedSession;
pub use terminal::{current_terminal, host_name, is_alive};

use crate::{
    fs::{FileKind, Fs, LockKind},
    fsx::{self, FsError},
    lock::{self, LockError, Patience},
};

/// How long a hook waits for the lock of a session.
pub const HOOK_LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a publish and every command of a person wait for it.
pub const PUBLISH_LOCK_WAIT: Duration = Duration::from_secs(5);

/// The name of a session's record.
pub const STATE_FILE: &str = "state.json";
const LOCK_FILE: &str = "lock";
const META_FILE: &str = "meta.json";
const HISTORY_FILE: &str = "history.ndjson";

/// The sessions below one root.
#[derive(Debug, Clone)]
pub struct PointerStore<'a> {
    fs: &'a dyn Fs,
    root: PathBuf,
}

/// The clock and new random bits, for one decision.
///
/// # Errors
/// [`PointerError::Random`] if the operating system has none.
pub fn fresh() -> Result<Fresh, PointerError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(PointerError::Random)?;
    Ok(Fresh { now_unix_seconds: now_unix_seconds(), random })
}

/// The clock, in whole seconds since 1970; negative before.
#[must_use]
pub fn now_unix_seconds() -> i64 {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => seconds(since),
        Err(before) => -seconds(before.duration()),
    }
}

impl<'a> PointerStore<'a> {
    /// The sessions below `root`, which need not exist yet. Nothing is touched.
    pub fn new(fs: &'a dyn Fs, root: impl Into<PathBuf>) -> Self {
        Self { fs, root: root.into() }
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the record of a session is.
    #[must_use]
    pub fn state_path(&self, session: &SessionId) -> PathBuf {
        self.dir(session).join(STATE_FILE)
    }

    fn dir(&self, session: &SessionId) -> PathBuf {
        self.root.join(session.dir_name())
    }

    /// Reads the record of a session, without a lock.
    ///
    /// # Errors
    /// [`PointerError`] if the disk does not answer; a file that cannot be trusted is [`Observed::Corrupt`].
    pub fn observe(&self, session: &SessionId) -> Result<Observed, PointerError> {
        self.check_dir(&self.dir(session))?;
        self.read_state(session)
    }

    /// Reads the sidecar of a session; an unreadable one is an empty one.
    #[must_use]
    pub fn meta(&self, session: &SessionId) -> Meta {
        let path = self.dir(session).join(META_FILE);
        fsx::read_bounded(self.fs, &path, META_MAX_BYTES).map(|bytes| Meta::decode(&bytes)).unwrap_or_default()
    }

    /// The last published states of a session, oldest first.
    ///
    /// # Errors
    /// [`PointerError`] if the disk does not answer; no history is an empty one.
    pub fn history(&self, session: &SessionId) -> Result<Vec<State>, PointerError> {
        self.check_dir(&self.dir(session))?;
        Ok(decode_history(&self.read_history(session)?, session))
    }

    /// Takes the lock of a session within `wait`, creating its folder where it is missing, and reads the record.
    ///
    /// # Errors
    /// [`PointerError`]; its code is `LOCK_TIMEOUT` when somebody else held the lock all the time.
    pub fn lock(&self, session: &SessionId, wait: Duration) -> Result<LockedSession<'a>, PointerError> {
        let start = std::time::Instant::now();
        let patience = Patience { limit: wait, elapsed: &|| start.elapsed(), pause: &std::thread::sleep };
        self.lock_with(session, &patience)
    }

    /// [`lock`](Self::lock) with the caller's clock and pause.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn lock_with(&self, session: &SessionId, patience: &Patience<'_>) -> Result<LockedSession<'a>, PointerError> {
        let dir = self.dir(session);
        if !self.check_dir(&dir)? {
            fsx::ensure_dir(self.fs, &self.root)?;
            fsx::create_dir(self.fs, &dir)?;
            // A state whose folder a power loss takes away would be absent again, and an old pair valid again.
            fsx::sync_parent(self.fs, &dir)?;
        }
        let path = dir.join(LOCK_FILE);
        let guard = match lock::acquire_with(self.fs, &path, LockKind::Exclusive, patience) {
            Ok(lock) => session::Guard::Kernel(lock),
            Err(LockError::Unsupported { .. }) => {
                session::Guard::File(exclusive::acquire(self.fs, &dir, &exclusive::Holder::this_process(), patience)?)
            }
            Err(error) => return Err(error.into()),
        };
        let observed = self.read_state(session)?;
        Ok(LockedSession::new(self.clone(), session.clone(), dir, guard, observed))
    }

    /// Takes the lock of a session that exists if nobody has it; `None` when it does not exist or is locked. For what is
    /// worth doing only when it costs no wait.
    ///
    /// # Errors
    /// [`PointerError`].
    pub fn try_lock_existing(&self, session: &SessionId) -> Result<Option<LockedSession<'a>>, PointerError> {
        if !self.check_dir(&self.dir(session))? {
            return Ok(None);
        }
        let none = Patience { limit: Duration::ZERO, elapsed: &|| Duration::ZERO, pause: &|_| {} };
        match self.lock_with(session, &none) {
            Ok(locked) => Ok(Some(locked)),
            Err(error) if error.is_lock_timeout() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the folder of a session exists. A link in its place, or in place of any file in it, could lead outside
    /// the root, where somebody else decides what is read and written.
    fn check_dir(&self, dir: &Path) -> Result<bool, PointerError> {
        match fsx::symlink_metadata(self.fs, dir)? {
            None => Ok(false),
            Some(meta) if meta.kind == FileKind::Dir => Ok(true),
            Some(meta) if meta.kind == FileKind::Symlink => Err(PointerError::ReparsePoint { path: dir.to_owned() }),
            Some(_) => Err(FsError::NotADirectory { path: dir.to_owned() }.into()),
        }
    }

    fn read_state(&self, session: &SessionId) -> Result<Observed, PointerError> {
        match self.read_file(&self.state_path(session), STATE_MAX_BYTES) {
            Ok(Some(bytes)) => Ok(Observed::decode(&bytes, session)),
            Ok(None) => Ok(Observed::Absent),
            Err(PointerError::Fs(FsError::TooLarge { .. })) => Ok(Observed::too_large()),
            Err(error) => Err(error),
        }
    }

    fn read_history(&self, session: &SessionId) -> Result<Vec<u8>, PointerError> {
        match self.read_file(&self.dir(session).join(HISTORY_FILE), HISTORY_MAX_BYTES) {
            Err(PointerError::Fs(FsError::TooLarge { .. })) => Ok(Vec::new()),
            other => Ok(other?.unwrap_or_default()),
        }
    }

    /// `None` if there is no file.
    fn read_file(&self, path: &Path, limit_bytes: usize) -> Result<Option<Vec<u8>>, PointerError> {
        let error = match fsx::read_bounded(self.fs, path, limit_bytes) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) => error,
        };
        if error.kind() == std::io::ErrorKind::NotFound {
            return Ok(None);
        }
        let link =
            fsx::symlink_metadata(self.fs, path).ok().flatten().is_some_and(|meta| meta.kind == FileKind::Symlink);
        if link { Err(PointerError::ReparsePoint { path: path.to_owned() }) } else { Err(error.into()) }
    }
}
