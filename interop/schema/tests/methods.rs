//! The method table against the official method constants.

use std::collections::BTreeSet;

use agent_client_protocol_schema::v1::{AGENT_METHOD_NAMES, CLIENT_METHOD_NAMES, PROTOCOL_LEVEL_METHOD_NAMES};
use pintle_acp::{METHODS, Side};
use serde::Serialize;

#[test]
fn r_004_the_same_methods() {
    check(Side::Agent, &AGENT_METHOD_NAMES);
    check(Side::Client, &CLIENT_METHOD_NAMES);
    check(Side::Both, &PROTOCOL_LEVEL_METHOD_NAMES);
}

fn check(side: Side, names: &impl Serialize) {
    let names = serde_json::to_value(names).expect("a struct of strings");
    let official: BTreeSet<&str> =
        names.as_object().expect("a struct").values().map(|name| name.as_str().expect("a string")).collect();
    let ours: BTreeSet<&str> =
        METHODS.iter().filter(|row| row.side == side && row.since.is_some()).map(|row| row.wire).collect();
    assert_eq!(ours, official);
}
