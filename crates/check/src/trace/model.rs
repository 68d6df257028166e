//! The types of a trace. The fields that expressions see are published in `docs/packs.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::observation::{Direction, StartFailure};
use crate::pack::Timeouts;

/// Longest text that an entry keeps, in bytes. The whole line stays in the evidence.
pub const EXCERPT_MAX_BYTES: usize = 4096;

/// What one scenario's observations say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The scenario's id.
    pub scenario: String,
    /// Everything that happened, in order.
    pub entries: Vec<Entry>,
    /// The plan's named steps.
    pub steps: BTreeMap<String, StepFacts>,
    /// `result` of the first answered `initialize`, or null.
    pub init: Value,
    /// Whether and how the agent started.
    pub start: StartFacts,
    /// How the agent ended.
    pub exit: ExitFacts,
    /// What it left behind.
    pub descendants: DescendantFacts,
    /// The waits of the scenario.
    pub timeouts: Timeouts,
    /// The scenario's `client_capabilities`.
    pub offered: Map<String, Value>,
    /// Why the trace does not show everything that happened, if it does not.
    pub flaws: Vec<Flaw>,
}

impl Trace {
    /// `agentCapabilities` of the `initialize` result, or null.
    pub fn caps(&self) -> &Value {
        self.init.get("agentCapabilities").unwrap_or(&Value::Null)
    }

    /// The entry that answers request `entry`.
    pub fn reply_to(&self, entry: &Entry) -> Option<&Entry> {
        self.entries.get(entry.answered?)
    }
}

/// Why a trace may miss something. A verdict that rests on absence cannot stand on such a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    /// More than [`TRACE_MAX_ENTRIES`](super::TRACE_MAX_ENTRIES) entries; this many were dropped.
    Dropped(u64),
    /// Frames whose bytes are not in the evidence.
    BytesMissing(u64),
    /// The observations end before the agent's exit was reported.
    Incomplete,
    /// An observation that does not have the form of its kind.
    Malformed(String),
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Position in the trace.
    pub i: usize,
    /// Milliseconds since the scenario began.
    pub t_ms: f64,
    /// What it is.
    pub kind: EntryKind,
    /// For frames: who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<Direction>,
    /// Line number in its direction, from 1; 0 when it is not a frame.
    pub line: u64,
    /// The line or text, cut at [`EXCERPT_MAX_BYTES`].
    pub text: String,
    /// Bytes of the line.
    pub size: u64,
    /// The message; null when the line is not one, or was too large to keep.
    pub json: Value,
    /// The line is one JSON-RPC message.
    pub valid: bool,
    /// What is wrong with the line; empty when nothing is.
    pub fault: String,
    /// Where in the line it is wrong, for people; empty when there is nothing to say.
    pub fault_detail: String,
    /// What kind of message it is.
    pub shape: Shape,
    /// The session that it is about: `params.sessionId` or `result.sessionId`; may be empty.
    pub session: String,
    /// The session is one that the agent created in this trace, or that the client named.
    pub session_known: bool,
    /// For a response: the request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<usize>,
    /// For a request: its first response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<usize>,
    /// The step that sent it, or that was running when it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Name of the step that sent it, or empty.
    pub name: String,
    /// For `step` entries: how the step ended; else empty.
    pub status: String,
    /// The last line of stdout had no line feed.
    pub unterminated: bool,
    /// Lone surrogate escapes in the line.
    pub lone_surrogates: u32,
    /// How many frames it stands for.
    pub count: u64,
}

impl Entry {
    /// `method`, or empty.
    pub fn method(&self) -> &str {
        self.json.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    /// `id`, or null.
    pub fn id(&self) -> &Value {
        self.json.get("id").unwrap_or(&Value::Null)
    }

    /// `params.update.sessionUpdate` of a `session/update`, or empty.
    pub fn update(&self) -> &str {
        let update = self.json.pointer("/params/update/sessionUpdate").and_then(Value::as_str);
        update.filter(|_| self.method() == "session/update").unwrap_or_default()
    }

    /// True for a frame from the agent.
    pub fn is_inbound(&self) -> bool {
        self.kind == EntryKind::Frame && self.dir == Some(Direction::In)
    }
}

/// Kind of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A line on stdin or stdout.
    Frame,
    /// Text on stderr.
    Stderr,
    /// A step ended.
    Step,
    /// The agent exited.
    Exit,
    /// What it left behind.
    Descendants,
    /// Alike notifications in a row, counted.
    Flood,
    /// Entries that were dropped because there were too many.
    Gap,
}

impl EntryKind {
    /// The word in expressions and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Stderr => "stderr",
            Self::Step => "step",
            Self::Exit => "exit",
            Self::Descendants => "descendants",
            Self::Flood => "flood",
            Self::Gap => "gap",
        }
    }
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// `method` and `id`.
    Request,
    /// `method` without `id`.
    Notification,
    /// No `method`, but `result` or `error`.
    Response,
    /// None of these.
    #[default]
    Other,
}

/// What is known of a named step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFacts {
    /// Index in the plan.
    pub index: u32,
    /// Kind of the step.
    pub kind: String,
    /// How it ended; `skipped` when it was never reached.
    pub status: String,
    /// The driver's words on why it was skipped or failed; may be empty.
    pub detail: String,
    /// What it sent, or for `wait` the frame that ended the wait.
    pub frame: Option<usize>,
    /// The first response.
    pub reply: Option<usize>,
    /// Responses with its id.
    pub replies: u64,
    /// Its frame was written.
    pub sent: bool,
    /// Milliseconds, or -1.
    pub t_ms: f64,
    /// Milliseconds, or -1.
    pub end_ms: f64,
    /// Session id that it got or used; may be empty.
    pub session: String,
}

/// Whether the agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFacts {
    /// Nothing was reported.
    #[default]
    Unknown,
    /// It runs.
    Started,
    /// It could not be started.
    Failed(StartFailure),
}

/// How the agent ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitFacts {
    /// The exit was seen.
    pub known: bool,
    /// Exit code.
    pub code: Option<i32>,
    /// Signal number.
    pub signal: Option<i32>,
    /// The phase's word, or empty.
    pub phase: String,
    /// Milliseconds, or -1.
    pub t_ms: f64,
    /// Milliseconds after stdin was closed, or -1.
    pub after_close_ms: f64,
}

impl Default for ExitFacts {
    fn default() -> Self {
        Self { known: false, code: None, signal: None, phase: String::new(), t_ms: -1.0, after_close_ms: -1.0 }
    }
}

/// What the agent left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescendantFacts {
    /// The driver was able to look.
    pub known: bool,
    /// How many processes.
    pub count: u32,
    /// Their names.
    pub names: Vec<String>,
}
