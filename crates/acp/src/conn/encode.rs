//! Frames on their way out: encoded by the sender, completed and queued by the connection.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use pintle_wire::{PeerId, append_integer};
use serde::Serialize;

use super::RawJson;
use crate::Error;
use crate::methods::MethodId;
use crate::types::{self, SessionId, SessionNotification};

/// Frames up to this size are copied together into one chunk; a larger one travels as its own.
const COALESCE_BYTES: usize = 8 * 1024;
/// A chunk of coalesced frames is closed at this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// Room for the first frames of a chunk, where nothing tells how many there will be.
const FIRST_BYTES: usize = 512;

const UPDATE: &str = MethodId::SessionUpdate.wire();

/// A value could not be written as one line of JSON. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {what} as JSON")]
pub struct EncodeError {
    what: Box<str>,
    #[source]
    source: serde_json::Error,
}

/// A request or notification without its id: encoded where it is made, in the sender's own time.
#[derive(Debug, Clone)]
pub struct Call {
    method: Cow<'static, str>,
    /// `"method":..,"params":..}` and LF.
    body: Body,
    params_from: Option<usize>,
}

/// What follows the id in a frame. A short one is copied into a chunk with others, and needs no counted owner before that.
#[derive(Debug, Clone)]
enum Body {
    Short(Vec<u8>),
    Long(Bytes),
}

impl Body {
    fn new(bytes: Vec<u8>) -> Self {
        if bytes.len() > COALESCE_BYTES { Self::Long(bytes.into()) } else { Self::Short(bytes) }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn part(&self, range: Range<usize>) -> RawJson {
        RawJson::from_scanned(match self {
            Self::Short(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Self::Long(bytes) => bytes.slice(range),
        })
    }
}

impl Call {
    /// Encodes a call of `method`.
    ///
    /// # Errors
    /// `params` cannot be written as JSON.
    pub fn new<P: Serialize + ?Sized>(method: impl Into<Cow<'static, str>>, params: &P) -> Result<Self, EncodeError> {
        let method = method.into();
        let mut body = start(&method);
        body.extend_from_slice(b",\"params\":");
        let from = body.len();
        serde_json::to_writer(&mut body, params)
            .map_err(|source| EncodeError { what: format!("the params of {method}").into(), source })?;
        keep_on_one_line(&mut body[from..]);
        Ok(Self::finish(method, body, Some(from)))
    }

    /// Encodes a `session/update`.
    ///
    /// # Errors
    /// As [`Call::new`].
    pub fn update(params: &SessionNotification) -> Result<Self, EncodeError> {
        let (mut body, from) = start_update(0);
        if types::write_plain(params, &mut body) {
            return Ok(Self::finish(Cow::Borrowed(UPDATE), body, Some(from)));
        }
        Self::new(UPDATE, params)
    }

    /// Encodes a `session/update` with a piece of the agent's message or, if `thought`, of its reasoning.
    pub fn text(session: &SessionId, thought: bool, text: &str) -> Self {
        let (mut body, from) = start_update(session.as_str().len() + text.len());
        let kind = if thought { "agent_thought_chunk" } else { "agent_message_chunk" };
        types::write_text(session.as_str(), kind, text, &mut body);
        Self::finish(Cow::Borrowed(UPDATE), body, Some(from))
    }

    /// A call of `method` without params.
    pub fn without_params(method: impl Into<Cow<'static, str>>) -> Self {
        let method = method.into();
        let body = start(&method);
        Self::finish(method, body, None)
    }

    /// A call of `method` with params that came from elsewhere and travel as they are.
    pub fn raw(method: impl Into<Cow<'static, str>>, params: &RawJson) -> Self {
        let method = method.into();
        let mut body = start(&method);
        body.extend_from_slice(b",\"params\":");
        let from = body.len();
        body.extend_from_slice(params.as_bytes());
        Self::finish(method, body, Some(from))
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The params, if there are any.
    pub(crate) fn params(&self) -> Option<RawJson> {
        let from = self.params_from?;
        Some(self.body.part(from..self.body.len() - END.len()))
    }

    /// Bytes of the frame, but for the id.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Never: a call has a method.
    pub fn is_empty(&self) -> bool {
        false
    }

    fn finish(method: Cow<'static, str>, mut body: Vec<u8>, params_from: Option<usize>) -> Self {
        body.extend_from_slice(END);
        Self { method, body: Body::new(body), params_from }
    }
}

/// Beside what is told of it, an update of text fits into so many bytes.
const UPDATE_BYTES: usize = 192;

fn start_update(more_bytes: usize) -> (Vec<u8>, usize) {
    let mut body = Vec::with_capacity(UPDATE_BYTES + more_bytes);
    body.extend_from_slice(b"\"method\":\"");
    body.extend_from_slice(UPDATE.as_bytes());
    body.extend_from_slice(b"\",\"params\":");
    let from = body.len();
    (body, from)
}

fn start(method: &str) -> Vec<u8> {
    let mut body = Vec::with_capacity(256);
    body.extend_from_slice(b"\"method\":");
    // Writing a string to memory cannot fail.
    if serde_json::to_writer(&mut body, method).is_err() {
        body.extend_from_slice(b"\"\"");
    }
    body
}

/// An answer without its id.
#[derive(Debug, Clone)]
pub struct Reply {
    /// `"result":..}` or `"error":..}` and LF.
    body: Body,
    is_ok: bool,
}

const RESULT: &[u8] = b"\"result\":";
const ERROR: &[u8] = b"\"error\":";
const END: &[u8] = b"}\n";

impl Reply {
    /// Encodes a result.
    ///
    /// # Errors
    /// `result` cannot be written as JSON. Answer [`Error::internal_error`] then.
    pub fn ok<R: Serialize + ?Sized>(result: &R) -> Result<Self, EncodeError> {
        let mut body = Vec::with_capacity(128);
        body.extend_from_slice(RESULT);
        serde_json::to_writer(&mut body, result).map_err(|source| EncodeError { what: "a result".into(), source })?;
        keep_on_one_line(&mut body);
        body.extend_from_slice(END);
        Ok(Self { body: Body::new(body), is_ok: true })
    }

    /// A result that came from elsewhere and travels as it is.
    pub fn raw(result: &RawJson) -> Self {
        let mut body = Vec::with_capacity(RESULT.len() + result.as_bytes().len() + END.len());
        body.extend_from_slice(RESULT);
        body.extend_from_slice(result.as_bytes());
        keep_on_one_line(&mut body);
        body.extend_from_slice(END);
        Self { body: Body::new(body), is_ok: true }
    }

    /// Encodes an error.
    pub fn error(error: &Error) -> Self {
        let mut body = Vec::with_capacity(128);
        body.extend_from_slice(ERROR);
        if serde_json::to_writer(&mut body, error).is_err() {
            // The data of an error is raw JSON or a value of ours; both can be written. If ever not, the peer still gets
            // its answer.
            body.truncate(ERROR.len());
            body.extend_from_slice(b"{\"code\":-32603,\"message\":\"Internal error\"}");
        }
        keep_on_one_line(&mut body);
        body.extend_from_slice(END);
        Self { body: Body::new(body), is_ok: false }
    }

    /// True for a result, false for an error.
    pub fn is_ok(&self) -> bool {
        self.is_ok
    }

    /// The result's text, if this is one.
    pub(crate) fn result(&self) -> Option<RawJson> {
        self.is_ok.then(|| self.body.part(RESULT.len()..self.body.len() - END.len()))
    }
}

impl<R: Serialize> From<Result<R, Error>> for Reply {
    /// Encodes what a handler returned; a result that cannot be written is answered -32603.
    fn from(result: Result<R, Error>) -> Self {
        match result {
            Ok(result) => Self::ok(&result).unwrap_or_else(|_| Self::error(&Error::internal_error())),
            Err(error) => Self::error(&error),
        }
    }
}

/// A line break between two tokens of a raw value would cut the frame in two. Within a string it is always escaped, so
/// every one found here may become a space.
fn keep_on_one_line(text: &mut [u8]) {
    if memchr::memchr2(b'\n', b'\r', text).is_none() {
        return;
    }
    for byte in text {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// What stands before the body of a frame.
enum Prefix<'a> {
    /// No id.
    Bare,
    Own(i64),
    /// Null where the peer's is not known.
    Peers(Option<&'a PeerId>),
}

/// Room for a prefix with an id of usual length.
const PREFIX_BYTES: usize = 64;

impl Prefix<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
        if let Self::Bare = self {
            return;
        }
        out.extend_from_slice(b"\"id\":");
        match self {
            Self::Own(id) => append_integer(*id, out),
            Self::Peers(Some(id)) => id.write(out),
            Self::Peers(None) | Self::Bare => out.extend_from_slice(b"null"),
        }
        out.push(b',');
    }
}

/// Frames that wait to be written, in the order in which they were handed over.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    chunks: VecDeque<Bytes>,
    tail: Vec<u8>,
    /// Bytes of the last chunk: as much may be wanted for the next.
    last_chunk_bytes: usize,
    pending_bytes: usize,
    /// Bytes of calls among them, from above: after a partial write the rest counts as calls first.
    call_bytes: usize,
    /// Among the frames that nobody has taken yet is one that somebody waits for.
    is_awaited: bool,
    frames: u64,
}

impl Outgoing {
    pub(crate) fn request(&mut self, id: i64, call: &Call) {
        self.is_awaited = true;
        self.call_bytes += self.push(&Prefix::Own(id), &call.body);
    }

    pub(crate) fn notification(&mut self, call: &Call) {
        self.call_bytes += self.push(&Prefix::Bare, &call.body);
    }

    /// A notification of the connection's own: no sender waits for room for it.
    pub(crate) fn own_notification(&mut self, call: &Call) {
        self.is_awaited = true;
        self.push(&Prefix::Bare, &call.body);
    }

    pub(crate) fn reply(&mut self, id: Option<&PeerId>, reply: &Reply) {
        self.is_awaited = true;
        self.push(&Prefix::Peers(id), &reply.body);
    }

    fn push(&mut self, prefix: &Prefix<'_>, body: &Body) -> usize {
        if self.tail.len() + PREFIX_BYTES + body.len() > CHUNK_BYTES {
            self.close_tail();
        }
        if self.tail.capacity() == 0 {
            self.tail.reserve(self.last_chunk_bytes.clamp(FIRST_BYTES, CHUNK_BYTES));
        }
        let before = self.tail.len();
        prefix.write(&mut self.tail);
        let len = self.tail.len() - before + body.len();
        match body {
            Body::Short(bytes) => self.tail.extend_from_slice(bytes),
            Body::Long(bytes) => {
                self.close_tail();
                self.chunks.push_back(bytes.clone());
            }
        }
        self.pending_bytes += len;
        self.frames += 1;
        len
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.last_chunk_bytes = self.tail.len();
            self.chunks.push_back(std::mem::take(&mut self.tail).into());
        }
    }

    /// The next bytes to write. They count as pending until [`Outgoing::written`] says otherwise.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        if self.chunks.is_empty() {
            self.close_tail();
        }
        let chunk = self.chunks.pop_front();
        if self.chunks.is_empty() && self.tail.is_empty() {
            self.is_awaited = false;
        }
        chunk
    }

    pub(crate) fn written(&mut self, bytes: usize) {
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        self.call_bytes = self.call_bytes.min(self.pending_bytes);
    }

    pub(crate) fn call_bytes(&self) -> usize {
        self.call_bytes
    }

    pub(crate) fn reply_bytes(&self) -> usize {
        self.pending_bytes - self.call_bytes
    }

    pub(crate) fn unawaited_bytes(&self) -> Option<usize> {
        (!self.is_awaited).then_some(self.pending_bytes)
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }
}
