//! The records of a root that does not follow our layout (A1). It is read, and never written: another program may still
//! work in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pintle_pointer::{Agent, Observed, Pointer, Revision, STATE_MAX_BYTES, SessionId, session_in, success_receipt};
use pintle_store::{FileKind, RealFs, fsx};

use super::super::publish::Refused;
use super::super::{REFUSED, failed, note, print};
use super::store_foreign;
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// How deep below the root records are looked for.
const DEPTH_MAX: usize = 4;
/// After so many files the search ends.
const FILES_MAX: usize = 20_000;

/// A task that was found.
struct Found {
    file: PathBuf,
    pointer: Pointer,
    revision: Revision,
}

/// What lies below a root.
#[derive(Default)]
struct Search {
    /// The latest task of each session.
    tasks: BTreeMap<SessionId, Found>,
    /// Records without a task.
    cleared: usize,
    /// JSON files that are no record of schema 2 or 3.
    others: usize,
    files: usize,
}

/// Shows the tasks of a root, or stores them.
pub(super) fn import(root: &Path, from: &Path, agent: Option<Agent>, apply: bool) -> Result<Exit, CommandError> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if real(root) == real(from) {
        return Err(failed("same_root", format!("import from `{}`: it is the root in use", from.display())));
    }
    let mut search = Search::default();
    search.walk(from, 0)?;
    let mut text = String::new();
    let mut refused = 0;
    for (session, found) in &search.tasks {
        if apply {
            let result = store_foreign(root, session, found.pointer.clone(), agent);
            refused += usize::from(result.is_err());
            text.push_str(&result.as_ref().map_or_else(Refused::receipt, success_receipt));
        } else {
            let first = found.pointer.task().map(|task| task.text.first_line()).unwrap_or_default();
            text.push_str(&format!("would store session {session} of `{}`: {first}", found.file.display()));
        }
        text.push('\n');
    }
    print(&text)?;
    search.tell(from, root, apply);
    Ok(if refused == 0 { Exit::Ok } else { REFUSED })
}

impl Search {
    fn walk(&mut self, dir: &Path, depth: usize) -> Result<(), CommandError> {
        let entries = fsx::read_dir(&RealFs, dir)
            .map_err(|error| CommandError::new(Exit::Failed, "root", format!("import: {}", chain(&error))))?;
        for entry in entries {
            let path = dir.join(&entry.name);
            match entry.kind {
                FileKind::Dir if depth < DEPTH_MAX => self.walk(&path, depth + 1)?,
                FileKind::File if path.extension().is_some_and(|end| end == "json") && self.files < FILES_MAX => {
                    self.files += 1;
                    self.look_at(path);
                }
                // Links are never followed, as below our own root.
                FileKind::Dir | FileKind::File | FileKind::Symlink | FileKind::Other => {}
            }
        }
        Ok(())
    }

    fn look_at(&mut self, file: PathBuf) {
        let bytes = fsx::read_bounded(&RealFs, &file, STATE_MAX_BYTES).unwrap_or_default();
        let Some(session) = session_in(&bytes) else {
            self.others += 1;
            return;
        };
        let (pointer, revision) = match Observed::decode(&bytes, &session) {
            Observed::Current(state) => (state.pointer, state.revision),
            Observed::Legacy(state) => (state.pointer, state.revision),
            Observed::Absent | Observed::Corrupt(_) => {
                self.others += 1;
                return;
            }
        };
        if pointer.task().is_none() {
            self.cleared += 1;
            return;
        }
        // A copy of an older record, such as a backup, must not win.
        if self.tasks.get(&session).is_none_or(|known| known.revision < revision) {
            self.tasks.insert(session, Found { file, pointer, revision });
        }
    }

    /// What else a person should know goes to standard error: standard output has one line per task.
    fn tell(&self, from: &Path, root: &Path, apply: bool) {
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        note(&format!(
            "`{}` has {}, {} and {}",
            from.display(),
            count(self.tasks.len(), "task"),
            count(self.cleared, "cleared record"),
            count(self.others, "other JSON file"),
        ));
        if self.files >= FILES_MAX {
            note(&format!("only {FILES_MAX} files were looked at"));
        }
        if !apply && !self.tasks.is_empty() {
            note(&format!("run it again with --apply to store them below `{}`", root.display()));
        }
    }
}
