//! The rules of companion streams, kept for one invocation.
//!
//! Per stream: sequence from 0 without gaps, one final frame, nothing after it. Bytes may arrive before or after the
//! observation that names their stream. At the end every named stream must be final and every stream named.

use std::collections::BTreeMap;

use pintle_wire::{DataError, DataFrameHeader, InstanceId, STREAM_ID_MAX_BYTES};

use crate::class::ErrorClass;

/// The bounds of one invocation's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams per invocation.
    pub max_streams: usize,
    /// Payload bytes per stream.
    pub max_stream_bytes: u64,
    /// Payload bytes per invocation.
    pub max_invocation_bytes: u64,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { max_streams: 1024, max_stream_bytes: 256 << 20, max_invocation_bytes: 1 << 30 }
    }
}

/// A break of the data plane's rules. It ends the invocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFault {
    /// The framing of the data plane is broken.
    #[error("{0}")]
    Frame(#[from] DataError),
    /// A stream id that is empty or over its bound.
    #[error("stream id is empty or longer than {STREAM_ID_MAX_BYTES} bytes")]
    StreamId,
    /// More streams than the limit.
    #[error("more than {limit} streams in one invocation")]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// A frame while no invocation is active.
    #[error("data frame outside of an invocation")]
    NoInvocation,
    /// A frame of another invocation or attempt.
    #[error("data frame names another invocation or attempt than the active one")]
    OtherInvocation,
    /// A sequence that leaves a gap or goes back.
    #[error("data frame has sequence {found}, {expected} was next")]
    Sequence {
        /// The next sequence of the stream.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// A frame after the final one.
    #[error("data frame after the final one of its stream")]
    AfterFinal,
    /// More bytes in one stream than the limit.
    #[error("stream is longer than {limit} bytes")]
    StreamBudget {
        /// The limit.
        limit: u64,
    },
    /// More bytes in all streams than the limit.
    #[error("streams of the invocation are longer than {limit} bytes together")]
    InvocationBudget {
        /// The limit.
        limit: u64,
    },
    /// A named stream without its final frame at the end.
    #[error("stream was named and had no final frame at the end of the invocation")]
    NotFinal,
    /// A stream that no observation named.
    #[error("stream had data and no observation named it")]
    NotNamed,
}

impl StreamFault {
    /// `budget_exceeded` for the limits, `malformed_observation` for the rest.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::TooManyStreams { .. }
            | Self::StreamBudget { .. }
            | Self::InvocationBudget { .. }
            | Self::Frame(DataError::PayloadTooLarge { .. }) => ErrorClass::BudgetExceeded,
            _ => ErrorClass::MalformedObservation,
        }
    }
}

#[derive(Debug, Default)]
struct Stream {
    next: u64,
    bytes: u64,
    named: bool,
    is_final: bool,
}

/// The streams of one invocation.
#[derive(Debug)]
pub(crate) struct StreamBook {
    invocation_id: InstanceId,
    attempt_id: InstanceId,
    limits: StreamLimits,
    streams: BTreeMap<Box<str>, Stream>,
    bytes: u64,
    /// Streams that are not both named and final.
    open: usize,
}

impl StreamBook {
    pub(crate) fn new(invocation_id: InstanceId, attempt_id: InstanceId, limits: StreamLimits) -> Self {
        Self { invocation_id, attempt_id, limits, streams: BTreeMap::new(), bytes: 0, open: 0 }
    }

    /// An observation names a stream.
    pub(crate) fn name(&mut self, stream_id: &str) -> Result<(), StreamFault> {
        let stream = self.stream(stream_id)?;
        let closes = stream.is_final && !stream.named;
        stream.named = true;
        self.open -= usize::from(closes);
        Ok(())
    }

    /// A frame of a stream begins.
    pub(crate) fn frame(&mut self, header: &DataFrameHeader) -> Result<(), StreamFault> {
        if header.invocation_id != self.invocation_id || header.attempt_id != self.attempt_id {
            return Err(StreamFault::OtherInvocation);
        }
        let limits = self.limits;
        let (length, found) = (u64::from(header.length), header.sequence.value());
        let stream = self.stream(&header.stream_id)?;
        if stream.is_final {
            return Err(StreamFault::AfterFinal);
        }
        if found != stream.next {
            return Err(StreamFault::Sequence { expected: stream.next, found });
        }
        stream.next += 1;
        stream.bytes += length;
        stream.is_final = header.is_final;
        let closes = stream.is_final && stream.named;
        if stream.bytes > limits.max_stream_bytes {
            return Err(StreamFault::StreamBudget { limit: limits.max_stream_bytes });
        }
        self.open -= usize::from(closes);
        self.bytes += length;
        if self.bytes > limits.max_invocation_bytes {
            return Err(StreamFault::InvocationBudget { limit: limits.max_invocation_bytes });
        }
        Ok(())
    }

    /// The sequence of a stream's next frame.
    pub(crate) fn next_sequence(&self, stream_id: &str) -> u64 {
        self.streams.get(stream_id).map_or(0, |stream| stream.next)
    }

    /// The streams that were named and have no final frame.
    pub(crate) fn named_and_open(&self) -> Vec<Box<str>> {
        self.streams.iter().filter(|(_, stream)| stream.named && !stream.is_final).map(|(id, _)| id.clone()).collect()
    }

    /// Whether every stream is named and final.
    pub(crate) const fn is_settled(&self) -> bool {
        self.open == 0
    }

    /// What keeps the streams from being settled.
    pub(crate) fn unsettled(&self) -> Option<StreamFault> {
        let stream = self.streams.values().find(|stream| !(stream.named && stream.is_final))?;
        Some(if stream.named { StreamFault::NotFinal } else { StreamFault::NotNamed })
    }

    fn stream(&mut self, stream_id: &str) -> Result<&mut Stream, StreamFault> {
        if stream_id.is_empty() || stream_id.len() > STREAM_ID_MAX_BYTES {
            return Err(StreamFault::StreamId);
        }
        if !self.streams.contains_key(stream_id) {
            if self.streams.len() >= self.limits.max_streams {
                return Err(StreamFault::TooManyStreams { limit: self.limits.max_streams });
            }
            self.open += 1;
        }
        Ok(self.streams.entry(stream_id.into()).or_default())
    }
}
