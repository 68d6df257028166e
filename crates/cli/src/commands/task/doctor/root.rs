//! The state root: where it lies, who may read it, whether its locks hold, what is broken in it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pintle_pointer::{Answer, Event, Observed, SessionId};
use pintle_store::pointer::{FLAWS_MAX, Flaw, PUBLISH_LOCK_WAIT, PointerStore, fresh};
use pintle_store::{LockKind, RealFs, atomic, fsx, lock, place};

use super::super::child;
use super::finding::{Finding, Report};
use super::{remove_scratch, scratch_word};

const AREA: &str = "state";
/// How long the other side of the lock probe may take.
const PROBE_WAIT: Duration = Duration::from_secs(10);
/// The size of a large record, written to see whether one can be.
const PROBE_RECORD_BYTES: usize = 16 * 1024;

/// Looks at a root. With `repair`, corrupt records are set aside and leftovers removed; with `session`, only there.
pub(super) fn check(root: &Path, program: &str, repair: bool, session: Option<&SessionId>, report: &mut Report) {
    let place = place::look_at(root);
    let on = place.file_system.as_ref().map(|name| format!(", on {name}")).unwrap_or_default();
    report.add(
        Finding::ok(AREA, "root", format!("{}{on}", root.display()))
            .with("path", root.display().to_string())
            .with("file_system", place.file_system.clone()),
    );
    if let Some(hazard) = place.hazard {
        report.add(
            Finding::warn(AREA, "place", format!("the root is on {}", hazard.text()))
                .step("move it with PINTLE_POINTER_HOME=DIR, in the environment in which your agents start"),
        );
    }
    let store = PointerStore::new(&RealFs, root);
    match store.inspect() {
        Ok(found) if !found.exists => {
            report.add(Finding::note(AREA, "no_root", "nothing was recorded here yet"));
        }
        Ok(found) => {
            let count = found.sessions;
            report.add(Finding::ok(AREA, "sessions", format!("{count} session{}", if count == 1 { "" } else { "s" })));
            if found.flaws.len() >= FLAWS_MAX {
                report.add(Finding::warn(AREA, "many_flaws", "more than could be listed; look again after repairing"));
            }
            for flaw in found.flaws.iter().filter(|flaw| concerns(flaw, session)) {
                report.add(told(&store, flaw, repair));
            }
        }
        Err(error) => report.add(Finding::fail(AREA, error.code().as_str(), error.full_message())),
    }
    if let Some(session) = session {
        check_session(&store, session, repair, report);
    }
    report.add(probe_lock(root, program));
}

/// A session that was named is looked at by its name, even if its folder does not tell whose it is.
fn check_session(store: &PointerStore<'_>, session: &SessionId, repair: bool, report: &mut Report) {
    match store.observe(session) {
        Ok(Observed::Corrupt(_)) if repair => report.add(repaired(store, session)),
        Ok(Observed::Corrupt(fault)) => report.add(
            Finding::fail(AREA, fault.code.as_str(), format!("session {session}: {fault}"))
                .step(format!("pintle task doctor --repair --session {session}")),
        ),
        Ok(observed) => {
            report.add(Finding::ok(AREA, "session", format!("session {session}: {}", observed.status_word())));
        }
        Err(error) => report.add(Finding::fail(AREA, error.code().as_str(), error.full_message())),
    }
}

/// Corrupt records of a named session are told by [`check_session`].
fn concerns(flaw: &Flaw, session: Option<&SessionId>) -> bool {
    let Some(session) = session else { return true };
    match flaw {
        Flaw::Corrupt { .. } => false,
        Flaw::Leftover { session: own, .. } => own.as_ref() == Some(session),
        Flaw::HiddenCharacters { session: own, .. } => own == session,
        Flaw::OpenMode { path, .. } | Flaw::Link { path } | Flaw::Stranger { path } | Flaw::Unreadable { path, .. } => {
            path.components().any(|part| part.as_os_str() == session.dir_name().as_str())
        }
    }
}

fn told(store: &PointerStore<'_>, flaw: &Flaw, repair: bool) -> Finding {
    match flaw {
        Flaw::OpenMode { path, mode, wanted } => {
            Finding::warn(AREA, "mode", format!("others may reach `{}` (mode {mode:o})", path.display()))
                .step(format!("chmod {wanted:o} '{}'", path.display()))
        }
        Flaw::Link { path } => Finding::fail(
            AREA,
            "PATH_REPARSE_POINT",
            format!("`{}` is a link, which is never followed", path.display()),
        )
        .step("remove the link; what it points to stays"),
        Flaw::Stranger { path } => Finding::note(AREA, "stranger", format!("`{}` is not ours", path.display())),
        Flaw::Leftover { session, path } if repair => removed(store, session.as_ref(), path),
        Flaw::Leftover { path, .. } => {
            Finding::warn(AREA, "leftover", format!("`{}` is left of an interrupted write", path.display()))
                .step("pintle task doctor --repair")
        }
        Flaw::Corrupt { session: Some(session), .. } if repair => repaired(store, session),
        Flaw::Corrupt { session, path, fault } => {
            let id = session.as_ref().map_or("ID", SessionId::as_str);
            Finding::fail(AREA, fault.code.as_str(), format!("`{}`: {fault}", path.display()))
                .step(format!("pintle task doctor --repair --session {id}"))
        }
        Flaw::Unreadable { path, error } => {
            Finding::fail(AREA, error.code().as_str(), format!("`{}`: {}", path.display(), error.full_message()))
        }
        Flaw::HiddenCharacters { session, count } => Finding::warn(
            AREA,
            "hidden_characters",
            format!("the task of session {session} has {count} characters that reorder or hide text"),
        )
        .step(format!("look at it with: pintle task show {session} --format json")),
    }
}

/// Item 9: the unreadable file stays beside the record under another name, and the record is a new fence.
fn repaired(store: &PointerStore<'_>, session: &SessionId) -> Finding {
    let repaired = store.lock(session, PUBLISH_LOCK_WAIT).and_then(|mut locked| locked.apply(Event::Repair, fresh()?));
    match repaired {
        Ok(Answer::Refused(refusal)) => Finding::note(AREA, "no_repair", format!("session {session}: {refusal}")),
        Ok(_) => Finding::ok(
            AREA,
            "repaired",
            format!("session {session}: the unreadable state is set aside beside a cleared one; publish its task anew"),
        ),
        Err(error) => Finding::fail(AREA, error.code().as_str(), error.full_message()),
    }
}

/// Writers hold the lock while they have temporary files, so under the lock every one of them is a dead writer's.
fn removed(store: &PointerStore<'_>, session: Option<&SessionId>, path: &Path) -> Finding {
    let done = match session {
        Some(session) => match store.try_lock_existing(session) {
            Ok(Some(locked)) => locked.remove_leftovers().map(|_| true),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        },
        None => fsx::remove_tree(&RealFs, path).map(|()| true).map_err(Into::into),
    };
    match done {
        Ok(true) => Finding::ok(AREA, "leftover_removed", format!("`{}` is removed", path.display())),
        Ok(false) => {
            Finding::note(AREA, "leftover_in_use", format!("`{}` may be a write that goes on", path.display()))
        }
        Err(error) => Finding::fail(AREA, error.code().as_str(), error.full_message()),
    }
}

/// Whether a record can be written here, and whether locks hold. A lock counts only if another process cannot take it:
/// some file systems say yes to everybody.
fn probe_lock(root: &Path, program: &str) -> Finding {
    let Ok(word) = scratch_word() else { return Finding::fail(AREA, "random", "the system gives no random bits") };
    let dir = root.join(format!(".doctor-{word}"));
    let finding = probe_lock_in(root, &dir, program);
    remove_scratch(&dir);
    finding
}

fn probe_lock_in(root: &Path, dir: &Path, program: &str) -> Finding {
    let made = fsx::ensure_dir(&RealFs, root).and_then(|()| fsx::create_dir(&RealFs, dir));
    if let Err(error) = made {
        return Finding::fail(AREA, "STATE_PERMISSION", crate::error::chain(&error))
            .step("make the root writable, or move it with PINTLE_POINTER_HOME=DIR");
    }
    if let Err(error) = atomic::replace(&RealFs, &dir.join("record"), &[b' '; PROBE_RECORD_BYTES]) {
        return Finding::fail(AREA, "STATE_IO", crate::error::chain(&error))
            .step("make room or repair the disk, or move the root with PINTLE_POINTER_HOME=DIR");
    }
    let file = dir.join("lock");
    let lock = match lock::try_acquire(&RealFs, &file, LockKind::Exclusive) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Finding::fail(AREA, "lock", "a lock on a new file is taken already"),
        Err(lock::LockError::Unsupported { .. }) => {
            return Finding::warn(
                AREA,
                "lock_degraded",
                "this file system has no locks; lock files stand in, which are weaker when a process dies",
            )
            .step("move the root with PINTLE_POINTER_HOME=DIR to a local file system");
        }
        Err(error) => return Finding::fail(AREA, error.class(), crate::error::chain(&error)),
    };
    let mut command = Command::new(program);
    command.args(["task", "doctor", "--probe-lock"]).arg(lock.path());
    match child::run(&mut command, "", PROBE_WAIT) {
        Ok(ran) if ran.stdout.trim() == "held" => {
            Finding::ok(AREA, "lock", "a second process cannot take a lock that is held")
        }
        Ok(ran) if ran.stdout.trim() == "taken" => {
            Finding::fail(AREA, "lock_ignored", "a second process took a lock that was held: writes can be lost here")
                .step("move the root with PINTLE_POINTER_HOME=DIR to a local file system")
        }
        Ok(ran) => Finding::warn(AREA, "lock_unknown", format!("the lock probe ended with {:?}", ran.code)),
        Err(error) => Finding::warn(AREA, "lock_unknown", format!("the lock probe could not run: {error}")),
    }
}
