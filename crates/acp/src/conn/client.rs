//! The client's end: it talks to an agent.
// Over 600 lines because the end is one value with one set of verbs, and its rules refer to each other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;

use super::agent::session_id;
use super::caps::{self, Granted};
use super::core::{Core, Phase};
use super::encode::{Call, Reply};
use super::inbound::{Inbound, MethodName};
use super::inflight::{Entry, Owed, ReplyToken, RequestKey, Role};
use super::{Closed, Config, OutId, Outcome, Output, PeerNotification, PeerRequest, RawJson, SendError};
use crate::Error;
use crate::keys::KeyMap;
use crate::methods::Side;
use crate::session::RxSeq;

/// What the client's application must see.
#[derive(Debug)]
pub enum ClientEvent<W> {
    /// A request; answer it with [`ClientEnd::reply`].
    Request {
        /// The request.
        request: PeerRequest,
        /// The session that it names, where it names one.
        session: Option<Arc<str>>,
    },
    /// A `session/update`.
    Update {
        /// The session.
        session: Arc<str>,
        /// The turn that it belongs to, if a prompt of ours is open on the session.
        delivery: Option<Delivery>,
        /// The params, not decoded.
        params: RawJson,
        /// Position among all received frames.
        rx: RxSeq,
    },
    /// Any other notification that is known or an extension.
    Notification(PeerNotification),
    /// The agent gave up a request, or its turn was cancelled; in the second case the client has been answered for.
    RequestCancelled(RequestKey),
    /// One of our requests ended. All updates that came before it have been raised before it.
    Outcome {
        /// What was given with the request.
        waiter: W,
        /// How it ended.
        outcome: Outcome,
        /// For a prompt: its session, and how many updates were raised for it (D1, D5).
        turn: Option<(Arc<str>, u64)>,
    },
    /// The agent has closed a session, as it was asked to. The outcome of that request follows.
    SessionClosed {
        /// The session.
        session: Arc<str>,
    },
    /// The last event.
    Closed(Closed),
}

/// To which turn an update belongs, and its place there. Assigned where it was received; nothing that the agent writes
/// has a part in it (R-180).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The prompt.
    pub prompt: OutId,
    /// From 0, without a gap.
    pub ordinal: u64,
}

/// The client's end of a connection. After any call: drain [`poll_output`](Self::poll_output), then
/// [`poll_event`](Self::poll_event), then look at [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct ClientEnd<W> {
    pub(super) core: Core<W>,
    sessions: HashMap<Arc<str>, Session>,
    /// Updates of sessions whose id no answer has named yet.
    early: HashMap<Arc<str>, VecDeque<(RxSeq, RawJson)>>,
    early_bytes: usize,
    /// What the open requests are about, where their outcome matters here.
    roles: KeyMap<OutId, Asked>,
    /// Requests for `session/new` that are open: they count as sessions.
    creating: usize,
    events: VecDeque<ClientEvent<W>>,
}

#[derive(Debug)]
struct Session {
    id: Arc<str>,
    /// An answer of the agent's has named it, or opened it.
    opened: bool,
    /// The open prompt that gets the updates, and how many it got.
    turn: Option<(OutId, u64)>,
    /// `session/cancel` was sent and the turn has not ended.
    cancelling: bool,
}

#[derive(Debug, Clone)]
enum Asked {
    Initialize,
    NewSession,
    /// `session/load`, `session/resume`.
    Open(Arc<str>),
    Close(Arc<str>),
    Prompt(Arc<str>),
}

impl<W> ClientEnd<W> {
    /// A connection on which `initialize` is to be sent first.
    pub fn new(config: Config) -> Self {
        Self {
            core: Core::new(config),
            sessions: HashMap::new(),
            early: HashMap::new(),
            early_bytes: 0,
            roles: KeyMap::default(),
            creating: 0,
            events: VecDeque::new(),
        }
    }

    // The five verbs.

    /// Bytes arrived.
    pub fn feed(&mut self, now: Instant, bytes: &[u8]) {
        let _ = now;
        self.core.push_bytes(bytes);
        while let Some((rx, frame)) = self.core.next_frame() {
            self.frame(rx, frame);
        }
    }

    /// The agent ended its stream: every open request of ours ends as "closed".
    pub fn eof(&mut self, now: Instant) {
        let _ = now;
        if self.core.phase == Phase::Closed {
            return;
        }
        if let Some((rx, frame)) = self.core.finish_input() {
            self.frame(rx, frame);
        }
        self.finish(Closed::ByPeer);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent<W>> {
        self.events.pop_front()
    }

    /// The next bytes to write, or the end of writing.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.poll_output()
    }

    /// When [`ClientEnd::handle_timeout`] has to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.next_deadline()
    }

    /// The time that [`ClientEnd::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for (id, pending) in self.core.expire(now) {
            self.outcome(id, pending.waiter, Outcome::TimedOut);
        }
    }

    // Commands.

    /// `bytes` of what [`ClientEnd::poll_output`] gave have been written.
    pub fn wrote(&mut self, bytes: usize) {
        self.core.out.written(bytes);
    }

    /// Sends a request; `waiter` comes back in [`ClientEvent::Outcome`], exactly once.
    ///
    /// The first must be `initialize`. What a request is about is read from its method and params: a session that is
    /// loaded is known from here on, a prompt takes the updates of its session until it ends.
    ///
    /// # Errors
    /// The connection does not take it now: the waiter is given back, no outcome will come.
    pub fn request(&mut self, call: &Call, deadline: Option<Instant>, waiter: W) -> Result<OutId, (SendError, W)> {
        let asked = self.what(call);
        let opens = match &asked {
            Some(Asked::NewSession) => true,
            Some(Asked::Open(session) | Asked::Prompt(session)) => !self.sessions.contains_key(session),
            _ => false,
        };
        if matches!(asked, Some(Asked::Initialize)) && self.core.phase != Phase::Uninitialized && !self.is_closed() {
            return Err((SendError::AlreadyInitialized, waiter));
        }
        if opens && self.sessions.len() + self.creating >= self.core.config.max_sessions {
            return Err((SendError::TooManySessions { limit: self.core.config.max_sessions }, waiter));
        }
        let id = self.core.request(call, deadline, waiter)?;
        match &asked {
            Some(Asked::Initialize) => {
                self.core.phase = Phase::Initializing;
                self.core.ours = {
                    let capabilities = call.params().and_then(|params| client_capabilities(&params));
                    Granted::by_client(capabilities.as_ref().map(RawJson::as_str))
                };
            }
            Some(Asked::Open(session)) => self.know(session.clone()),
            Some(Asked::Prompt(session)) => {
                let session = self.session(session.clone());
                if session.turn.is_none() {
                    session.turn = Some((id, 0));
                    session.cancelling = false;
                }
            }
            Some(Asked::NewSession) => self.creating += 1,
            Some(Asked::Close(_)) | None => {}
        }
        if let Some(asked) = asked {
            self.roles.insert(id, asked);
        }
        Ok(id)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The connection does not take it now. Nothing was sent.
    pub fn notify(&mut self, call: &Call) -> Result<(), SendError> {
        self.core.notify(call)
    }

    /// Cancels the turn of a session: sends `session/cancel`, and answers every permission request of the session that is
    /// open, or that still comes while the turn winds down, with "cancelled". The prompt ends with the agent's answer.
    ///
    /// # Errors
    /// The connection does not take it now. Nothing was sent.
    pub fn cancel_turn(&mut self, session: &str) -> Result<(), SendError> {
        let call = Call::new("session/cancel", &CancelTurn { session_id: session }).map_err(|_| SendError::Closed)?;
        self.core.may_call("session/cancel")?;
        // It does not wait behind calls; but who cancels again and again, and is not read, is told so.
        let limit = self.core.config.max_reply_backlog_bytes;
        if self.core.out.reply_bytes() >= limit {
            return Err(SendError::Full { limit_bytes: limit });
        }
        self.core.out.own_notification(&call);
        if let Some(session) = self.sessions.get_mut(session)
            && session.turn.is_some()
        {
            session.cancelling = true;
        }
        let open = self
            .core
            .inflight
            .keys_where(|entry| entry.role == Role::Permission && entry.session.as_deref() == Some(session));
        for key in open {
            self.core.answer(key, &cancelled_permission());
            self.events.push_back(ClientEvent::RequestCancelled(key));
        }
        Ok(())
    }

    /// Gives up one of our requests: the agent is told, and its waiter comes back here instead of in an event (R-054).
    ///
    /// A prompt is not given up like this, since its turn would go on without an owner: use [`ClientEnd::cancel_turn`] and
    /// wait for its end.
    pub fn cancel_request(&mut self, id: OutId) -> Option<W> {
        let pending = self.core.cancel_request(id)?;
        self.forget(id);
        Some(pending.waiter)
    }

    /// Answers a request. An answer to a request that was answered for its handler is dropped.
    ///
    /// A token of another connection answers nothing here; its request is answered -32603 there.
    pub fn reply(&mut self, token: ReplyToken, reply: &Reply) {
        if token.belongs_to(&self.core.lost) {
            let key = token.discharge();
            self.core.answer(key, reply);
        }
    }

    /// Closes the connection: what waits to be written is, and the agent sees the end of its input.
    pub fn close(&mut self) {
        self.finish(Closed::Locally);
    }

    /// The carrier failed: nothing can be sent or received any more.
    pub fn lost(&mut self) {
        self.finish(Closed::Lost);
    }

    /// To be called from time to time and whenever tokens may have been dropped: answers what they owed.
    pub fn reap(&mut self) {
        for owed in self.core.lost.take() {
            self.core.counters.dropped_reply += 1;
            if let Owed::Reply(key) = owed {
                let cancelled = self.core.inflight.get(key).is_some_and(|entry| entry.cancelled);
                let error = if cancelled { Error::request_cancelled() } else { Error::internal_error() };
                self.core.answer(key, &Reply::error(&error));
            }
        }
    }

    // What can be asked.

    /// True once the handshake is done, until the connection closes.
    pub fn is_initialized(&self) -> bool {
        self.core.phase == Phase::Initialized
    }

    /// Updates that are kept for sessions that are not known yet, their bytes, and bytes of a line that has not ended.
    pub fn held(&self) -> (usize, usize, usize) {
        (self.early.values().map(VecDeque::len).sum(), self.early_bytes, self.core.buffered_bytes())
    }

    /// Requests of the agent that are not answered, requests of ours that are not answered, sessions known.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.core.inflight.len(), self.core.open_requests(), self.sessions.len())
    }

    // Frames.

    fn frame(&mut self, rx: RxSeq, frame: Inbound) {
        match frame {
            Inbound::Request { id, method, params } => {
                if self.core.phase != Phase::Initialized {
                    return self.core.refuse(&id, &Error::initialize_required(&method));
                }
                if let Some(key) = self.core.admit(&id, Role::Plain, params.as_ref()) {
                    self.request_in(key, rx, method, params);
                }
            }
            Inbound::Notification { method, params } => self.notification(rx, method, params),
            Inbound::Response { id, answer } => {
                if let Some((id, pending)) = self.core.take_response(&id) {
                    let outcome = answer.map_or_else(Outcome::Error, Outcome::Result);
                    self.outcome(id, pending.waiter, outcome);
                }
            }
            Inbound::Unreadable | Inbound::Invalid { .. } | Inbound::MalformedResponse => {}
        }
    }

    fn request_in(&mut self, key: RequestKey, rx: RxSeq, method: MethodName, params: Option<RawJson>) {
        match caps::request(Side::Client, &method) {
            Some(row) if !self.core.ours.takes(row) => return self.refuse(key, &Error::method_not_found(&method)),
            None if !method.starts_with('_') => return self.refuse(key, &Error::method_not_found(&method)),
            _ => {}
        }
        let session: Option<Arc<str>> = params.as_ref().and_then(session_id).map(|id| self.intern(&id));
        let permission = &*method == "session/request_permission";
        if let Some(entry) = self.core.inflight.get_mut(key) {
            entry.session.clone_from(&session);
            entry.role = if permission { Role::Permission } else { Role::Plain };
        }
        let winding_down =
            session.as_deref().and_then(|id| self.sessions.get(id)).is_some_and(|session| session.cancelling);
        if permission && winding_down {
            self.core.answer(key, &cancelled_permission());
            return;
        }
        let request = PeerRequest { token: self.core.token(key), method, params, rx };
        self.events.push_back(ClientEvent::Request { request, session });
    }

    fn notification(&mut self, rx: RxSeq, method: MethodName, params: Option<RawJson>) {
        if &*method == "$/cancel_request" {
            return self.cancel_inbound(params.as_ref());
        }
        if self.core.phase != Phase::Initialized {
            self.core.counters.dropped_notification += 1;
            return;
        }
        match (&*method, params) {
            ("session/update", Some(params)) => self.update(rx, params),
            (_, params) if method.starts_with('_') || caps::notification(Side::Client, &method).is_some() => {
                self.events.push_back(ClientEvent::Notification(PeerNotification { method, params, rx }));
            }
            _ => self.core.counters.dropped_notification += 1,
        }
    }

    fn update(&mut self, rx: RxSeq, params: RawJson) {
        let Some(id) = session_id(&params) else {
            self.core.counters.dropped_notification += 1;
            return;
        };
        let Some(session) = self.sessions.get_mut(&*id) else {
            return self.keep_early(rx, &id, &params);
        };
        let delivery = session.turn.as_mut().map(|(prompt, count)| {
            let ordinal = *count;
            *count += 1;
            Delivery { prompt: *prompt, ordinal }
        });
        let session = session.id.clone();
        self.events.push_back(ClientEvent::Update { session, delivery, params, rx });
    }

    /// Agents send updates of a session before the answer that names it (acp-sdk 30, 31). They are kept, within bounds.
    fn keep_early(&mut self, rx: RxSeq, session: &str, params: &RawJson) {
        let config = &self.core.config;
        let bytes = params.as_bytes().len();
        let room = session.len() <= config.max_id_bytes
            && self.early_bytes.saturating_add(bytes) <= config.max_early_bytes
            && match self.early.get(session) {
                Some(kept) => kept.len() < config.max_early_updates_per_session,
                None => self.early.len() < config.max_early_sessions && config.max_early_updates_per_session > 0,
            };
        if !room {
            self.core.counters.dropped_early_update += 1;
            return;
        }
        self.early_bytes += bytes;
        match self.early.get_mut(session) {
            Some(kept) => kept.push_back((rx, params.detached())),
            None => {
                self.early.insert(session.into(), VecDeque::from([(rx, params.detached())]));
            }
        }
    }

    /// From here on updates of this session have an addressee; those that came before follow now.
    fn know(&mut self, session: Arc<str>) {
        self.session(session.clone());
        for (rx, params) in self.early.remove(&session).unwrap_or_default() {
            self.early_bytes -= params.as_bytes().len();
            self.events.push_back(ClientEvent::Update { session: session.clone(), delivery: None, params, rx });
        }
    }

    fn session(&mut self, id: Arc<str>) -> &mut Session {
        self.sessions.entry(id.clone()).or_insert_with(|| Session { id, opened: false, turn: None, cancelling: false })
    }

    fn cancel_inbound(&mut self, params: Option<&RawJson>) {
        let id = params.and_then(super::inbound::cancelled_id);
        let Some(key) = id.and_then(|id| self.core.inflight.key(&id)) else { return };
        let Some(Entry { cancelled, .. }) = self.core.inflight.get_mut(key) else { return };
        if !std::mem::replace(cancelled, true) {
            self.events.push_back(ClientEvent::RequestCancelled(key));
        }
    }

    // Outcomes.

    fn what(&self, call: &Call) -> Option<Asked> {
        let session = || call.params().as_ref().and_then(session_id).map(|id| self.intern(&id));
        match call.method() {
            "initialize" => Some(Asked::Initialize),
            "session/new" => Some(Asked::NewSession),
            "session/load" | "session/resume" => session().map(Asked::Open),
            "session/close" => session().map(Asked::Close),
            "session/prompt" => session().map(Asked::Prompt),
            _ => None,
        }
    }

    fn intern(&self, id: &str) -> Arc<str> {
        self.sessions.get_key_value(id).map_or_else(|| id.into(), |(id, _)| id.clone())
    }

    fn outcome(&mut self, id: OutId, waiter: W, outcome: Outcome) {
        let asked = self.roles.remove(&id);
        let mut turn = None;
        let mut known: Option<Arc<str>> = None;
        if matches!(asked, Some(Asked::NewSession)) {
            self.creating -= 1;
        }
        match (&asked, &outcome) {
            (Some(Asked::Initialize), Outcome::Result(result)) => self.initialized(result),
            (Some(Asked::Initialize), _) if self.core.phase == Phase::Initializing => {
                self.core.phase = Phase::Uninitialized;
            }
            (Some(Asked::NewSession), Outcome::Result(result)) => {
                let most = self.core.config.max_id_bytes;
                known = session_id(result).filter(|id| id.len() <= most).map(|id| Arc::from(&*id));
            }
            (Some(Asked::Open(session)), Outcome::Result(_)) => self.session(session.clone()).opened = true,
            (Some(Asked::Open(session)), _) => self.forget_unopened(session),
            (Some(Asked::Close(session)), Outcome::Result(_)) => {
                self.sessions.remove(session);
                self.events.push_back(ClientEvent::SessionClosed { session: session.clone() });
            }
            (Some(Asked::Prompt(session)), _) => {
                let mut updates = 0;
                if let Some(session) = self.sessions.get_mut(session)
                    && let Some((_, count)) = session.turn.take_if(|(prompt, _)| *prompt == id)
                {
                    session.cancelling = false;
                    updates = count;
                }
                turn = Some((session.clone(), updates));
                if !matches!(outcome, Outcome::Result(_)) {
                    self.forget_unopened(session);
                }
            }
            _ => {}
        }
        self.events.push_back(ClientEvent::Outcome { waiter, outcome, turn });
        if let Some(session) = known {
            self.know(session.clone());
            self.session(session).opened = true;
        }
    }

    /// A session that no answer has opened is not there if the request that named it fails.
    fn forget_unopened(&mut self, id: &str) {
        if self.sessions.get(id).is_some_and(|session| !session.opened && session.turn.is_none()) {
            self.sessions.remove(id);
        }
    }

    fn initialized(&mut self, result: &RawJson) {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(rename = "protocolVersion")]
            _version: u16,
            #[serde(rename = "agentCapabilities", borrow, default)]
            capabilities: Option<&'a serde_json::value::RawValue>,
        }
        if self.core.phase != Phase::Initializing {
            return;
        }
        match result.decode_lax::<Answer<'_>>() {
            Some(answer) => {
                self.core.theirs = Granted::by_agent(answer.capabilities.map(|raw| raw.get()));
                self.core.phase = Phase::Initialized;
            }
            None => self.core.phase = Phase::Uninitialized,
        }
    }

    fn forget(&mut self, id: OutId) {
        match self.roles.remove(&id) {
            Some(Asked::Initialize) if self.core.phase == Phase::Initializing => {
                self.core.phase = Phase::Uninitialized;
            }
            Some(Asked::NewSession) => self.creating -= 1,
            Some(Asked::Open(session)) => self.forget_unopened(&session),
            Some(Asked::Prompt(session)) => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.turn.take_if(|(prompt, _)| *prompt == id);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, why: Closed) {
        if self.core.phase == Phase::Closed {
            return;
        }
        self.core.close();
        for (id, pending) in self.core.drain_requests() {
            self.outcome(id, pending.waiter, Outcome::Closed);
        }
        self.roles.clear();
        self.early.clear();
        self.early_bytes = 0;
        self.sessions.clear();
        self.events.push_back(ClientEvent::Closed(why));
    }

    fn refuse(&mut self, key: RequestKey, error: &Error) {
        self.core.answer(key, &Reply::error(error));
    }
}

#[derive(serde::Serialize)]
struct CancelTurn<'a> {
    #[serde(rename = "sessionId")]
    session_id: &'a str,
}

fn client_capabilities(params: &RawJson) -> Option<RawJson> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(rename = "clientCapabilities", borrow, default)]
        capabilities: Option<&'a serde_json::value::RawValue>,
    }
    params.decode_lax::<Params<'_>>()?.capabilities.map(|raw| params.part(raw.get()))
}

fn cancelled_permission() -> Reply {
    Reply::raw(&RawJson::from_static(r#"{"outcome":{"outcome":"cancelled"}}"#))
}
