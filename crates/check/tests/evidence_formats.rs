//! What evidence looks like: the schemas that are checked in and `docs/evidence.md` agree with what the store writes; and
//! no canary stands in any format of a report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pintle_check::report::{Report, every_format};
use pintle_store::evidence::Places;
use pintle_store::sanitise::Rule;
use pintle_store::{EvidenceRun, Fs, RealFs, Sanitiser};
use pintle_wire::InstanceId;
use proptest::prelude::*;
use serde_json::{Value, json};

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn schema(name: &str) -> Value {
    let text = std::fs::read_to_string(root("schemas").join(name)).expect("the schema is checked in");
    serde_json::from_str(&text).expect("the schema is JSON")
}

#[test]
fn the_schemas_of_the_store_agree_with_what_it_writes() {
    let scratch = tempfile::tempdir().expect("scratch directory");
    let places = Places::below(scratch.path());
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let sanitiser = Sanitiser::new(["hunter2-correct-horse"]);
    let value = |value: Value| sanitiser.value(&value).expect("canonical");
    let id = InstanceId::new(1_000, [7; 16]).expect("an id");
    let mut run = EvidenceRun::create(fs, &places, id, &value(json!({"a": 1}))).expect("a run");
    let manifest = run.dir().join("manifest.json");
    let journal = run.dir().join("journal.ndjson");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
    let open: Value = serde_json::from_str(&read(&manifest)).expect("JSON");
    run.append("x.y", &value(json!({"token": "t", "b": "hunter2-correct-horse"}))).expect("append");
    run.append("x.y", &value(json!([1, "two"]))).expect("append");
    run.put_object(&value(json!({}))).expect("object");
    run.put_input("plan.json", &value(json!({}))).expect("input");
    run.put_report("report.json", &value(json!({}))).expect("report");
    run.finish().expect("finish");
    let finished: Value = serde_json::from_str(&read(&manifest)).expect("JSON");
    assert_eq!(finished["redactions"], json!({"canary": 1, "member": 1}));

    let check = |name: &str, good: &[Value]| {
        let schema = schema(name);
        let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
        for value in good {
            if let Err(error) = validator.validate(value) {
                panic!("{name}: {error}");
            }
            // It is closed: a member more or less is refused, as the reader refuses it.
            let mut more = value.clone();
            more["extra"] = json!(1);
            assert!(!validator.is_valid(&more), "{name} takes a member more");
            for member in value.as_object().expect("an object").keys() {
                let mut less = value.clone();
                less.as_object_mut().expect("an object").remove(member);
                assert!(!validator.is_valid(&less), "{name} takes it without {member}");
            }
        }
    };
    check("pintle.run.v1.schema.json", &[open, finished]);
    let lines: Vec<Value> = read(&journal).lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!(lines.len(), 2);
    check("pintle.journal.v1.schema.json", &lines);
}

/// Every rule has its row in the document and its place in the schema.
#[test]
fn every_rule_of_the_sanitiser_is_documented() {
    let document = std::fs::read_to_string(root("docs/evidence.md")).expect("the document");
    let schema = schema("pintle.run.v1.schema.json");
    let known = schema["properties"]["redactions"]["properties"].as_object().expect("rules");
    assert_eq!(known.len(), Rule::ALL.len());
    for rule in Rule::ALL {
        assert!(document.contains(&format!("| `{}` |", rule.id())), "{}", rule.id());
        assert!(known.contains_key(rule.id()), "{}", rule.id());
    }
}

const CANARY: &str = "hunter2<correct>&horse";

/// A canary as agents may spell it.
fn forms() -> impl Strategy<Value = String> {
    let hex = |before: &str| CANARY.bytes().map(|byte| format!("{before}{byte:02x}")).collect::<String>();
    prop_oneof![
        Just(CANARY.to_owned()),
        Just(hex("")),
        Just(hex("").to_ascii_uppercase()),
        Just(hex("%")),
        Just(hex("\\u00")),
        Just(serde_json::to_string(CANARY).expect("a string")),
        "[a-z <&\"\n]{0,12}",
    ]
}

fn report(texts: &[String]) -> Report {
    let text = |n: usize| texts.get(n).cloned().unwrap_or_default();
    serde_json::from_value(json!({
        "schema": "pintle.report.v1", "verdict": "nonconformant", "demo": false,
        "problem": {"kind": "agent_did_not_start", "message": text(0), "stderr": text(1)},
        "pintle": {"version": "0"},
        "pack": {"name": "p", "version": "1", "spec_revision": "r", "digest": "d"},
        "agent": {"argv": [text(2)], "info": {text(3): text(4)}, "protocol_version": 1, "capabilities": null,
            "auth": [text(5)]},
        "driver": {"name": text(6), "version": "", "argv": [text(7)]},
        "host": {"os": "", "arch": "", "cpus": 0}, "run": "",
        "counts": {"pass": 0, "fail": 1, "warn": 0, "skipped": 0, "inconclusive": 0},
        "requirements": [{"id": "A", "level": "must", "outcome": "fail", "area": "a", "title": "t", "spec": "-",
            "why": "w", "detail": text(0), "observed": text(1),
            "evidence": [{"index": 0, "kind": "frame", "dir": "in", "line": 1, "t_ms": 1.0, "excerpt": text(2),
                "fault": text(3)}]}],
        "timing": {"started": "", "total_ms": 0, "scenarios": []},
        "recording_faults": [text(4)],
    }))
    .expect("it is a report")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Item 6: no canary survives in any of the six formats, whatever form it had and whatever escapes it meets.
    #[test]
    fn no_canary_survives_in_a_report(parts in prop::collection::vec(prop::collection::vec(forms(), 0..4), 8)) {
        let texts: Vec<String> = parts.iter().map(|parts| parts.concat()).collect();
        let sanitiser = Sanitiser::new([CANARY]);
        let kept = sanitiser.value(&report(&texts)).expect("canonical");
        let kept: Report = serde_json::from_slice(kept.bytes()).expect("it is a report still");
        let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
        let escaped = CANARY.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        for file in every_format(&kept).expect("rendered") {
            let text = String::from_utf8(file.bytes).expect("text");
            let lower = text.to_ascii_lowercase();
            for form in [CANARY, &escaped, &hex] {
                prop_assert!(!lower.contains(&form.to_ascii_lowercase()), "{form} in {}", file.name);
            }
            prop_assert!(sanitiser.text(text.as_bytes(), usize::MAX).redactions().iter().all(|(rule, _)| rule != Rule::Canary),
                "{}", file.name);
        }
    }
}
