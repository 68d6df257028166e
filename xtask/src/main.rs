//! Chores of the workspace: `cargo xtask tidy` checks what no compiler checks, `cargo xtask peers` runs
//! `pintle check` against agents on the official SDKs and compares each outcome with the committed one, `cargo xtask
//! interop` plays scenarios with clients and agents on them.

mod facts;
mod install;
mod interop;
mod layers;
mod peers;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy\n       cargo xtask peers [--only NAME] [--bless] [--pintle PATH]
       cargo xtask interop [--only NAME] [--pintle PATH]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(&root()),
        ["peers", rest @ ..] => peers::run(&root(), rest),
        ["interop", rest @ ..] => interop::run(&root(), rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The workspace root: the parent of this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
