//! SARIF 2.1.0, as code scanning reads it.

use pintle_wire::{CanonError, to_canonical};
use serde_json::{Value, json};

use super::model::{Report, RequirementItem};
use crate::pack::Level;

/// The report as SARIF. Every requirement is a rule; what failed, warned or could not be judged is a result.
///
/// # Errors
/// None in practice: every number in it is small.
pub fn sarif(report: &Report) -> Result<Vec<u8>, CanonError> {
    let rules: Vec<Value> = report.requirements.iter().map(rule).collect();
    let results: Vec<Value> =
        report.requirements.iter().enumerate().filter_map(|(index, item)| result(report, index, item)).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "pintle",
                "semanticVersion": report.pintle.version,
                "rules": rules,
            }},
            "automationDetails": {"id": format!("{}/{}", report.pack.name, report.run)},
            "columnKind": "unicodeCodePoints",
            "properties": {"verdict": report.verdict, "pack": report.pack.name, "packVersion": report.pack.version},
            "results": results,
        }],
    });
    let mut bytes = to_canonical(&log)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn rule(item: &RequirementItem) -> Value {
    json!({
        "id": item.id,
        "name": item.id.replace('-', ""),
        "shortDescription": {"text": item.title},
        "fullDescription": {"text": item.why},
        "defaultConfiguration": {"level": level(item.level)},
        "properties": {"area": item.area, "level": item.level.as_str(), "spec": item.spec},
    })
}

fn result(report: &Report, index: usize, item: &RequirementItem) -> Option<Value> {
    let (kind, level) = match item.outcome.as_str() {
        "fail" => ("fail", "error"),
        "warn" if item.level <= Level::Should => ("fail", "warning"),
        "warn" => ("informational", "none"),
        "inconclusive" => ("open", "none"),
        _ => return None,
    };
    let mut message = format!("{}: {}", item.title, item.observed.as_deref().unwrap_or(&item.detail));
    for evidence in &item.evidence {
        let dir = evidence.dir.as_deref().unwrap_or(&evidence.kind);
        let line = evidence.line.map(|line| format!(" line {line}")).unwrap_or_default();
        message.push_str(&format!("\n{:.1} ms {dir}{line}: {}", evidence.t_ms, evidence.excerpt));
    }
    let scenario = item.scenario.as_deref().unwrap_or("-");
    Some(json!({
        "ruleId": item.id,
        "ruleIndex": index,
        "kind": kind,
        "level": level,
        "message": {"text": message},
        "locations": [{
            "logicalLocations": [{
                "name": scenario,
                "fullyQualifiedName": format!("{}::{scenario}", report.pack.name),
                "kind": "module",
            }],
        }],
        "partialFingerprints": {"requirement/v1": item.id},
    }))
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Must => "error",
        Level::Should => "warning",
        Level::May | Level::Info => "note",
    }
}
