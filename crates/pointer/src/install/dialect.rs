//! What each agent takes in its settings files, found out by giving it one of each and looking whether its hooks and
//! servers still ran (docs/task.md names the versions). What an agent does not take, it drops the whole file for.

use super::TargetRole;
use crate::Agent;

/// Deeper than this nothing is edited, whatever the agent takes: nobody's settings are.
pub const SETTINGS_MAX_DEPTH: usize = 500;

/// The deepest that the JSON reader of agents written in Rust goes.
const RUST_DEPTH: usize = 127;

/// What an agent takes in a settings file beside RFC 8259, and what it does not take of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// A byte order mark in front.
    pub byte_order_mark: bool,
    /// Comments, `//` to the end of the line and `/* */`.
    pub comments: bool,
    /// A comma behind the last member or item.
    pub trailing_commas: bool,
    /// Half a surrogate pair as an escape.
    pub lone_surrogates: bool,
    /// Numbers that no double can hold, such as `1e400`.
    pub huge_numbers: bool,
    /// Member names that may not stand twice in one object. Of any other name the last one counts.
    pub once: &'static [&'static str],
    /// The only members that the root may have; empty where it may have any.
    pub root: &'static [&'static str],
    /// How many containers may stand in one another, at most [`SETTINGS_MAX_DEPTH`].
    pub depth_max: usize,
}

/// The names that Codex knows in `hooks.json`: a second one of those spoils the file, of others it does not.
const CODEX_NAMES: &[&str] = &[
    "hooks",
    "description",
    "matcher",
    "type",
    "command",
    "commandWindows",
    "timeout",
    "async",
    "statusMessage",
    "additionalContextLimit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "Interrupt",
];

impl Dialect {
    /// What `JSON.parse` takes.
    const JAVASCRIPT: Self = Self {
        byte_order_mark: false,
        comments: false,
        trailing_commas: false,
        lone_surrogates: true,
        huge_numbers: true,
        once: &[],
        root: &[],
        depth_max: SETTINGS_MAX_DEPTH,
    };

    /// What an agent takes in the file of that role.
    pub const fn of(agent: Agent, role: TargetRole) -> Self {
        match (agent, role) {
            (Agent::Codex, _) => Self {
                lone_surrogates: false,
                once: CODEX_NAMES,
                root: &["description", "hooks"],
                depth_max: RUST_DEPTH,
                ..Self::JAVASCRIPT
            },
            (Agent::Claude, _) => Self { byte_order_mark: true, ..Self::JAVASCRIPT },
            (Agent::Gemini, _) => Self { comments: true, ..Self::JAVASCRIPT },
            (Agent::Qwen, _) => Self { byte_order_mark: true, comments: true, ..Self::JAVASCRIPT },
            (Agent::Copilot, TargetRole::Mcp) => Self {
                byte_order_mark: true,
                comments: true,
                trailing_commas: true,
                lone_surrogates: false,
                depth_max: RUST_DEPTH,
                ..Self::JAVASCRIPT
            },
            (Agent::Copilot, _) => {
                Self { lone_surrogates: false, huge_numbers: false, depth_max: RUST_DEPTH, ..Self::JAVASCRIPT }
            }
            (Agent::Opencode, _) => {
                Self { byte_order_mark: true, comments: true, trailing_commas: true, ..Self::JAVASCRIPT }
            }
            // Cursor cannot be run without an account; its documents say JSON, and it is written in JavaScript.
            (Agent::Cursor | Agent::Generic, _) => Self::JAVASCRIPT,
        }
    }
}
