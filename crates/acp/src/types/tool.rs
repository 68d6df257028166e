//! Tool calls: what the agent does, as the client shows it.

use super::content::ContentBlock;
use super::declare::{object, tagged, words};
use super::ids::{SessionId, TerminalId, ToolCallId};
use super::leaf::List;
use super::path::AcpPath;
use super::raw::Raw;

object! {
    /// A new tool call.
    pub struct ToolCall, "a tool call", new(tool_call_id: ToolCallId, title: String) {
        /// Its id, unique within the session.
        req tool_call_id: ToolCallId = "toolCallId",
        /// What it does, for people.
        req title: String = "title",
        /// The name of the tool, for programs.
        opt name: String = "name",
        /// What kind of thing it does.
        def kind: ToolKind = "kind",
        /// How far it is.
        def status: ToolCallStatus = "status",
        /// What it produced.
        def content: List<ToolCallContent> = "content",
        /// Which files it touches.
        def locations: List<ToolCallLocation> = "locations",
        /// The arguments as the model gave them.
        opt raw_input: Raw = "rawInput",
        /// The result as the tool gave it.
        opt raw_output: Raw = "rawOutput",
    }
}

object! {
    /// A change of a tool call: what is there replaces what was, lists as a whole.
    pub struct ToolCallUpdate, "a tool call update", new(tool_call_id: ToolCallId) {
        /// The tool call.
        req tool_call_id: ToolCallId = "toolCallId",
        /// What it does, for people.
        opt title: String = "title",
        /// The name of the tool, for programs.
        opt name: String = "name",
        /// What kind of thing it does.
        opt kind: ToolKind = "kind",
        /// How far it is.
        opt status: ToolCallStatus = "status",
        /// What it produced.
        opt content: List<ToolCallContent> = "content",
        /// Which files it touches.
        opt locations: List<ToolCallLocation> = "locations",
        /// The arguments as the model gave them.
        opt raw_input: Raw = "rawInput",
        /// The result as the tool gave it.
        opt raw_output: Raw = "rawOutput",
    }
}

impl ToolCall {
    /// Applies an update: what it has replaces what is here.
    pub fn apply(&mut self, update: ToolCallUpdate) {
        fn replace<T>(known: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *known = new;
            }
        }
        fn refill<T>(known: &mut Option<T>, new: Option<T>) {
            if new.is_some() {
                *known = new;
            }
        }
        replace(&mut self.title, update.title);
        replace(&mut self.kind, update.kind);
        replace(&mut self.status, update.status);
        replace(&mut self.content, update.content);
        replace(&mut self.locations, update.locations);
        refill(&mut self.name, update.name);
        refill(&mut self.raw_input, update.raw_input);
        refill(&mut self.raw_output, update.raw_output);
        refill(&mut self.meta, update.meta);
    }
}

words! {
    /// What kind of thing a tool does.
    #[derive(Default)]
    pub enum ToolKind, "a tool kind" {
        /// Reads files or data.
        Read = "read",
        /// Changes files.
        Edit = "edit",
        /// Deletes files.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Searches.
        Search = "search",
        /// Runs a command.
        Execute = "execute",
        /// Thinks or plans.
        Think = "think",
        /// Fetches from outside.
        Fetch = "fetch",
        /// Switches the session's mode.
        SwitchMode = "switch_mode",
        /// Anything else.
        #[default]
        Other = "other",
    }
}

words! {
    /// How far a tool call is.
    #[derive(Default)]
    pub enum ToolCallStatus, "a tool call status" {
        /// Its input is still streaming, or it waits for permission.
        #[default]
        Pending = "pending",
        /// It runs.
        InProgress = "in_progress",
        /// It is done.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
    }
}

tagged! {
    /// Something that a tool call produced.
    pub enum ToolCallContent, "tool call content", "type" {
        /// A content block.
        Content(Content) = "content",
        /// A change of a file.
        Diff(Diff) = "diff",
        /// A terminal of the client, shown live.
        Terminal(TerminalContent) = "terminal",
        /// A session that does the work.
        Session(SessionReference) = "session",
    }
}

impl<T: Into<ContentBlock>> From<T> for ToolCallContent {
    fn from(block: T) -> Self {
        Self::Content(Content::new(block))
    }
}

impl From<Diff> for ToolCallContent {
    fn from(diff: Diff) -> Self {
        Self::Diff(diff)
    }
}

impl From<TerminalContent> for ToolCallContent {
    fn from(terminal: TerminalContent) -> Self {
        Self::Terminal(terminal)
    }
}

impl From<SessionReference> for ToolCallContent {
    fn from(session: SessionReference) -> Self {
        Self::Session(session)
    }
}

object! {
    /// A content block in a tool call.
    pub struct Content, "content", new(content: ContentBlock) {
        /// The block.
        req content: ContentBlock = "content",
    }
}

object! {
    /// A change of a file.
    pub struct Diff, "a diff", new(path: AcpPath, new_text: String) {
        /// The file; absolute.
        req path: AcpPath = "path",
        /// What was in it; absent for a new file.
        opt old_text: String = "oldText",
        /// What is in it now.
        req new_text: String = "newText",
    }
}

object! {
    /// A terminal of the client.
    pub struct TerminalContent, "a terminal", new(terminal_id: TerminalId) {
        /// Its id, from `terminal/create`.
        req terminal_id: TerminalId = "terminalId",
    }
}

object! {
    /// Another session, such as a subagent's.
    pub struct SessionReference, "a session reference", new(session_id: SessionId) {
        /// Its id.
        req session_id: SessionId = "sessionId",
    }
}

object! {
    /// A place in a file.
    pub struct ToolCallLocation, "a location", new(path: AcpPath) {
        /// The file; absolute.
        req path: AcpPath = "path",
        /// The line, from 1.
        opt line: u32 = "line",
    }
}
