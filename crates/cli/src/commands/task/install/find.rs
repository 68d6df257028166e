//! Which agents are here, and how this program is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pintle_pointer::install::{Dirs, Host, Setup};
use pintle_pointer::{Agent, Shell};

use super::super::{child, failed};
use crate::error::CommandError;

/// The first version of Claude Code whose exec form of hooks was measured.
const CLAUDE_EXEC_FORM: [u64; 3] = [2, 1, 332];

/// How long an agent may take to say its version.
const VERSION_WAIT: Duration = Duration::from_secs(10);

/// What the environment says.
pub(in crate::commands::task) struct Surroundings {
    /// Where agents keep their settings.
    pub(in crate::commands::task) dirs: Dirs,
    path: Vec<PathBuf>,
}

impl Surroundings {
    /// Reads the environment.
    pub(in crate::commands::task) fn read() -> Result<Self, CommandError> {
        let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        let home = std::env::var_os(name).filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = home.ok_or_else(|| failed("PATH_HOME", format!("find your settings: {name} is not set")))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
        Ok(Self { dirs: Dirs::from_lookup(home, |name| std::env::var_os(name)), path })
    }

    /// The agents that have settings or a program here.
    pub(in crate::commands::task) fn found(&self) -> Vec<Host> {
        Host::ALL.into_iter().filter(|host| self.has(*host)).collect()
    }

    /// Whether an agent has settings or a program here.
    pub(in crate::commands::task) fn has(&self, host: Host) -> bool {
        host.config_dir(&self.dirs).is_dir() || host.programs().iter().any(|name| self.on_path(name).is_some())
    }

    /// How this program is called, as it was installed: the path of the command line, or the first of that name on
    /// `PATH`. Links are not resolved: what they point to goes away with the next upgrade.
    pub(in crate::commands::task) fn program(&self) -> Result<String, CommandError> {
        let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
        let path = if called.components().count() > 1 {
            std::path::absolute(&called).ok()
        } else {
            called.to_str().and_then(|name| self.on_path(name))
        };
        let path = path.filter(|path| path.is_file()).or_else(|| std::env::current_exe().ok());
        path.and_then(|path| path.to_str().map(str::to_owned))
            .ok_or_else(|| failed("SOURCE_MISSING", "find this program: its path is not known, or not UTF-8"))
    }

    /// What to install for an agent.
    pub(in crate::commands::task) fn setup(
        &self,
        agent: Agent,
        program: &str,
        strict: bool,
        mcp: bool,
        rules: bool,
    ) -> Setup {
        Setup {
            agent,
            program: program.to_owned(),
            shell: if cfg!(windows) { Shell::Windows } else { Shell::Posix },
            exec_form: agent == Agent::Claude && self.claude_has_exec_form(),
            strict,
            mcp,
            rules,
        }
    }

    /// The first program of that name on `PATH`.
    pub(in crate::commands::task) fn on_path(&self, name: &str) -> Option<PathBuf> {
        let mut file = OsString::from(name);
        if cfg!(windows) && Path::new(name).extension().is_none() {
            file.push(".exe");
        }
        self.path.iter().map(|dir| dir.join(&file)).find(|path| is_program(path))
    }

    /// Asks the program, since an older one takes the command without its arguments.
    fn claude_has_exec_form(&self) -> bool {
        let Some(program) = self.on_path("claude") else { return false };
        let Ok(said) = child::run(Command::new(program).arg("--version"), "", VERSION_WAIT) else { return false };
        let version = said.stdout.split_whitespace().next().unwrap_or_default();
        let numbers: Vec<u64> = version.split('.').map_while(|part| part.parse().ok()).collect();
        numbers.as_slice() >= CLAUDE_EXEC_FORM.as_slice()
    }
}

/// The words that `--agent` takes.
pub(in crate::commands::task) fn agent_words(word: &str) -> Result<Agent, String> {
    match word.parse() {
        Ok(Agent::Generic) => {
            Err("the generic agent has no settings that pintle knows: write its hook entry by hand".into())
        }
        Ok(agent) => Ok(agent),
        Err(_) => {
            let known: Vec<&str> = Host::ALL.iter().map(|host| host.agent().as_str()).collect();
            Err(format!("no such agent is known; there are {}", known.join(", ")))
        }
    }
}

/// Whether a path lies in what cargo builds.
pub(in crate::commands::task) fn is_build_output(program: &str) -> bool {
    let path = Path::new(program);
    let parent = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let above = path.parent().and_then(Path::parent).and_then(Path::file_name).and_then(|name| name.to_str());
    matches!(parent, Some("debug" | "release")) && above == Some("target")
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}
