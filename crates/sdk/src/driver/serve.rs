//! The loop of a driver.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use pintle_driver::{
    CommandError, DriverConfig, DriverEvent, DriverSession, ErrorClass, InstanceId, InvokeParams, Life, Permission,
    RpcError, StreamLimits, TerminalStatus,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::task::{self, JoinSet};
use tokio::time::timeout;

use super::author::Driver;
use super::channels::Channels;
use super::invocation::{Cancelled, Invocation, Shared};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;
/// How long the last answers may take to be written once Core has closed its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Most bytes that [`ServeConfig::max_queued_bytes`] can be.
pub const MAX_QUEUED_BYTES: usize = 64 << 20;

/// How a driver is served, where the defaults do not fit.
///
/// ```
/// use pintle_sdk::driver::{ServeConfig, StreamLimits};
///
/// // Recordings of up to 8 GiB. Core takes them if its own limits are as wide.
/// let stream_limits = StreamLimits { max_stream_bytes: 8 << 30, max_invocation_bytes: 8 << 30, ..StreamLimits::default() };
/// let config = ServeConfig { stream_limits, ..ServeConfig::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeConfig {
    /// How many companion streams an invocation may have, and how many bytes they may have; at most [`StreamLimits::MAX`]
    /// counts. A write that leads over them is refused with the class `budget_exceeded` before anything is sent: the handler
    /// goes on, and so does the session. Core has limits of its own, and what leads over those is a fault.
    pub stream_limits: StreamLimits,
    /// Bytes that may wait to be written to Core before handlers wait for room; 1 to [`MAX_QUEUED_BYTES`] count. 4 MiB unless
    /// set.
    pub max_queued_bytes: usize,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self { stream_limits: StreamLimits::default(), max_queued_bytes: 4 << 20 }
    }
}

/// Why a driver stopped being served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// `hello` does not validate, or a handler's answer was against the rules.
    #[error("driver session: {0}")]
    Session(#[from] CommandError),
    /// A pipe broke.
    #[error("{what}")]
    Io {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Core closed its end before shutdown.
    #[error("core went away before shutdown")]
    CoreGone,
}

/// Serves a driver until Core shuts it down or goes away. Returning drops everything that still runs.
///
/// Reading, writing and handlers never wait for each other. Not cancel safe: dropping the future ends the session.
///
/// # Errors
/// [`ServeError`]; `Ok` only after an orderly shutdown.
pub async fn serve<T, R, W, D>(driver: T, channels: Channels<R, W, D>) -> Result<(), ServeError>
where
    T: Driver,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    D: AsyncWrite + Unpin,
{
    serve_with(driver, channels, ServeConfig::default()).await
}

/// [`serve`] with other bounds.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with<T, R, W, D>(
    driver: T,
    channels: Channels<R, W, D>,
    config: ServeConfig,
) -> Result<(), ServeError>
where
    T: Driver,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    D: AsyncWrite + Unpin,
{
    let session = DriverSession::new(DriverConfig {
        hello: driver.hello(),
        max_queued_bytes: config.max_queued_bytes.clamp(1, MAX_QUEUED_BYTES),
        max_data_frame_bytes: channels.max_data_frame_bytes,
        stream_limits: config.stream_limits,
    })?;
    let shared = Arc::new(Shared::new(session));
    let mut handlers = Handlers::new(Arc::new(driver), Arc::clone(&shared));
    let mut control_in = channels.control_in;
    let mut buffer = vec![0; READ_BYTES];
    let mut write_control = std::pin::pin!(write_control(&shared, channels.control_out));
    let mut write_data = std::pin::pin!(write_data(&shared, channels.data));
    loop {
        tokio::select! {
            read = control_in.read(&mut buffer) => {
                let read = read.map_err(|source| ServeError::Io { what: "read from core", source })?;
                let now = Instant::now();
                shared.command(|session| match buffer.get(..read) {
                    Some(bytes) if !bytes.is_empty() => session.feed(now, bytes.to_vec()),
                    _ => session.eof(now),
                });
                if handlers.take_events() {
                    // What came last is still answered, as far as somebody takes the answer.
                    let _ = timeout(LAST_WORDS, &mut write_control).await;
                    return if *shared.session().life() == Life::Closed { Ok(()) } else { Err(ServeError::CoreGone) };
                }
            }
            // Ends after the answer to shutdown was written.
            written = &mut write_control => return written.map_err(|source| ServeError::Io { what: "write to core", source }),
            broken = &mut write_data => return Err(ServeError::Io { what: "write to the data stream", source: broken }),
            Some(ended) = handlers.tasks.join_next_with_id() => handlers.ended(ended)?,
        }
    }
}

async fn write_control(shared: &Shared, mut out: impl AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let (frames, close) = {
            let mut session = shared.session();
            (session.poll_control(), session.take_close() || *session.life() != Life::Alive)
        };
        if let Some(frames) = frames {
            shared.room.notify_waiters();
            out.write_all(&frames).await?;
            out.flush().await?;
        }
        if close {
            return out.shutdown().await;
        }
        if shared.session().queued_control_bytes() == 0 {
            shared.control.notified().await;
        }
    }
}

/// Returns only with an error.
async fn write_data(shared: &Shared, out: Option<impl AsyncWrite + Unpin>) -> io::Error {
    // Without the stream its permission is not accepted, so no frame comes.
    let Some(mut out) = out else { return std::future::pending().await };
    loop {
        let Some(frame) = shared.session().poll_data() else {
            shared.data.notified().await;
            continue;
        };
        shared.room.notify_waiters();
        if let Err(error) = out.write_all(&frame).await {
            return error;
        }
    }
}

/// What a handler's task brings back.
enum Answer {
    Prepare(Result<Vec<Permission>, RpcError>),
    Invoke(InstanceId, TerminalStatus),
    Reset(Result<(), RpcError>),
    Shutdown,
}

/// The tasks of the author's handlers. Dropping it ends them.
struct Handlers<T> {
    driver: Arc<T>,
    shared: Arc<Shared>,
    tasks: JoinSet<Answer>,
    /// The active invocations: as many as the driver declares, each in a task of its own.
    invocations: HashMap<InstanceId, (task::Id, watch::Sender<Option<Cancelled>>)>,
}

impl<T: Driver> Handlers<T> {
    fn new(driver: Arc<T>, shared: Arc<Shared>) -> Self {
        Self { driver, shared, tasks: JoinSet::new(), invocations: HashMap::new() }
    }

    /// Starts what the events ask for. True when Core is gone.
    fn take_events(&mut self) -> bool {
        loop {
            let Some(event) = self.shared.session().poll_event() else { return false };
            let driver = Arc::clone(&self.driver);
            match event {
                DriverEvent::Prepare(plan) => {
                    self.tasks.spawn(async move { Answer::Prepare(driver.prepare(plan).await) });
                }
                DriverEvent::Invoke(params) => self.invoke(params),
                DriverEvent::Cancel(params) => {
                    if let Some((_, cancel)) = self.invocations.get(&params.invocation_id) {
                        cancel.send_replace(Some(params.into()));
                    }
                }
                DriverEvent::Reset => {
                    self.tasks.spawn(async move { Answer::Reset(driver.reset().await) });
                }
                DriverEvent::Shutdown => {
                    self.tasks.spawn(async move {
                        driver.shutdown().await;
                        Answer::Shutdown
                    });
                }
                DriverEvent::Malformed(error) => {
                    tracing::warn!(class = %error.class(), %error, "core sent a bad frame")
                }
                DriverEvent::Unexpected => tracing::warn!("core sent what only a driver sends"),
                DriverEvent::Hello { version } => tracing::debug!(%version, "handshake done"),
                DriverEvent::Closed => return true,
            }
        }
    }

    fn invoke(&mut self, params: InvokeParams) {
        let invocation_id = params.invocation_id;
        if let Err(error) = self.driver.accept(&params) {
            self.command(|session| session.refuse_invoke(invocation_id, error));
            return;
        }
        self.command(|session| session.accept_invoke(invocation_id));
        let (sender, cancel) = watch::channel(None);
        let invocation = Invocation {
            shared: Arc::clone(&self.shared),
            params: Arc::new(params),
            cancel,
            streams: Arc::new(AtomicU64::new(1)),
        };
        let driver = Arc::clone(&self.driver);
        let task = self.tasks.spawn(async move { Answer::Invoke(invocation_id, driver.invoke(invocation).await) });
        self.invocations.insert(invocation_id, (task.id(), sender));
    }

    /// A handler has ended, or panicked.
    fn ended(&mut self, ended: Result<(task::Id, Answer), task::JoinError>) -> Result<(), ServeError> {
        match ended {
            Ok((_, Answer::Prepare(accepted))) => self.answer(accepted, DriverSession::accept_prepare),
            Ok((_, Answer::Reset(done))) => self.answer(done, |session, ()| session.accept_reset()),
            Ok((_, Answer::Shutdown)) => self.answer(Ok(()), |session, ()| session.accept_shutdown()),
            Ok((_, Answer::Invoke(invocation_id, status))) => self.complete(invocation_id, status)?,
            Err(error) => {
                tracing::error!(%error, "a handler of the driver panicked");
                let panicked = self.invocations.iter().find(|(_, (task, _))| *task == error.id());
                match panicked.map(|(invocation_id, _)| *invocation_id) {
                    Some(invocation_id) => self.complete(invocation_id, TerminalStatus::Errored)?,
                    None => self.answer::<()>(Err(internal("the handler panicked")), |_, ()| Ok(())),
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, invocation_id: InstanceId, status: TerminalStatus) -> Result<(), ServeError> {
        self.invocations.remove(&invocation_id);
        self.shared.command(|session| {
            session.finish_streams(invocation_id)?;
            session.complete(invocation_id, status)
        })?;
        Ok(())
    }

    /// Sends a handler's answer; what the session does not take is refused as the driver's own fault.
    fn answer<A>(
        &self,
        answer: Result<A, RpcError>,
        accept: impl FnOnce(&mut DriverSession, A) -> Result<(), CommandError>,
    ) {
        let refusal = match answer {
            Err(error) => error,
            Ok(answer) => match self.shared.command(|session| accept(session, answer)) {
                Ok(()) => return,
                Err(error) => RpcError::new(error.class(), error.to_string()),
            },
        };
        self.command(|session| session.refuse(refusal));
    }

    /// A command that fails only if nothing waits for its answer any more, because Core is gone.
    fn command(&self, command: impl FnOnce(&mut DriverSession) -> Result<(), CommandError>) {
        if let Err(error) = self.shared.command(command) {
            tracing::debug!(%error, "an answer came too late");
        }
    }
}

fn internal(message: &str) -> RpcError {
    RpcError::new(ErrorClass::DriverInternal, message)
}
