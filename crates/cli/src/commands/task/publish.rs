//! `pintle task publish`: one request in, one receipt out; and the one way in which every other command publishes.

use std::io::{IsTerminal, stdin as standard_input};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pintle_pointer::{
    Agent, Answer, Code, Event, Observed, Pointer, PublishRequest, REQUEST_MAX_BYTES, SessionId, State,
    failure_receipt, success_receipt,
};
use pintle_store::RealFs;
use pintle_store::pointer::{
    LockedSession, PUBLISH_LOCK_WAIT, PointerError, PointerStore, fresh, host_name, now_unix_seconds,
};

use super::hook::degraded_lock;
use super::roots::{Where, root_with, session_variable};
use super::{REFUSED, failed, print, stdin, warn};
use crate::error::CommandError;
use crate::exit::Exit;

/// How long the publisher may take to write its request.
const PUBLISH_STDIN_WAIT: Duration = Duration::from_secs(30);

/// Options of `publish`.
#[derive(Debug, Default, Args)]
pub(crate) struct PublishArgs {
    /// The agent that publishes; its session variable must name the session of the request.
    #[arg(long, value_name = "AGENT")]
    pub(super) agent: Option<Agent>,
    /// The state root; default: the one that has the session.
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
}

/// A publish that did not happen, with what its receipt says.
#[derive(Debug)]
pub(super) struct Refused {
    /// The code.
    pub(super) code: Code,
    /// The message, without pointer text.
    pub(super) message: String,
    /// What is stored, for the `STALE_*` codes.
    pub(super) current: Option<Observed>,
}

impl Refused {
    /// A refusal without what is stored.
    pub(super) fn new(code: Code, message: impl std::fmt::Display) -> Self {
        Self { code, message: message.to_string(), current: None }
    }

    /// The receipt, without its LF.
    pub(super) fn receipt(&self) -> String {
        failure_receipt(self.code, &self.message, self.current.as_ref())
    }
}

impl From<PointerError> for Refused {
    fn from(error: PointerError) -> Self {
        Self::new(error.code(), error.full_message())
    }
}

/// Reads the request, publishes it, prints the receipt.
pub(super) fn publish(args: &PublishArgs) -> Result<Exit, CommandError> {
    if standard_input().is_terminal() {
        return Err(failed("usage", "read a publish request: standard input is a terminal")
            .hint("people publish with: pintle task set \"GOAL AND NEXT STEP\""));
    }
    let input = stdin::read(REQUEST_MAX_BYTES, PUBLISH_STDIN_WAIT)
        .map_err(|error| failed("input", format!("read standard input: {error}")))?;
    let published =
        PublishRequest::decode(&input.bytes).map_err(|error| Refused::new(error.code(), error)).and_then(|request| {
            check_session_variable(args.agent, &request.session_id)?;
            publish_request(args.root.clone(), args.agent, &request)
        });
    match published {
        Ok(state) => {
            print(&format!("{}\n", success_receipt(&state)))?;
            Ok(Exit::Ok)
        }
        Err(refused) => {
            print(&format!("{}\n", refused.receipt()))?;
            Ok(REFUSED)
        }
    }
}

/// What the command and the MCP tool do with a request: find the root, publish.
pub(super) fn publish_request(
    root: Option<PathBuf>,
    agent: Option<Agent>,
    request: &PublishRequest,
) -> Result<State, Refused> {
    let root = root_with(&Where { root, agent }, &request.session_id)
        .map_err(|error| Refused::new(Code::StateIo, error.message()))?;
    let mut locked = PointerStore::new(&RealFs, root).lock(&request.session_id, PUBLISH_LOCK_WAIT)?;
    publish_locked(&mut locked, request)
}

/// Publishes on a session whose lock is held, and notes it in history and sidecar.
pub(super) fn publish_locked(locked: &mut LockedSession<'_>, request: &PublishRequest) -> Result<State, Refused> {
    let (state, warning) = publish_and_note(locked, request)?;
    if let Some(warning) = warning {
        warn(&warning);
    }
    Ok(state)
}

/// The same, with what the user should be told.
fn publish_and_note(
    locked: &mut LockedSession<'_>,
    request: &PublishRequest,
) -> Result<(State, Option<String>), Refused> {
    match locked.apply(Event::Publish(request), fresh()?)? {
        Answer::Published => {}
        Answer::Refused(refusal) => {
            let code = refusal.code();
            let stale = matches!(code, Code::StaleGeneration | Code::StaleRevision);
            let current = stale.then(|| locked.observed().clone());
            return Err(Refused { current, ..Refused::new(code, refusal) });
        }
        // A publish is answered in no other way; were it, nothing was written.
        _ => return Err(Refused::new(Code::StateIo, "the publish was not decided")),
    }
    let Observed::Current(state) = locked.observed().clone() else {
        return Err(Refused::new(Code::StateIo, "the publish left no state"));
    };
    // Convenience only: the publish stands whatever becomes of these.
    let _ = locked.add_to_history(&state);
    let mut meta = locked.meta();
    let untold = locked.is_lock_degraded() && !std::mem::replace(&mut meta.lock_warned, true);
    let warning = untold.then(|| degraded_lock(locked.root()));
    meta.published |= state.pointer.task().is_some();
    meta.last_used_unix_s = now_unix_seconds();
    let _ = locked.save_meta(&meta);
    Ok((state, warning))
}

/// Publishes `target` on whatever is stored: the compare-and-swap of a person, who looks and writes under one lock.
pub(super) fn publish_over(
    root: &Path,
    session: &SessionId,
    target: impl FnOnce(&Observed) -> Result<Pointer, Refused>,
) -> Result<State, Refused> {
    let mut locked = PointerStore::new(&RealFs, root).lock(session, PUBLISH_LOCK_WAIT)?;
    let target = target(locked.observed())?;
    let expected = match locked.observed() {
        Observed::Corrupt(fault) => return Err(Refused::new(fault.code, fault)),
        other => other.expectation().ok_or_else(|| Refused::new(Code::StateCorrupt, "nothing readable is stored"))?,
    };
    publish_locked(&mut locked, &PublishRequest { session_id: session.clone(), expected, target })
}

/// Notes this directory for a session that no agent has named one for, so that a person's next command finds it here.
/// Convenience only: whatever goes wrong, the publish stands.
pub(super) fn note_directory(root: &Path, session: &SessionId) {
    let Ok(Some(locked)) = PointerStore::new(&RealFs, root).try_lock_existing(session) else { return };
    let mut meta = locked.meta();
    let here = std::env::current_dir().ok().and_then(|here| here.to_str().map(str::to_owned));
    if meta.cwd.is_none() && here.is_some() {
        meta.cwd = here;
        meta.host.get_or_insert_with(host_name);
        let _ = locked.save_meta(&meta);
    }
}

/// A7: only the variable of the agent that is named counts.
fn check_session_variable(agent: Option<Agent>, session: &SessionId) -> Result<(), Refused> {
    let Some(variable) = agent.and_then(Agent::session_variable) else { return Ok(()) };
    match agent.and_then(session_variable).and_then(|id| SessionId::of_host(&id)) {
        Some(own) if own != *session => Err(Refused::new(
            Code::SessionEnvMismatch,
            format!("the request is for another session than {variable} names; use the block of this session"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use pintle_pointer::{PointerText, Task, TaskId};
    use pintle_testkit::faulty::FaultyFs;

    use super::*;

    /// Item 17: a publish where the file system has no locks succeeds, and tells its user once per session.
    #[test]
    fn a_file_system_without_locks_is_told_once() {
        let fs = FaultyFs::new();
        let store = PointerStore::new(&fs, "/home/tasks");
        let session: SessionId = "s-1".parse().expect("legal id");
        drop(store.lock(&session, Duration::ZERO).expect("the folder is made"));
        let told = [1, 2, 3].map(|revision| {
            // A publish opens the lock file first, then locks it.
            fs.fail_at(fs.ops() + 2, io::ErrorKind::Unsupported);
            let mut locked = store.lock(&session, Duration::ZERO).expect("a lock file stands in");
            let text = PointerText::publish("Goal: x").expect("legal");
            let target = Pointer::Clean(Task { id: TaskId::from_random([1; 16]), text });
            let expected = locked.observed().expectation().expect("readable");
            let request = PublishRequest { session_id: session.clone(), expected, target };
            let (state, warning) = publish_and_note(&mut locked, &request).expect("published");
            assert_eq!(state.revision.get(), revision);
            warning.is_some_and(|warning| warning.contains("`/home/tasks` has no locks"))
        });
        assert_eq!(told, [true, false, false]);
    }
}
