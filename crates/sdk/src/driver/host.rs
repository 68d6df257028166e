//! Core's side: starts a driver and speaks to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pintle_driver::{
    Amounts, BudgetReport, Capabilities, CommandError, CoreEvent, CoreSession, DEFAULT_MAX_DATA_FRAME_BYTES, Digest,
    Fault, FixtureRefs, HelloResult, InputKind, InstanceId, Life, Method, Permission, PrepareParams, Resource, Secret,
    State,
};
use tokio::time::timeout;

use super::artifact::Artifact;
use super::error::{CoreError, Ended, StartError};
use super::invocations::Active;
use super::launch::{DriverLaunch, Fixture, WorkDir};
use super::memory::{MAX_MEMORY_INPUTS, MemoryInputs};
use super::pump::Pump;
use super::recorder::{Exchange, Recorder};
use super::rules::DriverRules;
use super::{DATA_FRAME_MAX_VARIABLE, DATA_STREAM_VARIABLE, RECORDER_VARIABLE};
use crate::process::{Applied, Captured, Isolation, Ladder, Launch, Outcome, Process, Shim, StderrCapture};

/// The driver's descriptor of its first input in memory; the companion stream comes before it.
const FIRST_MEMORY_INPUT: usize = 4;

/// The recorder's socket in the work directory.
const RECORDER_SOCKET: &str = "recorder.sock";

/// Standard error is charged when there are so many more bytes of it.
const STDERR_STEP_BYTES: u64 = 256 << 10;

/// How long a keeper may take to say why a driver is gone. It kills for 5 s at most.
const CAUSE_LIMIT: Duration = Duration::from_secs(8);

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

/// A driver that runs. Dropping it kills the driver with all that it started, and removes its work directory.
///
/// There is no task behind it: the session moves while one of its futures is awaited. An application that takes no more
/// observations slows the driver down and holds bounded memory.
#[derive(Debug)]
pub struct Core {
    pub(super) pump: Pump,
    process: Process,
    ladder: Ladder,
    rules: DriverRules,
    pub(super) input: InputKind,
    pub(super) memory: MemoryInputs,
    /// The invocations that have begun and not ended.
    pub(super) active: BTreeMap<InstanceId, Active>,
    artifact: Option<Artifact>,
    applied: Applied,
    /// What ended the session, while it is found out what ended the driver.
    fault: Option<Fault>,
    /// What ended the session was told; nothing comes any more.
    over: bool,
    stderr: Option<StderrCapture>,
    /// Bytes of standard error that the ledger knows of.
    stderr_charged: u64,
    recorder: Option<Recorder>,
    // Dropped after the process, which lives in it.
    pub(super) work: WorkDir,
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

    async fn spawn(mut launch: DriverLaunch) -> Result<Self, CoreError> {
        check_artifact(launch.artifact.as_ref()).await?;
        if let Some(artifact) = &launch.artifact {
            launch.session.expected_artifact = Some(artifact.digest());
        }
        let work = WorkDir::create(&launch.work_base)?;
        let mut env = std::mem::take(&mut launch.env);
        work.describe(&mut env);
        let recorder = match launch.recorder.take().filter(|_| launch.rules.grants(Permission::RECORDER_SOCKET)) {
            Some(config) => {
                let path = work.path().join(RECORDER_SOCKET);
                env.set(RECORDER_VARIABLE, &path);
                Some(Recorder::listen(&path, config).map_err(CoreError::Recorder)?)
            }
            None => None,
        };
        let mut child = Launch::new(launch.program.clone());
        child.args.clone_from(&launch.args);
        child.cwd = Some(work.path().to_owned());
        // Only a keeper can hand a descriptor over. Without one there is no companion stream, and Core approves none.
        let mut memory = MemoryInputs::default();
        let data = if launch.shim == Shim::None {
            None
        } else {
            let (named_pipe, receiver) = work.data_stream().map_err(CoreError::Pipe)?;
            child.named_pipe = Some(named_pipe);
            if launch.input == InputKind::Memfd {
                let count = launch.memory_inputs.min(MAX_MEMORY_INPUTS);
                let made = MemoryInputs::make(count, FIRST_MEMORY_INPUT);
                let (inputs, theirs) = made.map_err(|source| CoreError::Input { kind: launch.input, source })?;
                memory = inputs;
                child.extra_fds.extend(theirs);
            }
            env.set(DATA_STREAM_VARIABLE, "fd:3");
            if launch.session.max_data_frame_bytes < DEFAULT_MAX_DATA_FRAME_BYTES {
                env.set(DATA_FRAME_MAX_VARIABLE, launch.session.max_data_frame_bytes.to_string());
            }
            Some(receiver)
        };
        child.env = env;
        child.sandbox = Some(launch.rules.sandbox(work.path().to_owned(), launch.programs()));
        child.shim = launch.shim;
        let mut process = Process::spawn(child).await.map_err(CoreError::Spawn)?;
        let mut applied = process.applied().clone();
        if launch.rules.is_free() {
            applied.explain_not_wanted("target-exec is granted: driver and target have all that their user has");
        }
        let (stdin, stdout, stderr) = (process.take_stdin(), process.take_stdout(), process.stderr());
        let pump = Pump::new(CoreSession::new(launch.session), stdin, stdout, data);
        let (ladder, rules, input, artifact) = (launch.ladder, launch.rules, launch.input, launch.artifact);
        let active = BTreeMap::new();
        Ok(Self {
            pump,
            process,
            ladder,
            rules,
            input,
            memory,
            active,
            artifact,
            applied,
            fault: None,
            over: false,
            stderr,
            stderr_charged: 0,
            recorder,
            work,
        })
    }

    async fn hello(&mut self) -> Result<(), CoreError> {
        self.pump.session.hello(self.pump.clock.now())?;
        match self.answer().await? {
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
        self.pump.session.spend(self.pump.clock.now(), amounts);
    }

    /// Whether and how the driver is isolated.
    pub fn isolation(&self) -> &Isolation {
        self.process.isolation()
    }

    /// What the driver is kept from, and how far: the evidence of its isolation.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// What went through the recorder so far; empty where there is none. What was said is as it was: sanitise it.
    pub fn recorded(&self) -> Vec<Exchange> {
        self.recorder.as_ref().map(Recorder::exchanges).unwrap_or_default()
    }

    /// The path of the recorder's socket, for who is to use it beside the driver; `None` where there is no recorder.
    pub fn recorder_socket(&self) -> Option<PathBuf> {
        self.recorder.as_ref().map(|_| self.work.path().join(RECORDER_SOCKET))
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
    /// taken out of those to approve. What the driver was not started for ([`DriverRules::grants`]) cannot be approved.
    ///
    /// # Errors
    /// [`CoreError`]. Not cancel safe.
    pub async fn prepare(&mut self, plan: Plan) -> Result<Vec<Permission>, CoreError> {
        self.rules.check(&plan.approved).map_err(CommandError::Permission)?;
        let bytes = plan.fixtures.iter().map(|fixture| fixture.bytes.len() as u64).sum();
        self.pump.session.pay(self.pump.clock.now(), Amounts::of(Resource::BytesSent, bytes))?;
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
        self.pump.session.prepare(self.pump.clock.now(), params)?;
        match self.answer().await? {
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
        self.pump.session.capabilities(self.pump.clock.now())?;
        match self.answer().await? {
            CoreEvent::Capabilities(capabilities) => Ok(capabilities),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks the driver to forget its prepared data.
    ///
    /// # Errors
    /// [`CoreError`]. Not cancel safe.
    pub async fn reset(&mut self) -> Result<(), CoreError> {
        self.pump.session.reset(self.pump.clock.now())?;
        match self.answer().await? {
            CoreEvent::Reset => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ends the session in order where that is possible, and the driver in any case: shutdown, close standard input, wait,
    /// TERM, wait, KILL with every descendant.
    pub async fn shutdown(mut self) -> Ended {
        let mut error = None;
        if *self.pump.session.life() == Life::Alive && self.pump.session.state() == State::Prepared {
            error = self.say_goodbye().await.err();
        }
        self.pump.close_control();
        let outcome = self.process.shut_down(self.ladder).await;
        self.ended(outcome, error).await
    }

    /// Kills the driver and every descendant at once.
    pub async fn kill(mut self) -> Ended {
        self.stop();
        let outcome = self.process.gone().await;
        if let Some(mut stderr) = self.process.stderr() {
            // What was written before the end is still in the pipe; nobody holds it open for long.
            let _ = timeout(self.ladder.stream_grace, stderr.closed()).await;
        }
        self.ended(outcome, None).await
    }

    /// What came to light at the end outranks what was said on the way to it.
    async fn ended(&self, outcome: Outcome, error: Option<CoreError>) -> Ended {
        let exceeded = outcome.exceeded.map(CoreError::Exceeded);
        let changed = check_artifact(self.artifact.as_ref()).await.err();
        Ended { outcome, stderr: self.stderr(), error: exceeded.or(changed).or(error), budget: self.budget() }
    }

    async fn say_goodbye(&mut self) -> Result<(), CoreError> {
        let now = self.pump.clock.now();
        self.pump.session.shutdown(now)?;
        loop {
            match self.event(Some(now + self.ladder.close_grace)).await? {
                Some(CoreEvent::Shutdown) => {}
                Some(CoreEvent::Closed) => return Ok(()),
                Some(CoreEvent::Refused { method, error, .. }) => return Err(CoreError::Refused { method, error }),
                Some(other) => return Err(self.unexpected(&other)),
                None => return Err(CoreError::TimedOut { method: Method::Shutdown }),
            }
        }
    }

    /// The answer to the one request about the session that was made. Cancel safe.
    async fn answer(&mut self) -> Result<CoreEvent, CoreError> {
        loop {
            match self.event(None).await? {
                Some(CoreEvent::Refused { method, error, .. }) => return Err(CoreError::Refused { method, error }),
                Some(event) => return Ok(event),
                None => {}
            }
        }
    }

    /// The next event that is not the end of everything, and no receipt; `None` when it is `until` for the driver, see
    /// [`Pump::next`]. Cancel safe.
    pub(super) async fn event(&mut self, until: Option<Instant>) -> Result<Option<CoreEvent>, CoreError> {
        if self.fault.is_some() {
            return Err(self.cause().await);
        }
        if self.over || *self.pump.session.life() == Life::Killed {
            return Err(CoreError::Over);
        }
        loop {
            let event = tokio::select! {
                event = self.pump.next(until) => event,
                () = more_than(&mut self.stderr, self.stderr_charged + STDERR_STEP_BYTES) => {
                    self.charge_stderr();
                    continue;
                }
            };
            let Some(event) = event else { return Ok(None) };
            match event {
                CoreEvent::Fault(fault) => {
                    self.fault = Some(fault);
                    self.stop();
                    return Err(self.cause().await);
                }
                CoreEvent::TimedOut { method, .. } => {
                    self.stop();
                    return Err(CoreError::TimedOut { method });
                }
                // Receipts. They may come after the end of their invocation.
                CoreEvent::InvokeAccepted { .. } | CoreEvent::CancelAcknowledged { .. } => {}
                // The invocation had ended when the cancel arrived.
                CoreEvent::Refused { method: Method::Cancel, invocation_id: Some(ended), .. }
                    if !self.active.contains_key(&ended) => {}
                event => return Ok(Some(event)),
            }
        }
    }

    /// What the driver writes to its standard error is paid from the same account as its frames: a driver that does nothing
    /// else comes to an end, too.
    fn charge_stderr(&mut self) {
        let total = self.stderr.as_ref().map_or(0, StderrCapture::total_bytes);
        let more = total.saturating_sub(self.stderr_charged);
        self.stderr_charged = total;
        self.pump.session.spend(self.pump.clock.now(), Amounts::of(Resource::BytesReceived, more));
    }

    /// Why the session is at its end: a driver that was killed for exceeding a bound looks as if it had gone away by itself,
    /// until its keeper has told. Cancel safe.
    async fn cause(&mut self) -> CoreError {
        let exceeded = match timeout(CAUSE_LIMIT, self.process.gone()).await {
            Ok(outcome) => outcome.exceeded,
            Err(_) => self.process.exceeded(),
        };
        self.over = true;
        match (exceeded, self.fault.take()) {
            (Some(what), _) => CoreError::Exceeded(what),
            (None, Some(fault)) => CoreError::Fault(fault),
            (None, None) => CoreError::Over,
        }
    }

    pub(super) fn stop(&mut self) {
        self.pump.session.killed();
        self.pump.end_inputs();
        self.process.kill();
    }

    /// Requests are made one at a time, so an event answers the one that was made. If not, the driver is not to be trusted.
    pub(super) fn unexpected(&mut self, event: &CoreEvent) -> CoreError {
        tracing::error!(?event, "an event answers no request that was made");
        self.stop();
        CoreError::Over
    }
}

async fn more_than(stderr: &mut Option<StderrCapture>, bytes: u64) {
    match stderr {
        Some(stderr) => stderr.more_than(bytes).await,
        None => std::future::pending().await,
    }
}

/// Whether the driver's artifact is the one that was measured. Reading it again, where it was touched, takes a thread.
async fn check_artifact(artifact: Option<&Artifact>) -> Result<(), CoreError> {
    let Some(artifact) = artifact.cloned() else { return Ok(()) };
    let path = artifact.path().to_owned();
    match tokio::task::spawn_blocking(move || artifact.is_unchanged()).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(CoreError::Artifact { path }),
        Ok(Err(source)) => Err(CoreError::Unreadable { path, source }),
        Err(_) => Err(CoreError::Over),
    }
}

fn capability_token() -> Result<Secret, CoreError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|_| CoreError::Randomness)?;
    Ok(Secret::new(random.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}
