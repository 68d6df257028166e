//! Several invocations at once: one [`Machine`] for each of them.

use std::collections::BTreeMap;

use pintle_wire::InstanceId;

use crate::error::ProtocolError;
use crate::machine::{ActiveInvocation, Event, Machine, State};
use crate::message::{Call, Message, Notification, Request};
use crate::params::{CancelParams, CompletedParams, InvokeParams, ObservationParams};
use crate::results::Capabilities;

/// How many invocations can be active in one session, whatever a driver declares.
pub const MAX_CONCURRENT_INVOCATIONS: usize = 64;

/// Validates the lifecycle of a session with as many active invocations as the driver declares.
///
/// One [`Machine`] follows the session, and is PREPARED while invocations run; one more follows each active invocation.
/// Until the driver has declared more, one invocation is the limit, and the dispatcher does what a single machine does, error
/// for error. As there, a step that is refused changes nothing.
///
/// ```
/// use pintle_driver::{Capabilities, Dispatcher};
///
/// let mut dispatcher = Dispatcher::new();
/// assert_eq!(dispatcher.limit(), 1);
/// dispatcher.declare(&Capabilities { concurrency: true, max_concurrency: 4, ..Capabilities::default() });
/// assert_eq!(dispatcher.limit(), 4);
/// ```
#[derive(Debug, Clone)]
pub struct Dispatcher {
    session: Machine,
    limit: usize,
    active: BTreeMap<InstanceId, Machine>,
}

impl Dispatcher {
    /// For a session that has not begun, and is serial until [`declare`](Self::declare) says otherwise.
    pub fn new() -> Self {
        Self { session: Machine::new(), limit: 1, active: BTreeMap::new() }
    }

    /// Takes over what the driver declares, up to [`MAX_CONCURRENT_INVOCATIONS`].
    pub fn declare(&mut self, capabilities: &Capabilities) {
        self.limit = capabilities.max_active_invocations();
    }

    /// Allows no more than `limit` active invocations, at least one.
    pub fn restrict(&mut self, limit: usize) {
        self.limit = self.limit.min(limit).max(1);
    }

    /// How many invocations can be active at a time.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// The state of the session: [`State::Invoking`] while at least one invocation is active.
    pub fn state(&self) -> State {
        if self.active.is_empty() { self.session.state() } else { State::Invoking }
    }

    /// Snapshots of the active invocations, in the order of their ids.
    pub fn active(&self) -> impl Iterator<Item = ActiveInvocation> {
        self.active.values().filter_map(Machine::active)
    }

    /// How many invocations are active.
    pub fn active_count(&self) -> usize {
        self.active.len()
    }

    /// The machine of one active invocation.
    pub fn machine(&self, invocation_id: &InstanceId) -> Option<&Machine> {
        self.active.get(invocation_id)
    }

    /// NEW to HELLO.
    ///
    /// # Errors
    /// As [`Machine::accept_hello`].
    pub fn accept_hello(&mut self) -> Result<(), ProtocolError> {
        self.session.accept_hello()
    }

    /// HELLO to PREPARED.
    ///
    /// # Errors
    /// As [`Machine::accept_prepare`].
    pub fn accept_prepare(&mut self) -> Result<(), ProtocolError> {
        self.idle(Event::AcceptPrepare)?;
        self.session.accept_prepare()
    }

    /// Allows a capability query.
    ///
    /// # Errors
    /// As [`Machine::check_capabilities`]; `invalid_state` while an invocation is active.
    pub fn check_capabilities(&self) -> Result<(), ProtocolError> {
        self.idle(Event::CheckCapabilities)?;
        self.session.check_capabilities()
    }

    /// Begins one more invocation.
    ///
    /// # Errors
    /// As [`Machine::begin_invocation`]; `invalid_state` when as many are active as can be, `invalid_request` for the id of
    /// an active one.
    pub fn begin_invocation(&mut self, params: &InvokeParams) -> Result<(), ProtocolError> {
        let full = self.active.len() >= self.limit;
        self.session.may_begin(params, self.active.len(), full)?;
        if self.active.contains_key(&params.invocation_id) {
            return Err(ProtocolError::InvocationIdUsed);
        }
        self.active.insert(params.invocation_id, Machine::invoking_with(params));
        Ok(())
    }

    /// Takes one observation of an active invocation.
    ///
    /// # Errors
    /// As [`Machine::observe`]; `malformed_observation` where no active invocation has this id.
    pub fn observe(&mut self, params: &ObservationParams) -> Result<(), ProtocolError> {
        match self.active.get_mut(&params.invocation_id) {
            Some(machine) => machine.observe(params),
            None => Machine::check_observation(params).and_then(|()| self.of_none(Event::Observe)),
        }
    }

    /// Records the wish to cancel one active invocation.
    ///
    /// # Errors
    /// As [`Machine::request_cancel`].
    pub fn request_cancel(&mut self, params: &CancelParams) -> Result<(), ProtocolError> {
        match self.active.get_mut(&params.invocation_id) {
            Some(machine) => machine.request_cancel(params),
            None => Machine::check_cancel(params).and_then(|()| self.of_none(Event::RequestCancel)),
        }
    }

    /// Ends one active invocation; its id is used up for this session.
    ///
    /// # Errors
    /// As [`Machine::complete`].
    pub fn complete(&mut self, params: &CompletedParams) -> Result<(), ProtocolError> {
        match self.active.get_mut(&params.invocation_id) {
            Some(machine) => machine.complete(params)?,
            None => return Machine::check_completed(params).and_then(|()| self.of_none(Event::Complete)),
        }
        self.active.remove(&params.invocation_id);
        self.session.burn(params.invocation_id);
        Ok(())
    }

    /// Allows the wish to forget prepared data.
    ///
    /// # Errors
    /// As [`Machine::reset`]; `invalid_state` while an invocation is active.
    pub fn reset(&mut self) -> Result<(), ProtocolError> {
        self.idle(Event::Reset)?;
        self.session.reset()
    }

    /// PREPARED to SHUTDOWN.
    ///
    /// # Errors
    /// As [`Machine::shutdown`]; `invalid_state` while an invocation is active.
    pub fn shutdown(&mut self) -> Result<(), ProtocolError> {
        self.idle(Event::Shutdown)?;
        self.session.shutdown()
    }

    /// Applies a request or a notification, as [`Machine::apply`] does.
    ///
    /// # Errors
    /// As the step that the message stands for.
    pub fn apply(&mut self, message: &Message) -> Result<(), ProtocolError> {
        match message {
            Message::Request(Request { call: Call::Invoke(params), .. }) => self.begin_invocation(params),
            Message::Request(Request { call: Call::Cancel(params), .. }) => self.request_cancel(params),
            Message::Notification(Notification::Observation(params)) => self.observe(params),
            Message::Notification(Notification::Completed(params)) => self.complete(params),
            // What is about the session: the machine of an active invocation refuses it as it must.
            Message::Request(_) | Message::Response(_) => {
                self.active.values_mut().next().unwrap_or(&mut self.session).apply(message)
            }
        }
    }

    /// Takes back an invocation that the driver refused to start. Its id stays free. Whether it was active.
    pub(crate) fn take_back(&mut self, invocation_id: &InstanceId) -> bool {
        self.active.remove(invocation_id).is_some()
    }

    fn idle(&self, event: Event) -> Result<(), ProtocolError> {
        if self.active.is_empty() { Ok(()) } else { Err(ProtocolError::State { event, state: State::Invoking }) }
    }

    /// What a step is that names no active invocation.
    fn of_none(&self, event: Event) -> Result<(), ProtocolError> {
        if self.active.is_empty() {
            return Err(ProtocolError::State { event, state: self.session.state() });
        }
        Err(ProtocolError::Identity { event })
    }
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self::new()
    }
}
