//! `pintle task ..`, the task pointer; `pintle pointer ..` is the same command.
//!
//! Exit codes here are 0, 1 and 2 and nothing else (A12): an agent reads 2 as "block the prompt", so neither the argument
//! parser's 2 nor a panic's 70 may reach it. Standard output is written in one piece at the end, so that a command that
//! fails has written nothing.

mod child;
mod doctor;
mod fast;
mod hook;
mod import;
mod install;
mod list;
#[cfg(feature = "mcp")]
mod mcp;
mod moving;
mod publish;
mod roots;
mod set;
mod show;
mod stdin;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::about;
use crate::error::CommandError;
use crate::exit::Exit;

/// Commands below `pintle task`.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Record what a session works on and what comes next.
    Set(set::SetArgs),
    /// Mark the task of a session as done.
    Done(set::ClearArgs),
    /// Forget the task of a session, whatever it holds.
    Clear(set::ClearArgs),
    /// Show the task of a session.
    Show(show::ShowArgs),
    /// List tasks: project, agent, age, first line.
    List(list::ListArgs),
    /// Show the last published states of a session.
    History(show::HistoryArgs),
    /// Show the tasks and keep the view up to date.
    Watch(watch::WatchArgs),
    /// Take over a task of another session, by its id or its number in the list.
    Adopt(moving::AdoptArgs),
    /// Send a task to another machine, over ssh.
    Send(moving::SendArgs),
    /// Take in a task: a sent one on standard input, or one from another program's JSON file.
    Import(import::ImportArgs),
    /// Remove sessions that were not used for a time.
    Gc(list::GcArgs),
    /// Publish a task: one JSON request on standard input, one JSON receipt on standard output.
    Publish(publish::PublishArgs),
    /// Write hooks, MCP server and rules into the settings of coding agents.
    Install(install::InstallArgs),
    /// Take everything of ours out of the settings of coding agents.
    Uninstall(install::UninstallArgs),
    /// Undo one install or uninstall.
    Rollback(install::RollbackArgs),
    /// Say what is installed, whether it runs and whether the state can be trusted; repair what can be repaired.
    Doctor(doctor::DoctorArgs),
    /// Serve the tools task_get, task_publish and task_clear over MCP, on standard input and output.
    #[cfg(feature = "mcp")]
    Mcp(mcp::McpArgs),
    /// Answer an agent's hook: its JSON on standard input, the answer on standard output.
    Hook(hook::HookArgs),
}

/// The task pointer: what a session works on, kept through compaction, resume and crash.
#[derive(Debug, Parser)]
#[command(name = "pintle task", version, propagate_version = true, arg_required_else_help = true)]
struct TaskCli {
    #[command(subcommand)]
    command: TaskCommand,
}

/// Runs a command line that begins with `task` or `pointer`, whole; `None` for any other.
pub(crate) fn run_if_asked(args: &[OsString]) -> Option<ExitCode> {
    if !matches!(args.get(1).and_then(|word| word.to_str()), Some("task" | "pointer")) {
        return None;
    }
    let words = &args[2..];
    let program = args[0].as_os_str();
    say_panics_in_one_line();
    // Hooks run at every prompt: they do without the argument parser, whose table takes longer to build than the whole
    // rest of their work. What the fast reader does not know goes to the parser, for its messages.
    Some(guarded(|| match fast::parse(words) {
        Some(fast::Fast::Hook(args)) => finish(hook::hook(&args, program)),
        Some(fast::Fast::Publish(args)) => finish(publish::publish(&args)),
        None => parse_and_run(words, program),
    }))
}

#[inline(never)]
fn parse_and_run(words: &[OsString], program: &OsStr) -> Exit {
    let line = std::iter::once(OsString::from("pintle task")).chain(words.iter().cloned());
    match TaskCli::try_parse_from(line) {
        Ok(cli) => run(&cli.command, program),
        Err(error) if !error.use_stderr() => finish(about::print(&error, words)),
        Err(error) => {
            let _ = error.print();
            Exit::Failed
        }
    }
}

/// Lets a panic say one line on standard error: the place and not its own message, which may quote a pointer text.
fn say_panics_in_one_line() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
        let _ = writeln!(io::stderr().lock(), "pintle: stopped by a fault of its own{place}; please report it");
    }));
}

/// A panic is exit code 1 here, with nothing on standard output.
fn guarded(body: impl FnOnce() -> Exit) -> ExitCode {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Exit::Failed).into()
}

/// Lets a test see what a panic does to a whole process. Not in a program that is shipped: those have no debug assertions.
#[cfg(debug_assertions)]
fn panic_if_asked(place: &str) {
    if std::env::var_os("PINTLE_TEST_PANIC").is_some_and(|asked| asked == place) {
        panic!("asked for in {place}");
    }
}

#[cfg(not(debug_assertions))]
const fn panic_if_asked(_place: &str) {}

/// Runs a parsed command. `program` is the word by which this process was started.
pub(crate) fn run(command: &TaskCommand, program: &OsStr) -> Exit {
    finish(match command {
        TaskCommand::Set(args) => set::set(args),
        TaskCommand::Done(args) => set::done(args),
        TaskCommand::Clear(args) => set::clear(args),
        TaskCommand::Show(args) => show::show(args),
        TaskCommand::List(args) => list::list(args),
        TaskCommand::History(args) => show::history(args),
        TaskCommand::Watch(args) => watch::watch(args),
        TaskCommand::Adopt(args) => moving::adopt(args),
        TaskCommand::Send(args) => moving::send(args),
        TaskCommand::Import(args) => import::import(args),
        TaskCommand::Gc(args) => list::gc(args),
        TaskCommand::Install(args) => install::install(args),
        TaskCommand::Uninstall(args) => install::uninstall(args),
        TaskCommand::Rollback(args) => install::rollback(args),
        TaskCommand::Doctor(args) => doctor::doctor(args),
        TaskCommand::Publish(args) => publish::publish(args),
        #[cfg(feature = "mcp")]
        TaskCommand::Mcp(args) => mcp::mcp(args),
        TaskCommand::Hook(args) => hook::hook(args, program),
    })
}

fn finish(result: Result<Exit, CommandError>) -> Exit {
    match result {
        Ok(exit) => exit,
        Err(error) if error.is_broken_pipe() => Exit::Ok,
        Err(error) => {
            error.print(false);
            // A usage error has the number of a refusal, and must not be taken for one.
            if error.exit() == REFUSED && error.class() != "usage" { REFUSED } else { Exit::Failed }
        }
    }
}

/// Exit code 2, which here means that a publish was refused or a prompt blocked.
const REFUSED: Exit = Exit::Usage;

/// How a command for people prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Lines and tables.
    Human,
    /// One JSON object or one per line.
    Json,
}

/// Writes everything at once.
fn print(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A line on standard error that the user should see.
fn warn(text: &str) {
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let _ = writeln!(anstream::stderr().lock(), "{yellow}warning{yellow:#}: {text}");
}

/// A line on standard error that may help.
fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "note: {text}");
}

/// A failure of the user's command; the exit code is 1 here.
fn failed(class: &'static str, message: impl std::fmt::Display) -> CommandError {
    CommandError::new(Exit::Failed, class, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A12: a panic ends with 1, never with the 101 of a thread or the 70 of other commands.
    #[test]
    fn a_panic_is_exit_code_one() {
        let code = guarded(|| panic!("a bug"));
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(1)));
    }
}
