//! What `pintle task uninstall` leaves behind, and what does not keep it from its work.

#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("temp"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(path, content).expect("writes");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("reads")
    }

    fn run(&self, words: &[&str]) -> Output {
        run(self.0.path(), "/nonexistent", words)
    }

    #[track_caller]
    fn done(&self, words: &[&str]) {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn run(home: &Path, path: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pintle"))
        .arg("task")
        .args(words)
        .env_clear()
        .env("HOME", home)
        .env("PATH", path)
        .env("PINTLE_HOME", home.join("state"))
        .stdin(Stdio::null())
        .output()
        .expect("runs")
}

/// Into a home in which no agent ever was, and out of it again.
#[test]
fn directories_that_install_made_go_when_nobody_uses_them() {
    let home = Home::new();
    home.done(&["install", "--all", "--yes"]);
    home.write(".qwen/logs/today", "theirs");
    home.done(&["uninstall", "--yes"]);
    let mut left: Vec<_> =
        fs::read_dir(home.0.path()).expect("lists").flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, [".qwen", "state"]);
    assert!(!String::from_utf8_lossy(&home.run(&["install", "--dry-run"]).stderr).contains(".cursor"));
}

/// A file that nobody can edit and that has nothing of ours keeps us in no other.
#[test]
fn what_is_broken_elsewhere_is_no_reason_to_stay() {
    let home = Home::new();
    home.write(".claude/settings.json", "{}\n");
    home.done(&["install", "--agent", "claude", "--yes"]);
    home.write(".gemini/settings.json", "{ broken, ");
    home.write(".codex/config.toml", "a = = 1\n");
    home.write(".qwen/settings.json", &format!("{{\"history\":\"{}\"}}", "x".repeat(5 << 20)));
    fs::create_dir_all(home.path(".cursor/hooks.json")).expect("mkdir");
    symlink("/nowhere/at/all", home.path(".cursor/mcp.json")).expect("links");
    home.write(".copilot", "a file");
    home.done(&["uninstall", "--yes"]);
    assert_eq!(home.read(".claude/settings.json"), "{}\n");
    assert_eq!(home.read(".gemini/settings.json"), "{ broken, ");
    // With something of ours in it, it is told, and without advice to put it in.
    home.write(".gemini/settings.json", "{ \"mcpServers\": {\"pintle-task\": ");
    let output = home.run(&["uninstall", "--yes"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains(".gemini/settings.json") && !error.contains("what belongs"), "{error}");
}

/// What a killed run left beside a file goes with the next run, also when that has nothing else to do.
#[test]
fn leftovers_of_a_killed_run_go_with_the_next() {
    let home = Home::new();
    home.write(".claude/settings.json", "{}\n");
    for words in [&["install", "--agent", "claude", "--yes"][..], &["uninstall", "--yes"], &["uninstall", "--yes"]] {
        home.write(".claude/.settings.json.tmp-0123456789abcdef", "torn");
        home.write(".claude/.theirs.tmp-0123456789abcdef", "theirs");
        home.done(words);
        assert!(!home.path(".claude/.settings.json.tmp-0123456789abcdef").exists(), "{words:?}");
        assert_eq!(home.read(".claude/.theirs.tmp-0123456789abcdef"), "theirs");
    }
}

/// Two agents on one file, by a link: both are in it, and both go.
#[test]
fn one_file_for_two_agents_gets_the_hooks_of_both() {
    let home = Home::new();
    home.write(".gemini/settings.json", "{\"theirs\":1}\n");
    home.write(".qwen/x", "");
    symlink("../.gemini/settings.json", home.path(".qwen/settings.json")).expect("links");
    home.done(&["install", "--agent", "gemini", "--agent", "qwen", "--yes"]);
    let both = home.read(".gemini/settings.json");
    for agent in ["gemini", "qwen"] {
        assert!(both.contains(&format!("task hook --agent {agent}")), "{agent}: {both}");
    }
    home.done(&["install", "--agent", "gemini", "--agent", "qwen", "--yes"]);
    assert_eq!(home.read(".gemini/settings.json"), both);
    home.done(&["uninstall", "--agent", "gemini", "--yes"]);
    assert!(home.read(".gemini/settings.json").contains("task hook --agent qwen"));
    home.done(&["uninstall", "--yes"]);
    assert_eq!(home.read(".gemini/settings.json"), "{\"theirs\":1}\n");
}

/// A home that is no UTF-8 cannot be named in a backup: nothing is written, and nothing breaks.
#[test]
fn a_home_that_is_no_text_is_told() {
    let home = Home::new();
    let odd = home.0.path().join(OsStr::from_bytes(b"\xff\xfe"));
    fs::create_dir_all(odd.join(".claude")).expect("mkdir");
    for (words, code) in [(&["install", "--dry-run"][..], 0), (&["install", "--yes"], 1), (&["uninstall", "--yes"], 0)]
    {
        let output = run(&odd, "/nonexistent", words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert!(!error.contains("fault of its own"), "{error}");
        assert_eq!(code == 1, error.contains("not UTF-8"), "{error}");
    }
    assert_eq!(fs::read_dir(odd.join(".claude")).expect("lists").count(), 0);
}

/// An agent that floods when it is asked for its version costs a bound, and not all memory.
#[test]
fn an_agent_that_never_says_its_version_holds_up_nobody() {
    let home = Home::new();
    home.write("bin/claude", "#!/bin/sh\nexec /bin/cat /dev/zero\n");
    fs::set_permissions(home.path("bin/claude"), fs::Permissions::from_mode(0o755)).expect("mode");
    let bin = home.path("bin");
    let output = run(home.0.path(), bin.to_str().expect("UTF-8"), &["install", "--yes"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(home.read(".claude/settings.json").contains("task hook --agent claude"));
}
