//! Markdown, for pull requests.

use std::fmt::Write as _;

use super::baseline::in_words;
use super::escape::{code, markdown as text};
use super::model::{Report, RequirementItem};

/// The report as GitHub-flavoured Markdown.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    let name = report.agent.info.get("name").and_then(serde_json::Value::as_str).unwrap_or("agent");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "# {}: {}\n", text(name), text(&report.verdict));
    let _ = writeln!(out, "{}\n", code(&report.agent.argv.join(" ")));
    let pack = &report.pack;
    let _ =
        writeln!(out, "Pack {} {}, pintle {}.\n", text(&pack.name), text(&pack.version), text(&report.pintle.version));
    if let Some(problem) = &report.problem {
        let _ = writeln!(out, "**{}**: {}\n", text(&problem.kind), text(&problem.message));
    }
    for note in &report.notes {
        let _ = writeln!(out, "**Note**: {}\n", text(note));
    }
    let counts = &report.counts;
    let _ = writeln!(out, "| pass | fail | warn | skipped | inconclusive |\n| ---: | ---: | ---: | ---: | ---: |");
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {} |\n",
        counts.pass, counts.fail, counts.warn, counts.skipped, counts.inconclusive
    );
    if let Some(section) = &report.baseline {
        let _ = writeln!(out, "Compared with a {}.\n", in_words(section));
        for worse in &section.worse {
            let before = worse.before.as_deref().unwrap_or("not there");
            let _ = writeln!(out, "- {} was {}, is {}", text(&worse.id), text(before), text(&worse.now));
        }
        if !section.worse.is_empty() {
            out.push('\n');
        }
    }
    for (heading, outcome) in [("Failed", "fail"), ("Could not be judged", "inconclusive"), ("Warnings", "warn")] {
        let items: Vec<_> = report.requirements.iter().filter(|item| item.outcome == outcome).collect();
        if items.is_empty() {
            continue;
        }
        let _ = writeln!(out, "## {heading}\n");
        for item in items {
            entry(&mut out, item);
        }
    }
    let _ = writeln!(out, "## All requirements\n\n| id | level | outcome | |\n| --- | --- | --- | --- |");
    for item in &report.requirements {
        let outcome = match &item.reason {
            Some(reason) => format!("{} ({reason})", item.outcome),
            None => item.outcome.clone(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            text(&item.id),
            item.level.as_str(),
            text(&outcome),
            text(&item.title)
        );
    }
    out
}

fn entry(out: &mut String, item: &RequirementItem) {
    let _ = writeln!(out, "### {} ({})\n\n{}\n", text(&item.id), item.level.as_str(), text(&item.title));
    if let Some(observed) = &item.observed {
        let _ = writeln!(out, "- Observed: {}", text(observed));
    }
    if !item.detail.is_empty() {
        let _ = writeln!(out, "- Decided by: {}", text(&item.detail));
    }
    let _ = writeln!(out, "- Why it matters: {}", text(&item.why));
    if let Some(scenario) = &item.scenario {
        let _ = writeln!(out, "- Scenario: {}", code(scenario));
    }
    for evidence in &item.evidence {
        let dir = match evidence.dir.as_deref() {
            Some("in") => "from the agent",
            Some(_) => "to the agent",
            None => evidence.kind.as_str(),
        };
        let line = evidence.line.map(|line| format!(", line {line}")).unwrap_or_default();
        let _ = writeln!(out, "- {:.1} ms, {dir}{line}: {}", evidence.t_ms, code(&evidence.excerpt));
    }
    out.push('\n');
}
