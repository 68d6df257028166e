//! `session/update`: everything that an agent tells while it works.

use super::capabilities::ClientCapabilities;
use super::config::SessionConfigOption;
use super::content::ContentBlock;
use super::declare::{object, object_with_meta, tagged, words};
use super::ids::{CompactionId, MessageId, SessionId, SessionModeId};
use super::leaf::{List, Patch};
use super::plan::{Plan, PlanRemoved, PlanUpdate};
use super::raw::Meta;
use super::subagent::{SessionMessage, SessionMessageChunk, SubagentUpdate};
use super::tool::{ToolCall, ToolCallUpdate};

object! {
    /// One update about a session.
    pub struct SessionNotification, "a session/update notification", new(session_id: SessionId, update: SessionUpdate) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// What happened.
        req update: SessionUpdate = "update",
    }
}

tagged! {
    /// Something that happened in a session.
    ///
    /// An update of a kind that this version does not know is an [`Unknown`](Self::Unknown), never an error.
    pub enum SessionUpdate, "a session update", "sessionUpdate" {
        /// A piece of a message of the user, in a replay.
        UserMessageChunk(ContentChunk) = "user_message_chunk",
        /// A piece of the agent's message.
        AgentMessageChunk(ContentChunk) = "agent_message_chunk",
        /// A piece of the agent's reasoning.
        AgentThoughtChunk(ContentChunk) = "agent_thought_chunk",
        /// A new tool call.
        ToolCall(Box<ToolCall>) = "tool_call",
        /// A change of a tool call.
        ToolCallUpdate(Box<ToolCallUpdate>) = "tool_call_update",
        /// The plan, as a whole.
        Plan(Plan) = "plan",
        /// One of several plans; needs the client's `plan`.
        PlanUpdate(PlanUpdate) = "plan_update",
        /// One of several plans is gone; needs the client's `plan`.
        PlanRemoved(PlanRemoved) = "plan_removed",
        /// The slash commands there are.
        AvailableCommandsUpdate(AvailableCommandsUpdate) = "available_commands_update",
        /// Another mode is on.
        CurrentModeUpdate(CurrentModeUpdate) = "current_mode_update",
        /// The settings, all of them.
        ConfigOptionUpdate(ConfigOptionUpdate) = "config_option_update",
        /// The session's name or time changed.
        SessionInfoUpdate(SessionInfoUpdate) = "session_info_update",
        /// How much of the context is used, and what it cost.
        UsageUpdate(UsageUpdate) = "usage_update",
        /// Something to tell the user beside the conversation; needs the client's `session.notices`.
        Notice(Notice) = "notice",
        /// The context is compacted; needs the client's `session.compaction`.
        CompactionUpdate(CompactionUpdate) = "compaction_update",
        /// A piece of the summary of a compaction; needs the client's `session.compaction`.
        CompactionSummaryChunk(CompactionSummaryChunk) = "compaction_summary_chunk",
        /// What is known of a child session changed; needs the client's `subagents`.
        SubagentUpdate(Box<SubagentUpdate>) = "subagent_update",
        /// A message between sessions; needs the client's `subagents`.
        SessionMessage(Box<SessionMessage>) = "session_message",
        /// A piece of a message between sessions; needs the client's `subagents`.
        SessionMessageChunk(SessionMessageChunk) = "session_message_chunk",
    }
}

impl SessionUpdate {
    /// A piece of text of the agent's message.
    pub fn agent_text(text: impl Into<String>) -> Self {
        Self::AgentMessageChunk(ContentChunk::new(ContentBlock::text(text)))
    }

    /// A piece of text of the agent's reasoning.
    pub fn agent_thought(text: impl Into<String>) -> Self {
        Self::AgentThoughtChunk(ContentChunk::new(ContentBlock::text(text)))
    }

    /// A piece of text of the user's message.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::UserMessageChunk(ContentChunk::new(ContentBlock::text(text)))
    }

    /// The piece of a message, if this is one of the three kinds that have one.
    pub fn chunk(&self) -> Option<&ContentChunk> {
        match self {
            Self::UserMessageChunk(chunk) | Self::AgentMessageChunk(chunk) | Self::AgentThoughtChunk(chunk) => {
                Some(chunk)
            }
            _ => None,
        }
    }

    /// The client capability without which an agent must not send this.
    pub fn required_capability(&self) -> Option<&'static str> {
        match self {
            Self::PlanUpdate(_) | Self::PlanRemoved(_) => Some("plan"),
            Self::Notice(_) => Some("session.notices"),
            Self::CompactionUpdate(_) | Self::CompactionSummaryChunk(_) => Some("session.compaction"),
            Self::SubagentUpdate(_) | Self::SessionMessage(_) | Self::SessionMessageChunk(_) => Some("subagents"),
            _ => None,
        }
    }

    /// Whether a client that advertised `capabilities` understands this.
    pub fn is_understood_by(&self, capabilities: &ClientCapabilities) -> bool {
        let session = capabilities.session.as_ref();
        match self.required_capability() {
            Some("plan") => capabilities.plan.is_some(),
            Some("session.notices") => session.is_some_and(|session| session.notices.is_some()),
            Some("session.compaction") => session.is_some_and(|session| session.compaction.is_some()),
            Some("subagents") => capabilities.subagents.is_some(),
            _ => true,
        }
    }
}

macro_rules! update_from {
    ($($body:ident),+) => { $(
        impl From<$body> for SessionUpdate {
            fn from(body: $body) -> Self {
                // The large ones are boxed, for the sake of the many small ones.
                Self::$body(body.into())
            }
        }
    )+ };
}

update_from!(
    ToolCall,
    ToolCallUpdate,
    Plan,
    PlanUpdate,
    PlanRemoved,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    ConfigOptionUpdate,
    SessionInfoUpdate,
    UsageUpdate,
    Notice,
    CompactionUpdate,
    CompactionSummaryChunk,
    SubagentUpdate,
    SessionMessage,
    SessionMessageChunk
);

object! {
    /// A piece of a message.
    pub struct ContentChunk, "a message chunk", new(content: ContentBlock) {
        /// The piece.
        req content: ContentBlock = "content",
        /// The message that it belongs to.
        opt message_id: MessageId = "messageId",
    }
}

object! {
    /// The slash commands there are.
    pub struct AvailableCommandsUpdate, "a command list", new(available_commands: List<AvailableCommand>) {
        /// All of them.
        req_lax available_commands: List<AvailableCommand> = "availableCommands",
    }
}

object! {
    /// A slash command.
    pub struct AvailableCommand, "a command", new(name: String, description: String) {
        /// Its name, without the slash.
        req name: String = "name",
        /// What it does.
        req description: String = "description",
        /// What may follow it.
        opt input: AvailableCommandInput = "input",
    }
}

object! {
    /// What may follow a slash command: free text.
    pub struct AvailableCommandInput, "a command input", new(hint: String) {
        /// What to show while there is none.
        req hint: String = "hint",
    }
}

object! {
    /// Another mode is on.
    pub struct CurrentModeUpdate, "a mode update", new(current_mode_id: SessionModeId) {
        /// The mode that is on.
        req current_mode_id: SessionModeId = "currentModeId",
    }
}

object! {
    /// The settings changed.
    pub struct ConfigOptionUpdate, "a config option update", new(config_options: List<SessionConfigOption>) {
        /// All of them.
        req_lax config_options: List<SessionConfigOption> = "configOptions",
    }
}

object! {
    /// The session's name or time changed. Absent keeps, `null` clears, a value replaces.
    #[derive(Default)]
    pub struct SessionInfoUpdate, "a session info update", new() {
        /// Its name.
        def title: Patch<String> = "title",
        /// When it last changed, ISO 8601.
        def updated_at: Patch<String> = "updatedAt",
    }
}

object! {
    /// How much of the context is used.
    pub struct UsageUpdate, "a usage update", new(used: u64, size: u64) {
        /// Tokens in the context.
        req used: u64 = "used",
        /// Tokens that fit.
        req size: u64 = "size",
        /// What the session cost so far.
        opt cost: Cost = "cost",
    }
}

object! {
    /// An amount of money.
    pub struct Cost, "a cost", new(amount: f64, currency: String) {
        /// How much.
        req amount: f64 = "amount",
        /// Of what, ISO 4217.
        req currency: String = "currency",
    }
}

object! {
    /// Something to tell the user beside the conversation.
    pub struct Notice, "a notice", new(severity: NoticeSeverity, title: String) {
        /// How bad it is.
        req severity: NoticeSeverity = "severity",
        /// What it is about, in a line.
        req title: String = "title",
        /// More about it.
        opt description: String = "description",
    }
}

words! {
    /// How bad a notice is.
    pub enum NoticeSeverity, "a severity" {
        /// Not at all.
        Info = "info",
        /// It may matter.
        Warning = "warning",
        /// Something is broken.
        Error = "error",
    }
}

object_with_meta! {
    /// A compaction began, went on or ended. Absent keeps, `null` clears, a value replaces.
    pub struct CompactionUpdate, "a compaction update", new(compaction_id: CompactionId, status: CompactionStatus) {
        /// Which compaction.
        req compaction_id: CompactionId = "compactionId",
        /// How far it is.
        req status: CompactionStatus = "status",
        /// What the context was made into.
        def summary: Patch<List<ContentBlock>> = "summary",
        /// Why it failed.
        def error: Patch<String> = "error",
        /// The `_meta` member, with the same three states.
        def meta: Patch<Meta> = "_meta",
    }
}

words! {
    /// How far a compaction is.
    pub enum CompactionStatus, "a compaction status" {
        /// Under way.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
        /// Failed.
        Failed = "failed",
        /// Stopped.
        Cancelled = "cancelled",
    }
}

object! {
    /// A piece of the summary of a compaction.
    pub struct CompactionSummaryChunk, "a compaction summary chunk",
        new(compaction_id: CompactionId, content: ContentBlock) {
        /// Which compaction.
        req compaction_id: CompactionId = "compactionId",
        /// The piece.
        req content: ContentBlock = "content",
    }
}
