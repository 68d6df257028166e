//! What the driver's end makes of the requests that come: it answers those that need no decision, refuses what is out of
//! order, and asks the application for the rest.

use pintle_wire::{Id, Line};

use super::{DriverSession, Invocation, Pending};
use crate::book::StreamBook;
use crate::class::ErrorClass;
use crate::envelope::recover_id;
use crate::error::ProtocolError;
use crate::machine::State;
use crate::message::{Call, Message, Request, RpcError};
use crate::method::Method;
use crate::params::{CancelParams, HelloParams, InvokeParams, PrepareParams};
use crate::permission::check_approved;
use crate::results::{CancelResult, CapabilitiesResult};
use crate::session::event::DriverEvent;
use crate::stream::decode_framed;
use crate::summary::SummaryDigest;
use crate::version::negotiate;

impl DriverSession {
    pub(super) fn take(&mut self, line: Line) {
        let id = if let Line::Complete(bytes) = &line { recover_id(bytes) } else { None };
        match decode_framed(line) {
            Ok(Message::Request(request)) => self.request(request),
            Ok(Message::Notification(_) | Message::Response(_)) => self.events.push_back(DriverEvent::Unexpected),
            Err(error) => {
                if let Some(id) = id.filter(|id| !self.is_pending(id)) {
                    self.refuse_request(id, error.clone().into());
                }
                self.events.push_back(DriverEvent::Malformed(error));
            }
        }
    }

    fn request(&mut self, request: Request) {
        let Request { id, call } = request;
        if self.is_pending(&id) {
            // An answer would hit the first request of that id.
            self.events.push_back(DriverEvent::Unexpected);
            return;
        }
        // While invokes wait, the lifecycle itself says what can be done beside them.
        let waits = self.pending.iter().any(|(_, pending)| !matches!(pending, Pending::Invoke(_)));
        let busy = waits && !matches!(call, Call::Cancel(_) | Call::Capabilities(_));
        let taken = match call {
            _ if busy => Err(self.wrong_state(call.method())),
            Call::Hello(params) => self.hello(&id, &params),
            Call::Prepare(params) => self.prepare(&id, params),
            Call::Capabilities(_) => self.capabilities(&id),
            Call::Invoke(params) => self.invoke(&id, params),
            Call::Cancel(params) => self.cancel(&id, params),
            Call::Reset(_) => {
                self.dispatcher.reset().map(|()| self.wait(&id, Pending::Reset, DriverEvent::Reset)).map_err(Into::into)
            }
            Call::Shutdown(_) => self
                .in_state(Method::Shutdown, State::Prepared)
                .map(|()| self.wait(&id, Pending::Shutdown, DriverEvent::Shutdown)),
        };
        if let Err(error) = taken {
            self.refuse_request(id, error);
        }
    }

    fn hello(&mut self, id: &Id, params: &HelloParams) -> Result<(), Refusal> {
        self.in_state(Method::Hello, State::New)?;
        let version = negotiate(&params.core_version_range, &self.config.hello.driver_version_range)
            .map_err(|error| Refusal::new(ErrorClass::UnsupportedRpcVersion, error.to_string()))?;
        let result = Message::result(id.clone(), &self.config.hello)?;
        // Encoded first: an answer that is too long for a frame is refused, and the session is as new.
        self.encoder.encode(&result)?;
        self.dispatcher.accept_hello()?;
        self.events.push_back(DriverEvent::Hello { version });
        Ok(())
    }

    fn prepare(&mut self, id: &Id, params: PrepareParams) -> Result<(), Refusal> {
        self.in_state(Method::Prepare, State::Hello)?;
        check_approved(&params.approved_permissions, &self.config.hello.requested_permissions)
            .map_err(|error| Refusal::new(ErrorClass::PermissionDenied, error.to_string()))?;
        self.approved.clone_from(&params.approved_permissions);
        self.wait(id, Pending::Prepare, DriverEvent::Prepare(params));
        Ok(())
    }

    fn capabilities(&mut self, id: &Id) -> Result<(), Refusal> {
        self.dispatcher.check_capabilities()?;
        let capabilities = self.config.hello.capabilities.clone();
        self.encoder.encode(&Message::result(id.clone(), &CapabilitiesResult { capabilities })?)?;
        Ok(())
    }

    fn invoke(&mut self, id: &Id, params: InvokeParams) -> Result<(), Refusal> {
        let declared = self.config.hello.capabilities.operations.contains(&params.operation);
        let room = self.dispatcher.active_count() < self.dispatcher.limit();
        if !declared && room && matches!(self.state(), State::Prepared | State::Invoking) {
            let message = "the operation is not declared";
            return Err(Refusal::new(ErrorClass::CapabilityMismatch, message));
        }
        self.dispatcher.begin_invocation(&params)?;
        let book = StreamBook::new(params.invocation_id, params.attempt_id, self.config.stream_limits);
        let invocation_id = params.invocation_id;
        let invocation = Invocation { params: params.clone(), next_sequence: 0, summary: SummaryDigest::new(), book };
        self.invocations.insert(invocation_id, invocation);
        self.wait(id, Pending::Invoke(invocation_id), DriverEvent::Invoke(params));
        Ok(())
    }

    fn cancel(&mut self, id: &Id, params: CancelParams) -> Result<(), Refusal> {
        if !self.config.hello.capabilities.cancellation {
            return Err(Refusal::new(ErrorClass::CapabilityMismatch, "cancellation is not declared"));
        }
        self.dispatcher.request_cancel(&params)?;
        self.encoder.encode(&Message::result(id.clone(), &CancelResult { acknowledged: true })?)?;
        self.events.push_back(DriverEvent::Cancel(params));
        Ok(())
    }

    fn wait(&mut self, id: &Id, pending: Pending, event: DriverEvent) {
        self.pending.push((id.clone(), pending));
        self.events.push_back(event);
    }

    fn is_pending(&self, id: &Id) -> bool {
        self.pending.iter().any(|(pending, _)| pending == id)
    }

    fn in_state(&self, method: Method, state: State) -> Result<(), Refusal> {
        if self.state() == state { Ok(()) } else { Err(self.wrong_state(method)) }
    }

    fn wrong_state(&self, method: Method) -> Refusal {
        ProtocolError::wrong_state(method, self.state()).into()
    }

    pub(super) fn refuse_request(&mut self, id: Id, refusal: Refusal) {
        // An id that was decoded and a short message of ours fit into a frame, or the id alone fills it: then there is no
        // answer that could be sent.
        let _ = self.encoder.encode(&Message::error(id, RpcError::new(refusal.class, refusal.message)));
    }
}

/// Why a request is refused: a class and words of ours.
pub(super) struct Refusal {
    class: ErrorClass,
    message: String,
}

impl Refusal {
    fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }
}

impl From<ProtocolError> for Refusal {
    fn from(error: ProtocolError) -> Self {
        Self::new(error.class(), error.to_string())
    }
}
