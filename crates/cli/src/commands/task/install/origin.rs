//! What a settings file was before we came, by the backups: so that leaving gives back every byte.

use std::path::PathBuf;

use pintle_pointer::install::{EditError, Edited, Origin, Presence, Target};
use pintle_store::RealFs;
use pintle_store::settings::{self, Backup};

/// What is known of a file.
pub(super) enum Known {
    /// Nothing.
    Nothing,
    /// What it was; `None` where there was no file.
    Before(Option<Vec<u8>>),
    /// The same, and that nobody but us has changed it since.
    Untouched(Option<Vec<u8>>),
}

impl Known {
    /// The file without anything of ours.
    pub(super) fn uninstall(self, target: &Target, current: &[u8]) -> Result<Edited, EditError> {
        match self {
            Self::Untouched(before) => Ok(Edited { bytes: before, notes: Vec::new() }),
            Self::Before(None) => target.uninstall(current, Origin::Missing),
            Self::Before(Some(before)) => target.uninstall(current, Origin::Content(&before)),
            Self::Nothing => target.uninstall(current, Origin::Unknown),
        }
    }
}

/// Goes back through what we did to a file, to the last time that nothing of ours was in it.
pub(super) fn of(target: &Target, current: &[u8], backups: &[(PathBuf, Backup)]) -> Known {
    let mut untouched = true;
    let mut after = Some(current.to_vec());
    for (dir, backup) in backups.iter().rev() {
        let Some(index) = backup.files.iter().position(|file| file.path == target.path) else { continue };
        let Ok(before) = settings::saved(&RealFs, dir, backup, index) else { break };
        let file = &backup.files[index];
        // Of a file that another agent reads too, by a link, more was changed than what is asked for.
        let is_shared = backup.files.iter().any(|other| other.path != file.path && other.resolved == file.resolved);
        untouched &= !is_shared && settings::is_as_left(file, after.as_deref());
        if has_nothing_of_ours(target, before.as_deref()) {
            return if untouched { Known::Untouched(before) } else { Known::Before(before) };
        }
        after = before;
    }
    // The backups do not reach back to before we came.
    Known::Nothing
}

/// A content that was saved, as an origin: with something of ours in it, it is none.
pub(super) fn before_ours(target: &Target, before: Option<&[u8]>) -> Known {
    if has_nothing_of_ours(target, before) { Known::Before(before.map(<[u8]>::to_vec)) } else { Known::Nothing }
}

fn has_nothing_of_ours(target: &Target, before: Option<&[u8]>) -> bool {
    before.is_none_or(|before| target.presence(Some(before)) == Ok(Presence::Missing))
}
