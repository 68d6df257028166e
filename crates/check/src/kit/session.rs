//! One session with one process of the driver: Core's end, and a way around it.

mod around;

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use pintle_sdk::driver::{
    CommandError, CoreConfig, CoreEvent, CoreSession, DATA_STREAM_VARIABLE, Digest, ExactInputHandle, FairClock,
    FixtureRefs, Id, InputKind, InstanceId, InvokeParams, MAX_CONTROL_FRAME_BYTES, Message, Method, Outcome, Output,
    Permission, PrepareParams, Secret, State, decode_control_frame,
};
use pintle_sdk::process::{ChildStdin, ChildStdout, Launch, NamedPipe, Process, Shim};
use pintle_wire::{Framer, Line};
use tempfile::TempDir;
use tokio::net::unix::pipe;

use super::answer::{Answer, Ended, new_id, refusal};
use super::catalog::id;
use super::pipes::{Feed, contains, feed, read, write};
use super::rig::{KitOperation, Rig};
use super::stop::{Step, Stop};
use super::transcript::Transcript;

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// A running driver.
pub(super) struct Session<'a> {
    rig: &'a Rig,
    transcript: Rc<RefCell<Transcript>>,
    core: CoreSession,
    process: Process,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    data: Option<pipe::Receiver>,
    feeds: Vec<Feed>,
    /// The invocation that was begun last.
    last: Option<InstanceId>,
    ended_others: BTreeSet<InstanceId>,
    framer: Framer,
    out: Bytes,
    read: BytesMut,
    read_data: BytesMut,
    heard_bytes: u64,
    /// Ids of requests past Core's session, and the answers to them.
    open: Vec<Id>,
    answers: VecDeque<(Id, Answer)>,
    events: VecDeque<CoreEvent>,
    secrets: Vec<String>,
    leaked: bool,
    reading: bool,
    inputs: u32,
    clock: FairClock,
    // Dropped after the process, which lives in it.
    work: TempDir,
}

/// An error and the ones below it, as one fragment.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// What a turn has brought.
enum Happened {
    Control(io::Result<usize>),
    Data(io::Result<usize>),
    Written(io::Result<usize>),
    /// A deadline has passed, and there was nothing to be read.
    Overdue,
    Nothing,
}

impl<'a> Session<'a> {
    /// Starts the driver and says nothing yet.
    pub(super) async fn start(rig: &'a Rig, transcript: &Rc<RefCell<Transcript>>) -> Step<Self> {
        let machine = |error: io::Error| Stop::Environment(format!("make a private directory: {error}"));
        let work = tempfile::Builder::new().prefix("kit-").tempdir_in(&rig.request.scratch).map_err(machine)?;
        for name in ["home", "tmp", "fixtures"] {
            std::fs::create_dir(work.path().join(name)).map_err(machine)?;
        }
        let mut launch = Launch::new(rig.request.program.clone());
        launch.args.clone_from(&rig.request.args);
        launch.env = rig.request.env.clone();
        launch.env.set("HOME", work.path().join("home"));
        launch.env.set("TMPDIR", work.path().join("tmp"));
        launch.cwd = Some(work.path().to_owned());
        launch.shim = rig.request.shim.clone();
        let data = if rig.request.shim == Shim::None {
            None
        } else {
            let (named_pipe, receiver) = NamedPipe::receiver(work.path().join("data.fifo")).map_err(machine)?;
            launch.named_pipe = Some(named_pipe);
            launch.env.set(DATA_STREAM_VARIABLE, "fd:3");
            Some(receiver)
        };
        let mut process = Process::spawn(launch).await.map_err(|error| match rig.hello {
            None => Stop::NotStarted(chain(&error)),
            Some(_) => Stop::Environment(format!("start the driver again: {}", chain(&error))),
        })?;
        let config = CoreConfig {
            request_timeout: rig.request.answer,
            verify_summary: true,
            stream_grace: rig.request.ladder.stream_grace.max(Duration::from_secs(1)),
            ..CoreConfig::default()
        };
        let (stdin, stdout) = (process.take_stdin(), process.take_stdout());
        Ok(Self {
            rig,
            transcript: Rc::clone(transcript),
            core: CoreSession::new(config),
            process,
            stdin,
            stdout,
            data,
            feeds: Vec::new(),
            last: None,
            ended_others: BTreeSet::new(),
            framer: Framer::new(MAX_CONTROL_FRAME_BYTES),
            out: Bytes::new(),
            read: BytesMut::new(),
            read_data: BytesMut::new(),
            heard_bytes: 0,
            open: Vec::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
            secrets: Vec::new(),
            leaked: false,
            reading: true,
            inputs: 0,
            clock: FairClock::new(),
            work,
        })
    }

    // What Core does.

    /// The handshake.
    pub(super) async fn hello(&mut self) -> Step<()> {
        let asked = self.core.hello(self.clock.now());
        self.command(asked)?;
        match self.event().await? {
            CoreEvent::Hello { result, .. } => {
                self.transcript.borrow_mut().hello = Some(*result);
                Ok(())
            }
            other => Err(self.instead(id::HELLO, "driver.hello", &other)),
        }
    }

    /// Agrees on a plan with these permissions, and returns those that were taken.
    pub(super) async fn prepare(&mut self, approved: Vec<Permission>) -> Step<Vec<Permission>> {
        let params = PrepareParams {
            resolved_plan_digest: Digest::of(b"plan of the driver conformance kit"),
            capability_token: Secret::new(self.secret()?),
            fixture_refs: FixtureRefs::Absent,
            approved_permissions: approved,
        };
        let asked = self.core.prepare(self.clock.now(), params);
        self.command(asked)?;
        match self.event().await? {
            CoreEvent::Prepared { accepted } => {
                if !self.core.companion_stream_accepted() {
                    self.data = None;
                    self.core.eof_data(self.clock.now());
                }
                Ok(accepted)
            }
            other => Err(self.instead(id::PREPARE, "driver.prepare", &other)),
        }
    }

    /// Handshake and plan, with all that the driver wants.
    pub(super) async fn ready(&mut self) -> Step<()> {
        self.hello().await?;
        let approved = self.core.driver().map(|hello| self.rig.approvable(hello)).unwrap_or_default();
        self.prepare(approved).await?;
        Ok(())
    }

    /// Asks what the driver can do.
    pub(super) async fn capabilities(&mut self) -> Step<pintle_sdk::driver::Capabilities> {
        let asked = self.core.capabilities(self.clock.now());
        self.command(asked)?;
        match self.event().await? {
            CoreEvent::Capabilities(capabilities) => Ok(capabilities),
            other => Err(self.instead(id::CAPABILITIES, "driver.capabilities", &other)),
        }
    }

    /// Asks the driver to forget prepared data.
    pub(super) async fn reset(&mut self) -> Step<()> {
        let asked = self.core.reset(self.clock.now());
        self.command(asked)?;
        match self.event().await? {
            CoreEvent::Reset => Ok(()),
            other => Err(self.instead(id::RESET, "driver.reset", &other)),
        }
    }

    /// Starts an invocation and waits until the driver has taken it, or has seen to it at once.
    pub(super) fn invoke(&mut self, operation: &KitOperation) -> Step<InstanceId> {
        let (invocation_id, input) = (new_id()?, self.input(&operation.input)?);
        let params = InvokeParams {
            invocation_id,
            attempt_id: new_id()?,
            operation: operation.name.as_str().into(),
            input: ExactInputHandle { kind: InputKind::Pipe, value: Secret::new(input) },
        };
        let asked = self.core.invoke(self.clock.now(), params);
        self.command(asked)?;
        self.last = Some(invocation_id);
        Ok(invocation_id)
    }

    /// Lets the invocation run to its end.
    pub(super) async fn completed(&mut self, within: Duration) -> Step<pintle_sdk::driver::CompletedParams> {
        let until = self.clock.now() + within;
        loop {
            match self.event_until(until).await? {
                Some(CoreEvent::Completed(completed)) => return Ok(completed),
                Some(CoreEvent::Refused { method: Method::Invoke, error, .. }) => {
                    return Err(Stop::breaks(id::INVOKE, refusal(&error)));
                }
                Some(_) => {}
                None => {
                    let seconds = within.as_secs_f64();
                    return Err(Stop::breaks(id::INVOKE, format!("invocation did not end within {seconds} s")));
                }
            }
        }
    }

    /// Waits until the driver has taken the invocation.
    pub(super) async fn taken(&mut self) -> Step<()> {
        loop {
            match self.event().await? {
                CoreEvent::InvokeAccepted { .. } => return Ok(()),
                CoreEvent::Observation(_) | CoreEvent::Data { .. } => {}
                CoreEvent::Completed(_) => {
                    return Err(Stop::NotExercised("the operation that was to go on ended at once"));
                }
                other => return Err(self.instead(id::INVOKE, "driver.invoke", &other)),
            }
        }
    }

    /// Cancels the invocation that was begun last.
    pub(super) fn cancel(&mut self, deadline: Duration) -> Step<()> {
        match self.last {
            Some(invocation_id) => self.cancel_one(invocation_id, deadline),
            None => Err(Stop::NotExercised("no invocation was begun")),
        }
    }

    /// Cancels one of several invocations.
    pub(super) fn cancel_one(&mut self, invocation_id: InstanceId, deadline: Duration) -> Step<()> {
        let asked = self.core.cancel(self.clock.now(), invocation_id, "the conformance kit cancels", deadline);
        self.command(asked)
    }

    /// Waits until one of several invocations has ended.
    pub(super) async fn completed_one(
        &mut self,
        invocation_id: InstanceId,
        within: Duration,
    ) -> Step<pintle_sdk::driver::CompletedParams> {
        loop {
            let completed = self.completed(within).await?;
            if completed.invocation_id == invocation_id {
                return Ok(completed);
            }
            self.ended_others.insert(completed.invocation_id);
        }
    }

    /// Whether one of several invocations has ended while another one was waited for.
    pub(super) fn has_ended(&self, invocation_id: &InstanceId) -> bool {
        self.ended_others.contains(invocation_id)
    }

    /// The next event of Core's session; a fault and a request without an answer end the case.
    pub(super) async fn event(&mut self) -> Step<CoreEvent> {
        loop {
            // Core's own deadlines end this wait.
            let far = self.clock.now() + Duration::from_secs(3600);
            if let Some(event) = self.event_until(far).await? {
                return Ok(event);
            }
        }
    }

    async fn event_until(&mut self, until: Instant) -> Step<Option<CoreEvent>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return match event {
                    CoreEvent::Fault(fault) => Err(Stop::fault(&fault, self.core.state())),
                    CoreEvent::TimedOut { method, .. } => Err(Stop::silent(method.as_str())),
                    event => Ok(Some(event)),
                };
            }
            if !self.turn(until).await? {
                return Ok(None);
            }
        }
    }

    fn command<T>(&mut self, outcome: Result<T, CommandError>) -> Step<()> {
        self.collect_events();
        let fault = self.events.iter().find_map(|event| match event {
            CoreEvent::Fault(fault) => Some(fault),
            _ => None,
        });
        match (outcome, fault) {
            (Ok(_), _) => Ok(()),
            // What the driver did a moment ago has ended the session.
            (Err(_), Some(fault)) => Err(Stop::fault(fault, self.core.state())),
            // The driver has brought the session to a state in which Core would not go on.
            (Err(error), None) => Err(Stop::NotExercised(match error {
                CommandError::Operation => "the driver does not declare the operation",
                CommandError::Cancellation => "the driver does not declare cancellation",
                _ => "the session did not come to it",
            })),
        }
    }

    fn instead(&self, id: &'static str, asked: &str, event: &CoreEvent) -> Stop {
        match event {
            CoreEvent::Refused { error, .. } => Stop::breaks(id, format!("{asked}: {}", refusal(error))),
            CoreEvent::Closed => Stop::breaks(id::STAYS, "driver closed its output"),
            _ => Stop::breaks(id::RESPONSES, format!("{asked} was answered with something else")),
        }
    }

    // The end.

    /// Shutdown, close, wait; then what is required of every session is looked at.
    pub(super) async fn close(mut self) -> Step<()> {
        if self.core.state() == State::Prepared && self.stdout.is_some() {
            let asked = self.core.shutdown(self.clock.now());
            self.command(asked)?;
            loop {
                match self.event().await? {
                    CoreEvent::Shutdown => break,
                    // Receipts that came after the end of their invocation.
                    CoreEvent::InvokeAccepted { .. }
                    | CoreEvent::CancelAcknowledged { .. }
                    | CoreEvent::Refused { method: Method::Cancel, .. } => {}
                    CoreEvent::Refused { error, .. } => return Err(Stop::breaks(id::SHUTDOWN, refusal(&error))),
                    other => return Err(self.instead(id::SHUTDOWN, "driver.shutdown", &other)),
                }
            }
        }
        self.end().await.map(|_| ())
    }

    /// Closes the driver's input and waits for its end.
    pub(super) async fn end(mut self) -> Step<Ended> {
        self.stdin = None;
        self.out.clear();
        let ladder = self.rig.request.ladder;
        let until = self.clock.now() + ladder.close_grace;
        // What it still says is read, so that it cannot hang on a full pipe.
        while self.stdout.is_some() && self.turn(until).await? {}
        if let Some(CoreEvent::Fault(fault)) = self.events.iter().find(|event| matches!(event, CoreEvent::Fault(_)))
            && !matches!(fault, pintle_sdk::driver::Fault::Closed)
        {
            return Err(Stop::fault(fault, self.core.state()));
        }
        let left = until.saturating_duration_since(self.clock.now());
        let signalled = tokio::time::timeout(left, self.process.exited()).await.is_err();
        let rest = pintle_sdk::process::Ladder { close_grace: Duration::ZERO, ..ladder };
        let outcome = self.process.shut_down(rest).await;
        let stderr = self.process.stderr().map(|stderr| stderr.snapshot().to_text()).unwrap_or_default();
        if self.leaked || self.secrets.iter().any(|secret| stderr.contains(secret.as_str())) {
            return Err(Stop::breaks(id::SECRETS, "a capability token or an input handle came back from the driver"));
        }
        if outcome.descendants.any() {
            return Err(Stop::breaks(id::DESCENDANTS, "processes that the driver had started were still there"));
        }
        self.transcript.borrow_mut().heard.ended += 1;
        Ok(Ended { exit: outcome.exit, signalled })
    }

    /// Waits for whatever comes next. False when `until` has passed. Nothing is late that can be read, as with Core.
    async fn turn(&mut self, until: Instant) -> Step<bool> {
        self.collect_output();
        let core = if self.reading { self.core.poll_timeout() } else { None };
        let deadline = core.map_or(until, |at| at.min(until));
        let due = deadline <= self.clock.now();
        let longest = self.clock.until(deadline);
        self.read.reserve(READ_BYTES);
        self.read_data.reserve(READ_BYTES);
        let waiting = self.clock.wait(Some(longest));
        let happened = tokio::select! {
            biased;
            happened = async {
                tokio::select! {
                    read = read(&mut self.stdout, &mut self.read), if self.reading => Happened::Control(read),
                    read = read(&mut self.data, &mut self.read_data), if self.reading => Happened::Data(read),
                    written = write(&mut self.stdin, &self.out), if !self.out.is_empty() => Happened::Written(written),
                    () = feed(&mut self.feeds) => Happened::Nothing,
                }
            } => happened,
            () = waiting.passed() => if due { Happened::Overdue } else { Happened::Nothing },
        };
        drop(waiting);
        self.clock.attend();
        let mut in_time = true;
        match happened {
            Happened::Control(Ok(count)) if count > 0 => {
                let bytes = self.read.split().freeze();
                self.hear(bytes)?;
            }
            Happened::Control(_) => self.hear_end()?,
            Happened::Data(Ok(count)) if count > 0 => {
                self.heard_bytes += count as u64;
                self.core.feed_data(self.clock.now(), self.read_data.split().freeze());
            }
            Happened::Data(_) => {
                self.data = None;
                self.core.eof_data(self.clock.now());
            }
            Happened::Written(Ok(count)) => self.out.advance(count),
            Happened::Written(Err(_)) => {
                self.stdin = None;
                self.out.clear();
            }
            Happened::Overdue => {
                let now = self.clock.now();
                if self.reading {
                    self.core.handle_timeout(now);
                }
                in_time = now < until;
            }
            Happened::Nothing => {}
        }
        self.collect_events();
        let limit = self.rig.request.max_session_bytes;
        if self.heard_bytes > limit {
            let detail = format!("driver wrote more than {limit} bytes in one session");
            return Err(Stop::breaks(id::FLOOD, detail));
        }
        Ok(in_time)
    }

    fn collect_output(&mut self) {
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Control(bytes) => {
                    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                        self.write(Bytes::copy_from_slice(line));
                    }
                }
                Output::Close => self.stdin = None,
                Output::Data(_) => {}
            }
        }
    }

    fn collect_events(&mut self) {
        while let Some(event) = self.core.poll_event() {
            self.transcript.borrow_mut().heard.event(&event);
            self.events.push_back(event);
        }
    }

    /// Gives the kit its answers and Core the rest, line by line.
    fn hear(&mut self, bytes: Bytes) -> Step<()> {
        self.heard_bytes += bytes.len() as u64;
        self.framer.feed(bytes);
        while let Some(line) = self.framer.next() {
            self.hear_line(line)?;
        }
        Ok(())
    }

    fn hear_end(&mut self) -> Step<()> {
        self.stdout = None;
        while let Some(line) = self.framer.finish() {
            self.hear_line(line)?;
        }
        self.core.eof(self.clock.now());
        Ok(())
    }

    fn hear_line(&mut self, line: Line) -> Step<()> {
        let line = match line {
            Line::Complete(line) => line,
            Line::Blank => Bytes::new(),
            Line::TooLong { bytes } => {
                let detail = format!("driver wrote a line of {bytes} bytes, the limit is {MAX_CONTROL_FRAME_BYTES}");
                return Err(Stop::breaks(id::FRAME_SIZE, detail));
            }
        };
        let message = decode_control_frame(&line);
        {
            let mut transcript = self.transcript.borrow_mut();
            transcript.heard(&line);
            transcript.heard.frame(&message);
        }
        self.leaked |= self.secrets.iter().any(|secret| contains(&line, secret.as_bytes()));
        if let Ok(Message::Response(response)) = message
            && self.open.contains(&response.id)
        {
            if self.answers.iter().any(|(id, _)| *id == response.id) {
                return Err(Stop::breaks(id::RESPONSES, "driver answered one request twice"));
            }
            let answer = match response.outcome {
                Outcome::Result(value) => Answer::Result(value.as_str().into()),
                Outcome::Error(error) => Answer::Error(error),
            };
            self.answers.push_back((response.id, answer));
            return Ok(());
        }
        let mut framed = BytesMut::from(line.as_ref());
        framed.extend_from_slice(b"\n");
        self.core.feed(self.clock.now(), framed.freeze());
        Ok(())
    }
}
