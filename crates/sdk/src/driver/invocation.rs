//! One invocation, as a driver author sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pintle_driver::{
    CancelParams, CommandError, DriverSession, FreeValue, InstanceId, InvokeParams, ObservationBody, ProtocolError,
};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::input::{self, InputError};

/// Why an observation was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The payload has no canonical JSON form.
    #[error("observation payload: {0}")]
    Payload(#[source] ProtocolError),
    /// The session does not allow it: the invocation is over, the frame is too large, a permission is missing.
    #[error("observe: {0}")]
    Session(#[source] CommandError),
}

/// What `serve` and the handlers share: the session, and who waits for what.
#[derive(Debug)]
pub(crate) struct Shared {
    session: Mutex<DriverSession>,
    /// Control or data frames wait to be written.
    pub(crate) control: Notify,
    pub(crate) data: Notify,
    /// Bytes were written, so there is room again.
    pub(crate) room: Notify,
    pub(crate) started: Instant,
}

impl Shared {
    pub(crate) fn new(session: DriverSession) -> Self {
        Self {
            session: Mutex::new(session),
            control: Notify::new(),
            data: Notify::new(),
            room: Notify::new(),
            started: Instant::now(),
        }
    }

    /// The session, for as long as no await comes between. A panic while it was held leaves a consistent session: its
    /// commands change nothing until they succeed.
    pub(crate) fn session(&self) -> MutexGuard<'_, DriverSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command and wakes the writers.
    pub(crate) fn command<T>(&self, command: impl FnOnce(&mut DriverSession) -> T) -> T {
        let outcome = command(&mut self.session());
        self.control.notify_one();
        self.data.notify_one();
        outcome
    }

    /// Runs a command again until the output queue has room for it.
    async fn when_room<T>(
        &self,
        mut command: impl FnMut(&mut DriverSession) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // Listening starts before the look, so room that is made in between is not missed.
            room.as_mut().enable();
            match self.command(&mut command) {
                Err(CommandError::QueueFull { .. }) => room.await,
                outcome => return outcome,
            }
        }
    }
}

/// A cancel as it reached the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cancelled {
    pub(crate) reason: Box<str>,
    pub(crate) until: Instant,
}

impl From<CancelParams> for Cancelled {
    fn from(params: CancelParams) -> Self {
        // A deadline beyond a century is none; the clamp keeps the sum within what an Instant holds.
        let millis = params.deadline_millis.min(100 * 366 * 24 * 3600 * 1000);
        Self { reason: params.reason, until: Instant::now() + Duration::from_millis(millis) }
    }
}

/// An active invocation: its input, its observations, its end.
///
/// Observations are numbered and stamped in the order of the calls. `observe` waits while the output queue is full: a slow
/// Core slows the driver down, the queue does not grow.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub(crate) shared: Arc<Shared>,
    pub(crate) params: Arc<InvokeParams>,
    pub(crate) cancel: watch::Receiver<Option<Cancelled>>,
    pub(crate) streams: Arc<std::sync::atomic::AtomicU64>,
}

impl Invocation {
    /// Ids, operation and input handle.
    pub fn params(&self) -> &InvokeParams {
        &self.params
    }

    /// Reads the exact input to its end. The channel gives it once.
    ///
    /// # Errors
    /// [`InputError`]. Not cancel safe: what was read is lost.
    pub async fn input(&self) -> Result<Vec<u8>, InputError> {
        input::read(&self.params.input).await
    }

    /// The moment now on the clock of `monotonic_ns`.
    pub fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.shared.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reports one observation with a payload, and returns its sequence. Cancel safe: either it was taken or it was not.
    ///
    /// # Errors
    /// [`ObserveError`].
    pub async fn observe<T: Serialize + ?Sized>(&self, kind: &str, payload: &T) -> Result<u64, ObserveError> {
        let payload = FreeValue::from_serialize(payload).map_err(ObserveError::Payload)?;
        self.observe_at(kind, self.monotonic_ns(), ObservationBody::Payload(payload)).await
    }

    /// Reports one observation of a moment that the caller has measured.
    ///
    /// # Errors
    /// [`ObserveError`].
    pub async fn observe_at(&self, kind: &str, monotonic_ns: u64, body: ObservationBody) -> Result<u64, ObserveError> {
        let id = self.params.invocation_id;
        let observed = self.shared.when_room(|session| session.observe(id, kind, monotonic_ns, &body)).await;
        observed.map_err(ObserveError::Session)
    }

    /// Reports one observation whose payload follows on a companion stream, and opens that stream.
    ///
    /// # Errors
    /// [`ObserveError`]; without the permission `companion-stream` it is refused.
    pub async fn observe_stream(&self, kind: &str) -> Result<StreamWriter, ObserveError> {
        let number = self.streams.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stream_id: Box<str> = format!("s{number}").into();
        self.observe_at(kind, self.monotonic_ns(), ObservationBody::Stream(stream_id.clone())).await?;
        Ok(StreamWriter { shared: Arc::clone(&self.shared), invocation_id: self.params.invocation_id, stream_id })
    }

    /// Resolves when Core cancels: with its reason, and until when the invocation must end. Cancel safe.
    pub async fn cancelled(&self) -> (Box<str>, Instant) {
        let mut cancel = self.cancel.clone();
        let cancelled = match cancel.wait_for(Option::is_some).await {
            Ok(cancelled) => cancelled.clone(),
            Err(_) => None,
        };
        match cancelled {
            Some(Cancelled { reason, until }) => (reason, until),
            // The session is gone, and this task with it in a moment.
            None => std::future::pending().await,
        }
    }

    /// Whether Core has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.borrow().is_some()
    }
}

/// One companion stream. If it is dropped without [`finish`](Self::finish), it ends with the invocation.
#[derive(Debug)]
pub struct StreamWriter {
    shared: Arc<Shared>,
    invocation_id: InstanceId,
    stream_id: Box<str>,
}

impl StreamWriter {
    /// The stream's id.
    pub fn id(&self) -> &str {
        &self.stream_id
    }

    /// Writes bytes, in as many frames as they need. Waits while the output queue is full. Not cancel safe: a part may have
    /// been written.
    ///
    /// # Errors
    /// [`ObserveError::Session`] over a budget or after the end of the invocation.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ObserveError> {
        let bound = self.shared.session().max_data_frame_bytes().max(1);
        for frame in bytes.chunks(bound) {
            self.send(frame, false).await?;
        }
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn finish(self) -> Result<(), ObserveError> {
        self.send(&[], true).await
    }

    async fn send(&self, frame: &[u8], is_final: bool) -> Result<(), ObserveError> {
        let send =
            |session: &mut DriverSession| session.send_data(self.invocation_id, &self.stream_id, frame, is_final);
        let sent = self.shared.when_room(send).await;
        sent.map_err(ObserveError::Session)
    }
}
