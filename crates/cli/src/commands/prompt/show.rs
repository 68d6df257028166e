//! What a turn looks like: the agent's answer on standard output, what it does on standard error; or one JSON object a
//! line.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};

use anstream::AutoStream;
use pintle_sdk::acp::host::TerminalView;
use pintle_sdk::acp::permission::Approve;
use pintle_sdk::acp::types::{
    CompactionStatus, ContentChunk, InitializeResponse, MessageId, NoticeSeverity, PermissionOptionKind, PlanEntry,
    PlanUpdateContent, PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SessionId, SessionUpdate, StopReason, TerminalId, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus,
    ToolCallUpdate, UsageUpdate,
};
use serde_json::json;

use super::text::{self, DIM, RED, YELLOW};

/// Tool calls that are open and remembered at a time; of a later one only the id is known when it ends.
const MAX_CALLS: usize = 1024;
/// Answers that wait for their tool call at a time.
const MAX_WAITING: usize = 64;
/// Lines of a terminal's output that are shown.
const MAX_TERMINAL_LINES: usize = 10;

/// An answer that the policy gave.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) call: ToolCallId,
    pub(super) title: Option<String>,
    pub(super) outcome: &'static str,
}

impl Answered {
    pub(super) fn new(request: &RequestPermissionRequest, answer: &RequestPermissionResponse) -> Self {
        let kind = match &answer.outcome {
            RequestPermissionOutcome::Selected(selected) => {
                request.option(&selected.option_id).map(|option| option.kind.clone())
            }
            _ => None,
        };
        let outcome = match kind {
            Some(PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways) => "allowed",
            Some(PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways) => "rejected",
            _ => "cancelled",
        };
        Self { call: request.tool_call.tool_call_id.clone(), title: request.tool_call.title.clone(), outcome }
    }
}

/// A turn on standard output and standard error.
pub(super) struct Human {
    out: AutoStream<io::Stdout>,
    err: AutoStream<io::Stderr>,
    /// Both are one terminal, so a line that one began is not to be ended by the other.
    together: bool,
    /// Standard output is in the middle of a line.
    out_open: bool,
    /// Standard error is, with a thought.
    thinking: bool,
    message: Option<MessageId>,
    calls: HashMap<ToolCallId, ToolCall>,
    /// About tool calls that have not been shown yet.
    waiting: Vec<Answered>,
    plan: Vec<PlanEntry>,
    usage: Option<UsageUpdate>,
    terminals: Option<TerminalView>,
}

impl Human {
    pub(super) fn new(terminals: Option<TerminalView>) -> Self {
        Self {
            out: anstream::stdout(),
            err: anstream::stderr(),
            together: io::stdout().is_terminal() && io::stderr().is_terminal(),
            out_open: false,
            thinking: false,
            message: None,
            calls: HashMap::new(),
            waiting: Vec::new(),
            plan: Vec::new(),
            usage: None,
            terminals,
        }
    }

    /// Shows an update. Only a failure of standard output is one.
    pub(super) fn update(&mut self, update: SessionUpdate) -> io::Result<()> {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.message(&chunk)?,
            SessionUpdate::AgentThoughtChunk(chunk) => self.thought(&chunk),
            SessionUpdate::ToolCall(call) => self.tool_call(*call),
            SessionUpdate::ToolCallUpdate(update) => self.tool_call_update(*update),
            SessionUpdate::Plan(plan) => self.plan(plan.entries.to_vec()),
            SessionUpdate::PlanUpdate(update) => match update.plan {
                PlanUpdateContent::Items(items) => self.plan(items.entries.to_vec()),
                PlanUpdateContent::Markdown(markdown) => {
                    self.note(&format!("plan\n{}", text::first_lines(&text::harmless(&markdown.content), 20)));
                }
                _ => {}
            },
            SessionUpdate::UsageUpdate(usage) => self.usage = Some(usage),
            SessionUpdate::Notice(notice) => {
                let style = match notice.severity {
                    NoticeSeverity::Error => RED,
                    NoticeSeverity::Warning => YELLOW,
                    _ => DIM,
                };
                let more = notice.description.map(|more| format!(": {}", text::one_line(&more))).unwrap_or_default();
                self.note(&format!("{style}note: {}{more}{style:#}", text::one_line(&notice.title)));
            }
            SessionUpdate::CompactionUpdate(compaction) => match compaction.status {
                CompactionStatus::InProgress => self.note(&format!("{DIM}compacting the context{DIM:#}")),
                CompactionStatus::Failed => self.note(&format!("{YELLOW}the context was not compacted{YELLOW:#}")),
                _ => {}
            },
            SessionUpdate::CurrentModeUpdate(mode) => {
                self.note(&format!("{DIM}mode: {}{DIM:#}", text::one_line(mode.current_mode_id.as_str())));
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows what was answered for the user, at once or when the tool call that it is about has been shown.
    pub(super) fn answered(&mut self, answered: Answered) {
        if self.calls.contains_key(&answered.call) || self.waiting.len() == MAX_WAITING {
            self.show_answered(&answered);
        } else {
            self.waiting.push(answered);
        }
    }

    fn show_answered(&mut self, answered: &Answered) {
        let known = self.calls.get(&answered.call).map(|call| call.title.as_str());
        let title = answered.title.as_deref().or(known).unwrap_or(answered.call.as_str());
        let style = if answered.outcome == "allowed" { DIM } else { YELLOW };
        let line = format!("{style}[?] {}:{style:#} {}", answered.outcome, text::one_line(title));
        self.note(&line);
    }

    /// Shows the answers about a tool call that has just been shown; about all of them at the end.
    fn show_waiting(&mut self, call: Option<&ToolCallId>) {
        let (now, later) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|answered| call.is_none_or(|call| *call == answered.call));
        self.waiting = later;
        for answered in now {
            self.show_answered(&answered);
        }
    }

    /// A line on standard error, apart from what is being written on standard output.
    pub(super) fn note(&mut self, text: &str) {
        self.end_lines();
        // A closed standard error leaves nobody to tell.
        let _ = writeln!(self.err, "{}", text.trim_end());
    }

    /// The end of the turn.
    pub(super) fn end(&mut self, session: &SessionId, response: &PromptResponse, can_go_on: bool) -> io::Result<()> {
        self.finish()?;
        if response.stop_reason != StopReason::EndTurn {
            let why = text::one_line(response.stop_reason.as_str()).replace('_', " ");
            self.note(&format!("{YELLOW}the turn ended early: {why}{YELLOW:#}"));
        }
        if let Some(usage) = self.usage.take() {
            let cost = usage.cost.map(|cost| format!(", {:.4} {}", cost.amount, text::one_line(&cost.currency)));
            let cost = cost.unwrap_or_default();
            self.note(&format!("{DIM}context: {} of {} tokens{cost}{DIM:#}", usage.used, usage.size));
        }
        if can_go_on {
            let id = text::one_line(session.as_str());
            self.note(&format!("{DIM}session: {id} (--session goes on with it){DIM:#}"));
        }
        Ok(())
    }

    /// Ends the last line of the answer.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.show_waiting(None);
        if std::mem::take(&mut self.out_open) {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()?;
        self.end_lines();
        Ok(())
    }

    fn message(&mut self, chunk: &ContentChunk) -> io::Result<()> {
        if chunk.message_id.is_some() && chunk.message_id != self.message {
            if self.message.is_some() && std::mem::take(&mut self.out_open) {
                self.out.write_all(b"\n")?;
            }
            self.message.clone_from(&chunk.message_id);
        }
        let text = text::block(&chunk.content);
        if let Some(last) = text.chars().next_back() {
            self.end_thought();
            self.out.write_all(text.as_bytes())?;
            self.out.flush()?;
            self.out_open = last != '\n';
        }
        Ok(())
    }

    fn thought(&mut self, chunk: &ContentChunk) {
        if !self.thinking {
            self.end_lines();
        }
        let text = text::block(&chunk.content);
        let _ = write!(self.err, "{DIM}{text}{DIM:#}").and_then(|()| self.err.flush());
        self.thinking = !text.ends_with('\n');
    }

    fn tool_call(&mut self, call: ToolCall) {
        let line = text::tool_line(&call);
        self.note(&line);
        let id = call.tool_call_id.clone();
        if is_over(&call.status) {
            self.content(&call);
        } else if self.calls.len() < MAX_CALLS || self.calls.contains_key(&id) {
            self.calls.insert(id.clone(), call);
        }
        self.show_waiting(Some(&id));
    }

    fn tool_call_update(&mut self, update: ToolCallUpdate) {
        let id = update.tool_call_id.clone();
        let mut call = self.calls.remove(&id).unwrap_or_else(|| ToolCall::new(id.clone(), id.as_str()));
        let had = terminals_of(&call);
        call.apply(update);
        for terminal in terminals_of(&call).into_iter().filter(|terminal| !had.contains(terminal)) {
            self.note(&format!("      {DIM}runs in {}{DIM:#}", text::one_line(terminal.as_str())));
        }
        if is_over(&call.status) {
            let line = text::tool_line(&call);
            self.note(&line);
            self.content(&call);
        } else if self.calls.len() < MAX_CALLS {
            self.calls.insert(id, call);
        }
    }

    fn content(&mut self, call: &ToolCall) {
        for content in call.content.iter() {
            let shown = match content {
                ToolCallContent::Terminal(terminal) => self.terminal(&terminal.terminal_id),
                content => text::tool_content(content),
            };
            if !shown.is_empty() {
                self.note(&shown);
            }
        }
    }

    /// The end of a terminal's output, if it is still there: most agents release it before they say that they are done.
    fn terminal(&self, id: &TerminalId) -> String {
        let snapshot = self.terminals.as_ref().and_then(|terminals| terminals.snapshot(id));
        snapshot.map_or_else(String::new, |snapshot| {
            text::last_lines(&text::harmless(&snapshot.output), MAX_TERMINAL_LINES)
        })
    }

    /// The whole plan at first, then the steps that changed.
    fn plan(&mut self, entries: Vec<PlanEntry>) {
        let changed: Vec<String> =
            entries.iter().filter(|entry| !self.plan.contains(entry)).map(text::plan_line).collect();
        if !changed.is_empty() {
            let title = if self.plan.is_empty() { "plan" } else { "plan, changed" };
            self.note(&format!("{DIM}{title}{DIM:#}\n{}", changed.join("\n")));
        }
        self.plan = entries;
    }

    fn end_lines(&mut self) {
        self.end_thought();
        if self.together && std::mem::take(&mut self.out_open) {
            let _ = self.out.write_all(b"\n").and_then(|()| self.out.flush());
        }
    }

    fn end_thought(&mut self) {
        if std::mem::take(&mut self.thinking) {
            let _ = writeln!(self.err);
        }
    }
}

fn is_over(status: &ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed)
}

fn terminals_of(call: &ToolCall) -> Vec<TerminalId> {
    let terminal = |content: &ToolCallContent| match content {
        ToolCallContent::Terminal(terminal) => Some(terminal.terminal_id.clone()),
        _ => None,
    };
    call.content.iter().filter_map(terminal).collect()
}

/// The same as one JSON object a line, for programs.
pub(super) mod lines {
    use super::*;

    /// The session that the turn is in.
    pub(in super::super) fn session(
        session: &SessionId,
        agent: &InitializeResponse,
        approve: Approve,
    ) -> io::Result<()> {
        let info = agent.agent_info.as_ref().map(|info| json!({ "name": info.name, "version": info.version }));
        line(&json!({
            "type": "session",
            "session_id": session.as_str(),
            "protocol_version": agent.protocol_version.get(),
            "agent": info,
            "approve": match approve {
                Approve::None => "none",
                Approve::Reads => "reads",
                Approve::All => "all",
            },
        }))
    }

    /// An update, exactly as the agent wrote it.
    pub(in super::super) fn update(params: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{{\"type\":\"update\",\"params\":{params}}}")?;
        out.flush()
    }

    /// An answer that the policy gave.
    pub(in super::super) fn answered(answered: &Answered) -> io::Result<()> {
        line(&json!({
            "type": "permission",
            "tool_call_id": answered.call.as_str(),
            "title": answered.title,
            "outcome": answered.outcome,
        }))
    }

    /// The end of the turn.
    pub(in super::super) fn end(session: &SessionId, response: &PromptResponse) -> io::Result<()> {
        line(&json!({
            "type": "end",
            "session_id": session.as_str(),
            "stop_reason": response.stop_reason.as_str(),
        }))
    }

    fn line(value: &serde_json::Value) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{value}")?;
        out.flush()
    }
}
