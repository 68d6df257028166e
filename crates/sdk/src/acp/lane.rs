//! Lanes: what happens on one session happens in the order of the wire; sessions do not wait for each other.
//!
//! A lane starts the handlers of its requests in order and waits for none of them: a handler that is not done at its first
//! await goes on as a task of its own. Handlers of notifications are waited for, one after the other.
//!
//! On a runtime of one thread a request that comes alone is begun by the loop itself: its answer leaves in the same turn.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use pintle_acp::{Outcome, PeerNotification, PeerRequest, RawJson, RequestKey, RxSeq, TurnToken};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

use super::link::{Link, Waiter};
use super::service::{self, BoxFuture, Service};
use super::turn::{Turn, TurnControl};

/// Lanes that share a task while none of their handlers waits: with many sessions a batch has an item or two for each.
const LANES_PER_TASK: usize = 16;
/// Lanes kept for sessions on which nothing happens.
const IDLE_LANES: usize = 256;
/// What an item costs beside its frame.
const ITEM_BYTES: usize = 128;
/// An empty queue with room for more than so many items gives it back: a burst is no reason to keep memory.
const KEPT_ITEMS: usize = 1024;
/// Updates that were taken are counted off in steps of so many bytes.
const TELL_BYTES: usize = 8 * 1024;

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
        rx: RxSeq,
    },
    Outcome {
        waiter: Waiter,
        outcome: Outcome,
    },
    SessionEnded {
        session: Arc<str>,
    },
}

impl Work {
    fn bytes(&self) -> usize {
        let params = match self {
            Self::Request { request, .. } => request.params.as_ref(),
            Self::Notification { notification } => notification.params.as_ref(),
            Self::Prompt { params, .. } | Self::Update { params, .. } => Some(params),
            Self::Outcome { outcome: Outcome::Result(result), .. } => Some(result),
            Self::Outcome { .. } | Self::SessionEnded { .. } => None,
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
    /// With so many of them, those on which nothing happens are given up before there is one more.
    most_lanes: usize,
    /// Work that came one after the other for the same lane, and is not in it yet.
    batch: Option<Batch>,
    /// An empty queue that has been used: its room is used again.
    spare: VecDeque<Work>,
    /// Lanes that got work and have no worker yet.
    waiting: Vec<Arc<Lane>>,
}

struct Batch {
    session: Option<Arc<str>>,
    lane: Arc<Lane>,
    work: VecDeque<Work>,
    bytes: usize,
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
        Self {
            link,
            service,
            connection: Arc::default(),
            sessions: HashMap::new(),
            most_lanes: IDLE_LANES,
            batch: None,
            spare: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// Puts work at the end of a session's lane, or of the connection's.
    pub(crate) fn push(&mut self, session: Option<Arc<str>>, work: Work) {
        let bytes = work.bytes();
        match &mut self.batch {
            Some(batch) if is_same(batch.session.as_ref(), session.as_ref()) => {
                batch.bytes += bytes;
                batch.work.push_back(work);
            }
            _ => {
                self.hand_over();
                let lane = self.lane(session.as_ref());
                let mut batch = Batch { session, lane, work: std::mem::take(&mut self.spare), bytes };
                batch.work.push_back(work);
                self.batch = Some(batch);
            }
        }
    }

    fn lane(&mut self, session: Option<&Arc<str>>) -> Arc<Lane> {
        let Some(session) = session else { return self.connection.clone() };
        if let Some(lane) = self.sessions.get(session) {
            return lane.clone();
        }
        if self.sessions.len() >= self.most_lanes {
            self.sessions.retain(|_, lane| !lane.is_idle());
            // Where many are in use they are not looked through again for each that comes.
            self.most_lanes = (2 * self.sessions.len()).max(IDLE_LANES);
        }
        self.sessions.entry(session.clone()).or_default().clone()
    }

    fn hand_over(&mut self) {
        let Some(Batch { lane, mut work, bytes, .. }) = self.batch.take() else { return };
        self.link.inbox_add(bytes);
        let mut state = lane.lock();
        if state.work.is_empty() {
            std::mem::swap(&mut state.work, &mut work);
        } else {
            state.work.append(&mut work);
        }
        if work.capacity() <= KEPT_ITEMS {
            self.spare = work;
        }
        if !std::mem::replace(&mut state.has_worker, true) {
            drop(state);
            self.waiting.push(lane);
        }
    }

    /// Gives every lane with work a worker. Called once per batch, so that a worker finds all of it.
    pub(crate) fn start(&mut self, cx: &mut Context<'_>) {
        if let Some(work) = self.take_lone() {
            return self.begin(work, cx);
        }
        self.hand_over();
        if self.waiting.len() <= LANES_PER_TASK {
            for lane in self.waiting.drain(..) {
                let (link, service) = (self.link.clone(), self.service.clone());
                self.link.tasks.spawn(async move { run(lane, &link, &service).await });
            }
            return;
        }
        while !self.waiting.is_empty() {
            let rest = self.waiting.split_off(LANES_PER_TASK.min(self.waiting.len()));
            let lanes = std::mem::replace(&mut self.waiting, rest);
            self.link.tasks.spawn(run_some(lanes, self.link.clone(), self.service.clone()));
        }
    }

    /// A request that came alone, on a lane where nothing happens, where its handler may begin at once.
    ///
    /// That is on a runtime of one thread, where the loop stands still while any handler is polled, whoever polls it. On
    /// several threads it goes its way, so a handler that computes for long holds up only its lane.
    fn take_lone(&mut self) -> Option<Work> {
        let batch = self.batch.as_mut()?;
        let is_lone = self.waiting.is_empty()
            && batch.work.len() == 1
            && matches!(batch.work.front(), Some(Work::Request { .. } | Work::Prompt { .. }))
            && batch.lane.is_idle()
            && runs_on_one_thread();
        if !is_lone {
            return None;
        }
        let Batch { mut work, .. } = self.batch.take()?;
        let lone = work.pop_front();
        self.spare = work;
        lone
    }

    /// Polls the handler of a lone request once, in the loop; what is not done then goes on as a task of its own.
    fn begin(&self, work: Work, cx: &mut Context<'_>) {
        let (link, service) = (self.link.clone(), self.service.clone());
        match work {
            Work::Request { request, session, stop } => {
                self.begin_task(service::request(link, service, request, session, stop), cx);
            }
            Work::Prompt { token, key, session, params, rx, control } => {
                let turn = Turn::new(link.clone(), token.turn(), key, session, rx, control);
                self.begin_task(service::prompt(link, service, token, params, turn), cx);
            }
            // Not taken as lone ones.
            Work::Notification { .. } | Work::Update { .. } | Work::Outcome { .. } | Work::SessionEnded { .. } => {}
        }
    }

    fn begin_task(&self, task: impl Future<Output = ()> + Send + 'static, cx: &mut Context<'_>) {
        let mut task = Box::pin(task);
        // What a handler does is contained already; what its values do when they are dropped must not end the loop either.
        if let Ok(Poll::Pending) = std::panic::catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
            self.link.tasks.spawn(task);
        }
    }

    /// The session is gone; what its lane still has is done.
    pub(crate) fn forget(&mut self, session: &str) {
        self.hand_over();
        self.sessions.remove(session);
    }
}

fn runs_on_one_thread() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

fn is_same(left: Option<&Arc<str>>, right: Option<&Arc<str>>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => Arc::ptr_eq(left, right) || left == right,
        _ => false,
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        !self.lock().has_worker
    }

    /// Takes all the work there is into `batch`, which is empty. Without any, the lane has no worker any more.
    fn take(&self, batch: &mut VecDeque<Work>) -> bool {
        if batch.capacity() > KEPT_ITEMS {
            *batch = VecDeque::new();
        }
        let mut state = self.lock();
        std::mem::swap(&mut state.work, batch);
        state.has_worker = !batch.is_empty();
        state.has_worker
    }
}

/// Updates of one session that stand one behind the other in its lane.
pub(crate) struct Updates<'a> {
    pub(crate) link: &'a Arc<Link>,
    batch: &'a mut VecDeque<Work>,
    /// Bytes of updates that were taken and still count as waiting.
    taken_bytes: usize,
}

impl Updates<'_> {
    /// The next of them.
    pub(crate) fn next(&mut self) -> Option<(Arc<str>, RawJson, RxSeq)> {
        if !matches!(self.batch.front(), Some(Work::Update { .. })) {
            return None;
        }
        let work = self.batch.pop_front()?;
        self.taken_bytes += work.bytes();
        if self.taken_bytes >= TELL_BYTES {
            self.link.inbox_sub(std::mem::take(&mut self.taken_bytes));
        }
        match work {
            Work::Update { session, params, rx } => Some((session, params, rx)),
            _ => None,
        }
    }
}

impl Drop for Updates<'_> {
    fn drop(&mut self) {
        self.link.inbox_sub(self.taken_bytes);
    }
}

/// Works on several lanes, of which most have little to do. When a handler waits in one of them, those behind it go on as a
/// task of their own.
fn run_some(lanes: Vec<Arc<Lane>>, link: Arc<Link>, service: Arc<dyn Service>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut lanes = lanes.into_iter();
        while let Some(lane) = lanes.next() {
            let mut work = pin!(run(lane, &link, &service));
            std::future::poll_fn(|cx| {
                let poll = work.as_mut().poll(cx);
                if poll.is_pending() && lanes.len() > 0 {
                    link.tasks.spawn(run_some(lanes.by_ref().collect(), link.clone(), service.clone()));
                }
                poll
            })
            .await;
        }
    })
}

async fn run(lane: Arc<Lane>, link: &Arc<Link>, service: &Arc<dyn Service>) {
    let mut batch = VecDeque::new();
    while lane.take(&mut batch) {
        while let Some(next) = batch.front() {
            if matches!(next, Work::Update { .. }) {
                let updates = Updates { link, batch: &mut batch, taken_bytes: 0 };
                if !until_aborted(link, service.updates(updates)).await {
                    return;
                }
            } else if let Some(work) = batch.pop_front() {
                link.inbox_sub(work.bytes());
                one(link, service, work).await;
            }
        }
    }
}

async fn one(link: &Arc<Link>, service: &Arc<dyn Service>, work: Work) {
    match work {
        Work::Request { request, session, stop } => {
            start(link, service::request(link.clone(), service.clone(), request, session, stop)).await;
        }
        Work::Prompt { token, key, session, params, rx, control } => {
            let turn = Turn::new(link.clone(), token.turn(), key, session, rx, control);
            start(link, service::prompt(link.clone(), service.clone(), token, params, turn)).await;
        }
        Work::Notification { notification } => {
            until_aborted(link, service::notification(link, &**service, notification)).await;
        }
        // Taken together with those behind it.
        Work::Update { .. } => {}
        Work::Outcome { waiter, outcome } => waiter.deliver(link, outcome, 0),
        Work::SessionEnded { session } => {
            until_aborted(link, service::session_ended(link, &**service, &session)).await;
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

/// What was received before a connection closed is still handled after it, as long as the connection has an owner. False
/// once it has none.
async fn until_aborted(link: &Link, task: impl Future<Output = ()>) -> bool {
    if link.abort.is_cancelled() {
        return false;
    }
    let mut task = pin!(task);
    // Most handlers of notifications have nothing to wait for; then nobody needs to be told of the end.
    if poll_once(task.as_mut()).await.is_ready() {
        return true;
    }
    tokio::select! {
        biased;
        () = link.abort.cancelled() => false,
        () = task => true,
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Duration;

    use pintle_acp::types::{
        NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, Raw, SessionNotification,
    };
    use pintle_acp::{Config, Error, RawJson};
    use serde_json::json;

    use crate::acp::serve::agent_connection;
    use crate::acp::{Agent, Client, Ctx, Turn, connect, serve};
    use crate::transport::memory;

    struct Quiet;

    impl Client for Quiet {
        async fn session_update(&self, _: SessionNotification, _: &Ctx) {}
    }

    /// Says which task polled the handler first, and which after a wait.
    struct Where;

    impl Agent for Where {
        async fn ext_request(&self, _: &str, _: Option<RawJson>, _: &Ctx) -> Result<Raw, Error> {
            let first = tokio::task::id().to_string();
            tokio::task::yield_now().await;
            Ok(Raw::from(json!([first, tokio::task::id().to_string()])))
        }
    }

    /// Design invariant 10: on one thread the loop begins a lone handler and leaves the rest of it to a task.
    #[tokio::test]
    async fn a_lone_request_begins_in_the_loop_and_waits_outside_of_it() {
        let (ours, theirs) = memory();
        let (_agent, run) = agent_connection(Where, theirs, Config::default()).await.expect("opens");
        let the_loop = tokio::spawn(run).id().to_string();
        let client = connect(Quiet, ours).expect("opens");
        client.initialize().await.expect("a handshake");
        let answer = client.ext_request("_t/where", &json!({})).await.expect("an answer");
        let [first, then]: [String; 2] = serde_json::from_str(answer.as_str()).expect("two ids");
        assert_eq!(first, the_loop);
        assert_ne!(then, the_loop);
    }

    /// A prompt "wait" blocks its thread until a prompt "go" is handled.
    struct Blocking {
        sessions: AtomicU64,
        open: SyncSender<()>,
        gate: super::Mutex<Receiver<()>>,
    }

    impl Agent for Blocking {
        async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
            Ok(NewSessionResponse::new(format!("s{}", self.sessions.fetch_add(1, Ordering::Relaxed))))
        }

        async fn prompt(&self, request: PromptRequest, _: &Turn) -> Result<PromptResponse, Error> {
            let passed = if request.text() == "wait" {
                let gate = self.gate.lock().expect("one at a time");
                gate.recv_timeout(Duration::from_secs(60)).is_ok()
            } else {
                self.open.send(()).is_ok()
            };
            if passed { Ok(PromptResponse::end_turn()) } else { Err(Error::internal_error()) }
        }
    }

    /// Design invariant 10: with threads to spare, not even a handler that blocks its thread holds up the loop.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_handler_that_blocks_its_thread_holds_up_only_its_lane() {
        let (open, gate) = sync_channel(1);
        let agent = Blocking { sessions: AtomicU64::new(0), open, gate: super::Mutex::new(gate) };
        let (ours, theirs) = memory();
        let served = tokio::spawn(serve(agent, theirs));
        let client = connect(Quiet, ours).expect("opens");
        client.initialize().await.expect("a handshake");
        let mut turns = Vec::new();
        for text in ["wait", "go"] {
            let session = client.request(NewSessionRequest::new("/")).await.expect("a session").session_id;
            let prompt = PromptRequest::new(session, vec![text.into()]);
            turns.push(client.async_request(&prompt).await.expect("sent"));
        }
        for turn in turns {
            turn.await.expect("a good end");
        }
        drop(client);
        served.await.expect("no panic").expect("a good end");
    }
}
