//! Pieces of text, read and written without serde: nearly everything that travels while an agent speaks is one.
//!
//! Only the plain form has this short way, in the order of members in which everybody writes it. Whatever differs (another
//! order, white space, an escape in an id, any other member) is no error; it takes the long way, which the short one must not
//! differ from: the tests of this crate compare them.

use std::sync::Arc;

use pintle_wire::{append_string, string_value};

use super::content::{ContentBlock, TextContent};
use super::ids::{MessageId, SessionId};
use super::shape::{Fault, decode};
use super::update::{ContentChunk, SessionNotification, SessionUpdate};

const SESSION: &str = "{\"sessionId\":";
const UPDATE: &str = ",\"update\":{\"sessionUpdate\":\"";
const CONTENT: &str = "\",\"content\":{\"type\":\"text\",\"text\":";
const MESSAGE: &str = "},\"messageId\":";
const END: &str = "}}}";
const END_BEHIND_MESSAGE: &str = "}}";

/// Decodes the params of a `session/update`, from text that the strict scan has accepted. `session` is the session that they
/// are known to name; its text is shared and not copied.
///
/// # Errors
/// As [`decode`].
pub fn decode_update(params: &str, session: &Arc<str>) -> Result<SessionNotification, Fault> {
    match read(params, session) {
        Some(notification) => Ok(notification),
        None => decode(params),
    }
}

fn read(params: &str, session: &Arc<str>) -> Option<SessionNotification> {
    let rest = params.strip_prefix(SESSION)?;
    let (id, rest) = plain_string(rest)?;
    let session = if *id == **session { session.clone() } else { id.into() };
    let rest = rest.strip_prefix(UPDATE)?;
    let quote = memchr::memchr(b'"', rest.as_bytes())?;
    let (kind, rest) = rest.split_at(quote);
    let kind: fn(ContentChunk) -> SessionUpdate = match kind {
        "agent_message_chunk" => SessionUpdate::AgentMessageChunk,
        "agent_thought_chunk" => SessionUpdate::AgentThoughtChunk,
        "user_message_chunk" => SessionUpdate::UserMessageChunk,
        _ => return None,
    };
    let (text, rest) = string(rest.strip_prefix(CONTENT)?)?;
    let mut message = None;
    if rest != END {
        let (id, rest) = plain_string(rest.strip_prefix(MESSAGE)?)?;
        if rest != END_BEHIND_MESSAGE {
            return None;
        }
        message = Some(MessageId::from(id));
    }
    let mut chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text)));
    chunk.message_id = message;
    Some(SessionNotification::new(SessionId::new(session), kind(chunk)))
}

/// The string that `text` begins with, and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            break;
        }
        at += 2;
    }
    let (string, rest) = text.split_at_checked(at + 1)?;
    Some((string_value(string)?.into_owned(), rest))
}

/// The same for a string without escapes, as nearly all ids are.
fn plain_string(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('"')?;
    let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
    let (string, rest) = rest.split_at(end);
    Some((string, rest.strip_prefix('"')?))
}

/// Writes the params of a piece of text.
pub(crate) fn write_text(session: &str, kind: &str, text: &str, out: &mut Vec<u8>) {
    begin(session, kind, text, out);
    out.extend_from_slice(END.as_bytes());
}

/// Writes `notification` if it has the plain form; nothing is written otherwise.
pub(crate) fn write_plain(notification: &SessionNotification, out: &mut Vec<u8>) -> bool {
    let SessionNotification { session_id, update, meta: None, extra } = notification else { return false };
    let Some(chunk) = update.chunk().filter(|_| extra.is_empty()) else { return false };
    let ContentChunk { content: ContentBlock::Text(content), message_id, meta: None, extra } = chunk else {
        return false;
    };
    let TextContent { text, annotations: None, meta: None, extra: more } = content else { return false };
    if !(extra.is_empty() && more.is_empty()) {
        return false;
    }
    let Some(message) = message_id else {
        write_text(session_id.as_str(), update.tag(), text, out);
        return true;
    };
    begin(session_id.as_str(), update.tag(), text, out);
    out.extend_from_slice(MESSAGE.as_bytes());
    append_string(message.as_str(), out);
    out.extend_from_slice(END_BEHIND_MESSAGE.as_bytes());
    true
}

fn begin(session: &str, kind: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(SESSION.as_bytes());
    append_string(session, out);
    out.extend_from_slice(UPDATE.as_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(CONTENT.as_bytes());
    append_string(text, out);
}
