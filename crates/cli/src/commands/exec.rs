//! `pintle __exec`: the keeper of a child. Hidden, and started by pintle itself only.

use std::{ffi::OsStr, process::ExitCode};

use anstream::eprintln;
use pintle_sdk::shim::{self, ShimError};

/// Becomes the keeper if the first argument asks for it; `None` if it does not.
///
/// To be called before anything else: a keeper may own no descriptor and no thread but its first. It never sees the
/// argument parser, whose tables cost more than the keeper's whole start.
pub(crate) fn run_if_asked(first: Option<&OsStr>) -> Option<ExitCode> {
    if first != Some(OsStr::new(shim::ARG)) {
        return None;
    }
    Some(match shim::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: failed to {error}");
            ExitCode::from(if matches!(error, ShimError::NotStartedByOwner) { 2 } else { 1 })
        }
    })
}
