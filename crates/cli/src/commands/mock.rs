//! `pintle mock`: peers to test against.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::{Args, Subcommand};
use pintle_check::mock::{FAULTS, Fault, MockOptions, serve_mock};
use pintle_check::pack::Pack;
use pintle_sdk::transport::stdio;

use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// How long the process that the fault `leaves-child` leaves behind stays, in seconds.
const LEFT_CHILD_S: &str = "30";

/// Peers to test against.
#[derive(Debug, Subcommand)]
pub(crate) enum MockCommand {
    /// The reference agent on standard input and output: every stable method and update of ACP v1, chosen by the text of
    /// the prompt (say `help`).
    Agent(AgentArgs),
}

/// How the mock agent behaves.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// One thing to do wrong.
    #[arg(long, value_name = "NAME")]
    fault: Option<Fault>,
    /// List the faults and the requirements of the pack acp-v1 that each of them breaks.
    #[arg(long, conflicts_with = "fault")]
    list_faults: bool,
}

/// Runs it.
pub(crate) fn run(command: &MockCommand) -> Result<Exit, CommandError> {
    let MockCommand::Agent(args) = command;
    if args.list_faults {
        return list();
    }
    let options = MockOptions {
        fault: args.fault,
        die: Arc::new(|| std::process::abort()),
        pack: Pack::embedded().ok().map(|pack| Arc::new(pack.manifest)),
    };
    if args.fault == Some(Fault::LeavesChild) {
        leave_child();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CommandError::new(Exit::Failed, "runtime", format!("start the runtime: {e}")))?;
    let served = runtime.block_on(serve_mock(options, stdio()));
    if args.fault == Some(Fault::IgnoresEof) {
        loop {
            std::thread::park();
        }
    }
    served.map_err(|e| CommandError::new(Exit::Failed, "serve", format!("serve on standard input: {}", chain(&e))))?;
    Ok(Exit::Ok)
}

fn list() -> Result<Exit, CommandError> {
    let mut out = std::io::stdout().lock();
    for row in FAULTS {
        writeln!(out, "{:24} {}\n{:24} breaks {}", row.name, row.what, "", row.fails.join(", "))?;
    }
    Ok(Exit::Ok)
}

/// A process that outlives this one, as a careless agent leaves one. It ends by itself.
fn leave_child() {
    let mut child = Command::new("sleep");
    child.arg(LEFT_CHILD_S).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without a `sleep` there is nothing to leave, and the check that should see it says so.
    let _ = child.spawn();
}
