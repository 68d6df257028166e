//! `pintle task mcp`: the task pointer as three MCP tools on standard input and output (A3).
//!
//! The host starts it outside its sandbox, so the model can publish where a shell command may not write. A tool does what
//! the command of the same name does, through the same functions: same comparison, same receipts, same codes.

mod stdio;
mod tools;

use std::path::PathBuf;

use clap::Args;
use pintle_pointer::Agent;
use rmcp::ServiceExt;

use super::failed;
use crate::error::CommandError;
use crate::exit::Exit;

/// How many calls may wait for a lock at the same time; more wait for their turn.
const CALLS_AT_ONCE: usize = 4;

/// Options of `mcp`.
#[derive(Debug, Default, Args)]
pub(crate) struct McpArgs {
    /// The agent whose sessions are served; default: those of every known root.
    #[arg(long, value_name = "AGENT")]
    agent: Option<Agent>,
    /// The state root; default: the one that has the session.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Serves until the host closes standard input.
pub(super) fn mcp(args: &McpArgs) -> Result<Exit, CommandError> {
    let wrong = |error: &dyn std::fmt::Display| failed("mcp", format!("serve MCP on standard input: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(CALLS_AT_ONCE)
        .build()
        .map_err(|error| wrong(&error))?;
    let server = tools::Tools::new(args.root.clone(), args.agent);
    runtime.block_on(async {
        let transport = stdio::transport().map_err(|error| wrong(&error))?;
        match server.serve(transport).await {
            Ok(running) => running.waiting().await.map_err(|error| wrong(&error)).map(|_| Exit::Ok),
            // A host that only looked whether the program starts.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(Exit::Ok),
            Err(error) => Err(wrong(&error)),
        }
    })
}
