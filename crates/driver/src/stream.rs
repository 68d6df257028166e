//! A stream of frames in either direction, without IO of its own.

use bytes::Bytes;
use pintle_wire::{Framer, Line};

use crate::codec::{MAX_CONTROL_FRAME_BYTES, append_frame, decode_control_frame};
use crate::error::ProtocolError;
use crate::message::Message;

/// Splits bytes into lines and decodes each (spec section 4).
///
/// Feed it whatever arrives; the result does not depend on how the bytes are cut. A blank line and a malformed one are
/// errors of their own, an over-long line is one `budget_exceeded`, drained through its LF while memory stays bounded;
/// after any of them the next line decodes.
///
/// ```
/// let mut decoder = pintle_driver::Decoder::new();
/// decoder.feed(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"met"[..]);
/// assert!(decoder.decode().is_none());
/// decoder.feed(&b"hod\":\"driver.reset\"}"[..]);
/// assert!(decoder.decode().is_none(), "the line has no end yet");
/// assert!(decoder.finish().is_some_and(|last| last.is_ok()));
/// ```
#[derive(Debug)]
pub struct Decoder {
    framer: Framer,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self { framer: Framer::new(MAX_CONTROL_FRAME_BYTES) }
    }

    /// Takes bytes in. Decode until `None` before feeding more, so that only one chunk is held.
    pub fn feed(&mut self, bytes: impl Into<Bytes>) {
        self.framer.feed(bytes.into());
    }

    /// The next complete line, or `None` until more bytes arrive.
    pub fn decode(&mut self) -> Option<Result<Message, ProtocolError>> {
        self.framer.next().map(decode_framed)
    }

    /// At the end of input, after `decode` has returned `None`: the last line, if it has no LF. `None` is a clean end.
    pub fn finish(&mut self) -> Option<Result<Message, ProtocolError>> {
        self.framer.finish().map(decode_framed)
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn decode_framed(line: Line) -> Result<Message, ProtocolError> {
    match line {
        // A framed line has no LF left, so a CR at its end is a stray one, as it should be.
        Line::Complete(line) => decode_control_frame(&line),
        Line::TooLong { bytes } => Err(ProtocolError::ControlFrameTooLarge { bytes }),
        Line::Blank => Err(ProtocolError::EmptyControlFrame),
    }
}

/// Writes canonical frames into one buffer, each with exactly one LF.
#[derive(Debug, Default)]
pub struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    /// An encoder with an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one complete frame to the buffer; on an error the buffer is as before.
    ///
    /// # Errors
    /// As [`encode_control_frame`](crate::encode_control_frame).
    pub fn encode(&mut self, message: &Message) -> Result<(), ProtocolError> {
        append_frame(message, &mut self.out)
    }

    /// Bytes that wait to be taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes everything that was encoded since the last call.
    pub fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.out))
    }

    /// What was encoded, in place; [`clear`](Self::clear) it once written to reuse the buffer.
    pub fn as_bytes(&self) -> &[u8] {
        &self.out
    }

    /// Takes back what was encoded behind the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// Forgets the buffer's content and keeps its memory.
    pub fn clear(&mut self) {
        self.out.clear();
    }
}
