//! A home, a project and the real binary, for the tests of `pintle task`.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

pub(crate) const TEXT: &str = "Goal: x\nNext: y";

/// A home, a project and the binary.
pub(crate) struct World {
    dir: tempfile::TempDir,
    /// More of the environment.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("scratch directory");
        for name in ["home", "project"] {
            fs::create_dir(dir.path().join(name)).expect("mkdir");
        }
        Self { dir, variables: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pintle"));
        command.args(args).env_clear().env("HOME", self.path("home")).env("USERPROFILE", self.path("home"));
        command.env("XDG_STATE_HOME", self.path("state")).env("LOCALAPPDATA", self.path("state"));
        command.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command.current_dir(self.path("project"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().expect("the binary starts")
    }

    pub(crate) fn run(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = self.spawn(args);
        // A command that refuses its arguments does not read.
        let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
        child.wait_with_output().expect("the binary ends")
    }

    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[track_caller]
    pub(crate) fn fails(&self, args: &[&str], stdin: &str, code: i32) -> (String, String) {
        let output = self.run(args, stdin);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        (String::from_utf8(output.stdout).expect("UTF-8"), stderr)
    }

    pub(crate) fn hook_input(&self, session: &str, event: &str) -> String {
        let cwd = self.path("project");
        json!({"session_id": session, "cwd": cwd, "hook_event_name": event, "prompt": "x", "source": "startup"})
            .to_string()
    }

    #[track_caller]
    pub(crate) fn prompt(&self, session: &str) -> String {
        let input = self.hook_input(session, "UserPromptSubmit");
        let output: Value =
            serde_json::from_str(&self.ok(&["task", "hook", "--agent", "claude"], &input)).expect("JSON");
        output["hookSpecificOutput"]["additionalContext"].as_str().expect("context").to_owned()
    }

    #[track_caller]
    pub(crate) fn state(&self, session: &str) -> Value {
        serde_json::from_str(&self.ok(&["task", "show", session, "--format", "json"], "")).expect("JSON")
    }
}

pub(crate) fn request(session: &str, generation: &str, revision: u64, text: Option<&str>) -> String {
    json!({"schema_version": 3, "session_id": session, "expected_generation": generation, "expected_revision": revision,
        "task_id": text.map(|_| "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6"),
        "target_status": if text.is_some() { "CLEAN" } else { "CLEARED" }, "pointer_text": text})
    .to_string()
}

pub(crate) fn line_of(block: &str, name: &str) -> String {
    let prefix = format!("{name}: ");
    block.lines().find_map(|line| line.strip_prefix(prefix.as_str())).expect(name).to_owned()
}
