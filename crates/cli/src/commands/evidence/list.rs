//! `pintle evidence list`.

use std::sync::Arc;

use clap::Args;
use pintle_check::run::CheckFacts;
use pintle_store::RealFs;
use pintle_store::evidence::{Manifest, RunState, StoredRun, list_runs};
use serde_json::{Value, json};

use super::{From, count, locate, print, size, visible};
use crate::commands::check::Format;
use crate::error::CommandError;
use crate::exit::Exit;

/// Most bytes of a report that is looked into for its verdict.
const MAX_REPORT_BYTES: usize = 64 * 1024 * 1024;

/// Options of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    from: From,
    /// What standard output gets: a table, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(super) format: Format,
}

/// One run as it is listed.
struct Row {
    id: String,
    started: String,
    /// `finished`, `open` or `damaged`.
    state: &'static str,
    verdict: Option<String>,
    agent: Vec<String>,
    records: Option<u64>,
    bytes: u64,
    recording: Option<String>,
}

/// Runs it.
pub(super) fn run(args: &ListArgs) -> Result<Exit, CommandError> {
    let places = locate::places(args.from.dir.as_deref())?;
    let ids = list_runs(&RealFs, &places).map_err(|error| CommandError::caused(Exit::Failed, error.class(), &error))?;
    let rows: Vec<Row> = ids
        .iter()
        .map(|id| {
            let dir = places.runs.join(id.to_string());
            match StoredRun::open(Arc::new(RealFs), &dir) {
                Ok(stored) => row(&stored),
                Err(_) => damaged(id.to_string(), id.unix_millis()),
            }
        })
        .collect();
    print(&match args.format {
        Format::Human if rows.is_empty() => format!("no runs in {}\n", places.runs.display()),
        Format::Human => table(&rows),
        Format::Json => {
            let runs: Vec<Value> = rows.iter().map(as_json).collect();
            format!("{}\n", json!({"schema": "pintle.evidence.list.v1", "runs": runs}))
        }
    })?;
    Ok(Exit::Ok)
}

fn row(stored: &StoredRun) -> Row {
    let manifest = stored.manifest();
    let facts: Option<CheckFacts> = serde_json::from_str(manifest.facts.get()).ok();
    let report = stored.file("report.json", MAX_REPORT_BYTES).ok();
    let report: Option<Value> = report.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let verdict = report.as_ref().and_then(|report| report.get("verdict")?.as_str()).map(str::to_owned);
    Row {
        id: manifest.id.to_string(),
        started: began(manifest.id.unix_millis()),
        state: if manifest.state == RunState::Finished { "finished" } else { "open" },
        verdict,
        agent: facts
            .map(|facts| if facts.agent.demo { vec!["(built in)".to_owned()] } else { facts.agent.argv })
            .unwrap_or_default(),
        records: manifest.journal.map(|journal| journal.records),
        bytes: bytes(manifest),
        recording: manifest.recording.failure.clone(),
    }
}

fn damaged(id: String, millis: i64) -> Row {
    let (verdict, agent, records, recording) = (None, Vec::new(), None, None);
    Row { id, started: began(millis), state: "damaged", verdict, agent, records, bytes: 0, recording }
}

fn bytes(manifest: &Manifest) -> u64 {
    let journal = manifest.journal.map_or(0, |journal| journal.bytes);
    let files: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    journal + files + manifest.objects.iter().map(|object| object.bytes).sum::<u64>()
}

/// When a run began, to the second, in UTC.
fn began(millis: i64) -> String {
    jiff::Timestamp::from_second(millis.div_euclid(1000)).map(|time| time.to_string()).unwrap_or_default()
}

fn as_json(row: &Row) -> Value {
    json!({
        "id": row.id, "started": row.started, "state": row.state, "verdict": row.verdict, "agent": row.agent,
        "records": row.records, "bytes": row.bytes, "recording_failure": row.recording,
    })
}

fn table(rows: &[Row]) -> String {
    const AGENT_CHARS: usize = 48;
    let mut text = format!("{:36}  {:20}  {:13}  {:>10}  AGENT\n", "RUN", "STARTED", "VERDICT", "SIZE");
    for row in rows {
        let verdict = match (&row.verdict, row.state) {
            (Some(verdict), "finished") => visible(verdict, 13),
            (_, "open") => "(interrupted)".to_owned(),
            (_, "damaged") => "(damaged)".to_owned(),
            _ => "-".to_owned(),
        };
        let agent = visible(&row.agent.join(" "), AGENT_CHARS);
        let (started, size) = (&row.started, size(row.bytes));
        let line = format!("{:36}  {started:20}  {verdict:13}  {size:>10}  {agent}", row.id);
        text.push_str(line.trim_end());
        if let Some(class) = &row.recording {
            text.push_str(&format!("  (not fully recorded: {})", visible(class, 40)));
        }
        text.push('\n');
    }
    text.push_str(&format!("{}\n", count(rows.len() as u64, "run")));
    text
}
