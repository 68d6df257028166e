//! One HTML file without scripts or references to anything else.

use std::fmt::Write as _;

use super::baseline::in_words;
use super::escape::markup as text;
use super::model::{Report, RequirementItem};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}\
code,pre{font:13px/1.4 ui-monospace,monospace}pre{overflow-x:auto;background:#f5f5f3;padding:.6rem;white-space:pre-wrap;word-break:break-all}\
table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}\
.pass{color:#1a7f37}.fail{color:#cf222e;font-weight:600}.warn{color:#9a6700}.skipped{color:#57606a}.inconclusive{color:#8250df}\
section{border-top:1px solid #ddd;margin-top:1.2rem}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#222}.pass{color:#3fb950}.fail{color:#ff7b72}\
.warn{color:#d29922}.skipped{color:#8b949e}.inconclusive{color:#bc8cff}section{border-color:#333}}";

/// The report as one page.
pub fn html(report: &Report) -> String {
    let name = report.agent.info.get("name").and_then(serde_json::Value::as_str).unwrap_or("agent");
    let mut out = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{}: {}</title>\n<style>{STYLE}</style>",
        text(name),
        text(&report.verdict)
    );
    let verdict_class = match report.verdict.as_str() {
        "conformant" => "pass",
        "nonconformant" => "fail",
        _ => "inconclusive",
    };
    let _ = writeln!(out, "<h1>{}: <span class=\"{verdict_class}\">{}</span></h1>", text(name), text(&report.verdict));
    let pack = &report.pack;
    let _ = writeln!(
        out,
        "<p><code>{}</code><br>pack {} {}, pintle {}, run {}</p>",
        text(&report.agent.argv.join(" ")),
        text(&pack.name),
        text(&pack.version),
        text(&report.pintle.version),
        text(&report.run)
    );
    if let Some(problem) = &report.problem {
        let _ = writeln!(out, "<p class=\"fail\">{}: {}</p>", text(&problem.kind), text(&problem.message));
        if !problem.stderr.is_empty() {
            let _ = writeln!(out, "<pre>{}</pre>", text(&problem.stderr));
        }
    }
    for note in &report.notes {
        let _ = writeln!(out, "<p>Note: {}</p>", text(note));
    }
    if let Some(section) = &report.baseline {
        let _ = writeln!(out, "<p>Compared with a {}</p>", text(&in_words(section)));
    }
    let counts = &report.counts;
    let _ = writeln!(
        out,
        "<p><span class=\"pass\">{} pass</span>, <span class=\"fail\">{} fail</span>, <span class=\"warn\">{} warn</span>, \
         <span class=\"skipped\">{} skipped</span>, <span class=\"inconclusive\">{} inconclusive</span></p>",
        counts.pass, counts.fail, counts.warn, counts.skipped, counts.inconclusive
    );
    for outcome in ["fail", "inconclusive", "warn"] {
        for item in report.requirements.iter().filter(|item| item.outcome == outcome) {
            section(&mut out, item);
        }
    }
    let _ = writeln!(out, "<section><h2>All requirements</h2>\n<table>");
    for item in &report.requirements {
        let _ = writeln!(
            out,
            "<tr><td><code>{}</code><td>{}<td class=\"{}\">{}<td>{}</tr>",
            text(&item.id),
            item.level.as_str(),
            text(&item.outcome),
            text(&match &item.reason {
                Some(reason) => format!("{}: {reason}", item.outcome),
                None => item.outcome.clone(),
            }),
            text(&item.title)
        );
    }
    out.push_str("</table></section>\n</html>\n");
    out
}

fn section(out: &mut String, item: &RequirementItem) {
    let _ = writeln!(
        out,
        "<section><h2><span class=\"{}\">{}</span> {} <small>{}</small></h2>\n<p>{}</p>",
        text(&item.outcome),
        text(&item.outcome),
        text(&item.id),
        item.level.as_str(),
        text(&item.title)
    );
    let _ = writeln!(out, "<table>");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "<tr><th>{name}<td>{}</tr>", text(value));
    };
    if let Some(observed) = &item.observed {
        row("observed", observed);
    }
    if !item.detail.is_empty() {
        row("decided by", &item.detail);
    }
    row("why it matters", &item.why);
    if item.spec != "-" {
        row("spec", &item.spec);
    }
    if let Some(scenario) = &item.scenario {
        row("scenario", scenario);
    }
    out.push_str("</table>\n");
    if !item.evidence.is_empty() {
        out.push_str("<pre>");
        for evidence in &item.evidence {
            let dir = match evidence.dir.as_deref() {
                Some("in") => "&lt;-",
                Some(_) => "-&gt;",
                None => "  ",
            };
            let line = evidence.line.map_or_else(|| evidence.kind.clone(), |line| format!("line {line}"));
            let _ = writeln!(out, "{:>9.1} ms {dir} {:<9} {}", evidence.t_ms, text(&line), text(&evidence.excerpt));
            if !evidence.fault.is_empty() {
                let _ = writeln!(out, "{:>28} {}", "", text(&evidence.fault));
            }
        }
        out.push_str("</pre>\n");
    }
    out.push_str("</section>\n");
}
