//! The driver's end of a session: its answers, the commands of its invocations and its five verbs.

mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use pintle_wire::{
    DEFAULT_MAX_DATA_FRAME_BYTES, DataError, DataFrameHeader, Digest, Framer, Id, InstanceId, SafeU64,
    encode_data_frame,
};

use crate::book::{StreamBook, StreamFault};
use crate::codec::MAX_CONTROL_FRAME_BYTES;
use crate::contract::Contract;
use crate::dispatcher::Dispatcher;
use crate::error::ProtocolError;
use crate::machine::State;
use crate::message::{Message, Notification, Outcome, Response, RpcError};
use crate::method::Method;
use crate::objects::{CompanionStreamRef, Permission, TerminalStatus};
use crate::params::{CompletedParams, InvokeParams, ObservationParams};
use crate::permission::check_accepted;
use crate::results::{PrepareResult, ResetResult, ShutdownResult};
use crate::session::config::{DriverConfig, MAX_DETAILS_BYTES};
use crate::session::event::{DriverEvent, Life, Output};
use crate::session::fault::{CommandError, Fault};
use crate::stream::Encoder;
use crate::summary::SummaryDigest;
use crate::value::FreeValue;

/// What an observation carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservationBody {
    /// Nothing but its kind and time.
    None,
    /// The payload itself. The whole frame may have 1 MiB.
    Payload(FreeValue),
    /// A companion stream by its id; send its bytes with [`DriverSession::send_data`], before or after.
    Stream(Box<str>),
}

/// The driver's end: answers requests, numbers observations, computes the summary, keeps its own streams in order.
///
/// What needs no decision is answered here: the handshake, capability queries, the receipt of a cancel, everything out of
/// order. For the rest the application sees an event and answers it. See the [module](crate#the-two-ends) for the five
/// verbs.
#[derive(Debug)]
pub struct DriverSession {
    config: DriverConfig,
    dispatcher: Dispatcher,
    life: Life,
    framer: Framer,
    /// The requests that wait for the application's answer: one that is about the session, or invokes, one for each of the
    /// invocations that the driver declares.
    pending: Vec<(Id, Pending)>,
    approved: Vec<Permission>,
    accepted: Vec<Permission>,
    invocations: BTreeMap<InstanceId, Invocation>,
    encoder: Encoder,
    data: VecDeque<Bytes>,
    data_bytes: usize,
    close: bool,
    events: VecDeque<DriverEvent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Prepare,
    Invoke(InstanceId),
    Reset,
    Shutdown,
}

impl Pending {
    const fn method(self) -> Method {
        match self {
            Self::Prepare => Method::Prepare,
            Self::Invoke(_) => Method::Invoke,
            Self::Reset => Method::Reset,
            Self::Shutdown => Method::Shutdown,
        }
    }
}

#[derive(Debug)]
struct Invocation {
    params: InvokeParams,
    next_sequence: u64,
    summary: SummaryDigest,
    book: StreamBook,
}

impl DriverSession {
    /// A session at its start.
    ///
    /// # Errors
    /// A hello result that does not validate.
    pub fn new(config: DriverConfig) -> Result<Self, CommandError> {
        config.hello.validate().map_err(ProtocolError::Contract)?;
        let mut dispatcher = Dispatcher::new();
        dispatcher.declare(&config.hello.capabilities);
        Ok(Self {
            config,
            dispatcher,
            life: Life::Alive,
            framer: Framer::new(MAX_CONTROL_FRAME_BYTES),
            pending: Vec::new(),
            approved: Vec::new(),
            accepted: Vec::new(),
            invocations: BTreeMap::new(),
            encoder: Encoder::new(),
            data: VecDeque::new(),
            data_bytes: 0,
            close: false,
            events: VecDeque::new(),
        })
    }

    /// Whether the session still runs.
    pub const fn life(&self) -> &Life {
        &self.life
    }

    /// The state of the lifecycle.
    pub fn state(&self) -> State {
        self.dispatcher.state()
    }

    /// The lifecycle and its active invocations, to look at.
    pub const fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// The permissions that this driver accepted.
    pub fn accepted_permissions(&self) -> &[Permission] {
        &self.accepted
    }

    /// Bytes that wait to be written.
    pub fn queued_bytes(&self) -> usize {
        self.encoder.len() + self.data_bytes
    }

    /// Bytes of control frames among them.
    pub fn queued_control_bytes(&self) -> usize {
        self.encoder.len()
    }

    // Answers.

    /// Takes the plan with some of the approved permissions.
    ///
    /// # Errors
    /// Permissions that were not approved; nothing to answer.
    pub fn accept_prepare(&mut self, accepted: Vec<Permission>) -> Result<(), CommandError> {
        self.expect_pending(Pending::Prepare)?;
        check_accepted(&accepted, &self.approved)?;
        self.dispatcher.accept_prepare()?;
        self.accepted.clone_from(&accepted);
        self.answer(Pending::Prepare, &PrepareResult { accepted_permissions: accepted })
    }

    /// Takes an invocation. From here on the session observes it, and ends it with [`complete`](Self::complete).
    ///
    /// # Errors
    /// Nothing to answer.
    pub fn accept_invoke(&mut self, invocation_id: InstanceId) -> Result<(), CommandError> {
        let id = self.take_pending(Pending::Invoke(invocation_id))?;
        self.respond(id, Outcome::Result(FreeValue::empty_object()));
        Ok(())
    }

    /// Refuses an invocation. Its id stays free.
    ///
    /// # Errors
    /// Nothing to answer, an error that does not validate, details over 16 KiB.
    pub fn refuse_invoke(&mut self, invocation_id: InstanceId, error: RpcError) -> Result<(), CommandError> {
        check_refusal(&error)?;
        let id = self.take_pending(Pending::Invoke(invocation_id))?;
        self.invocations.remove(&invocation_id);
        self.dispatcher.take_back(&invocation_id);
        self.respond(id, Outcome::Error(error));
        Ok(())
    }

    /// Has forgotten its prepared data.
    ///
    /// # Errors
    /// Nothing to answer.
    pub fn accept_reset(&mut self) -> Result<(), CommandError> {
        self.answer(Pending::Reset, &ResetResult)
    }

    /// Ends the session; [`Output::Close`] follows the answer.
    ///
    /// # Errors
    /// Nothing to answer.
    pub fn accept_shutdown(&mut self) -> Result<(), CommandError> {
        self.expect_pending(Pending::Shutdown)?;
        self.dispatcher.shutdown()?;
        self.answer(Pending::Shutdown, &ShutdownResult)?;
        self.life = Life::Closed;
        self.close = true;
        Ok(())
    }

    /// Refuses what waits for an answer about the session: a prepare, a reset or a shutdown.
    ///
    /// # Errors
    /// Nothing to answer, an error that does not validate, details over 16 KiB.
    pub fn refuse(&mut self, error: RpcError) -> Result<(), CommandError> {
        check_refusal(&error)?;
        let at = self.pending.iter().position(|(_, pending)| !matches!(pending, Pending::Invoke(_)));
        let Some(at) = at else { return Err(CommandError::NothingPending(Method::Prepare)) };
        let (id, _) = self.pending.swap_remove(at);
        self.respond(id, Outcome::Error(error));
        Ok(())
    }

    // Invocations.

    /// Reports one thing that was seen, and returns its sequence.
    ///
    /// # Errors
    /// No accepted invocation of this id; a stream without permission for one; [`CommandError::QueueFull`] when
    /// [`max_queued_bytes`](DriverConfig::max_queued_bytes) wait already: write, then call it again. Cancel safe: nothing was
    /// taken on an error.
    pub fn observe(
        &mut self,
        invocation_id: InstanceId,
        kind: &str,
        monotonic_ns: u64,
        body: &ObservationBody,
    ) -> Result<u64, CommandError> {
        self.room()?;
        self.accepted_invocation(invocation_id, Method::Observation)?;
        if matches!(body, ObservationBody::Stream(_)) && !self.companion_stream_accepted() {
            return Err(CommandError::companion_stream_needed());
        }
        let Some(invocation) = self.invocations.get_mut(&invocation_id) else { return Err(CommandError::Over) };
        let sequence = invocation.next_sequence;
        let params = ObservationParams {
            invocation_id: invocation.params.invocation_id,
            attempt_id: invocation.params.attempt_id,
            sequence,
            kind: kind.into(),
            monotonic_ns,
            payload: if let ObservationBody::Payload(payload) = body { Some(payload.clone()) } else { None },
            data_stream: if let ObservationBody::Stream(stream_id) = body {
                Some(CompanionStreamRef { stream_id: stream_id.clone() })
            } else {
                None
            },
        };
        // The frame is encoded first: it is the step that can fail, and it leaves nothing behind when it does. The machine
        // takes whatever number is next, so an observation cannot fail there. A stream is named once all that is done: Core
        // knows of no name whose observation was not sent.
        if let Some(stream) = &params.data_stream {
            invocation.book.may_name(&stream.stream_id)?;
        }
        let start = self.encoder.len();
        let message = Message::Notification(Notification::Observation(params));
        self.encoder.encode(&message)?;
        self.dispatcher.apply(&message)?;
        if let ObservationBody::Stream(stream_id) = body {
            invocation.book.name(stream_id)?;
        }
        invocation.summary.frame(&self.encoder.as_bytes()[start..]);
        invocation.next_sequence += 1;
        Ok(sequence)
    }

    /// Sends one frame of a companion stream. The stream's sequence is kept here; `is_final` ends it.
    ///
    /// # Errors
    /// No accepted invocation, no permission, a payload over the frame bound, a frame after the final one, one that leads over
    /// the [`stream_limits`](DriverConfig::stream_limits), a full queue. Nothing was sent on an error, and the stream is as it
    /// was: it can be ended, and the invocation with it.
    pub fn send_data(
        &mut self,
        invocation_id: InstanceId,
        stream_id: &str,
        payload: &[u8],
        is_final: bool,
    ) -> Result<(), CommandError> {
        self.room()?;
        self.send_frame(invocation_id, stream_id, payload, is_final)
    }

    fn send_frame(
        &mut self,
        invocation_id: InstanceId,
        stream_id: &str,
        payload: &[u8],
        is_final: bool,
    ) -> Result<(), CommandError> {
        self.accepted_invocation(invocation_id, Method::Observation)?;
        if !self.companion_stream_accepted() {
            return Err(CommandError::companion_stream_needed());
        }
        let max_payload_bytes = self.max_data_frame_bytes();
        let Some(invocation) = self.invocations.get_mut(&invocation_id) else { return Err(CommandError::Over) };
        let sequence = invocation.book.next_sequence(stream_id);
        let too_large = || {
            let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            StreamFault::Frame(DataError::PayloadTooLarge { bytes, limit_bytes: max_payload_bytes })
        };
        let header = DataFrameHeader {
            attempt_id: invocation.params.attempt_id,
            is_final,
            invocation_id: invocation.params.invocation_id,
            length: u32::try_from(payload.len()).map_err(|_| too_large())?,
            sequence: SafeU64::new(sequence).map_err(|_| StreamFault::StreamId)?,
            stream_id: stream_id.to_owned(),
        };
        let mut frame = Vec::with_capacity(256 + payload.len());
        encode_data_frame(&header, payload, max_payload_bytes, &mut frame).map_err(StreamFault::Frame)?;
        invocation.book.frame(&header)?;
        self.data_bytes += frame.len();
        self.data.push_back(frame.into());
        Ok(())
    }

    /// Sends an empty final frame on every stream of the invocation that was named and is not final: the way out for one that
    /// ended in the middle of a stream. The output queue's bound does not hold it up.
    ///
    /// # Errors
    /// No accepted invocation.
    pub fn finish_streams(&mut self, invocation_id: InstanceId) -> Result<(), CommandError> {
        let Some(invocation) = self.invocations.get(&invocation_id) else { return Ok(()) };
        for stream_id in invocation.book.named_and_open() {
            self.send_frame(invocation_id, &stream_id, &[], true)?;
        }
        Ok(())
    }

    /// Ends an invocation, and returns the summary digest that Core gets.
    ///
    /// # Errors
    /// No accepted invocation; a stream that is not both named and final.
    pub fn complete(&mut self, invocation_id: InstanceId, status: TerminalStatus) -> Result<Digest, CommandError> {
        self.accepted_invocation(invocation_id, Method::Completed)?;
        let Some(invocation) = self.invocations.get(&invocation_id) else { return Err(CommandError::Over) };
        if let Some(fault) = invocation.book.unsettled() {
            return Err(fault.into());
        }
        let summary_digest = invocation.summary.finish();
        let params = CompletedParams {
            invocation_id: invocation.params.invocation_id,
            attempt_id: invocation.params.attempt_id,
            status,
            last_sequence: invocation.next_sequence.checked_sub(1),
            summary_digest,
        };
        self.dispatcher.complete(&params)?;
        self.invocations.remove(&invocation_id);
        self.encoder.encode(&Message::Notification(Notification::Completed(params)))?;
        Ok(summary_digest)
    }

    /// The bound of one data frame's payload in bytes.
    pub fn max_data_frame_bytes(&self) -> usize {
        self.config.max_data_frame_bytes.min(DEFAULT_MAX_DATA_FRAME_BYTES)
    }

    // The five verbs.

    /// Bytes of Core's control stream. The driver's end keeps no deadlines, so `now` only completes the set of verbs.
    pub fn feed(&mut self, _now: Instant, bytes: impl Into<Bytes>) {
        if self.life != Life::Alive {
            return;
        }
        self.framer.feed(bytes.into());
        while self.life == Life::Alive {
            let Some(line) = self.framer.next() else { break };
            self.take(line);
        }
    }

    /// Core's control stream has ended: stop everything.
    pub fn eof(&mut self, _now: Instant) {
        while self.life == Life::Alive {
            let Some(line) = self.framer.finish() else { break };
            self.take(line);
        }
        if self.life == Life::Alive {
            self.life = if self.state() == State::Shutdown { Life::Closed } else { Life::Dead(Fault::Closed) };
            self.pending.clear();
            self.invocations.clear();
        }
        self.events.push_back(DriverEvent::Closed);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<DriverEvent> {
        self.events.pop_front()
    }

    /// The next bytes to write, or the wish to close. Control frames come coalesced.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.poll_control()
            .map(Output::Control)
            .or_else(|| self.poll_data().map(Output::Data))
            .or_else(|| self.take_close().then_some(Output::Close))
    }

    /// [`poll_output`](Self::poll_output) for the control stream alone, where two writers serve the two streams.
    pub fn poll_control(&mut self) -> Option<Bytes> {
        if self.encoder.is_empty() { None } else { Some(self.encoder.take()) }
    }

    /// [`poll_output`](Self::poll_output) for the data stream alone.
    pub fn poll_data(&mut self) -> Option<Bytes> {
        let frame = self.data.pop_front()?;
        self.data_bytes -= frame.len();
        Some(frame)
    }

    /// Whether the control stream is to be closed after what [`poll_control`](Self::poll_control) gave. True once.
    pub fn take_close(&mut self) -> bool {
        self.encoder.is_empty() && std::mem::take(&mut self.close)
    }

    /// Always `None`: it is Core that measures time.
    pub const fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Does nothing; see [`poll_timeout`](Self::poll_timeout).
    pub const fn handle_timeout(&mut self, _now: Instant) {}

    // Helpers.

    fn expect_pending(&self, wanted: Pending) -> Result<(), CommandError> {
        if self.pending.iter().any(|(_, pending)| *pending == wanted) {
            return Ok(());
        }
        Err(CommandError::NothingPending(wanted.method()))
    }

    fn take_pending(&mut self, wanted: Pending) -> Result<Id, CommandError> {
        let at = self.pending.iter().position(|(_, pending)| *pending == wanted);
        at.map(|at| self.pending.swap_remove(at).0).ok_or_else(|| CommandError::NothingPending(wanted.method()))
    }

    fn answer<T: Contract>(&mut self, pending: Pending, result: &T) -> Result<(), CommandError> {
        let id = self.take_pending(pending)?;
        self.encoder.encode(&Message::result(id, result)?)?;
        Ok(())
    }

    /// An answer that was built here can be encoded; if a free value made it too large, its request fails instead.
    fn respond(&mut self, id: Id, outcome: Outcome) {
        let message = Message::Response(Response { id: id.clone(), outcome });
        if let Err(error) = self.encoder.encode(&message) {
            self.refuse_request(id, error.into());
        }
    }

    fn accepted_invocation(&self, invocation_id: InstanceId, method: Method) -> Result<(), CommandError> {
        if self.life != Life::Alive {
            return Err(CommandError::Over);
        }
        if !self.invocations.contains_key(&invocation_id) {
            return Err(ProtocolError::wrong_state(method, self.state()).into());
        }
        if self.expect_pending(Pending::Invoke(invocation_id)).is_ok() {
            return Err(CommandError::Busy(method, "the invocation was not accepted yet"));
        }
        Ok(())
    }

    fn companion_stream_accepted(&self) -> bool {
        self.accepted.iter().any(|permission| permission.as_str() == Permission::COMPANION_STREAM)
    }

    fn room(&self) -> Result<(), CommandError> {
        if self.queued_bytes() < self.config.max_queued_bytes {
            return Ok(());
        }
        Err(CommandError::QueueFull { limit: self.config.max_queued_bytes })
    }
}

fn check_refusal(error: &RpcError) -> Result<(), CommandError> {
    error.validate().map_err(ProtocolError::ErrorObject)?;
    let bytes = error.data.details.as_ref().map_or(0, |details| details.as_str().len());
    if bytes > MAX_DETAILS_BYTES { Err(CommandError::Details { bytes }) } else { Ok(()) }
}
