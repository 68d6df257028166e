//! The events of each host, in one table.

use crate::agent::Agent;
use crate::decide::Start;

/// What an event name means to the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Prompt,
    PreCompact,
    /// With a `source` member that decides.
    SessionStart,
    /// A session start whose name says the source.
    Start(Start),
    Stop,
    /// Known, and nothing to do.
    Quiet,
}

/// Events of hosts whose hooks are shaped like Claude Code's.
const CLAUDE_SHAPED: &[(&str, Kind)] = &[
    ("UserPromptSubmit", Kind::Prompt),
    ("PreCompact", Kind::PreCompact),
    ("SessionStart", Kind::SessionStart),
    ("Stop", Kind::Stop),
    ("PostCompact", Kind::Quiet),
    ("SessionEnd", Kind::Quiet),
    ("SubagentStart", Kind::Quiet),
    ("SubagentStop", Kind::Quiet),
    ("PreToolUse", Kind::Quiet),
    ("PostToolUse", Kind::Quiet),
    ("PermissionRequest", Kind::Quiet),
    ("Notification", Kind::Quiet),
    ("Interrupt", Kind::Quiet),
];

const GEMINI: &[(&str, Kind)] = &[
    ("BeforeAgent", Kind::Prompt),
    ("PreCompress", Kind::PreCompact),
    ("SessionStart", Kind::SessionStart),
    ("AfterAgent", Kind::Quiet),
    ("SessionEnd", Kind::Quiet),
    ("BeforeModel", Kind::Quiet),
    ("AfterModel", Kind::Quiet),
    ("BeforeToolSelection", Kind::Quiet),
    ("BeforeTool", Kind::Quiet),
    ("AfterTool", Kind::Quiet),
    ("Notification", Kind::Quiet),
];

/// Copilot sends camelCase payloads without an event name, and PascalCase ones shaped like Claude Code's.
const COPILOT: &[(&str, Kind)] = &[
    ("userPromptSubmitted", Kind::Prompt),
    ("UserPromptSubmit", Kind::Prompt),
    ("preCompact", Kind::PreCompact),
    ("PreCompact", Kind::PreCompact),
    ("sessionStart", Kind::SessionStart),
    ("SessionStart", Kind::SessionStart),
    ("agentStop", Kind::Quiet),
    ("Stop", Kind::Quiet),
    ("userPromptTransformed", Kind::Quiet),
    ("UserPromptTransformed", Kind::Quiet),
    ("sessionEnd", Kind::Quiet),
    ("SessionEnd", Kind::Quiet),
    ("subagentStop", Kind::Quiet),
    ("SubagentStop", Kind::Quiet),
    ("preToolUse", Kind::Quiet),
    ("PreToolUse", Kind::Quiet),
    ("postToolUse", Kind::Quiet),
    ("PostToolUse", Kind::Quiet),
    ("errorOccurred", Kind::Quiet),
];

const CURSOR: &[(&str, Kind)] = &[
    ("beforeSubmitPrompt", Kind::Prompt),
    ("preCompact", Kind::PreCompact),
    ("sessionStart", Kind::SessionStart),
    ("sessionEnd", Kind::Quiet),
    ("stop", Kind::Quiet),
    ("subagentStop", Kind::Quiet),
    ("afterAgentResponse", Kind::Quiet),
];

/// The names that our plugin passes on: opencode's own.
const OPENCODE: &[(&str, Kind)] = &[
    ("chat.message", Kind::Prompt),
    ("session.created", Kind::Start(Start::Read)),
    ("session.compacted", Kind::Start(Start::Compact)),
    ("experimental.chat.system.transform", Kind::Start(Start::Read)),
    ("system.transform", Kind::Start(Start::Read)),
    ("experimental.session.compacting", Kind::Start(Start::Read)),
    ("compacting", Kind::Start(Start::Read)),
    ("session.idle", Kind::Quiet),
    ("init", Kind::Quiet),
];

fn table(agent: Agent) -> &'static [(&'static str, Kind)] {
    match agent {
        Agent::Codex | Agent::Claude | Agent::Qwen | Agent::Generic => CLAUDE_SHAPED,
        Agent::Gemini => GEMINI,
        Agent::Copilot => COPILOT,
        Agent::Cursor => CURSOR,
        Agent::Opencode => OPENCODE,
    }
}

/// What `name` means when `agent` says it, with the name as a constant of ours: what a host sends is never echoed.
pub(super) fn lookup(agent: Agent, name: &str) -> Option<(&'static str, Kind)> {
    table(agent).iter().find(|(known, _)| *known == name).copied()
}
