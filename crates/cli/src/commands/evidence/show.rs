//! `pintle evidence show`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;

use clap::Args;
use pintle_check::judge::ScenarioRun;
use pintle_check::report::Report;
use pintle_check::run::StoredCheck;
use pintle_check::trace::{Entry, EntryKind};
use pintle_store::evidence::StoredRun;
use serde_json::{Value, json};

use super::{From, Located, print, visible};
use crate::commands::check::Format;
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// Most bytes of a report that is read for what its requirements rest on.
const MAX_REPORT_BYTES: usize = 64 * 1024 * 1024;
/// How much of a line is shown where standard output is a terminal.
const LINE_CHARS: usize = 160;

/// Options of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run: `latest`, its id or the beginning of it, or the path of its directory or of an exported `.zip`.
    #[arg(value_name = "RUN", default_value = "latest")]
    run: String,
    /// Only the scenario that decided this requirement, with a mark at what proves it. Repeatable.
    #[arg(long = "requirement", value_name = "ID")]
    requirements: Vec<String>,
    /// Only this scenario. Repeatable.
    #[arg(long = "scenario", value_name = "ID")]
    scenarios: Vec<String>,
    /// The records of the journal, one JSON object per line, without the digests that chain them.
    #[arg(long, conflicts_with_all = ["requirements", "scenarios"])]
    records: bool,
    #[command(flatten)]
    from: From,
    /// What standard output gets: lines for people, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(super) format: Format,
}

/// What is asked for: scenarios, and in each the entries that prove something.
type Wanted = BTreeMap<String, BTreeSet<usize>>;

/// Runs it.
pub(super) fn run(args: &ShowArgs) -> Result<Exit, CommandError> {
    let located = Located::find(&args.run, args.from.dir.as_deref())?;
    let stored = &located.stored;
    if args.records {
        return records(stored);
    }
    let check = StoredCheck::load(stored).map_err(|error| {
        CommandError::caused(Exit::Failed, "run", &error).hint("`--records` shows the journal as it is")
    })?;
    let wanted = wanted(args, &check, stored)?;
    let is_wanted = |id: &str| wanted.as_ref().is_none_or(|wanted| wanted.contains_key(id));
    let no_marks = BTreeSet::new();
    let marks = |id: &str| wanted.as_ref().and_then(|wanted| wanted.get(id)).unwrap_or(&no_marks);
    let shown = check.evidence.iter().filter(|item| is_wanted(&item.id));
    match args.format {
        Format::Human => {
            let width = if std::io::stdout().is_terminal() { LINE_CHARS } else { 0 };
            let mut text = String::new();
            for gap in &check.gaps {
                text.push_str(&format!("warning: {}\n", visible(gap, 0)));
            }
            for item in shown {
                text.push_str(&format!("== {}\n", visible(&item.id, 0)));
                text.push_str(&lines(&item.run, marks(&item.id), width));
            }
            print(&text)?;
        }
        Format::Json => {
            let scenarios: Vec<Value> = shown.map(|item| as_json(&item.id, &item.run, marks(&item.id))).collect();
            let object = json!({
                "schema": "pintle.evidence.show.v1", "run": check.run, "gaps": check.gaps, "scenarios": scenarios,
            });
            print(&format!("{object}\n"))?;
        }
    }
    Ok(Exit::Ok)
}

/// `None` is everything.
fn wanted(args: &ShowArgs, check: &StoredCheck, stored: &StoredRun) -> Result<Option<Wanted>, CommandError> {
    if args.requirements.is_empty() && args.scenarios.is_empty() {
        return Ok(None);
    }
    let mut wanted = Wanted::new();
    for id in &args.scenarios {
        if !check.evidence.iter().any(|item| item.id == *id) {
            let known: Vec<&str> = check.evidence.iter().map(|item| item.id.as_str()).collect();
            return Err(CommandError::usage(format!("show the scenario `{id}`: the run has none of this name"))
                .hint(format!("it has {}", known.join(", "))));
        }
        wanted.entry(id.clone()).or_default();
    }
    if args.requirements.is_empty() {
        return Ok(Some(wanted));
    }
    let report = stored.file("report.json", MAX_REPORT_BYTES);
    let report = report.map_err(|error| CommandError::caused(Exit::Failed, error.class(), &error))?;
    let report: Report = serde_json::from_slice(&report).map_err(|error| {
        CommandError::new(Exit::Failed, "report", format!("read the report of the run: {}", chain(&error)))
    })?;
    for id in &args.requirements {
        let found = report.requirements.iter().find(|item| item.id == *id);
        let Some(item) = found else {
            return Err(CommandError::usage(format!("show the requirement `{id}`: the run has none of this id")));
        };
        let Some(scenario) = &item.scenario else {
            let why = item.reason.as_deref().unwrap_or(&item.outcome);
            return Err(CommandError::usage(format!("show the requirement `{id}`: no scenario decided it ({why})")));
        };
        wanted.entry(scenario.clone()).or_default().extend(item.evidence.iter().map(|evidence| evidence.index));
    }
    Ok(Some(wanted))
}

fn lines(run: &ScenarioRun, marks: &BTreeSet<usize>, width: usize) -> String {
    match run {
        ScenarioRun::Traced(trace) => trace.entries.iter().map(|entry| line(entry, marks, width)).collect(),
        ScenarioRun::LacksStep { operation } => {
            format!("   not carried out: the driver has no `{}`\n", visible(operation, 0))
        }
        ScenarioRun::Broken { fault, message } => {
            format!("   not carried out ({}): {}\n", fault.as_str(), visible(message, width))
        }
    }
}

/// `>` is what the client wrote, `<` what the agent wrote; `*` marks what proves a requirement.
fn line(entry: &Entry, marks: &BTreeSet<usize>, width: usize) -> String {
    let mark = if marks.contains(&entry.i) { '*' } else { ' ' };
    let arrow = match entry.dir.map(|dir| dir.as_str()) {
        Some("out") => ">",
        Some(_) => "<",
        None => "-",
    };
    let what = match entry.kind {
        EntryKind::Frame => String::new(),
        kind => format!("[{}] ", kind.as_str()),
    };
    let status = if entry.status.is_empty() { String::new() } else { format!("{} ", entry.status) };
    let times = if entry.count > 1 { format!(" ({} of them)", entry.count) } else { String::new() };
    let fault = if entry.fault.is_empty() { String::new() } else { format!("  !! {}", visible(&entry.fault, 80)) };
    let (name, text) = (visible(&entry.name, 40), visible(&entry.text, width));
    let colon = if name.is_empty() || text.is_empty() { "" } else { ": " };
    let line =
        format!("{mark}{:>5} {:>10.1} ms {arrow} {what}{status}{name}{colon}{text}{times}{fault}", entry.i, entry.t_ms);
    format!("{}\n", line.trim_end())
}

fn as_json(id: &str, run: &ScenarioRun, marks: &BTreeSet<usize>) -> Value {
    match run {
        ScenarioRun::Traced(trace) => {
            let entries: Vec<Value> = trace
                .entries
                .iter()
                .map(|entry| {
                    json!({
                        "index": entry.i, "t_ms": entry.t_ms, "kind": entry.kind.as_str(),
                        "dir": entry.dir.map(|dir| dir.as_str()), "line": entry.line, "step": entry.name,
                        "status": entry.status, "text": entry.text, "size": entry.size, "count": entry.count,
                        "fault": entry.fault, "proves": marks.contains(&entry.i),
                    })
                })
                .collect();
            json!({"scenario": id, "entries": entries})
        }
        ScenarioRun::LacksStep { operation } => json!({"scenario": id, "lacks_step": operation}),
        ScenarioRun::Broken { fault, message } => {
            json!({"scenario": id, "broken": {"fault": fault.as_str(), "message": message}})
        }
    }
}

fn records(stored: &StoredRun) -> Result<Exit, CommandError> {
    let unreadable =
        |error: pintle_store::evidence::ReadError| CommandError::caused(Exit::Failed, error.class(), &error);
    for record in stored.records().map_err(unreadable)? {
        let record = record.map_err(unreadable)?;
        print(&format!(
            "{{\"kind\":{},\"seq\":{},\"value\":{}}}\n",
            json!(record.kind),
            record.seq,
            record.value.get()
        ))?;
    }
    Ok(Exit::Ok)
}
