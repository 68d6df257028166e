//! `pintle task watch`: the list, kept up to date.

use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;

use super::Format;
use super::list::{listed, rendered};
use super::roots::Where;
use crate::error::CommandError;
use crate::exit::Exit;

/// How often the sessions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Options of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    place: Where,
    /// Also sessions without a task.
    #[arg(long)]
    all: bool,
    /// Redraw a table, or print the JSON object of each session that changes.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Shows the list and every change of it, until it is interrupted or nobody reads.
pub(super) fn watch(args: &WatchArgs) -> Result<Exit, CommandError> {
    let mut out = io::stdout().lock();
    let redraw = out.is_terminal() && args.format == Format::Human;
    let mut shown = String::new();
    loop {
        let rows = listed(&args.place, args.all)?;
        let text = rendered(&rows, args.format, redraw);
        if text != shown {
            let news = match args.format {
                Format::Human if redraw => format!("\x1b[2J\x1b[H{text}"),
                Format::Human => format!("{text}\n"),
                Format::Json => text
                    .lines()
                    .filter(|line| !shown.lines().any(|old| old == *line))
                    .map(|line| format!("{line}\n"))
                    .collect(),
            };
            out.write_all(news.as_bytes())?;
            out.flush()?;
            shown = text;
        }
        thread::sleep(LOOK_EVERY);
    }
}
