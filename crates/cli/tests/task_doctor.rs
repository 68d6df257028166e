//! `pintle task doctor` on homes of its own: what is whole is healthy, every fault is told with the step that helps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("scratch directory"));
        fs::create_dir_all(home.path(".codex")).expect("mkdir");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
            .arg("task")
            .args(words)
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/nonexistent")
            .env("PINTLE_HOME", self.path("state"))
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let _ = std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input.as_bytes());
        child.wait_with_output().expect("ends")
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words, "");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The exit code and the findings.
    fn doctor(&self, words: &[&str]) -> (Option<i32>, Vec<Value>) {
        let output = self.run(&[&["doctor", "--format", "json"], words].concat(), "");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!(report["schema"], json!("pintle.doctor.v1"));
        assert_eq!(report["ok"], json!(output.status.success()));
        (output.status.code(), report["findings"].as_array().expect("findings").clone())
    }

    fn publish(&self, session: &str, text: &str) {
        let request = json!({"schema_version": 3, "session_id": session, "expected_generation": "ABSENT",
            "expected_revision": 0, "task_id": "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6", "target_status": "CLEAN",
            "pointer_text": text});
        let output = self.run(&["publish"], &request.to_string());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// What the user does in Codex's /hooks, with what the doctor says of each hook.
    fn trust(&self, findings: &[Value]) {
        let mut config = fs::read_to_string(self.path(".codex/config.toml")).expect("reads");
        for one in findings.iter().filter(|one| one["code"] == json!("untrusted")) {
            let (key, hash) = (&one["data"]["key"], &one["data"]["hash"]);
            config.push_str(&format!("\n[hooks.state.{key}]\ntrusted_hash = {hash}\n"));
        }
        fs::write(self.path(".codex/config.toml"), config).expect("writes");
    }
}

fn codes<'a>(findings: &'a [Value], level: &str) -> Vec<&'a str> {
    findings.iter().filter(|one| one["level"] == json!(level)).filter_map(|one| one["code"].as_str()).collect()
}

#[track_caller]
fn one<'a>(findings: &'a [Value], code: &str) -> &'a Value {
    findings.iter().find(|one| one["code"] == json!(code)).unwrap_or_else(|| panic!("no {code}: {findings:#?}"))
}

/// Ask 8: "wired" is not enough where the agent holds a hook untrusted.
#[test]
fn codex_is_healthy_once_its_hooks_are_trusted_and_both_ways_of_publishing_are_tried() {
    let home = Home::new();
    let (code, findings) = home.doctor(&[]);
    assert_eq!((code, codes(&findings, "fail")), (Some(0), vec![]), "an agent without pintle is no fault");
    assert_eq!(one(&findings, "not_installed")["step"], json!("pintle task install --agent codex"));

    home.ok(&["install", "--yes"]);
    let (code, findings) = home.doctor(&[]);
    assert_eq!((code, codes(&findings, "fail")), (Some(1), vec!["untrusted"; 4]), "{findings:#?}");
    assert!(one(&findings, "untrusted")["step"].as_str().expect("a step").contains("/hooks"));

    home.trust(&findings);
    let (code, findings) = home.doctor(&[]);
    assert_eq!((code, codes(&findings, "fail")), (Some(0), vec![]), "{findings:#?}");
    for code in ["trusted", "program", "publish_command", "publish_tool", "lock", "root"] {
        assert_eq!(one(&findings, code)["level"], json!("ok"), "{code}");
    }
    let left: Vec<_> = fs::read_dir(home.path("state/tasks")).expect("lists").flatten().collect();
    assert!(left.is_empty(), "the scratch session is gone: {left:?}");
    let human = home.ok(&["doctor", "--format", "human"]);
    assert!(human.contains("healthy"), "{human}");
}

#[test]
fn a_changed_a_disabled_and_an_unwired_hook_are_told() {
    let home = Home::new();
    home.ok(&["install", "--yes"]);
    let (_, findings) = home.doctor(&[]);
    home.trust(&findings);
    let config = home.path(".codex/config.toml");
    let trusted = fs::read_to_string(&config).expect("reads");
    let hash = one(&findings, "untrusted")["data"]["hash"].as_str().expect("hash").to_owned();
    fs::write(&config, trusted.replacen(&hash, "sha256:00", 1)).expect("writes");
    assert_eq!(codes(&home.doctor(&[]).1, "fail"), ["modified"]);
    let line = format!("trusted_hash = \"{hash}\"");
    fs::write(&config, trusted.replacen(&line, &format!("{line}\nenabled = false"), 1)).expect("writes");
    assert_eq!(codes(&home.doctor(&[]).1, "fail"), ["disabled"]);
    fs::write(&config, trusted.replace("\"mcp\"", "\"other\"")).expect("writes");
    let findings = home.doctor(&[]).1;
    assert!(codes(&findings, "warn").contains(&"differs"), "{findings:#?}");
    assert!(codes(&findings, "fail").contains(&"publish_tool"), "{findings:#?}");
}

#[test]
fn an_agent_that_was_asked_for_and_has_nothing_is_a_fault() {
    let home = Home::new();
    let (code, findings) = home.doctor(&["--agent", "claude"]);
    assert_eq!((code, codes(&findings, "fail")), (Some(1), vec!["not_installed"]));
    assert_eq!(home.run(&["doctor", "--agent", "nobody"], "").status.code(), Some(1), "usage is 1 below task (A12)");
}

#[test]
fn a_program_that_is_gone_is_told_with_the_step() {
    let home = Home::new();
    home.ok(&["install", "--yes", "--agent", "claude"]);
    let settings = home.path(".claude/settings.json");
    let text = fs::read_to_string(&settings).expect("reads");
    fs::write(&settings, text.replace(env!("CARGO_BIN_EXE_pintle"), "/nowhere/pintle")).expect("writes");
    let (code, findings) = home.doctor(&["--agent", "claude"]);
    assert_eq!(code, Some(1));
    assert_eq!(one(&findings, "program_missing")["step"], json!("pintle task install --agent claude"));
    fs::write(&settings, "{\"disableAllHooks\": true,").expect("writes");
    assert!(codes(&home.doctor(&["--agent", "claude"]).1, "fail").contains(&"JSON_SYNTAX"));
}

/// Ask 11 of section 8: a file that the agent drops is not repaired, and hooks that are switched off are told.
#[test]
fn hooks_that_are_switched_off_are_told() {
    let home = Home::new();
    home.ok(&["install", "--yes", "--agent", "claude"]);
    let settings = home.path(".claude/settings.json");
    let text = fs::read_to_string(&settings).expect("reads");
    fs::write(&settings, text.replacen('{', "{\"disableAllHooks\": true,", 1)).expect("writes");
    assert!(codes(&home.doctor(&["--agent", "claude"]).1, "fail").contains(&"hooks_off"));
}

/// Item 9: the unreadable file is kept beside a new fence.
#[test]
fn a_corrupt_state_is_told_and_repaired_on_demand() {
    let home = Home::new();
    fs::remove_dir(home.path(".codex")).expect("no agent");
    for session in ["one", "two"] {
        home.publish(session, "Goal");
        fs::write(home.path("state/tasks").join(session).join("state.json"), "{").expect("writes");
    }
    let (code, findings) = home.doctor(&[]);
    assert_eq!((code, codes(&findings, "fail")), (Some(1), vec!["STATE_JSON", "STATE_JSON"]));
    assert_eq!(one(&findings, "STATE_JSON")["step"], json!("pintle task doctor --repair --session one"));

    let (code, _) = home.doctor(&["--repair", "--session", "one"]);
    assert_eq!(code, Some(0));
    let names = |session: &str| {
        let listed = fs::read_dir(home.path("state/tasks").join(session)).expect("lists");
        listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert!(names("one").iter().any(|name| name.starts_with("state.json.corrupt-")), "{:?}", names("one"));
    assert!(!names("two").iter().any(|name| name.contains("corrupt")), "only the named one");
    assert!(home.ok(&["show", "one", "--format", "json"]).contains("CLEARED"));
    assert_eq!(home.doctor(&["--repair"]).0, Some(0));
    assert_eq!(codes(&home.doctor(&[]).1, "fail"), Vec::<&str>::new());
}

#[test]
fn leftovers_modes_links_and_hidden_characters_are_told() {
    let home = Home::new();
    fs::remove_dir(home.path(".codex")).expect("no agent");
    home.publish("s", "Goal \u{202e}live");
    let temp = home.path("state/tasks/s/.state.json.tmp-0123456789abcdef");
    fs::write(&temp, "").expect("writes");
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        fs::set_permissions(&temp, fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::set_permissions(home.path("state/tasks"), fs::Permissions::from_mode(0o755)).expect("chmod");
        symlink(Path::new("/"), home.path("state/tasks/link")).expect("links");
    }
    let (code, findings) = home.doctor(&[]);
    let mut told = codes(&findings, "warn");
    told.retain(|code| *code != "place");
    if cfg!(unix) {
        assert_eq!((code, told), (Some(1), vec!["mode", "leftover", "hidden_characters"]), "{findings:#?}");
        assert_eq!(codes(&findings, "fail"), ["PATH_REPARSE_POINT"]);
    }
    home.doctor(&["--repair"]);
    assert!(!temp.exists(), "the interrupted write is gone");
    assert!(home.ok(&["show", "s"]).contains("Goal"), "the record stays");
}

#[test]
fn a_root_that_cannot_be_written_is_a_fault() {
    let home = Home::new();
    fs::remove_dir(home.path(".codex")).expect("no agent");
    fs::write(home.path("file"), "").expect("writes");
    let root = home.path("file/tasks");
    let (code, findings) = home.doctor(&["--root", root.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(1), "{findings:#?}");
    assert!(!codes(&findings, "fail").is_empty());
}

/// A1: another program's root is offered; the published protocol's own hooks beside ours are told.
#[test]
fn another_pointer_program_is_told() {
    let home = Home::new();
    let hooks = json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command",
        "command": "pwsh -File /home/u/.codex/task-pointer/hook.ps1"}]}]}});
    fs::write(home.path(".codex/hooks.json"), hooks.to_string()).expect("writes");
    let (_, findings) = home.doctor(&["--agent", "codex"]);
    assert!(!codes(&findings, "note").contains(&"foreign_root"), "there is none");
    home.ok(&["install", "--agent", "codex", "--yes"]);
    let foreign = home.path(".codex/state/task-pointers/v2/x");
    fs::create_dir_all(&foreign).expect("mkdir");
    fs::write(foreign.join("pointer.txt"), "").expect("writes");
    let (_, findings) = home.doctor(&["--agent", "codex"]);
    assert!(codes(&findings, "warn").contains(&"other_pointer"), "{findings:?}");
    let offer = one(&findings, "foreign_root");
    assert!(offer["text"].as_str().expect("text").contains("task import --agent codex --from-root"), "{offer}");
}
