//! `pintle driver`: the built-in drivers, and plumbing for driver authors.

mod acp;
mod command;
mod explain;
#[cfg(unix)]
mod kit;
#[cfg(unix)]
mod run;

use clap::Subcommand;

use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use command::DriverLine;

/// The built-in drivers, and plumbing for driver authors.
#[derive(Debug, Subcommand)]
pub(crate) enum DriverCommand {
    /// Say of every Driver RPC frame on standard input what it is, or why it is refused.
    ///
    /// One JSON object per frame, in order. A refused frame is a row like any other: the exit code is 0 unless reading or
    /// writing fails.
    Explain(explain::Args),
    /// Start a driver, let it carry out one operation, and print what it observes as NDJSON.
    ///
    /// Exit code: 0 the invocation completed, 1 it ended as errored or cancelled or was refused, 2 wrong usage or no
    /// such program, 3 the driver broke the protocol, hung or died, 5 it did not start.
    #[cfg(unix)]
    Run(Box<run::Args>),
    /// Check whether a driver keeps to Driver RPC v1, with good frames and bad ones.
    ///
    /// Exit code: 0 conformant, 1 a requirement failed, 2 wrong usage or no such program, 3 inconclusive, 5 the driver
    /// did not start.
    #[cfg(unix)]
    Check(Box<kit::Args>),
    /// Be the driver that carries out ACP scenarios: `pintle check` starts it and speaks Driver RPC on its streams.
    Acp,
}

impl DriverCommand {
    /// Whether errors are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Run(_) => true,
            #[cfg(unix)]
            Self::Check(args) => args.json(),
            Self::Explain(_) | Self::Acp => false,
        }
    }
}

/// Runs it.
pub(crate) fn run(command: &DriverCommand) -> Result<Exit, CommandError> {
    match command {
        DriverCommand::Explain(args) => explain::run(args),
        #[cfg(unix)]
        DriverCommand::Run(args) => run::run(args),
        #[cfg(unix)]
        DriverCommand::Check(args) => kit::run(args),
        DriverCommand::Acp => acp::run(),
    }
}
