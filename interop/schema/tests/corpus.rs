//! The corpus through the official types and ours. Where they differ, the corpus says why, and a difference that
//! is none any more fails.

use std::collections::BTreeMap;

use pintle_acp::types::Finding;
use pintle_interop_schema::{Case, Pair, corpus, pairs};
use serde_json::Value;

fn each(mut check: impl FnMut(&Case, &Pair)) {
    let pairs: BTreeMap<String, Pair> = pairs().into_iter().map(|pair| (pair.name.clone(), pair)).collect();
    for case in corpus() {
        check(&case, pairs.get(&case.as_type).unwrap_or_else(|| panic!("{}: no type {}", case.name, case.as_type)));
    }
}

#[test]
fn both_accept_the_same_or_the_corpus_says_why() {
    each(|case, pair| {
        let (ours, official) = ((pair.ours)(&case.json), (pair.official)(&case.json));
        assert_eq!(ours.is_ok(), case.ours_accepts, "ours, {}: {:?}", case.name, ours.err());
        assert_eq!(official.is_ok(), case.official_accepts, "official, {}: {official:?}", case.name);
        assert_eq!(case.why.is_some(), case.ours_accepts != case.official_accepts, "{}: a reason", case.name);
    });
}

#[test]
fn the_official_type_reads_ours_as_the_original() {
    each(|case, pair| {
        if let (Ok(ours), Ok(official)) = ((pair.ours)(&case.json), (pair.official)(&case.json)) {
            assert_eq!((pair.official)(&ours.written), Ok(official), "{}", case.name);
        }
    });
}

/// Whatever the official type holds, ours holds: nothing that it writes is unknown to ours or of the wrong form.
#[test]
fn ours_knows_all_that_the_official_type_writes() {
    each(|case, pair| {
        let Ok(official) = (pair.official)(&case.json) else { return };
        if !case.ours_accepts {
            return;
        }
        let ours = (pair.ours)(&official).unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
        let strange: Vec<&Finding> =
            ours.findings.iter().filter(|finding| !matches!(finding, Finding::UnknownValue { .. })).collect();
        // `null` in place of a missing `_meta` and the like is how the official type writes some absent members.
        assert!(strange.is_empty(), "{}: {strange:?}\n{official}", case.name);
    });
}

/// A case that is said to be read in two ways has something that ours knows of and the official type does not keep.
#[test]
fn differences_are_real() {
    each(|case, pair| {
        if case.differs.is_none() {
            return;
        }
        let ours = (pair.ours)(&case.json).expect("accepted");
        let official = (pair.official)(&case.json).expect("accepted");
        assert!(ours.findings.iter().any(|finding| matches!(finding, Finding::UnknownValue { .. })), "{}", case.name);
        assert_eq!(ours.written, case.json, "{}", case.name);
        assert_ne!(official, case.json, "{}", case.name);
    });
}

/// What ours writes of a message that has nothing wrong with it meets the official JSON Schema.
#[test]
fn what_we_write_meets_the_schema() {
    let mut validators: BTreeMap<String, jsonschema::Validator> = BTreeMap::new();
    let mut checked = 0;
    each(|case, pair| {
        let Ok(ours) = (pair.ours)(&case.json) else { return };
        if !ours.findings.is_empty() || !case.official_accepts || spells_null(&case.json) {
            return;
        }
        let validator = validators
            .entry(pair.name.clone())
            .or_insert_with(|| jsonschema::validator_for(&(pair.schema)()).expect("a schema"));
        if let Err(error) = validator.validate(&ours.written) {
            panic!("{}: {error}\n{}", case.name, ours.written);
        }
        checked += 1;
    });
    assert!(checked >= 150, "{checked}");
}

/// The official type takes `null` for a list, its schema does not; we write back what we were given.
fn spells_null(json: &Value) -> bool {
    match json {
        Value::Null => true,
        Value::Array(items) => items.iter().any(spells_null),
        Value::Object(members) => members.values().any(spells_null),
        _ => false,
    }
}
