//! Behaviours of the ACP runtime that a test holds stay held: each number in `testdata/acp/cited.txt` is cited by a test.
//!
//! Add a number when you write the first test for it. Taking one out needs a reason in the commit.

use std::path::{Path, PathBuf};

#[test]
fn every_listed_behaviour_is_cited_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tests = String::new();
    for dir in ["crates", "fuzz", "interop"] {
        collect(&root.join(dir), &mut tests);
    }
    let list = std::fs::read_to_string(root.join("testdata/acp/cited.txt")).expect("the list is there");
    let missing: Vec<&str> = list.lines().filter(|number| !number.is_empty() && !is_cited(&tests, number)).collect();
    assert!(missing.is_empty(), "no test cites {missing:?} any more");
    assert!(list.lines().count() > 60, "the list is there, but nearly empty");
}

/// Adds the text of every test under `dir`: files below a `tests` folder, and what stands behind `#[cfg(test)]`.
fn collect(dir: &Path, out: &mut String) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                collect(&path, out);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let is_test_file = path.components().any(|part| part.as_os_str() == "tests")
                || path.file_stem().is_some_and(|stem| stem == "tests");
            if is_test_file {
                out.push_str(&text);
            } else if let Some((_, tests)) = text.split_once("#[cfg(test)]") {
                out.push_str(tests);
            }
        }
    }
}

/// Whether `number` stands in `text` as a word of its own: `I1` is not cited by `I12`.
fn is_cited(text: &str, number: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + number.len()..].chars().next();
        let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
        !part(before) && !part(after)
    })
}

#[test]
fn a_number_is_a_word() {
    assert!(is_cited("/// I1, R-040: x", "I1"));
    assert!(is_cited("R-040", "R-040"));
    assert!(!is_cited("/// I12 and R-0401 and Inv-1", "I1"));
    assert!(!is_cited("R-0401", "R-040"));
}
