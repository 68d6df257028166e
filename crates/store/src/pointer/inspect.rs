//! A look at everything below a root, for a doctor. It changes nothing.

use std::path::PathBuf;

use pintle_pointer::{Observed, STATE_MAX_BYTES, SessionId, StateFault, session_in};

use super::{HISTORY_FILE, LOCK_FILE, META_FILE, PointerError, PointerStore, STATE_FILE};
use crate::{
    atomic,
    fs::{DirEntry, FileKind},
    fsx::{self, DIR_MODE, FILE_MODE, FsError},
};

/// The folder that a removal moves a session to; what is left of one was interrupted.
pub(super) const TRASH_PREFIX: &str = ".trash-";

/// Permission bits by which others could read or write.
const OTHERS: u32 = 0o077;

/// What a look at a root found.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Whether the root exists.
    pub exists: bool,
    /// How many sessions are below it.
    pub sessions: usize,
    /// What is not as it should be, at most [`FLAWS_MAX`].
    pub flaws: Vec<Flaw>,
}

/// After so many flaws a look ends.
pub const FLAWS_MAX: usize = 1000;

/// Something below a root that is not as it should be.
#[derive(Debug)]
pub enum Flaw {
    /// Others than the owner may read or write it.
    OpenMode {
        /// What.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The bits that it should have.
        wanted: u32,
    },
    /// A symbolic link or reparse point, which is never followed here.
    Link {
        /// Where.
        path: PathBuf,
    },
    /// Something that does not belong here.
    Stranger {
        /// What.
        path: PathBuf,
    },
    /// A temporary file or folder of an interrupted write.
    Leftover {
        /// The session, for what lies in its folder.
        session: Option<SessionId>,
        /// What.
        path: PathBuf,
    },
    /// A record that cannot be trusted.
    Corrupt {
        /// Whose, where the folder or the file tells.
        session: Option<SessionId>,
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        fault: StateFault,
    },
    /// The disk did not answer.
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        error: PointerError,
    },
    /// A text with characters that hide or reorder what a person sees.
    HiddenCharacters {
        /// Whose.
        session: SessionId,
        /// How many.
        count: usize,
    },
}

impl PointerStore<'_> {
    /// Looks at the root and everything below it, without a lock.
    ///
    /// # Errors
    /// [`PointerError`] if the root itself cannot be read.
    pub fn inspect(&self) -> Result<Inspection, PointerError> {
        let mut found = Inspection::default();
        let meta = match self.fs.metadata(&self.root) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            Err(source) => {
                let path = self.root.clone();
                return Err(FsError::Io { action: fsx::FsAction::Stat, path, source }.into());
            }
        };
        found.exists = true;
        found.check_mode(&self.root, meta.mode, DIR_MODE);
        for entry in fsx::read_dir(self.fs, &self.root)? {
            if found.flaws.len() >= FLAWS_MAX {
                break;
            }
            self.inspect_entry(&entry, &mut found);
        }
        Ok(found)
    }

    fn inspect_entry(&self, entry: &DirEntry, found: &mut Inspection) {
        let path = self.root.join(&entry.name);
        let name = entry.name.to_string_lossy();
        match entry.kind {
            FileKind::Symlink => found.flaws.push(Flaw::Link { path }),
            FileKind::Dir if name.starts_with(TRASH_PREFIX) => {
                found.flaws.push(Flaw::Leftover { session: None, path });
            }
            FileKind::Dir if name.starts_with('.') => {}
            FileKind::Dir => {
                if let Err(error) = self.inspect_session(&name, &path, found) {
                    found.flaws.push(Flaw::Unreadable { path, error });
                }
            }
            FileKind::File | FileKind::Other => found.flaws.push(Flaw::Stranger { path }),
        }
    }

    fn inspect_session(&self, name: &str, dir: &std::path::Path, found: &mut Inspection) -> Result<(), PointerError> {
        found.sessions += 1;
        if let Some(meta) = fsx::symlink_metadata(self.fs, dir)? {
            found.check_mode(dir, meta.mode, DIR_MODE);
        }
        let state = dir.join(STATE_FILE);
        let bytes = match self.read_file(&state, STATE_MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(PointerError::Fs(FsError::TooLarge { .. })) => Some(Vec::new()),
            // Told below, with the other links.
            Err(PointerError::ReparsePoint { .. }) => None,
            Err(error) => return Err(error),
        };
        let by_name = || name.parse::<SessionId>().ok();
        let session = bytes.as_deref().and_then(session_in).or_else(by_name).filter(|id| id.dir_name() == name);
        for entry in fsx::read_dir(self.fs, dir)? {
            let path = dir.join(&entry.name);
            let file = entry.name.to_string_lossy();
            let own = [STATE_FILE, META_FILE, HISTORY_FILE, LOCK_FILE].contains(&&*file);
            if entry.kind == FileKind::Symlink {
                found.flaws.push(Flaw::Link { path });
            } else if [STATE_FILE, META_FILE, HISTORY_FILE]
                .iter()
                .any(|own| atomic::is_temp(&entry.name, &dir.join(own)))
            {
                found.flaws.push(Flaw::Leftover { session: session.clone(), path });
            } else if entry.kind == FileKind::File && (own || is_known_beside(&file)) {
                if let Some(meta) = fsx::symlink_metadata(self.fs, &path)? {
                    found.check_mode(&path, meta.mode, FILE_MODE);
                }
            } else {
                found.flaws.push(Flaw::Stranger { path });
            }
        }
        let Some(bytes) = bytes else { return Ok(()) };
        let observed = match &session {
            Some(session) => self.observe(session)?,
            // A mapped folder whose record names nobody: its fault is the same for any id.
            None => match "unknown".parse::<SessionId>() {
                Ok(anybody) => Observed::decode(&bytes, &anybody),
                Err(_) => return Ok(()),
            },
        };
        match (observed, session) {
            (Observed::Corrupt(fault), session) => found.flaws.push(Flaw::Corrupt { session, path: state, fault }),
            (_, None) => found.flaws.push(Flaw::Stranger { path: dir.to_owned() }),
            (observed, Some(session)) => {
                let text = observed.task().map(|task| task.text.as_str()).unwrap_or_default();
                let count = text.chars().filter(|c| is_hiding(*c)).count();
                if count > 0 {
                    found.flaws.push(Flaw::HiddenCharacters { session, count });
                }
            }
        }
        Ok(())
    }
}

impl Inspection {
    fn check_mode(&mut self, path: &std::path::Path, mode: u32, wanted: u32) {
        if cfg!(unix) && mode & OTHERS != 0 {
            self.flaws.push(Flaw::OpenMode { path: path.to_owned(), mode, wanted });
        }
    }
}

/// Files that stand beside the record and are nobody's fault.
fn is_known_beside(name: &str) -> bool {
    name.starts_with("state.json.corrupt-") || name.starts_with("lock.held")
}

/// Characters that change the direction or the line of the text around them (item 13).
const fn is_hiding(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use pintle_pointer::{Event, PublishRequest};

    use super::*;
    use crate::fs::RealFs;
    use crate::pointer::{HOOK_LOCK_WAIT, fresh};

    fn publish(store: &PointerStore<'_>, session: &str, text: &str) {
        let request = format!(
            r#"{{"schema_version":3,"session_id":"{session}","expected_generation":"ABSENT","expected_revision":0,
            "task_id":"00000000-0000-4000-8000-000000000000","target_status":"CLEAN","pointer_text":"{text}"}}"#
        );
        let request = PublishRequest::decode(request.as_bytes()).expect("request");
        let mut locked = store.lock(&request.session_id, HOOK_LOCK_WAIT).expect("lock");
        locked.apply(Event::Publish(&request), fresh().expect("random")).expect("writes");
    }

    #[test]
    fn a_clean_root_has_no_flaw_and_a_missing_one_does_not_exist() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let store = PointerStore::new(&RealFs, dir.path().join("tasks"));
        assert!(!store.inspect().expect("looks").exists);
        publish(&store, "one", "Goal");
        publish(&store, "Two", "Goal");
        let found = store.inspect().expect("looks");
        assert_eq!((found.sessions, found.flaws.len()), (2, 0), "{found:?}");
    }

    #[test]
    fn every_flaw_is_told_once() {
        let dir = tempfile::tempdir().expect("scratch directory");
        let root = dir.path().join("tasks");
        let store = PointerStore::new(&RealFs, &root);
        for session in ["open", "bad", "temp", "bidi", "Mapped"] {
            publish(&store, session, if session == "bidi" { "Goal \u{202e}live" } else { "Goal" });
        }
        fs::set_permissions(root.join("open"), fs::Permissions::from_mode(0o755)).expect("chmod");
        fs::write(root.join("bad/state.json"), "").expect("writes");
        fs::write(root.join("temp/.state.json.tmp-0123456789abcdef"), "x").expect("writes");
        fs::set_permissions(root.join("temp/.state.json.tmp-0123456789abcdef"), fs::Permissions::from_mode(0o600))
            .expect("chmod");
        fs::create_dir(root.join(".trash-00")).expect("mkdir");
        symlink("/", root.join("link")).expect("links");
        fs::write(root.join("notes.txt"), "").expect("writes");
        let mapped: SessionId = "Mapped".parse().expect("id");
        fs::write(root.join(mapped.dir_name()).join("state.json"), "{").expect("writes");
        let words: Vec<String> = store
            .inspect()
            .expect("looks")
            .flaws
            .iter()
            .map(|flaw| match flaw {
                Flaw::OpenMode { path, mode, .. } => format!("mode {:o} {}", mode, name(path)),
                Flaw::Link { path } => format!("link {}", name(path)),
                Flaw::Stranger { path } => format!("stranger {}", name(path)),
                Flaw::Leftover { path, .. } => format!("leftover {}", name(path)),
                Flaw::Corrupt { session, fault, .. } => {
                    format!("corrupt {} {}", session.as_ref().map_or("?", SessionId::as_str), fault.code)
                }
                Flaw::Unreadable { path, .. } => format!("unreadable {}", name(path)),
                Flaw::HiddenCharacters { session, count } => format!("hidden {session} {count}"),
            })
            .collect();
        assert_eq!(
            words,
            [
                "leftover .trash-00",
                "corrupt bad STATE_JSON",
                "hidden bidi 1",
                "link link",
                "corrupt ? STATE_JSON",
                "stranger notes.txt",
                "mode 755 open",
                "leftover .state.json.tmp-0123456789abcdef",
            ]
        );
    }

    fn name(path: &std::path::Path) -> String {
        path.file_name().expect("name").to_string_lossy().into_owned()
    }
}
