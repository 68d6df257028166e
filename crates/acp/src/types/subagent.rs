//! Subagents: sessions that a session has do its work. The client must have advertised `subagents`.

use crate::Error;

use super::capabilities::Marker;
use super::content::ContentBlock;
use super::declare::{object, object_with_meta, tagged};
use super::ids::{MessageId, SessionId};
use super::leaf::{List, Patch};
use super::path::AcpPath;
use super::raw::Meta;

object_with_meta! {
    /// What is known of a child session changed. Absent keeps, `null` clears, a value replaces.
    pub struct SubagentUpdate, "a subagent update", new(session_id: SessionId) {
        /// The child.
        req session_id: SessionId = "sessionId",
        /// Its name to show.
        def title: Patch<String> = "title",
        /// What it is for.
        def description: Patch<String> = "description",
        /// What the client may do to it.
        def capabilities: Patch<SubagentSessionCapabilities> = "capabilities",
        /// What it is doing.
        def state: Patch<StateUpdate> = "state",
        /// Its working directory; absolute. Unset means the parent's.
        def_strict cwd: Patch<AcpPath> = "cwd",
        /// More roots of its workspace; absolute. Unset means the parent's.
        def_strict additional_directories: Patch<Vec<AcpPath>> = "additionalDirectories",
        /// The `_meta` member, with the same three states.
        def meta: Patch<Meta> = "_meta",
    }
}

object! {
    /// What the client may do to a child session.
    #[derive(Default)]
    pub struct SubagentSessionCapabilities, "subagent capabilities", new() {
        /// `session/cancel`.
        opt cancel: Marker = "cancel",
    }
}

tagged! {
    /// What a child session is doing.
    pub enum StateUpdate, "a state", "state" {
        /// It works.
        Running(RunningState) = "running",
        /// It does not; its parent can give it more to do.
        Idle(IdleState) = "idle",
        /// It waits for the user.
        RequiresAction(RequiresActionState) = "requires_action",
        /// The agent cannot tell.
        Undetermined(UndeterminedState) = "unknown",
    }
}

object! {
    /// See [`StateUpdate::Running`].
    #[derive(Default)]
    pub struct RunningState, "a running state", new() {}
}

object! {
    /// See [`StateUpdate::Idle`].
    #[derive(Default)]
    pub struct IdleState, "an idle state", new() {
        /// Why it stopped: a [`StopReason`](super::StopReason), or `error`, or another.
        opt_strict stop_reason: String = "stopReason",
        /// With `error`: what went wrong.
        opt error: Box<Error> = "error",
    }
}

object! {
    /// See [`StateUpdate::RequiresAction`].
    #[derive(Default)]
    pub struct RequiresActionState, "a waiting state", new() {}
}

object! {
    /// See [`StateUpdate::Undetermined`].
    #[derive(Default)]
    pub struct UndeterminedState, "an unknown state", new() {}
}

object_with_meta! {
    /// A message between sessions, as it stands in the transcript of one of them. Absent keeps, `null` clears,
    /// a value replaces.
    pub struct SessionMessage, "a session message", new(message_id: MessageId) {
        /// The message, in this session's transcript.
        req message_id: MessageId = "messageId",
        /// Who sent it.
        def sender_session_id: Patch<SessionId> = "senderSessionId",
        /// Who receives it.
        def recipient_session_id: Patch<SessionId> = "recipientSessionId",
        /// The message in the sender's transcript.
        def sender_message_id: Patch<MessageId> = "senderMessageId",
        /// The message in the recipient's transcript.
        def recipient_message_id: Patch<MessageId> = "recipientMessageId",
        /// What it says.
        def content: Patch<List<ContentBlock>> = "content",
        /// The `_meta` member, with the same three states.
        def meta: Patch<Meta> = "_meta",
    }
}

object! {
    /// A piece to add to a message between sessions.
    pub struct SessionMessageChunk, "a session message chunk", new(message_id: MessageId, content: ContentBlock) {
        /// The message.
        req message_id: MessageId = "messageId",
        /// The piece.
        req content: ContentBlock = "content",
    }
}
