use std::path::{Path, PathBuf};

use pintle_pointer::{
    Answer, Event, Fresh, HISTORY_REWRITE_BYTES, Meta, Observed, SessionId, State, Timestamp, decide, history_entry,
    rewrite_history,
};

use super::{
    HISTORY_FILE, META_FILE, PointerError, PointerStore, STATE_FILE, exclusive::ExclusiveFile, inspect::TRASH_PREFIX,
};
use crate::{
    atomic::{self, Durability, ReplaceOptions},
    fs::OpenHow,
    fsx::{self, FILE_MODE},
    lock::Lock,
};

/// The most of a corrupt file that is copied where it cannot be linked.
const QUARANTINE_MAX_BYTES: usize = 16 << 20;

/// A session whose lock is held. Dropping it releases the lock.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct LockedSession<'a> {
    store: PointerStore<'a>,
    session: SessionId,
    dir: PathBuf,
    guard: Guard<'a>,
    observed: Observed,
}

/// What keeps the others out.
#[derive(Debug)]
pub(super) enum Guard<'a> {
    /// A lock of the kernel, held for its drop.
    Kernel(#[expect(dead_code, reason = "held for its drop")] Lock),
    /// A file that exists while the lock is held.
    File(ExclusiveFile<'a>),
}

impl<'a> LockedSession<'a> {
    pub(super) fn new(
        store: PointerStore<'a>,
        session: SessionId,
        dir: PathBuf,
        guard: Guard<'a>,
        observed: Observed,
    ) -> Self {
        Self { store, session, dir, guard, observed }
    }

    /// What is stored now.
    #[must_use]
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// The root below which the session is.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.store.root()
    }

    /// Whether the file system has no locks and a lock file stands in: weaker, and worth telling.
    #[must_use]
    pub fn is_lock_degraded(&self) -> bool {
        matches!(self.guard, Guard::File(_))
    }

    /// Decides what `event` does and does it. When this returns, a new state is durable and
    /// [`observed`](Self::observed) is that state.
    ///
    /// # Errors
    /// [`PointerError`]: the stored state is unchanged, but for [`PointerError::NotDurable`], where the new one stands.
    pub fn apply(&mut self, event: Event<'_>, fresh: Fresh) -> Result<Answer, PointerError> {
        let decision = decide(&self.session, &self.observed, event, fresh);
        if let Some(write) = decision.write {
            if write.quarantine {
                self.quarantine(fresh)?;
            }
            if let Guard::File(file) = &self.guard {
                file.still_held()?;
            }
            let written = atomic::replace(self.store.fs, &self.dir.join(STATE_FILE), &write.state.to_bytes());
            let stands = written.as_ref().map_or_else(atomic::ReplaceError::is_replaced, |()| true);
            if stands {
                self.observed = Observed::Current(write.state);
            }
            written?;
        }
        Ok(decision.answer)
    }

    /// The sidecar; an unreadable one is an empty one.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.store.meta(&self.session)
    }

    /// Writes the sidecar, without waiting for the disk.
    ///
    /// # Errors
    /// [`PointerError`]; nothing that matters is lost.
    pub fn save_meta(&self, meta: &Meta) -> Result<(), PointerError> {
        self.replace_unsynced(META_FILE, &meta.to_bytes())
    }

    /// Adds a published state to the history, without waiting for the disk.
    ///
    /// # Errors
    /// [`PointerError`]; nothing that matters is lost.
    pub fn add_to_history(&self, state: &State) -> Result<(), PointerError> {
        let path = self.dir.join(HISTORY_FILE);
        let mut file = fsx::open(self.store.fs, &path, OpenHow::Append { mode: FILE_MODE })?;
        if file.metadata().is_ok_and(|meta| meta.len_bytes < HISTORY_REWRITE_BYTES as u64) {
            return Ok(fsx::write_all(file.as_mut(), &path, &history_entry(state))?);
        }
        let before = self.store.read_history(&self.session)?;
        self.replace_unsynced(HISTORY_FILE, &rewrite_history(&before, &self.session, state))
    }

    /// Removes what crashed writers left beside the record, and says how many files that were.
    ///
    /// # Errors
    /// [`PointerError`] of the first that could not be removed.
    pub fn remove_leftovers(&self) -> Result<usize, PointerError> {
        let mut removed = 0;
        for name in [STATE_FILE, META_FILE, HISTORY_FILE] {
            removed += atomic::remove_leftovers(self.store.fs, &self.dir.join(name))?;
        }
        Ok(removed)
    }

    /// Removes the session with all its files. The folder first gets a name that no session has, so that a process that
    /// waits for the lock finds its file gone and starts over in a new folder.
    ///
    /// # Errors
    /// [`PointerError`].
    pub fn remove(self, random: [u8; 16]) -> Result<(), PointerError> {
        let trash = self.store.root.join(format!("{TRASH_PREFIX}{}", hex(&random)));
        fsx::rename(self.store.fs, &self.dir, &trash)?;
        fsx::sync_parent(self.store.fs, &trash)?;
        fsx::remove_tree(self.store.fs, &trash)?;
        Ok(())
    }

    fn replace_unsynced(&self, name: &str, bytes: &[u8]) -> Result<(), PointerError> {
        let options = ReplaceOptions { mode: FILE_MODE, durability: Durability::Unsynced, access: None };
        Ok(atomic::replace_with(self.store.fs, &self.dir.join(name), bytes, options)?)
    }

    /// Gives the unreadable file a second name, under which it stays when the record is replaced. There is no moment
    /// without a record: a crash that left none would make every pair of a session that saw none valid again.
    fn quarantine(&self, fresh: Fresh) -> Result<(), PointerError> {
        let state = self.dir.join(STATE_FILE);
        let time: String = Timestamp::clamped(fresh.now_unix_seconds)
            .to_string()
            .chars()
            .filter(|c| !matches!(c, '-' | ':'))
            .collect();
        let aside = self.dir.join(format!("{STATE_FILE}.corrupt-{time}-{}", hex(&fresh.random[..4])));
        if self.store.fs.hard_link(&state, &aside).is_ok() {
            return Ok(());
        }
        // No hard links here (FAT, some network shares): copy what can be copied.
        let bytes = fsx::read_bounded(self.store.fs, &state, QUARANTINE_MAX_BYTES)?;
        let mut file = fsx::open(self.store.fs, &aside, OpenHow::CreateNew { mode: FILE_MODE })?;
        fsx::write_all(file.as_mut(), &aside, &bytes)?;
        fsx::sync_all(file.as_mut(), &aside)?;
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
