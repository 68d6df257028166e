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

/// A [`Row::Frame`] on its way into the file, borrowed. Written without serde: nearly all rows are frames, and the text of one
/// is JSON, which has a quote to escape in every few bytes.
#[derive(Debug)]
pub(super) struct FrameRow<'a> {
    pub(super) t_ns: u64,
    pub(super) dir: Dir,
    pub(super) line: u64,
    pub(super) len: u64,
    pub(super) content: Content<'a>,
    pub(super) cut: bool,
    pub(super) unterminated: bool,
    pub(super) redactions: &'a BTreeMap<String, u64>,
    pub(super) faults: &'a [Fault],
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(&'a str),
    /// What is not UTF-8.
    Base64(String),
}

impl FrameRow<'_> {
    /// Appends the row and a LF.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"frame\",\"t_ns\":");
        append(&self.t_ns, out);
        out.extend_from_slice(match self.dir {
            Dir::ToAgent => b",\"dir\":\"to_agent\",\"line\":",
            Dir::FromAgent => b",\"dir\":\"from_agent\",\"line\":",
        });
        append(&self.line, out);
        out.extend_from_slice(b",\"len\":");
        append(&self.len, out);
        match &self.content {
            Content::Text(text) => {
                out.extend_from_slice(b",\"text\":");
                append_text(text, out);
            }
            Content::Base64(digits) => {
                out.extend_from_slice(b",\"base64\":");
                append(digits, out);
            }
        }
        if self.cut {
            out.extend_from_slice(b",\"cut\":true");
        }
        if self.unterminated {
            out.extend_from_slice(b",\"unterminated\":true");
        }
        if !self.redactions.is_empty() {
            out.extend_from_slice(b",\"redactions\":");
            append(self.redactions, out);
        }
        if !self.faults.is_empty() {
            out.extend_from_slice(b",\"faults\":");
            append(self.faults, out);
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Numbers, strings and maps of strings: writing them to memory cannot fail.
fn append<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

/// A JSON string. In a frame quotes and backslashes are never far apart, so it goes byte by byte.
fn append_text(text: &str, out: &mut Vec<u8>) {
    /// Bytes looked at before the row grows; each may take two.
    const STEP: usize = 256;
    // Only garbage has any.
    let has_control = text.as_bytes().iter().fold(false, |has, byte| has | (*byte < 0x20));
    if has_control {
        return append(text, out);
    }
    out.push(b'"');
    for piece in text.as_bytes().chunks(STEP) {
        let mut escaped = [0; 2 * STEP];
        let mut len = 0;
        for byte in piece {
            // Written in any case, kept where it is needed: no branch to guess wrong.
            escaped[len] = b'\\';
            len += usize::from(matches!(byte, b'"' | b'\\'));
            escaped[len] = *byte;
            len += 1;
        }
        out.extend_from_slice(&escaped[..len]);
    }
    out.push(b'"');
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn faults() -> impl Strategy<Value = Vec<Fault>> {
        let fault = "[ -~\n]{0,20}".prop_map(|message| Fault { code: Cow::Borrowed("garbage"), message });
        prop::collection::vec(fault, 0..3)
    }

    proptest! {
        /// What is written by hand is what serde would write.
        #[test]
        fn a_frame_is_written_as_serde_writes_it(
            (t_ns, line, len) in any::<(u64, u64, u64)>(),
            text in prop_oneof!["(\\PC|[\"\\\\{}:a-z]){0,600}", "[\x00-\x7f\u{80}-\u{ffff}]{0,40}"],
            (is_text, to_agent, cut, unterminated) in any::<(bool, bool, bool, bool)>(),
            redactions in prop::collection::btree_map("[a-z_]{1,9}", any::<u64>(), 0..3),
            faults in faults(),
        ) {
            let dir = if to_agent { Dir::ToAgent } else { Dir::FromAgent };
            let content = if is_text { Content::Text(&text) } else { Content::Base64("//4=".to_owned()) };
            let mut written = Vec::new();
            FrameRow { t_ns, dir, line, len, content, cut, unterminated, redactions: &redactions, faults: &faults }
                .write(&mut written);
            let (text, base64) = if is_text { (Some(text), None) } else { (None, Some("//4=".to_owned())) };
            let row =
                Row::Frame(Frame { t_ns, dir, line, len, text, base64, cut, unterminated, redactions, faults });
            let expected = serde_json::to_string(&row).expect("a row") + "\n";
            prop_assert_eq!(String::from_utf8(written).expect("UTF-8"), expected);
        }
    }
}
