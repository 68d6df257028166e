//! `pintle __cel`: evaluates the assertions of a pack for the judge. Hidden, and started by pintle itself only.

use std::ffi::OsStr;
use std::process::ExitCode;

use anstream::eprintln;

/// The first argument of a process that is to evaluate.
pub(crate) const ARG: &str = "__cel";

/// Evaluates until end of input if the first argument asks for it; `None` if it does not.
pub(crate) fn run_if_asked(first: Option<&OsStr>) -> Option<ExitCode> {
    if first != Some(OsStr::new(ARG)) {
        return None;
    }
    let input = std::io::BufReader::new(std::io::stdin());
    Some(match pintle_check::cel::serve(input, std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    })
}
