//! `docs/parity.md` has one row for every name in `testdata/parity`, and every row names a test that is there or
//! says what is not yet.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The lists of names, and the headings in the document below which their rows stand.
const LISTS: [(&str, &str); 3] = [
    ("raxol-identifiers.txt", "## ACP: the Elixir package `raxol_agent_client_protocol`"),
    ("driver-identifiers.txt", DRIVER),
    ("pointer-names.txt", "## Task pointer: the protocol of `codex-task-pointer`"),
];

const DRIVER: &str = "## Driver RPC: the Go package `driverprotocol`";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The rows of one table: name, counterpart, test.
fn rows(document: &str, heading: &str) -> BTreeMap<String, (String, String)> {
    let section = document.split(heading).nth(1).unwrap_or_else(|| panic!("no heading {heading}"));
    let section = section.split("\n## ").next().expect("split gives one");
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, here, test] = cells[..] else { panic!("three cells in {line}") };
        let name = name.trim_matches('`').to_owned();
        assert!(!here.is_empty() && !test.is_empty(), "an empty cell in {line}");
        assert!(rows.insert(name, (here.to_owned(), test.to_owned())).is_none(), "two rows: {line}");
    }
    rows
}

#[test]
fn every_name_has_one_row() {
    let document = read("docs/parity.md");
    for (list, heading) in LISTS {
        let rows = rows(&document, heading);
        let names = read(&format!("testdata/parity/{list}"));
        let names: Vec<&str> = names.lines().filter(|line| !line.is_empty()).collect();
        for name in &names {
            assert!(rows.contains_key(*name), "{list}: no row for {name}");
        }
        assert_eq!(rows.len(), names.len(), "{list}: as many rows as names");
    }
}

#[test]
fn every_row_names_a_test_or_what_is_missing() {
    let document = read("docs/parity.md");
    for (_, heading) in LISTS {
        for (name, (_, test)) in rows(&document, heading) {
            if test.starts_with("not yet: ") {
                continue;
            }
            let (file, function) =
                test.trim_matches('`').split_once("::").unwrap_or_else(|| panic!("{name}: a test in {test}"));
            let text = read(file);
            assert!(text.contains(&format!("fn {function}(")), "{name}: no test {function} in {file}");
        }
    }
}

/// A counterpart of Driver RPC is one name, so it can be looked up: each word of its path stands in the source.
#[test]
fn the_counterparts_of_driver_rpc_exist() {
    let source = ["crates/driver/src", "crates/wire/src"].map(|directory| source_of(&root().join(directory))).concat();
    let words: HashSet<&str> = source.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    for (name, (here, _)) in rows(&read("docs/parity.md"), DRIVER) {
        let paths: Vec<&str> = here.split('`').skip(1).step_by(2).collect();
        assert!(!paths.is_empty(), "{name}: no counterpart is named");
        for word in paths.iter().flat_map(|path| path.split("::")) {
            assert!(words.contains(word.trim_start_matches('&')), "{name}: {word} is not in the source");
        }
    }
}

fn source_of(path: &Path) -> String {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("a directory");
        return entries.map(|entry| source_of(&entry.expect("an entry").path())).collect();
    }
    std::fs::read_to_string(path).expect("source is text")
}
