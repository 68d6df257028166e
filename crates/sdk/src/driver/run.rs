//! One invocation, as Core's application sees it.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_driver::{CommandError, CompletedParams, CoreEvent, InstanceId, ObservationParams};
use tokio::time::sleep_until;

use super::error::CoreError;
use super::feed::InputTaken;
use super::host::Core;

/// What Core asks a driver to run.
pub struct Invoke {
    /// The invocation; used once per session.
    pub invocation_id: InstanceId,
    /// This attempt at it.
    pub attempt_id: InstanceId,
    /// One of the driver's declared operations.
    pub operation: Box<str>,
    /// The exact input, at most [`MAX_INPUT_BYTES`](super::MAX_INPUT_BYTES).
    pub input: Vec<u8>,
    /// How long the invocation may take before Core cancels it.
    pub deadline: Duration,
    /// How long the driver may take to end once it was cancelled, before it is killed.
    pub cancel_grace: Duration,
}

impl fmt::Debug for Invoke {
    /// The input is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invoke")
            .field("invocation_id", &self.invocation_id)
            .field("attempt_id", &self.attempt_id)
            .field("operation", &self.operation)
            .field("input_bytes", &self.input.len())
            .field("deadline", &self.deadline)
            .field("cancel_grace", &self.cancel_grace)
            .finish()
    }
}

/// Why an invocation was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The application asked for it.
    Requested,
    /// Its deadline passed.
    Deadline,
}

/// What a running invocation brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// An observation.
    Observation(ObservationParams),
    /// Bytes of a companion stream.
    Data {
        /// The stream.
        stream_id: Box<str>,
        /// The next bytes.
        bytes: Bytes,
        /// The stream ends here.
        is_final: bool,
    },
}

/// A running invocation.
#[derive(Debug)]
pub struct Run<'a> {
    pub(super) core: &'a mut Core,
    pub(super) deadline: Option<Instant>,
    pub(super) cancel_grace: Duration,
    pub(super) cancel: Option<CancelCause>,
    pub(super) ended: Option<CompletedParams>,
}

impl Run<'_> {
    /// The next observation or data, `None` once the invocation is completed and its streams are in. Cancel safe.
    ///
    /// At the deadline the invocation is cancelled; a driver that then does not end within the grace is killed.
    ///
    /// # Errors
    /// [`CoreError`]. After [`CoreError::Refused`] the driver can be used on, after any other it is dead.
    pub async fn next(&mut self) -> Result<Option<Observed>, CoreError> {
        if self.ended.is_some() {
            return Ok(None);
        }
        loop {
            let event = match self.deadline {
                None => self.core.event().await?,
                Some(deadline) => tokio::select! {
                    event = self.core.event() => event?,
                    () = sleep_until(deadline.into()) => {
                        self.deadline_passed()?;
                        continue;
                    }
                },
            };
            match event {
                CoreEvent::Observation(params) => return Ok(Some(Observed::Observation(params))),
                CoreEvent::Data { stream_id, bytes, is_final } => {
                    return Ok(Some(Observed::Data { stream_id, bytes, is_final }));
                }
                CoreEvent::Completed(params) => {
                    self.core.pump.end_input();
                    self.ended = Some(params);
                    return Ok(None);
                }
                CoreEvent::InvokeAccepted { .. } | CoreEvent::CancelAcknowledged { .. } => {}
                other => return Err(self.core.unexpected(&other)),
            }
        }
    }

    /// Asks the driver to end the invocation within `grace`. Go on with [`next`](Self::next) until it has.
    ///
    /// # Errors
    /// [`CommandError::Cancellation`] if the driver does not declare it.
    pub fn cancel(&mut self, reason: &str, grace: Duration) -> Result<(), CoreError> {
        self.core.pump.session.cancel(Instant::now(), reason, grace)?;
        self.cancel.get_or_insert(CancelCause::Requested);
        Ok(())
    }

    /// How much of the exact input the driver has taken. An input in memory is there as a whole from the start.
    pub fn input_taken(&self) -> InputTaken {
        self.core.pump.input_taken()
    }

    /// Whether and why it was cancelled.
    pub const fn cancelled(&self) -> Option<CancelCause> {
        self.cancel
    }

    /// The terminal notification, once `next` has returned `None`.
    pub const fn completed(&self) -> Option<&CompletedParams> {
        self.ended.as_ref()
    }

    fn deadline_passed(&mut self) -> Result<(), CoreError> {
        self.deadline = None;
        match self.core.pump.session.cancel(Instant::now(), "deadline", self.cancel_grace) {
            Ok(_) => {
                self.cancel.get_or_insert(CancelCause::Deadline);
                Ok(())
            }
            Err(CommandError::Cancellation) => {
                self.core.stop();
                Err(CoreError::Deadline)
            }
            // It ended in this moment and its streams are coming in.
            Err(CommandError::Protocol(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
