//! What is held by a test stays held: each number in `testdata/acp/cited.txt` is cited by a test, and each test that
//! `docs/hostile-peers.md` names is there.
//!
//! Add a number when you write the first test for it. Taking one out needs a reason in the commit.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

#[test]
fn every_listed_behaviour_is_cited_by_a_test() {
    let list = read("testdata/acp/cited.txt");
    assert_eq!(uncited(&words(&tests()), &list), [""; 0], "no test cites these any more");
    assert!(list.lines().count() > 160, "the list is there, but nearly empty");
}

/// The check itself can fail: each listed number, taken out of the tests, is found missing.
#[test]
fn a_behaviour_that_loses_its_test_is_noticed() {
    let list = read("testdata/acp/cited.txt");
    let tests = tests();
    let all = words(&tests);
    for number in list.lines() {
        let mut without = all.clone();
        without.remove(number);
        assert_eq!(uncited(&without, &list), [number], "would be missed by nobody");
    }
}

#[test]
fn every_test_that_the_page_on_hostile_peers_names_exists() {
    let page = read("docs/hostile-peers.md");
    let tests = tests();
    let missing: Vec<&str> = named_tests(&page).filter(|name| !tests.contains(&format!("fn {name}("))).collect();
    assert_eq!(missing, [""; 0], "docs/hostile-peers.md names tests that are not there");
    assert!(named_tests(&page).count() > 50);
}

/// The names in the last column of the tables, and those in parentheses: in backquotes, with an underscore, and nothing else.
fn named_tests(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2).filter(|name| {
        name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

fn uncited<'a>(words: &HashSet<&str>, list: &'a str) -> Vec<&'a str> {
    list.lines().filter(|number| !number.is_empty() && !words.contains(number)).collect()
}

/// The words of a text, so that `I1` is not cited by `I12`, nor by `Inv-1`.
fn words(text: &str) -> HashSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("readable")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of every test of the project.
fn tests() -> String {
    let mut tests = String::new();
    for dir in ["crates", "fuzz", "interop"] {
        collect(&root().join(dir), &mut tests);
    }
    tests
}

/// The numbers of the behaviours, by chapter. Each is cited by a test, or listed in `testdata/acp/later.txt` with the reason
/// why not.
const BEHAVIOURS: [(u32, u32); 23] = [
    (1, 9),
    (10, 22),
    (30, 40),
    (50, 61),
    (70, 82),
    (90, 95),
    (100, 106),
    (110, 112),
    (120, 124),
    (130, 135),
    (140, 161),
    (170, 174),
    (180, 185),
    (190, 196),
    (200, 201),
    (210, 217),
    (220, 232),
    (240, 244),
    (250, 259),
    (260, 268),
    (270, 276),
    (280, 283),
    (290, 292),
];

/// The invariants, by family and range, and the known gaps; accounted for alike. Those that are missing have no content.
const INVARIANTS: [(&str, u32, u32); 10] = [
    ("Inv-", 1, 21),
    ("IC-", 2, 8),
    ("I", 2, 9),
    ("I", 11, 18),
    ("F", 1, 8),
    ("D", 1, 3),
    ("D", 5, 7),
    ("D", 9, 9),
    ("J", 1, 12),
    ("G-", 1, 23),
];

fn numbers() -> Vec<String> {
    let behaviours = BEHAVIOURS.iter().flat_map(|(first, last)| (*first..=*last).map(|n| format!("R-{n:03}")));
    let invariants = INVARIANTS.iter().flat_map(|(family, first, last)| {
        // Gaps have two digits, as they are written.
        (*first..=*last).map(move |n| if *family == "G-" { format!("G-{n:02}") } else { format!("{family}{n}") })
    });
    let single = ["S1", "S5", "O6"].map(str::to_owned);
    behaviours.chain(invariants).chain(single).collect()
}

#[test]
fn every_number_is_cited_or_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect(name);
    let (cited, later) = (read("testdata/acp/cited.txt"), read("testdata/acp/later.txt"));
    let reasons: Vec<(&str, &str)> = later.lines().filter_map(|line| line.split_once(' ')).collect();
    for number in numbers() {
        let is_cited = cited.lines().any(|line| line == number);
        let is_explained = reasons.iter().any(|(name, reason)| *name == number && reason.len() > 10);
        assert!(is_cited || is_explained, "{number}: neither cited nor explained");
        assert!(!(is_cited && is_explained), "{number}: explained away, but cited");
    }
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
            } else if let Some(at) = ["#[cfg(test)]", "#[cfg(all(test"].iter().filter_map(|mark| text.find(mark)).min()
            {
                out.push_str(&text[at..]);
            }
        }
    }
}

#[test]
fn a_number_is_a_word() {
    let cites = |text: &str, number: &str| words(text).contains(number);
    assert!(cites("/// I1, R-040: x", "I1"));
    assert!(cites("R-040", "R-040"));
    assert!(!cites("/// I12 and R-0401 and Inv-1", "I1"));
    assert!(!cites("R-0401", "R-040"));
}
