//! Core's side: starts a driver and speaks to it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_driver::{
    Amounts, BudgetReport, Capabilities, CommandError, CompletedParams, CoreEvent, CoreSession,
    DEFAULT_MAX_DATA_FRAME_BYTES, Digest, ErrorClass, ExactInputHandle, Fault, FixtureRefs, HelloResult, InputKind,
    InstanceId, InvokeParams, Life, Method, ObservationParams, Permission, PrepareParams, Resource, RpcError, Secret,
    State,
};
use pintle_store::FsError;
use tokio::net::unix::pipe;
use tokio::time::{sleep_until, timeout};

use super::feed::InputFeed;
use super::launch::{DriverLaunch, Fixture, WorkDir};
use super::pump::Pump;
use super::{DATA_FRAME_MAX_VARIABLE, DATA_STREAM_VARIABLE};
use crate::process::{Captured, Isolation, Ladder, Launch, Outcome, Process, Shim, SpawnError};

/// Why Core could not go on with a driver, or with one step of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The private work directory could not be made.
    #[error("prepare the work directory `{}`", path.display())]
    Work {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file in the work directory could not be made; the error names it.
    #[error(transparent)]
    Files(#[from] FsError),
    /// The driver could not be started.
    #[error("start the driver: {0}")]
    Spawn(#[source] SpawnError),
    /// The companion pipe could not be made.
    #[error("make the companion pipe")]
    Pipe(#[source] io::Error),
    /// The system gave no randomness for a capability token.
    #[error("make a capability token")]
    Randomness,
    /// Core's own command was against the rules; the driver is as before.
    #[error("{0}")]
    Command(#[from] CommandError),
    /// The driver refused a request; the session goes on.
    #[error("driver refused {method}: {} ({})", error.message, error.data.class)]
    Refused {
        /// Which.
        method: Method,
        /// Why.
        error: RpcError,
    },
    /// The driver left a request unanswered and was killed.
    #[error("driver did not answer {method} in time")]
    TimedOut {
        /// Which.
        method: Method,
    },
    /// The driver broke the protocol, hung or went away, and was killed.
    #[error("{0}")]
    Fault(#[source] Fault),
    /// The invocation's deadline passed and the driver cannot cancel; it was killed.
    #[error("invocation did not end within its deadline, and the driver does not declare cancellation")]
    Deadline,
    /// The session is over.
    #[error("driver session is over")]
    Over,
}

impl CoreError {
    /// The stable class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Work { .. }
            | Self::Files(_)
            | Self::Spawn(_)
            | Self::Pipe(_)
            | Self::Randomness
            | Self::TimedOut { .. } => ErrorClass::DriverInternal,
            Self::Command(error) => error.class(),
            Self::Refused { error, .. } => error.data.class,
            Self::Fault(fault) => fault.class(),
            Self::Deadline => ErrorClass::BudgetExceeded,
            Self::Over => ErrorClass::InvalidState,
        }
    }

    /// Whether the driver is at fault, rather than Core or the system.
    pub const fn is_drivers(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::TimedOut { .. } | Self::Fault(_) | Self::Deadline)
    }
}

/// What Core asks a driver to prepare for.
#[derive(Debug)]
pub struct Plan {
    /// The digest of the resolved plan.
    pub digest: Digest,
    /// Permissions to approve. Those that were not requested are an error.
    pub approved: Vec<Permission>,
    /// Objects for the work directory.
    pub fixtures: Vec<Fixture>,
}

/// What Core asks a driver to run.
#[derive(Debug)]
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

/// A driver that runs. Dropping it kills the driver with all that it started, and removes its work directory.
///
/// There is no task behind it: the session moves while one of its futures is awaited. An application that takes no more
/// observations slows the driver down and holds bounded memory.
#[derive(Debug)]
pub struct Core {
    pump: Pump,
    process: Process,
    ladder: Ladder,
    // Dropped after the process, which lives in it.
    work: WorkDir,
}

impl Core {
    /// Starts a driver and does the handshake. Needs a tokio runtime with IO and time. Cancel safe: the driver is killed.
    ///
    /// # Errors
    /// [`CoreError`]; there is no driver any more then. With [`CoreError::Fault`] its standard error may say more, see
    /// [`StartError`].
    pub async fn start(launch: DriverLaunch) -> Result<Self, StartError> {
        let mut core = Self::spawn(launch).await.map_err(StartError::early)?;
        match core.hello().await {
            Ok(()) => Ok(core),
            Err(error) => {
                let ended = core.kill().await;
                Err(StartError { error, ended: Some(Box::new(ended)) })
            }
        }
    }

    async fn spawn(launch: DriverLaunch) -> Result<Self, CoreError> {
        let work = WorkDir::create(&launch.work_base)?;
        let mut env = launch.env;
        work.describe(&mut env);
        let mut child = Launch::new(launch.program);
        child.args = launch.args;
        child.cwd = Some(work.path().to_owned());
        // Only a keeper can hand a descriptor over. Without one there is no companion stream, and Core approves none.
        let data = if launch.shim == Shim::None {
            None
        } else {
            let (sender, receiver) = pipe::pipe().map_err(CoreError::Pipe)?;
            child.extra_fds.push(sender.into_blocking_fd().map_err(CoreError::Pipe)?);
            env.set(DATA_STREAM_VARIABLE, "fd:3");
            if launch.session.max_data_frame_bytes < DEFAULT_MAX_DATA_FRAME_BYTES {
                env.set(DATA_FRAME_MAX_VARIABLE, launch.session.max_data_frame_bytes.to_string());
            }
            Some(receiver)
        };
        child.env = env;
        child.shim = launch.shim;
        let mut process = Process::spawn(child).await.map_err(CoreError::Spawn)?;
        let (stdin, stdout) = (process.take_stdin(), process.take_stdout());
        let pump = Pump::new(CoreSession::new(launch.session), stdin, stdout, data);
        Ok(Self { pump, process, ladder: launch.ladder, work })
    }

    async fn hello(&mut self) -> Result<(), CoreError> {
        self.pump.session.hello(Instant::now())?;
        match self.event().await? {
            CoreEvent::Hello { .. } => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What the driver said of itself.
    pub fn driver(&self) -> Option<&HelloResult> {
        self.pump.session.driver()
    }

    /// What the session has used so far of what it may.
    pub fn budget(&self) -> BudgetReport {
        self.pump.session.budget()
    }

    /// Charges what was used beside the frames, such as tokens. Over a limit the driver is at fault: the next call says so,
    /// with the class `budget_exceeded`.
    pub fn spend(&mut self, amounts: Amounts) {
        self.pump.session.spend(Instant::now(), amounts);
    }

    /// Whether and how the driver is isolated.
    pub fn isolation(&self) -> &Isolation {
        self.process.isolation()
    }

    /// The driver's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The private work directory.
    pub fn work_dir(&self) -> &Path {
        self.work.path()
    }

    /// The permissions that were accepted.
    pub fn accepted_permissions(&self) -> &[Permission] {
        self.pump.session.accepted_permissions()
    }

    /// What the driver wrote to its standard error so far: head and tail.
    pub fn stderr(&self) -> Captured {
        self.process.stderr().map(|stderr| stderr.snapshot()).unwrap_or_default()
    }

    /// Agrees on a plan, and returns the permissions that the driver accepted. Without a companion pipe its permission is
    /// taken out of those to approve.
    ///
    /// # Errors
    /// [`CoreError`]. Not cancel safe.
    pub async fn prepare(&mut self, plan: Plan) -> Result<Vec<Permission>, CoreError> {
        let bytes = plan.fixtures.iter().map(|fixture| fixture.bytes.len() as u64).sum();
        self.pump.session.pay(Instant::now(), Amounts::of(Resource::BytesSent, bytes))?;
        let fixtures = plan.fixtures.iter().map(|fixture| self.work.fixture(fixture)).collect::<Result<Vec<_>, _>>()?;
        let mut approved = plan.approved;
        if !self.pump.has_data() {
            approved.retain(|permission| permission.as_str() != Permission::COMPANION_STREAM);
        }
        let params = PrepareParams {
            resolved_plan_digest: plan.digest,
            capability_token: capability_token()?,
            fixture_refs: if fixtures.is_empty() { FixtureRefs::Absent } else { FixtureRefs::List(fixtures) },
            approved_permissions: approved,
        };
        self.pump.session.prepare(Instant::now(), params)?;
        match self.event().await? {
            CoreEvent::Prepared { accepted } => {
                if !self.pump.session.companion_stream_accepted() {
                    self.pump.close_data();
                }
                Ok(accepted)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks again what the driver can do.
    ///
    /// # Errors
    /// [`CoreError`]. Not cancel safe.
    pub async fn capabilities(&mut self) -> Result<Capabilities, CoreError> {
        self.pump.session.capabilities(Instant::now())?;
        match self.event().await? {
            CoreEvent::Capabilities(capabilities) => Ok(capabilities),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks the driver to forget its prepared data.
    ///
    /// # Errors
    /// [`CoreError`]. Not cancel safe.
    pub async fn reset(&mut self) -> Result<(), CoreError> {
        self.pump.session.reset(Instant::now())?;
        match self.event().await? {
            CoreEvent::Reset => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Starts an invocation. Take its observations with [`Run::next`]; a driver that refuses shows there.
    ///
    /// # Errors
    /// [`CoreError`]; the driver then knows nothing of it.
    pub fn invoke(&mut self, invoke: Invoke) -> Result<Run<'_>, CoreError> {
        let bytes = invoke.input.len() as u64;
        self.pump.session.pay(Instant::now(), Amounts::of(Resource::BytesSent, bytes))?;
        let path = self.work.input()?;
        let handle = Secret::new(path.to_string_lossy());
        let feed = InputFeed::new(path, invoke.input);
        let now = Instant::now();
        self.pump.session.invoke(
            now,
            InvokeParams {
                invocation_id: invoke.invocation_id,
                attempt_id: invoke.attempt_id,
                operation: invoke.operation,
                input: ExactInputHandle { kind: InputKind::Pipe, value: handle },
            },
        )?;
        self.pump.input = Some(feed);
        let deadline = Some(now + invoke.deadline);
        Ok(Run { core: self, deadline, cancel_grace: invoke.cancel_grace, cancel: None, ended: None })
    }

    /// Ends the session in order where that is possible, and the driver in any case: shutdown, close standard input, wait,
    /// TERM, wait, KILL with every descendant.
    pub async fn shutdown(mut self) -> Ended {
        let mut error = None;
        if *self.pump.session.life() == Life::Alive && self.pump.session.state() == State::Prepared {
            error = match timeout(self.ladder.close_grace, self.say_goodbye()).await {
                Ok(said) => said.err(),
                Err(_) => Some(CoreError::TimedOut { method: Method::Shutdown }),
            };
        }
        self.pump.close_control();
        let outcome = self.process.shut_down(self.ladder).await;
        Ended { outcome, stderr: self.stderr(), error, budget: self.budget() }
    }

    /// Kills the driver and every descendant at once.
    pub async fn kill(mut self) -> Ended {
        self.stop();
        let outcome = self.process.gone().await;
        if let Some(mut stderr) = self.process.stderr() {
            // What was written before the end is still in the pipe; nobody holds it open for long.
            let _ = timeout(self.ladder.stream_grace, stderr.closed()).await;
        }
        Ended { outcome, stderr: self.stderr(), error: None, budget: self.budget() }
    }

    async fn say_goodbye(&mut self) -> Result<(), CoreError> {
        self.pump.session.shutdown(Instant::now())?;
        loop {
            match self.event().await? {
                CoreEvent::Shutdown => {}
                CoreEvent::Closed => return Ok(()),
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    /// The next event that is not the end of everything.
    async fn event(&mut self) -> Result<CoreEvent, CoreError> {
        if *self.pump.session.life() == Life::Killed {
            return Err(CoreError::Over);
        }
        match self.pump.next().await {
            CoreEvent::Fault(fault) => {
                self.stop();
                Err(CoreError::Fault(fault))
            }
            CoreEvent::TimedOut { method } => {
                self.stop();
                Err(CoreError::TimedOut { method })
            }
            CoreEvent::Refused { method, error } => Err(CoreError::Refused { method, error }),
            event => Ok(event),
        }
    }

    fn stop(&mut self) {
        self.pump.session.killed();
        self.pump.input = None;
        self.process.kill();
    }

    /// Requests are made one at a time, so an event answers the one that was made. If not, the driver is not to be trusted.
    fn unexpected(&mut self, event: &CoreEvent) -> CoreError {
        tracing::error!(?event, "an event answers no request that was made");
        self.stop();
        CoreError::Over
    }
}

/// A driver that could not be started, and what it left.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct StartError {
    /// What went wrong.
    #[source]
    pub error: CoreError,
    /// How the process ended and what it wrote, if there was one.
    pub ended: Option<Box<Ended>>,
}

impl StartError {
    const fn early(error: CoreError) -> Self {
        Self { error, ended: None }
    }
}

/// How a driver ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit and descendants.
    pub outcome: Outcome,
    /// Its standard error: head and tail.
    pub stderr: Captured,
    /// What went wrong during the orderly end, if it was tried.
    pub error: Option<CoreError>,
    /// What the session has used.
    pub budget: BudgetReport,
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
    core: &'a mut Core,
    deadline: Option<Instant>,
    cancel_grace: Duration,
    cancel: Option<CancelCause>,
    ended: Option<CompletedParams>,
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
                    self.core.pump.input = None;
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

fn capability_token() -> Result<Secret, CoreError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|_| CoreError::Randomness)?;
    Ok(Secret::new(random.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}
