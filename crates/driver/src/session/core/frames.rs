//! What Core makes of the frames that come: of notifications and responses, and of the data plane's.

use std::time::Instant;

use bytes::Bytes;
use pintle_wire::{DataEvent, Id};

use super::{CoreSession, CurrentFrame};
use crate::book::StreamFault;
use crate::budget::{Amounts, Resource};
use crate::contract::{Contract, decode_free_value};
use crate::error::ProtocolError;
use crate::message::{Message, MessageKind, Notification, Outcome, Response};
use crate::method::Method;
use crate::objects::Permission;
use crate::params::{CompletedParams, ObservationParams};
use crate::permission::{PermissionError, check_accepted, check_requested};
use crate::results::{CancelResult, CapabilitiesResult, HelloResult, PrepareResult, ResetResult, ShutdownResult};
use crate::session::config::MAX_DETAILS_BYTES;
use crate::session::event::{CoreEvent, RequestSeq};
use crate::session::fault::Fault;
use crate::session::running::Pending;
use crate::value::FreeValue;
use crate::version::negotiate;

impl CoreSession {
    pub(super) fn take(&mut self, now: Instant, frame: Result<Message, ProtocolError>) {
        let taken = match frame {
            Ok(Message::Notification(Notification::Observation(params))) => self.observation(params),
            Ok(Message::Notification(Notification::Completed(params))) => self.completed(now, params),
            Ok(Message::Response(response)) => self.response(now, response),
            Ok(Message::Request(_)) => Err(Fault::Direction(MessageKind::Request)),
            Err(error) => Err(Fault::Frame(error)),
        };
        if let Err(fault) = taken {
            self.fail(fault);
        }
    }

    fn observation(&mut self, params: ObservationParams) -> Result<(), Fault> {
        self.dispatcher.observe(&params).map_err(Fault::Frame)?;
        if params.data_stream.is_some() && !self.companion_stream_accepted() {
            return Err(Fault::Permission(PermissionError::Needed(Permission::COMPANION_STREAM)));
        }
        if let Some(running) = self.running.get_mut(&params.invocation_id) {
            running.observed = true;
            if let Some(stream) = &params.data_stream {
                running.book.name(&stream.stream_id).map_err(Fault::Stream)?;
            }
            if let Some(summary) = &mut running.summary {
                summary.observe(&params).map_err(Fault::Frame)?;
            }
        }
        self.events.push_back(CoreEvent::Observation(params));
        Ok(())
    }

    fn completed(&mut self, now: Instant, params: CompletedParams) -> Result<(), Fault> {
        self.dispatcher.complete(&params).map_err(Fault::Frame)?;
        if let Some(running) = self.running.get_mut(&params.invocation_id) {
            let claimed = params.summary_digest;
            if running.summary.as_ref().is_some_and(|summary| summary.finish() != claimed) {
                return Err(Fault::Summary);
            }
            running.complete(now, params, self.config.stream_grace);
        }
        self.settle(None);
        Ok(())
    }

    /// Ends the invocations whose terminal notification is in, once their streams are, or cannot be any more. Only where time
    /// has passed is it looked at: what arrives late and is read before that is still in time.
    pub(super) fn settle(&mut self, passed: Option<Instant>) {
        let mut settled = Vec::new();
        for (invocation_id, running) in &self.running {
            let Some(ending) = &running.ending else { continue };
            let in_frame = self.current_frame.as_ref().is_some_and(|frame| frame.invocation_id == *invocation_id);
            if running.book.is_settled() && !in_frame {
                settled.push(*invocation_id);
            } else if !self.data_open || passed.is_some_and(|now| ending.deadline() <= now) {
                let fault = running.book.unsettled().unwrap_or(StreamFault::NotFinal);
                self.fail(Fault::Stream(fault));
                return;
            }
        }
        for invocation_id in settled {
            if let Some(ending) = self.running.remove(&invocation_id).and_then(|running| running.ending) {
                self.events.push_back(CoreEvent::Completed(ending.params));
            }
        }
    }

    fn response(&mut self, now: Instant, response: Response) -> Result<(), Fault> {
        let Id::Int(id) = response.id else { return Err(Fault::UnknownResponse) };
        let Some(pending) = self.table.remove(&id) else { return Err(self.unexpected_response(id)) };
        let Pending { method, invocation_id } = pending;
        self.spending.paid(now, id, None);
        match response.outcome {
            Outcome::Error(error) => {
                let bytes = error.data.details.as_ref().map_or(0, |details| details.as_str().len());
                if bytes > MAX_DETAILS_BYTES {
                    return Err(Fault::Details { bytes });
                }
                if let Some(invocation_id) = invocation_id.filter(|_| method == Method::Invoke) {
                    let running = self.running.remove(&invocation_id);
                    if running.is_none_or(|running| running.observed || running.ending.is_some()) {
                        return Err(Fault::RefusedLate);
                    }
                    self.dispatcher.take_back(&invocation_id);
                }
                self.events.push_back(CoreEvent::Refused { method, invocation_id, error });
                Ok(())
            }
            Outcome::Result(result) => self.result(pending, result),
        }
    }

    fn unexpected_response(&self, id: RequestSeq) -> Fault {
        match self.timed_out.get(&id) {
            Some(&method) => Fault::LateResponse { method },
            None if (1..self.next_id).contains(&id) => Fault::DuplicateResponse,
            None => Fault::UnknownResponse,
        }
    }

    fn result(&mut self, pending: Pending, result: FreeValue) -> Result<(), Fault> {
        let method = pending.method;
        let event = match method {
            Method::Hello => self.hello_result(read(method, &result)?)?,
            Method::Prepare => self.prepare_result(read(method, &result)?)?,
            Method::Capabilities => CoreEvent::Capabilities(read::<CapabilitiesResult>(method, &result)?.capabilities),
            Method::Invoke | Method::Cancel => {
                // Requests of these two methods are entered with their invocation.
                let Some(invocation_id) = pending.invocation_id else { return Err(Fault::UnknownResponse) };
                if method == Method::Invoke {
                    CoreEvent::InvokeAccepted { invocation_id, result }
                } else {
                    let CancelResult { acknowledged } = read(method, &result)?;
                    CoreEvent::CancelAcknowledged { invocation_id, acknowledged }
                }
            }
            Method::Reset => {
                let ResetResult = read(method, &result)?;
                CoreEvent::Reset
            }
            Method::Shutdown => {
                let ShutdownResult = read(method, &result)?;
                self.dispatcher.shutdown().map_err(Fault::Frame)?;
                self.close = true;
                CoreEvent::Shutdown
            }
            Method::Observation | Method::Completed => return Err(Fault::UnknownResponse),
        };
        self.events.push_back(event);
        Ok(())
    }

    fn hello_result(&mut self, result: HelloResult) -> Result<CoreEvent, Fault> {
        let version = negotiate(&self.config.version_range, &result.driver_version_range).map_err(Fault::Version)?;
        check_requested(&result.requested_permissions).map_err(Fault::Permission)?;
        if self.config.expected_artifact.is_some_and(|expected| expected != result.identity.artifact_digest) {
            return Err(Fault::Artifact);
        }
        self.dispatcher.accept_hello().map_err(Fault::Frame)?;
        self.dispatcher.declare(&result.capabilities);
        self.dispatcher.restrict(self.config.max_concurrency);
        let result = Box::new(result);
        self.hello = Some(result.clone());
        Ok(CoreEvent::Hello { version, result })
    }

    fn prepare_result(&mut self, result: PrepareResult) -> Result<CoreEvent, Fault> {
        let accepted = result.accepted_permissions;
        check_accepted(&accepted, &self.approved).map_err(Fault::Permission)?;
        self.dispatcher.accept_prepare().map_err(Fault::Frame)?;
        self.accepted.clone_from(&accepted);
        Ok(CoreEvent::Prepared { accepted })
    }

    pub(super) fn take_data(&mut self, now: Instant, event: DataEvent) {
        match event {
            DataEvent::Header(header) => {
                let idle = self.running.is_empty();
                let entered = match self.running.get_mut(&header.invocation_id) {
                    None if idle => Err(StreamFault::NoInvocation),
                    None => Err(StreamFault::OtherInvocation),
                    Some(running) => running.book.frame(&header),
                };
                if let Err(fault) = entered {
                    self.fail(Fault::Stream(fault));
                } else if !self.companion_stream_accepted() {
                    self.fail(Fault::Permission(PermissionError::Needed(Permission::COMPANION_STREAM)));
                } else if header.sequence.value() == 0 && !self.spent(now, Amounts::of(Resource::Artifacts, 1)) {
                    // One stream too many; the fault is told.
                } else if header.length == 0 {
                    let (invocation_id, is_final) = (header.invocation_id, header.is_final);
                    let (stream_id, bytes) = (header.stream_id.into(), Bytes::new());
                    self.events.push_back(CoreEvent::Data { invocation_id, stream_id, bytes, is_final });
                } else {
                    let (invocation_id, is_final) = (header.invocation_id, header.is_final);
                    self.current_frame =
                        Some(CurrentFrame { invocation_id, stream_id: header.stream_id.into(), is_final });
                }
            }
            DataEvent::Payload { bytes, end } => {
                let Some(frame) = self.current_frame.take() else { return };
                if !self.spent(now, Amounts::of(Resource::ArtifactBytes, bytes.len() as u64)) {
                    return;
                }
                let (invocation_id, stream_id) = (frame.invocation_id, frame.stream_id.clone());
                let is_final = end && frame.is_final;
                if !end {
                    self.current_frame = Some(frame);
                }
                self.events.push_back(CoreEvent::Data { invocation_id, stream_id, bytes, is_final });
            }
        }
    }
}

fn read<T: Contract>(method: Method, result: &FreeValue) -> Result<T, Fault> {
    decode_free_value(result).map_err(|error| Fault::Result { method, error })
}
