//! What both ends of a connection have in common: lines in, frames out, our requests and their outcomes, the handshake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use pintle_wire::{Framer, Id, Line, PeerId, RequestTable};

use super::caps::Granted;
use super::encode::{Call, Outgoing, Reply};
use super::inbound::{self, Inbound, MethodName};
use super::inflight::{InFlight, Lost, ReplyToken, RequestKey, Role};
use super::{Config, Counters, OutId, Output, RawJson, SendError};
use crate::session::RxSeq;
use crate::{Error, ErrorCode};

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Uninitialized,
    /// `initialize` is being answered.
    Initializing,
    Initialized,
    Closed,
}

/// A frame kept while `initialize` is being answered.
#[derive(Debug)]
pub(crate) enum Held {
    Request { rx: RxSeq, key: RequestKey, method: MethodName, params: Option<RawJson> },
    Notification { rx: RxSeq, method: MethodName, params: Option<RawJson> },
}

impl Held {
    fn bytes(&self) -> usize {
        let (Self::Request { params, .. } | Self::Notification { params, .. }) = self;
        params.as_ref().map_or(0, |params| params.as_bytes().len())
    }
}

/// One of our requests.
#[derive(Debug)]
pub(crate) struct Pending<W> {
    pub(crate) waiter: W,
}

#[derive(Debug)]
pub(crate) struct Core<W> {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    pub(crate) inflight: InFlight,
    held: VecDeque<Held>,
    held_bytes: usize,
    pub(crate) out: Outgoing,
    pub(crate) counters: Counters,
    /// What we advertised; decides what we answer.
    pub(crate) ours: Granted,
    /// What the peer advertised; decides what we ask.
    pub(crate) theirs: Granted,
    pub(crate) lost: Arc<Lost>,
    /// No more comes in; what is owed may still be answered.
    pub(crate) input_ended: bool,
    framer: Framer,
    seen_any_line: bool,
    rx: u64,
    requests: RequestTable<i64, Pending<W>, Instant>,
    last_id: i64,
    close_wanted: bool,
    close_told: bool,
}

impl<W> Core<W> {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            framer: Framer::new(config.max_line_bytes),
            requests: RequestTable::new(config.max_outbound_requests),
            config,
            phase: Phase::Uninitialized,
            inflight: InFlight::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            out: Outgoing::default(),
            counters: Counters::default(),
            ours: Granted::default(),
            theirs: Granted::default(),
            lost: Arc::default(),
            input_ended: false,
            seen_any_line: false,
            rx: 0,
            last_id: 0,
            close_wanted: false,
            close_told: false,
        }
    }

    // Lines in.

    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        if !self.input_ended {
            self.framer.feed_slice(bytes);
        }
    }

    /// Ends the input: a last line without LF still counts.
    pub(crate) fn finish_input(&mut self) -> Option<(RxSeq, Inbound)> {
        let line = self.framer.finish()?;
        self.read(line)
    }

    /// The next frame that was received whole, and what it is. Errors of the frame itself are already answered.
    pub(crate) fn next_frame(&mut self) -> Option<(RxSeq, Inbound)> {
        while self.phase != Phase::Closed
            && let Some(line) = self.framer.next()
        {
            if let Some(frame) = self.read(line) {
                return Some(frame);
            }
        }
        None
    }

    fn read(&mut self, line: Line) -> Option<(RxSeq, Inbound)> {
        let line = match line {
            Line::Blank => return None,
            Line::TooLong { .. } => {
                self.take_rx();
                self.counters.parse_error += 1;
                self.out.reply(None, &Reply::error(&Error::parse_error()));
                return None;
            }
            Line::Complete(line) => line,
        };
        let rx = self.take_rx();
        let line = self.without_bom(line);
        let (frame, lone_surrogates) = inbound::read(&line, &self.config);
        self.counters.lone_surrogates += u64::from(lone_surrogates);
        match frame {
            Inbound::Unreadable => {
                self.counters.parse_error += 1;
                self.out.reply(None, &Reply::error(&Error::parse_error()));
                None
            }
            Inbound::Invalid { id } => {
                self.counters.invalid_frame += 1;
                self.out.reply(id.as_ref(), &Reply::error(&Error::from(ErrorCode::InvalidRequest)));
                None
            }
            Inbound::MalformedResponse => {
                self.counters.malformed_response += 1;
                None
            }
            frame => Some((rx, frame)),
        }
    }

    /// One byte order mark at the very start is skipped.
    fn without_bom(&mut self, line: Bytes) -> Bytes {
        let first = !std::mem::replace(&mut self.seen_any_line, true);
        if first && line.starts_with(b"\xef\xbb\xbf") { line.slice(3..) } else { line }
    }

    fn take_rx(&mut self) -> RxSeq {
        self.rx += 1;
        self.counters.frames_in = self.rx;
        RxSeq::new(self.rx)
    }

    // The peer's requests.

    /// Accepts a request, or refuses it in the order of acp-runtime chapter 5: duplicate id, then cap.
    pub(crate) fn admit(&mut self, id: &PeerId, role: Role, params: Option<&RawJson>) -> Option<RequestKey> {
        if self.inflight.key(id.id()).is_some() {
            // An answer would be taken for the first request's.
            self.counters.duplicate_inflight_id += 1;
            return None;
        }
        let bytes = params.map_or(0, |params| params.as_bytes().len());
        let (requests, most_bytes) = (self.config.max_inflight_requests, self.config.max_inflight_bytes);
        let busy = if self.inflight.len() >= requests {
            refusal::busy("too many requests in flight", requests)
        } else if self.inflight.len() > 0 && self.inflight.bytes().saturating_add(bytes) > most_bytes {
            refusal::busy("too many bytes of requests in flight", most_bytes)
        } else {
            return Some(self.inflight.insert(id.clone(), role, bytes));
        };
        self.counters.shed_request += 1;
        self.out.reply(Some(id), &Reply::error(&busy));
        None
    }

    /// Keeps an accepted request until `initialize` is answered.
    pub(crate) fn hold_request(&mut self, rx: RxSeq, id: &PeerId, method: MethodName, params: Option<RawJson>) {
        let Some(key) = self.admit(id, Role::Held, params.as_ref()) else { return };
        let held = Held::Request { rx, key, method, params: params.map(|params| params.detached()) };
        if let Some(limit) = self.hold(held) {
            self.counters.shed_request += 1;
            self.answer(key, &Reply::error(&refusal::busy("too much before the handshake is done", limit)));
        }
    }

    /// Keeps a notification until `initialize` is answered.
    pub(crate) fn hold_notification(&mut self, rx: RxSeq, method: MethodName, params: Option<RawJson>) {
        let held = Held::Notification { rx, method, params: params.map(|params| params.detached()) };
        if self.hold(held).is_some() {
            self.counters.shed_notification += 1;
        }
    }

    /// Keeps a frame, or says which bound has been reached.
    pub(crate) fn hold(&mut self, held: Held) -> Option<usize> {
        let bytes = held.bytes();
        if self.held.len() >= self.config.max_held_frames {
            return Some(self.config.max_held_frames);
        }
        if !self.held.is_empty() && self.held_bytes.saturating_add(bytes) > self.config.max_held_bytes {
            return Some(self.config.max_held_bytes);
        }
        self.held_bytes += bytes;
        self.held.push_back(held);
        None
    }

    /// Everything that was kept, in order.
    pub(crate) fn take_held(&mut self) -> VecDeque<Held> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }

    /// A request that was kept, out of its turn.
    pub(crate) fn take_held_request(&mut self, wanted: RequestKey) -> Option<MethodName> {
        let at = self.held.iter().position(|held| matches!(held, Held::Request { key, .. } if *key == wanted))?;
        let held = self.held.remove(at)?;
        self.held_bytes -= held.bytes();
        let (Held::Request { method, .. } | Held::Notification { method, .. }) = held;
        Some(method)
    }

    /// Frames that are kept, and bytes of their params.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.held_bytes)
    }

    /// Sends the answer to an accepted request and forgets it; `None` if it is not open any more.
    pub(crate) fn answer(&mut self, key: RequestKey, reply: &Reply) -> Option<super::inflight::Entry> {
        let entry = self.inflight.remove(key)?;
        if self.phase != Phase::Closed {
            self.out.reply(Some(&entry.id), reply);
        }
        Some(entry)
    }

    pub(crate) fn refuse(&mut self, id: &PeerId, error: &Error) {
        self.out.reply(Some(id), &Reply::error(error));
    }

    pub(crate) fn token(&self, key: RequestKey) -> ReplyToken {
        ReplyToken::new(key, &self.lost)
    }

    // Our requests.

    /// Sends a request, unless nothing may be sent now. The waiter comes back with the outcome, or at once.
    pub(crate) fn request(
        &mut self,
        call: &Call,
        deadline: Option<Instant>,
        waiter: W,
    ) -> Result<OutId, (SendError, W)> {
        // Without input there is no answer to wait for.
        let may = if self.input_ended { Err(SendError::Closed) } else { self.may_send(call) };
        if let Err(error) = may {
            return Err((error, waiter));
        }
        let limit = self.config.max_outbound_requests;
        if self.requests.len() >= limit {
            return Err((SendError::TooManyRequests { limit }, waiter));
        }
        let id = self.last_id + 1;
        self.last_id = id;
        // There is room, and the id is new.
        let _ = self.requests.insert(id, Pending { waiter }, deadline);
        self.out.request(id, call);
        Ok(OutId::new(id))
    }

    /// Sends a notification, unless nothing may be sent now.
    pub(crate) fn notify(&mut self, call: &Call) -> Result<(), SendError> {
        self.may_send(call)?;
        self.out.notification(call);
        Ok(())
    }

    pub(crate) fn may_send(&self, call: &Call) -> Result<(), SendError> {
        self.may_call(call.method())?;
        self.has_room()
    }

    /// Like [`Core::may_send`], for the few calls that must not wait for room.
    pub(crate) fn may_call(&self, method: &str) -> Result<(), SendError> {
        match self.phase {
            Phase::Closed => return Err(SendError::Closed),
            Phase::Initialized => {}
            Phase::Uninitialized | Phase::Initializing if method == "initialize" => {}
            Phase::Uninitialized | Phase::Initializing => return Err(SendError::NotInitialized),
        }
        if self.theirs.allows(method) { Ok(()) } else { Err(SendError::NotAdvertised) }
    }

    fn has_room(&self) -> Result<(), SendError> {
        let limit = self.config.max_call_backlog_bytes;
        if self.out.call_bytes() >= limit { Err(SendError::Full { limit_bytes: limit }) } else { Ok(()) }
    }

    /// Gives up one of our requests: the peer is told, and nothing about it is ever reported.
    pub(crate) fn cancel_request(&mut self, id: OutId) -> Option<Pending<W>> {
        let pending = self.requests.remove(&id.get())?;
        self.send_cancel(id);
        Some(pending)
    }

    fn send_cancel(&mut self, id: OutId) {
        if self.phase != Phase::Closed
            && let Ok(call) = Call::new("$/cancel_request", &CancelRequest { request_id: id.get() })
        {
            self.out.own_notification(&call);
        }
    }

    /// A response arrived: the request that it answers, if that is open.
    pub(crate) fn take_response(&mut self, id: &Id) -> Option<(OutId, Pending<W>)> {
        let found = match id {
            Id::Int(id) => self.requests.remove(id).map(|pending| (OutId::new(*id), pending)),
            Id::Str(_) => None,
        };
        if found.is_none() {
            self.counters.late_response += 1;
        }
        found
    }

    /// Our requests whose time is over. Each is forgotten and the peer is told that nobody waits any more.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<(OutId, Pending<W>)> {
        let expired: Vec<_> =
            self.requests.expire(now).into_iter().map(|(id, pending)| (OutId::new(id), pending)).collect();
        for (id, _) in &expired {
            self.send_cancel(*id);
        }
        expired
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.requests.next_deadline()
    }

    pub(crate) fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Every request of ours that is still open, for "closed".
    pub(crate) fn drain_requests(&mut self) -> Vec<(OutId, Pending<W>)> {
        self.requests.drain().into_iter().map(|(id, pending)| (OutId::new(id), pending)).collect()
    }

    // Frames out and the end.

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.counters.frames_out = self.out.frames();
        if let Some(bytes) = self.out.pop() {
            return Some(Output::Bytes(bytes));
        }
        if self.close_wanted && !self.close_told {
            self.close_told = true;
            return Some(Output::Close);
        }
        None
    }

    pub(crate) fn wants_input(&self) -> bool {
        self.out.reply_bytes() < self.config.max_reply_backlog_bytes
    }

    /// Nothing more comes in and nothing that is owed will be answered; what waits to be written still is.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.input_ended = true;
        self.framer = Framer::new(self.config.max_line_bytes);
        self.take_held();
        self.inflight.clear();
        self.close_wanted = true;
    }

    /// Bytes of lines in the making.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.framer.buffered_bytes()
    }
}

#[derive(serde::Serialize)]
struct CancelRequest {
    #[serde(rename = "requestId")]
    request_id: i64,
}

/// Answers that the connection gives by itself.
pub(crate) mod refusal {
    use serde_json::json;

    use crate::{Error, ErrorCode};

    pub(crate) fn already_initialized() -> Error {
        Error::invalid_request("already initialized")
    }

    pub(crate) fn busy(reason: &str, limit: usize) -> Error {
        Error::new(ErrorCode::InternalError, "Server busy").data(json!({ "reason": reason, "limit": limit }))
    }

    pub(crate) fn params(path: &str, reason: &str) -> Error {
        Error::from(ErrorCode::InvalidParams).data(json!({ "path": path, "reason": reason }))
    }

    pub(crate) fn unknown_session(id: &str) -> Error {
        Error::session_not_found(id)
    }
}
