//! `pintle task list` and `gc`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use pintle_pointer::{Agent, Observed, SessionId};
use pintle_store::RealFs;
use pintle_store::pointer::{Listed, PointerStore, fresh, is_alive, now_unix_seconds};

use super::roots::{Where, known_roots, offer_of_foreign_root, sessions};
use super::{Format, failed, note, print};
use crate::error::CommandError;
use crate::exit::Exit;

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
const DAY_S: i64 = 24 * HOUR_S;
/// The first line of a task is cut to this many characters where standard output is a terminal.
const FIRST_LINE_CHARS: usize = 60;

/// Options of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) place: Where,
    /// Also sessions without a task.
    #[arg(long)]
    pub(super) all: bool,
    /// Print a table, or one JSON object per line.
    #[arg(long, value_enum, default_value = "human")]
    pub(super) format: Format,
}

/// Options of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    place: Where,
    /// Sessions that were not used for this long: a number and d, h or m.
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    older_than: Age,
    /// Only say what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print lines, or one JSON object per session.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// A time that people write as `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Age {
    seconds: i64,
}

/// Lists the tasks that are alive; the number of each row is what `adopt` and `send` take.
pub(super) fn list(args: &ListArgs) -> Result<Exit, CommandError> {
    let rows = listed(&args.place, args.all)?;
    print(&rendered(&rows, args.format, std::io::stdout().is_terminal()))?;
    let anywhere = args.place.root.is_none() && args.place.agent.is_none_or(|agent| agent == Agent::Codex);
    if let Some(offer) = offer_of_foreign_root().filter(|_| anywhere) {
        note(&offer);
    }
    Ok(Exit::Ok)
}

/// The sessions that a list shows, in its order.
pub(super) fn listed(place: &Where, all: bool) -> Result<Vec<(PathBuf, Listed)>, CommandError> {
    let mut rows = sessions(place)?;
    if !all {
        rows.retain(|(_, one)| one.observed.task().is_some());
    }
    Ok(rows)
}

/// A table for people, or one JSON object per line.
pub(super) fn rendered(rows: &[(PathBuf, Listed)], format: Format, cut: bool) -> String {
    match format {
        Format::Human if rows.is_empty() => "no tasks\n".to_owned(),
        Format::Human => table(rows, cut),
        Format::Json => rows.iter().map(|(root, one)| format!("{}\n", json(root, one))).collect(),
    }
}

fn table(rows: &[(PathBuf, Listed)], cut: bool) -> String {
    let head = ["#", "PROJECT", "AGENT", "STATUS", "AGE", "SESSION", "TASK"].map(str::to_owned);
    let now = now_unix_seconds();
    let mut lines = vec![head];
    for (index, (_, one)) in rows.iter().enumerate() {
        let from = one.meta.sent_by.as_ref().map(|host| format!(" (from {})", printable(host))).unwrap_or_default();
        lines.push([
            (index + 1).to_string(),
            printable(&project(one)),
            printable(one.meta.agent.as_deref().unwrap_or("-")) + &from,
            status(&one.observed).to_owned(),
            age(now - one.last_used_unix_s()),
            one.session.to_string(),
            first_line(&one.observed, cut),
        ]);
    }
    let widths: Vec<usize> =
        (0..7).map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()).collect();
    let row = |line: &[String; 7]| {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    lines.iter().map(row).collect()
}

fn json(root: &std::path::Path, one: &Listed) -> serde_json::Value {
    serde_json::json!({
        "session_id": one.session.as_str(),
        "root": root.display().to_string(),
        "status": status(&one.observed),
        "task_id": one.observed.task().map(|task| task.id.as_str()),
        "first_line": one.observed.task().map(|task| task.text.first_line()),
        "agent": one.meta.agent,
        "cwd": one.meta.cwd,
        "host": one.meta.host,
        "sent_by": one.meta.sent_by,
        "last_used_unix_s": one.last_used_unix_s(),
        "live_terminals": one.meta.terminals.iter().filter(|terminal| is_alive(terminal)).count(),
    })
}

fn status(observed: &Observed) -> &'static str {
    if matches!(observed, Observed::Corrupt(_)) { "CORRUPT" } else { observed.status_word() }
}

/// The last folder of where the agent works.
fn project(one: &Listed) -> String {
    let cwd = one.meta.cwd.as_deref().unwrap_or("-");
    cwd.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(cwd).to_owned()
}

fn first_line(observed: &Observed, cut: bool) -> String {
    let line = observed.task().map(|task| task.text.first_line()).unwrap_or_default();
    if cut && line.chars().count() > FIRST_LINE_CHARS {
        return line.chars().take(FIRST_LINE_CHARS - 3).chain("...".chars()).collect();
    }
    line
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A time span in its greatest unit.
fn age(seconds: i64) -> String {
    match seconds {
        ..MINUTE_S => "now".to_owned(),
        MINUTE_S..HOUR_S => format!("{}m", seconds / MINUTE_S),
        HOUR_S..DAY_S => format!("{}h", seconds / HOUR_S),
        DAY_S.. => format!("{}d", seconds / DAY_S),
    }
}

/// Removes what is old, on request only: hooks never remove anything.
pub(super) fn gc(args: &GcArgs) -> Result<Exit, CommandError> {
    let before = now_unix_seconds() - args.older_than.seconds;
    let mut text = String::new();
    let mut kept = 0;
    for root in known_roots(&args.place)? {
        let store = PointerStore::new(&RealFs, &root);
        // Without random bits no folder gets a new name, so nothing is removed under a wrong one.
        let mut random = || fresh().map(|fresh| fresh.random).unwrap_or_default();
        let collected =
            store.collect(before, args.dry_run, &mut random).map_err(|error| failed("state", error.full_message()))?;
        let verb = if args.dry_run { "would_remove" } else { "removed" };
        let line = |session: &SessionId, action: &str, reason: Option<&str>| match (args.format, reason) {
            (Format::Json, _) => {
                let object = serde_json::json!({"session_id": session.as_str(), "action": action, "reason": reason,
                    "root": root.display().to_string()});
                format!("{object}\n")
            }
            (Format::Human, None) => format!("{} {session}\n", action.replace('_', " ")),
            (Format::Human, Some(reason)) => format!("{action} {session}: failed to {reason}\n"),
        };
        text.extend(collected.removed.iter().map(|session| line(session, verb, None)));
        kept += collected.kept.len();
        text.extend(collected.kept.iter().map(|(session, reason)| line(session, "kept", Some(reason))));
    }
    if text.is_empty() && args.format == Format::Human {
        text.push_str("nothing is that old\n");
    }
    print(&text)?;
    Ok(if kept == 0 { Exit::Ok } else { Exit::Failed })
}

fn parse_age(text: &str) -> Result<Age, String> {
    let wrong = || "a time is a number and d, h or m, such as 30d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: i64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let unit_s = match unit {
        'd' => DAY_S,
        'h' => HOUR_S,
        'm' => MINUTE_S,
        _ => return Err(wrong()),
    };
    match number.checked_mul(unit_s) {
        Some(seconds) if number >= 0 => Ok(Age { seconds }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, seconds) in [("30d", 30 * DAY_S), ("0m", 0), ("12h", 12 * HOUR_S)] {
            assert_eq!(parse_age(text), Ok(Age { seconds }));
        }
        for wrong in ["", "d", "30", "-1d", "1.5h", "30\u{e9}", "99999999999999999999d", "9999999999999999d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
        assert_eq!([0, 61, 7200, 200_000].map(age), ["now", "1m", "2h", "2d"]);
    }
}
