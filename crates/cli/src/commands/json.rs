//! `pintle json`: what the strict scan and the canonical writer make of a text.

use std::io::{Read, Write};

use clap::Subcommand;
use pintle_wire::{MAX_DEPTH, Profile, ScanLimits, canonicalize, scan};

use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// The most that `canon` reads from standard input.
const INPUT_MAX_BYTES: usize = 64 << 20;

/// Strict JSON.
#[derive(Debug, Subcommand)]
pub(crate) enum JsonCommand {
    /// Write standard input in RFC 8785 canonical form, with no added newline.
    ///
    /// Exit code 1 when it is not strict JSON: not UTF-8, a member name twice, a lone surrogate, a number that no
    /// double holds, nesting deeper than 256, or more than one value.
    Canon,
}

/// Runs it.
pub(crate) fn run(command: &JsonCommand) -> Result<Exit, CommandError> {
    match command {
        JsonCommand::Canon => canon(&mut std::io::stdin().lock(), &mut std::io::stdout().lock()),
    }
}

fn canon(input: &mut dyn Read, output: &mut dyn Write) -> Result<Exit, CommandError> {
    let mut bytes = Vec::new();
    let limit = INPUT_MAX_BYTES as u64 + 1;
    input
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| CommandError::new(Exit::Failed, "input", format!("read standard input: {e}")))?;
    let limits = ScanLimits { max_bytes: INPUT_MAX_BYTES, max_depth: MAX_DEPTH };
    let not_strict = |error: &dyn std::error::Error| {
        let message = format!("read standard input as strict JSON: {}", chain(error));
        CommandError::new(Exit::Failed, "not_strict_json", message)
    };
    let text = scan(&bytes, Profile::DriverRpc, limits).map_err(|e| not_strict(&e))?;
    let canonical = canonicalize(&text).map_err(|e| not_strict(&e))?;
    output.write_all(&canonical)?;
    output.flush()?;
    Ok(Exit::Ok)
}
