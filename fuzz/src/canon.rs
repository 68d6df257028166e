//! The canonical writer against `serde_json_canonicalizer`, and against itself.

use pintle_wire::{
    CanonError, Digest, MAX_EXACT_INTEGER, Profile, ScanLimits, canonicalize, canonicalize_bytes, scan, to_canonical,
};
use serde_json::Value;

use crate::oracle;

/// The canonical form of a text is that of its tree, is strict JSON, is its own canonical form and has the same tree.
pub fn canon(input: &[u8]) {
    let Ok(text) = scan(input, Profile::DriverRpc, ScanLimits::CONTROL) else {
        assert!(canonicalize_bytes(input).is_err() || input.len() > ScanLimits::CONTROL.max_bytes);
        return;
    };
    let canonical = canonicalize(&text).expect("no lone surrogates");
    let tree = oracle::strict(input).expect("serde_json reads what the scan accepts");
    let expected = serde_json_canonicalizer::to_vec(&tree).expect("finite numbers");
    assert_eq!(String::from_utf8_lossy(&canonical), String::from_utf8_lossy(&expected));
    if text.is_known_canonical() {
        assert_eq!(canonical, input, "known to be canonical");
    }

    let again =
        scan(&canonical, Profile::DriverRpc, ScanLimits::DEPTH_ONLY).expect("the canonical form is strict JSON");
    assert_eq!(canonicalize(&again).as_ref(), Ok(&canonical), "canonical twice is canonical once");
    assert_eq!(Digest::of_json(&text), Ok(Digest::of(&canonical)));

    match to_canonical(&tree) {
        Ok(written) => assert_eq!(written, canonical, "the writer for our own values agrees"),
        Err(error) => assert!(error == CanonError::UnsafeInteger && has_unsafe_integer(&tree), "{error}"),
    }
}

fn has_unsafe_integer(tree: &Value) -> bool {
    match tree {
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            magnitude.is_some_and(|magnitude| magnitude > MAX_EXACT_INTEGER)
        }
        Value::Array(items) => items.iter().any(has_unsafe_integer),
        Value::Object(members) => members.values().any(has_unsafe_integer),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
