use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::Agent;

/// Where agents keep their settings: the home, and the variables by which a user moves it. The caller looks them up.
#[derive(Clone, Debug, Default)]
pub struct Dirs {
    /// The user's home.
    pub home: PathBuf,
    /// `CODEX_HOME`.
    pub codex_home: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`.
    pub claude_config_dir: Option<PathBuf>,
    /// `COPILOT_HOME`.
    pub copilot_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
}

impl Dirs {
    /// Reads the variables through `lookup`. An empty value counts as unset, as shells have it.
    pub fn from_lookup(home: PathBuf, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            home,
            codex_home: path("CODEX_HOME"),
            claude_config_dir: path("CLAUDE_CONFIG_DIR"),
            copilot_home: path("COPILOT_HOME"),
            xdg_config_home: path("XDG_CONFIG_HOME"),
        }
    }

    fn or_home(&self, moved: Option<&Path>, usual: &str) -> PathBuf {
        moved.map_or_else(|| self.home.join(usual), Path::to_path_buf)
    }
}

/// An agent that can be installed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(Agent);

impl Host {
    /// The agents that have a place for hooks, in the order in which they are offered.
    pub const ALL: [Self; 7] = [
        Self(Agent::Codex),
        Self(Agent::Claude),
        Self(Agent::Gemini),
        Self(Agent::Qwen),
        Self(Agent::Copilot),
        Self(Agent::Cursor),
        Self(Agent::Opencode),
    ];

    /// The host of an agent; the generic one has none, its user writes the hook entry.
    pub fn of(agent: Agent) -> Option<Self> {
        (agent != Agent::Generic).then_some(Self(agent))
    }

    /// Which agent it is.
    pub const fn agent(self) -> Agent {
        self.0
    }

    /// Programs whose presence on `PATH` says that the agent is installed.
    pub const fn programs(self) -> &'static [&'static str] {
        match self.0 {
            Agent::Codex => &["codex"],
            Agent::Claude => &["claude"],
            Agent::Gemini => &["gemini"],
            Agent::Qwen => &["qwen"],
            Agent::Copilot => &["copilot"],
            Agent::Cursor => &["cursor", "cursor-agent"],
            Agent::Opencode => &["opencode"],
            Agent::Generic => &[],
        }
    }

    /// The directory whose presence says that the agent has been used here.
    pub fn config_dir(self, dirs: &Dirs) -> PathBuf {
        match self.0 {
            Agent::Codex => dirs.or_home(dirs.codex_home.as_deref(), ".codex"),
            Agent::Claude => dirs.or_home(dirs.claude_config_dir.as_deref(), ".claude"),
            Agent::Gemini => dirs.home.join(".gemini"),
            Agent::Qwen => dirs.home.join(".qwen"),
            Agent::Copilot => dirs.or_home(dirs.copilot_home.as_deref(), ".copilot"),
            Agent::Cursor => dirs.home.join(".cursor"),
            Agent::Opencode => dirs.or_home(dirs.xdg_config_home.as_deref(), ".config").join("opencode"),
            Agent::Generic => dirs.home.clone(),
        }
    }

    pub(super) fn hooks_file(self, dirs: &Dirs) -> PathBuf {
        let name = match self.0 {
            Agent::Codex | Agent::Cursor | Agent::Generic => "hooks.json",
            Agent::Claude | Agent::Gemini | Agent::Qwen => "settings.json",
            // A file of our own: Copilot reads every file of the folder.
            Agent::Copilot => "hooks/pintle-task.json",
            Agent::Opencode => "plugins/pintle-task.js",
        };
        self.config_dir(dirs).join(name)
    }

    pub(super) fn mcp_file(self, dirs: &Dirs) -> PathBuf {
        match self.0 {
            Agent::Codex => self.config_dir(dirs).join("config.toml"),
            // Claude Code keeps the servers of the user beside its folder, or in it where the folder was moved.
            Agent::Claude => dirs.claude_config_dir.as_ref().unwrap_or(&dirs.home).join(".claude.json"),
            Agent::Gemini | Agent::Qwen | Agent::Generic => self.config_dir(dirs).join("settings.json"),
            Agent::Copilot => self.config_dir(dirs).join("mcp-config.json"),
            Agent::Cursor => self.config_dir(dirs).join("mcp.json"),
            Agent::Opencode => self.config_dir(dirs).join("opencode.json"),
        }
    }

    /// The instructions that the model reads in every project; Cursor keeps the user's rules in its own settings.
    pub(super) fn rules_file(self, dirs: &Dirs) -> Option<PathBuf> {
        let name = match self.0 {
            Agent::Codex | Agent::Opencode => "AGENTS.md",
            Agent::Claude => "CLAUDE.md",
            Agent::Gemini => "GEMINI.md",
            Agent::Qwen => "QWEN.md",
            Agent::Copilot => "copilot-instructions.md",
            Agent::Cursor | Agent::Generic => return None,
        };
        Some(self.config_dir(dirs).join(name))
    }

    /// What the user still has to do by hand, if anything.
    pub const fn last_step(self) -> Option<&'static str> {
        match self.0 {
            Agent::Codex => {
                Some("start codex, open /hooks and trust the pintle hooks: until then they are listed and not run")
            }
            Agent::Cursor => Some(
                "Cursor's editor drops the context of hooks (its command line keeps it): add the task rules in Settings, Rules",
            ),
            _ => None,
        }
    }
}
