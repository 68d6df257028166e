//! A turn, as a client sees it: its updates in order, then its answer.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_acp::RawJson;
use pintle_acp::types::{PromptResponse, SessionNotification, decode, decode_update};
use tokio::sync::Notify;

use super::connection::{RequestError, result};
use super::link::{Link, Parcel};

/// What an update costs beside its frame.
const ITEM_BYTES: usize = 64;

/// A turn did not come to a good end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The prompt was not answered with a result.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The turn ended well, but not all of its updates could be kept (D2).
    #[error("{delivered} of {expected} updates of the turn were delivered")]
    DeliveryGap {
        /// Updates that were delivered.
        delivered: u64,
        /// Updates that were received.
        expected: u64,
    },
    /// The turn had more updates than were to be collected.
    #[error("the turn had more than {limit} updates")]
    TooManyUpdates {
        /// The bound.
        limit: usize,
    },
}

/// A turn that was collected.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CollectedTurn {
    /// Its updates, in the order of the wire.
    pub updates: Vec<SessionNotification>,
    /// The answer to its prompt.
    pub response: PromptResponse,
}

/// The updates of one turn, in the order of the wire, and then its answer.
///
/// Nothing is accumulated: while updates are not taken, the connection reads no further than a bounded queue. Dropping the
/// stream before its end cancels the turn.
pub struct TurnStream {
    link: Arc<Link>,
    sink: Arc<Sink>,
    session: Arc<str>,
    delivered: u64,
    ended: bool,
}

impl TurnStream {
    pub(crate) fn new(link: Arc<Link>, sink: Arc<Sink>, session: Arc<str>) -> Self {
        Self { link, sink, session, delivered: 0, ended: false }
    }

    /// The next update; `None` once the turn has been answered and every update taken.
    ///
    /// An update that cannot be read is passed over and counted.
    ///
    /// Cancel safe: an update that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<SessionNotification> {
        loop {
            let params = self.next_raw().await?;
            match decode_update(params.as_str(), &self.session) {
                Ok(notification) => return Some(notification),
                Err(_) => self.link.lock().end.count_dropped_notification(),
            }
        }
    }

    /// Like [`TurnStream::next`], not decoded.
    pub async fn next_raw(&mut self) -> Option<RawJson> {
        loop {
            let ready = self.sink.ready.notified();
            match self.sink.pop() {
                Popped::Update(params) => {
                    self.link.inbox_sub(ITEM_BYTES + params.as_bytes().len());
                    self.delivered += 1;
                    return Some(params);
                }
                Popped::Ended => return None,
                Popped::Nothing => {}
            }
            ready.await;
        }
    }

    /// Passes over the updates that are left and returns the answer to the prompt.
    ///
    /// # Errors
    /// The prompt was not answered with a result, or updates were lost on the way for want of room.
    pub async fn finish(mut self) -> Result<PromptResponse, PromptError> {
        while self.next_raw().await.is_some() {}
        self.ended = true;
        let end = self.sink.lock().end.take();
        let (parcel, expected) = end.unwrap_or_else(|| (Parcel::closed(), 0));
        let response = result(parcel)?;
        if self.delivered < expected {
            return Err(PromptError::DeliveryGap { delivered: self.delivered, expected });
        }
        Ok(decode(response.as_str()).map_err(RequestError::Result)?)
    }

    /// Cancels the turn; it ends with the agent's answer, which is to be awaited as before. Permission requests of the
    /// session that are open are answered "cancelled".
    pub fn cancel(&self) {
        cancel_turn(&self.link, &self.session);
    }

    /// Updates that were taken so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("delivered", &self.delivered).finish_non_exhaustive()
    }
}

impl Drop for TurnStream {
    fn drop(&mut self) {
        let freed = self.sink.abandon();
        self.link.inbox_sub(freed);
        if !self.ended && !self.sink.has_ended() {
            self.cancel();
        }
    }
}

pub(crate) fn cancel_turn(link: &Link, session: &str) {
    // A closed connection has no turn to cancel.
    link.command(|state| {
        let _ = state.end.client().and_then(|client| client.cancel_turn(session));
    });
}

/// Where the loop puts the updates of one prompt.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    state: Mutex<SinkState>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct SinkState {
    queue: VecDeque<RawJson>,
    end: Option<(Parcel, u64)>,
    abandoned: bool,
}

enum Popped {
    Update(RawJson),
    Ended,
    Nothing,
}

impl Sink {
    /// The next update. Updates come from one loop in the order of their ordinals, which is thereby the order here.
    pub(crate) fn push(&self, link: &Link, params: RawJson) {
        let mut state = self.lock();
        if !state.abandoned {
            link.inbox_add(ITEM_BYTES + params.as_bytes().len());
            state.queue.push_back(params);
            drop(state);
            self.ready.notify_one();
        }
    }

    /// The prompt was answered; `updates` were raised for it.
    pub(crate) fn end(&self, parcel: Parcel, updates: u64) {
        self.lock().end = Some((parcel, updates));
        self.ready.notify_one();
    }

    fn pop(&self) -> Popped {
        let mut state = self.lock();
        match state.queue.pop_front() {
            Some(params) => Popped::Update(params),
            None if state.end.is_some() => Popped::Ended,
            None => Popped::Nothing,
        }
    }

    fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Nobody takes updates any more; returns the bytes of those that were waiting.
    fn abandon(&self) -> usize {
        let mut state = self.lock();
        state.abandoned = true;
        state.queue.drain(..).map(|params| ITEM_BYTES + params.as_bytes().len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
