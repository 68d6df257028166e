//! `pintle task show` and `history`.

use std::fmt::Write;

use clap::Args;
use pintle_pointer::{Observed, Pointer, Publisher, State, context};
use pintle_store::RealFs;
use pintle_store::pointer::PointerStore;

use super::roots::{Where, meant_session};
use super::{Format, failed, print};
use crate::error::CommandError;
use crate::exit::Exit;

/// Options of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session; default: the one whose agent runs this command, else the one used last in this directory.
    #[arg(value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Print for people, or the record.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Print the block that the model reads.
    #[arg(long, conflicts_with = "format")]
    context: bool,
}

/// Options of `history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The session; default: as for show.
    #[arg(value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Print for people, or one record per line.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Shows what is stored.
pub(super) fn show(args: &ShowArgs) -> Result<Exit, CommandError> {
    let (root, session) = meant_session(&args.place, args.session.as_deref())?;
    let store = PointerStore::new(&RealFs, root);
    let observed = store.observe(&session).map_err(|error| failed("state", error.full_message()))?;
    if let Observed::Corrupt(fault) = &observed {
        return Err(failed("corrupt", format!("read `{}`: {fault}", store.state_path(&session).display()))
            .hint(format!("set it aside with: pintle task doctor --repair --session {session}")));
    }
    if args.context {
        print(&format!("{}\n", context::full(&session, &observed, &Publisher::Tool)))?;
        return Ok(Exit::Ok);
    }
    match (&observed, args.format) {
        (Observed::Absent, _) => {
            return Err(failed("no_state", format!("show session {session}: it has no task and never had one")));
        }
        (Observed::Current(state), Format::Json) => print(&format!("{}\n", json_line(state)))?,
        (_, Format::Json) => {
            return Err(failed("legacy", format!("show session {session} as JSON: it is stored in schema 2"))
                .hint("the next prompt or publish upgrades it"));
        }
        (_, Format::Human) => print(&human(session.as_str(), &observed))?,
    }
    Ok(Exit::Ok)
}

/// Shows what was published before.
pub(super) fn history(args: &HistoryArgs) -> Result<Exit, CommandError> {
    let (root, session) = meant_session(&args.place, args.session.as_deref())?;
    let states =
        PointerStore::new(&RealFs, root).history(&session).map_err(|error| failed("state", error.full_message()))?;
    let mut text = String::new();
    for state in &states {
        match args.format {
            Format::Json => text.push_str(&json_line(state)),
            Format::Human => {
                let _ = write!(text, "{}  revision {}  {}", state.updated_at, state.revision, state.pointer.status());
                if let Some(task) = state.pointer.task() {
                    for line in visible_lines(task.text.as_str()) {
                        let _ = write!(text, "\n    {line}");
                    }
                }
            }
        }
        text.push('\n');
    }
    if states.is_empty() && args.format == Format::Human {
        text.push_str("nothing was published in this session\n");
    }
    print(&text)?;
    Ok(Exit::Ok)
}

fn human(session: &str, observed: &Observed) -> String {
    let (revision, updated_at) = match observed {
        Observed::Current(state) => (state.revision, state.updated_at),
        Observed::Legacy(state) => (state.revision, state.updated_at),
        Observed::Absent | Observed::Corrupt(_) => return String::new(),
    };
    let mut text = format!(
        "session   {session}\nstatus    {}\nrevision  {revision}\nupdated   {updated_at}\n",
        observed.status_word()
    );
    match observed.pointer().and_then(Pointer::task) {
        Some(task) => {
            let _ = writeln!(text, "task      {}\n", task.id);
            for line in visible_lines(task.text.as_str()) {
                let _ = writeln!(text, "{line}");
            }
        }
        None => text.push_str("\nno task\n"),
    }
    text
}

/// Lines without the characters by which a text could take over the terminal.
pub(super) fn visible_lines(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(|line| {
        line.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
    })
}

/// A state as one line of JSON.
pub(super) fn json_line(state: &State) -> String {
    String::from_utf8_lossy(&state.to_bytes()).lines().map(str::trim_start).collect()
}
