//! What no compiler checks: file length, wire types, names in ARCHITECTURE.md, reasons of dependencies, places where
//! `unsafe` may stand, words that do not belong in a commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::layers;

/// Past this a file says why it is long, in a comment that begins as [`LONG_MARK`] does.
const EXPLAIN_PAST_LINES: usize = 600;
/// Past this a file is split. Tests at its end do not count.
const MAX_LINES: usize = 1000;
const LONG_MARK: &str = "Over 600 lines because";

/// Runs every rule and prints each breach as `path:line: what`.
pub fn run(root: &Path) -> ExitCode {
    let mut found = Vec::new();
    let files = sources(root);
    for path in &files {
        match fs::read_to_string(path) {
            Ok(text) => check_file(&shown(root, path), &text, &mut found),
            Err(e) => found.push(format!("{}: {e}", shown(root, path))),
        }
    }
    check_architecture(root, &mut found);
    check_dependencies(root, &mut found);
    check_tests(root, &mut found);
    match layers::breaches(root) {
        Ok(breaches) => found.extend(breaches),
        Err(e) => found.push(e),
    }
    for line in &found {
        println!("{line}");
    }
    println!("tidy: {} files, {} findings", files.len(), found.len());
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_file(name: &str, text: &str, found: &mut Vec<String>) {
    let is_rust = name.ends_with(".rs");
    let is_test_file = name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/testkit/");
    if is_rust {
        let counted = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
        if !is_test_file && counted > MAX_LINES {
            found.push(format!("{name}: {counted} lines without its tests; split it below {MAX_LINES}"));
        } else if !is_test_file && counted > EXPLAIN_PAST_LINES && !text.contains(LONG_MARK) {
            found.push(format!("{name}: {counted} lines; split it, or say why: `// {LONG_MARK} ...`"));
        }
    }
    let mut in_tests = is_test_file && !name.contains("/benches/");
    for (index, line) in text.lines().enumerate() {
        let mut say = |what: &str| found.push(format!("{name}:{}: {what}", index + 1));
        in_tests |= line.starts_with("#[cfg(test)]");
        if line.ends_with([' ', '\t']) {
            say("trailing white space");
        }
        for word in machine_paths() {
            if line.contains(&word) {
                say("a path of one machine");
            }
        }
        if !is_rust || name.starts_with("xtask/src/tidy.rs") {
            continue;
        }
        let code = line.split("//").next().unwrap_or_default();
        if name.starts_with("crates/")
            && code.contains("serde(")
            && (has_word(code, "flatten") || has_word(code, "untagged"))
        {
            say("no flatten or untagged on wire types: write a visitor");
        }
        if has_word(code, "unsafe")
            && !code.contains("unsafe_code")
            && !code.contains("unsafe { sys::")
            && !in_sys(name)
        {
            say("unsafe stands only in the crate's `sys` module");
        }
        for macro_name in ["todo!", "unimplemented!"] {
            if code.contains(macro_name) {
                say("left open");
            }
        }
        if code.contains("#[ignore") || code.contains("should_panic") {
            say("a test that does not run, or that passes on any panic");
        }
        if in_tests && (code.contains("thread::sleep(") || code.contains("time::sleep(")) && !line.contains("virtual") {
            say("a test waits for an event or for virtual time, never for the wall clock");
        }
    }
}

/// Places of whoever builds this, which a clone elsewhere has not. Built from parts, so that this file does not name them.
fn machine_paths() -> [String; 2] {
    ["root/", "Users/"].map(|tail| format!("/{tail}"))
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

fn in_sys(name: &str) -> bool {
    name.ends_with("/sys.rs") || name.contains("/sys/")
}

/// Every crate and every top module of it is named in ARCHITECTURE.md, and the ten invariants stand there.
fn check_architecture(root: &Path, found: &mut Vec<String>) {
    let Ok(text) = fs::read_to_string(root.join("ARCHITECTURE.md")) else {
        found.push("ARCHITECTURE.md: missing".into());
        return;
    };
    for dir in children(&root.join("crates")) {
        let crate_name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if !text.contains(&format!("crates/{crate_name}")) {
            found.push(format!("ARCHITECTURE.md: does not name crates/{crate_name}"));
        }
        for module in children(&dir.join("src")) {
            let stem = module.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if matches!(stem.as_str(), "lib" | "main" | "bin" | "tests") || stem.ends_with("_tests") {
                continue;
            }
            if !text.contains(&format!("`{stem}`")) {
                found.push(format!("ARCHITECTURE.md: does not name module `{stem}` of crates/{crate_name}"));
            }
        }
    }
    for number in 1..=10 {
        let marked = text
            .lines()
            .any(|line| line.starts_with(&format!("{number}. ")) || line.starts_with(&format!("| {number} |")));
        if !marked {
            found.push(format!("ARCHITECTURE.md: invariant {number} is missing"));
        }
    }
}

/// Every file of integration tests is part of a program: where `tests/it.rs` names its modules, cargo finds none by itself.
fn check_tests(root: &Path, found: &mut Vec<String>) {
    for tests in children(&root.join("crates")).iter().map(|dir| dir.join("tests")) {
        let Ok(named) = fs::read_to_string(tests.join("it.rs")) else { continue };
        let manifest = fs::read_to_string(tests.with_file_name("Cargo.toml")).unwrap_or_default();
        for path in children(&tests) {
            let stem = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let is_module = named.lines().any(|line| line == format!("mod {stem};"));
            let is_program = manifest.lines().any(|line| line == format!("name = \"{stem}\""));
            if !is_module && !is_program {
                found.push(format!("{}: no program of tests has it", shown(root, &path)));
            }
        }
    }
}

/// Every dependency version of the workspace stands once, with its reason behind it.
fn check_dependencies(root: &Path, found: &mut Vec<String>) {
    let Ok(text) = fs::read_to_string(root.join("Cargo.toml")) else {
        found.push("Cargo.toml: missing".into());
        return;
    };
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if inside
            && line.contains(" = ")
            && !line.contains("path = ")
            && !line.contains(" # ")
            && !line.starts_with('#')
        {
            found.push(format!("Cargo.toml:{}: a dependency without its reason", index + 1));
        }
    }
    for manifest in children(&root.join("crates")).iter().map(|dir| dir.join("Cargo.toml")) {
        let Ok(text) = fs::read_to_string(&manifest) else { continue };
        for (index, line) in text.lines().enumerate() {
            if line.starts_with(char::is_alphabetic) && line.contains("version = \"") && !line.starts_with("version") {
                found.push(format!("{}:{}: versions stand in the root Cargo.toml", shown(root, &manifest), index + 1));
            }
        }
    }
}

/// Files of ours that are text: Rust, TOML, Markdown, shell; not test data, not what cargo or npm made.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for path in children(&dir) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                let skip = matches!(name.as_str(), "target" | ".git" | "node_modules" | "testdata" | "corpus");
                if !skip {
                    open.push(path);
                }
            } else if [".rs", ".toml", ".md", ".sh", ".py", ".mjs"].iter().any(|end| name.ends_with(end))
                || name == "run"
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, expected: &[&str]) {
        let mut found = Vec::new();
        check_file(name, text, &mut found);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_clean_file_passes() {
        check("crates/wire/src/scan.rs", "fn main() {}\n", &[]);
    }

    #[test]
    fn wire_types_have_no_flatten() {
        check(
            "crates/acp/src/types.rs",
            "#[serde(flatten)]\n",
            &["crates/acp/src/types.rs:1: no flatten or untagged on wire types: write a visitor"],
        );
    }

    #[test]
    fn unsafe_stands_in_sys_only() {
        check("crates/sdk/src/sys.rs", "unsafe { x() }\n", &[]);
        check(
            "crates/sdk/src/a.rs",
            "unsafe { x() }\n",
            &["crates/sdk/src/a.rs:1: unsafe stands only in the crate's `sys` module"],
        );
    }

    #[test]
    fn a_long_file_is_refused_but_its_tests_do_not_count() {
        let long = "x();\n".repeat(MAX_LINES + 1);
        check("crates/a/src/b.rs", &long, &["crates/a/src/b.rs: 1001 lines without its tests; split it below 1000"]);
        let tests = format!("x();\n#[cfg(test)]\n{long}");
        check("crates/a/src/b.rs", &tests, &[]);
    }

    #[test]
    fn the_workspace_names_every_dependency_once_with_a_reason() {
        let mut found = Vec::new();
        check_dependencies(&crate::root(), &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
