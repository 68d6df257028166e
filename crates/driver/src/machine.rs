//! The lifecycle of one serial session (spec section 8).

use std::collections::HashSet;
use std::fmt;

use pintle_wire::InstanceId;
use serde::{Serialize, Serializer};

use crate::contract::Contract;
use crate::error::ProtocolError;
use crate::message::{Call, Message, Notification};
use crate::method::Method;
use crate::params::{CancelParams, CompletedParams, InvokeParams, ObservationParams};

/// How many invocations one session may complete. Their ids are remembered, so the number needs a bound.
pub const MAX_INVOCATIONS_PER_SESSION: usize = 65_536;

/// The states of a serial session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing has happened yet.
    New,
    /// The handshake is done.
    Hello,
    /// Plan and permissions are agreed; no invocation runs.
    Prepared,
    /// One invocation runs.
    Invoking,
    /// The session is over.
    Shutdown,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [Self::New, Self::Hello, Self::Prepared, Self::Invoking, Self::Shutdown];

    /// The published spelling, such as `PREPARED`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Hello => "HELLO",
            Self::Prepared => "PREPARED",
            Self::Invoking => "INVOKING",
            Self::Shutdown => "SHUTDOWN",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The steps of the lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The handshake.
    AcceptHello,
    /// The agreement on plan and permissions.
    AcceptPrepare,
    /// A query that changes nothing.
    CheckCapabilities,
    /// The start of an invocation.
    BeginInvocation,
    /// One observation.
    Observe,
    /// A request to end early.
    RequestCancel,
    /// The end of an invocation.
    Complete,
    /// The wish to forget prepared data.
    Reset,
    /// The end of the session.
    Shutdown,
}

impl Event {
    /// The step that a method causes.
    pub const fn of(method: Method) -> Self {
        match method {
            Method::Hello => Self::AcceptHello,
            Method::Prepare => Self::AcceptPrepare,
            Method::Capabilities => Self::CheckCapabilities,
            Method::Invoke => Self::BeginInvocation,
            Method::Observation => Self::Observe,
            Method::Cancel => Self::RequestCancel,
            Method::Completed => Self::Complete,
            Method::Reset => Self::Reset,
            Method::Shutdown => Self::Shutdown,
        }
    }

    /// The method that causes the step.
    pub const fn method(self) -> Method {
        match self {
            Self::AcceptHello => Method::Hello,
            Self::AcceptPrepare => Method::Prepare,
            Self::CheckCapabilities => Method::Capabilities,
            Self::BeginInvocation => Method::Invoke,
            Self::Observe => Method::Observation,
            Self::RequestCancel => Method::Cancel,
            Self::Complete => Method::Completed,
            Self::Reset => Method::Reset,
            Self::Shutdown => Method::Shutdown,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method().as_str())
    }
}

/// A snapshot of the active invocation; nothing in it is sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActiveInvocation {
    /// The attempt.
    pub attempt_id: InstanceId,
    /// `driver.cancel` was requested.
    pub cancel_requested: bool,
    /// At least one observation was seen.
    pub has_observation: bool,
    /// The invocation.
    pub invocation_id: InstanceId,
    /// The last sequence, 0 if there was no observation.
    pub last_sequence: u64,
}

impl ActiveInvocation {
    fn of(params: &InvokeParams) -> Self {
        Self {
            attempt_id: params.attempt_id,
            cancel_requested: false,
            has_observation: false,
            invocation_id: params.invocation_id,
            last_sequence: 0,
        }
    }
}

/// Validates one serial lifecycle. A step that is refused changes nothing.
///
/// The machine is plain data behind `&mut`: what a lock does in other implementations, ownership does here at compile
/// time. A driver that declares concurrency is served by a [`Dispatcher`](crate::Dispatcher) with one machine per active
/// invocation.
///
/// There is no step for a driver that dies or hangs: an invocation is left by `driver.completed` alone. That end is the
/// sessions' part ([`CoreSession`](crate::CoreSession)).
///
/// ```
/// use pintle_driver::{Machine, State};
///
/// let mut machine = Machine::new();
/// machine.accept_hello()?;
/// machine.accept_prepare()?;
/// assert_eq!(machine.state(), State::Prepared);
/// # Ok::<(), pintle_driver::ProtocolError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Machine {
    state: State,
    active: Option<ActiveInvocation>,
    completed: HashSet<InstanceId>,
}

impl Machine {
    /// A machine in [`State::New`].
    pub fn new() -> Self {
        Self { state: State::New, active: None, completed: HashSet::new() }
    }

    /// The current state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// A copy of the active invocation, if there is one.
    pub fn active(&self) -> Option<ActiveInvocation> {
        self.active.clone()
    }

    /// NEW to HELLO, after a successful handshake.
    ///
    /// # Errors
    /// `invalid_state` in any other state, as for every step below.
    pub fn accept_hello(&mut self) -> Result<(), ProtocolError> {
        self.expect(Event::AcceptHello, &[State::New])?;
        self.state = State::Hello;
        Ok(())
    }

    /// HELLO to PREPARED, after both sides agree on plan and permissions.
    ///
    /// # Errors
    /// `invalid_state`.
    pub fn accept_prepare(&mut self) -> Result<(), ProtocolError> {
        self.expect(Event::AcceptPrepare, &[State::Hello])?;
        self.state = State::Prepared;
        Ok(())
    }

    /// Allows a capability query, which changes nothing.
    ///
    /// # Errors
    /// `invalid_state` before the handshake, during an invocation and after shutdown.
    pub fn check_capabilities(&self) -> Result<(), ProtocolError> {
        self.expect(Event::CheckCapabilities, &[State::Hello, State::Prepared])
    }

    /// PREPARED to INVOKING; binds sequence and end to the two ids.
    ///
    /// # Errors
    /// `invalid_state`; `invalid_request` for bad params and for an invocation id that this session completed before;
    /// `budget_exceeded` after [`MAX_INVOCATIONS_PER_SESSION`].
    pub fn begin_invocation(&mut self, params: &InvokeParams) -> Result<(), ProtocolError> {
        self.may_begin(params, 0, false)?;
        self.active = Some(ActiveInvocation::of(params));
        self.state = State::Invoking;
        Ok(())
    }

    /// Whether an invocation can begin beside `others` that are active. `full`: no more of them can be.
    pub(crate) fn may_begin(&self, params: &InvokeParams, others: usize, full: bool) -> Result<(), ProtocolError> {
        validate(Method::Invoke, params)?;
        self.expect(Event::BeginInvocation, &[State::Prepared])?;
        if full {
            return Err(ProtocolError::State { event: Event::BeginInvocation, state: State::Invoking });
        }
        if self.completed.contains(&params.invocation_id) {
            return Err(ProtocolError::InvocationIdUsed);
        }
        if self.completed.len() + others >= MAX_INVOCATIONS_PER_SESSION {
            return Err(ProtocolError::TooManyInvocations);
        }
        Ok(())
    }

    /// A machine that follows this one invocation of a session with several.
    pub(crate) fn invoking_with(params: &InvokeParams) -> Self {
        Self { state: State::Invoking, active: Some(ActiveInvocation::of(params)), completed: HashSet::new() }
    }

    /// An invocation that another machine followed is completed: its id is used up.
    pub(crate) fn burn(&mut self, invocation_id: InstanceId) {
        self.completed.insert(invocation_id);
    }

    pub(crate) fn check_cancel(params: &CancelParams) -> Result<(), ProtocolError> {
        validate(Method::Cancel, params)
    }

    pub(crate) fn check_observation(params: &ObservationParams) -> Result<(), ProtocolError> {
        validate(Method::Observation, params)
    }

    pub(crate) fn check_completed(params: &CompletedParams) -> Result<(), ProtocolError> {
        validate(Method::Completed, params)
    }

    /// Takes one observation: the active ids, a sequence greater than the one before. Also after a cancel.
    ///
    /// # Errors
    /// `invalid_state`; `malformed_observation` for params, ids and sequence.
    pub fn observe(&mut self, params: &ObservationParams) -> Result<(), ProtocolError> {
        validate(Method::Observation, params)?;
        let active = self.invoking(Event::Observe)?;
        if active.invocation_id != params.invocation_id || active.attempt_id != params.attempt_id {
            return Err(ProtocolError::Identity { event: Event::Observe });
        }
        let (sequence, last) = (params.sequence, active.last_sequence);
        if active.has_observation && sequence <= last {
            return Err(ProtocolError::Sequence { sequence, last });
        }
        active.last_sequence = sequence;
        active.has_observation = true;
        Ok(())
    }

    /// Records the wish to cancel. The state stays INVOKING: an acknowledgement is not the end.
    ///
    /// # Errors
    /// `invalid_state`; `invalid_request` for params and for another invocation.
    pub fn request_cancel(&mut self, params: &CancelParams) -> Result<(), ProtocolError> {
        validate(Method::Cancel, params)?;
        let active = self.invoking(Event::RequestCancel)?;
        if active.invocation_id != params.invocation_id {
            return Err(ProtocolError::Identity { event: Event::RequestCancel });
        }
        active.cancel_requested = true;
        Ok(())
    }

    /// INVOKING back to PREPARED. The invocation id is used up for this session.
    ///
    /// # Errors
    /// `invalid_state`; `malformed_observation` for params, ids and a `last_sequence` that is not the last one.
    pub fn complete(&mut self, params: &CompletedParams) -> Result<(), ProtocolError> {
        validate(Method::Completed, params)?;
        let active = self.invoking(Event::Complete)?;
        if active.invocation_id != params.invocation_id || active.attempt_id != params.attempt_id {
            return Err(ProtocolError::Identity { event: Event::Complete });
        }
        if params.last_sequence != active.has_observation.then_some(active.last_sequence) {
            return Err(ProtocolError::LastSequence);
        }
        self.completed.insert(params.invocation_id);
        self.leave_invocation();
        Ok(())
    }

    /// Allows the wish to forget prepared data; used invocation ids stay used.
    ///
    /// # Errors
    /// `invalid_state` but in PREPARED.
    pub fn reset(&mut self) -> Result<(), ProtocolError> {
        self.expect(Event::Reset, &[State::Prepared])
    }

    /// PREPARED to SHUTDOWN.
    ///
    /// # Errors
    /// `invalid_state`.
    pub fn shutdown(&mut self) -> Result<(), ProtocolError> {
        self.expect(Event::Shutdown, &[State::Prepared])?;
        self.state = State::Shutdown;
        Ok(())
    }

    /// Applies a request or a notification. Hello and prepare advance on the request itself.
    ///
    /// # Errors
    /// As the step that the message stands for; a response is `invalid_request` in every state, because only a request
    /// table knows what it answers.
    pub fn apply(&mut self, message: &Message) -> Result<(), ProtocolError> {
        match message {
            Message::Request(request) => match &request.call {
                Call::Hello(params) => {
                    validate(Method::Hello, params)?;
                    self.accept_hello()
                }
                Call::Prepare(params) => {
                    validate(Method::Prepare, params)?;
                    self.accept_prepare()
                }
                Call::Capabilities(_) => self.check_capabilities(),
                Call::Invoke(params) => self.begin_invocation(params),
                Call::Cancel(params) => self.request_cancel(params),
                Call::Reset(_) => self.reset(),
                Call::Shutdown(_) => self.shutdown(),
            },
            Message::Notification(Notification::Observation(params)) => self.observe(params),
            Message::Notification(Notification::Completed(params)) => self.complete(params),
            Message::Response(_) => Err(ProtocolError::ResponseApplied),
        }
    }

    fn leave_invocation(&mut self) {
        self.active = None;
        self.state = State::Prepared;
    }

    fn expect(&self, event: Event, states: &[State]) -> Result<(), ProtocolError> {
        if states.contains(&self.state) {
            return Ok(());
        }
        Err(ProtocolError::State { event, state: self.state })
    }

    fn invoking(&mut self, event: Event) -> Result<&mut ActiveInvocation, ProtocolError> {
        let state = self.state;
        self.active.as_mut().ok_or(ProtocolError::State { event, state })
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

fn validate<T: Contract>(method: Method, params: &T) -> Result<(), ProtocolError> {
    params.validate().map_err(|error| ProtocolError::Params { method, error })
}
