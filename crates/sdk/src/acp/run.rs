//! The loop of a connection: the one place that reads, writes and waits.
//!
//! It never waits for a handler, a consumer or a disk. Bytes go to the end, which decides; what the application must see
//! goes into a lane; what is to be written goes out in as few calls as the carrier takes it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use pintle_acp::{AgentEvent, ClientEvent, Closed, Output};
use tokio::time::Sleep;

use super::end::Event;
use super::host::ToolKinds;
use super::lane::{Lanes, Work};
use super::link::{INBOX_BYTES, INBOX_HARD_BYTES, Link, State, Waiter, now};
use super::pace::Pace;
use super::service::Service;
use super::stream::Sink;
use super::turn::TurnControl;
use crate::transport::Transport;

/// Read from the carrier at a time.
const READ_BYTES: usize = 64 * 1024;
/// Given to the end at a time: how long a command may have to wait for the loop is bounded by this.
const FEED_BYTES: usize = 16 * 1024;
/// Slices handed to one vectored write.
const WRITE_SLICES: usize = 32;
/// Read after a deadline has passed before it is believed: more than a pipe holds. An answer that was there is in time, and a peer
/// that writes without a pause must not hold up its own deadline.
const LATE_BYTES: usize = 1 << 20;
/// Rounds before the loop lets others run.
const ROUNDS: usize = 16;
/// How long a connection that is over tries to write what is left, to a peer that may not be reading.
const WRITE_GRACE: Duration = Duration::from_secs(2);

/// A connection at work; resolves when it is over.
pub(crate) struct Run {
    link: Arc<Link>,
    transport: Box<dyn Transport>,
    lanes: Lanes,
    /// Where a client wants the kinds of tool calls noted.
    kinds: Option<ToolKinds>,
    buffer: Box<[u8]>,
    writing: VecDeque<Bytes>,
    must_flush: bool,
    pace: Pace,
    /// Others may have run since the pace was last asked.
    is_new_look: bool,
    output: Outgoing,
    input_ended: bool,
    sleep: Pin<Box<Sleep>>,
    /// What was read while a deadline had passed.
    late_bytes: usize,
    events: Vec<Event>,
    closed: Option<Closed>,
    /// When what is left is given up; set once the connection is over.
    write_until: Option<Instant>,
    error: Option<io::Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outgoing {
    Open,
    /// Everything is to be handed over, then the direction ends.
    Closing,
    Ended,
}

impl Run {
    pub(crate) fn new(link: Arc<Link>, transport: Box<dyn Transport>, service: Arc<dyn Service>) -> Self {
        Self {
            kinds: service.tool_kinds(),
            lanes: Lanes::new(link.clone(), service),
            link,
            transport,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            writing: VecDeque::new(),
            must_flush: false,
            pace: Pace::default(),
            is_new_look: false,
            output: Outgoing::Open,
            input_ended: false,
            sleep: Box::pin(tokio::time::sleep_until(tokio::time::Instant::now())),
            late_bytes: 0,
            events: Vec::new(),
            closed: None,
            write_until: None,
            error: None,
        }
    }

    fn lost(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
        self.input_ended = true;
        self.output = Outgoing::Ended;
        self.writing.clear();
        self.link.lock().end.lost();
    }

    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        while self.output != Outgoing::Ended {
            if self.writing.is_empty() && self.output == Outgoing::Open {
                self.take_output();
            }
            if self.writing.is_empty() {
                return self.flush_or_close(cx) || progress;
            }
            let mut slices = [io::IoSlice::new(&[]); WRITE_SLICES];
            let count = self.writing.len().min(WRITE_SLICES);
            for (slice, bytes) in slices.iter_mut().zip(&self.writing) {
                *slice = io::IoSlice::new(bytes);
            }
            match self.transport.poll_write(cx, &slices[..count]) {
                Poll::Pending => return progress,
                Poll::Ready(Ok(0)) => self.lost(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => self.lost(error),
                Poll::Ready(Ok(written)) => {
                    self.must_flush = true;
                    self.pace.wrote(now());
                    self.advance(written);
                    self.link.wrote(written);
                }
            }
            progress = true;
        }
        progress
    }

    fn take_output(&mut self) {
        let mut state = self.link.lock();
        match state.end.unawaited_bytes().filter(|_| self.closed.is_none()) {
            Some(0) => {}
            Some(bytes) if self.pace.holds(now(), bytes, std::mem::take(&mut self.is_new_look)) => return,
            Some(_) => {}
            None => self.pace.release(),
        }
        while self.writing.len() < WRITE_SLICES {
            match state.end.poll_output() {
                Some(Output::Bytes(bytes)) => self.writing.push_back(bytes),
                Some(Output::Close) => self.output = Outgoing::Closing,
                None => break,
            }
        }
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(front) = self.writing.front_mut()
            && written > 0
        {
            let taken = written.min(front.len());
            front.advance(taken);
            written -= taken;
            if front.is_empty() {
                self.writing.pop_front();
            }
        }
    }

    fn flush_or_close(&mut self, cx: &mut Context<'_>) -> bool {
        if self.must_flush {
            match self.transport.poll_flush(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => {
                    self.must_flush = false;
                    self.link.flushed.notify_waiters();
                }
                Poll::Ready(Err(error)) => {
                    self.lost(error);
                    return true;
                }
            }
        }
        if self.output == Outgoing::Closing {
            match self.transport.poll_close(cx) {
                Poll::Pending => return false,
                // The peer may be gone already; there is nothing left to tell it.
                Poll::Ready(_) => self.output = Outgoing::Ended,
            }
            return true;
        }
        false
    }

    fn read(&mut self, cx: &mut Context<'_>, takes_input: bool) -> bool {
        if self.input_ended || !takes_input {
            return false;
        }
        match self.transport.poll_read(cx, &mut self.buffer) {
            Poll::Pending => return false,
            Poll::Ready(Ok(0)) => {
                self.input_ended = true;
                self.link.lock().end.eof(now());
            }
            Poll::Ready(Ok(read)) => {
                self.late_bytes += read;
                for chunk in self.buffer[..read].chunks(FEED_BYTES) {
                    self.link.lock().end.feed(now(), chunk);
                }
            }
            Poll::Ready(Err(error)) => self.lost(error),
        }
        true
    }

    /// A client reads no faster than its updates are taken, unless somebody waits for an answer that is still to be read.
    /// An agent must see a cancel whatever its handlers do, so it drops notifications instead of waiting.
    fn takes_input(&self, state: &State) -> bool {
        let queued = self.link.inbox_bytes();
        let room = queued < INBOX_BYTES
            || if state.end.is_client() { self.link.somebody_waits() } else { queued < INBOX_HARD_BYTES };
        room && state.end.wants_input()
    }

    /// `deadline` is that of the end when the round began, `read` whether there was something to be read in it.
    fn time(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>, read: bool) -> bool {
        let Some(deadline) = deadline.into_iter().chain(self.write_until).min() else { return false };
        let deadline = tokio::time::Instant::from_std(deadline);
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        if self.sleep.as_mut().poll(cx).is_pending() {
            self.late_bytes = 0;
            return false;
        }
        if read && self.late_bytes <= LATE_BYTES {
            return false;
        }
        self.late_bytes = 0;
        let now = now();
        if self.output != Outgoing::Ended && self.write_until.is_some_and(|until| until <= now) {
            // Nobody is told any more; but this was no good end.
            self.output = Outgoing::Ended;
            self.writing.clear();
            self.write_until = None;
            self.closed = Some(Closed::Lost);
            return true;
        }
        self.link.lock().end.handle_timeout(now);
        true
    }

    fn dispatch(&mut self, cx: &mut Context<'_>) -> bool {
        let mut events = std::mem::take(&mut self.events);
        self.link.lock().events(now(), &mut events);
        let any = !events.is_empty();
        for event in events.drain(..) {
            match event {
                Event::Agent(event) => self.agent_event(event),
                Event::Client(event, sink) => self.client_event(event, sink),
            }
        }
        self.events = events;
        self.lanes.start(cx);
        any
    }

    fn agent_event(&mut self, event: AgentEvent<Waiter>) {
        match event {
            AgentEvent::Request { request, session } => {
                let stop = self.link.start_request(request.token.key());
                self.lanes.push(session.clone(), Work::Request { request, session, stop });
            }
            AgentEvent::Prompt { token, key, session, params, rx } => {
                let control = TurnControl::start(&self.link, token.turn());
                let lane = Some(session.clone());
                self.lanes.push(lane, Work::Prompt { token, key, session, params, rx, control });
            }
            AgentEvent::Notification(notification) => {
                if self.link.inbox_bytes() >= INBOX_BYTES {
                    self.link.lock().end.count_shed_notification();
                } else {
                    self.lanes.push(None, Work::Notification { notification });
                }
            }
            AgentEvent::RequestCancelled(key) => self.link.stop_request(key),
            AgentEvent::TurnCancelled(turn) => {
                let control = self.link.turns().get(&turn).cloned();
                if let Some(control) = control {
                    control.cancel.cancel();
                }
            }
            AgentEvent::TurnKilled(turn) => {
                let control = self.link.turns().remove(&turn);
                if let Some(control) = control {
                    control.kill.cancel();
                }
            }
            AgentEvent::Outcome { waiter, outcome } => waiter.deliver(&self.link, outcome, 0),
            AgentEvent::SessionClosed { session, .. } => self.lanes.forget(&session),
            AgentEvent::Closed(why) => self.close(why),
        }
    }

    fn client_event(&mut self, event: ClientEvent<Waiter>, sink: Option<Arc<Sink>>) {
        match event {
            ClientEvent::Request { request, session } => {
                let stop = self.link.start_request(request.token.key());
                self.lanes.push(session.clone(), Work::Request { request, session, stop });
            }
            ClientEvent::Update { session, delivery, params, rx } => {
                if let Some(kinds) = &self.kinds {
                    kinds.note(&params);
                }
                let full = self.link.inbox_bytes() >= INBOX_HARD_BYTES;
                match (sink, delivery) {
                    _ if full => self.link.lock().end.count_shed_notification(),
                    (Some(sink), Some(_)) => sink.push(&self.link, params),
                    _ => self.lanes.push(Some(session.clone()), Work::Update { session, params, rx }),
                }
            }
            ClientEvent::Notification(notification) => {
                if self.link.inbox_bytes() >= INBOX_HARD_BYTES {
                    self.link.lock().end.count_shed_notification();
                } else {
                    self.lanes.push(None, Work::Notification { notification });
                }
            }
            ClientEvent::RequestCancelled(key) => self.link.stop_request(key),
            ClientEvent::Outcome { waiter, outcome, turn } => match (waiter, turn) {
                // Behind the updates of its session, so that whoever prompted has seen them all (IC-4).
                (waiter @ Waiter::Call(_), Some((session, _))) => {
                    self.lanes.push(Some(session), Work::Outcome { waiter, outcome });
                }
                (waiter, turn) => waiter.deliver(&self.link, outcome, turn.map_or(0, |(_, updates)| updates)),
            },
            ClientEvent::SessionClosed { session } => {
                self.lanes.push(Some(session.clone()), Work::SessionEnded { session: session.clone() });
                self.lanes.forget(&session);
            }
            ClientEvent::Closed(why) => self.close(why),
        }
    }

    fn close(&mut self, why: Closed) {
        self.closed = Some(why);
        self.write_until = Some(now() + WRITE_GRACE);
        self.input_ended = true;
        self.link.finished(why);
    }
}

impl Future for Run {
    type Output = Result<Closed, io::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.is_new_look = true;
        for _ in 0..ROUNDS {
            let state = this.link.attend();
            let (takes_input, deadline) = (this.takes_input(&state), state.end.poll_timeout());
            drop(state);
            // Writing comes last: whatever the others gave rise to leaves in this round.
            let read = this.read(cx, takes_input);
            let mut progress = read | this.time(cx, deadline, read);
            progress |= this.dispatch(cx);
            progress |= this.write(cx);
            if let Some(why) = this.closed
                && this.output == Outgoing::Ended
            {
                return Poll::Ready(match this.error.take() {
                    Some(error) if !is_disconnect(&error) => Err(error),
                    _ => Ok(why),
                });
            }
            if !progress && this.pace.is_holding() {
                // Still attending: what comes until then is seen.
                look_again(cx);
                return Poll::Pending;
            }
            if !progress && this.link.rest(cx.waker(), deadline) {
                return Poll::Pending;
            }
        }
        // Still attending: nobody else needs to wake it.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Run {
    /// Whoever stops driving a connection ends it: its tasks stop, its waiters are told.
    fn drop(&mut self) {
        if self.closed.is_none() {
            let mut events = Vec::new();
            let mut state = self.link.lock();
            state.end.lost();
            state.events(now(), &mut events);
            drop(state);
            for event in events {
                if let Event::Agent(AgentEvent::Outcome { waiter, outcome })
                | Event::Client(ClientEvent::Outcome { waiter, outcome, .. }, _) = event
                {
                    waiter.deliver(&self.link, outcome, 0);
                }
            }
            self.link.finished(Closed::Lost);
        }
        self.link.abort.cancel();
    }
}

/// Wakes this task when the runtime has let all others run that can, and has looked at its pipes and timers.
fn look_again(cx: &mut Context<'_>) {
    // It leaves the waker with the runtime at its first poll, and is of no use after that.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

/// The peer went away: an end, not a fault.
fn is_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof, WriteZero};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof | WriteZero)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use pintle_acp::types::{
        NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionId, SessionNotification,
    };
    use pintle_acp::{Config, Error};

    use super::*;
    use crate::acp::serve::agent_connection;
    use crate::acp::{Agent, Client, ClientConnection, Ctx, Turn, connect};
    use crate::transport::{Memory, TransportKind, memory};

    const UPDATES: u64 = 2000;

    /// Sends updates and lets others run after each; then ends, or waits to be cancelled.
    struct Yielding;

    impl Agent for Yielding {
        async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
            Ok(NewSessionResponse::new("s1"))
        }

        async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
            for n in 0..UPDATES {
                turn.agent_text(n.to_string()).await?;
                tokio::task::yield_now().await;
            }
            if request.text() == "wait" {
                turn.cancelled().await;
            }
            Ok(PromptResponse::end_turn())
        }
    }

    struct Quiet;

    impl Client for Quiet {}

    /// Counts the writes.
    struct Counted(Memory, Arc<AtomicU64>);

    impl Transport for Counted {
        fn kind(&self) -> TransportKind {
            self.0.kind()
        }

        fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
            self.0.poll_read(cx, buf)
        }

        fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
            let written = self.0.poll_write(cx, bufs);
            self.1.fetch_add(u64::from(written.is_ready()), Ordering::Relaxed);
            written
        }

        fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_close(cx)
        }
    }

    /// A client of a yielding agent with a session, and how often the agent wrote.
    async fn opened() -> (ClientConnection, SessionId, Arc<AtomicU64>) {
        let (ours, theirs) = memory();
        let writes = Arc::new(AtomicU64::new(0));
        let transport = Counted(theirs, writes.clone());
        let (_, run) = agent_connection(Yielding, transport, Config::default()).await.expect("opens");
        tokio::spawn(run);
        let client = connect(Quiet, ours).expect("opens");
        client.initialize().await.expect("a handshake");
        let session = client.request(NewSessionRequest::new("/")).await.expect("a session").session_id;
        (client, session, writes)
    }

    async fn seen(turn: &mut crate::acp::TurnStream, updates: u64) {
        for n in 0..updates {
            let SessionNotification { update, .. } = turn.next().await.expect("one more");
            let update = serde_json::to_value(update).expect("JSON");
            assert_eq!(update["content"]["text"], n.to_string());
        }
    }

    /// A stream of updates takes few writes, however often the agent lets others run; all are there before the answer.
    #[tokio::test(start_paused = true)]
    async fn a_stream_of_updates_leaves_in_few_writes() {
        let (client, session, writes) = opened().await;
        let before = writes.load(Ordering::Relaxed);
        let mut turn = client.prompt_stream(PromptRequest::new(&session, ["go".into()])).await.expect("sent");
        seen(&mut turn, UPDATES).await;
        assert!(turn.next().await.is_none());
        turn.finish().await.expect("a good end");
        let writes = writes.load(Ordering::Relaxed) - before;
        assert!(writes < UPDATES / 10, "{writes} writes");
    }

    /// What is held of a stream leaves as soon as the agent waits, without any time passing.
    #[tokio::test(start_paused = true)]
    async fn a_stream_that_pauses_is_not_held() {
        let (client, session, _) = opened().await;
        let mut turn = client.prompt_stream(PromptRequest::new(&session, ["wait".into()])).await.expect("sent");
        let start = tokio::time::Instant::now();
        let all = tokio::time::timeout(Duration::from_secs(60), seen(&mut turn, UPDATES)).await;
        assert!(all.is_ok() && start.elapsed().is_zero(), "held");
        client.cancel(&session);
        turn.finish().await.expect("a good end");
    }
}
