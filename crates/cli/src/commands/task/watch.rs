//! `pintle task watch`: the list, kept up to date.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

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
        if !wait(&out) {
            return Ok(Exit::Ok);
        }
    }
}

/// Lets the time until the next look go by; says whether somebody still reads.
#[cfg(unix)]
fn wait(out: &io::StdoutLock<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let ends = Instant::now() + LOOK_EVERY;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        // Without a flag that is asked for, only what always counts is told: that the reader is gone.
        let mut fds = [PollFd::new(out, PollFlags::empty())];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return true,
            Ok(_) => return !fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                std::thread::sleep(left);
                return true;
            }
        }
    }
}

/// Lets the time until the next look go by. That nobody reads shows at the next change only.
#[cfg(not(unix))]
fn wait(_out: &io::StdoutLock<'_>) -> bool {
    std::thread::sleep(LOOK_EVERY);
    true
}
