//! A user with a home for state, a current directory of their own and the real binary, for the tests of the commands that
//! start agents. Each test program adds what it does.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const PINTLE: &str = env!("CARGO_BIN_EXE_pintle");
/// The built-in agent.
pub(crate) const MOCK: [&str; 3] = [PINTLE, "mock", "agent"];

pub(crate) struct User {
    dir: tempfile::TempDir,
}

impl User {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir_all(dir.path().join("cwd/.git")).expect("directories");
        for name in ["tmp", "home"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The binary with these arguments, in the user's directory, with an environment of its own.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PINTLE);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("PINTLE_HOME", self.path("state"))
            .env("TMPDIR", self.path("tmp"))
            .current_dir(self.path("cwd"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.command(args).output().expect("the binary runs").into()
    }
}

/// How the binary ended, and what it wrote.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Run {
    /// It ended with this code, and these words stand in what it wrote.
    #[track_caller]
    pub(crate) fn assert(&self, code: i32, words: &[&str]) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "{stdout}\n{stderr}");
        for word in words {
            assert!(stdout.contains(word) || stderr.contains(word), "`{word}` is not in:\n{stdout}\n{stderr}");
        }
    }

    /// The same, with the words on standard error.
    #[track_caller]
    pub(crate) fn assert_told(&self, code: i32, words: &[&str]) {
        self.assert(code, &[]);
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in:\n{}", self.stderr);
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}
