//! How children end, and why one did not start.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acp::Closed;

/// How a child, or a whole supervisor, ended. For good: a child that is about to be started again has not ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Ended {
    /// It was done.
    Done,
    /// Its connection is over, which no one here had asked for.
    Connection(Closed),
    /// It returned an error, or its transport failed.
    Failed(Arc<dyn Error + Send + Sync>),
    /// It panicked. What it said went to the panic hook.
    Panicked,
    /// It was asked to end, and did in time.
    Stopped,
    /// It was dropped: with its supervisor, or because it did not end in time.
    Killed,
    /// A child that mattered ended, and everything else was stopped for it ([`ChildSpec::significant`]).
    ///
    /// [`ChildSpec::significant`]: super::ChildSpec::significant
    SignificantChild {
        /// The child.
        id: Arc<str>,
        /// How it had ended.
        end: Box<Self>,
    },
    /// Children failed too often ([`Limits::max_restarts`](super::Limits::max_restarts)), and everything was stopped.
    GaveUp {
        /// The child that failed last.
        id: Arc<str>,
        /// How it had ended.
        end: Box<Self>,
        /// Restarts that were allowed.
        max_restarts: u32,
        /// In how long a time.
        period: Duration,
    },
}

impl Ended {
    /// Whether this is an end as it should be: done, stopped as asked, or a peer that closed its end.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match self {
            Self::Done | Self::Stopped | Self::Connection(Closed::Locally | Closed::ByPeer) => true,
            Self::SignificantChild { end, .. } => end.is_good(),
            _ => false,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Connection(closed) => closed.fmt(f),
            Self::Failed(error) => {
                write!(f, "failed to {error}")?;
                let mut below = error.source();
                while let Some(source) = below {
                    write!(f, ": {source}")?;
                    below = source.source();
                }
                Ok(())
            }
            Self::Panicked => f.write_str("panicked"),
            Self::Stopped => f.write_str("stopped"),
            Self::Killed => f.write_str("killed"),
            Self::SignificantChild { id, end } => write!(f, "stopped with its child `{id}`, which ended: {end}"),
            Self::GaveUp { id, end, max_restarts, period } => write!(
                f,
                "gave up after {max_restarts} restarts within {} s; its child `{id}` ended: {end}",
                period.as_secs()
            ),
        }
    }
}

/// Why a child was not started.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another child of this supervisor has its id.
    #[error("start the child `{id}`: another child has this id")]
    IdTaken {
        /// The id.
        id: Arc<str>,
    },
    /// Another child below the outermost supervisor has its name.
    #[error("start the child `{id}`: the name `{name}` is taken")]
    NameTaken {
        /// The child.
        id: Arc<str>,
        /// The name.
        name: Arc<str>,
    },
    /// The supervisor has as many children as it may have.
    #[error("start the child `{id}`: {limit} children are the most that this supervisor may have")]
    Full {
        /// The child.
        id: Arc<str>,
        /// The bound.
        limit: usize,
    },
    /// It ended while it started: its transport did not open, or its agent refused.
    #[error("start the child `{id}`: {ended}")]
    Ended {
        /// The child.
        id: Arc<str>,
        /// How it ended.
        ended: Ended,
    },
    /// It was not up in time, and was dropped.
    #[error("start the child `{id}`: not up within {limit_ms} ms")]
    TimedOut {
        /// The child.
        id: Arc<str>,
        /// The bound.
        limit_ms: u64,
    },
    /// The supervisor has ended, or is about to.
    #[error("start the child `{id}`: its supervisor ends")]
    SupervisorEnded {
        /// The child.
        id: Arc<str>,
    },
}

/// There is no such child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find the child `{id}`: there is none with this id")]
pub struct NoSuchChild {
    /// The id.
    pub id: Arc<str>,
}

/// What happens below a supervisor.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A child is up, for the first time or again.
    Started {
        /// The child: the ids on the way to it from the outermost supervisor, with `/` between them.
        path: Arc<str>,
        /// How often it has been started again before.
        restarts: u32,
    },
    /// A child ended and will be started again.
    Restarting {
        /// The child: the ids on the way to it from the outermost supervisor, with `/` between them.
        path: Arc<str>,
        /// How it ended.
        ended: Ended,
        /// How long it waits before.
        after: Duration,
    },
    /// A child ended for good.
    Ended {
        /// The child: the ids on the way to it from the outermost supervisor, with `/` between them.
        path: Arc<str>,
        /// How.
        ended: Ended,
    },
    /// Events that came faster than they were taken, and are lost.
    Missed {
        /// How many.
        count: u64,
    },
}
