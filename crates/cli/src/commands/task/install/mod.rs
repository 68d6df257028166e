//! `pintle task install`, `uninstall` and `rollback`: our hooks, MCP server and rules in the settings of agents.
//!
//! What is edited is decided in [`pintle_pointer::install`] and written by [`pintle_store::settings`]. Here the agents
//! are found, the diff is shown and the question asked.

mod find;
mod origin;
mod show;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use pintle_pointer::Agent;
use pintle_pointer::install::{Edited, Host, Note, SETTINGS_MAX_BYTES, Target, TargetRole};
use pintle_store::home::Home;
use pintle_store::settings::{self, FileChange, Settings, SettingsError};
use pintle_store::{FsError, RealFs};
use serde_json::{Value, json};

pub(super) use find::{Surroundings, agent_words};

use super::{failed, roots, warn};

use crate::error::CommandError;
use crate::exit::Exit;

/// How many backups are named to a user who named none of them.
const BACKUPS_SHOWN: usize = 3;
/// In everything that we write.
const OUR_NAME: &[u8] = b"pintle";
/// A file that is too large to be edited is searched for our name up to this size.
const SEARCHED_MAX_BYTES: usize = 64 << 20;
/// The schema of the receipt.
const RECEIPT_SCHEMA: &str = "pintle.install-receipt.v1";

/// Write the task pointer's hooks, MCP server and rules into the settings of coding agents.
///
/// Without --agent, the agents that are installed here are found. The change is shown before it is made, and a backup
/// undoes it.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Only this agent: codex, claude, gemini, qwen, copilot, cursor or opencode. Repeatable.
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_words)]
    agents: Vec<Agent>,
    /// Every agent that pintle knows, found here or not.
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    #[command(flatten)]
    consent: Consent,
    /// Block a prompt on every failure of the hook, as the published protocol does, and not only warn.
    #[arg(long)]
    strict: bool,
    /// Do not register the MCP server: the model publishes by shell command only.
    #[arg(long)]
    no_mcp: bool,
    /// Do not write the lines that teach the model to publish.
    #[arg(long)]
    no_rules: bool,
}

/// Take everything of ours out of the settings of coding agents, and nothing else.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Only this agent. Repeatable; without it, every agent that has something of ours.
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_words)]
    agents: Vec<Agent>,
    #[command(flatten)]
    consent: Consent,
}

/// Undo one install or uninstall. A file that was edited since loses our entries only.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The backup, as the receipt names it: a directory, or its name below the backups.
    #[arg(long)]
    backup: PathBuf,
    #[command(flatten)]
    consent: Consent,
}

/// How the user says yes.
#[derive(Debug, Args)]
struct Consent {
    /// Show what would change and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask. Needed where standard input is not a terminal.
    #[arg(long, short)]
    yes: bool,
    /// What to print on standard output: lines for people, or the receipt as one JSON object; default: for people on a
    /// terminal.
    #[arg(long, value_parser = ["human", "json"])]
    format: Option<String>,
}

impl Consent {
    fn json(&self) -> bool {
        match self.format.as_deref() {
            Some(format) => format == "json",
            None => !std::io::stdout().is_terminal(),
        }
    }
}

/// One file with what we want in it, as far as it could be worked out.
struct Plan {
    target: Target,
    change: Result<FileChange, CommandError>,
    notes: Vec<Note>,
}

/// Runs `install`.
pub(super) fn install(args: &InstallArgs) -> Result<Exit, CommandError> {
    let home = &roots::home()?;
    let surroundings = Surroundings::read()?;
    let hosts = if args.all {
        Host::ALL.to_vec()
    } else if args.agents.is_empty() {
        surroundings.found()
    } else {
        args.agents.iter().copied().filter_map(Host::of).collect()
    };
    if hosts.is_empty() {
        return Err(failed("no_agent", "find a coding agent: none of the known ones has settings or a program here")
            .hint("name one with --agent"));
    }
    let program = surroundings.program()?;
    let mut plans = Vec::new();
    for host in &hosts {
        let setup = surroundings.setup(host.agent(), &program, args.strict, !args.no_mcp, !args.no_rules);
        if !setup.is_program_spellable() {
            let what = format!("install for {}: its hooks cannot be told of `{program}`", setup.agent);
            return Err(failed("SOURCE_INVALID", format!("{what}, whose path has blanks or signs"))
                .hint("call pintle by its short path (dir /x shows it), or move it to a path of letters and digits"));
        }
        for target in setup.targets(&surroundings.dirs) {
            let next = plan(target, &plans, Target::install);
            add(&mut plans, next);
        }
    }
    if find::is_build_output(&program) {
        warn("this pintle is in a build directory: the hooks stop working when it is cleaned");
    }
    let receipt = carry_out("install", home, &plans, &args.consent)?;
    finish(&receipt, &hosts, &args.consent)
}

/// Runs `uninstall`.
pub(super) fn uninstall(args: &UninstallArgs) -> Result<Exit, CommandError> {
    let home = &roots::home()?;
    let surroundings = Surroundings::read()?;
    let hosts: Vec<Host> = if args.agents.is_empty() {
        Host::ALL.to_vec()
    } else {
        args.agents.iter().copied().filter_map(Host::of).collect()
    };
    let backups = settings::list_backups(&RealFs, &backups(home)).map_err(|e| settings_error(&e))?;
    let targets = hosts
        .iter()
        .flat_map(|host| surroundings.setup(host.agent(), "pintle", false, true, true).targets(&surroundings.dirs));
    let mut plans = Vec::new();
    for target in targets {
        let path = target.path.clone();
        if is_nobodys(&path) {
            continue;
        }
        let mut next = plan(target, &plans, |target, bytes| match bytes {
            Some(bytes) => match origin::of(target, bytes, &backups).uninstall(target, bytes) {
                Err(_) if !names_us(bytes) => Ok(Edited { bytes: Some(bytes.to_vec()), notes: Vec::new() }),
                edited => edited,
            },
            None => Ok(Edited { bytes: None, notes: Vec::new() }),
        });
        if let Ok(change) = &mut next.change {
            let made = backups.iter().flat_map(|(_, backup)| &backup.files).filter(|file| file.path == path);
            change.made_dirs = made.flat_map(|file| file.made_dirs.iter().cloned()).collect();
        }
        add(&mut plans, next);
    }
    let receipt = carry_out("uninstall", home, &plans, &args.consent)?;
    finish(&receipt, &[], &args.consent)
}

/// Runs `rollback`.
pub(super) fn rollback(args: &RollbackArgs) -> Result<Exit, CommandError> {
    let home = &roots::home()?;
    let surroundings = Surroundings::read()?;
    let dir = if args.backup.components().count() > 1 || args.backup.is_absolute() {
        args.backup.clone()
    } else {
        backups(home).join(&args.backup)
    };
    let manifest =
        settings::load_backup(&RealFs, &dir).map_err(|e| settings_error(&e).hint_all(known_backups(home)))?;
    let targets: Vec<Target> = Host::ALL
        .iter()
        .flat_map(|host| surroundings.setup(host.agent(), "pintle", false, true, true).targets(&surroundings.dirs))
        .collect();
    let mut plans = Vec::new();
    for (index, file) in manifest.files.iter().enumerate() {
        let before = settings::saved(&RealFs, &dir, &manifest, index).map_err(|e| settings_error(&e))?;
        let Some(target) = targets.iter().find(|target| target.path == file.path) else {
            return Err(failed("BACKUP_INVALID", format!("use the backup: no agent has `{}`", file.path.display())));
        };
        let mut next = plan(target.clone(), &plans, |target, current| {
            if settings::is_as_left(file, current) {
                return Ok(Edited { bytes: before.clone(), notes: Vec::new() });
            }
            // The user has edited it since: take out what is ours, and leave the rest.
            match current {
                Some(current) => origin::before_ours(target, before.as_deref()).uninstall(target, current),
                None => Ok(Edited { bytes: None, notes: Vec::new() }),
            }
        });
        if let Ok(change) = &mut next.change {
            change.made_dirs.clone_from(&file.made_dirs);
        }
        add(&mut plans, next);
    }
    let receipt = carry_out("rollback", home, &plans, &args.consent)?;
    finish(&receipt, &[], &args.consent)
}

/// Works out one file. One that an earlier plan changes too, under another name, is taken as that plan leaves it.
fn plan(
    target: Target,
    earlier: &[Plan],
    edit: impl FnOnce(&Target, Option<&[u8]>) -> Result<Edited, pintle_pointer::install::EditError>,
) -> Plan {
    let read = settings::read(&RealFs, &target.path, SETTINGS_MAX_BYTES);
    let mut notes = Vec::new();
    let change = read.map_err(|e| settings_error(&e)).and_then(|settings: Settings| {
        let same = earlier.iter().filter_map(|plan| plan.change.as_ref().ok());
        let same = same.rev().find(|other| other.settings.resolved == settings.resolved);
        let current = same.map_or(settings.bytes.as_deref(), |same| same.after.as_deref());
        let edited = edit(&target, current).map_err(|e| {
            failed(e.fault().code(), format!("edit `{}`: {e}", target.path.display()))
                .hint("the file was left as it is; repair it, or edit it by hand")
        })?;
        notes = edited.notes;
        let label = format!("{} {}", target.agent, target.role.as_str());
        Ok(FileChange { settings, after: edited.bytes, label, made_dirs: Vec::new() })
    });
    Plan { target, change, notes }
}

/// Adds a plan; those before it that change the same file end where it ends.
fn add(plans: &mut Vec<Plan>, plan: Plan) {
    if let Ok(change) = &plan.change {
        let same = plans.iter_mut().filter_map(|plan| plan.change.as_mut().ok());
        same.filter(|other| other.settings.resolved == change.settings.resolved)
            .for_each(|other| other.after.clone_from(&change.after));
    }
    plans.push(plan);
}

/// Whether nothing of ours can be at a path: no file, or one so large that nobody edits it, without our name in it.
fn is_nobodys(path: &Path) -> bool {
    match settings::read(&RealFs, path, SETTINGS_MAX_BYTES) {
        Err(SettingsError::Destination { .. }) => true,
        Err(SettingsError::Io(FsError::TooLarge { .. })) => settings::read(&RealFs, path, SEARCHED_MAX_BYTES)
            .is_ok_and(|large| large.bytes.is_none_or(|bytes| !names_us(&bytes))),
        Err(SettingsError::Io(error)) => error.kind() == std::io::ErrorKind::NotADirectory,
        _ => false,
    }
}

/// Whether our name is in a file. A broken one without it has nothing of ours, and is no reason to stay in the others.
fn names_us(bytes: &[u8]) -> bool {
    bytes.windows(OUR_NAME.len()).any(|part| part == OUR_NAME)
}

/// Shows, asks, writes. Nothing is written when one of the files cannot be edited.
fn carry_out(action: &str, home: &Home, plans: &[Plan], consent: &Consent) -> Result<Value, CommandError> {
    let mut changes = Vec::new();
    let mut refused = Vec::new();
    for plan in plans {
        match &plan.change {
            Ok(change) => changes.push(change.clone()),
            Err(error) => refused.push((plan, error)),
        }
    }
    let moving: Vec<&FileChange> = changes.iter().filter(|change| change.is_change()).collect();
    if !consent.json() || !consent.yes {
        for change in &moving {
            show::diff(change)?;
        }
        for (note, path) in plans.iter().flat_map(|plan| plan.notes.iter().map(|note| (note, &plan.target.path))) {
            warn(&format!("{}: {}", path.display(), note.text()));
        }
    }
    if let Some((plan, error)) = refused.first() {
        error.print(false);
        if action == "install" {
            show::snippet(&plan.target);
        }
        return Err(failed(
            "DESTINATION_INVALID",
            format!("{action}: {} of {} files cannot be edited", refused.len(), plans.len()),
        )
        .hint("nothing was written"));
    }
    let mut backup = None;
    // Also where nothing changes: what a killed run left is cleaned up.
    if !consent.dry_run {
        if !moving.is_empty() && !consent.yes {
            ask(action, moving.len())?;
        }
        let done = settings::apply(&RealFs, &backups(home), action, SystemTime::now(), &changes);
        backup = done.map_err(|e| {
            let about = plans.iter().find(|plan| is_about(&e, &plan.target.path));
            if let Some(plan) = about.filter(|_| action == "install") {
                show::snippet(&plan.target);
            }
            settings_error(&e)
        })?;
    }
    let files: Vec<Value> = plans
        .iter()
        .zip(&changes)
        .map(|(plan, change)| {
            let state = match (change.is_change(), consent.dry_run, &change.after) {
                (false, _, _) => "unchanged",
                (true, true, _) => "would_change",
                (true, false, None) => "removed",
                (true, false, Some(_)) if change.settings.bytes.is_none() => "created",
                (true, false, Some(_)) => "changed",
            };
            json!({
                "agent": plan.target.agent.as_str(),
                "role": plan.target.role.as_str(),
                "path": plan.target.path.to_string_lossy(),
                "state": state,
            })
        })
        .collect();
    let is_codex_hooks = |plan: &&Plan| plan.target.agent == Agent::Codex && plan.target.role == TargetRole::Hooks;
    let codex_hooks = plans.iter().find(is_codex_hooks).map(|plan| plan.target.path.to_string_lossy());
    Ok(json!({
        "schema": RECEIPT_SCHEMA,
        "ok": true,
        "action": action,
        "dry_run": consent.dry_run,
        "owned_root": home.tasks().to_string_lossy(),
        "hooks_json": codex_hooks,
        "files": files,
        "backup": backup.as_deref().map(Path::to_string_lossy),
    }))
}

fn ask(action: &str, files: usize) -> Result<(), CommandError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(failed("consent", format!("{action}: standard input is not a terminal, so nobody can be asked"))
            .hint("look at it with --dry-run, then say --yes"));
    }
    let mut err = anstream::stderr();
    write!(err, "{action}: change {files} file{}? [y/N] ", if files == 1 { "" } else { "s" })?;
    err.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(failed("consent", format!("{action}: you said no")).hint("nothing was written"))
}

fn finish(receipt: &Value, hosts: &[Host], consent: &Consent) -> Result<Exit, CommandError> {
    let mut steps: Vec<String> = hosts.iter().filter_map(|host| host.last_step()).map(str::to_owned).collect();
    if hosts.iter().any(|host| host.agent() == Agent::Codex) {
        steps.extend(roots::offer_of_foreign_root());
    }
    if consent.json() {
        let mut receipt = receipt.clone();
        receipt["next_steps"] = json!(steps);
        writeln!(std::io::stdout(), "{receipt}")?;
    } else {
        show::receipt(receipt, &steps)?;
    }
    Ok(Exit::Ok)
}

/// What a user who named no backup can name.
fn known_backups(home: &Home) -> Vec<String> {
    let known = settings::list_backups(&RealFs, &backups(home)).unwrap_or_default();
    let newest = known.iter().rev().take(BACKUPS_SHOWN);
    let lines = newest.map(|(dir, backup)| format!("there is {} ({})", dir.display(), backup.action));
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { vec![format!("there is none below {}", backups(home).display())] } else { lines }
}

/// Where the backups are.
pub(super) fn backups(home: &Home) -> PathBuf {
    home.root().join("install-backups")
}

fn is_about(error: &SettingsError, path: &Path) -> bool {
    matches!(error, SettingsError::Io(inner) if path.parent() == inner.path().parent())
}

fn settings_error(error: &SettingsError) -> CommandError {
    CommandError::caused(Exit::Failed, error.code(), error)
}
