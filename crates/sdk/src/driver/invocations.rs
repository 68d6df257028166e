//! The invocations of a driver: one at a time, or as many at once as it declares.

use std::time::{Duration, Instant};

use pintle_driver::{
    Amounts, CommandError, CompletedParams, CoreEvent, ExactInputHandle, InputKind, InstanceId, InvokeParams, Method,
    Resource, RpcError, Secret,
};

use super::error::CoreError;
use super::feed::{InputFeed, InputTaken};
use super::host::Core;
use super::run::{CancelCause, Invoke, Observed, Run};

/// What Core keeps of an active invocation.
#[derive(Debug)]
pub(super) struct Active {
    /// Of the pump's clock.
    deadline: Option<Instant>,
    cancel_grace: Duration,
    pub(super) cancel: Option<CancelCause>,
    in_memory: bool,
}

/// What comes of one of several invocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Something was observed.
    Observed(Observed),
    /// It is over.
    Ended(InvocationEnd),
}

/// How an invocation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationEnd {
    /// The terminal notification; the streams are in. Or why the driver did not take the invocation.
    pub outcome: Result<CompletedParams, RpcError>,
    /// Whether and why it was cancelled.
    pub cancelled: Option<CancelCause>,
    /// How much of the exact input the driver took.
    pub input_taken: InputTaken,
}

impl Core {
    /// Starts an invocation and gives its whole attention to it. Take its observations with [`Run::next`]; a driver that
    /// refuses shows there. For several at once there are [`begin`](Self::begin) and [`next`](Self::next).
    ///
    /// # Errors
    /// [`CoreError`]; the driver then knows nothing of it. Also while other invocations are active.
    pub fn invoke(&mut self, invoke: Invoke) -> Result<Run<'_>, CoreError> {
        if self.active.len() < self.max_active_invocations() && !self.active.is_empty() {
            return Err(CommandError::Busy(Method::Invoke, "others are active: take part in them with `next`").into());
        }
        let invocation_id = self.begin(invoke)?;
        Ok(Run { core: self, invocation_id, ended: None })
    }

    /// How many invocations can be active at once: what the driver declares, within
    /// [`CoreConfig::max_concurrency`](pintle_driver::CoreConfig::max_concurrency); one for a serial driver.
    pub fn max_active_invocations(&self) -> usize {
        self.pump.session.dispatcher().limit()
    }

    /// The invocations that have begun and not ended.
    pub fn active(&self) -> impl ExactSizeIterator<Item = &InstanceId> {
        self.active.keys()
    }

    /// Starts an invocation beside those that are active. Each has its own input, its own deadline, its own companion
    /// streams. What comes of all of them is taken with [`next`](Self::next).
    ///
    /// # Errors
    /// [`CoreError`]; the driver then knows nothing of it. As many as the driver declares: class `invalid_state`.
    pub fn begin(&mut self, invoke: Invoke) -> Result<InstanceId, CoreError> {
        let bytes = invoke.input.len() as u64;
        self.pump.session.pay(self.pump.clock.now(), Amounts::of(Resource::BytesSent, bytes))?;
        let (value, feed) = self.channel(invoke.input)?;
        let now = self.pump.clock.now();
        let invocation_id = invoke.invocation_id;
        self.pump.session.invoke(
            now,
            InvokeParams {
                invocation_id,
                attempt_id: invoke.attempt_id,
                operation: invoke.operation,
                input: ExactInputHandle { kind: self.input, value },
            },
        )?;
        let active = Active {
            deadline: Some(now + invoke.deadline),
            cancel_grace: invoke.cancel_grace,
            cancel: None,
            in_memory: feed.is_none(),
        };
        self.active.insert(invocation_id, active);
        if let Some(feed) = feed {
            self.pump.begin_input(invocation_id, feed);
        }
        Ok(invocation_id)
    }

    /// The next observation, data or end of any active invocation, in the order in which the driver sent them; `None` when
    /// no invocation is active. Cancel safe.
    ///
    /// At its deadline an invocation is cancelled. A driver that then does not end it within its grace is killed, and with it
    /// the other invocations: so is a driver that breaks the protocol in one of them.
    ///
    /// # Errors
    /// [`CoreError`]; the driver is dead, or has refused to cancel.
    pub async fn next(&mut self) -> Result<Option<(InstanceId, Progress)>, CoreError> {
        while !self.active.is_empty() {
            let deadline = self.active.values().filter_map(|active| active.deadline).min();
            let Some(event) = self.event(deadline).await? else {
                self.deadlines_passed()?;
                continue;
            };
            return match event {
                CoreEvent::Observation(params) => {
                    let invocation_id = params.invocation_id;
                    Ok(Some((invocation_id, Progress::Observed(Observed::Observation(params)))))
                }
                CoreEvent::Data { invocation_id, stream_id, bytes, is_final } => {
                    Ok(Some((invocation_id, Progress::Observed(Observed::Data { stream_id, bytes, is_final }))))
                }
                CoreEvent::Completed(params) => {
                    let invocation_id = params.invocation_id;
                    Ok(Some((invocation_id, Progress::Ended(self.finish(&invocation_id, Ok(params))))))
                }
                CoreEvent::Refused { method: Method::Invoke, invocation_id: Some(invocation_id), error } => {
                    Ok(Some((invocation_id, Progress::Ended(self.finish(&invocation_id, Err(error))))))
                }
                CoreEvent::Refused { method, error, .. } => Err(CoreError::Refused { method, error }),
                other => Err(self.unexpected(&other)),
            };
        }
        Ok(None)
    }

    /// Asks the driver to end one invocation within `grace`, and leaves the others alone. Go on with [`next`](Self::next)
    /// until it has.
    ///
    /// # Errors
    /// [`CommandError::Cancellation`] if the driver does not declare it; an invocation that is not active.
    pub fn cancel(&mut self, invocation_id: InstanceId, reason: &str, grace: Duration) -> Result<(), CoreError> {
        self.pump.session.cancel(self.pump.clock.now(), invocation_id, reason, grace)?;
        if let Some(active) = self.active.get_mut(&invocation_id) {
            active.cancel.get_or_insert(CancelCause::Requested);
        }
        Ok(())
    }

    /// How much of its exact input the driver has taken for an active invocation. An input in memory is there as a whole
    /// from the start. `None` where no such invocation is active.
    pub fn input_taken(&self, invocation_id: &InstanceId) -> Option<InputTaken> {
        let active = self.active.get(invocation_id)?;
        if active.in_memory { Some(InputTaken::Whole) } else { self.pump.input_taken(invocation_id) }
    }

    fn finish(&mut self, invocation_id: &InstanceId, outcome: Result<CompletedParams, RpcError>) -> InvocationEnd {
        let input_taken = self.input_taken(invocation_id).unwrap_or_default();
        self.pump.end_input(invocation_id);
        let cancelled = self.active.remove(invocation_id).and_then(|active| active.cancel);
        InvocationEnd { outcome, cancelled, input_taken }
    }

    fn deadlines_passed(&mut self) -> Result<(), CoreError> {
        let now = self.pump.clock.now();
        for (invocation_id, active) in &mut self.active {
            if active.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            active.deadline = None;
            // It has ended and its streams are coming in: they have no more time than a cancel has.
            if self.pump.session.limit_streams(now, invocation_id, active.cancel_grace) {
                continue;
            }
            match self.pump.session.cancel(now, *invocation_id, "deadline", active.cancel_grace) {
                Ok(_) => {
                    active.cancel.get_or_insert(CancelCause::Deadline);
                }
                Err(CommandError::Cancellation) => {
                    self.stop();
                    return Err(CoreError::Deadline);
                }
                // It has ended in this moment.
                Err(CommandError::Protocol(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Where the driver finds the input, and who writes it there, if it is not there already.
    fn channel(&mut self, bytes: Vec<u8>) -> Result<(Secret, Option<InputFeed>), CoreError> {
        let kind = self.input;
        let failed = |source| CoreError::Input { kind, source };
        if kind == InputKind::Memfd {
            let value = self.memory.fill(&bytes).map_err(failed)?.ok_or(CoreError::NoMemoryInput)?;
            return Ok((Secret::new(value), None));
        }
        let path = self.work.next_input();
        let value = Secret::new(path.to_string_lossy());
        let feed = if kind == InputKind::Socket {
            InputFeed::socket(path, bytes).map_err(failed)?
        } else {
            InputFeed::pipe(path, bytes).map_err(failed)?
        };
        Ok((value, Some(feed)))
    }
}
