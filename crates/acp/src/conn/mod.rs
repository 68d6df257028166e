//! The two ends of a connection, as values.
//!
//! [`AgentEnd`] and [`ClientEnd`] take bytes and the time, and give back bytes, events and the next deadline. They start
//! no task, own no socket and read no clock, so every race of a session can be written down as a list of calls.
//!
//! ```text
//! feed(now, bytes) / eof(now)      bytes arrived, or no more will
//! poll_event() -> Option<Event>    what the application must see
//! poll_output() -> Option<Output>  bytes to write, or the end of writing
//! poll_timeout() -> Option<Instant>
//! handle_timeout(now)
//! ```
//!
//! After any call: drain [`poll_output`](AgentEnd::poll_output), then [`poll_event`](AgentEnd::poll_event), then look at
//! [`poll_timeout`](AgentEnd::poll_timeout). What has been written is reported with [`wrote`](AgentEnd::wrote): until then
//! it counts against the bound on unsent bytes. Feed chunks of a bounded size: all events of a chunk are kept until they
//! are taken.
//!
//! # Order
//! Everything is decided in the order of the wire. A frame gets its receive number ([`RxSeq`](crate::RxSeq)) where it is
//! read; a prompt occupies its session at that point, so a `session/cancel` behind it finds it, however late the prompt's
//! task starts. Frames leave in the order in which they were handed over: updates before the answer that follows them.
//!
//! # Exactly once
//! Each request of the peer that is accepted is answered once: its [`ReplyToken`] or [`TurnToken`] has to be given back,
//! and dropping it answers -32603. Each request of ours that is accepted comes back once, with its waiter: as a result, an
//! error, a timeout, or "closed"; never after the owner cancelled it.

mod agent;
mod both;
mod caps;
mod client;
mod config;
mod core;
mod counters;
mod encode;
mod inbound;
mod inflight;
mod raw;
mod usual;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

pub use agent::{AgentEnd, AgentEvent, UpdateError};
pub use client::{ClientEnd, ClientEvent, Delivery};
pub use config::{Config, timeouts};
pub use counters::{CounterClass, Counters};
pub use encode::{Call, EncodeError, Reply};
pub use inflight::{ReplyToken, RequestKey, TurnToken};
pub use raw::RawJson;
pub use usual::TextUpdate;

use crate::Error;
use crate::session::RxSeq;

/// The wire id of one of our requests. Counts from 1 (R-050).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutId(i64);

impl OutId {
    pub(crate) fn new(id: i64) -> Self {
        Self(id)
    }

    /// The id as it stands in the frame.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for OutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// How one of our requests ended. Exactly one of these comes per accepted request, unless its owner cancelled it (Inv-1).
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The peer's result, not decoded yet.
    Result(RawJson),
    /// The peer's error.
    Error(Error),
    /// No answer came in time. The peer has been told that nobody waits any more.
    TimedOut,
    /// The turn in which it was asked was cancelled. The peer has been told.
    TurnCancelled,
    /// The connection closed first.
    Closed,
}

/// What to do with the outgoing direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write these bytes, which end with a whole frame or continue one that was begun.
    Bytes(Bytes),
    /// Everything has been handed over: end the outgoing direction.
    Close,
}

/// A frame was not accepted for sending. Nothing left, and no outcome will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The handshake is not done.
    #[error("not initialized")]
    NotInitialized,
    /// `initialize` was sent before.
    #[error("already initialized")]
    AlreadyInitialized,
    /// The connection is closed or closing.
    #[error("connection closed")]
    Closed,
    /// The peer did not advertise the capability that the method needs.
    #[error("the peer did not advertise this method")]
    NotAdvertised,
    /// Too much waits to be written; try again when the peer has read some of it.
    #[error("more than {limit_bytes} bytes wait to be written")]
    Full {
        /// The bound that was reached.
        limit_bytes: usize,
    },
    /// Too many sessions are open.
    #[error("more than {limit} sessions are open")]
    TooManySessions {
        /// The bound that was reached.
        limit: usize,
    },
    /// Too many requests of ours are unanswered.
    #[error("more than {limit} requests are unanswered")]
    TooManyRequests {
        /// The bound that was reached.
        limit: usize,
    },
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// We closed it.
    Locally,
    /// The peer ended its stream.
    ByPeer,
    /// The carrier failed.
    Lost,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locally => "closed here",
            Self::ByPeer => "closed by the peer",
            Self::Lost => "connection lost",
        })
    }
}

/// A request of the peer that passed every gate.
#[derive(Debug)]
pub struct PeerRequest {
    /// The obligation to answer.
    pub token: ReplyToken,
    /// The method as it came; an extension method begins with `_`.
    pub method: Cow<'static, str>,
    /// The params, not decoded; `None` if the frame had none.
    pub params: Option<RawJson>,
    /// Position among all received frames.
    pub rx: RxSeq,
}

/// A notification of the peer.
#[derive(Debug)]
pub struct PeerNotification {
    /// The method as it came; an extension method begins with `_`.
    pub method: Cow<'static, str>,
    /// The params, not decoded; `None` if the frame had none.
    pub params: Option<RawJson>,
    /// Position among all received frames.
    pub rx: RxSeq,
}
