//! What a check leaves: standard output, report files, exit code.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use pintle_check::pack::Pack;
use pintle_check::report::{self, Report, TerminalStyle};
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

impl Files {
    /// The files that are wanted, with their options.
    fn wanted(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [("--junit", &self.junit), ("--sarif", &self.sarif), ("--html", &self.html), ("--md", &self.md)];
        all.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }
}

/// Tries whether the reports can be written, before the work that they are about is done.
pub(super) fn try_places(files: &Files, out: Option<&Path>) -> Result<(), CommandError> {
    if let Some(out) = out {
        let dir = std::path::absolute(out).map_err(|error| unwritable("--out", out, &error))?;
        fsx::ensure_dir(&RealFs, &dir).map_err(|error| unwritable("--out", out, &error))?;
        try_dir(&dir).map_err(|error| unwritable("--out", out, &error))?;
    }
    for (option, path) in files.wanted() {
        let full = std::path::absolute(path).map_err(|error| unwritable(option, path, &error))?;
        // A report is put in the place of a file; a device or a pipe would be gone.
        if std::fs::metadata(&full).is_ok_and(|meta| !meta.is_file()) {
            let refused = io::Error::other("it is there and is no plain file");
            return Err(unwritable(option, path, &refused));
        }
        try_dir(full.parent().unwrap_or(&full)).map_err(|error| {
            let refused = unwritable(option, path, &error);
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            if is_missing { refused.hint("the directory must be there") } else { refused }
        })?;
    }
    Ok(())
}

fn try_dir(dir: &Path) -> io::Result<()> {
    tempfile::Builder::new().prefix(".pintle-").tempfile_in(dir).map(drop)
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
        Format::Json => io::stdout().lock().write_all(&as_json(report)?)?,
    }
    for fault in &report.recording_faults {
        note(&format!("warning: {fault}"));
    }
    if let Some(out) = place.out {
        fsx::ensure_dir(&RealFs, out).map_err(|error| unwritable("--out", out, &error))?;
        for file in report::every_format(report).map_err(|error| not_written(&error))? {
            write("--out", &out.join(file.name), &file.bytes)?;
        }
    }
    for (option, path) in files.wanted() {
        let bytes = match option {
            "--junit" => report::junit(report).into_bytes(),
            "--sarif" => report::sarif(report).map_err(|error| not_written(&error))?,
            "--html" => report::html(report).into_bytes(),
            _ => report::markdown(report).into_bytes(),
        };
        write(option, path, &bytes)?;
    }
    Ok(())
}

fn write(option: &str, path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let full = std::path::absolute(path).map_err(|error| unwritable(option, path, &error))?;
    atomic::replace(&RealFs, &full, bytes).map_err(|error| unwritable(option, path, &error))
}

/// The path as the user gave it, and the last cause: what is between speaks of files that nobody knows.
fn unwritable(option: &str, path: &Path, error: &dyn std::error::Error) -> CommandError {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    CommandError::new(Exit::Usage, "report", format!("write `{}` for {option}: {cause}", path.display()))
}

/// The exit code that a report means.
///
/// An agent that did not start comes first, since nothing else was learned; then what failed, or, with a baseline, what is
/// worse than there; then the wish to authenticate; then what could not be judged.
pub(super) fn exit(report: &Report) -> Exit {
    let problem = report.problem.as_ref().map(|problem| problem.kind.as_str());
    if problem == Some("agent_did_not_start") {
        return Exit::NotStarted;
    }
    let failed = match &report.baseline {
        Some(baseline) => {
            for worse in &baseline.worse {
                let before = worse.before.as_deref().unwrap_or("not there");
                note(&format!("worse than the baseline: {} was {before}, is {}", worse.id, worse.now));
            }
            !baseline.worse.is_empty()
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
            writeln!(io::stdout().lock(), "{list}")?;
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
pub(crate) fn terminal_width() -> usize {
    let stdout = io::stdout();
    match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) => usize::from(size.ws_col),
        Err(_) => 0,
    }
}

#[cfg(not(unix))]
pub(crate) fn terminal_width() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use pintle_check::judge::FailOn;

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
            assert_eq!(exit(&report(outcomes, problem, verdict)), expected, "{outcomes:?}");
        }
    }

    #[test]
    fn a_baseline_forgives_what_it_knows_and_worse_outranks_open() {
        let known = report(&[("A", "must", "fail"), ("B", "must", "pass")], None, "nonconformant");
        let same = report(&[("A", "must", "fail"), ("B", "must", "pass")], None, "nonconformant");
        assert_eq!(exit(&same.clone().compared(&known, FailOn::Must)), Exit::Ok);
        let worse = report(&[("A", "must", "inconclusive"), ("B", "must", "fail")], None, "nonconformant");
        assert_eq!(exit(&worse.clone().compared(&known, FailOn::Must)), Exit::Failed);
        let unknown = report(&[("A", "must", "inconclusive"), ("B", "must", "pass")], None, "inconclusive");
        assert_eq!(exit(&unknown.clone().compared(&known, FailOn::Must)), Exit::Inconclusive);
    }

    /// A failure of what was not judged before, or was not there, is a new failure.
    #[test]
    fn what_fails_now_and_did_not_fail_then_is_worse() {
        let now = report(&[("A", "must", "fail")], None, "nonconformant");
        for before in ["pass", "inconclusive", "skipped", "warn"] {
            let known = report(&[("A", "must", before)], None, "conformant");
            assert_eq!(exit(&now.clone().compared(&known, FailOn::Must)), Exit::Failed, "{before}");
        }
        let empty = report(&[], None, "conformant");
        assert_eq!(exit(&now.clone().compared(&empty, FailOn::Must)), Exit::Failed);
        let warned = report(&[("A", "should", "warn")], None, "conformant");
        let clean = report(&[("A", "should", "pass")], None, "conformant");
        for (known, fail_on, expected) in [
            (&clean, FailOn::Must, Exit::Ok),
            (&clean, FailOn::Should, Exit::Failed),
            (&warned, FailOn::Should, Exit::Ok),
        ] {
            assert_eq!(exit(&warned.clone().compared(known, fail_on)), expected, "{fail_on:?}");
        }
    }
}
