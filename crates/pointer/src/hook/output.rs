use crate::agent::Agent;
use crate::context::{MARKER, one_line};
use crate::hook::{HookError, HookEvent, HookInput, HookOutcome, Policy};
use crate::json::Object;

/// The exit codes of a hook: nothing else ever leaves it (A12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookExit {
    /// 0: done, or the decision is in the JSON.
    Ok,
    /// 1: malformed input, internal fault. Every host goes on without the hook.
    Fault,
    /// 2: the prompt is blocked in the published form.
    Blocked,
}

impl HookExit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Fault => 1,
            Self::Blocked => 2,
        }
    }
}

/// What the hook's process leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOutput {
    /// Standard output: empty, or one JSON object without an LF.
    pub stdout: String,
    /// Standard error: empty, or one line without its LF.
    pub stderr: String,
    /// The exit code.
    pub exit: HookExit,
}

impl HostOutput {
    const NOTHING: Self = Self { stdout: String::new(), stderr: String::new(), exit: HookExit::Ok };

    fn json(object: Object) -> Self {
        Self { stdout: object.finish(), ..Self::NOTHING }
    }
}

/// How a host takes a context and a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `hookSpecificOutput`, `decision`, `systemMessage`.
    Nested,
    /// `additionalContext` at the top, `decision`. Copilot ignores the nested form and exit code 2.
    Flat,
    /// `additional_context` at a session start, `continue` and `user_message` before a prompt.
    Cursor,
    /// `context`, `block` and `warning`, read by our own plugin.
    Plugin,
}

const fn shape(agent: Agent) -> Shape {
    match agent {
        Agent::Codex | Agent::Claude | Agent::Gemini | Agent::Qwen | Agent::Generic => Shape::Nested,
        Agent::Copilot => Shape::Flat,
        Agent::Cursor => Shape::Cursor,
        Agent::Opencode => Shape::Plugin,
    }
}

/// What an outcome is to the host that `input` came from.
///
/// Nothing is ever printed before a compaction: Claude Code makes summary instructions of it, Codex fails the hook.
pub fn render(agent: Agent, input: &HookInput, outcome: &HookOutcome, policy: Policy) -> HostOutput {
    if matches!(input.event, HookEvent::PreCompact | HookEvent::Quiet) {
        return HostOutput::NOTHING;
    }
    let is_start = matches!(input.event, HookEvent::SessionStart(_));
    match outcome {
        HookOutcome::Silent => HostOutput::NOTHING,
        HookOutcome::Context { warning, .. } if is_start && !agent.takes_start_context() => match warning {
            Some(warning) => HostOutput::json(Object::new().string("systemMessage", warning)),
            None => HostOutput::NOTHING,
        },
        HookOutcome::Stop { code, text } if is_start && !agent.takes_start_context() => HostOutput {
            stderr: format!("{MARKER}:{code}"),
            ..HostOutput::json(Object::new().string("systemMessage", &one_line(text)))
        },
        HookOutcome::Context { text, warning } => context(agent, input, text, warning.as_deref()),
        HookOutcome::Block { code, reason } => {
            let stderr = format!("{MARKER}:{code}");
            let as_exit2 = policy.compat_exit2 && !matches!(shape(agent), Shape::Flat | Shape::Plugin);
            let exit = if as_exit2 { HookExit::Blocked } else { HookExit::Ok };
            HostOutput { stderr, exit, ..HostOutput::json(block(agent, reason)) }
        }
        HookOutcome::Stop { code, text } => {
            HostOutput { stderr: format!("{MARKER}:{code}"), ..stop(agent, input, text) }
        }
        HookOutcome::Nudge { reason } => match agent {
            // Measured or documented to go on with the reason; elsewhere a reminder could end in an error.
            Agent::Codex | Agent::Claude => HostOutput::json(block(agent, reason)),
            _ => HostOutput::NOTHING,
        },
    }
}

/// What is left of a hook whose input was of no use: one line on standard error, nothing on standard output. An event
/// that we do not know is no fault of anybody (item 20).
pub fn render_error(error: &HookError) -> HostOutput {
    let exit = if matches!(error, HookError::Unsupported) { HookExit::Ok } else { HookExit::Fault };
    HostOutput { stderr: format!("pintle: {}: failed to {error}", error.code()), exit, ..HostOutput::NOTHING }
}

fn context(agent: Agent, input: &HookInput, text: &str, warning: Option<&str>) -> HostOutput {
    match shape(agent) {
        Shape::Nested => HostOutput::json(
            Object::new().optional("systemMessage", warning).object("hookSpecificOutput", nested(input, text)),
        ),
        // No measured way to tell the user; standard error ends up in Copilot's log.
        Shape::Flat => HostOutput {
            stderr: warning.map(one_line).unwrap_or_default(),
            ..HostOutput::json(Object::new().string("additionalContext", text))
        },
        Shape::Cursor if input.event == HookEvent::Prompt || input.event == HookEvent::MachinePrompt => HostOutput {
            stderr: warning.map(one_line).unwrap_or_default(),
            ..HostOutput::json(Object::new().boolean("continue", true))
        },
        Shape::Cursor => HostOutput::json(Object::new().string("additional_context", text)),
        Shape::Plugin => HostOutput::json(Object::new().string("context", text).optional("warning", warning)),
    }
}

fn nested(input: &HookInput, text: &str) -> Object {
    Object::new().string("hookEventName", input.event_name).string("additionalContext", text)
}

fn block(agent: Agent, reason: &str) -> Object {
    match shape(agent) {
        Shape::Nested | Shape::Flat => Object::new().string("decision", "block").string("reason", reason),
        Shape::Cursor => Object::new().boolean("continue", false).string("user_message", reason),
        Shape::Plugin => Object::new().string("block", reason),
    }
}

/// Codex ends the turn; the others ignore `continue` at a session start, so the text goes along as context, and the next
/// prompt meets the same fault.
fn stop(agent: Agent, input: &HookInput, text: &str) -> HostOutput {
    match shape(agent) {
        Shape::Nested => HostOutput::json(
            Object::new()
                .boolean("continue", false)
                .string("stopReason", text)
                .object("hookSpecificOutput", nested(input, text)),
        ),
        Shape::Flat | Shape::Cursor | Shape::Plugin => context(agent, input, text, None),
    }
}
