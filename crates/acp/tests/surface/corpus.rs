//! The corpus in `testdata/acp/corpus`: what is accepted, what is refused, and that nothing gets lost.
//! `interop/schema` runs the same files through the official types.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::registry;

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) as_type: String,
    pub(crate) json: Value,
    pub(crate) accepted: bool,
}

pub(crate) fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(read_cases);
    &CASES
}

fn read_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (area, text) in FILES {
        let file: Value = serde_json::from_str(text).expect("JSON");
        for case in file["cases"].as_array().expect("a list of cases") {
            cases.push(Case {
                name: format!("{area}: {}", case["name"].as_str().expect("a name")),
                as_type: case["as"].as_str().expect("a type").to_owned(),
                json: case["json"].clone(),
                accepted: case.get("verdict").is_none(),
            });
        }
    }
    cases
}

const FILES: [(&str, &str); 5] = [
    ("agent-params", include_str!("../../../../testdata/acp/corpus/agent-params.json")),
    ("agent-results", include_str!("../../../../testdata/acp/corpus/agent-results.json")),
    ("client-params", include_str!("../../../../testdata/acp/corpus/client-params.json")),
    ("client-results", include_str!("../../../../testdata/acp/corpus/client-results.json")),
    ("updates", include_str!("../../../../testdata/acp/corpus/updates.json")),
];

/// JSON equality where `1` and `1.0` are one number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// what has to be there is refused when it is not, the rest never fails.
#[test]
fn r_211_verdicts() {
    for case in cases() {
        let reading = (registry::probe(&case.as_type).read)(&case.json.to_string());
        assert_eq!(reading.verdict.is_ok(), case.accepted, "{}: {:?}", case.name, reading.verdict);
    }
}

/// what was read is written back, whole, also when it was refused.
#[test]
fn r_040_written_back() {
    for case in cases() {
        let reading = (registry::probe(&case.as_type).read)(&case.json.to_string());
        let back: Value = serde_json::from_str(&reading.back).expect("JSON");
        assert!(same(&back, &case.json), "{}:\n{}\n{back}", case.name, case.json);
    }
}

/// Every type of the table has at least one accepted case; vendor methods have their own vectors.
#[test]
fn every_type_has_a_case() {
    let covered: BTreeSet<String> =
        cases().iter().filter(|case| case.accepted).map(|case| case.as_type.clone()).collect();
    for probe in registry::probes() {
        assert!(probe.name.starts_with("_pintle/") || covered.contains(&probe.name), "{}", probe.name);
    }
}
