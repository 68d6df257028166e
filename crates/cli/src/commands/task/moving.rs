//! `pintle task adopt` and `send`: a task outlives its session and its machine (A9).

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use pintle_pointer::{Observed, Pointer, PublishRequest, SessionId, TaskRecord, success_receipt};
use pintle_store::RealFs;
use pintle_store::pointer::{Listed, PUBLISH_LOCK_WAIT, PointerStore, host_name};

use super::list::listed;
use super::publish::{Refused, note_directory, publish_locked, publish_over};
use super::roots::{Where, meant_session, parse_session, root_with};
use super::{Format, REFUSED, failed, print};
use crate::error::CommandError;
use crate::exit::Exit;

/// Options of `adopt`.
#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// The session whose task to take, or its number in the list.
    #[arg(value_name = "ID|N")]
    from: String,
    #[command(flatten)]
    place: Where,
    /// The session that takes it; default: the one whose agent runs this command, else the one used last in this
    /// directory.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Clear the session that it is taken from.
    #[arg(long = "move")]
    moving: bool,
    /// Print for people, or the receipt of the publish.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Options of `send`.
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The machine, as ssh knows it.
    #[arg(value_name = "HOST")]
    host: String,
    /// The session whose task to send, or its number in the list; default: the one of this directory.
    #[arg(value_name = "ID|N")]
    from: Option<String>,
    #[command(flatten)]
    place: Where,
    /// The command that takes the record in on the other side.
    #[arg(long, value_name = "COMMAND", default_value = "pintle task import")]
    remote: String,
    /// The ssh program.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    ssh: PathBuf,
}

/// Copies text and task id into another session by an ordinary publish.
pub(super) fn adopt(args: &AdoptArgs) -> Result<Exit, CommandError> {
    take_over(&args.place, &args.from, args.session.as_deref(), args.moving, ("adopted", args.format))
}

/// The same for `import --from`: what a fork does with the task of its parent.
pub(super) fn copy(place: &Where, from: &str, session: Option<&str>) -> Result<Exit, CommandError> {
    take_over(place, from, session, false, ("imported", Format::Human))
}

fn take_over(
    place: &Where,
    from: &str,
    session: Option<&str>,
    moving: bool,
    (verb, format): (&str, Format),
) -> Result<Exit, CommandError> {
    let (from_root, from) = named(place, from)?;
    let (root, session) = meant_session(place, session)?;
    if (&from_root, &from) == (&root, &session) {
        return Err(failed("same_session", format!("take over the task of session {from}: it is the session itself"))
            .hint("name the session that takes it with --session ID"));
    }
    let source = PointerStore::new(&RealFs, &from_root);
    let seen = source.observe(&from).map_err(|error| failed("state", error.full_message()))?;
    let Some(task) = seen.task().cloned() else {
        return Err(failed("no_task", format!("take over the task of session {from}: it has none")));
    };
    let state = publish_over(&root, &session, |_| Ok(Pointer::Clean(task))).map_err(|refused| refusal(&refused))?;
    note_directory(&root, &session);
    if moving {
        clear_if_unchanged(&source, &from, &seen).map_err(|refused| {
            refusal(&refused).hint(format!("session {session} has the task; session {from} keeps its own"))
        })?;
    }
    print(&match format {
        Format::Human => format!("{verb}: session {session}, revision {}, from session {from}\n", state.revision),
        Format::Json => format!("{}\n", success_receipt(&state)),
    })?;
    Ok(Exit::Ok)
}

/// The fence of a move: only what was copied is cleared.
fn clear_if_unchanged(source: &PointerStore<'_>, from: &SessionId, seen: &Observed) -> Result<(), Refused> {
    let Some(expected) = seen.expectation() else { return Ok(()) };
    let mut locked = source.lock(from, PUBLISH_LOCK_WAIT)?;
    let request = PublishRequest { session_id: from.clone(), expected, target: Pointer::Cleared };
    publish_locked(&mut locked, &request).map(drop)
}

/// Runs `ssh HOST pintle task import` with the record on its standard input.
pub(super) fn send(args: &SendArgs) -> Result<Exit, CommandError> {
    if args.host.is_empty() || args.host.starts_with('-') {
        return Err(failed("usage", "send a task: the host is empty or begins with a dash"));
    }
    let (root, session) = match &args.from {
        Some(from) => named(&args.place, from)?,
        None => meant_session(&args.place, None)?,
    };
    let store = PointerStore::new(&RealFs, &root);
    let observed = store.observe(&session).map_err(|error| failed("state", error.full_message()))?;
    let record = match &observed {
        Observed::Current(state) => TaskRecord::of(state),
        Observed::Legacy(_) => {
            return Err(failed("legacy", format!("send the task of session {session}: it is stored in schema 2"))
                .hint("the next prompt or publish upgrades it"));
        }
        Observed::Absent | Observed::Corrupt(_) => None,
    };
    let Some(mut record) = record else {
        return Err(failed("no_task", format!("send the task of session {session}: it has none")));
    };
    let meta = store.meta(&session);
    record.agent = meta.agent;
    record.cwd = meta.cwd;
    record.host = Some(host_name()).filter(|host| !host.is_empty());
    run_ssh(args, &format!("{}\n", record.to_json()))
}

fn run_ssh(args: &SendArgs, record: &str) -> Result<Exit, CommandError> {
    let wrong = |error: std::io::Error| failed("ssh", format!("run `{}`: {error}", args.ssh.display()));
    let mut child = Command::new(&args.ssh)
        .arg("--")
        .arg(&args.host)
        .arg(&args.remote)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    if let Some(mut input) = child.stdin.take() {
        // A remote side that ends early says why by its exit code and on its standard error.
        let _ = input.write_all(record.as_bytes());
    }
    match child.wait().map_err(wrong)?.code() {
        Some(0) => Ok(Exit::Ok),
        Some(2) => Ok(REFUSED),
        Some(127) => Err(failed("ssh", format!("send a task to {}: it has no pintle", args.host))
            .hint("install pintle there, or name it with --remote COMMAND")),
        other => {
            let code = other.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            Err(failed("ssh", format!("send a task to {}: ssh ended with {code}", args.host)))
        }
    }
}

/// A session by its id, or a live task by its number in the list.
fn named(place: &Where, text: &str) -> Result<(PathBuf, SessionId), CommandError> {
    let number: Option<usize> = text.parse().ok();
    if let Some(index) = number.and_then(|number| number.checked_sub(1)) {
        let mut rows: Vec<(PathBuf, Listed)> = listed(place, false)?;
        if index < rows.len() {
            let (root, one) = rows.swap_remove(index);
            return Ok((root, one.session));
        }
        return Err(failed("no_task", format!("find task number {text}: the list has {}", rows.len()))
            .hint("`pintle task list` shows them with their numbers"));
    }
    let session = parse_session(text)?;
    Ok((root_with(place, &session)?, session))
}

fn refusal(refused: &Refused) -> CommandError {
    CommandError::new(REFUSED, refused.code.as_str(), format!("publish: {}: {}", refused.code, refused.message))
}
