//! Runs every target over its corpus, and over a bounded number of mutations of it that are the same in every run.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pintle_fuzz::{Mutator, TARGETS, Target};

const MUTATIONS: usize = 20_000;
/// Each of these plays a whole connection, twice.
const CONNECTION_MUTATIONS: usize = 4_000;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut inputs: Vec<_> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| {
            let path = entry.expect("a directory entry").path();
            (path.display().to_string(), fs::read(&path).expect("a corpus file"))
        })
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 8, "{target} has a corpus");
    inputs
}

/// Runs a target and, when it fails, shows the input.
fn run(target: Target, what: &str, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        panic!("{what} fails on b\"{}\"", input.escape_ascii());
    }
}

fn check(name: &str) {
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    let inputs = corpus(name);
    for (path, input) in &inputs {
        run(*target, path, input);
    }
    let mut mutator = Mutator::new(name.len() as u64);
    let mutations = if name.starts_with("acp_") { CONNECTION_MUTATIONS } else { MUTATIONS };
    for index in 0..mutations {
        let (_, input) = &inputs[index % inputs.len()];
        let (_, other) = &inputs[mutator.below(inputs.len())];
        let mutated = mutator.mutate(input, other);
        run(*target, &format!("{name}, mutation {index}"), &mutated);
    }
}

#[test]
fn scan_agrees_with_serde_json_inv_2() {
    check("scan");
}

#[test]
fn canon_agrees_with_the_oracle_inv_2() {
    check("canon");
}

#[test]
fn framer_does_not_depend_on_chunks() {
    check("framer");
}

#[test]
fn envelope_agrees_with_serde_json() {
    check("envelope");
}

/// Inv-1, Inv-4, Inv-15, Inv-17, IC-6, S1.
#[test]
fn an_agents_connection_survives_any_client() {
    check("acp_agent");
}

/// Inv-1, Inv-4, Inv-15, Inv-17, IC-6, S1, D1.
#[test]
fn a_clients_connection_survives_any_agent() {
    check("acp_client");
}

#[test]
fn every_corpus_has_its_target() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(directory).expect("the corpora") {
        let name = entry.expect("a directory entry").file_name();
        assert!(TARGETS.iter().any(|(target, _)| name == *target), "{} has no target", name.display());
    }
}
