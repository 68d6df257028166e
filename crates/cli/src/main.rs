//! The `pintle` binary: dispatch and exit code.

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1);
    if let Some(code) = commands::exec::run_if_asked(first.as_deref()) {
        return code;
    }
    ExitCode::SUCCESS
}
