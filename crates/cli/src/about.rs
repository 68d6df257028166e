//! What pintle says of itself when it is asked to: its help and its versions.

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use pintle_acp::types::ProtocolVersion;
use pintle_check::pack::Pack;
use pintle_driver::PROTOCOL_VERSION;

use crate::error::CommandError;
use crate::exit::Exit;

/// Prints what the argument parser was asked for in place of a command.
pub(crate) fn print(asked: &clap::Error, args: &[OsString]) -> Result<Exit, CommandError> {
    let text = match asked.kind() {
        ErrorKind::DisplayVersion => version(args),
        _ => asked.render().ansi().to_string(),
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Ok)
}

/// One line for `-V`. For `--version` also what a report of a fault needs.
fn version(args: &[OsString]) -> String {
    let mut text = format!("pintle {}\n", env!("CARGO_PKG_VERSION"));
    if args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--version") {
        text.push_str(&format!("target: {}\n", env!("PINTLE_TARGET")));
        // It is loaded here and nowhere sooner: other commands do without.
        if let Ok(Pack { manifest, .. }) = Pack::embedded() {
            text.push_str(&format!("pack: {} {}\n", manifest.name, manifest.version));
        }
        text.push_str(&format!("ACP: protocol version {}\n", ProtocolVersion::LATEST));
        text.push_str(&format!("Driver RPC: {PROTOCOL_VERSION}\n"));
    }
    text
}
