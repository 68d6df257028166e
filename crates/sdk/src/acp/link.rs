//! What the loop of a connection, its handles and its tasks share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use pintle_acp::{Call, Closed, OutId, Outcome, Reply, ReplyToken, RequestKey, SendError, TurnKey};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::end::End;
use super::stream::Sink;
use super::turn::TurnControl;
use crate::transport::TransportKind;

/// Bytes of frames that lanes hold before a client stops reading, and an agent drops notifications.
pub(crate) const INBOX_BYTES: usize = 512 * 1024;
/// Bytes of frames that lanes hold at most, also while somebody waits for an answer that is still to be read.
pub(crate) const INBOX_HARD_BYTES: usize = 8 * 1024 * 1024;

/// Who gets the outcome of one of our requests.
#[derive(Debug)]
pub(crate) enum Waiter {
    Call(oneshot::Sender<Parcel>),
    Stream(Arc<Sink>),
}

impl Waiter {
    /// Hands the outcome over. Nobody may be there any more to take it.
    pub(crate) fn deliver(self, link: &Arc<Link>, outcome: Outcome, updates: u64) {
        let parcel = Parcel::new(link, outcome);
        match self {
            Self::Call(sender) => drop(sender.send(parcel)),
            Self::Stream(sink) => sink.end(parcel, updates),
        }
    }
}

/// An outcome on its way to whoever asked. Its bytes count until it is opened or dropped.
#[derive(Debug)]
pub(crate) struct Parcel {
    outcome: Result<Outcome, NoRoom>,
    _weight: Option<Weight>,
}

/// An answer came, and was dropped: too much of what came before has not been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) limit_bytes: usize,
}

impl Parcel {
    fn new(link: &Arc<Link>, outcome: Outcome) -> Self {
        let bytes = match &outcome {
            Outcome::Result(result) => result.as_bytes().len(),
            Outcome::Error(error) => error.message.len() + error.data.as_ref().map_or(0, |data| data.get().len()),
            Outcome::TimedOut | Outcome::TurnCancelled | Outcome::Closed => 0,
        };
        let before = link.untaken_bytes.fetch_add(bytes, Ordering::Relaxed);
        let weight = Weight { link: link.clone(), bytes };
        let limit_bytes = link.bounds.untaken_answer_bytes;
        if bytes > 0 && before > 0 && before.saturating_add(bytes) > limit_bytes {
            link.lock().end.count_shed_answer();
            return Self { outcome: Err(NoRoom { limit_bytes }), _weight: None };
        }
        Self { outcome: Ok(outcome), _weight: Some(weight) }
    }

    /// What the connection says to a request that it forgot.
    pub(crate) fn closed() -> Self {
        Self { outcome: Ok(Outcome::Closed), _weight: None }
    }

    pub(crate) fn open(self) -> Result<Outcome, NoRoom> {
        self.outcome
    }
}

/// Bytes of answers that were not taken, as long as it lives.
struct Weight {
    link: Arc<Link>,
    bytes: usize,
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.link.untaken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

/// What a link holds at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Calls that wait to be written.
    pub(crate) credit_bytes: usize,
    /// Answers that nobody has taken.
    pub(crate) untaken_answer_bytes: usize,
}

pub(crate) struct State {
    pub(crate) end: End,
    /// Streams that take the updates of their prompts.
    pub(crate) sinks: BTreeMap<OutId, Arc<Sink>>,
    waker: Option<Waker>,
    /// The loop is at work: it looks again before it waits, and need not be woken.
    attended: bool,
    /// There was a command since the loop began its round.
    dirty: bool,
    /// Bytes of credit that are in use.
    credit_bytes: usize,
}

pub(crate) struct Link {
    state: Mutex<State>,
    /// One permit per byte of calls that may wait to be written: senders queue here, in order.
    credit: Semaphore,
    bounds: Bounds,
    untaken_bytes: AtomicUsize,
    /// Ends the handlers of requests and turns: nobody can be answered any more.
    pub(crate) stop: CancellationToken,
    /// Ends every task of the connection: nobody owns it any more.
    pub(crate) abort: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Requests of the peer whose handlers run.
    running: Mutex<BTreeMap<RequestKey, CancellationToken>>,
    turns: Mutex<BTreeMap<TurnKey, Arc<TurnControl>>>,
    inbox_bytes: AtomicUsize,
    /// Requests of ours whose answer somebody waits for before it goes on taking updates.
    waits: AtomicUsize,
    closed: watch::Sender<Option<Closed>>,
    kind: TransportKind,
    /// Wakes everybody who waits for everything to have been written.
    pub(crate) flushed: Notify,
}

impl Link {
    pub(crate) fn new(end: End, bounds: Bounds, kind: TransportKind) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                end,
                sinks: BTreeMap::new(),
                waker: None,
                attended: false,
                dirty: false,
                credit_bytes: 0,
            }),
            credit: Semaphore::new(bounds.credit_bytes),
            bounds,
            untaken_bytes: AtomicUsize::new(0),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
            running: Mutex::default(),
            turns: Mutex::default(),
            inbox_bytes: AtomicUsize::new(0),
            waits: AtomicUsize::new(0),
            closed: watch::Sender::new(None),
            kind,
            flushed: Notify::new(),
        })
    }

    pub(crate) fn kind(&self) -> TransportKind {
        self.kind
    }

    /// The loop's own access: does not wake it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command: runs `act`, then lets the loop look at what came of it.
    pub(crate) fn command<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state);
        let waker = if state.attended { None } else { state.waker.take() };
        state.dirty = state.attended;
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    pub(crate) fn wake(&self) {
        self.command(|_| ());
    }

    /// The loop begins a round: what commands do from here on, it sees in this round or in the next.
    pub(crate) fn attend(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.attended = true;
        state.dirty = false;
        state
    }

    /// The loop has nothing to do up to `deadline` and waits to be woken; false if there was a command in the meantime, or
    /// the end has another deadline by now.
    pub(crate) fn rest(&self, waker: &Waker, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        if state.dirty || state.end.poll_timeout() != deadline {
            return false;
        }
        state.attended = false;
        if !state.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        true
    }

    // Sending with backpressure.

    /// Runs `send` when there is room for `call`; senders get their turn in the order in which they came.
    ///
    /// Cancel safe: dropped before it is ready, nothing was sent.
    pub(crate) async fn send<R, E: From<SendError>>(
        &self,
        call: &Call,
        send: impl FnOnce(&mut State) -> Result<R, E>,
    ) -> Result<R, E> {
        let permit = match self.credit.try_acquire_many(self.price(call)) {
            Ok(permit) => permit,
            Err(TryAcquireError::Closed) => return Err(SendError::Closed.into()),
            Err(TryAcquireError::NoPermits) => {
                self.credit.acquire_many(self.price(call)).await.map_err(|_| SendError::Closed)?
            }
        };
        self.spend(permit, call, send)
    }

    /// Like [`Link::send`], or [`SendError::Full`] where that would have to wait.
    pub(crate) fn try_send<R, E: From<SendError>>(
        &self,
        call: &Call,
        send: impl FnOnce(&mut State) -> Result<R, E>,
    ) -> Result<R, E> {
        match self.credit.try_acquire_many(self.price(call)) {
            Ok(permit) => self.spend(permit, call, send),
            Err(TryAcquireError::Closed) => Err(SendError::Closed.into()),
            Err(TryAcquireError::NoPermits) => Err(SendError::Full { limit_bytes: self.bounds.credit_bytes }.into()),
        }
    }

    fn spend<R, E>(
        &self,
        permit: SemaphorePermit<'_>,
        call: &Call,
        send: impl FnOnce(&mut State) -> Result<R, E>,
    ) -> Result<R, E> {
        let price = self.price(call) as usize;
        self.command(|state| {
            let result = send(state)?;
            permit.forget();
            state.credit_bytes += price;
            Ok(result)
        })
    }

    /// A frame larger than the whole credit costs all of it.
    fn price(&self, call: &Call) -> u32 {
        u32::try_from(call.len().min(self.bounds.credit_bytes)).unwrap_or(u32::MAX)
    }

    /// `bytes` were written: what they took of the credit is free again.
    pub(crate) fn wrote(&self, bytes: usize) {
        let mut state = self.lock();
        let calls = state.end.wrote(bytes);
        let free = state.credit_bytes.saturating_sub(calls);
        state.credit_bytes -= free;
        drop(state);
        if free > 0 {
            self.credit.add_permits(free);
        }
    }

    // The peer's requests and turns.

    /// The token that stops the handler of a request when the peer gives it up. The end of the connection is told by
    /// [`Link::stop`], to which it has no tie: to make one and to undo it costs more than most handlers do.
    pub(crate) fn start_request(&self, key: RequestKey) -> CancellationToken {
        let token = CancellationToken::new();
        self.running().insert(key, token.clone());
        token
    }

    pub(crate) fn stop_request(&self, key: RequestKey) {
        let token = self.running().get(&key).cloned();
        if let Some(token) = token {
            token.cancel();
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<RequestKey, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn turns(&self) -> MutexGuard<'_, BTreeMap<TurnKey, Arc<TurnControl>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reply(&self, token: ReplyToken, reply: &Reply) {
        self.running().remove(&token.key());
        self.command(|state| state.end.reply(now(), token, reply));
    }

    /// A reply that is not given after all: the connection answers for it.
    pub(crate) fn forget_reply(&self, token: ReplyToken) {
        self.running().remove(&token.key());
        drop(token);
        self.wake();
    }

    /// Bytes of answers that nobody has taken.
    #[cfg(test)]
    pub(crate) fn untaken_bytes(&self) -> usize {
        self.untaken_bytes.load(Ordering::Relaxed)
    }

    /// What the connection holds for handlers that run: stop tokens of requests, turns, streams of updates.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        (self.running().len(), self.turns().len(), self.lock().sinks.len())
    }

    // Backpressure on what comes in.

    pub(crate) fn inbox_add(&self, bytes: usize) {
        self.inbox_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn inbox_sub(&self, bytes: usize) {
        let before = self.inbox_bytes.fetch_sub(bytes, Ordering::Relaxed);
        // The loop stops reading above the bound; below half of it is a good place to go on.
        if before > INBOX_BYTES / 2 && before - bytes <= INBOX_BYTES / 2 {
            self.wake();
        }
    }

    pub(crate) fn inbox_bytes(&self) -> usize {
        self.inbox_bytes.load(Ordering::Relaxed)
    }

    /// Somebody waits for an answer: reading goes on although lanes are full, else the answer would never come.
    pub(crate) fn wait_begins(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wait_ends(&self) {
        self.waits.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn somebody_waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    // The end.

    pub(crate) fn close(&self) {
        self.command(|state| state.end.close(now()));
    }

    /// The connection is over: no task of it goes on, no sender waits.
    pub(crate) fn finished(&self, why: Closed) {
        self.credit.close();
        self.stop.cancel();
        self.tasks.close();
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert(why);
            first
        });
        self.flushed.notify_waiters();
    }

    pub(crate) fn closed_now(&self) -> Option<Closed> {
        *self.closed.borrow()
    }

    pub(crate) async fn closed(&self) -> Closed {
        let mut closed = self.closed.subscribe();
        match closed.wait_for(Option::is_some).await.map(|closed| *closed) {
            Ok(Some(closed)) => closed,
            _ => Closed::Lost,
        }
    }
}

/// The runtime's clock, which tests can stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use pintle_acp::types::{
        NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, Raw, SessionNotification,
    };
    use pintle_acp::{Config, Error, RawJson};
    use serde_json::{Value, json};

    use crate::acp::serve::agent_connection;
    use crate::acp::{Agent, Client, Ctx, Turn, connect};
    use crate::transport::memory;

    struct Fickle;

    impl Agent for Fickle {
        async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
            Ok(NewSessionResponse::new("s1"))
        }

        async fn prompt(&self, _: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
            turn.agent_text("hello").await?;
            Ok(PromptResponse::end_turn())
        }

        async fn ext_request(&self, method: &str, _: Option<RawJson>, cx: &Ctx) -> Result<Raw, Error> {
            match method {
                "_t/forget" => {
                    drop(cx.delegate_reply::<Value>());
                    cx.deferred()
                }
                "_t/later" => {
                    let reply = cx.delegate_reply::<Value>().expect("the first to take it");
                    tokio::spawn(async move { reply.send(Ok(json!(1))) });
                    cx.deferred()
                }
                "_t/panic" => panic!("on purpose"),
                "_t/never" => std::future::pending().await,
                _ => Ok(Raw::from(json!(1))),
            }
        }
    }

    struct Quiet;

    impl Client for Quiet {
        async fn session_update(&self, _: SessionNotification, _: &Ctx) {}
    }

    /// Inv-2, Inv-17, R-081: whatever became of them, nothing is kept of requests, turns and streams that are over.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_of_what_is_over() {
        let (ours, theirs) = memory();
        let (agent, run) = agent_connection(Fickle, theirs, Config::default()).await.expect("opens");
        tokio::spawn(run);
        let client = connect(Quiet, ours).expect("opens");
        client.initialize().await.expect("a handshake");
        let session = client.request(NewSessionRequest::new("/")).await.expect("a session").session_id;
        for _ in 0..50 {
            for method in ["_t/now", "_t/later", "_t/forget", "_t/panic"] {
                let answer = client.ext_request(method, &json!({})).await;
                assert_eq!(answer.is_ok(), matches!(method, "_t/now" | "_t/later"), "{method}");
            }
            let given_up = std::time::Duration::from_secs(1);
            assert!(tokio::time::timeout(given_up, client.ext_request("_t/never", &json!({}))).await.is_err());
            let turn = client.prompt_stream(PromptRequest::new(&session, ["x".into()])).await.expect("sent");
            turn.finish().await.expect("ends");
        }
        // The last request that was given up is answered by now: something behind it was.
        client.ext_request("_t/now", &json!({})).await.expect("answered");
        assert_eq!(agent.link().held(), (0, 0, 0));
        assert_eq!(client.link().held(), (0, 0, 0));
        assert_eq!((agent.link().inbox_bytes(), client.link().inbox_bytes()), (0, 0));
        assert_eq!((agent.link().untaken_bytes(), client.link().untaken_bytes()), (0, 0));
    }
}
