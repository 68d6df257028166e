//! `pintle evidence`: what runs have kept.

mod list;
mod locate;
mod show;
mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use pintle_store::RealFs;
use pintle_store::evidence::{KeepLimits, export, gc, gc_plan};
use serde_json::json;

use crate::commands::check::Format;
use crate::error::CommandError;
use crate::exit::Exit;

pub(crate) use self::locate::Located;

/// Stored evidence.
#[derive(Debug, Subcommand)]
pub(crate) enum EvidenceCommand {
    /// List the runs, the newest last.
    List(list::ListArgs),
    /// Show what agent and client said in a run, in order.
    Show(show::ShowArgs),
    /// Check every digest of a run, and say where it first differs from what was written.
    ///
    /// Exit code: 0 all of it is as it was written, 1 something differs or is missing, 2 there is no such run.
    Verify(verify::VerifyArgs),
    /// Pack a run into one file, which `judge`, `show` and `verify` take. Equal runs give equal files.
    Export(ExportArgs),
    /// Remove old runs: those older than 30 days, beyond the newest 100, or beyond 1 GiB, whichever comes first.
    ///
    /// This happens by itself at the end of a check. The newest run stays, and nothing is removed while one is recorded.
    Gc(GcArgs),
}

/// Where the runs are.
#[derive(Debug, Args)]
pub(crate) struct From {
    /// The directory that a check was given as `--out`. Default: where checks without one keep their evidence.
    #[arg(long = "from", value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The run: `latest`, its id or the beginning of it, or the path of its directory.
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    from: From,
    /// What standard output gets: a sentence, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

/// Options of `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only say what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Keep runs of this many days.
    #[arg(long, value_name = "N", default_value_t = KeepLimits::default().days)]
    days: u32,
    /// Keep this many runs.
    #[arg(long, value_name = "N", default_value_t = KeepLimits::default().runs)]
    runs: usize,
    /// Keep this many MiB of runs and objects.
    #[arg(long, value_name = "N", default_value_t = KeepLimits::default().bytes >> 20)]
    mib: u64,
    #[command(flatten)]
    from: From,
    /// What standard output gets: a sentence, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

impl EvidenceCommand {
    /// Whether errors are wanted as JSON.
    pub(crate) fn json(&self) -> bool {
        let format = match self {
            Self::List(args) => args.format,
            Self::Show(args) => args.format,
            Self::Verify(args) => args.format,
            Self::Export(args) => args.format,
            Self::Gc(args) => args.format,
        };
        format == Format::Json
    }
}

/// Runs it.
pub(crate) fn run(command: &EvidenceCommand) -> Result<Exit, CommandError> {
    match command {
        EvidenceCommand::List(args) => list::run(args),
        EvidenceCommand::Show(args) => show::run(args),
        EvidenceCommand::Verify(args) => verify::run(args),
        EvidenceCommand::Export(args) => run_export(args),
        EvidenceCommand::Gc(args) => run_gc(args),
    }
}

fn run_export(args: &ExportArgs) -> Result<Exit, CommandError> {
    let located = Located::find(&args.run, args.from.dir.as_deref())?;
    let out = std::path::absolute(&args.out)
        .map_err(|e| CommandError::usage(format!("use the file `{}`: {e}", args.out.display())))?;
    let bytes =
        export(&RealFs, &located.stored, &out).map_err(|error| CommandError::caused(Exit::Failed, "export", &error))?;
    let id = located.stored.manifest().id;
    print(&match args.format {
        Format::Human => format!("{}: run {id}, {}\n", args.out.display(), size(bytes)),
        Format::Json => {
            let line =
                json!({"schema": "pintle.evidence.export.v1", "run": id.to_string(), "file": out, "bytes": bytes});
            format!("{line}\n")
        }
    })?;
    Ok(Exit::Ok)
}

fn run_gc(args: &GcArgs) -> Result<Exit, CommandError> {
    let places = locate::places(args.from.dir.as_deref())?;
    let limits = KeepLimits { days: args.days, runs: args.runs, bytes: args.mib.saturating_mul(1 << 20) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let collect = if args.dry_run { gc_plan } else { gc };
    let done = collect(&RealFs, &places, now, limits)
        .map_err(|error| CommandError::caused(Exit::Failed, error.class(), &error))?;
    let removed: Vec<String> = done.removed_runs.iter().map(ToString::to_string).collect();
    print(&match args.format {
        Format::Json => {
            let line = json!({
                "schema": "pintle.evidence.gc.v1", "dry_run": args.dry_run, "skipped": done.skipped,
                "removed_runs": removed, "removed_objects": done.removed_objects, "freed_bytes": done.freed_bytes,
                "kept_runs": done.kept_runs,
            });
            format!("{line}\n")
        }
        Format::Human if done.skipped => "nothing is removed while a run is being recorded\n".to_owned(),
        Format::Human => {
            let verb = if args.dry_run { "would remove" } else { "removed" };
            let mut text: String = removed.iter().map(|run| format!("{verb} {run}\n")).collect();
            let (runs, objects) = (count(removed.len() as u64, "run"), count(done.removed_objects, "object"));
            let freed = size(done.freed_bytes);
            text.push_str(&format!("{verb} {runs} and {objects}, {freed}; {} kept\n", done.kept_runs));
            text
        }
    })?;
    Ok(Exit::Ok)
}

/// Writes to standard output.
fn print(text: &str) -> Result<(), CommandError> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// What came from an agent or a disk, on one line and without what a terminal would act on, cut at `width` characters (0
/// is no limit).
fn visible(text: &str, width: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if width > 0 && count + 3 >= width && text.chars().nth(width).is_some() {
            out.push_str("...");
            break;
        }
        match c {
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.extend(c.escape_default());
            }
            c => out.push(c),
        }
    }
    out
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A number of things in words.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// How a path is shown: relative to the run where it lies in it.
fn below(path: &Path, dir: &Path) -> String {
    visible(&path.strip_prefix(dir).unwrap_or(path).display().to_string(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        for (text, width, expected) in [
            ("plain", 0, "plain"),
            ("a\u{1b}[31mred\nb", 0, "a\\u{1b}[31mred\\nb"),
            ("\u{202e}abc", 0, "\\u{202e}abc"),
            ("0123456789", 10, "0123456789"),
            ("0123456789a", 10, "0123456..."),
        ] {
            assert_eq!(visible(text, width), expected);
        }
    }

    #[test]
    fn sizes_are_for_people() {
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}
