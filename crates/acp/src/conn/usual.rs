//! The one form in which nearly all frames of an agent come.

use std::ops::Range;

use pintle_wire::scan_form;

/// Before the three strings of a `session/update` with a piece of text: the session, the kind of update, the text.
pub(super) const BEFORE: [&str; 3] = [
    concat!(r#"{"jsonrpc":"2.0","method":"session/update","params":"#, r#"{"sessionId":""#),
    r#","update":{"sessionUpdate":""#,
    r#","content":{"type":"text","text":""#,
];
pub(super) const END: &str = "}}}}";
/// The same with the id of the message behind the content.
const BEFORE_WITH_MESSAGE: [&str; 4] = [BEFORE[0], BEFORE[1], BEFORE[2], r#"},"messageId":""#];
pub(super) const END_BEHIND_MESSAGE: &str = "}}}";
/// Where the params start, and how many bytes follow them.
const PARAMS: usize = BEFORE[0].len() - r#"{"sessionId":""#.len();
const BEHIND_PARAMS: usize = 1;

/// A `session/update` with a piece of text, in the form in which everybody writes it: these members, in this order, without
/// white space. Proven to be strict JSON and read in one go; whatever is written in another way has to be scanned.
#[derive(Debug, Clone)]
pub struct TextUpdate<'a> {
    line: &'a str,
    session: Range<usize>,
    kind: Range<usize>,
}

impl<'a> TextUpdate<'a> {
    /// Reads a line, without its ending. `None` if it is anything else.
    pub fn scan(line: &'a [u8]) -> Option<Self> {
        // Behind the text one brace more is closed than behind the id of its message.
        if line.ends_with(b"\"}}}}") {
            let (line, [session, kind, _]) = scan_form(line, &BEFORE, END)?;
            return Some(Self { line, session, kind });
        }
        let (line, [session, kind, _, _]) = scan_form(line, &BEFORE_WITH_MESSAGE, END_BEHIND_MESSAGE)?;
        Some(Self { line, session, kind })
    }

    /// The line.
    pub fn as_str(&self) -> &'a str {
        self.line
    }

    /// The session's id. `None` if it has escapes.
    pub fn session(&self) -> Option<&'a str> {
        Some(&self.line[self.session.clone()]).filter(|id| !id.contains('\\'))
    }

    /// The kind of update. `None` if it is none of those that carry a piece of text.
    pub fn kind(&self) -> Option<&'static str> {
        ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]
            .into_iter()
            .find(|kind| **kind == self.line[self.kind.clone()])
    }

    /// Where the params stand in the line.
    pub(super) fn params(&self) -> Range<usize> {
        PARAMS..self.line.len() - BEHIND_PARAMS
    }
}
