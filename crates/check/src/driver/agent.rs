//! The loop around the [`Executor`]: the agent's process, its streams, the clock and the files.

use std::collections::VecDeque;
use std::error::Error as _;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use pintle_sdk::driver::LONGEST_WAIT;
use pintle_sdk::process::{
    ChildStdin, ChildStdout, Descendants, Environment, Exit, Launch, Process, Program, ProgramError, Shim, Signal,
    SpawnError,
};
use pintle_store::beneath::Beneath;
use pintle_wire::{Framer, Line};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::exec::{Action, Content, Executor, Settings, nanos};
use super::files;
use super::input::Input;
use super::recorder::{Recorder, Report};
use crate::observation::{
    AgentDescendants, AgentExit, AgentStart, AgentStderr, DESCENDANTS_MAX, Descendant, Observation, StartFailure,
    StartFailureReason,
};
use crate::pack::SignalName;

/// Reports that may wait for Core. What a scenario can report at all is below it, so that a slow Core never makes the
/// driver late for its agent.
pub const REPORT_QUEUE: usize = 32 * 1024;
/// Bytes that may wait for an agent that does not read; over it, its input counts as closed.
const MAX_UNWRITTEN_BYTES: usize = 160 * 1024 * 1024;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// How late a deadline may be handled because the agent keeps writing: what it wrote before the deadline counts. Counted from
/// the moment in which this process, which may have been kept waiting itself, sees that the deadline is over.
const MAX_LATENESS: Duration = Duration::from_millis(200);
/// How long to wait for the rest of standard error, and for the keeper's last word, when all is over.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How an invocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The scenario was carried out, whatever the agent made of it.
    Completed,
    /// Core cancelled it.
    Cancelled,
}

/// Why a scenario could not be carried out, through no fault of the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The keeper or the pipes could not be made.
    #[error("supervise the agent")]
    Supervise(#[source] SpawnError),
    /// Nobody takes the observations any more.
    #[error("report what the agent did: nobody listens")]
    Deaf,
    /// Its keeper was killed, and the agent with it. What the agent then left undone says nothing about it.
    #[error("keep the agent running: somebody killed its keeper")]
    KeeperLost,
}

/// Carries out the scenario of `input` and reports what happens, over a channel that should have room for
/// [`REPORT_QUEUE`]. `streams` says whether long frames may come as [`Report::Stream`].
///
/// When `cancel` fires, the remaining steps are skipped and the agent is closed down; the reports still come. If the
/// future is dropped, the agent and all that it started are killed.
///
/// # Errors
/// [`AgentError`]: never a fault of the agent.
pub async fn carry_out(
    input: Input,
    shim: Shim,
    streams: bool,
    cancel: &CancellationToken,
    reports: mpsc::Sender<Report>,
) -> Result<Ending, AgentError> {
    let began = Instant::now();
    let settings = Settings {
        session_cwd: input.agent.session_cwd.clone(),
        timeouts: input.timeouts_ms,
        max_line_bytes: input.limits.max_line_bytes,
    };
    let mut exec = Executor::new(input.scenario.clone(), settings);
    let mut reporter = Reporter { recorder: Recorder::new(input.limits, streams), reports, waited: Duration::ZERO };
    let started = start(&input, shim).await;
    let failure = match &started {
        Ok(_) => None,
        Err(error) => Some(start_failure(error)),
    };
    let process = match started {
        Err(error) if failure.as_ref().is_some_and(Option::is_none) => return Err(AgentError::Supervise(error)),
        other => other.ok(),
    };
    let start = AgentStart { t_ns: nanos(began.elapsed()), failure: failure.flatten() };
    reporter.observe(Observation::Start(start)).await?;
    let Some(process) = process else {
        exec.start_failed(began.elapsed());
        while let Some(action) = exec.poll_action() {
            if let Action::Step(step) = action {
                reporter.observe(Observation::Step(step)).await?;
            }
        }
        return Ok(Ending::Completed);
    };
    exec.start(began.elapsed());
    let files = Beneath::open(Path::new(&input.agent.session_cwd)).ok();
    Run::new(exec, process, reporter, files, input.limits.max_line_bytes, began).until_finished(cancel).await
}

async fn start(input: &Input, shim: Shim) -> Result<Process, SpawnError> {
    let agent = &input.agent;
    let env: Environment = agent.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let name = agent.argv.first().map(String::as_str).unwrap_or_default();
    let program = Program::find(name, env.get("PATH"), Path::new(&agent.cwd))?;
    let mut launch = Launch::new(program);
    launch.args = agent.argv.iter().skip(1).map(Into::into).collect();
    launch.env = env;
    launch.cwd = Some(agent.cwd.clone().into());
    launch.shim = shim;
    Process::spawn(launch).await
}

/// The agent's own failure to start, or `None` when it is ours to explain.
fn start_failure(error: &SpawnError) -> Option<StartFailure> {
    let reason = match error {
        SpawnError::Keeper { .. } | SpawnError::NotAKeeper { .. } | SpawnError::NeedsKeeper { .. } => return None,
        SpawnError::Pipe { .. } => return None,
        SpawnError::Program(ProgramError::NotExecutable { .. } | ProgramError::NotAFile { .. }) => {
            StartFailureReason::PermissionDenied
        }
        SpawnError::Program(ProgramError::Io { .. }) => StartFailureReason::Other,
        SpawnError::Program(_) => StartFailureReason::NotFound,
        SpawnError::Exec { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            StartFailureReason::PermissionDenied
        }
        _ => StartFailureReason::Other,
    };
    let mut message = format!("failed to {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Some(StartFailure { reason, message })
}

/// Hands observations on in order.
struct Reporter {
    recorder: Recorder,
    reports: mpsc::Sender<Report>,
    /// How long Core was waited for since the agent was last attended to.
    waited: Duration,
}

impl Reporter {
    async fn observe(&mut self, observation: Observation) -> Result<(), AgentError> {
        self.hand(Report::Observation(observation)).await
    }

    async fn hand(&mut self, report: Report) -> Result<(), AgentError> {
        let report = match self.reports.try_send(report) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(AgentError::Deaf),
            Err(TrySendError::Full(report)) => report,
        };
        let since = Instant::now();
        let sent = self.reports.send(report).await;
        self.waited += since.elapsed();
        sent.map_err(|_| AgentError::Deaf)
    }

    async fn frame(&mut self, frame: super::exec::Frame) -> Result<(), AgentError> {
        let mut ready = Vec::new();
        self.recorder.frame(frame, &mut |report| ready.push(report));
        self.send(ready).await
    }

    async fn flush(&mut self) -> Result<(), AgentError> {
        let mut ready = Vec::new();
        self.recorder.flush(&mut |report| ready.push(report));
        self.send(ready).await
    }

    async fn send(&mut self, ready: Vec<Report>) -> Result<(), AgentError> {
        for report in ready {
            self.hand(report).await?;
        }
        Ok(())
    }
}

struct Run {
    exec: Executor,
    process: Process,
    reporter: Reporter,
    files: Option<Beneath>,
    began: Instant,
    stdin: Option<ChildStdin>,
    unwritten: VecDeque<Bytes>,
    unwritten_bytes: usize,
    /// Close standard input once everything is written.
    closing: bool,
    stdout: Option<ChildStdout>,
    reading: bool,
    buffer: BytesMut,
    framer: Framer,
    exited: bool,
    finished: bool,
}

/// What woke the loop.
enum Woken {
    Cancelled,
    Written(std::io::Result<usize>),
    Read(std::io::Result<usize>),
    Exited(Option<Exit>),
    Due,
    /// Nothing has happened for a while, and nothing is due.
    Early,
}

impl Run {
    fn new(
        exec: Executor,
        mut process: Process,
        reporter: Reporter,
        files: Option<Beneath>,
        max_line_bytes: usize,
        began: Instant,
    ) -> Self {
        let (stdin, stdout) = (process.take_stdin(), process.take_stdout());
        Self {
            exec,
            process,
            reporter,
            files,
            began,
            stdin,
            unwritten: VecDeque::new(),
            unwritten_bytes: 0,
            closing: false,
            stdout,
            reading: true,
            buffer: BytesMut::new(),
            framer: Framer::new(max_line_bytes),
            exited: false,
            finished: false,
        }
    }

    async fn until_finished(mut self, cancel: &CancellationToken) -> Result<Ending, AgentError> {
        let mut cancelled = false;
        let mut overdue: Option<(Duration, Duration)> = None;
        self.act().await?;
        while !self.finished {
            let woken = self.wait(cancel, cancelled).await;
            let now = self.began.elapsed();
            match woken {
                Woken::Cancelled => {
                    cancelled = true;
                    self.exec.cancel(now);
                }
                Woken::Written(Ok(count)) if count > 0 => self.wrote(count),
                Woken::Written(_) => self.break_stdin(),
                Woken::Read(Ok(count)) if count > 0 => self.read(now).await?,
                Woken::Read(_) => self.stdout_ended(now),
                Woken::Exited(exit) => self.agent_exited(now, exit).await?,
                Woken::Due => self.exec.handle_timeout(now),
                Woken::Early => {}
            }
            // An agent that writes without a pause must not hold up its own deadline.
            let due = self.exec.poll_timeout().filter(|due| now > *due);
            overdue = due.map(|due| overdue.filter(|(of, _)| *of == due).unwrap_or((due, now)));
            if overdue.is_some_and(|(_, seen)| now > seen + MAX_LATENESS) {
                self.exec.handle_timeout(now);
                overdue = None;
            }
            self.act().await?;
            // What this process waited for is not the agent's time.
            self.began += std::mem::take(&mut self.reporter.waited);
        }
        self.report_the_end().await?;
        Ok(if self.exec.was_cancelled() { Ending::Cancelled } else { Ending::Completed })
    }

    async fn wait(&mut self, cancel: &CancellationToken, cancelled: bool) -> Woken {
        let since = Instant::now();
        let left = self.exec.poll_timeout().map(|due| due.saturating_sub(self.began.elapsed()));
        let woken = self.wait_for(left.map(|left| left.min(LONGEST_WAIT)), cancel, cancelled).await;
        // A longer wait is one in which this process did not run: nobody has read what the agent had to say.
        if left.is_some() {
            self.began += since.elapsed().saturating_sub(LONGEST_WAIT);
        }
        match woken {
            Woken::Due if left.is_some_and(|left| left > LONGEST_WAIT) => Woken::Early,
            woken => woken,
        }
    }

    async fn wait_for(&mut self, longest: Option<Duration>, cancel: &CancellationToken, cancelled: bool) -> Woken {
        let Self { process, stdin, unwritten, stdout, buffer, .. } = self;
        let (writing, reading) = (!unwritten.is_empty() && stdin.is_some(), self.reading && stdout.is_some());
        let write = async {
            match (stdin.as_mut(), unwritten.front()) {
                (Some(stdin), Some(bytes)) => stdin.write(bytes).await,
                _ => Ok(0),
            }
        };
        let read = async {
            match stdout.as_mut() {
                Some(stdout) => {
                    buffer.reserve(READ_BYTES);
                    stdout.read_buf(buffer).await
                }
                None => Ok(0),
            }
        };
        let due = async {
            match longest {
                Some(longest) => sleep(longest).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled(), if !cancelled => Woken::Cancelled,
            result = write, if writing => Woken::Written(result),
            result = read, if reading => Woken::Read(result),
            exit = process.exited(), if !self.exited => Woken::Exited(exit),
            () = due => Woken::Due,
        }
    }

    /// Does what the machine asks for.
    async fn act(&mut self) -> Result<(), AgentError> {
        while let Some(action) = self.exec.poll_action() {
            match action {
                Action::Frame(frame) => self.reporter.frame(frame).await?,
                Action::Step(step) => self.reporter.observe(Observation::Step(step)).await?,
                Action::Write(bytes) => self.queue(bytes),
                Action::CloseStdin => {
                    self.closing = true;
                    self.close_if_written();
                }
                Action::Signal(signal) => self.process.signal(to_signal(signal)),
                Action::Kill => self.process.kill(),
                Action::Read(reading) => self.reading = reading,
                Action::File { id, access } => {
                    let since = Instant::now();
                    let outcome = files::access(self.files.as_ref(), access);
                    self.reporter.waited += since.elapsed();
                    self.exec.file_done(self.began.elapsed(), &id, outcome);
                }
                Action::Finish => self.finished = true,
            }
        }
        Ok(())
    }

    fn queue(&mut self, bytes: Bytes) {
        if self.stdin.is_none() {
            return;
        }
        self.unwritten_bytes += bytes.len();
        self.unwritten.push_back(bytes);
        if self.unwritten_bytes > MAX_UNWRITTEN_BYTES {
            self.break_stdin();
        }
    }

    fn wrote(&mut self, count: usize) {
        self.unwritten_bytes -= count;
        if let Some(front) = self.unwritten.front_mut() {
            front.advance(count);
            if front.is_empty() {
                self.unwritten.pop_front();
            }
        }
        self.close_if_written();
    }

    fn close_if_written(&mut self) {
        if self.closing && self.unwritten.is_empty() {
            self.stdin = None;
        }
    }

    fn break_stdin(&mut self) {
        self.stdin = None;
        self.unwritten.clear();
        self.unwritten_bytes = 0;
        self.exec.stdin_broken();
    }

    /// Line by line, so that a file is read or written before the machine sees what comes behind the call.
    async fn read(&mut self, now: Duration) -> Result<(), AgentError> {
        self.framer.feed(self.buffer.split().freeze());
        while let Some(line) = self.framer.next() {
            self.exec.line(now, content(line), false);
            self.act().await?;
        }
        Ok(())
    }

    fn stdout_ended(&mut self, now: Duration) {
        self.stdout = None;
        if let Some(line) = self.framer.finish() {
            self.exec.line(now, content(line), true);
        }
        self.exec.stdout_ended(now);
    }

    /// The exit is reported where it happened; lines that are still in the pipe come behind it.
    async fn agent_exited(&mut self, now: Duration, exit: Option<Exit>) -> Result<(), AgentError> {
        self.exited = true;
        if exit.is_none() {
            return Err(AgentError::KeeperLost);
        }
        self.report_exit(now, exit).await?;
        self.exec.exited(now);
        Ok(())
    }

    async fn report_exit(&mut self, now: Duration, exit: Option<Exit>) -> Result<(), AgentError> {
        let (code, signal) = match exit {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let phase = self.exec.exit_phase();
        let stdin_closed_t_ns = self.exec.stdin_closed_at().map(nanos);
        let exit = AgentExit { t_ns: nanos(now), code, signal, phase, stdin_closed_t_ns };
        self.reporter.observe(Observation::Exit(exit)).await
    }

    async fn report_the_end(&mut self) -> Result<(), AgentError> {
        self.reporter.flush().await?;
        if !self.exited {
            self.process.kill();
        }
        let descendants = match timeout(LAST_WORDS, self.process.gone()).await {
            // The steps may have come to their end before the exit did.
            Ok(outcome) if outcome.exit.is_none() => return Err(AgentError::KeeperLost),
            Ok(outcome) => outcome.descendants,
            Err(_) => Descendants::Unknown,
        };
        self.report_stderr().await?;
        if !self.exited {
            self.report_exit(self.began.elapsed(), self.process.try_exit()).await?;
        }
        let t_ns = nanos(self.began.elapsed());
        let (known, count, named) = match descendants {
            Descendants::Unknown => (false, 0, Vec::new()),
            Descendants::Counted { count, named } => (true, count, named),
        };
        let processes =
            named.into_iter().take(DESCENDANTS_MAX).map(|found| Descendant { pid: found.pid, name: found.name });
        let descendants = AgentDescendants { t_ns, known, count, processes: processes.collect() };
        self.reporter.observe(Observation::Descendants(descendants)).await
    }

    async fn report_stderr(&mut self) -> Result<(), AgentError> {
        let Some(mut stderr) = self.process.stderr() else { return Ok(()) };
        let captured = match timeout(LAST_WORDS, stderr.closed()).await {
            Ok(captured) => captured,
            Err(_) => stderr.snapshot(),
        };
        let t_ns = nanos(self.began.elapsed());
        let dropped = captured.omitted_bytes();
        let tail: Vec<u8> = captured.tail.into_iter().collect();
        let pieces = match dropped {
            // One text, so that no character is cut in two.
            0 => vec![([captured.head, tail].concat(), 0)],
            dropped => vec![(captured.head, 0), (tail, dropped)],
        };
        for (bytes, dropped_bytes) in pieces {
            if !bytes.is_empty() {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.reporter.observe(Observation::Stderr(AgentStderr { t_ns, text, dropped_bytes })).await?;
            }
        }
        Ok(())
    }
}

fn content(line: Line) -> Content {
    match line {
        Line::Complete(bytes) => Content::Whole(bytes),
        Line::TooLong { bytes } => Content::OverLong(bytes),
        Line::Blank => Content::Whole(Bytes::new()),
    }
}

fn to_signal(signal: SignalName) -> Signal {
    match signal {
        SignalName::Int => Signal::Interrupt,
        SignalName::Term => Signal::Term,
        SignalName::Kill => Signal::Kill,
        SignalName::Stop => Signal::Stop,
        SignalName::Cont => Signal::Continue,
    }
}
