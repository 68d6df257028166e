//! Where the sessions are, and which one is meant (A1, A7).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use pintle_pointer::{Agent, Observed, SessionId};
use pintle_store::RealFs;
use pintle_store::home::{Home, HomeVars};
use pintle_store::pointer::{Listed, PointerStore};

use super::failed;
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// How many folders of an existing root are looked at to recognise its layout.
const LAYOUT_SAMPLE: usize = 16;

/// Where to look. Without it all known roots are searched.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Where {
    /// The state root; default: $PINTLE_POINTER_HOME, else the agent's, else that of pintle.
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// The agent whose sessions are meant: codex, claude, gemini, qwen, copilot, cursor, opencode or generic.
    #[arg(long, value_name = "AGENT")]
    pub(super) agent: Option<Agent>,
}

/// The root of a command that names its agent: always exactly one.
pub(super) fn root_of(root: Option<&Path>, agent: Option<Agent>) -> Result<PathBuf, CommandError> {
    if let Some(root) = named_root(root)? {
        return Ok(root);
    }
    if agent == Some(Agent::Codex)
        && let Some(root) = codex_root()
    {
        return Ok(root);
    }
    home_root()
}

/// The roots to search, the one to write new sessions to first.
pub(super) fn known_roots(place: &Where) -> Result<Vec<PathBuf>, CommandError> {
    if named_root(place.root.as_deref())?.is_some() || place.agent.is_some() {
        return Ok(vec![root_of(place.root.as_deref(), place.agent)?]);
    }
    let mut roots = vec![home_root()?];
    roots.extend(codex_root().filter(|root| *root != roots[0]));
    Ok(roots)
}

/// The root of a session: the one that has it, else the first.
pub(super) fn root_with(place: &Where, session: &SessionId) -> Result<PathBuf, CommandError> {
    let roots = known_roots(place)?;
    let has = |root: &&PathBuf| {
        PointerStore::new(&RealFs, *root).observe(session).is_ok_and(|found| found != Observed::Absent)
    };
    let hits: Vec<&PathBuf> = if roots.len() > 1 { roots.iter().filter(has).collect() } else { Vec::new() };
    if let [first, second, ..] = hits[..] {
        return Err(failed(
            "two_roots",
            format!("find session {session}: both `{}` and `{}` have it", first.display(), second.display()),
        )
        .hint("name one with --root DIR or --agent AGENT"));
    }
    Ok(hits.first().copied().unwrap_or(&roots[0]).clone())
}

/// Every session of all known roots with its root, the one that was used last first.
pub(super) fn sessions(place: &Where) -> Result<Vec<(PathBuf, Listed)>, CommandError> {
    let mut found = Vec::new();
    for root in known_roots(place)? {
        let listed =
            PointerStore::new(&RealFs, &root).sessions().map_err(|error| failed("state", error.full_message()))?;
        found.extend(listed.into_iter().map(|one| (root.clone(), one)));
    }
    found.sort_by(|(_, a), (_, b)| {
        b.last_used_unix_s().cmp(&a.last_used_unix_s()).then_with(|| a.session.cmp(&b.session))
    });
    Ok(found)
}

/// The session that a person means: the one that is named, else the one whose agent runs this command, else the one that
/// was used last in this directory.
pub(super) fn meant_session(place: &Where, named: Option<&str>) -> Result<(PathBuf, SessionId), CommandError> {
    if let Some(named) = named {
        let session = parse_session(named)?;
        return Ok((root_with(place, &session)?, session));
    }
    if let Some(session) = session_of_environment(place.agent)? {
        return Ok((root_with(place, &session)?, session));
    }
    let here = env::current_dir().ok();
    let here = here.as_deref().and_then(Path::to_str);
    let in_this_directory = |(_, one): &(PathBuf, Listed)| here.is_some() && one.meta.cwd.as_deref() == here;
    sessions(place)?.into_iter().find(in_this_directory).map(|(root, one)| (root, one.session)).ok_or_else(|| {
        failed("no_session", "find a session: none is named, and none was used in this directory")
            .hint("name one, with --session ID or behind show and history; `pintle task list --all` shows them")
    })
}

pub(super) fn parse_session(text: &str) -> Result<SessionId, CommandError> {
    text.parse().map_err(|error| failed("session_id", format!("read the session id: {error}")))
}

/// The session that the environment names: by the variable of `agent`, or without one by whichever is set.
fn session_of_environment(agent: Option<Agent>) -> Result<Option<SessionId>, CommandError> {
    let agents = agent.map_or_else(|| Agent::ALL.to_vec(), |agent| vec![agent]);
    let mut found: Vec<SessionId> =
        agents.into_iter().filter_map(session_variable).filter_map(|id| SessionId::of_host(&id)).collect();
    found.sort();
    found.dedup();
    match found.len() {
        0 => Ok(None),
        1 => Ok(found.pop()),
        _ => Err(failed("ambiguous_session", "choose a session: the variables of several agents are set")
            .hint("name the agent with --agent AGENT or the session with --session ID")),
    }
}

/// The value of the session variable of an agent.
pub(super) fn session_variable(agent: Agent) -> Option<String> {
    env::var(agent.session_variable()?).ok().filter(|value| !value.is_empty())
}

fn named_root(root: Option<&Path>) -> Result<Option<PathBuf>, CommandError> {
    let named = root.map(Path::to_path_buf).or_else(|| variable("PINTLE_POINTER_HOME").map(PathBuf::from));
    named
        .map(|root| std::path::absolute(&root).map_err(|error| failed("root", format!("use the state root: {error}"))))
        .transpose()
}

fn home_root() -> Result<PathBuf, CommandError> {
    Ok(home()?.tasks())
}

/// The place where everything is kept.
pub(super) fn home() -> Result<Home, CommandError> {
    Home::resolve(&HomeVars::from_lookup(|name| env::var_os(name)))
        .map_err(|error| CommandError::new(Exit::Failed, "home", chain(&error)))
}

/// The root of the published protocol's own install, when it is there and follows our layout. Any other stays untouched.
fn codex_root() -> Option<PathBuf> {
    let root = published_root()?;
    PointerStore::new(&RealFs, &root).follows_layout(LAYOUT_SAMPLE).unwrap_or(false).then_some(root)
}

/// What to say of a root of the published protocol whose layout is another one: its tasks can be taken in (A1).
pub(super) fn offer_of_foreign_root() -> Option<String> {
    let root = published_root()?;
    let foreign = root.is_dir() && codex_root().is_none();
    foreign.then(|| {
        format!(
            "`{}` has another layout and is left alone; take its tasks in with: pintle task import --agent codex \
             --from-root '{}'",
            root.display(),
            root.display()
        )
    })
}

/// Where the published protocol's own install keeps its sessions.
fn published_root() -> Option<PathBuf> {
    let codex = variable("CODEX_HOME").map(PathBuf::from).or_else(|| {
        let home = variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" })?;
        Some(PathBuf::from(home).join(".codex"))
    })?;
    Some(codex.join("state").join("task-pointers").join("v2")).filter(|root| root.is_absolute())
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
