//! `pintle task doctor`: what is installed, whether it runs, whether the state can be trusted, and whether a publish
//! comes through, tried out the way the model does it.

mod agents;
mod finding;
mod publish;
mod root;
mod weak;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use pintle_pointer::Agent;
use pintle_pointer::install::Host;
use pintle_store::fsx;
use pintle_store::lock;
use pintle_store::{LockKind, RealFs};

use super::install::{Surroundings, agent_words};
use super::roots::{Where, known_roots, offer_of_foreign_root, parse_session, root_of};
use super::{Format, failed, print};
use crate::error::{CommandError, chain};
use crate::exit::Exit;

use finding::{Finding, Report};

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Set corrupt states aside, and remove what interrupted writes left.
    #[arg(long)]
    repair: bool,
    /// Only this session; its state is looked at even where its folder does not tell whose it is.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only this agent: codex, claude, gemini, qwen, copilot, cursor or opencode. Repeatable; default: those found here.
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_words)]
    agents: Vec<Agent>,
    /// The state root; default: every known one.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print for people, or one JSON object; default: for people on a terminal.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Take a lock and say whether that succeeded: the other side of the probe.
    #[arg(long, value_name = "FILE", hide = true)]
    probe_lock: Option<PathBuf>,
}

/// Looks, tries, says. The exit code is 1 when something needs the user.
pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit, CommandError> {
    if let Some(file) = &args.probe_lock {
        return probe_lock(file);
    }
    let surroundings = Surroundings::read()?;
    let program = surroundings.program()?;
    let session = args.session.as_deref().map(parse_session).transpose()?;
    let mut report = Report::new(&program);
    let hosts: Vec<Host> = if args.agents.is_empty() {
        surroundings.found()
    } else {
        args.agents.iter().copied().filter_map(Host::of).collect()
    };
    if hosts.is_empty() {
        report.add(Finding::note(
            "agents",
            "no_agent",
            "no coding agent that pintle knows has settings or a program here",
        ));
    }
    let mut roots = match (&args.root, args.agents.as_slice()) {
        (Some(root), _) => vec![root_of(Some(root), None)?],
        (None, []) => known_roots(&Where::default())?,
        (None, agents) => {
            let roots: Result<Vec<PathBuf>, _> = agents.iter().map(|agent| root_of(None, Some(*agent))).collect();
            roots?
        }
    };
    roots.dedup();
    for root in &roots {
        root::check(root, &program, args.repair, session.as_ref(), &mut report);
    }
    let codex_too = args.agents.is_empty() || args.agents.contains(&Agent::Codex);
    if let Some(offer) = offer_of_foreign_root().filter(|_| codex_too && args.root.is_none()) {
        report.add(Finding::note("state", "foreign_root", offer));
    }
    if session.is_none() {
        for host in &hosts {
            agents::check(*host, &surroundings, &program, !args.agents.is_empty(), args.root.as_deref(), &mut report);
        }
        agents::check_together(&hosts, &surroundings, &mut report);
    }
    let human = args.format.map_or_else(|| std::io::stdout().is_terminal(), |format| format == Format::Human);
    if human {
        report.print_human()?;
    } else {
        print(&format!("{}\n", report.to_json()))?;
    }
    Ok(if report.is_healthy() { Exit::Ok } else { Exit::Failed })
}

/// The child of the lock probe.
fn probe_lock(file: &Path) -> Result<Exit, CommandError> {
    let word = match lock::try_acquire(&RealFs, file, LockKind::Exclusive) {
        Ok(Some(_lock)) => "taken",
        Ok(None) => "held",
        Err(error) => return Err(failed(error.class(), chain(&error))),
    };
    print(&format!("{word}\n"))?;
    Ok(Exit::Ok)
}

/// Random bits as a word that no session and no file of ours has.
fn scratch_word() -> Result<String, CommandError> {
    let fresh = pintle_store::pointer::fresh().map_err(|error| failed("state", error.full_message()))?;
    Ok(fresh.random[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Removes a scratch folder; what cannot be removed has a name that says what it was.
fn remove_scratch(dir: &Path) {
    let _ = fsx::remove_tree(&RealFs, dir);
}
