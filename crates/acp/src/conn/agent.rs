//! The agent's end: a client talks to it.
// Over 600 lines because the end is one value with one set of verbs, and its rules refer to each other; the life of a session is in a file of its own.

mod sessions;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::caps::{self, Granted};
use super::core::{Core, Held, Phase, refusal};
use super::encode::{Call, Reply};
use super::inbound::{Inbound, MethodName};
use super::inflight::{Owed, ReplyToken, RequestKey, Role, TurnToken};
use super::{Closed, Config, OutId, Outcome, Output, PeerNotification, PeerRequest, RawJson, SendError};
use crate::Error;
use crate::keys::KeyMap;
use crate::methods::Side;
use crate::session::{
    Begin, Effect, Ending, Phase as SessionPhase, RxSeq, SessionKey, Sessions, TurnKey, TurnOver, Waiting,
};

/// What the agent's application must see.
#[derive(Debug)]
pub enum AgentEvent<W> {
    /// A request; answer it with [`AgentEnd::reply`].
    Request {
        /// The request.
        request: PeerRequest,
        /// The session that it names, where it names one.
        session: Option<Arc<str>>,
    },
    /// A turn begins: run its root task, then give the token to [`AgentEnd::end_turn`].
    Prompt {
        /// The obligation to end the turn.
        token: TurnToken,
        /// Names the prompt's request, as later events do.
        key: RequestKey,
        /// The session.
        session: Arc<str>,
        /// The params of `session/prompt`, not decoded.
        params: RawJson,
        /// Position among all received frames.
        rx: RxSeq,
    },
    /// A notification that is not the connection's own business.
    Notification(PeerNotification),
    /// The peer gave up a request (`$/cancel_request`). It still wants one answer: a result, or -32800.
    RequestCancelled(RequestKey),
    /// Every task of this turn should wind down; the answer will be `cancelled`.
    TurnCancelled(TurnKey),
    /// What is left of this turn's tasks must be stopped. Its prompt is answered already.
    TurnKilled(TurnKey),
    /// One of our requests ended.
    Outcome {
        /// What was given with the request.
        waiter: W,
        /// How it ended.
        outcome: Outcome,
    },
    /// A session is gone: closed by the client, or idle for too long.
    SessionClosed {
        /// Its id.
        session: Arc<str>,
        /// True if it was idle for too long.
        idle: bool,
    },
    /// The last event: nothing more comes in, nothing more is owed.
    Closed(Closed),
}

/// An update was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The turn has been answered; nothing may follow its answer (R-153).
    #[error(transparent)]
    TurnOver(#[from] TurnOver),
    /// There is no such session on this connection.
    #[error("unknown session")]
    UnknownSession,
    /// A chunk of text without text tells a client nothing (R-154).
    #[error("empty chunk")]
    EmptyChunk,
    /// Too many updates wait for the answer to `session/new`.
    #[error("more than {limit} updates wait for the answer to session/new")]
    TooManyWaiting {
        /// The bound that was reached.
        limit: usize,
    },
    /// The connection does not take it.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl From<UpdateError> for Error {
    /// For handlers that pass on what went wrong: the client learns nothing but that something did.
    fn from(_: UpdateError) -> Self {
        Self::internal_error()
    }
}

impl From<TurnOver> for Error {
    /// As for [`UpdateError`].
    fn from(_: TurnOver) -> Self {
        Self::internal_error()
    }
}

/// A handler's outcome as the turn machine carries it.
type Answer = Reply;

/// The agent's end of a connection. After any call: drain [`poll_output`](Self::poll_output), then
/// [`poll_event`](Self::poll_event), then look at [`poll_timeout`](Self::poll_timeout).
///
/// `W` is what comes back with the outcome of a request of ours.
#[derive(Debug)]
pub struct AgentEnd<W> {
    pub(super) core: Core<W>,
    sessions: Sessions<RequestKey, OutId, Answer, (RequestKey, RawJson)>,
    /// The session of each open permission ask.
    asks: KeyMap<OutId, SessionKey>,
    /// Requests for `session/new` that are not answered: they count as sessions.
    creating: usize,
    events: VecDeque<AgentEvent<W>>,
    drain: Option<(Instant, Closed)>,
}

/// How long handlers may take to answer after the client closed its stream.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

impl<W> AgentEnd<W> {
    /// A connection that waits for `initialize`.
    pub fn new(config: Config) -> Self {
        Self {
            sessions: Sessions::new(config.cancel_backstop, config.session_idle_timeout),
            core: Core::new(config),
            asks: KeyMap::default(),
            creating: 0,
            events: VecDeque::new(),
            drain: None,
        }
    }

    // The five verbs.

    /// Bytes arrived.
    pub fn feed(&mut self, now: Instant, bytes: &[u8]) {
        self.core.push_bytes(bytes);
        while let Some((rx, frame)) = self.core.next_frame() {
            self.frame(now, rx, frame);
        }
    }

    /// The client ended its stream. Turns are cancelled; what handlers answer within a short grace still goes out.
    pub fn eof(&mut self, now: Instant) {
        if self.drain.is_some() || self.core.phase == Phase::Closed {
            return;
        }
        if let Some((rx, frame)) = self.core.finish_input() {
            self.frame(now, rx, frame);
        }
        self.start_drain(now, Closed::ByPeer);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<AgentEvent<W>> {
        self.events.pop_front()
    }

    /// The next bytes to write, or the end of writing.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.poll_output()
    }

    /// When [`AgentEnd::handle_timeout`] has to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let drain = self.drain.map(|(deadline, _)| deadline);
        [self.core.next_deadline(), self.sessions.deadline(), drain].into_iter().flatten().min()
    }

    /// The time that [`AgentEnd::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (id, pending) in self.core.expire(now) {
            self.ask_done(id);
            self.events.push_back(AgentEvent::Outcome { waiter: pending.waiter, outcome: Outcome::TimedOut });
        }
        for key in self.sessions.due(now) {
            let effects = self.sessions.get_mut(key).map(|s| s.turns.handle_timeout(now)).unwrap_or_default();
            self.apply(now, key, effects);
            if self.sessions.is_idle_too_long(now, key) {
                self.core.counters.idle_session_reaped += 1;
                self.remove_session(key, true);
            }
        }
        if let Some((deadline, why)) = self.drain
            && now >= deadline
        {
            self.finish(why);
        }
    }

    // Commands.

    /// `bytes` of what [`AgentEnd::poll_output`] gave have been written.
    pub fn wrote(&mut self, bytes: usize) {
        self.core.out.written(bytes);
    }

    /// Answers a request. An answer after the connection closed, or to a request that was answered for its handler, is
    /// dropped.
    ///
    /// A token of another connection answers nothing here; its request is answered -32603 there.
    pub fn reply(&mut self, now: Instant, token: ReplyToken, reply: &Reply) {
        if token.belongs_to(&self.core.lost) {
            let key = token.discharge();
            self.settle(now, key, reply);
        }
    }

    /// The root task of a turn ended with this answer to its prompt.
    pub fn end_turn(&mut self, now: Instant, token: TurnToken, reply: Reply) {
        if token.belongs_to(&self.core.lost) {
            let turn = token.discharge();
            self.root_ended(now, turn, Some(reply));
        }
    }

    /// One more task joins a turn; its answer waits for it.
    ///
    /// # Errors
    /// The turn is over or is winding down.
    pub fn join_turn(&mut self, turn: TurnKey) -> Result<(), TurnOver> {
        self.sessions.get_mut(turn.session()).ok_or(TurnOver)?.turns.join(turn.ordinal())
    }

    /// A task that had joined a turn is gone.
    pub fn leave_turn(&mut self, now: Instant, turn: TurnKey) {
        let session = turn.session();
        let effects = self.sessions.get_mut(session).map(|s| s.turns.member_ended(turn.ordinal())).unwrap_or_default();
        self.apply(now, session, effects);
    }

    /// Sends an update of a turn: a `session/update` notification.
    ///
    /// # Errors
    /// The turn has been answered, or the connection does not take it now. Nothing was sent.
    pub fn turn_update(&mut self, turn: TurnKey, call: &Call) -> Result<(), UpdateError> {
        let machine = &mut self.sessions.get_mut(turn.session()).ok_or(TurnOver)?.turns;
        if !machine.may_post(turn.ordinal()) {
            return Err(TurnOver.into());
        }
        self.core.notify(call)?;
        Ok(machine.post(turn.ordinal())?)
    }

    /// Sends an update of a session outside any turn. From within the handler of `session/new`, named by `via`, it waits
    /// for the answer that makes the id known.
    ///
    /// # Errors
    /// There is no such session, or the connection does not take it now. Nothing was sent.
    pub fn session_update(&mut self, via: Option<RequestKey>, session: &str, call: &Call) -> Result<(), UpdateError> {
        if self.sessions.key(session).is_some() {
            return Ok(self.core.notify(call)?);
        }
        let limit = self.core.config.max_updates_after_reply;
        let entry = via.and_then(|key| self.core.inflight.get_mut(key)).filter(|entry| entry.role == Role::NewSession);
        let Some(entry) = entry else { return Err(UpdateError::UnknownSession) };
        if entry.after_reply.len() >= limit {
            return Err(UpdateError::TooManyWaiting { limit });
        }
        entry.after_reply.push(call.clone());
        Ok(())
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The connection does not take it now. Nothing was sent.
    pub fn notify(&mut self, call: &Call) -> Result<(), SendError> {
        self.core.notify(call)
    }

    /// Sends a request; `waiter` comes back in [`AgentEvent::Outcome`], exactly once.
    ///
    /// # Errors
    /// The connection does not take it now: the waiter is given back, no outcome will come.
    pub fn request(&mut self, call: &Call, deadline: Option<Instant>, waiter: W) -> Result<OutId, (SendError, W)> {
        self.core.request(call, deadline, waiter)
    }

    /// Sends a request that is given up when its turn is cancelled: a permission ask (R-147).
    ///
    /// # Errors
    /// The turn is over or winding down, or the connection does not take it now.
    pub fn ask(
        &mut self,
        turn: TurnKey,
        call: &Call,
        deadline: Option<Instant>,
        waiter: W,
    ) -> Result<OutId, (UpdateError, W)> {
        let running = self.sessions.get(turn.session()).is_some_and(|s| s.turns.may_ask(turn.ordinal()));
        if !running {
            return Err((TurnOver.into(), waiter));
        }
        let id = self.core.request(call, deadline, waiter).map_err(|(error, waiter)| (error.into(), waiter))?;
        if let Some(session) = self.sessions.get_mut(turn.session()) {
            // Checked above: the turn runs.
            let _ = session.turns.ask(turn.ordinal(), id);
            self.asks.insert(id, turn.session());
        }
        Ok(id)
    }

    /// Gives up one of our requests: the client is told, and its waiter comes back here instead of in an event (R-054).
    pub fn cancel_request(&mut self, id: OutId) -> Option<W> {
        self.ask_done(id);
        self.core.cancel_request(id).map(|pending| pending.waiter)
    }

    /// Counts an empty text chunk that was refused before it got here (R-154).
    pub fn count_empty_chunk(&mut self) {
        self.core.counters.empty_chunk_rejected += 1;
    }

    /// Closes the connection: nothing more is read, turns are cancelled, what is owed may still be answered for a moment.
    pub fn close(&mut self, now: Instant) {
        if self.drain.is_none() && self.core.phase != Phase::Closed {
            self.start_drain(now, Closed::Locally);
        }
    }

    /// The carrier failed: nothing can be sent or received any more.
    pub fn lost(&mut self) {
        self.finish(Closed::Lost);
    }

    /// To be called from time to time and whenever tokens may have been dropped: answers what they owed.
    pub fn reap(&mut self, now: Instant) {
        for owed in self.core.lost.take() {
            self.core.counters.dropped_reply += 1;
            match owed {
                Owed::Reply(key) => {
                    let cancelled = self.core.inflight.get(key).is_some_and(|entry| entry.cancelled);
                    let error = if cancelled { Error::request_cancelled() } else { Error::internal_error() };
                    self.settle(now, key, &Reply::error(&error));
                }
                Owed::Turn(turn) => self.root_ended(now, turn, None),
            }
        }
    }

    // What can be asked.

    /// True once the handshake is done, until the connection closes.
    pub fn is_initialized(&self) -> bool {
        self.core.phase == Phase::Initialized && !self.core.input_ended
    }

    /// Frames that wait for the answer to `initialize`, bytes of their params, and bytes of a line that has not ended.
    pub fn held(&self) -> (usize, usize, usize) {
        let (frames, bytes) = self.core.held();
        (frames, bytes, self.core.buffered_bytes())
    }

    /// Requests of the client that are not answered, requests of ours that are not answered, open sessions. All are zero
    /// when a connection is at rest without sessions (Inv-17).
    pub fn load(&self) -> (usize, usize, usize) {
        (self.core.inflight.len(), self.core.open_requests(), self.sessions.len())
    }

    // Frames.

    fn frame(&mut self, now: Instant, rx: RxSeq, frame: Inbound) {
        match frame {
            Inbound::Request { id, method, params } => {
                let initialize = &*method == "initialize";
                match self.core.phase {
                    Phase::Uninitialized if initialize => {
                        let Some(key) = self.core.admit(&id, Role::Initialize, params.as_ref()) else { return };
                        self.core.phase = Phase::Initializing;
                        self.note_client(params.as_ref());
                        self.event_request(key, rx, method, params, None);
                    }
                    Phase::Uninitialized => self.core.refuse(&id, &Error::initialize_required(&method)),
                    Phase::Initializing => self.core.hold_request(rx, &id, method, params),
                    Phase::Initialized => {
                        if let Some(key) = self.core.admit(&id, Role::Plain, params.as_ref()) {
                            self.dispatch(now, rx, key, method, params);
                        }
                    }
                    Phase::Closed => {}
                }
            }
            Inbound::Notification { method, params } => {
                if &*method == "$/cancel_request" {
                    self.cancel_inbound(now, rx, params.as_ref());
                    return;
                }
                match self.core.phase {
                    Phase::Initializing => self.core.hold_notification(rx, method, params),
                    Phase::Initialized => self.notification(now, rx, method, params),
                    _ => self.core.counters.dropped_notification += 1,
                }
            }
            Inbound::Response { id, answer } => {
                if let Some((id, pending)) = self.core.take_response(&id) {
                    self.ask_done(id);
                    let outcome = answer.map_or_else(Outcome::Error, Outcome::Result);
                    self.events.push_back(AgentEvent::Outcome { waiter: pending.waiter, outcome });
                }
            }
            Inbound::Unreadable | Inbound::Invalid { .. } | Inbound::MalformedResponse => {}
        }
    }

    /// What the client says it can do, for requests of ours. A retried `initialize` says it anew.
    fn note_client(&mut self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(rename = "clientCapabilities", borrow, default)]
            capabilities: Option<&'a serde_json::value::RawValue>,
        }
        let capabilities = params.and_then(|p| p.decode_lax::<Params<'_>>()).and_then(|p| p.capabilities);
        self.core.theirs = Granted::by_client(capabilities.map(|raw| raw.get()));
    }

    fn dispatch(&mut self, now: Instant, rx: RxSeq, key: RequestKey, method: MethodName, params: Option<RawJson>) {
        let row = match caps::request(Side::Agent, &method) {
            Some(row) => row,
            None if method.starts_with('_') => return self.event_request(key, rx, method, params, None),
            None => return self.refuse(key, &Error::method_not_found(&method)),
        };
        if &*method == "initialize" {
            return self.refuse(key, &refusal::already_initialized());
        }
        if !self.core.ours.takes(row) {
            return self.refuse(key, &Error::method_not_found(&method));
        }
        match &*method {
            "session/prompt" => self.prompt(now, rx, key, params),
            "session/new" => {
                if self.sessions.len() + self.creating >= self.core.config.max_sessions {
                    return self.too_many_sessions(key);
                }
                self.creating += 1;
                self.set_role(key, Role::NewSession);
                self.event_request(key, rx, method, params, None);
            }
            "session/load" | "session/resume" => self.open_session(now, rx, key, method, params),
            "session/close" => self.close_session(now, rx, key, method, params),
            "session/set_mode" => self.set_mode(rx, key, method, params),
            "session/set_config_option" => {
                let Some(id) = self.session_of(key, params.as_ref()) else { return };
                match self.open_key(&id) {
                    Some(_) => self.event_request(key, rx, method, params, Some(id)),
                    None => self.refuse(key, &refusal::unknown_session(&id)),
                }
            }
            _ => self.event_request(key, rx, method, params, None),
        }
    }

    fn notification(&mut self, now: Instant, rx: RxSeq, method: MethodName, params: Option<RawJson>) {
        match &*method {
            "session/cancel" => {
                let Some(id) = params.as_ref().and_then(session_id) else {
                    self.core.counters.dropped_notification += 1;
                    return;
                };
                if let Some(key) = self.sessions.key(&id) {
                    self.cancel_session(now, rx, key);
                }
            }
            _ if method.starts_with('_') => {
                self.events.push_back(AgentEvent::Notification(PeerNotification { method, params, rx }));
            }
            _ => self.core.counters.dropped_notification += 1,
        }
    }

    // Sessions.

    fn cancel_session(&mut self, now: Instant, rx: RxSeq, key: SessionKey) {
        let effects = self.sessions.get_mut(key).map(|session| session.turns.cancel(now, rx)).unwrap_or_default();
        self.apply(now, key, effects);
        self.sessions.touched(now, key);
    }

    fn open_key(&self, id: &str) -> Option<SessionKey> {
        let key = self.sessions.key(id)?;
        matches!(self.sessions.get(key)?.phase, SessionPhase::Open).then_some(key)
    }

    fn remove_session(&mut self, key: SessionKey, idle: bool) {
        let Some(session) = self.sessions.remove(key) else { return };
        for Waiting { prompt: (key, _), .. } in session.waiting {
            self.refuse(key, &refusal::unknown_session(&session.id));
        }
        self.events.push_back(AgentEvent::SessionClosed { session: session.id, idle });
    }

    // Turns.

    fn prompt(&mut self, now: Instant, rx: RxSeq, key: RequestKey, params: Option<RawJson>) {
        let Some(id) = self.session_of(key, params.as_ref()) else { return };
        let params = params.unwrap_or_else(RawJson::empty_object);
        let session = self.sessions.key(&id).and_then(|key| Some((key, self.sessions.get_mut(key)?)));
        match session {
            Some((session, entry)) if matches!(entry.phase, SessionPhase::Opening(_)) => {
                if entry.waiting.len() >= self.core.config.max_waiting_prompts_per_session {
                    return self.refuse(key, &Error::prompt_in_flight());
                }
                entry.waiting.push_back(Waiting { rx, prompt: (key, params) });
                self.set_role(key, Role::WaitingPrompt(session));
            }
            Some((session, entry)) if entry.phase == SessionPhase::Open => {
                self.begin_turn(now, rx, session, key, params);
            }
            _ => self.refuse(key, &refusal::unknown_session(&id)),
        }
    }

    fn begin_turn(&mut self, now: Instant, rx: RxSeq, session: SessionKey, key: RequestKey, params: RawJson) {
        let Some(entry) = self.sessions.get_mut(session) else { return };
        match entry.turns.begin(rx, key) {
            Begin::Run(ordinal) => {
                let turn = TurnKey::new(session, ordinal);
                let id = entry.id.clone();
                self.set_role(key, Role::Turn(turn));
                let token = TurnToken::new(turn, &self.core.lost);
                self.events.push_back(AgentEvent::Prompt { token, key, session: id, params, rx });
                if self.core.input_ended {
                    // Its client is gone: it may say what it has to say, and winds down.
                    self.cancel_session(now, rx, session);
                }
            }
            Begin::BornCancelled(key) => {
                self.core.answer(key, &cancelled_turn());
            }
            Begin::Busy(key) => self.refuse(key, &Error::prompt_in_flight()),
        }
        self.sessions.touched(now, session);
    }

    fn root_ended(&mut self, now: Instant, turn: TurnKey, reply: Option<Reply>) {
        let session = turn.session();
        let says_cancelled = reply.as_ref().and_then(Reply::result).is_some_and(|result| is_cancelled(&result));
        let effects = self
            .sessions
            .get_mut(session)
            .map(|entry| entry.turns.root_ended(turn.ordinal(), reply, says_cancelled))
            .unwrap_or_default();
        self.apply(now, session, effects);
    }

    fn apply(&mut self, now: Instant, session: SessionKey, effects: Vec<Effect<RequestKey, OutId, Answer>>) {
        if effects.is_empty() {
            return;
        }
        let mut ended = false;
        for effect in effects {
            match effect {
                Effect::Cooperate { turn } => {
                    self.events.push_back(AgentEvent::TurnCancelled(TurnKey::new(session, turn)));
                }
                Effect::AbortAsk { ask } => {
                    self.asks.remove(&ask);
                    if let Some(pending) = self.core.cancel_request(ask) {
                        let outcome = Outcome::TurnCancelled;
                        self.events.push_back(AgentEvent::Outcome { waiter: pending.waiter, outcome });
                    }
                }
                Effect::Kill { turn } => {
                    self.events.push_back(AgentEvent::TurnKilled(TurnKey::new(session, turn)));
                }
                Effect::Reply { reply: key, ending, updates, .. } => {
                    ended = true;
                    let reply = match ending {
                        Ending::Finished(reply) => {
                            if updates == 0 && reply.is_ok() {
                                self.core.counters.zero_update_turn += 1;
                            }
                            reply
                        }
                        Ending::Cancelled => cancelled_turn(),
                        Ending::Crashed => Reply::error(&Error::internal_error()),
                    };
                    self.core.answer(key, &reply);
                }
            }
        }
        self.sessions.touched(now, session);
        if ended && self.sessions.get(session).is_some_and(|entry| entry.phase == SessionPhase::Doomed) {
            self.remove_session(session, false);
        }
        if ended {
            self.check_drained();
        }
    }

    fn ask_done(&mut self, id: OutId) {
        if let Some(session) = self.asks.remove(&id).and_then(|key| self.sessions.get_mut(key)) {
            session.turns.ask_done(&id);
        }
    }

    // Answers.

    /// Sends an answer and does what follows from it.
    fn settle(&mut self, now: Instant, key: RequestKey, reply: &Reply) {
        let Some(entry) = self.core.inflight.get(key) else { return };
        match entry.role {
            Role::Initialize => self.initialized(now, key, reply),
            Role::NewSession => self.session_created(now, key, reply),
            Role::OpenSession(session) => self.session_opened(now, key, session, reply),
            Role::CloseSession(session) => {
                self.core.answer(key, reply);
                self.session_closed(session, reply.is_ok());
            }
            // Owed by a turn or by the connection itself, never by a reply token.
            Role::Turn(_) | Role::WaitingPrompt(_) | Role::Held => {}
            Role::Plain | Role::Permission => {
                self.core.answer(key, reply);
            }
        }
        self.check_drained();
    }

    /// R-017: a successful answer makes the connection initialized; what waited for it runs now, in order.
    fn initialized(&mut self, now: Instant, key: RequestKey, reply: &Reply) {
        let ours = reply.result().map(|result| {
            #[derive(Deserialize)]
            struct Answer<'a> {
                #[serde(rename = "agentCapabilities", borrow, default)]
                capabilities: Option<&'a serde_json::value::RawValue>,
            }
            let capabilities = result.decode_lax::<Answer<'_>>().and_then(|answer| answer.capabilities);
            Granted::by_agent(capabilities.map(|raw| raw.get()))
        });
        self.core.answer(key, reply);
        match ours {
            Some(ours) => {
                self.core.ours = ours;
                self.core.phase = Phase::Initialized;
            }
            None => self.core.phase = Phase::Uninitialized,
        }
        for held in self.core.take_held() {
            match (held, self.core.phase) {
                (Held::Request { rx, key, method, params }, Phase::Initialized) => {
                    self.set_role(key, Role::Plain);
                    self.dispatch(now, rx, key, method, params);
                }
                (Held::Notification { rx, method, params }, Phase::Initialized) => {
                    self.notification(now, rx, method, params);
                }
                // The client may try again: the first initialize that waited is that try.
                (Held::Request { rx, key, method, params }, Phase::Uninitialized) if &*method == "initialize" => {
                    self.set_role(key, Role::Initialize);
                    self.core.phase = Phase::Initializing;
                    self.note_client(params.as_ref());
                    self.event_request(key, rx, method, params, None);
                }
                (held, Phase::Initializing) => {
                    // There was room for it before.
                    let _ = self.core.hold(held);
                }
                (Held::Request { key, method, .. }, _) => self.refuse(key, &Error::initialize_required(&method)),
                (Held::Notification { .. }, _) => self.core.counters.dropped_notification += 1,
            }
        }
    }

    // Cancellation and the end.

    /// `$/cancel_request`: the request is still answered, once.
    fn cancel_inbound(&mut self, now: Instant, rx: RxSeq, params: Option<&RawJson>) {
        let id = params.and_then(super::inbound::cancelled_id);
        let Some(key) = id.and_then(|id| self.core.inflight.key(&id)) else { return };
        let Some(entry) = self.core.inflight.get_mut(key) else { return };
        if std::mem::replace(&mut entry.cancelled, true) {
            return;
        }
        match entry.role {
            Role::Turn(turn) => self.cancel_session(now, rx, turn.session()),
            Role::WaitingPrompt(session) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.waiting.retain(|waiting| waiting.prompt.0 != key);
                }
                self.core.answer(key, &cancelled_turn());
            }
            Role::Held => {
                let prompt = self.core.take_held_request(key).is_some_and(|method| method == "session/prompt");
                let reply = if prompt { cancelled_turn() } else { Reply::error(&Error::request_cancelled()) };
                self.core.answer(key, &reply);
            }
            _ => self.events.push_back(AgentEvent::RequestCancelled(key)),
        }
    }

    fn start_drain(&mut self, now: Instant, why: Closed) {
        self.core.input_ended = true;
        self.drain = Some((now + DRAIN_GRACE, why));
        for (_, pending) in self.core.drain_requests() {
            self.events.push_back(AgentEvent::Outcome { waiter: pending.waiter, outcome: Outcome::Closed });
        }
        for key in self.sessions.keys() {
            self.cancel_session(now, RxSeq::default(), key);
            let waiting = self.sessions.get_mut(key).map(|s| std::mem::take(&mut s.waiting)).unwrap_or_default();
            for Waiting { prompt: (key, _), .. } in waiting {
                self.core.answer(key, &cancelled_turn());
            }
        }
        self.check_drained();
    }

    fn check_drained(&mut self) {
        if let Some((_, why)) = self.drain
            && self.core.inflight.len() == 0
        {
            self.finish(why);
        }
    }

    /// Nothing is owed any more: what is left unanswered stays so, each open request of ours ends once (Inv-12).
    fn finish(&mut self, why: Closed) {
        if self.core.phase == Phase::Closed {
            return;
        }
        self.core.close();
        self.drain = None;
        for (_, pending) in self.core.drain_requests() {
            self.events.push_back(AgentEvent::Outcome { waiter: pending.waiter, outcome: Outcome::Closed });
        }
        for key in self.sessions.keys() {
            if let Some(mut session) = self.sessions.remove(key) {
                session.turns.abandon();
            }
        }
        self.asks.clear();
        self.events.push_back(AgentEvent::Closed(why));
    }

    // Small things.

    fn event_request(
        &mut self,
        key: RequestKey,
        rx: RxSeq,
        method: MethodName,
        params: Option<RawJson>,
        session: Option<Arc<str>>,
    ) {
        let token = self.core.token(key);
        let request = PeerRequest { token, method, params, rx };
        self.events.push_back(AgentEvent::Request { request, session });
    }

    fn refuse(&mut self, key: RequestKey, error: &Error) {
        self.core.answer(key, &Reply::error(error));
    }

    fn too_many_sessions(&mut self, key: RequestKey) {
        self.core.counters.shed_request += 1;
        let limit = self.core.config.max_sessions;
        self.refuse(key, &refusal::busy("too many sessions", limit));
    }

    fn set_role(&mut self, key: RequestKey, role: Role) {
        if let Some(entry) = self.core.inflight.get_mut(key) {
            entry.role = role;
        }
    }

    /// The session that a request names, or -32602 for the request.
    fn session_of(&mut self, key: RequestKey, params: Option<&RawJson>) -> Option<Arc<str>> {
        let Some(id) = params.and_then(session_id) else {
            self.refuse(key, &refusal::params("sessionId", "expected a string"));
            return None;
        };
        let open = self.sessions.key(&id).and_then(|key| self.sessions.get(key));
        Some(open.map_or_else(|| Arc::from(&*id), |session| session.id.clone()))
    }
}

/// `sessionId` of some params, if it is a string.
pub(crate) fn session_id(params: &RawJson) -> Option<Cow<'_, str>> {
    // Nearly everybody writes it first.
    if let Some(rest) = params.as_bytes().strip_prefix(b"{\"sessionId\":\"")
        && let Some(end) = memchr::memchr2(b'"', b'\\', rest)
        && rest.get(end) == Some(&b'"')
        && let Ok(id) = std::str::from_utf8(&rest[..end])
    {
        return Some(Cow::Borrowed(id));
    }
    params.string_member("sessionId")
}

fn cancelled_turn() -> Reply {
    Reply::raw(&RawJson::from_static(r#"{"stopReason":"cancelled"}"#))
}

fn is_cancelled(result: &RawJson) -> bool {
    result.string_member("stopReason").is_some_and(|reason| reason == "cancelled")
}
