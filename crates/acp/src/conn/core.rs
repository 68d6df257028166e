//! What both ends of a connection have in common: lines in, frames out, our requests and their outcomes, the handshake.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use pintle_wire::{Framer, Id, Line, PeerId, RequestTable};

use super::caps::Granted;
use super::encode::{Call, Outgoing, Reply};
use super::inbound::{self, Inbound};
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
    Request { rx: RxSeq, key: RequestKey, method: Box<str>, params: Option<RawJson> },
    Notification { rx: RxSeq, method: Box<str>, params: Option<RawJson> },
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
    pub(crate) held: VecDeque<Held>,
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
        while let Some(line) = self.framer.next() {
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
    pub(crate) fn admit(&mut self, id: &PeerId, role: Role) -> Option<RequestKey> {
        if self.inflight.key(id.id()).is_some() {
            // An answer would be taken for the first request's.
            self.counters.duplicate_inflight_id += 1;
            return None;
        }
        if self.inflight.len() >= self.config.max_inflight_requests {
            self.counters.shed_request += 1;
            let limit = self.config.max_inflight_requests;
            self.out.reply(Some(id), &Reply::error(&refusal::busy("too many requests in flight", limit)));
            return None;
        }
        Some(self.inflight.insert(id.clone(), role))
    }

    /// Keeps an accepted request until `initialize` is answered.
    pub(crate) fn hold_request(&mut self, rx: RxSeq, id: &PeerId, method: Box<str>, params: Option<RawJson>) {
        let Some(key) = self.admit(id, Role::Held) else { return };
        if self.held.len() >= self.config.max_held_frames {
            self.counters.shed_request += 1;
            let limit = self.config.max_held_frames;
            self.answer(key, &Reply::error(&refusal::busy("too many frames before the handshake is done", limit)));
            return;
        }
        self.held.push_back(Held::Request { rx, key, method, params });
    }

    /// Keeps a notification until `initialize` is answered.
    pub(crate) fn hold_notification(&mut self, rx: RxSeq, method: Box<str>, params: Option<RawJson>) {
        if self.held.len() >= self.config.max_held_frames {
            self.counters.shed_notification += 1;
            return;
        }
        self.held.push_back(Held::Notification { rx, method, params });
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

    pub(crate) fn want_close(&mut self) {
        self.close_wanted = true;
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
        Error::from(ErrorCode::ResourceNotFound).data(json!({ "sessionId": id }))
    }
}
