use pintle_wire::{JsonErrorClass, Profile, RootKind, ScanLimits};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::names::{Kind, lookup};
use crate::agent::Agent;
use crate::decide::Start;
use crate::ids::SessionId;
use crate::{Code, wire_input};

/// The largest hook input that is read: a prompt with pasted files in it.
pub const HOOK_INPUT_MAX_BYTES: usize = 16 << 20;

const HOOK_INPUT_MAX_DEPTH: usize = 256;

/// What a host said, reduced to what the pointer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookInput {
    /// The session.
    pub session_id: SessionId,
    /// What happened.
    pub event: HookEvent,
    /// The host's own name of the event, which Claude Code wants back.
    pub event_name: &'static str,
    /// Where the agent works.
    pub cwd: Option<String>,
    /// The prompt. Never stored; only its digest may be (A6).
    pub prompt: Option<String>,
}

/// What happened, in the pointer's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A prompt of the user.
    Prompt,
    /// A prompt that a machine made.
    MachinePrompt,
    /// A session started, resumed, was forked, cleared or compacted.
    SessionStart(Start),
    /// The agent's turn ended.
    Stop {
        /// It ended because a hook made it go on before; nobody may do that twice.
        already_continued: bool,
    },
    /// A compaction is about to happen.
    PreCompact,
    /// Known, and none of the pointer's business: subagents, tools, ends.
    Quiet,
}

/// Marks in the environment that tell who runs a hook which was registered for somebody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookSurroundings {
    /// `CLAUDECODE` is set: Claude Code itself runs the hook.
    pub claude_code: bool,
    /// `CURSOR_VERSION` is set.
    pub cursor: bool,
    /// `COPILOT_CLI` is set.
    pub copilot: bool,
}

/// Why hook input is of no use. Names rules and limits, never content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HookError {
    /// Not JSON, or too long.
    #[error("read the hook input: it is not JSON ({class}, line {line})")]
    Json {
        /// Which kind of rule was broken.
        class: JsonErrorClass,
        /// In which line, from 1.
        line: usize,
    },
    /// A member that every hook input has is missing or has another type.
    #[error("read the hook input: {0}")]
    Schema(&'static str),
    /// An event that this host is not known to have.
    #[error("handle the hook event: the agent is not known to have it")]
    Unsupported,
}

impl HookError {
    /// The code on standard error.
    pub const fn code(self) -> Code {
        match self {
            Self::Json { .. } => Code::HookInputJson,
            Self::Schema(_) => Code::HookInputSchema,
            Self::Unsupported => Code::HookEventUnsupported,
        }
    }
}

impl HookInput {
    /// Reads what `agent` wrote to the hook's standard input. `event` is the name from the command line, for payloads
    /// that carry none (Copilot's camelCase ones).
    ///
    /// Lenient where hosts are: a byte order mark before the object, lone surrogates in strings, unknown members,
    /// unknown sources and members of unexpected types are no errors. Two members of one name are.
    ///
    /// # Errors
    /// [`HookError`].
    pub fn parse(
        agent: Agent,
        bytes: &[u8],
        event: Option<&str>,
        surroundings: HookSurroundings,
    ) -> Result<Self, HookError> {
        let limits = ScanLimits { max_bytes: HOOK_INPUT_MAX_BYTES, max_depth: HOOK_INPUT_MAX_DEPTH };
        let text = pintle_wire::scan(wire_input::without_bom(bytes), Profile::Acp, limits)
            .map_err(|error| HookError::Json { class: error.class, line: error.line })?;
        if text.root() != RootKind::Object {
            return Err(HookError::Schema("it is not an object"));
        }
        let payload: Payload<'_> = text.decode().map_err(|_| HookError::Schema("it is not an object of members"))?;
        payload.read(agent, event, surroundings)
    }
}

/// Every member is raw, so that a type that changes from one release to the next spoils that member only.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload<'a> {
    #[serde(borrow)]
    session_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "sessionId")]
    session_id_camel: Option<&'a RawValue>,
    #[serde(borrow, rename = "sessionID")]
    session_id_opencode: Option<&'a RawValue>,
    #[serde(borrow)]
    conversation_id: Option<&'a RawValue>,
    #[serde(borrow)]
    hook_event_name: Option<&'a RawValue>,
    #[serde(borrow, rename = "hookEventName")]
    hook_event_name_camel: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    workspace_roots: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "agentId")]
    agent_id_camel: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_hook_active: Option<&'a RawValue>,
    #[serde(borrow)]
    cursor_version: Option<&'a RawValue>,
    // The members by which a camelCase payload of Copilot, which has no event name, shows what it is.
    #[serde(borrow)]
    trigger: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
    #[serde(borrow, rename = "stopReason")]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, rename = "transformedPrompt")]
    transformed_prompt: Option<&'a RawValue>,
}

impl Payload<'_> {
    fn read(&self, agent: Agent, event: Option<&str>, surroundings: HookSurroundings) -> Result<HookInput, HookError> {
        let named = string(self.hook_event_name).or_else(|| string(self.hook_event_name_camel));
        let name = named.as_deref().or(event).or_else(|| self.event_by_shape(agent));
        let name = name.ok_or(HookError::Schema("hook_event_name is missing or no string"))?;
        let (event_name, kind) = lookup(agent, name).ok_or(HookError::Unsupported)?;
        let session_id = self.session_id(agent).ok_or(HookError::Schema("session_id is missing or no string"))?;
        let prompt = string(self.prompt);
        let event = if self.is_of_a_subagent() || self.is_of_another_host(agent, surroundings) {
            HookEvent::Quiet
        } else {
            match kind {
                Kind::Prompt if self.is_machine_made(agent, prompt.as_deref()) => HookEvent::MachinePrompt,
                Kind::Prompt => HookEvent::Prompt,
                Kind::PreCompact => HookEvent::PreCompact,
                Kind::SessionStart => HookEvent::SessionStart(self.start()),
                Kind::Start(start) => HookEvent::SessionStart(start),
                Kind::Stop => HookEvent::Stop { already_continued: is_true(self.stop_hook_active) },
                Kind::Quiet => HookEvent::Quiet,
            }
        };
        Ok(HookInput { session_id, event, event_name, cwd: self.cwd(), prompt })
    }

    /// The id under the name that the host gives it, then under the others.
    fn session_id(&self, agent: Agent) -> Option<SessionId> {
        let first = match agent {
            Agent::Cursor => self.conversation_id,
            Agent::Opencode => self.session_id_opencode,
            Agent::Copilot => self.session_id_camel,
            _ => self.session_id,
        };
        [first, self.session_id, self.session_id_camel, self.session_id_opencode, self.conversation_id]
            .into_iter()
            .find_map(string)
            .and_then(|id| SessionId::of_host(&id))
    }

    fn cwd(&self) -> Option<String> {
        string(self.cwd).or_else(|| {
            let roots: Vec<String> = serde_json::from_str(self.workspace_roots?.get()).ok()?;
            roots.into_iter().next()
        })
    }

    /// An unknown source reads, as a startup does; only `clear` may forget.
    fn start(&self) -> Start {
        match string(self.source).as_deref() {
            Some("clear") => Start::Clear,
            Some("compact") => Start::Compact,
            _ => Start::Read,
        }
    }

    /// A subagent's prompt is not a prompt of the user (item 21).
    fn is_of_a_subagent(&self) -> bool {
        [self.agent_id, self.agent_id_camel].into_iter().any(|id| string(id).is_some_and(|id| !id.is_empty()))
    }

    /// Cursor and Copilot also run hooks that are registered for Claude Code. Where one of them does, its own
    /// registration serves the session, and this one must not count the prompt a second time.
    fn is_of_another_host(&self, agent: Agent, surroundings: HookSurroundings) -> bool {
        agent == Agent::Claude
            && (self.cursor_version.is_some()
                || (!surroundings.claude_code && (surroundings.cursor || surroundings.copilot)))
    }

    /// Item 22. An unknown source counts as the user's: a fence too many costs one retry, one too few lets a stale
    /// publish win.
    fn is_machine_made(&self, agent: Agent, prompt: Option<&str>) -> bool {
        let prompt = prompt.unwrap_or_default();
        let by_source =
            matches!(string(self.source).as_deref(), Some("system" | "loop_wakeup" | "schedule_wakeup" | "poll_event"));
        match agent {
            // Qwen sends tool results through the same hook, and their text comes out empty.
            Agent::Qwen => by_source || prompt.trim().is_empty(),
            Agent::Claude | Agent::Generic => by_source || prompt.trim_start().starts_with("<task-notification>"),
            _ => false,
        }
    }

    fn event_by_shape(&self, agent: Agent) -> Option<&'static str> {
        if agent != Agent::Copilot {
            return None;
        }
        if self.source.is_some() {
            Some("sessionStart")
        } else if self.transformed_prompt.is_some() {
            Some("userPromptTransformed")
        } else if self.prompt.is_some() {
            Some("userPromptSubmitted")
        } else if self.trigger.is_some() {
            Some("preCompact")
        } else if self.stop_reason.is_some() {
            Some("agentStop")
        } else if self.reason.is_some() {
            Some("sessionEnd")
        } else {
            None
        }
    }
}

fn string(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}
