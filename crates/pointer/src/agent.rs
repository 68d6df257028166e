use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The agents that have an adapter. The word on the command line is the lower-case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Agent {
    /// OpenAI Codex CLI.
    Codex,
    /// Claude Code.
    Claude,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
    /// GitHub Copilot CLI.
    Copilot,
    /// Cursor, IDE and CLI.
    Cursor,
    /// opencode, through its plugin.
    Opencode,
    /// Any other agent with hooks shaped like Claude Code's.
    Generic,
}

impl Agent {
    /// Every agent.
    pub const ALL: [Self; 8] = [
        Self::Codex,
        Self::Claude,
        Self::Gemini,
        Self::Qwen,
        Self::Copilot,
        Self::Cursor,
        Self::Opencode,
        Self::Generic,
    ];

    /// The word on the command line and in the sidecar.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
            Self::Generic => "generic",
        }
    }

    /// The environment variable in which the agent tells its children the session id. A publish compares it with the
    /// request, for this agent only: a Codex started in a Claude terminal inherits Claude's variable (A7).
    pub const fn session_variable(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("CLAUDE_CODE_SESSION_ID"),
            Self::Gemini => Some("GEMINI_SESSION_ID"),
            Self::Qwen => Some("QWEN_CODE_SESSION_ID"),
            Self::Codex | Self::Copilot | Self::Cursor | Self::Opencode | Self::Generic => None,
        }
    }

    /// Whether a context with a session start does the agent good.
    ///
    /// Gemini CLI glues it in front of the prompt that follows, and on resume drops every message that begins with a
    /// hook's context (measured on 0.61.0): the user's own words would be forgotten. It asks again with the prompt
    /// itself, whose context it puts behind.
    pub const fn takes_start_context(self) -> bool {
        !matches!(self, Self::Gemini)
    }

    /// What becomes of a context block in the agent's history (A4).
    pub const fn compaction(self) -> Compaction {
        match self {
            Self::Codex | Self::Claude | Self::Qwen => Compaction::Announced,
            // Of an unknown agent the worse is assumed.
            Self::Gemini | Self::Copilot | Self::Cursor | Self::Generic => Compaction::Silent,
            Self::Opencode => Compaction::PerRequest,
        }
    }
}

/// Whether an agent that compacts its history gives us a chance to say the task again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// A session start with source `compact` follows it.
    Announced,
    /// Nothing follows it, so the full text must come again on its own.
    Silent,
    /// Contexts are not kept in the history: each request gets its own.
    PerRequest,
}

/// A word that names no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("agent is not one of codex, claude, gemini, qwen, copilot, cursor, opencode, generic")]
pub struct UnknownAgent;

impl FromStr for Agent {
    type Err = UnknownAgent;

    fn from_str(word: &str) -> Result<Self, UnknownAgent> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == word).ok_or(UnknownAgent)
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
