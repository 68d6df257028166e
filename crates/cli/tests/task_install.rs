//! `pintle task install`, `uninstall` and `rollback` on a home of their own (issue: section 8 of the pointer's notes).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("temp"));
        fs::create_dir_all(home.path(".codex")).expect("mkdir");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_pintle"))
            .arg("task")
            .args(words)
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/nonexistent")
            .env("PINTLE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .output()
            .expect("runs")
    }

    #[track_caller]
    fn receipt(&self, words: &[&str]) -> Value {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("a receipt")
    }

    /// Every file below the home but our own state, with its content.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut open = vec![self.0.path().to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).expect("lists").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.extend((path != self.path("state")).then_some(path));
                } else {
                    found.push((path.clone(), fs::read(&path).expect("reads")));
                }
            }
        }
        found.sort();
        found
    }
}

fn states(receipt: &Value) -> Vec<&str> {
    receipt["files"].as_array().expect("files").iter().filter_map(|file| file["state"].as_str()).collect()
}

const OWN_HOOKS: &str =
    "{\n\t\"hooks\": {\n\t\t\"Stop\": [{\"hooks\": [{\"type\":\"command\",\"command\":\"mine\"}]}]\n\t}\n}";

#[test]
fn a_dry_run_shows_the_change_and_writes_nothing() {
    let home = Home::new();
    let output = home.run(&["install", "--dry-run"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("task hook --agent codex"), "the diff is shown");
    assert_eq!(home.files(), []);
}

#[test]
fn off_a_terminal_it_needs_yes() {
    let home = Home::new();
    let output = home.run(&["install"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert_eq!(home.files(), []);
}

#[test]
fn install_is_idempotent_and_uninstall_leaves_the_users_bytes() {
    let home = Home::new();
    fs::write(home.path(".codex/hooks.json"), OWN_HOOKS).expect("writes");
    fs::write(home.path(".codex/config.toml"), "model = 'x' # mine\n").expect("writes");
    let before = home.files();
    let receipt = home.receipt(&["install", "--yes"]);
    assert_eq!(states(&receipt), ["changed", "changed", "created"]);
    let installed = home.files();
    let again = home.receipt(&["install", "--yes"]);
    assert_eq!(states(&again), ["unchanged"; 3]);
    assert_eq!((again["backup"].clone(), home.files()), (Value::Null, installed));
    home.receipt(&["uninstall", "--yes"]);
    assert_eq!(home.files(), before);
}

#[test]
fn rollback_restores_every_byte_and_takes_only_ours_out_of_what_was_edited_since() {
    let home = Home::new();
    fs::write(home.path(".codex/hooks.json"), OWN_HOOKS).expect("writes");
    let before = home.files();
    let receipt = home.receipt(&["install", "--yes"]);
    let backup = receipt["backup"].as_str().expect("a backup").to_owned();
    home.receipt(&["rollback", "--yes", "--backup", &backup]);
    assert_eq!(home.files(), before);

    let receipt = home.receipt(&["install", "--yes"]);
    let name = Path::new(receipt["backup"].as_str().expect("a backup")).file_name().expect("name").to_owned();
    let config = home.path(".codex/config.toml");
    let text = fs::read_to_string(&config).expect("reads");
    fs::write(&config, format!("model = 'mine'\n{text}")).expect("writes");
    home.receipt(&["rollback", "--yes", "--backup", name.to_str().expect("UTF-8")]);
    assert_eq!(fs::read_to_string(&config).expect("stays"), "model = 'mine'\n");
}

#[test]
fn a_file_that_the_agent_would_drop_is_refused_and_nothing_else_is_written() {
    for (text, code) in [
        ("\u{feff}{}", "byte order mark"),
        ("{\"hooks\":{},\"hooks\":{}}", "stands twice"),
        ("{ // x\n}", "comment"),
        ("{\"mine\":1}", "(member `mine`)"),
        (
            "{\"description\":\"\\ud800\"}",
            "half a character, for which the agent drops the file whole (line 1, column 17)",
        ),
    ] {
        let home = Home::new();
        fs::write(home.path(".codex/hooks.json"), text).expect("writes");
        let before = home.files();
        let output = home.run(&["install", "--yes"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(code) && stderr.contains("hooks.json"), "{stderr}");
        assert_eq!(home.files(), before);
    }
}

/// Ask 18: a settings file that is managed elsewhere gets the snippet to paste.
#[cfg(unix)]
#[test]
fn a_place_that_cannot_be_written_gets_the_snippet_and_nothing_is_written() {
    let home = Home::new();
    fs::write(home.path("file"), "").expect("writes");
    std::os::unix::fs::symlink(home.path("file/nowhere"), home.path(".codex/hooks.json")).expect("links");
    let before = home.path(".codex/config.toml");
    let output = home.run(&["install", "--yes"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("what belongs into") && stderr.contains("UserPromptSubmit"), "{stderr}");
    assert!(!before.exists());
}

#[test]
fn options_choose_what_is_written() {
    let home = Home::new();
    let receipt = home.receipt(&["install", "--agent", "codex", "--yes", "--strict", "--no-mcp", "--no-rules"]);
    assert_eq!(states(&receipt), ["created"]);
    let hooks = fs::read_to_string(home.path(".codex/hooks.json")).expect("reads");
    assert!(!hooks.contains("--on-error") && !hooks.contains("--mcp"), "{hooks}");
    let all = home.receipt(&["install", "--all", "--dry-run"]);
    let agents: std::collections::BTreeSet<&str> =
        all["files"].as_array().expect("files").iter().filter_map(|file| file["agent"].as_str()).collect();
    assert_eq!(agents.len(), 7, "{agents:?}");
    let output = home.run(&["install", "--agent", "nobody"]);
    assert_eq!(output.status.code(), Some(1), "usage is 1 below task (A12)");
}

/// The members that tools of the published installer read.
#[test]
fn the_receipt_names_what_it_owns() {
    let home = Home::new();
    let receipt = home.receipt(&["install", "--agent", "codex", "--yes"]);
    let text = |name: &str| receipt[name].as_str().map(PathBuf::from);
    assert_eq!(text("owned_root"), Some(home.path("state/tasks")));
    assert_eq!(text("hooks_json"), Some(home.path(".codex/hooks.json")));
    assert!(text("backup").expect("a backup").join("manifest.json").is_file());
    let receipt = home.receipt(&["install", "--agent", "claude", "--yes"]);
    assert!(receipt["hooks_json"].is_null(), "of Codex only");
}

/// Section 8: what the agent would drop whole, or reads in another shape, stays byte for byte; everything else comes back
/// byte for byte when we leave.
#[test]
fn settings_of_every_kind() {
    // Claude Code takes the last four, found out by running it.
    let deep = format!("{{\"deep\":{}{}}}", "[".repeat(300), "]".repeat(300));
    let keep: [&str; 17] = [
        "{\"a\":1}",
        "{\n  \"a\": 1\n}",
        "{\n\t\"a\": 1\n}\n",
        "{\n    \"a\": 1\n}\n\n\n",
        "{\r\n  \"a\": 1\r\n}\r\n",
        "{\"\u{fc}\":\"\u{65e5}\u{672c} \\u00e9\",\"n\":123456789012345678901234567890,\"f\":1.0}",
        "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"mine\"}]}]}}",
        "{\"hooks\": {\"Other\": []}, \"permissions\": {\"allow\": [\"Bash\"]}}",
        "{\r\n\t\"hooks\": {\r\n\t\t\"UserPromptSubmit\": [{\"matcher\": \"\", \"hooks\": [{\"command\": \"x\"}]}]\r\n\t}\r\n}",
        "{ \"mcpServers\": { \"mine\": { \"command\": \"x\" } } }",
        "{\"permissions\":{\"deny\":[\"x\"]}}",
        "{}\n",
        "",
        "\u{feff}{}",
        "{\"a\":1,\"a\":2}",
        "{\"half\": \"\\ud83d\", \"huge\": -1e400}",
        &deep,
    ];
    let refuse: [&str; 11] = [
        "{\n // c\n \"a\":1\n}",
        "{\"a\":1,}",
        "{\"a\":",
        "[]",
        "1",
        "{\"a\":1}\0",
        "{\"hooks\":[]}",
        "{\"hooks\":null}",
        "{\"hooks\":{\"Stop\":{}}}",
        "{\"permissions\":\"x\"}",
        "{\"permissions\":{\"allow\":{}}}",
    ];
    for text in keep.into_iter().chain(refuse) {
        let home = Home::new();
        let path = home.path(".claude/settings.json");
        fs::create_dir_all(path.parent().expect("a folder")).expect("mkdir");
        fs::write(&path, text).expect("writes");
        let before = home.files();
        let install = ["install", "--agent", "claude", "--yes"];
        if refuse.contains(&text) {
            assert_eq!(home.run(&install).status.code(), Some(1), "{text:?}");
            assert_eq!(home.files(), before, "{text:?}: nothing is touched");
            continue;
        }
        home.receipt(&install);
        let installed = fs::read_to_string(&path).expect("reads");
        assert_ne!(installed, text);
        assert!(
            !text.contains("\r\n") || !installed.replace("\r\n", "").contains('\n'),
            "{installed:?}: line ends stay"
        );
        assert!(states(&home.receipt(&install)).iter().all(|state| *state == "unchanged"), "{text:?}");
        home.receipt(&["uninstall", "--agent", "claude", "--yes"]);
        assert_eq!(fs::read_to_string(&path).expect("reads"), text);
    }
}

#[test]
fn a_wrong_backup_gets_the_right_ones_told() {
    let home = Home::new();
    let stderr = |home: &Home| String::from_utf8_lossy(&home.run(&["rollback", "--backup", "x"]).stderr).into_owned();
    assert!(stderr(&home).contains("there is none below "), "{}", stderr(&home));
    let receipt = home.receipt(&["install", "--yes"]);
    let backup = receipt["backup"].as_str().expect("a backup");
    assert!(stderr(&home).contains(&format!("there is {backup} (install)")), "{}", stderr(&home));
    // A file beside the backups is none.
    let file = Path::new(backup).with_file_name("lock");
    fs::write(&file, "").expect("writes");
    let told = String::from_utf8_lossy(&home.run(&["rollback", "--backup", "lock"]).stderr).into_owned();
    assert!(told.contains("it is no directory") && told.contains(backup) && !told.contains("os error"), "{told}");
}

/// What is named is taken.
#[test]
fn the_agents_that_can_be_installed_are_named() {
    let home = Home::new();
    for command in ["install", "uninstall", "doctor"] {
        let told = String::from_utf8_lossy(&home.run(&[command, "--agent", "nope"]).stderr).into_owned();
        assert!(told.contains("there are codex, ") && !told.contains("generic"), "{told}");
    }
}

/// Containers of the user's that are empty without us stay, after an install, an upgrade, a way back and forth; and
/// where the user edited the file since, or the backups are gone, everything of the user's stays at least.
#[test]
fn what_was_there_before_us_stays() {
    let own = "{ \"hooks\": { \"Stop\": [], \"UserPromptSubmit\": [ ] },\n  \"permissions\": {\"allow\": [ ]} }";
    let home = Home::new();
    let path = home.path(".claude/settings.json");
    fs::create_dir_all(path.parent().expect("a folder")).expect("mkdir");
    fs::write(&path, own).expect("writes");
    let before = home.files();
    let install = ["install", "--agent", "claude", "--yes"];
    let uninstall = ["uninstall", "--agent", "claude", "--yes"];
    home.receipt(&install);
    home.receipt(&[&install[..], &["--strict"]].concat());
    home.receipt(&uninstall);
    assert_eq!(home.files(), before);
    let receipt = home.receipt(&install);
    home.receipt(&["rollback", "--yes", "--backup", receipt["backup"].as_str().expect("a backup")]);
    assert_eq!(home.files(), before);
    home.receipt(&install);
    let text = fs::read_to_string(&path).expect("reads");
    fs::write(&path, text.replacen('{', "{ \"since\": 1,", 1)).expect("writes");
    home.receipt(&uninstall);
    let left: Value = serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
    let expected = "{\"since\":1,\"hooks\":{\"Stop\":[],\"UserPromptSubmit\":[]},\"permissions\":{\"allow\":[]}}";
    assert_eq!(left, serde_json::from_str::<Value>(expected).expect("JSON"));

    home.receipt(&install);
    fs::remove_dir_all(home.path("state/install-backups")).expect("removes");
    home.receipt(&uninstall);
    let left: Value = serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
    assert_eq!(left["since"], 1, "{left}");
    assert!(!left.to_string().contains("pintle"), "{left}");
}

/// Section 8: a link stays a link, a mode stays a mode.
#[cfg(unix)]
#[test]
fn links_and_modes_of_settings_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = Home::new();
    for dir in ["dotfiles", ".claude"] {
        fs::create_dir_all(home.path(dir)).expect("mkdir");
    }
    let (target, link) = (home.path("dotfiles/claude.json"), home.path(".claude/settings.json"));
    fs::write(&target, "{\"a\":1}").expect("writes");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o440)).expect("chmod");
    symlink("../dotfiles/claude.json", &link).expect("links");
    home.receipt(&["install", "--agent", "claude", "--yes"]);
    assert!(link.symlink_metadata().expect("stat").is_symlink());
    assert!(fs::read_to_string(&target).expect("reads").contains("task hook --agent claude"));
    assert_eq!(target.metadata().expect("stat").permissions().mode() & 0o777, 0o440);
    home.receipt(&["uninstall", "--agent", "claude", "--yes"]);
    assert_eq!(fs::read_to_string(&target).expect("reads"), "{\"a\":1}");

    fs::remove_file(&link).expect("removes");
    symlink("/nonexistent/settings.json", &link).expect("links");
    assert_eq!(home.run(&["install", "--agent", "claude", "--yes"]).status.code(), Some(1), "a link to nowhere");
    assert!(link.symlink_metadata().expect("stat").is_symlink());
}
