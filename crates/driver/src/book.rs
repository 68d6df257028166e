//! The rules of companion streams, kept for one invocation.
//!
//! Per stream: sequence from 0 without gaps, one final frame, nothing after it. Bytes may arrive before or after the
//! observation that names their stream. At the end every named stream must be final and every stream named.

use std::collections::BTreeMap;

use pintle_wire::{DataError, DataFrameHeader, InstanceId, STREAM_ID_MAX_BYTES};

use crate::class::ErrorClass;

/// The bounds of one invocation's streams. Each end has its own: what leads over the driver's is not sent, and its invocation
/// goes on; what leads over Core's is a fault of the driver. So the lower ones hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams per invocation.
    pub max_streams: usize,
    /// Payload bytes per stream.
    pub max_stream_bytes: u64,
    /// Payload bytes per invocation.
    pub max_invocation_bytes: u64,
}

impl StreamLimits {
    /// The widest bounds that count: 65,536 streams, each of which costs an end up to half a KiB of memory until its invocation
    /// is over, and 1 TiB in one of them as in all.
    pub const MAX: Self = Self { max_streams: 1 << 16, max_stream_bytes: 1 << 40, max_invocation_bytes: 1 << 40 };

    /// The lower bounds of these and others.
    #[must_use]
    pub fn at_most(self, others: Self) -> Self {
        Self {
            max_streams: self.max_streams.min(others.max_streams),
            max_stream_bytes: self.max_stream_bytes.min(others.max_stream_bytes),
            max_invocation_bytes: self.max_invocation_bytes.min(others.max_invocation_bytes),
        }
    }
}

impl Default for StreamLimits {
    /// 1024 streams, 256 MiB in one and 1 GiB in all.
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

impl Stream {
    const fn is_settled(&self) -> bool {
        self.named && self.is_final
    }
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
        let limits = limits.at_most(StreamLimits::MAX);
        Self { invocation_id, attempt_id, limits, streams: BTreeMap::new(), bytes: 0, open: 0 }
    }

    /// Whether an observation may name a stream. Changes nothing.
    pub(crate) fn may_name(&self, stream_id: &str) -> Result<(), StreamFault> {
        self.known(stream_id).map(|_| ())
    }

    /// An observation names a stream. On an error the book is as before.
    pub(crate) fn name(&mut self, stream_id: &str) -> Result<(), StreamFault> {
        self.may_name(stream_id)?;
        self.change(stream_id, |stream| stream.named = true);
        Ok(())
    }

    /// A frame of a stream begins. On an error the book is as before, so that the stream can still be ended.
    pub(crate) fn frame(&mut self, header: &DataFrameHeader) -> Result<(), StreamFault> {
        if header.invocation_id != self.invocation_id || header.attempt_id != self.attempt_id {
            return Err(StreamFault::OtherInvocation);
        }
        let limits = self.limits;
        let (length, found) = (u64::from(header.length), header.sequence.value());
        let (next, before) = match self.known(&header.stream_id)? {
            Some(stream) if stream.is_final => return Err(StreamFault::AfterFinal),
            Some(stream) => (stream.next, stream.bytes),
            None => (0, 0),
        };
        if found != next {
            return Err(StreamFault::Sequence { expected: next, found });
        }
        if before.saturating_add(length) > limits.max_stream_bytes {
            return Err(StreamFault::StreamBudget { limit: limits.max_stream_bytes });
        }
        if self.bytes.saturating_add(length) > limits.max_invocation_bytes {
            return Err(StreamFault::InvocationBudget { limit: limits.max_invocation_bytes });
        }
        self.bytes += length;
        self.change(&header.stream_id, |stream| {
            stream.next += 1;
            stream.bytes += length;
            stream.is_final = header.is_final;
        });
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
        let stream = self.streams.values().find(|stream| !stream.is_settled())?;
        Some(if stream.named { StreamFault::NotFinal } else { StreamFault::NotNamed })
    }

    /// The stream of this id; `None` for a new one that there is room for.
    fn known(&self, stream_id: &str) -> Result<Option<&Stream>, StreamFault> {
        if stream_id.is_empty() || stream_id.len() > STREAM_ID_MAX_BYTES {
            return Err(StreamFault::StreamId);
        }
        let known = self.streams.get(stream_id);
        if known.is_none() && self.streams.len() >= self.limits.max_streams {
            return Err(StreamFault::TooManyStreams { limit: self.limits.max_streams });
        }
        Ok(known)
    }

    /// Changes a stream, which begins with its first change.
    fn change(&mut self, stream_id: &str, change: impl FnOnce(&mut Stream)) {
        let Some(stream) = self.streams.get_mut(stream_id) else {
            let mut stream = Stream::default();
            change(&mut stream);
            self.open += usize::from(!stream.is_settled());
            self.streams.insert(stream_id.into(), stream);
            return;
        };
        let was_settled = stream.is_settled();
        change(stream);
        self.open -= usize::from(!was_settled && stream.is_settled());
    }
}
