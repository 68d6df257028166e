//! One invocation, as Core's application sees it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use pintle_driver::{CompletedParams, InstanceId, Method, ObservationParams};

use super::error::CoreError;
use super::feed::InputTaken;
use super::host::Core;
use super::invocations::{InvocationEnd, Progress};

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
    /// How long the invocation may take before Core cancels it. As with every deadline of a driver, only the time counts in
    /// which Core attends to it, not what the application does with what came.
    pub deadline: Duration,
    /// How long the driver may take to end once it was cancelled, before it is killed; of an invocation that is completed at
    /// its deadline, how long its streams may still come in.
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

/// A running invocation that has Core for itself. One that is dropped before its end goes on: [`Core::next`] has the rest.
#[derive(Debug)]
pub struct Run<'a> {
    pub(super) core: &'a mut Core,
    pub(super) invocation_id: InstanceId,
    pub(super) ended: Option<InvocationEnd>,
}

impl Run<'_> {
    /// The next observation or data, `None` once the invocation is completed and its streams are in. Cancel safe.
    ///
    /// At the deadline the invocation is cancelled; a driver that then does not end within the grace is killed.
    ///
    /// # Errors
    /// [`CoreError`]. After [`CoreError::Refused`] the driver can be used on, after any other it is dead.
    pub async fn next(&mut self) -> Result<Option<Observed>, CoreError> {
        while self.ended.is_none() {
            match self.core.next().await? {
                Some((_, Progress::Observed(observed))) => return Ok(Some(observed)),
                Some((_, Progress::Ended(end))) => {
                    if let Err(error) = &end.outcome {
                        let (method, error) = (Method::Invoke, error.clone());
                        self.ended = Some(end);
                        return Err(CoreError::Refused { method, error });
                    }
                    self.ended = Some(end);
                }
                None => break,
            }
        }
        Ok(None)
    }

    /// Asks the driver to end the invocation within `grace`. Go on with [`next`](Self::next) until it has.
    ///
    /// # Errors
    /// [`CommandError::Cancellation`](pintle_driver::CommandError::Cancellation) if the driver does not declare it.
    pub fn cancel(&mut self, reason: &str, grace: Duration) -> Result<(), CoreError> {
        self.core.cancel(self.invocation_id, reason, grace)
    }

    /// How much of the exact input the driver has taken. An input in memory is there as a whole from the start.
    pub fn input_taken(&self) -> InputTaken {
        let ended = self.ended.as_ref().map(|end| end.input_taken);
        ended.or_else(|| self.core.input_taken(&self.invocation_id)).unwrap_or_default()
    }

    /// Whether and why it was cancelled.
    pub fn cancelled(&self) -> Option<CancelCause> {
        match &self.ended {
            Some(end) => end.cancelled,
            None => self.core.active.get(&self.invocation_id).and_then(|active| active.cancel),
        }
    }

    /// The terminal notification, once `next` has returned `None`.
    pub fn completed(&self) -> Option<&CompletedParams> {
        self.ended.as_ref()?.outcome.as_ref().ok()
    }
}
