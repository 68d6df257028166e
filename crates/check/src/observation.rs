//! What an ACP scenario driver reports: the payloads of its observations, by kind.
//!
//! The kind is the observation's own member in Driver RPC; the payload is the JSON form of the type. A driver reports
//! what happened and judges nothing. Times are nanoseconds since the driver began the invocation, on a clock that does
//! not go backwards. Observations are reported in the order in which the driver saw the events.

use serde::{Deserialize, Serialize};

/// Longest text that an [`AcpFrame`] carries inline, in bytes; a longer frame travels by the companion stream.
pub const FRAME_TEXT_MAX_BYTES: usize = 64 * 1024;
/// Longest frame that is not UTF-8 and travels as base64, in bytes before encoding.
pub const FRAME_BASE64_MAX_BYTES: usize = 48 * 1024;
/// Most processes that [`AgentDescendants`] lists by name.
pub const DESCENDANTS_MAX: usize = 32;

/// Kinds of observation, as the `kind` member spells them.
pub mod kind {
    /// [`AgentStart`](super::AgentStart).
    pub const AGENT_START: &str = "agent.start";
    /// [`AcpFrame`](super::AcpFrame).
    pub const ACP_FRAME: &str = "acp.frame";
    /// [`AcpOmitted`](super::AcpOmitted).
    pub const ACP_OMITTED: &str = "acp.omitted";
    /// [`AgentStderr`](super::AgentStderr).
    pub const AGENT_STDERR: &str = "agent.stderr";
    /// [`AgentExit`](super::AgentExit).
    pub const AGENT_EXIT: &str = "agent.exit";
    /// [`AgentDescendants`](super::AgentDescendants).
    pub const AGENT_DESCENDANTS: &str = "agent.descendants";
    /// [`StepReport`](super::StepReport).
    pub const STEP: &str = "step";
}

/// One observation of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "payload")]
pub enum Observation {
    /// The agent was started, or could not be.
    #[serde(rename = "agent.start")]
    Start(AgentStart),
    /// A line went over stdin or stdout.
    #[serde(rename = "acp.frame")]
    Frame(AcpFrame),
    /// Lines that were counted and not reported one by one.
    #[serde(rename = "acp.omitted")]
    Omitted(AcpOmitted),
    /// The agent wrote to stderr.
    #[serde(rename = "agent.stderr")]
    Stderr(AgentStderr),
    /// The agent is gone.
    #[serde(rename = "agent.exit")]
    Exit(AgentExit),
    /// Processes that the agent left behind.
    #[serde(rename = "agent.descendants")]
    Descendants(AgentDescendants),
    /// A step is over.
    #[serde(rename = "step")]
    Step(StepReport),
}

impl Observation {
    /// The kind's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Start(_) => kind::AGENT_START,
            Self::Frame(_) => kind::ACP_FRAME,
            Self::Omitted(_) => kind::ACP_OMITTED,
            Self::Stderr(_) => kind::AGENT_STDERR,
            Self::Exit(_) => kind::AGENT_EXIT,
            Self::Descendants(_) => kind::AGENT_DESCENDANTS,
            Self::Step(_) => kind::STEP,
        }
    }

    /// Decodes the payload of one kind. `None`: a kind that this version does not know, which a judge ignores.
    ///
    /// # Errors
    /// The payload does not have the kind's form: a fault of the driver.
    pub fn decode(kind: &str, payload: &str) -> Option<Result<Self, serde_json::Error>> {
        Some(match kind {
            kind::AGENT_START => serde_json::from_str(payload).map(Self::Start),
            kind::ACP_FRAME => serde_json::from_str(payload).map(Self::Frame),
            kind::ACP_OMITTED => serde_json::from_str(payload).map(Self::Omitted),
            kind::AGENT_STDERR => serde_json::from_str(payload).map(Self::Stderr),
            kind::AGENT_EXIT => serde_json::from_str(payload).map(Self::Exit),
            kind::AGENT_DESCENDANTS => serde_json::from_str(payload).map(Self::Descendants),
            kind::STEP => serde_json::from_str(payload).map(Self::Step),
            _ => return None,
        })
    }
}

/// Payload of `agent.start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentStart {
    /// Nanoseconds since the invocation began.
    pub t_ns: u64,
    /// Absent when the process runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<StartFailure>,
}

/// Why the agent could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartFailure {
    /// `not_found`, `permission_denied` or `other`.
    pub reason: StartFailureReason,
    /// The operating system's words, with the program's name.
    pub message: String,
}

/// Class of a start failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFailureReason {
    /// No such program.
    NotFound,
    /// It may not be executed.
    PermissionDenied,
    /// Anything else: no memory, no processes, a bad interpreter line.
    Other,
}

/// Payload of `acp.frame`: one line, without its line ending. Exactly one of `text`, `base64`, `stream_id` and
/// `over_long_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcpFrame {
    /// Who wrote it.
    pub dir: Direction,
    /// Number of the line in its direction, from 1. Blank lines count.
    pub line: u64,
    /// Nanoseconds since the invocation began: the line was complete, or was handed to the kernel.
    pub t_ns: u64,
    /// The line, when it is UTF-8 and at most [`FRAME_TEXT_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The line in base64, when it is not UTF-8 and at most [`FRAME_BASE64_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The companion stream that carries the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<String>,
    /// The line was longer than the driver keeps; this many bytes were dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_long_bytes: Option<u64>,
    /// The last line before end of file had no line feed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unterminated: bool,
    /// Index of the step that wrote it (direction out), or that was running when it arrived (direction in). Absent
    /// after the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Name of the step that wrote it, when it has one. Answers by callback policy have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the agent.
    Out,
    /// From the agent.
    In,
}

impl Direction {
    /// `out` or `in`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

/// Payload of `acp.omitted`: consecutive lines of one direction that a driver counted instead of reporting each, because
/// the agent floods. A driver still reports the responses and the agent's requests among them as frames of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcpOmitted {
    /// Who wrote them.
    pub dir: Direction,
    /// Number of the first line.
    pub first_line: u64,
    /// Number of the last line.
    pub last_line: u64,
    /// How many lines.
    pub count: u64,
    /// Their length in bytes, without line endings.
    pub bytes: u64,
    /// When the first one was complete, in nanoseconds since the invocation began.
    pub first_t_ns: u64,
    /// When the last one was complete.
    pub t_ns: u64,
}

/// Payload of `agent.stderr`: a piece of what the agent wrote, bounded by the driver (64 KiB head and tail in all).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentStderr {
    /// Nanoseconds since the invocation began.
    pub t_ns: u64,
    /// The text; bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
    /// Bytes that were dropped before this piece because of the bound.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_bytes: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Payload of `agent.exit`. Neither `code` nor `signal`: it could not be learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentExit {
    /// Nanoseconds since the invocation began.
    pub t_ns: u64,
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What had been done to it by then.
    pub phase: ExitPhase,
    /// When stdin was closed, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_closed_t_ns: Option<u64>,
}

/// How far the kill ladder had gone when the agent exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitPhase {
    /// Stdin was open and no signal had been sent: it left by itself, or crashed.
    Running,
    /// A `signal` step of the scenario came first.
    Signalled,
    /// After stdin was closed, within the close grace.
    Closed,
    /// After SIGTERM.
    Terminated,
    /// After SIGKILL.
    Killed,
}

impl ExitPhase {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Signalled => "signalled",
            Self::Closed => "closed",
            Self::Terminated => "terminated",
            Self::Killed => "killed",
        }
    }
}

/// Payload of `agent.descendants`: processes below the agent that were alive after it had exited, before they were
/// killed. Reported once, also when there are none. A driver that cannot know reports `known: false`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDescendants {
    /// Nanoseconds since the invocation began.
    pub t_ns: u64,
    /// The driver was able to look.
    pub known: bool,
    /// How many there were.
    pub count: u32,
    /// The first [`DESCENDANTS_MAX`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Descendant>,
}

/// A process that was left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descendant {
    /// Its process id.
    pub pid: u32,
    /// Its name, without arguments.
    pub name: String,
}

/// Payload of `step`: reported once for each step of the plan, in order, when the step is over. One more, whose index is
/// the number of steps and whose status is `ok`, stands where the driver closes standard input at the end of the scenario;
/// a judge needs it to tell an answer in time from one that an agent gives only when it is told to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    /// Index in the plan, from 0; the number of steps for the closing at the end.
    pub index: u32,
    /// How it ended.
    pub status: StepStatus,
    /// The step's name, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nanoseconds since the invocation began, at the step's end.
    pub t_ns: u64,
    /// Nanoseconds since the invocation began, at the step's start. Absent when it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_t_ns: Option<u64>,
    /// For a `wait`: line number (direction in) of the frame that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_line: Option<u64>,
    /// Why it was skipped or failed, one sentence without payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Done, and what it waited for came.
    Ok,
    /// Done, but what it waited for did not come in time.
    Timeout,
    /// Not done: an earlier step ended the scenario, or there was nothing to do.
    Skipped,
    /// Could not be done: stdin closed, agent gone, a variable without a value.
    Failed,
}

impl StepStatus {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}
