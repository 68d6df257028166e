//! The `pintle` binary: parse, run, exit code. What a command does is in its module; what it knows is in the libraries.

mod about;
mod commands;
mod config;
mod error;
mod exit;
mod meant;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod sys;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{check, driver, evidence, json, manual, mock, prompt, task, trace};
use crate::error::CommandError;
use crate::exit::Exit;

/// Pintle tells you whether a coding agent and an editor will really work together, shows you the frames when they will
/// not, and keeps the task when they fall over.
#[derive(Debug, Parser)]
#[command(name = "pintle", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check whether an agent behaves as real clients expect, and keep the frames that prove it.
    ///
    /// Exit code: 0 conformant, 1 a requirement failed or is worse than the baseline, 2 wrong usage, 3 inconclusive, 4 the
    /// agent wants authentication, 5 the agent did not start.
    Check(Box<check::CheckArgs>),
    /// Judge the stored evidence of a check again. Exit codes as `check`.
    Judge(Box<check::JudgeArgs>),
    /// One turn with an agent in the terminal, streamed: its answer on standard output, what it does on standard error.
    ///
    /// Exit code: 0 the agent ended its turn, 1 refused, cancelled or broken off, 2 wrong usage, 4 the agent wants
    /// authentication, 5 the agent did not start. Ctrl-C cancels the turn, a second one kills the agent.
    Prompt(Box<prompt::PromptArgs>),
    /// What runs of `check` have kept: list, show, verify, send on, clean up.
    #[command(subcommand)]
    Evidence(evidence::EvidenceCommand),
    /// Plumbing for driver authors.
    #[command(subcommand)]
    Driver(driver::DriverCommand),
    /// Strict JSON and its canonical form.
    #[command(subcommand)]
    Json(json::JsonCommand),
    /// Peers to test against.
    #[command(subcommand)]
    Mock(mock::MockCommand),
    /// See what an editor and an agent really say to each other: a relay for the editor's settings that records.
    Trace(trace::TraceArgs),
    /// The task pointer: what a session works on, kept through compaction, resume and crash.
    #[command(subcommand, visible_alias = "pointer")]
    Task(task::TaskCommand),
    /// Print the script with which a shell completes the words of pintle.
    ///
    /// For bash: `pintle completions bash >~/.local/share/bash-completion/completions/pintle`.
    Completions(manual::CompletionsArgs),
    /// Print the manual page of pintle or of one of its commands: `pintle man task install | man -l -`.
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1);
    // The keeper of a child may own no descriptor and no thread but its first, so it comes before everything else.
    if let Some(code) = commands::exec::run_if_asked(first.as_deref()) {
        return code;
    }
    if let Some(code) = commands::cel::run_if_asked(first.as_deref()) {
        return code;
    }
    let args: Vec<_> = std::env::args_os().collect();
    // Below `task` the exit codes are others, and the hook has no time for the rest.
    if let Some(code) = task::run_if_asked(&args) {
        return code;
    }
    let done = catch_unwind(AssertUnwindSafe(|| match Cli::try_parse() {
        Ok(cli) => run(&cli.command),
        Err(mut error) => {
            meant::agent_after_dashes(&mut error, &args, |args| Cli::try_parse_from(args).is_ok());
            if !error.use_stderr() {
                return finish(about::print(&error, &args), false) as u8;
            }
            // A closed standard error leaves nobody to tell.
            let _ = error.print();
            for_task(Exit::Usage) as u8
        }
    }));
    done.unwrap_or_else(|_| for_task(Exit::Panic) as u8).into()
}

/// Agents read the exit codes of `task` as decisions, 2 among them: there, wrong usage and panics are 1. This is for a
/// `task` behind other options; one that comes first never gets here.
fn for_task(exit: Exit) -> Exit {
    let group = std::env::args_os().skip(1).find(|arg| !arg.to_string_lossy().starts_with('-'));
    if group.is_some_and(|group| group == "task" || group == "pointer") { Exit::Failed } else { exit }
}

/// The exit code: one of ours, or the one of the agent that was relayed.
fn run(command: &Command) -> u8 {
    let (result, json) = match command {
        Command::Check(args) => (check::run(args), args.json()),
        Command::Judge(args) => (check::run_judge(args), args.json()),
        Command::Prompt(args) => (prompt::run(args), args.json()),
        Command::Driver(command) => (driver::run(command), command.json()),
        Command::Evidence(command) => (evidence::run(command), command.json()),
        Command::Json(command) => (json::run(command), false),
        Command::Mock(command) => (mock::run(command), false),
        Command::Trace(args) => match trace::run(args) {
            Ok(code) => return code,
            Err(error) => (Err(error), trace::json(args)),
        },
        Command::Completions(args) => (manual::completions(args, Cli::command()), false),
        Command::Man(args) => (manual::man(args, Cli::command()), false),
        Command::Task(command) => return task::run(command, std::ffi::OsStr::new("pintle")) as u8,
    };
    finish(result, json) as u8
}

fn finish(result: Result<Exit, CommandError>, json: bool) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error) if error.is_broken_pipe() => Exit::Ok,
        Err(error) => {
            error.print(json);
            error.exit()
        }
    }
}
