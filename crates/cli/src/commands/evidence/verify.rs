//! `pintle evidence verify`.

use clap::Args;
use pintle_store::RealFs;
use pintle_store::evidence::{Audit, ReadError, RunState, Tail, list_runs};
use serde_json::{Value, json};

use super::locate::{LocateError, Located, places};
use super::{From, below, count, print, visible};
use crate::commands::check::Format;
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// Options of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The runs: `latest`, an id or the beginning of one, or the path of a directory or of an exported `.zip`. Default:
    /// `latest`.
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Every run.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    #[command(flatten)]
    from: From,
    /// What standard output gets: sentences, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(super) format: Format,
}

/// What was found about one run.
struct Verdict {
    run: String,
    whole: bool,
    audit: Option<Audit>,
    problems: Vec<String>,
}

/// Runs it.
pub(super) fn run(args: &VerifyArgs) -> Result<Exit, CommandError> {
    let known = places(args.from.dir.as_deref());
    let wanted = if args.all {
        let places = known.as_ref().map_err(|error| CommandError::usage(error.message()))?;
        let ids = list_runs(&RealFs, places);
        let ids = ids.map_err(|error| CommandError::caused(Exit::Usage, error.class(), &error))?;
        ids.iter().map(ToString::to_string).collect()
    } else if args.runs.is_empty() {
        vec!["latest".to_owned()]
    } else {
        args.runs.clone()
    };
    // A path needs no home.
    let places = known.unwrap_or_else(|_| pintle_store::evidence::Places::below("/nonexistent".as_ref()));
    let verdicts: Vec<Verdict> = wanted
        .into_iter()
        .map(|which| match Located::among(&which, &places) {
            Ok(located) => Ok(audited(&located)),
            Err(LocateError::Find(error)) => {
                Err(CommandError::caused(Exit::Usage, "run", &error).hint("`pintle evidence list` shows the runs"))
            }
            Err(error @ (LocateError::Scratch { .. } | LocateError::Read(ReadError::Fs(_)))) => {
                Err(CommandError::caused(Exit::Usage, "run", &error))
            }
            // There is such a run, and it is not as it was written.
            Err(error) => Ok(Verdict { run: which, whole: false, audit: None, problems: vec![chain(&error)] }),
        })
        .collect::<Result<_, _>>()?;
    print(&match args.format {
        Format::Human => verdicts.iter().map(sentences).collect::<String>(),
        Format::Json => {
            let runs: Vec<Value> = verdicts.iter().map(as_json).collect();
            format!("{}\n", json!({"schema": "pintle.evidence.verify.v1", "runs": runs}))
        }
    })?;
    Ok(if verdicts.iter().all(|verdict| verdict.whole) { Exit::Ok } else { Exit::Failed })
}

fn audited(located: &Located) -> Verdict {
    let stored = &located.stored;
    let run = stored.manifest().id.to_string();
    let audit = match stored.audit() {
        Ok(audit) => audit,
        // Of this run nothing can be said, and of the others all the same.
        Err(error) => return Verdict { run, whole: false, audit: None, problems: vec![chain(&error)] },
    };
    let mut problems: Vec<String> = audit.problems.iter().map(|problem| told(problem, stored.dir())).collect();
    if let Some(class) = &audit.failure {
        problems.push(format!("recording failed ({class}): what came after is not there"));
    }
    if audit.state == RunState::Open {
        problems.push("the run did not come to its end: it is being recorded, or was interrupted".to_owned());
    }
    if let Tail::Torn { bytes } = audit.tail {
        problems.push(format!("journal.ndjson: {bytes} bytes behind line {} are no record", audit.records));
    }
    Verdict { run, whole: audit.is_whole(), audit: Some(audit), problems }
}

/// File, line and what is wrong there.
fn told(problem: &ReadError, dir: &std::path::Path) -> String {
    match problem {
        ReadError::Journal { path, line, fault } => format!("{}: line {line} {fault}", below(path, dir)),
        ReadError::NoObject { path, .. } | ReadError::NoFile { path } => {
            format!("{}: it is not there", below(path, dir))
        }
        ReadError::Object { path, .. } => format!("{}: its content does not have its digest", below(path, dir)),
        ReadError::File { path } => format!("{}: its content is not what the manifest says", below(path, dir)),
        other => chain(other),
    }
}

fn sentences(verdict: &Verdict) -> String {
    let mut text = match &verdict.audit {
        Some(audit) => {
            let is = if verdict.whole { "as it was written" } else { "NOT whole" };
            let (records, objects) = (count(audit.records, "record"), count(audit.objects, "object"));
            format!("{}: {is} ({records}, {objects}, {})\n", verdict.run, count(audit.files, "file"))
        }
        None => format!("{}: NOT readable\n", visible(&verdict.run, 0)),
    };
    text.extend(verdict.problems.iter().map(|problem| format!("  {}\n", visible(problem, 0))));
    text
}

fn as_json(verdict: &Verdict) -> Value {
    let audit = verdict.audit.as_ref();
    json!({
        "run": verdict.run, "whole": verdict.whole, "problems": verdict.problems,
        "records": audit.map(|audit| audit.records), "objects": audit.map(|audit| audit.objects),
        "files": audit.map(|audit| audit.files),
    })
}
