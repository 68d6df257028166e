//! JUnit XML, as CI systems read it: one test case per requirement, one suite per area.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::escape::markup;
use super::model::{Report, RequirementItem};

/// The report as JUnit XML. Only a failed `must` is a `<failure>`; what could not be judged is an `<error>`; a warning passes
/// and is told in `<system-out>`.
pub fn junit(report: &Report) -> String {
    let mut areas: BTreeMap<&str, Vec<&RequirementItem>> = BTreeMap::new();
    for item in &report.requirements {
        areas.entry(&item.area).or_default().push(item);
    }
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = &report.counts;
    let total = report.requirements.len();
    let seconds = report.timing.total_ms as f64 / 1000.0;
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        out,
        "<testsuites name=\"pintle {} {}\" tests=\"{total}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">",
        markup(&report.pack.name),
        markup(&report.pack.version),
        counts.fail,
        counts.inconclusive,
        counts.skipped,
    );
    for (area, items) in areas {
        suite(&mut out, &report.pack.name, area, &items);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, pack: &str, area: &str, items: &[&RequirementItem]) {
    let count = |outcome: &str| items.iter().filter(|item| item.outcome == outcome).count();
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
        markup(area),
        items.len(),
        count("fail"),
        count("inconclusive"),
        count("skipped"),
    );
    for item in items {
        let class = format!("{pack}.{area}");
        let name = format!("{} {}", item.id, item.title);
        let _ = writeln!(out, "    <testcase classname=\"{}\" name=\"{}\">", markup(&class), markup(&name));
        let reason = item.reason.as_deref().unwrap_or_default();
        match item.outcome.as_str() {
            "fail" => {
                let message = markup(item.observed.as_deref().unwrap_or(&item.detail));
                let body = markup(&body(item));
                let _ = writeln!(
                    out,
                    "      <failure type=\"{}\" message=\"{message}\">{body}</failure>",
                    item.level.as_str()
                );
            }
            "inconclusive" => {
                let (kind, message) = (markup(reason), markup(&item.detail));
                let _ = writeln!(out, "      <error type=\"{kind}\" message=\"{message}\"/>");
            }
            "skipped" => {
                let _ = writeln!(out, "      <skipped message=\"{}\"/>", markup(reason));
            }
            "warn" => {
                let text = format!("warning ({}): {}", item.level.as_str(), body(item));
                let _ = writeln!(out, "      <system-out>{}</system-out>", markup(&text));
            }
            _ => {}
        }
        out.push_str("    </testcase>\n");
    }
    out.push_str("  </testsuite>\n");
}

fn body(item: &RequirementItem) -> String {
    let mut text = item.detail.clone();
    if let Some(observed) = &item.observed {
        let _ = write!(text, "\nobserved: {observed}");
    }
    let _ = write!(text, "\nwhy: {}", item.why);
    for evidence in &item.evidence {
        let dir = evidence.dir.as_deref().unwrap_or(&evidence.kind);
        let line = evidence.line.map(|line| format!(" line {line}")).unwrap_or_default();
        let _ = write!(text, "\n{:.1} ms {dir}{line}: {}", evidence.t_ms, evidence.excerpt);
    }
    text
}
