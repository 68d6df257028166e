//! `pintle task import`: a sent record on standard input, a task from another program's JSON, the records of another
//! program's root, or the task of a fork's parent (A1, A9, item 23, section 9).

mod foreign_root;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pintle_pointer::{
    Agent, Code, Observed, Pointer, PointerText, PublishRequest, RECORD_MAX_BYTES, SessionId, State, Task, TaskId,
    TaskRecord, success_receipt,
};
use pintle_store::pointer::{PUBLISH_LOCK_WAIT, PointerStore, fresh};
use pintle_store::{RealFs, fsx};
use pintle_wire::{Profile, ScanLimits, scan};
use serde_json::Value;

use super::publish::{Refused, publish_locked};
use super::roots::{Where, root_of};
use super::{REFUSED, failed, moving, print, stdin};
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// How long the sending side may take.
const RECORD_WAIT: Duration = Duration::from_secs(30);
/// The largest file of another program that is read.
const FOREIGN_MAX_BYTES: usize = 1 << 20;

/// Take in a task: without options, a record of `send` on standard input.
///
/// What another program wrote is only shown, until --apply stores it. A session that works on another task keeps it.
#[derive(Debug, Args)]
#[group(id = "source", multiple = false, args = ["from_json", "from_root", "from"])]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    place: Where,
    /// A JSON file of another program or of schema 1.
    #[arg(long, value_name = "FILE", requires = "map")]
    from_json: Option<PathBuf>,
    /// Where a member of ours is in that file: session_id, task_id or pointer_text, and names joined by dots.
    #[arg(long, value_name = "MEMBER=PATH", value_parser = parse_mapping)]
    map: Vec<Mapping>,
    /// A state root of another layout, such as that of an older install: every record of schema 2 or 3 in it is taken
    /// in under its own session id. The root itself is not touched.
    #[arg(long, value_name = "DIR")]
    from_root: Option<PathBuf>,
    /// Another session, such as the one that this one was forked from: its task is copied into this one.
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// The session to store it under; default: the one that the file names, with --from the current one.
    #[arg(long, value_name = "ID", conflicts_with = "from_root", requires = "source")]
    session: Option<String>,
    /// Store what the file or the root holds; without it the command only says what it would store.
    #[arg(long, requires = "source", conflicts_with = "from")]
    apply: bool,
}

/// One `--map`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    member: String,
    path: Vec<String>,
}

/// Takes a task in.
pub(super) fn import(args: &ImportArgs) -> Result<Exit, CommandError> {
    if let Some(parent) = &args.from {
        return moving::copy(&args.place, parent, args.session.as_deref());
    }
    let root = root_of(args.place.root.as_deref(), args.place.agent)?;
    match (&args.from_json, &args.from_root) {
        (Some(file), _) => import_foreign(args, &root, file),
        (None, Some(from)) => foreign_root::import(&root, from, args.place.agent, args.apply),
        (None, None) => import_record(&root),
    }
}

fn import_record(root: &Path) -> Result<Exit, CommandError> {
    let input = stdin::read(RECORD_MAX_BYTES, RECORD_WAIT)
        .map_err(|error| failed("input", format!("read standard input: {error}")))?;
    let record = TaskRecord::decode(&input.bytes).map_err(|error| failed("record", error))?;
    report(store_record(root, &record))
}

/// Stores a sent task under its session id, where it waits to be adopted. An earlier one of the same sender gives way, as
/// long as no agent has taken the session up; anything else that is alive stands.
fn store_record(root: &Path, record: &TaskRecord) -> Result<State, Refused> {
    let mut locked = PointerStore::new(&RealFs, root).lock(&record.session_id, PUBLISH_LOCK_WAIT)?;
    let mut meta = locked.meta();
    let untouched = meta.sent_by.is_some() && meta.prompts == 0;
    match locked.observed() {
        Observed::Corrupt(fault) => return Err(Refused::new(fault.code, fault)),
        Observed::Current(state) if state.pointer.task() == Some(&record.task) => return Ok(state.clone()),
        other if other.task().is_some() && !untouched => {
            return Err(Refused::new(
                Code::SessionLive,
                format!("session {} works on another task here; nothing was stored", record.session_id),
            ));
        }
        _ => {}
    }
    let state = publish_here(&mut locked, &record.session_id, record.pointer())?;
    meta.published = true;
    meta.sent_by = Some(record.host.clone().unwrap_or_else(|| "another machine".to_owned()));
    meta.cwd.clone_from(&record.cwd);
    meta.agent.clone_from(&record.agent);
    meta.touch(fresh()?.now_unix_seconds, None, None);
    let _ = locked.save_meta(&meta);
    Ok(state)
}

fn publish_here(
    locked: &mut pintle_store::pointer::LockedSession<'_>,
    session: &SessionId,
    target: Pointer,
) -> Result<State, Refused> {
    let expected = locked
        .observed()
        .expectation()
        .ok_or_else(|| Refused::new(Code::StateCorrupt, "nothing readable is stored"))?;
    publish_locked(locked, &PublishRequest { session_id: session.clone(), expected, target })
}

fn import_foreign(args: &ImportArgs, root: &Path, file: &Path) -> Result<Exit, CommandError> {
    let bytes = fsx::read_bounded(&RealFs, file, FOREIGN_MAX_BYTES)
        .map_err(|error| CommandError::new(Exit::Failed, "file", chain(&error)))?;
    let limits = ScanLimits { max_bytes: FOREIGN_MAX_BYTES, max_depth: 64 };
    let text = scan(&bytes, Profile::Acp, limits)
        .map_err(|error| failed("json", format!("read `{}`: {error}", file.display())))?;
    let value: Value = text.decode().map_err(|error| failed("json", format!("read `{}`: {error}", file.display())))?;
    let member = |name: &str| -> Result<Option<String>, CommandError> {
        let Some(mapping) = args.map.iter().find(|mapping| mapping.member == name) else { return Ok(None) };
        let place = || format!("`{}` in `{}`", mapping.path.join("."), file.display());
        match pick(&value, &mapping.path) {
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(failed("map", format!("read {}: it is no string", place()))),
            None => Err(failed("map", format!("read {}: there is nothing", place()))),
        }
    };
    let missing = |what: &str| failed("map", format!("import a task: {what}"));
    let session = match &args.session {
        Some(session) => session.clone(),
        None => {
            member("session_id")?.ok_or_else(|| missing("no session; add --map session_id=PATH or --session ID"))?
        }
    };
    let session: SessionId =
        session.parse().map_err(|error| failed("session_id", format!("import a task: {error}")))?;
    let text = member("pointer_text")?.ok_or_else(|| missing("no text; add --map pointer_text=PATH"))?;
    let text =
        PointerText::publish(&text).map_err(|error| failed("pointer_text", format!("import a task: {error}")))?;
    let id = match member("task_id")? {
        Some(id) => id.parse().map_err(|error| failed("task_id", format!("import a task: {error}")))?,
        None => TaskId::from_random(fresh().map_err(|error| failed("random", error.full_message()))?.random),
    };
    if !args.apply {
        print(&format!(
            "would store in session {session} below `{}`:\n{} ({} bytes)\nrun it again with --apply to store it\n",
            root.display(),
            text.first_line(),
            text.as_str().len()
        ))?;
        return Ok(Exit::Ok);
    }
    report(store_foreign(root, &session, Pointer::Clean(Task { id, text }), None))
}

/// Stores a task of somebody else where no other one is alive.
fn store_foreign(root: &Path, session: &SessionId, pointer: Pointer, agent: Option<Agent>) -> Result<State, Refused> {
    let mut locked = PointerStore::new(&RealFs, root).lock(session, PUBLISH_LOCK_WAIT)?;
    match locked.observed() {
        Observed::Corrupt(fault) => return Err(Refused::new(fault.code, fault)),
        Observed::Current(state) if state.pointer.task() == pointer.task() => return Ok(state.clone()),
        other if other.task().is_some() => {
            return Err(Refused::new(Code::SessionLive, format!("session {session} has a task; nothing was stored")));
        }
        _ => {}
    }
    let state = publish_here(&mut locked, session, pointer)?;
    if let Some(agent) = agent {
        let mut meta = locked.meta();
        meta.agent.get_or_insert_with(|| agent.to_string());
        let _ = locked.save_meta(&meta);
    }
    Ok(state)
}

fn report(result: Result<State, Refused>) -> Result<Exit, CommandError> {
    let (line, exit) = match &result {
        Ok(state) => (success_receipt(state), Exit::Ok),
        Err(refused) => (refused.receipt(), REFUSED),
    };
    print(&format!("{line}\n"))?;
    Ok(exit)
}

fn pick<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn parse_mapping(text: &str) -> Result<Mapping, String> {
    let wrong =
        || "a mapping is session_id, task_id or pointer_text, an equals sign, and a path such as a.b".to_owned();
    let (member, path) = text.split_once('=').ok_or_else(wrong)?;
    if !matches!(member, "session_id" | "task_id" | "pointer_text") || path.is_empty() {
        return Err(wrong());
    }
    Ok(Mapping { member: member.to_owned(), path: path.split('.').map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings() {
        let mapping = parse_mapping("pointer_text=a.0.b").expect("legal");
        assert_eq!(mapping.path, ["a", "0", "b"]);
        for wrong in ["", "pointer_text", "pointer_text=", "status=a"] {
            assert!(parse_mapping(wrong).is_err(), "{wrong}");
        }
        let value = serde_json::json!({"a": [{"b": "x"}]});
        assert_eq!(pick(&value, &mapping.path), Some(&Value::from("x")));
        assert_eq!(pick(&value, &["a".to_owned(), "1".to_owned()]), None);
    }
}
