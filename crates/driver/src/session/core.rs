//! Core's end of a session: its commands and its five verbs.

mod frames;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_wire::{DEFAULT_MAX_DATA_FRAME_BYTES, DataDecoder, Framer, Id, InstanceId, RequestTable};

use crate::budget::{Amounts, BudgetReport, Purpose, Resource, Usage};
use crate::codec::MAX_CONTROL_FRAME_BYTES;
use crate::contract::Contract;
use crate::dispatcher::Dispatcher;
use crate::error::ProtocolError;
use crate::machine::{Event, State};
use crate::message::{Call, Message};
use crate::method::Method;
use crate::objects::Permission;
use crate::params::{CancelParams, HelloParams, InvokeParams, PrepareParams};
use crate::permission::check_approved;
use crate::results::HelloResult;
use crate::session::config::CoreConfig;
use crate::session::event::{CoreEvent, Life, Output, RequestSeq};
use crate::session::fault::{CommandError, Fault};
use crate::session::running::{Pending, Running};
use crate::session::spending::Spending;
use crate::stream::{Encoder, decode_framed};

/// Ids of timed-out requests that are remembered, to tell a late response from a duplicate one.
const MAX_REMEMBERED_TIMEOUTS: usize = 64;

/// Core's end: sends requests, takes observations and companion streams, holds the driver to the protocol.
///
/// A [`Dispatcher`] inside follows the lifecycle, a bounded table follows the requests. As many invocations are active at a
/// time as the driver declares; each has its own observations, streams and deadline. Any fault of the driver, in whatever
/// invocation, makes the session dead ([`Life::Dead`]); what comes after it is ignored, and the host goes on with its kill
/// ladder. See the [module](crate#the-two-ends) for the five verbs.
#[derive(Debug)]
pub struct CoreSession {
    config: CoreConfig,
    dispatcher: Dispatcher,
    life: Life,
    framer: Framer,
    data: DataDecoder,
    data_open: bool,
    current_frame: Option<CurrentFrame>,
    table: RequestTable<RequestSeq, Pending, Instant>,
    next_id: RequestSeq,
    timed_out: BTreeMap<RequestSeq, Method>,
    hello: Option<Box<HelloResult>>,
    approved: Vec<Permission>,
    accepted: Vec<Permission>,
    /// The invocations that are active, or whose streams are still coming in.
    running: BTreeMap<InstanceId, Running>,
    spending: Spending,
    encoder: Encoder,
    close: bool,
    events: VecDeque<CoreEvent>,
}

/// The data frame whose payload is coming in.
#[derive(Debug)]
struct CurrentFrame {
    invocation_id: InstanceId,
    stream_id: Box<str>,
    is_final: bool,
}

impl CoreSession {
    /// A session at its start.
    pub fn new(config: CoreConfig) -> Self {
        let max_data_frame_bytes = config.max_data_frame_bytes.min(DEFAULT_MAX_DATA_FRAME_BYTES);
        let table = RequestTable::new(config.max_pending_requests);
        let spending = Spending::new(config.budget);
        Self {
            config,
            dispatcher: Dispatcher::new(),
            life: Life::Alive,
            framer: Framer::new(MAX_CONTROL_FRAME_BYTES),
            data: DataDecoder::new(max_data_frame_bytes),
            data_open: true,
            current_frame: None,
            table,
            next_id: 1,
            timed_out: BTreeMap::new(),
            hello: None,
            approved: Vec::new(),
            accepted: Vec::new(),
            running: BTreeMap::new(),
            spending,
            encoder: Encoder::new(),
            close: false,
            events: VecDeque::new(),
        }
    }

    /// Whether the session still runs.
    pub const fn life(&self) -> &Life {
        &self.life
    }

    /// The state of the lifecycle, frozen once the session is over.
    pub fn state(&self) -> State {
        self.dispatcher.state()
    }

    /// The lifecycle and its active invocations, to look at.
    pub const fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Invocations that are active or whose streams are still coming in.
    pub fn running(&self) -> impl ExactSizeIterator<Item = &InstanceId> {
        self.running.keys()
    }

    /// What the driver said of itself, after the handshake.
    pub fn driver(&self) -> Option<&HelloResult> {
        self.hello.as_deref()
    }

    /// The permissions that the driver accepted.
    pub fn accepted_permissions(&self) -> &[Permission] {
        &self.accepted
    }

    /// Whether the driver may use the companion stream. If not, the host closes its end of it.
    pub fn companion_stream_accepted(&self) -> bool {
        self.accepted.iter().any(|permission| permission.as_str() == Permission::COMPANION_STREAM)
    }

    /// What was used so far.
    pub fn budget(&self) -> BudgetReport {
        self.spending.report()
    }

    // Commands.

    /// Pays for something that Core is about to do beside the frames: fixtures, input, a process.
    ///
    /// # Errors
    /// [`CommandError::Budget`]; nothing was charged, and it should not be done.
    pub fn pay(&mut self, now: Instant, amounts: Amounts) -> Result<(), CommandError> {
        Ok(self.spending.ledger.take(now, Purpose::Work, amounts)?)
    }

    /// Charges what was used beside the frames, such as tokens or processes that the driver has started. Over a limit the
    /// session is dead, with [`Fault::Budget`].
    pub fn spend(&mut self, now: Instant, amounts: Amounts) {
        if let Err(error) = self.spending.ledger.spend(now, Purpose::Work, amounts)
            && self.life == Life::Alive
        {
            self.fail(Fault::Budget(error));
        }
    }

    /// Offers Core's versions.
    ///
    /// # Errors
    /// [`CommandError`], as for every command; the session is then as before.
    pub fn hello(&mut self, now: Instant) -> Result<RequestSeq, CommandError> {
        self.live()?;
        self.in_state(Method::Hello, State::New)?;
        let params = HelloParams { core_version_range: self.config.version_range.clone() };
        self.request(now, Call::Hello(params))
    }

    /// Hands over plan, token, fixtures and approved permissions.
    ///
    /// # Errors
    /// Permissions that were not requested, among others.
    pub fn prepare(&mut self, now: Instant, params: PrepareParams) -> Result<RequestSeq, CommandError> {
        self.live()?;
        self.in_state(Method::Prepare, State::Hello)?;
        let requested = self.hello.as_ref().map_or(&[][..], |hello| &hello.requested_permissions);
        check_approved(&params.approved_permissions, requested)?;
        let approved = params.approved_permissions.clone();
        let id = self.request(now, Call::Prepare(params))?;
        self.approved = approved;
        Ok(id)
    }

    /// Asks again what the driver can do.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn capabilities(&mut self, now: Instant) -> Result<RequestSeq, CommandError> {
        self.live()?;
        self.dispatcher.check_capabilities()?;
        self.request(now, Call::Capabilities(None))
    }

    /// Starts an invocation. The lifecycle advances at once, because observations may overtake the response.
    ///
    /// # Errors
    /// An operation that the driver did not declare, a used invocation id, a session that is not prepared, as many
    /// invocations as the driver declares ([`Dispatcher::limit`]).
    pub fn invoke(&mut self, now: Instant, params: InvokeParams) -> Result<RequestSeq, CommandError> {
        self.live()?;
        let declared =
            self.hello.as_ref().is_some_and(|hello| hello.capabilities.operations.contains(&params.operation));
        if self.dispatcher.active_count() < self.dispatcher.limit() {
            self.room_to_invoke()?;
            if !declared && matches!(self.dispatcher.state(), State::Prepared | State::Invoking) {
                return Err(CommandError::Operation);
            }
        }
        let invocation_id = params.invocation_id;
        let running = Running::new(&params, self.config.stream_limits, self.config.verify_summary);
        self.dispatcher.begin_invocation(&params)?;
        match self.request(now, Call::Invoke(params)) {
            Ok(id) => {
                self.running.insert(invocation_id, running);
                Ok(id)
            }
            Err(error) => {
                self.dispatcher.take_back(&invocation_id);
                Err(error)
            }
        }
    }

    /// Asks the driver to end an active invocation within `deadline`, and leaves the others alone. It may be repeated; the
    /// earliest deadline holds. An invocation that has not ended by then is a fault of the driver, and the end of the session.
    ///
    /// # Errors
    /// An invocation that is not active, or a driver that did not declare cancellation.
    pub fn cancel(
        &mut self,
        now: Instant,
        invocation_id: InstanceId,
        reason: &str,
        deadline: Duration,
    ) -> Result<RequestSeq, CommandError> {
        self.live()?;
        if self.dispatcher.active_count() == 0 {
            return Err(self.wrong_state(Method::Cancel));
        }
        if !self.hello.as_ref().is_some_and(|hello| hello.capabilities.cancellation) {
            return Err(CommandError::Cancellation);
        }
        let params = CancelParams {
            invocation_id,
            reason: reason.into(),
            deadline_millis: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).max(1),
        };
        params.validate().map_err(|error| ProtocolError::Params { method: Method::Cancel, error })?;
        if self.dispatcher.machine(&invocation_id).is_none() {
            return Err(ProtocolError::Identity { event: Event::RequestCancel }.into());
        }
        let id = self.request(now, Call::Cancel(params.clone()))?;
        self.dispatcher.request_cancel(&params)?;
        if let Some(running) = self.running.get_mut(&invocation_id) {
            let until = now + deadline;
            running.cancel_deadline = Some(running.cancel_deadline.map_or(until, |earlier| earlier.min(until)));
        }
        Ok(id)
    }

    /// Gives the streams of a completed invocation `within` to come in, however much still comes of them; the earliest moment
    /// holds. Without it they may as long as something comes in every [`CoreConfig::stream_grace`]. A host says so at the
    /// deadline of the invocation, when there is nothing left to cancel.
    ///
    /// False if no such invocation waits for its streams.
    pub fn limit_streams(&mut self, now: Instant, invocation_id: &InstanceId, within: Duration) -> bool {
        let ending = self.running.get_mut(invocation_id).and_then(|running| running.ending.as_mut());
        ending.map(|ending| ending.limit(now + within)).is_some()
    }

    /// Asks the driver to forget its prepared data.
    ///
    /// # Errors
    /// A session that is not prepared, or is invoking.
    pub fn reset(&mut self, now: Instant) -> Result<RequestSeq, CommandError> {
        self.live()?;
        self.not_settling(Method::Reset)?;
        self.dispatcher.reset()?;
        self.request(now, Call::Reset(None))
    }

    /// Ends the session.
    ///
    /// # Errors
    /// A session that is not prepared, or is invoking: there the host kills the driver instead.
    pub fn shutdown(&mut self, now: Instant) -> Result<RequestSeq, CommandError> {
        self.live()?;
        self.not_settling(Method::Shutdown)?;
        self.in_state(Method::Shutdown, State::Prepared)?;
        self.not_pending(Method::Invoke)?;
        self.request(now, Call::Shutdown(None))
    }

    /// The host has killed the driver: late frames are ignored, nothing times out any more.
    pub fn killed(&mut self) {
        if self.life == Life::Alive {
            self.end(Life::Killed);
        }
    }

    // The five verbs.

    /// Bytes of the driver's control stream.
    pub fn feed(&mut self, now: Instant, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if self.life != Life::Alive || !self.received(now, bytes.len()) {
            return;
        }
        self.framer.feed(bytes);
        while self.life == Life::Alive {
            let Some(line) = self.framer.next() else { break };
            self.take(now, decode_framed(line));
        }
    }

    /// The driver's control stream has ended.
    pub fn eof(&mut self, now: Instant) {
        while self.life == Life::Alive {
            let Some(line) = self.framer.finish() else { break };
            self.take(now, decode_framed(line));
        }
        if self.life != Life::Alive {
            return;
        }
        if self.state() == State::Shutdown {
            self.end(Life::Closed);
            self.events.push_back(CoreEvent::Closed);
        } else {
            self.fail(Fault::Closed);
        }
    }

    /// Bytes of the companion data stream.
    pub fn feed_data(&mut self, now: Instant, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if self.life != Life::Alive || bytes.is_empty() || !self.received(now, bytes.len()) {
            return;
        }
        self.data.feed(bytes);
        while self.life == Life::Alive {
            match self.data.next() {
                Ok(Some(event)) => self.take_data(now, event),
                Ok(None) => break,
                Err(error) => self.fail(Fault::Stream(error.into())),
            }
        }
        for ending in self.running.values_mut().filter_map(|running| running.ending.as_mut()) {
            ending.heard(now, self.config.stream_grace);
        }
        self.settle(None);
    }

    /// The companion data stream has ended. No frame can come any more, so an ending invocation need not wait.
    pub fn eof_data(&mut self, _now: Instant) {
        if self.life != Life::Alive || !self.data_open {
            return;
        }
        self.data_open = false;
        match self.data.finish() {
            Ok(()) => self.settle(None),
            Err(error) => self.fail(Fault::Stream(error.into())),
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<CoreEvent> {
        self.events.pop_front()
    }

    /// The next bytes to write, or the wish to close.
    pub fn poll_output(&mut self) -> Option<Output> {
        if !self.encoder.is_empty() {
            return Some(Output::Control(self.encoder.take()));
        }
        std::mem::take(&mut self.close).then_some(Output::Close)
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let running = self.running.values().filter_map(Running::deadline).min();
        let budget = if self.life == Life::Alive { self.spending.ledger.deadline(self.purpose()) } else { None };
        self.table.next_deadline().into_iter().chain(running).chain(budget).min()
    }

    /// Time has passed. Feed what is there to be read before: nothing that was fed is late, whatever its moment.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.life != Life::Alive {
            return;
        }
        for (id, Pending { method, invocation_id }) in self.table.expire(now) {
            if self.timed_out.len() >= MAX_REMEMBERED_TIMEOUTS {
                self.timed_out.pop_first();
            }
            self.timed_out.insert(id, method);
            // Whether the driver did it, nobody knows.
            self.spending.paid(now, id, Some(Usage::all_unknown()));
            self.events.push_back(CoreEvent::TimedOut { method, invocation_id });
        }
        self.settle(Some(now));
        let overdue = self
            .running
            .values()
            .any(|running| running.ending.is_none() && running.cancel_deadline.is_some_and(|deadline| deadline <= now));
        if self.life == Life::Alive && overdue {
            self.fail(Fault::CancellationTimeout);
        }
        if self.life == Life::Alive
            && let Err(error) = self.spending.ledger.spend(now, self.purpose(), Amounts::ZERO)
        {
            self.fail(Fault::Budget(error));
        }
    }

    // Helpers.

    fn request(&mut self, now: Instant, call: Call) -> Result<RequestSeq, CommandError> {
        let (id, method) = (self.next_id, call.method());
        let invocation_id = match &call {
            Call::Invoke(params) => Some(params.invocation_id),
            Call::Cancel(params) => Some(params.invocation_id),
            _ => {
                self.not_pending(method)?;
                None
            }
        };
        self.table.insert(id, Pending { method, invocation_id }, Some(now + self.config.request_timeout))?;
        let before = self.encoder.len();
        let sent = self.encoder.encode(&Message::request(Id::Int(id), call)).map_err(CommandError::from);
        let bytes = self.encoder.len() - before;
        match sent.and_then(|()| Ok(self.spending.reserve(now, id, method, bytes)?)) {
            Ok(()) => {
                self.next_id += 1;
                Ok(id)
            }
            Err(error) => {
                self.encoder.truncate(before);
                self.table.remove(&id);
                Err(error)
            }
        }
    }

    /// Who pays for what comes now: once the driver was asked to end, its last words are part of that.
    fn purpose(&self) -> Purpose {
        let ending = self.table.iter().any(|(_, pending)| pending.method == Method::Shutdown);
        if ending || self.state() == State::Shutdown { Purpose::Cleanup } else { Purpose::Work }
    }

    /// Charges bytes that came. Whether the session goes on.
    fn received(&mut self, now: Instant, bytes: usize) -> bool {
        self.spent(now, Amounts::of(Resource::BytesReceived, bytes as u64))
    }

    fn spent(&mut self, now: Instant, amounts: Amounts) -> bool {
        match self.spending.ledger.spend(now, self.purpose(), amounts) {
            Ok(()) => true,
            Err(error) => {
                self.fail(Fault::Budget(error));
                false
            }
        }
    }

    fn live(&self) -> Result<(), CommandError> {
        if self.life == Life::Alive { Ok(()) } else { Err(CommandError::Over) }
    }

    fn in_state(&self, method: Method, state: State) -> Result<(), CommandError> {
        if self.state() == state { Ok(()) } else { Err(self.wrong_state(method)) }
    }

    fn wrong_state(&self, method: Method) -> CommandError {
        CommandError::Protocol(ProtocolError::wrong_state(method, self.state()))
    }

    fn not_pending(&self, method: Method) -> Result<(), CommandError> {
        if self.table.iter().any(|(_, pending)| pending.method == method) {
            return Err(CommandError::Busy(method, "its answer is awaited"));
        }
        Ok(())
    }

    fn not_settling(&self, method: Method) -> Result<(), CommandError> {
        if self.running.values().any(|running| running.ending.is_some()) {
            return Err(CommandError::Busy(method, "streams of the last invocation are coming in"));
        }
        Ok(())
    }

    /// Whether one more invocation has room among those that the driver still has to do with: a completed one counts until
    /// its streams are in and its request is answered.
    fn room_to_invoke(&self) -> Result<(), CommandError> {
        let unanswered = self.table.iter().filter(|(_, pending)| {
            pending.method == Method::Invoke
                && pending.invocation_id.is_some_and(|invocation_id| !self.running.contains_key(&invocation_id))
        });
        if self.running.len() + unanswered.count() < self.dispatcher.limit() {
            return Ok(());
        }
        let ending = self.running.values().any(|running| running.ending.is_some());
        let why = if ending { "streams of the last invocation are coming in" } else { "its answer is awaited" };
        Err(CommandError::Busy(Method::Invoke, why))
    }

    fn fail(&mut self, fault: Fault) {
        self.end(Life::Dead(fault.clone()));
        self.events.push_back(CoreEvent::Fault(fault));
    }

    fn end(&mut self, life: Life) {
        self.life = life;
        self.running.clear();
        self.current_frame = None;
        self.table.drain();
        self.spending.close();
    }
}
