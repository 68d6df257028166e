//! The data plane: frames of a companion stream.
//!
//! A frame is a header length (four bytes, big endian, at most [`DATA_HEADER_MAX_BYTES`]), a header of that length as
//! canonical JSON, and as many payload bytes as the header says.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer, Serialize};

use crate::canon::{CanonError, canonicalize};
use crate::canon_ser::append_canonical;
use crate::error::JsonError;
use crate::ids::InstanceId;
use crate::number::SafeU64;
use crate::scan::{DEFAULT_MAX_DATA_FRAME_BYTES, MAX_DEPTH, Profile, ScanLimits, scan};
use crate::text::DecodeError;

/// Most bytes of a header.
pub const DATA_HEADER_MAX_BYTES: usize = 4096;
/// Most bytes of a stream id.
pub const STREAM_ID_MAX_BYTES: usize = 256;
/// Bytes of the header length.
const PREFIX_BYTES: usize = 4;

/// What stands before one payload. (The members are declared in canonical order.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFrameHeader {
    /// The attempt that the stream belongs to.
    pub attempt_id: InstanceId,
    /// Whether this is the last frame of the stream (`final` on the wire).
    #[serde(rename = "final")]
    pub is_final: bool,
    /// The invocation that the stream belongs to.
    pub invocation_id: InstanceId,
    /// Length of the payload, in bytes; 0 is fine.
    #[serde(deserialize_with = "length")]
    pub length: u32,
    /// Place of the frame in its stream.
    pub sequence: SafeU64,
    /// The stream, as an observation names it.
    pub stream_id: String,
}

impl DataFrameHeader {
    /// Checks what the types do not: the payload bound and the stream id.
    ///
    /// # Errors
    ///
    /// [`DataError::PayloadTooLarge`] and [`DataError::StreamId`].
    pub fn validate(&self, max_payload_bytes: usize) -> Result<(), DataError> {
        if self.stream_id.is_empty() || self.stream_id.len() > STREAM_ID_MAX_BYTES {
            return Err(DataError::StreamId);
        }
        if self.length as usize > max_payload_bytes {
            return Err(DataError::PayloadTooLarge { bytes: self.length, limit_bytes: max_payload_bytes });
        }
        Ok(())
    }
}

fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let length = SafeU64::deserialize(deserializer)?;
    u32::try_from(length.value()).map_err(|_| serde::de::Error::custom("number out of range, expected u32"))
}

/// What is wrong with a frame of the data plane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A header of no bytes.
    #[error("data frame has an empty header")]
    HeaderEmpty,
    /// A header length over the bound.
    #[error("data frame header of {bytes} bytes is longer than {DATA_HEADER_MAX_BYTES} bytes")]
    HeaderTooLarge {
        /// The length that the frame announces.
        bytes: u32,
    },
    /// A header that is not strict JSON.
    #[error("data frame header is not strict JSON: {0}")]
    Json(#[from] JsonError),
    /// A header without the right members.
    #[error("data frame header is malformed: {0}")]
    Header(#[from] DecodeError),
    /// A header that is not in canonical form.
    #[error("data frame header is not canonical JSON")]
    NotCanonical,
    /// A header of ours that has no canonical form.
    #[error("data frame header cannot be written: {0}")]
    Canon(#[from] CanonError),
    /// A stream id that is empty or over its bound.
    #[error("stream id is empty or longer than {STREAM_ID_MAX_BYTES} bytes")]
    StreamId,
    /// A payload over the bound.
    #[error("data frame payload of {bytes} bytes is longer than {limit_bytes} bytes")]
    PayloadTooLarge {
        /// The length that the header announces.
        bytes: u32,
        /// The bound.
        limit_bytes: usize,
    },
    /// A payload of ours whose length is not that of its header.
    #[error("data frame payload has {actual_bytes} bytes, its header says {header_bytes}")]
    LengthMismatch {
        /// What the header says.
        header_bytes: u32,
        /// What is there.
        actual_bytes: usize,
    },
    /// The stream ended inside a frame.
    #[error("data stream ended inside a frame")]
    Truncated,
}

/// Appends the header length and the header of one frame to `out`; the payload is written behind it by the caller, who thus
/// need not copy it. On an error `out` is as it was.
///
/// # Errors
///
/// [`DataError`], when the header is over a bound.
pub fn encode_data_header(
    header: &DataFrameHeader,
    max_payload_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), DataError> {
    header.validate(max_payload_bytes)?;
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    let written = append_canonical(header, out).map_err(DataError::from).and_then(|()| {
        let bytes = (out.len() - start - PREFIX_BYTES) as u32;
        out[start..start + PREFIX_BYTES].copy_from_slice(&bytes.to_be_bytes());
        // An id of 256 control characters is six times as long in JSON; that still fits.
        if bytes as usize > DATA_HEADER_MAX_BYTES { Err(DataError::HeaderTooLarge { bytes }) } else { Ok(()) }
    });
    written.inspect_err(|_| out.truncate(start))
}

/// Appends one whole frame to `out`. On an error `out` is as it was.
///
/// # Errors
///
/// [`DataError`], when the header is over a bound or the payload is not as long as the header says.
pub fn encode_data_frame(
    header: &DataFrameHeader,
    payload: &[u8],
    max_payload_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), DataError> {
    if header.length as usize != payload.len() {
        return Err(DataError::LengthMismatch { header_bytes: header.length, actual_bytes: payload.len() });
    }
    encode_data_header(header, max_payload_bytes, out)?;
    out.extend_from_slice(payload);
    Ok(())
}

/// One thing that came on a data stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataEvent {
    /// A frame begins.
    Header(DataFrameHeader),
    /// The next piece of its payload, never empty. The pieces of a frame add up to the length in its header, and the last
    /// one is marked; a frame of length 0 has none.
    Payload {
        /// The bytes, a slice of what was fed.
        bytes: Bytes,
        /// Whether the frame ends here.
        end: bool,
    },
}

/// Takes a data stream apart, whatever the chunks in which it comes.
///
/// Payload bytes are handed on as slices of the chunks, without a copy. A fault ends the stream: after an error every call
/// gives that error again. The order of sequences, and what streams there may be, is for the session to judge.
#[derive(Debug)]
pub struct DataDecoder {
    max_payload_bytes: usize,
    chunks: Chunks,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Before a header, or inside one.
    Header,
    /// Inside a payload, of which this many bytes are still to come.
    Payload {
        rest: usize,
    },
    Failed(DataError),
}

impl Default for DataDecoder {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_DATA_FRAME_BYTES)
    }
}

impl DataDecoder {
    /// A decoder for frames with at most `max_payload_bytes` payload bytes.
    pub fn new(max_payload_bytes: usize) -> Self {
        Self { max_payload_bytes, chunks: Chunks::default(), state: State::Header }
    }

    /// The next bytes of the stream. Drain [`next`](Self::next) after it: chunks wait inside until then.
    pub fn feed(&mut self, chunk: Bytes) {
        if !matches!(self.state, State::Failed(_)) {
            self.chunks.push(chunk);
        }
    }

    /// What comes next, if enough bytes are there.
    ///
    /// # Errors
    ///
    /// [`DataError`], for good.
    #[expect(clippy::should_implement_trait, reason = "None is not the end: more may come with the next chunk")]
    pub fn next(&mut self) -> Result<Option<DataEvent>, DataError> {
        let event = match &mut self.state {
            State::Failed(error) => return Err(error.clone()),
            State::Payload { rest } => {
                let Some(bytes) = self.chunks.take_some(*rest) else { return Ok(None) };
                *rest -= bytes.len();
                let end = *rest == 0;
                if end {
                    self.state = State::Header;
                }
                return Ok(Some(DataEvent::Payload { bytes, end }));
            }
            State::Header => self.header(),
        };
        event.inspect_err(|error| {
            self.state = State::Failed(error.clone());
            self.chunks = Chunks::default();
        })
    }

    /// The stream has ended; [`next`](Self::next) has been drained.
    ///
    /// # Errors
    ///
    /// [`DataError::Truncated`] inside a frame, or the error that ended the stream before.
    pub fn finish(&self) -> Result<(), DataError> {
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            State::Header if self.chunks.is_empty() => Ok(()),
            State::Header | State::Payload { .. } => Err(DataError::Truncated),
        }
    }

    fn header(&mut self) -> Result<Option<DataEvent>, DataError> {
        let Some(prefix) = self.chunks.peek() else { return Ok(None) };
        let bytes = u32::from_be_bytes(prefix);
        if bytes == 0 {
            return Err(DataError::HeaderEmpty);
        }
        if bytes as usize > DATA_HEADER_MAX_BYTES {
            return Err(DataError::HeaderTooLarge { bytes });
        }
        let Some(frame) = self.chunks.take(PREFIX_BYTES + bytes as usize) else { return Ok(None) };
        let header = decode_header(&frame[PREFIX_BYTES..])?;
        header.validate(self.max_payload_bytes)?;
        if header.length > 0 {
            self.state = State::Payload { rest: header.length as usize };
        }
        Ok(Some(DataEvent::Header(header)))
    }
}

fn decode_header(bytes: &[u8]) -> Result<DataFrameHeader, DataError> {
    let limits = ScanLimits { max_bytes: DATA_HEADER_MAX_BYTES, max_depth: MAX_DEPTH };
    let text = scan(bytes, Profile::DriverRpc, limits)?;
    if !text.is_known_canonical() && canonicalize(&text)? != bytes {
        return Err(DataError::NotCanonical);
    }
    Ok(text.decode()?)
}

/// Chunks that wait, none of them empty.
#[derive(Debug, Default)]
struct Chunks {
    queue: VecDeque<Bytes>,
    bytes: usize,
}

impl Chunks {
    fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len();
            self.queue.push_back(chunk);
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The first bytes, left where they are.
    fn peek(&self) -> Option<[u8; PREFIX_BYTES]> {
        let mut bytes = self.queue.iter().flatten().copied();
        let mut prefix = [0; PREFIX_BYTES];
        for slot in &mut prefix {
            *slot = bytes.next()?;
        }
        Some(prefix)
    }

    /// The first `count` bytes, in one piece.
    fn take(&mut self, count: usize) -> Option<Bytes> {
        if self.bytes < count {
            return None;
        }
        let first = self.take_some(count)?;
        if first.len() == count {
            return Some(first);
        }
        let mut whole = BytesMut::with_capacity(count);
        whole.extend_from_slice(&first);
        while whole.len() < count {
            whole.extend_from_slice(&self.take_some(count - whole.len())?);
        }
        Some(whole.freeze())
    }

    /// The first bytes of the first chunk, at most `count`.
    fn take_some(&mut self, count: usize) -> Option<Bytes> {
        let chunk = self.queue.front_mut()?;
        let piece = chunk.split_to(count.min(chunk.len()));
        if chunk.is_empty() {
            self.queue.pop_front();
        }
        self.bytes -= piece.len();
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 16;

    fn header(length: u32, sequence: u64, is_final: bool) -> DataFrameHeader {
        let id = |random| InstanceId::new(1, [random; 16]).expect("in range");
        let sequence = SafeU64::new(sequence).expect("small");
        DataFrameHeader { attempt_id: id(1), is_final, invocation_id: id(2), length, sequence, stream_id: "s".into() }
    }

    /// The headers with their payloads, whatever the size of the chunks.
    fn decode(stream: &[u8], chunk: usize) -> Result<Vec<(DataFrameHeader, Vec<u8>)>, DataError> {
        let mut decoder = DataDecoder::new(LIMIT);
        let mut frames: Vec<(DataFrameHeader, Vec<u8>)> = Vec::new();
        for piece in stream.chunks(chunk) {
            decoder.feed(Bytes::copy_from_slice(piece));
            while let Some(event) = decoder.next()? {
                match event {
                    DataEvent::Header(header) => frames.push((header, Vec::new())),
                    DataEvent::Payload { bytes, end } => {
                        let (header, payload) = frames.last_mut().expect("a header came first");
                        payload.extend_from_slice(&bytes);
                        assert_eq!(end, payload.len() == header.length as usize);
                    }
                }
            }
        }
        decoder.finish().map(|()| frames)
    }

    #[test]
    fn frames_come_back_whatever_the_chunks() {
        let frames =
            [(header(3, 0, false), b"abc".to_vec()), (header(0, 1, false), vec![]), (header(16, 2, true), vec![9; 16])];
        let mut stream = Vec::new();
        for (header, payload) in &frames {
            encode_data_frame(header, payload, LIMIT, &mut stream).expect("within bounds");
        }
        for chunk in [1, 2, 3, 5, 7, 64, stream.len()] {
            assert_eq!(decode(&stream, chunk).as_deref(), Ok(&frames[..]), "chunks of {chunk}");
        }
        assert_eq!(decode(&stream[..stream.len() - 1], 9), Err(DataError::Truncated));
        assert_eq!(decode(&stream[..2], 9), Err(DataError::Truncated));
    }

    #[test]
    fn bounds_hold_in_both_directions() {
        let mut out = Vec::new();
        let large = DataError::PayloadTooLarge { bytes: 17, limit_bytes: LIMIT };
        assert_eq!(encode_data_header(&header(17, 0, true), LIMIT, &mut out), Err(large.clone()));
        assert_eq!(encode_data_header(&header(17, 0, true), 17, &mut out), Ok(()));
        assert_eq!(decode(&out, 9), Err(large));
        let nameless = DataFrameHeader { stream_id: String::new(), ..header(0, 0, true) };
        assert_eq!(encode_data_header(&nameless, LIMIT, &mut Vec::new()), Err(DataError::StreamId));
        let longest = DataFrameHeader { stream_id: "\u{1}".repeat(STREAM_ID_MAX_BYTES), ..header(0, 0, true) };
        assert_eq!(encode_data_header(&longest, LIMIT, &mut Vec::new()), Ok(()));
        let longer = DataFrameHeader { stream_id: "s".repeat(STREAM_ID_MAX_BYTES + 1), ..header(0, 0, true) };
        assert_eq!(encode_data_header(&longer, LIMIT, &mut Vec::new()), Err(DataError::StreamId));
        let short = DataError::LengthMismatch { header_bytes: 2, actual_bytes: 1 };
        assert_eq!(encode_data_frame(&header(2, 0, true), b"x", LIMIT, &mut Vec::new()), Err(short));
        assert_eq!(decode(&[0, 0, 0x10, 1], 4), Err(DataError::HeaderTooLarge { bytes: 4097 }));
        assert_eq!(decode(&[0; 4], 4), Err(DataError::HeaderEmpty));
    }

    #[test]
    fn a_header_is_canonical_and_strict_and_an_error_stays() {
        let mut frame = Vec::new();
        encode_data_header(&header(0, 0, true), LIMIT, &mut frame).expect("within bounds");
        let text = String::from_utf8(frame.split_off(4)).expect("JSON");
        let framed = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        assert!(decode(&framed(&text), 9).is_ok());
        assert_eq!(decode(&framed(&text.replace(':', ": ")), 9), Err(DataError::NotCanonical));
        assert!(matches!(decode(&framed(&text.replace("\"final\":true,", "")), 9), Err(DataError::Header(_))));
        assert!(matches!(decode(&framed("{"), 9), Err(DataError::Json(_))));
        let mut decoder = DataDecoder::new(LIMIT);
        decoder.feed(Bytes::from_static(&[0; 8]));
        for _ in 0..2 {
            assert_eq!(decoder.next(), Err(DataError::HeaderEmpty));
            decoder.feed(Bytes::from(framed(&text)));
        }
        assert_eq!(decoder.finish(), Err(DataError::HeaderEmpty));
    }
}
