//! What a check leaves: standard output, report files, exit code.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use pintle_check::judge::FailOn;
use pintle_check::pack::Pack;
use pintle_check::report::{self, Report, TerminalStyle, regressions};
use pintle_store::{RealFs, atomic, fsx};
use serde_json::json;

use super::Format;
use crate::error::{CommandError, chain};
use crate::exit::Exit;

/// Report files.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// Write a JUnit report to this file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a SARIF report to this file.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write an HTML report to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a Markdown report to this file.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
}

/// Where the evidence is, and where the user wants everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) run: Option<&'a Path>,
    pub(super) out: Option<&'a Path>,
}

/// Says something beside the result, on standard error.
pub(super) fn note(text: &str) {
    let mut err = anstream::stderr().lock();
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(err, "{text}");
}

/// Shows a report and writes the files that were asked for. A file that cannot be written is an error after the result
/// was shown.
pub(super) fn show(report: &Report, place: Place<'_>, files: &Files, format: Format) -> Result<(), CommandError> {
    match format {
        Format::Human => {
            let style = TerminalStyle { color: true, width: terminal_width() };
            // What the reader cannot show is taken out on the way.
            anstream::stdout().lock().write_all(report::terminal(report, style).as_bytes())?;
            if let Some(run) = place.run {
                note(&format!("evidence: {}", run.display()));
            }
        }
        Format::Json => std::io::stdout().lock().write_all(&as_json(report)?)?,
    }
    for fault in &report.recording_faults {
        note(&format!("warning: {fault}"));
    }
    let mut wanted: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    if let Some(out) = place.out {
        let every = report::every_format(report).map_err(|error| not_written(&error))?;
        wanted.extend(every.into_iter().map(|file| (out.join(file.name), file.bytes)));
    }
    if let Some(path) = &files.junit {
        wanted.push((path.clone(), report::junit(report).into_bytes()));
    }
    if let Some(path) = &files.sarif {
        wanted.push((path.clone(), report::sarif(report).map_err(|error| not_written(&error))?));
    }
    if let Some(path) = &files.html {
        wanted.push((path.clone(), report::html(report).into_bytes()));
    }
    if let Some(path) = &files.md {
        wanted.push((path.clone(), report::markdown(report).into_bytes()));
    }
    if let Some(out) = place.out {
        fsx::ensure_dir(&RealFs, out).map_err(|error| not_written(&error))?;
    }
    for (path, bytes) in wanted {
        let path = std::path::absolute(&path).unwrap_or(path);
        atomic::replace(&RealFs, &path, &bytes).map_err(|error| not_written(&error))?;
    }
    Ok(())
}

/// The exit code that a report means.
///
/// An agent that did not start comes first, since nothing else was learned; then what failed, or, with a baseline, what is
/// worse than there; then the wish to authenticate; then what could not be judged.
pub(super) fn exit(report: &Report, baseline: Option<&Report>, fail_on: FailOn) -> Exit {
    let problem = report.problem.as_ref().map(|problem| problem.kind.as_str());
    if problem == Some("agent_did_not_start") {
        return Exit::NotStarted;
    }
    let failed = match baseline {
        Some(baseline) => {
            let worse = regressions(baseline, report, fail_on);
            for regression in &worse {
                let before = regression.before.as_deref().unwrap_or("not there");
                note(&format!("worse than the baseline: {} was {before}, is {}", regression.id, regression.now));
            }
            !worse.is_empty()
        }
        None => report.verdict == "nonconformant",
    };
    let open = report.verdict == "inconclusive"
        || report.requirements.iter().any(|item| item.level.as_str() == "must" && item.outcome == "inconclusive");
    if failed {
        Exit::Failed
    } else if problem == Some("authentication_needed") {
        Exit::AuthRequired
    } else if open {
        Exit::Inconclusive
    } else {
        Exit::Ok
    }
}

/// Shows what is in a pack.
pub(super) fn list(pack: &Pack, format: Format) -> Result<(), CommandError> {
    match format {
        Format::Human => {
            let style = TerminalStyle { color: true, width: terminal_width() };
            anstream::stdout().lock().write_all(report::list(pack, style).as_bytes())?;
        }
        Format::Json => {
            let requirement = |requirement: &pintle_check::pack::Requirement| {
                json!({
                    "id": requirement.id, "level": requirement.level, "area": requirement.area,
                    "title": requirement.title, "spec": requirement.spec,
                })
            };
            let manifest = &pack.manifest;
            let scenario = |scenario: &pintle_check::pack::Scenario| {
                let requirements: Vec<_> = scenario.requirements.iter().map(requirement).collect();
                json!({"id": scenario.id, "title": scenario.title, "requirements": requirements})
            };
            let list = json!({
                "schema": "pintle.list.v1",
                "pack": {"name": manifest.name, "version": manifest.version, "digest": pack.digest},
                "requirements": manifest.requirements.iter().map(requirement).collect::<Vec<_>>(),
                "scenarios": pack.scenarios.iter().map(scenario).collect::<Vec<_>>(),
            });
            writeln!(std::io::stdout().lock(), "{list}")?;
        }
    }
    Ok(())
}

fn as_json(report: &Report) -> Result<Vec<u8>, CommandError> {
    report::json(report).map_err(|error| not_written(&error))
}

fn not_written(error: &dyn std::error::Error) -> CommandError {
    CommandError::new(Exit::Usage, "report", format!("write the report: {}", chain(error)))
}

#[cfg(unix)]
fn terminal_width() -> usize {
    let stdout = std::io::stdout();
    match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) => usize::from(size.ws_col),
        Err(_) => 0,
    }
}

#[cfg(not(unix))]
fn terminal_width() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: &[(&str, &str, &str)], problem: Option<&str>, verdict: &str) -> Report {
        let requirements: Vec<_> = outcomes
            .iter()
            .map(|(id, level, outcome)| {
                json!({"id": id, "level": level, "outcome": outcome, "area": "a", "title": "t", "spec": "-", "why": "w",
                    "evidence": []})
            })
            .collect();
        let problem = problem.map(|kind| json!({"kind": kind, "message": "m"}));
        serde_json::from_value(json!({
            "schema": "pintle.report.v1", "verdict": verdict, "demo": false, "problem": problem,
            "pintle": {"version": "0"}, "pack": {"name": "p", "version": "1", "spec_revision": "r", "digest": "d"},
            "agent": {"argv": [], "info": null, "protocol_version": null, "capabilities": null, "auth": null},
            "driver": {"name": "", "version": "", "argv": []}, "host": {"os": "", "arch": "", "cpus": 0}, "run": "",
            "counts": {"pass": 0, "fail": 0, "warn": 0, "skipped": 0, "inconclusive": 0},
            "requirements": requirements, "timing": {"started": "", "total_ms": 0, "scenarios": []},
        }))
        .expect("it is a report")
    }

    /// Design section 3: the order of the exit codes.
    #[test]
    fn the_exit_code_follows_the_worst_that_is_known() {
        let failed = [("A", "must", "fail"), ("B", "must", "inconclusive")];
        let open = [("A", "must", "pass"), ("B", "must", "inconclusive")];
        for (outcomes, problem, verdict, expected) in [
            (&failed, None, "nonconformant", Exit::Failed),
            (&open, None, "inconclusive", Exit::Inconclusive),
            (&open, Some("authentication_needed"), "inconclusive", Exit::AuthRequired),
            (&open, Some("agent_did_not_start"), "inconclusive", Exit::NotStarted),
            (&[("A", "must", "pass"), ("B", "should", "warn")], None, "conformant", Exit::Ok),
        ] {
            assert_eq!(exit(&report(outcomes, problem, verdict), None, FailOn::Must), expected, "{outcomes:?}");
        }
    }

    #[test]
    fn a_baseline_forgives_what_it_knows_and_worse_outranks_open() {
        let known = report(&[("A", "must", "fail"), ("B", "must", "pass")], None, "nonconformant");
        let same = report(&[("A", "must", "fail"), ("B", "must", "pass")], None, "nonconformant");
        assert_eq!(exit(&same, Some(&known), FailOn::Must), Exit::Ok);
        let worse = report(&[("A", "must", "inconclusive"), ("B", "must", "fail")], None, "nonconformant");
        assert_eq!(exit(&worse, Some(&known), FailOn::Must), Exit::Failed);
        let unknown = report(&[("A", "must", "inconclusive"), ("B", "must", "pass")], None, "inconclusive");
        assert_eq!(exit(&unknown, Some(&known), FailOn::Must), Exit::Inconclusive);
    }

    /// A failure of what was not judged before, or was not there, is a new failure.
    #[test]
    fn what_fails_now_and_did_not_fail_then_is_worse() {
        let now = report(&[("A", "must", "fail")], None, "nonconformant");
        for before in ["pass", "inconclusive", "skipped", "warn"] {
            let known = report(&[("A", "must", before)], None, "conformant");
            assert_eq!(exit(&now, Some(&known), FailOn::Must), Exit::Failed, "{before}");
        }
        let empty = report(&[], None, "conformant");
        assert_eq!(exit(&now, Some(&empty), FailOn::Must), Exit::Failed);
        let warned = report(&[("A", "should", "warn")], None, "conformant");
        let clean = report(&[("A", "should", "pass")], None, "conformant");
        for (known, fail_on, expected) in [
            (&clean, FailOn::Must, Exit::Ok),
            (&clean, FailOn::Should, Exit::Failed),
            (&warned, FailOn::Should, Exit::Ok),
        ] {
            assert_eq!(exit(&warned, Some(known), fail_on), expected, "{fail_on:?}");
        }
    }
}
