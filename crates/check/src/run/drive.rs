//! One driver process after another, until every scenario was given to one.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use pintle_sdk::driver::{
    Artifact, BudgetReport, CancelCause, Core, CoreError, DriverLaunch, DriverRules, Exchange, HelloResult, Invoke,
    Observed, Permission, Plan as Preparation, RECORDER_VARIABLE, RecorderConfig, Run, StartError, TerminalStatus,
};
use pintle_sdk::process::{Applied, Captured, Isolation};
use pintle_store::Sanitiser;
use pintle_wire::{Digest, InstanceId, to_canonical};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::plan::Job;
use super::request::{AgentNetwork, CheckRequest};
use crate::driver::{ERROR_KIND, SCENARIO_OPERATION};
use crate::json::read_own;
use crate::judge::Fault;
use crate::observation::kind;
use crate::pack::{Plan, Step};

/// Permissions that a scenario driver may have, but for those that depend on whether its agent is isolated. Names beyond
/// these are never approved here.
const GRANTED: [&str; 6] = [
    Permission::EPHEMERAL_INPUT,
    Permission::TARGET_EXEC,
    Permission::TARGET_ENVIRONMENT,
    Permission::TEMPORARY_HOME,
    Permission::BOUNDED_STDERR,
    Permission::COMPANION_STREAM,
];
/// Bytes of each connection through the recorder, and direction, that are kept.
pub(super) const EXCHANGE_KEPT_BYTES: usize = 16 * 1024;
/// Most bytes of a driver's standard error that a message quotes.
const QUOTED_STDERR_BYTES: usize = 1024;

/// What happens while scenarios are carried out, in order for each scenario.
#[derive(Debug)]
pub(super) enum Event {
    /// A driver is ready.
    Driver(Box<DriverFacts>),
    /// A scenario was given to a driver.
    Started { job: usize, invocation: InstanceId, attempt: InstanceId },
    /// An observation, its payload as canonical JSON.
    Observation { job: usize, sequence: u64, kind: Box<str>, monotonic_ns: u64, payload: Option<String> },
    /// Bytes of a companion stream.
    Data { job: usize, stream_id: Box<str>, bytes: Bytes, is_final: bool },
    /// What went through a driver's recorder, before it ended.
    Network(Vec<Exchange>),
    /// A driver is gone; what it used.
    DriverEnded(Box<BudgetReport>),
    /// A scenario is over.
    Ended { job: usize, end: End },
}

/// How a scenario ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The driver carried it out and reported all it saw.
    Completed { summary: Digest },
    /// The driver does not have this operation.
    LacksStep { operation: String },
    /// Nothing can be concluded.
    Broken { fault: Fault, message: String },
    /// The user stopped the check.
    Interrupted,
}

/// What is known of a driver that was started.
#[derive(Debug, Clone)]
pub(super) struct DriverFacts {
    pub(super) hello: HelloResult,
    pub(super) approved: Vec<Permission>,
    pub(super) accepted: Vec<Permission>,
    pub(super) kept: bool,
    pub(super) applied: Applied,
}

/// What every worker shares.
pub(super) struct Work {
    pub(super) request: Arc<CheckRequest>,
    pub(super) jobs: Arc<[Job]>,
    pub(super) queue: Mutex<VecDeque<usize>>,
    pub(super) plan_digest: Digest,
    pub(super) sanitiser: Arc<Sanitiser>,
    /// The file that the driver says it is, as it was at the start.
    pub(super) artifact: Artifact,
    pub(super) cancel: CancellationToken,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) silence: Mutex<Silence>,
}

/// Whether the agent has ever said or answered anything. One that has not costs the start timeout for each scenario, so
/// after a few there is no point in the others.
#[derive(Debug, Default)]
pub(super) struct Silence {
    spoke: bool,
    answered: bool,
    not_started: bool,
    silent_scenarios: u32,
    unanswered_scenarios: u32,
}

/// Scenarios without a word from the agent, and none with one, before the others are not begun.
const MAX_SILENT_SCENARIOS: u32 = 2;

/// Scenarios without an answer from the agent, and none with one, before the others are not begun.
const MAX_UNANSWERED_SCENARIOS: u32 = 4;

/// Why a scenario was not carried out.
const NOT_STARTED: &str = "the agent did not start";
const NEVER_ANSWERS: &str = "not begun: the agent answered nothing in the scenarios before";

impl Silence {
    fn heard(&mut self, kind: &str, payload: &str) {
        // Quotes inside an embedded frame are escaped, so these match members of the payload itself.
        let inbound = (kind == kind::ACP_FRAME || kind == kind::ACP_OMITTED) && payload.contains(r#""dir":"in""#);
        self.spoke |= inbound;
        // What cannot be looked into may be an answer.
        let is_text = kind == kind::ACP_FRAME && payload.contains(r#""text":"#);
        self.answered |= inbound && (!is_text || payload.contains("result") || payload.contains("error"));
        self.not_started |= kind == kind::AGENT_START && payload.contains(r#""failure":"#);
    }

    fn scenario_ended(&mut self, plan: &Plan, end: &End) {
        let asked = matches!(plan.steps.first(), Some(Step::Initialize(_))) && matches!(end, End::Completed { .. });
        self.silent_scenarios += u32::from(asked && !self.spoke);
        self.unanswered_scenarios += u32::from(asked && !self.answered);
    }

    /// Why the scenarios that are left are not begun.
    fn is_final(&self) -> Option<&'static str> {
        if !self.spoke && (self.not_started || self.silent_scenarios >= MAX_SILENT_SCENARIOS) {
            Some(NOT_STARTED)
        } else if !self.answered && self.unanswered_scenarios >= MAX_UNANSWERED_SCENARIOS {
            Some(NEVER_ANSWERS)
        } else {
            None
        }
    }
}

/// Nobody takes the events any more.
pub(super) struct Deaf;

/// Takes scenarios from the queue until it is empty.
pub(super) async fn work(work: Arc<Work>) -> Result<(), Deaf> {
    let mut core: Option<Core> = None;
    let mut unstartable: Option<(Fault, String)> = None;
    while let Some(job) = work.take() {
        let pointless = work.silence().is_final();
        let end = if work.cancel.is_cancelled() {
            End::Interrupted
        } else if let Some(why) = pointless {
            End::Broken { fault: Fault::Agent, message: why.to_owned() }
        } else if let Some((fault, message)) = &unstartable {
            End::Broken { fault: *fault, message: message.clone() }
        } else {
            if core.is_none() {
                match work.start().await {
                    Ok((started, facts)) => {
                        work.tell(Event::Driver(Box::new(facts))).await?;
                        core = Some(started);
                    }
                    Err(failure) => unstartable = Some(failure),
                }
            }
            match (&mut core, &unstartable) {
                (Some(core), _) => work.carry_out(core, job).await?,
                (None, Some((fault, message))) => End::Broken { fault: *fault, message: message.clone() },
                (None, None) => End::Broken { fault: Fault::Harness, message: "there is no driver".to_owned() },
            }
        };
        // Whatever a driver did that broke a scenario, the next one gets a fresh one.
        work.silence().scenario_ended(&work.jobs[job].plan, &end);
        if matches!(end, End::Broken { .. })
            && let Some(core) = core.take()
        {
            work.tell_network(&core).await?;
            let ended = core.kill().await;
            work.tell(Event::DriverEnded(Box::new(ended.budget))).await?;
        }
        work.tell(Event::Ended { job, end }).await?;
    }
    if let Some(core) = core {
        work.tell_network(&core).await?;
        let ended = core.shutdown().await;
        work.tell(Event::DriverEnded(Box::new(ended.budget))).await?;
    }
    Ok(())
}

impl Work {
    fn take(&self) -> Option<usize> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell(&self, event: Event) -> Result<(), Deaf> {
        self.events.send(event).await.map_err(|_| Deaf)
    }

    /// Every agent of this driver has ended, and its connections with it.
    async fn tell_network(&self, core: &Core) -> Result<(), Deaf> {
        let exchanges = core.recorded();
        if exchanges.is_empty() { Ok(()) } else { self.tell(Event::Network(exchanges)).await }
    }

    async fn start(&self) -> Result<(Core, DriverFacts), (Fault, String)> {
        let driver = &self.request.driver;
        let mut launch = DriverLaunch::new(
            driver.program.clone(),
            driver.env.clone(),
            driver.shim.clone(),
            self.request.scratch.clone(),
        );
        launch.args.clone_from(&driver.args);
        // It must be there before the driver is, to be among what it may write to.
        let sessions = self.request.scratch.join(SESSIONS);
        if let Err(e) = std::fs::create_dir_all(&sessions) {
            return Err((Fault::Environment, format!("failed to make the directory `{}`: {e}", sessions.display())));
        }
        launch.artifact = Some(self.artifact.clone());
        launch.rules = self.rules();
        launch.recorder = self.recorder();
        let grants = launch.rules.grants.clone();
        launch.session.verify_summary = true;
        let mut core = tokio::select! {
            started = Core::start(launch) => started.map_err(|error| self.start_failure(&error))?,
            () = self.cancel.cancelled() => return Err((Fault::Environment, INTERRUPTED.to_owned())),
        };
        let Some(hello) = core.driver().cloned() else {
            return Err((Fault::Driver, "the driver did not say what it is".to_owned()));
        };
        if let Some(message) = self.lacks_sandbox(core.applied()) {
            core.kill().await;
            return Err((Fault::Environment, message));
        }
        let approved: Vec<Permission> =
            hello.requested_permissions.iter().filter(|name| grants.contains(name)).cloned().collect();
        let preparation = Preparation { digest: self.plan_digest, approved: approved.clone(), fixtures: Vec::new() };
        match core.prepare(preparation).await {
            Ok(accepted) => {
                let kept = *core.isolation() == Isolation::Keeper;
                let applied = core.applied().clone();
                Ok((core, DriverFacts { hello, approved, accepted, kept, applied }))
            }
            Err(error) => {
                let ended = core.kill().await;
                Err((fault_of(&error), self.with_stderr(chain(&error), &ended.stderr)))
            }
        }
    }

    /// What a driver may be permitted, and so what it is kept from.
    fn rules(&self) -> DriverRules {
        let mut rules = DriverRules::default();
        rules.grants = GRANTED.map(Permission::from).to_vec();
        let Some(isolation) = &self.request.agent.isolation else {
            rules.grants.push(Permission::from(Permission::TARGET_HOME));
            return rules;
        };
        rules.confine_target = true;
        match &isolation.network {
            AgentNetwork::None => {}
            AgentNetwork::Ports(ports) => {
                rules.grants.push(Permission::from(Permission::TARGET_ONLY_NETWORK));
                rules.ports.clone_from(ports);
            }
            AgentNetwork::Recorder(_) => rules.grants.push(Permission::from(Permission::RECORDER_SOCKET)),
        }
        rules.read.clone_from(&isolation.read);
        rules.read.push(self.request.agent.cwd.clone());
        rules.write.push(self.request.agent.session_cwd.clone().unwrap_or_else(|| self.request.scratch.join(SESSIONS)));
        rules
    }

    fn recorder(&self) -> Option<RecorderConfig> {
        let AgentNetwork::Recorder(allow) = &self.request.agent.isolation.as_ref()?.network else { return None };
        let mut config = RecorderConfig::new(allow.clone());
        // A secret that begins in what is kept shows behind it.
        config.kept_bytes = EXCHANGE_KEPT_BYTES + self.sanitiser.hold_back_bytes();
        Some(config)
    }

    /// Why a driver that was started is not isolated as the user insists on.
    fn lacks_sandbox(&self, applied: &Applied) -> Option<String> {
        if !self.request.driver.require_sandbox {
            return None;
        }
        let lacking: Vec<String> =
            applied.lacking().map(|measure| format!("{}: {}", measure.aspect.as_str(), measure.how)).collect();
        (!lacking.is_empty()).then(|| format!("failed to isolate the driver as required: {}", lacking.join("; ")))
    }

    fn start_failure(&self, error: &StartError) -> (Fault, String) {
        let message = chain(&error.error);
        let message = match &error.ended {
            Some(ended) => self.with_stderr(message, &ended.stderr),
            None => message,
        };
        (fault_of(&error.error), message)
    }

    fn with_stderr(&self, message: String, stderr: &Captured) -> String {
        match end_of(stderr, &self.sanitiser) {
            Some(quote) => format!("{message}; it wrote: {quote}"),
            None => message,
        }
    }

    async fn carry_out(&self, core: &mut Core, at: usize) -> Result<End, Deaf> {
        let job = &self.jobs[at];
        let operations = core.driver().map(|hello| hello.capabilities.operations.as_slice()).unwrap_or_default();
        if let Some(operation) = job.lacks(operations) {
            return Ok(End::LacksStep { operation });
        }
        let session = match SessionDir::new(&self.request) {
            Ok(session) => session,
            Err(message) => return Ok(End::Broken { fault: Fault::Environment, message }),
        };
        let mut input = job.input(&self.request, session.path.clone());
        if self.request.agent.isolation.is_some() {
            for (name, folder) in [("HOME", "home"), ("TMPDIR", "tmp")] {
                let path = core.work_dir().join(folder).to_string_lossy().into_owned();
                input.agent.env.insert(name.to_owned(), path);
            }
            if let Some(socket) = core.recorder_socket() {
                let path = socket.to_string_lossy().into_owned();
                input.agent.env.insert(RECORDER_VARIABLE.to_owned(), path);
            }
        }
        let input = match to_canonical(&input) {
            Ok(input) => input,
            Err(error) => return Ok(End::Broken { fault: Fault::Harness, message: chain(&error) }),
        };
        let (Some(invocation), Some(attempt)) = (new_id(), new_id()) else {
            let message = "the system gave no time or no randomness for an id".to_owned();
            return Ok(End::Broken { fault: Fault::Environment, message });
        };
        self.tell(Event::Started { job: at, invocation, attempt }).await?;
        let invoke = Invoke {
            invocation_id: invocation,
            attempt_id: attempt,
            operation: SCENARIO_OPERATION.into(),
            input,
            deadline: job.deadline(),
            cancel_grace: job.cancel_grace(),
        };
        let ended = match core.invoke(invoke) {
            Ok(mut run) => self.observe(&mut run, at).await?,
            Err(error) => Err(error),
        };
        Ok(match ended {
            Ok(end) => end,
            Err(error) => {
                End::Broken { fault: fault_of(&error), message: self.with_stderr(chain(&error), &core.stderr()) }
            }
        })
    }

    /// Takes what an invocation reports until it is completed.
    async fn observe(&self, run: &mut Run<'_>, job: usize) -> Result<Result<End, CoreError>, Deaf> {
        let mut error_message = None;
        let mut asked_to_cancel = false;
        loop {
            let next = tokio::select! {
                biased;
                () = self.cancel.cancelled(), if !asked_to_cancel => {
                    asked_to_cancel = true;
                    // A driver that cannot cancel is closed down with the check.
                    let cancelled = run.cancel(INTERRUPTED, self.jobs[job].cancel_grace());
                    if cancelled.is_err() {
                        return Ok(Ok(End::Interrupted));
                    }
                    continue;
                }
                next = run.next() => next,
            };
            match next {
                Ok(Some(Observed::Observation(params))) => {
                    let payload = params.payload.as_ref().map(|payload| payload.as_str().to_owned());
                    if &*params.kind == ERROR_KIND {
                        error_message = payload.as_deref().and_then(message_of);
                    }
                    self.silence().heard(&params.kind, payload.as_deref().unwrap_or_default());
                    let (sequence, kind, monotonic_ns) = (params.sequence, params.kind, params.monotonic_ns);
                    self.tell(Event::Observation { job, sequence, kind, monotonic_ns, payload }).await?;
                }
                Ok(Some(Observed::Data { stream_id, bytes, is_final })) => {
                    self.tell(Event::Data { job, stream_id, bytes, is_final }).await?;
                }
                Ok(None) => break,
                Err(_) if asked_to_cancel => return Ok(Ok(End::Interrupted)),
                Err(error) => return Ok(Err(error)),
            }
        }
        let Some(completed) = run.completed() else { return Ok(Err(CoreError::Over)) };
        let broken = |message: String| End::Broken { fault: Fault::Driver, message };
        Ok(Ok(match (completed.status, run.cancelled()) {
            (_, Some(CancelCause::Requested)) => End::Interrupted,
            (_, Some(CancelCause::Deadline)) => {
                broken(format!("the driver did not end within {} s", self.jobs[job].deadline().as_secs()))
            }
            (TerminalStatus::Completed, None) => End::Completed { summary: completed.summary_digest },
            (TerminalStatus::Cancelled, None) => broken("the driver cancelled the scenario by itself".to_owned()),
            (TerminalStatus::Errored, None) => broken(match error_message {
                Some(message) => format!("the driver {message}"),
                None => "the driver ended the scenario with an error".to_owned(),
            }),
        }))
    }
}

/// Why a scenario was not carried out when the user stopped the check.
pub(super) const INTERRUPTED: &str = "the check was interrupted";

/// Where the sessions' directories are made, in the scratch directory.
const SESSIONS: &str = "sessions";

/// The directory of one scenario's session, gone with it unless it is the user's own.
struct SessionDir {
    path: String,
    _fresh: Option<TempDir>,
}

impl SessionDir {
    fn new(request: &CheckRequest) -> Result<Self, String> {
        let (path, fresh) = match &request.agent.session_cwd {
            Some(path) => (path.clone(), None),
            None => {
                let base = request.scratch.join(SESSIONS);
                let fresh = tempfile::Builder::new().prefix("session-").tempdir_in(&base);
                let fresh =
                    fresh.map_err(|e| format!("failed to make a working directory in `{}`: {e}", base.display()))?;
                (fresh.path().to_owned(), Some(fresh))
            }
        };
        let text = path.to_str().ok_or_else(|| format!("the working directory `{}` is not UTF-8", path.display()))?;
        Ok(Self { path: text.to_owned(), _fresh: fresh })
    }
}

pub(super) fn new_id() -> Option<InstanceId> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
    InstanceId::new(i64::try_from(millis).ok()?, random).ok()
}

fn message_of(payload: &str) -> Option<String> {
    let payload: serde_json::Value = read_own(payload.as_bytes()).ok()?;
    Some(payload.get("message")?.as_str()?.to_owned())
}

fn fault_of(error: &CoreError) -> Fault {
    match error {
        error if error.is_drivers() => Fault::Driver,
        CoreError::Recorder(_)
        | CoreError::Spawn(_)
        | CoreError::Work { .. }
        | CoreError::Files(_)
        | CoreError::Pipe(_) => Fault::Environment,
        _ => Fault::Harness,
    }
}

/// An error and the ones below it, as one fragment.
fn chain(error: &dyn Error) -> String {
    let mut text = format!("failed to drive: {error}");
    let mut below = error.source();
    while let Some(source) = below {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        below = source.source();
    }
    text
}

/// The end of what a driver wrote, if it wrote anything. Secrets are replaced before it is cut: one that the cut has parted
/// would not be known any more.
fn end_of(stderr: &Captured, sanitiser: &Sanitiser) -> Option<String> {
    let text = sanitiser.text(stderr.to_text().as_bytes(), usize::MAX);
    let text = text.to_text();
    let text = text.trim();
    let mut start = text.len().saturating_sub(QUOTED_STDERR_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    (!text.is_empty()).then(|| text[start..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "kR7wQz2LmN9xTb4VcP6s";

    fn quoted(text: &str) -> Option<String> {
        let (head, total_bytes) = (text.as_bytes().to_vec(), text.len() as u64);
        end_of(&Captured { head, total_bytes, ..Captured::default() }, &Sanitiser::new([SECRET]))
    }

    #[test]
    fn the_end_of_standard_error_is_quoted() {
        assert_eq!(quoted(""), None);
        assert_eq!(quoted(" \n"), None);
        assert_eq!(quoted("panicked\n").as_deref(), Some("panicked"));
        let long = format!("begin {} end", "\u{e9}".repeat(QUOTED_STDERR_BYTES));
        let quote = quoted(&long).expect("a quote");
        assert!(quote.len() <= QUOTED_STDERR_BYTES && quote.ends_with("\u{e9} end") && !quote.contains("begin"));
    }

    /// Wherever the quote begins in a secret, no part of it is quoted.
    #[test]
    fn a_secret_that_the_quote_would_cut_is_gone() {
        for behind in QUOTED_STDERR_BYTES - SECRET.len()..=QUOTED_STDERR_BYTES {
            let text = format!("{}{SECRET}{}", ". ".repeat(100), "!".repeat(behind));
            let quote = quoted(&text).expect("a quote");
            assert!(quote.ends_with(&"!".repeat(behind)), "{behind} bytes behind it: {quote}");
            let part = (0..=SECRET.len() - 4).find(|at| quote.contains(&SECRET[*at..at + 4]));
            assert_eq!(part, None, "{behind} bytes behind it: {quote}");
        }
    }
}
