//! `pintle driver`: the built-in drivers, and plumbing for driver authors.

mod acp;
mod explain;

use clap::Subcommand;

use crate::error::CommandError;
use crate::exit::Exit;

/// The built-in drivers, and plumbing for driver authors.
#[derive(Debug, Subcommand)]
pub(crate) enum DriverCommand {
    /// Say of every Driver RPC frame on standard input what it is, or why it is refused.
    ///
    /// One JSON object per frame, in order. A refused frame is a row like any other: the exit code is 0 unless reading or
    /// writing fails.
    Explain(explain::Args),
    /// Be the driver that carries out ACP scenarios: `pintle check` starts it and speaks Driver RPC on its streams.
    Acp,
}

/// Runs it.
pub(crate) fn run(command: &DriverCommand) -> Result<Exit, CommandError> {
    match command {
        DriverCommand::Explain(args) => explain::run(args),
        DriverCommand::Acp => acp::run(),
    }
}
