//! The rows of a trace file, `pintle.trace.v1`. `docs/trace.md` and `schemas/pintle.trace.v1.schema.json` publish them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The name of the format, in the first row.
pub(super) const SCHEMA: &str = "pintle.trace.v1";

/// Which way bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Dir {
    /// From the client, which started us.
    ToAgent,
    /// To the client.
    FromAgent,
}

impl Dir {
    pub(super) const BOTH: [Self; 2] = [Self::ToAgent, Self::FromAgent];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::ToAgent => Self::FromAgent,
            Self::FromAgent => Self::ToAgent,
        }
    }
}

/// One row. Times are nanoseconds since the first row was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Row {
    /// The first row of a trace. A file that was written to more than once has several.
    Start(Start),
    /// One line.
    Frame(Frame),
    /// Bytes that passed and were not recorded, because the disk was too slow.
    Lost { t_ns: u64, dir: Dir, bytes: u64 },
    /// Rows that could not be written, for example because the disk was full. They belong before this one.
    Unwritten { rows: u64 },
    /// The file has reached its bound: nothing is recorded from here to the end.
    Limit { bytes: u64 },
    /// A direction ended.
    Eof { t_ns: u64, dir: Dir },
    /// Whoever was to read this direction closed it, so it ends for the writer too.
    Refused { t_ns: u64, dir: Dir },
    /// The agent's process ended.
    Exit {
        t_ns: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The last row of a trace.
    End(End),
}

/// What is being traced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) schema: String,
    pub(super) pintle: String,
    /// RFC 3339, UTC.
    pub(super) started: String,
    /// The agent's command line; what is not UTF-8 in it is replaced.
    pub(super) argv: Vec<String>,
    pub(super) cwd: String,
    /// The process that traces.
    pub(super) pid: u32,
    /// Whether secrets were replaced before anything was written.
    pub(super) redacted: bool,
}

/// One line of one direction, without its line ending. Exactly one of `text` and `base64`, unless it is blank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Frame {
    /// When its last byte passed.
    pub(super) t_ns: u64,
    pub(super) dir: Dir,
    /// Its number in its direction, from 1. Blank lines count.
    pub(super) line: u64,
    /// Its length as it passed, in bytes.
    pub(super) len: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
    /// Only the beginning is here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) cut: bool,
    /// The direction ended before its line did.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) unterminated: bool,
    /// How often each rule of the sanitiser replaced something.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) redactions: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<Fault>,
}

/// Something that the protocol does not allow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fault {
    /// A stable word; `docs/trace.md` lists them.
    pub(super) code: Cow<'static, str>,
    /// A sentence about this case.
    pub(super) message: String,
}

/// What it came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) t_ns: u64,
    /// Lines of each direction.
    pub(super) lines: BTreeMap<Dir, u64>,
    /// Bytes of each direction, recorded or not.
    pub(super) bytes: BTreeMap<Dir, u64>,
    /// How often each fault was found.
    pub(super) faults: BTreeMap<String, u64>,
    /// Requests that were open when the connection ended, by who owes the answer and method.
    pub(super) unanswered: Vec<Unanswered>,
}

/// A request without an answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Unanswered {
    /// The direction in which it travelled.
    pub(super) dir: Dir,
    pub(super) method: String,
    pub(super) id: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
