use std::{path::Path, time::Duration};

use pintle_pointer::{Meta, Observed, STATE_MAX_BYTES, SessionId, session_in};
use pintle_wire::{Profile, ScanLimits, scan};

use super::{HISTORY_FILE, LOCK_FILE, META_FILE, PointerError, PointerStore, STATE_FILE};
use crate::{
    atomic,
    fs::{DirEntry, FileKind},
    fsx::{self, FsError},
};

/// How deep a JSON file may nest that is looked at only to see that it is whole.
const FOREIGN_MAX_DEPTH: usize = 64;

/// Whose a folder is.
enum Owner {
    /// A session of this layout.
    Ours,
    /// Nothing in it tells.
    Unclear,
    /// Somebody else's.
    Foreign,
}

/// A session below the root.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Whose.
    pub session: SessionId,
    /// What is stored.
    pub observed: Observed,
    /// What is remembered beside it.
    pub meta: Meta,
}

impl Listed {
    /// Seconds since 1970 of the last sign of use, by the sidecar or else by the record.
    #[must_use]
    pub fn last_used_unix_s(&self) -> i64 {
        let written = match &self.observed {
            Observed::Current(state) => state.updated_at.unix(),
            Observed::Legacy(state) => state.updated_at.unix(),
            Observed::Absent | Observed::Corrupt(_) => 0,
        };
        written.max(self.meta.last_used_unix_s)
    }
}

/// What a collection did.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// The sessions that were removed, or would be.
    pub removed: Vec<SessionId>,
    /// The sessions that are in use or could not be removed, with the reason.
    pub kept: Vec<(SessionId, String)>,
}

impl PointerStore<'_> {
    /// Every session below the root, in the order of their folders. Folders that do not follow the layout are left out;
    /// a root that does not exist holds none.
    ///
    /// # Errors
    /// [`PointerError`] if the root cannot be read.
    pub fn sessions(&self) -> Result<Vec<Listed>, PointerError> {
        let entries = match fsx::read_dir(self.fs, &self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let folders = entries.into_iter().filter(|entry| entry.kind == FileKind::Dir);
        let names = folders.filter_map(|entry| entry.name.into_string().ok()).filter(|name| !name.starts_with('.'));
        Ok(names.filter_map(|name| self.listed(&name)).collect())
    }

    /// Whether the root exists and the folders in it are sessions of this layout, as far as `sample` of them show (A1).
    ///
    /// One folder of somebody else makes it another layout, and so do files where no folder is ours. A session whose
    /// record is not written yet, or is damaged, proves nothing against a root: it is made by every first prompt, and by
    /// every interrupted one.
    ///
    /// # Errors
    /// [`PointerError`] if the root cannot be read.
    pub fn follows_layout(&self, sample: usize) -> Result<bool, PointerError> {
        let entries = match fsx::read_dir(self.fs, &self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let shown = entries.iter().filter(|entry| !entry.name.to_string_lossy().starts_with('.'));
        let (folders, others): (Vec<_>, Vec<_>) = shown.partition(|entry| entry.kind == FileKind::Dir);
        let mut ours = 0_usize;
        for folder in folders.into_iter().take(sample) {
            match folder.name.to_str().map_or(Owner::Foreign, |name| self.owner(name)) {
                Owner::Ours => ours += 1,
                Owner::Unclear => {}
                Owner::Foreign => return Ok(false),
            }
        }
        Ok(ours > 0 || others.is_empty())
    }

    /// Whose a folder below the root is.
    fn owner(&self, name: &str) -> Owner {
        if !SessionId::is_dir_name(name) {
            return Owner::Foreign;
        }
        let dir = self.root.join(name);
        let bytes = match fsx::read_bounded(self.fs, &dir.join(STATE_FILE), STATE_MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(FsError::TooLarge { .. }) => return Owner::Ours,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return self.owner_without_record(&dir),
            Err(_) => return Owner::Unclear,
        };
        let limits = ScanLimits { max_bytes: STATE_MAX_BYTES, max_depth: FOREIGN_MAX_DEPTH };
        match session_in(&bytes) {
            Some(session) if session.dir_name() == name => Owner::Ours,
            Some(_) => Owner::Foreign,
            // Whole, and not what we write. What is torn is damaged, and ours by its place.
            None if scan(&bytes, Profile::Acp, limits).is_ok() => Owner::Foreign,
            None => Owner::Ours,
        }
    }

    fn owner_without_record(&self, dir: &Path) -> Owner {
        let Ok(entries) = fsx::read_dir(self.fs, dir) else { return Owner::Unclear };
        let is_ours = |entry: &DirEntry| {
            let name = &entry.name;
            [LOCK_FILE, META_FILE, HISTORY_FILE].iter().any(|own| name == *own)
                || [STATE_FILE, META_FILE].iter().any(|own| atomic::is_temp(name, &dir.join(own)))
        };
        if entries.iter().all(is_ours) { Owner::Unclear } else { Owner::Foreign }
    }

    /// Removes the sessions that were last used before `before_unix_s`. One whose lock is held is kept.
    ///
    /// # Errors
    /// [`PointerError`] if the root cannot be read; what happened to a single session stands in the result.
    pub fn collect(
        &self,
        before_unix_s: i64,
        dry_run: bool,
        random: &mut dyn FnMut() -> [u8; 16],
    ) -> Result<Collected, PointerError> {
        let mut collected = Collected::default();
        for listed in self.sessions()?.into_iter().filter(|listed| listed.last_used_unix_s() < before_unix_s) {
            let session = listed.session;
            if dry_run {
                collected.removed.push(session);
                continue;
            }
            let removed = self.lock(&session, Duration::ZERO).and_then(|locked| locked.remove(random()));
            match removed {
                Ok(()) => collected.removed.push(session),
                Err(error) => collected.kept.push((session, error.full_message())),
            }
        }
        Ok(collected)
    }

    /// Reads the session of a folder. The id stands in the record where the folder's name is a mapped one; where the
    /// record is unreadable, in the name.
    fn listed(&self, name: &str) -> Option<Listed> {
        let path = self.root.join(name).join(STATE_FILE);
        let bytes = match fsx::read_bounded(self.fs, &path, STATE_MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(FsError::TooLarge { .. }) => Vec::new(),
            Err(_) => return None,
        };
        let by_name = || name.parse::<SessionId>().ok();
        let session = session_in(&bytes).or_else(by_name).filter(|session| session.dir_name() == name)?;
        let observed = Observed::decode(&bytes, &session);
        let meta = self.meta(&session);
        Some(Listed { session, observed, meta })
    }
}
