//! Lanes: what happens on one session happens in the order of the wire; sessions do not wait for each other.
//!
//! A lane starts the handlers of its requests in order and waits for none of them: a handler that is not done at its first
//! await goes on as a task of its own. Handlers of notifications are waited for, one after the other.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use pintle_acp::{Outcome, PeerNotification, PeerRequest, RawJson, RequestKey, RxSeq, TurnToken};
use tokio_util::sync::CancellationToken;

use super::link::{Link, Waiter};
use super::service::{self, Service};
use super::turn::{Turn, TurnControl};

/// Lanes kept for sessions on which nothing happens.
const IDLE_LANES: usize = 256;
/// What an item costs beside its frame.
const ITEM_BYTES: usize = 128;

/// Something that has its place in the order of a lane.
pub(crate) enum Work {
    Request {
        request: PeerRequest,
        session: Option<Arc<str>>,
        stop: CancellationToken,
    },
    Prompt {
        token: TurnToken,
        key: RequestKey,
        session: Arc<str>,
        params: RawJson,
        rx: RxSeq,
        control: Arc<TurnControl>,
    },
    Notification {
        notification: PeerNotification,
    },
    Update {
        session: Arc<str>,
        params: RawJson,
    },
    Outcome {
        waiter: Waiter,
        outcome: Outcome,
    },
}

impl Work {
    fn bytes(&self) -> usize {
        let params = match self {
            Self::Request { request, .. } => request.params.as_ref(),
            Self::Notification { notification } => notification.params.as_ref(),
            Self::Prompt { params, .. } | Self::Update { params, .. } => Some(params),
            Self::Outcome { outcome: Outcome::Result(result), .. } => Some(result),
            Self::Outcome { .. } => None,
        };
        ITEM_BYTES + params.map_or(0, |params| params.as_bytes().len())
    }
}

/// The lanes of one connection.
pub(crate) struct Lanes {
    link: Arc<Link>,
    service: Arc<dyn Service>,
    connection: Arc<Lane>,
    sessions: HashMap<Arc<str>, Arc<Lane>>,
    /// Lanes that got work and have no worker yet.
    waiting: Vec<Arc<Lane>>,
}

#[derive(Default)]
struct Lane {
    state: Mutex<LaneState>,
}

#[derive(Default)]
struct LaneState {
    work: VecDeque<Work>,
    has_worker: bool,
}

impl Lanes {
    pub(crate) fn new(link: Arc<Link>, service: Arc<dyn Service>) -> Self {
        Self { link, service, connection: Arc::default(), sessions: HashMap::new(), waiting: Vec::new() }
    }

    /// Puts work at the end of a session's lane, or of the connection's.
    pub(crate) fn push(&mut self, session: Option<Arc<str>>, work: Work) {
        let lane = match session {
            None => &self.connection,
            Some(session) => {
                if self.sessions.len() >= IDLE_LANES && !self.sessions.contains_key(&session) {
                    self.sessions.retain(|_, lane| !lane.is_idle());
                }
                self.sessions.entry(session).or_default()
            }
        };
        self.link.inbox_add(work.bytes());
        let mut state = lane.lock();
        state.work.push_back(work);
        if !std::mem::replace(&mut state.has_worker, true) {
            drop(state);
            self.waiting.push(lane.clone());
        }
    }

    /// Gives every lane with work a worker. Called once per batch, so that a worker finds all of it.
    pub(crate) fn start(&mut self) {
        for lane in self.waiting.drain(..) {
            self.link.tasks.spawn(run(lane, self.link.clone(), self.service.clone()));
        }
    }

    /// The session is gone; what its lane still has is done.
    pub(crate) fn forget(&mut self, session: &str) {
        self.sessions.remove(session);
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        !self.lock().has_worker
    }

    /// The next item. Without one, the lane has no worker any more.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        let work = state.work.pop_front();
        state.has_worker = work.is_some();
        work
    }
}

async fn run(lane: Arc<Lane>, link: Arc<Link>, service: Arc<dyn Service>) {
    while let Some(work) = lane.next() {
        link.inbox_sub(work.bytes());
        match work {
            Work::Request { request, session, stop } => {
                start(&link, service::request(link.clone(), service.clone(), request, session, stop)).await;
            }
            Work::Prompt { token, key, session, params, rx, control } => {
                let turn = Turn::new(link.clone(), token.turn(), key, session, rx, control);
                start(&link, service::prompt(link.clone(), service.clone(), token, params, turn)).await;
            }
            Work::Notification { notification } => {
                until_aborted(&link, service::notification(&link, &*service, notification)).await;
            }
            Work::Update { session, params } => {
                until_aborted(&link, service::update(&link, &*service, session, params)).await;
            }
            Work::Outcome { waiter, outcome } => waiter.deliver(outcome, 0),
        }
    }
}

/// Runs `task` up to its first wait here, in the lane's order, and the rest of it as a task of its own.
async fn start<F>(link: &Link, task: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut task = Box::pin(task);
    if poll_once(task.as_mut()).await.is_pending() {
        link.tasks.spawn(task);
    }
}

async fn poll_once<F: Future + ?Sized>(mut task: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx))).await
}

/// What was received before a connection closed is still handled after it, as long as the connection has an owner.
async fn until_aborted(link: &Link, task: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = link.abort.cancelled() => {}
        () = task => {}
    }
}

/// A handler panicked. What it said went to the panic hook, and nowhere near the peer (Inv-16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `task`; a panic in it is a value.
pub(crate) async fn catch_panic<F: Future>(task: F) -> Result<F::Output, Panicked> {
    let mut task = pin!(task);
    std::future::poll_fn(|cx| match std::panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
