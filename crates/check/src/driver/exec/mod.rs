//! The scenario as a state machine: lines and time in, actions out, no IO.
//!
//! The loop around it drains [`Executor::poll_action`] after each call, then sleeps until [`Executor::poll_timeout`].
//! Times are counted from the start of the invocation. The machine observes and reacts; it never judges: a malformed
//! line is recorded like any other and simply brings no step forward.

mod answer;
mod ladder;
mod mark;
mod step;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use self::answer::Given;
use self::ladder::{Phase, Rung};
use self::mark::{Mark, Marks};
use super::inbound::{Inbound, peek};
use crate::observation::{Direction, ExitPhase, StepReport, StepStatus};
use crate::pack::{Plan, SignalName, Step, Timeouts};

/// What the loop must do, in this order.
#[derive(Debug)]
pub(crate) enum Action {
    /// Report a frame.
    Frame(Frame),
    /// Report a step.
    Step(StepReport),
    /// Write these bytes to the agent's standard input, behind what is queued.
    Write(Bytes),
    /// Close the agent's standard input, behind what is queued.
    CloseStdin,
    /// Send a signal to the agent's process and its group.
    Signal(SignalName),
    /// Kill the agent's group and every descendant.
    Kill,
    /// Stop reading standard output (`false`), or read again.
    Read(bool),
    /// Carry out a file access and hand the outcome to [`Executor::file_done`].
    File { id: String, access: FileAccess },
    /// Nothing more will come: report the rest and complete.
    Finish,
}

/// A line, in or out, before it has found its way into an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) dir: Direction,
    /// From 1, per direction.
    pub(crate) line: u64,
    pub(crate) at: Duration,
    pub(crate) content: Content,
    /// There was no line feed behind it.
    pub(crate) unterminated: bool,
    /// The step that wrote it or was running.
    pub(crate) step: Option<u32>,
    /// The name of the step that wrote it.
    pub(crate) name: Option<String>,
    /// It answers or asks something, so that it is worth keeping when a flood of notifications is not.
    pub(crate) notable: bool,
}

/// What stood in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// All of it, without its line ending.
    Whole(Bytes),
    /// It was too long to keep; its length in bytes.
    OverLong(u64),
}

/// A file access that the sandbox policy grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileAccess {
    Read { path: String, line: Option<u64>, limit: Option<u64> },
    Write { path: String, content: String },
}

/// What the machine needs to know beside the plan.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Directory that `session/new` names.
    pub(crate) session_cwd: String,
    /// Waits.
    pub(crate) timeouts: Timeouts,
    /// Longest line that is looked at.
    pub(crate) max_line_bytes: usize,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Executor {
    plan: Plan,
    settings: Settings,
    actions: VecDeque<Action>,
    phase: Phase,
    /// The step that runs or runs next.
    current: usize,
    wait: Option<Wait>,
    /// Line count of the agent when each step began; the last entry is the current step's.
    began: Vec<(u64, Duration)>,
    requests: Vec<Sent>,
    variables: BTreeMap<String, Value>,
    marks: Marks,
    held: VecDeque<Held>,
    /// How requests of a method are answered until the next prompt.
    standing: Option<(String, Given)>,
    /// Terminals that were made up.
    terminals: u32,
    answered: u32,
    /// Sessions whose turn is being cancelled: their permission requests are answered `cancelled`.
    cancelling: Vec<Value>,
    next_id: i64,
    initialized_once: bool,
    lines_in: u64,
    lines_out: u64,
    last_in: Duration,
    reading: bool,
    signalled: bool,
    stdin_open: bool,
    stdin_closed_at: Option<Duration>,
    stdout_ended: bool,
    /// When an agent that has closed its output and not exited counts as alive all the same.
    mute_at: Option<Duration>,
    exited: bool,
    /// What had been done to the agent when it exited.
    exit_phase: Option<ExitPhase>,
    /// When to stop waiting for the rest of the output of an agent that has exited.
    drained_at: Option<Duration>,
    /// Nothing more can come from the agent.
    dead: bool,
    cancelled: bool,
}

/// A request that a step sent.
#[derive(Debug)]
struct Sent {
    name: Option<String>,
    /// As `normal_id` spells it.
    id: String,
    method: String,
    /// The session that it is about, if it is a prompt.
    session: Option<Value>,
    /// Lines that had come in when it was sent.
    after_line: u64,
    reply: Option<Reply>,
}

/// The reply to a [`Sent`].
#[derive(Debug)]
struct Reply {
    line: u64,
    /// `None`: an error.
    result: Option<Value>,
}

/// A request of the agent that waits for its answer.
#[derive(Debug)]
struct Held {
    id: String,
    method: String,
    params: Value,
}

/// A wait in progress.
#[derive(Debug, Clone)]
struct Wait {
    what: Awaited,
    since: Duration,
    until: Duration,
}

/// What ends a wait.
#[derive(Debug, Clone)]
enum Awaited {
    /// The reply to the request with this index; with `session`, one that carries a session id.
    Reply { request: usize, session: bool },
    /// A line that this pattern matches and that came after this line. The reply to `or_reply` ends the wait in vain.
    Line { pattern: mark::Pattern, after_line: u64, or_reply: Option<usize> },
    /// No line for this long, or the reply to `or_reply`.
    Quiet { quiet: Duration, or_reply: Option<usize> },
    /// The end of the agent.
    Exit,
}

impl Awaited {
    /// Only a line can end it.
    fn needs_output(&self) -> bool {
        matches!(self, Self::Reply { .. } | Self::Line { .. })
    }
}

/// How a wait ended: the status, the line that ended it, and why it ended badly.
type Ended = (StepStatus, Option<u64>, Option<Cow<'static, str>>);

impl Executor {
    /// A machine that has not begun.
    pub(crate) fn new(plan: Plan, settings: Settings) -> Self {
        Self {
            plan,
            settings,
            actions: VecDeque::new(),
            phase: Phase::Running,
            current: 0,
            wait: None,
            began: Vec::new(),
            requests: Vec::new(),
            variables: BTreeMap::new(),
            marks: Marks::default(),
            held: VecDeque::new(),
            standing: None,
            terminals: 0,
            answered: 0,
            cancelling: Vec::new(),
            next_id: 1,
            initialized_once: false,
            lines_in: 0,
            lines_out: 0,
            last_in: Duration::ZERO,
            reading: true,
            signalled: false,
            stdin_open: true,
            stdin_closed_at: None,
            stdout_ended: false,
            mute_at: None,
            exited: false,
            exit_phase: None,
            drained_at: None,
            dead: false,
            cancelled: false,
        }
    }

    /// The agent runs; the first steps begin.
    pub(crate) fn start(&mut self, now: Duration) {
        self.settle(now);
    }

    /// The agent could not be started: every step is skipped and nothing is closed.
    pub(crate) fn start_failed(&mut self, now: Duration) {
        self.skip_rest("the agent did not start", now);
        self.finish();
    }

    /// A line came from the agent.
    pub(crate) fn line(&mut self, now: Duration, content: Content, unterminated: bool) {
        self.last_in = now;
        self.lines_in += 1;
        let line = self.lines_in;
        let inbound = match &content {
            Content::Whole(bytes) => peek(bytes, self.settings.max_line_bytes),
            Content::OverLong(_) => Inbound::Other,
        };
        self.actions.push_back(Action::Frame(Frame {
            dir: Direction::In,
            line,
            at: now,
            content,
            unterminated,
            step: self.running_step(),
            name: None,
            notable: !matches!(inbound, Inbound::Notification { .. }),
        }));
        match inbound {
            Inbound::Other => self.marks.push(Mark::other(line)),
            Inbound::Response { id, result } => {
                self.marks.push(Mark::other(line));
                self.response(&id, Reply { line, result });
            }
            Inbound::Notification { method, params } => {
                if method == "$/cancel_request" {
                    self.withdrawn(now, &params);
                }
                self.marks.push(Mark::notification(line, method, &params));
            }
            Inbound::Request { id, method, params } => {
                self.marks.push(Mark::request(line, method.clone()));
                self.call(now, Held { id, method, params });
            }
        }
        self.settle(now);
    }

    /// The agent's standard output has ended. Its exit is usually about to be seen, and says more; a crash must not look
    /// like an exit after a closed input.
    pub(crate) fn stdout_ended(&mut self, now: Duration) {
        self.stdout_ended = true;
        self.mute_at = Some(now + ladder::STREAM_GRACE);
        self.settle(now);
    }

    /// The agent no longer reads its standard input.
    pub(crate) fn stdin_broken(&mut self) {
        self.stdin_open = false;
    }

    /// The agent's process has exited and was reaped.
    pub(crate) fn exited(&mut self, now: Duration) {
        if self.exited {
            return;
        }
        self.exit_phase = Some(self.exit_phase());
        self.exited = true;
        self.stdin_open = false;
        self.drained_at = Some(now + ladder::STREAM_GRACE);
        self.drain(now);
        self.settle(now);
    }

    /// Core gave up on the invocation: no further step, close at once.
    pub(crate) fn cancel(&mut self, now: Duration) {
        if self.cancelled || !matches!(self.phase, Phase::Running) {
            return;
        }
        self.cancelled = true;
        self.wait = None;
        self.skip_rest("the check was cancelled", now);
        self.close(now);
        self.settle(now);
    }

    /// True once [`Self::cancel`] ended the scenario early.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.cancelled
    }

    /// What had been done to the agent when it exited, or so far.
    pub(crate) fn exit_phase(&self) -> ExitPhase {
        if let Some(known) = self.exit_phase {
            return known;
        }
        match self.phase {
            Phase::Closing { rung: Rung::Term, .. } => ExitPhase::Terminated,
            Phase::Closing { rung: Rung::Kill, .. } => ExitPhase::Killed,
            _ if self.signalled => ExitPhase::Signalled,
            _ if self.stdin_closed_at.is_some() => ExitPhase::Closed,
            _ => ExitPhase::Running,
        }
    }

    /// When standard input was closed.
    pub(crate) fn stdin_closed_at(&self) -> Option<Duration> {
        self.stdin_closed_at
    }

    /// The next thing to do.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => {
                let wait = self.wait.as_ref().map(|wait| match wait.what {
                    Awaited::Quiet { quiet, .. } => wait.until.min(self.quiet_at(wait, quiet)),
                    _ => wait.until,
                });
                let drained = self.drained_at.filter(|_| !self.dead);
                let needs_output = self.wait.as_ref().is_some_and(|wait| wait.what.needs_output());
                let mute = self.mute_at.filter(|_| needs_output);
                wait.into_iter().chain(drained).chain(mute).min()
            }
            Phase::Closing { until, .. } => Some(until),
            Phase::Finished => None,
        }
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Duration) {
        self.climb(now);
        self.settle(now);
    }

    /// Brings everything forward that can go forward at this moment.
    fn settle(&mut self, now: Duration) {
        if self.exited && (self.stdout_ended || self.drained_at.is_some_and(|at| now >= at)) {
            self.dead = true;
        }
        while matches!(self.phase, Phase::Running) {
            if let Some(wait) = self.wait.take() {
                let Some(ended) = self.wait_ended(&wait, now) else {
                    self.wait = Some(wait);
                    return;
                };
                self.end_step(ended, now);
            } else if self.current == self.plan.steps.len() {
                self.close(now);
            } else {
                self.begin_step(now);
            }
        }
        if self.dead && matches!(self.phase, Phase::Closing { .. }) {
            self.finish();
        }
    }

    /// Whether a wait is over, and how.
    fn wait_ended(&mut self, wait: &Wait, now: Duration) -> Option<Ended> {
        let replied = |request: Option<usize>| request.and_then(|at| self.requests[at].reply.as_ref());
        match &wait.what {
            Awaited::Reply { request, session } => {
                if let Some(reply) = replied(Some(*request)) {
                    let has_session = reply.result.as_ref().is_some_and(|result| result.get("sessionId").is_some());
                    return Some(if *session && !has_session {
                        (StepStatus::Failed, Some(reply.line), Some("the reply has no session id".into()))
                    } else {
                        (StepStatus::Ok, Some(reply.line), None)
                    });
                }
            }
            Awaited::Line { pattern, after_line, or_reply } => {
                let replied = replied(*or_reply).is_some();
                if let Some(line) = self.marks.take(pattern, *after_line) {
                    return Some((StepStatus::Ok, Some(line), None));
                }
                if replied {
                    return Some((StepStatus::Timeout, None, Some("the request was answered first".into())));
                }
            }
            Awaited::Quiet { quiet, or_reply } => {
                if now >= self.quiet_at(wait, *quiet) || self.dead {
                    return Some((StepStatus::Ok, None, None));
                }
                if let Some(reply) = replied(*or_reply) {
                    return Some((StepStatus::Ok, Some(reply.line), None));
                }
            }
            Awaited::Exit => {
                if self.exited {
                    return Some((StepStatus::Ok, None, None));
                }
            }
        }
        if self.dead {
            Some((StepStatus::Failed, None, Some("the agent has exited".into())))
        } else if self.mute_at.is_some_and(|at| now >= at) && wait.what.needs_output() {
            Some((StepStatus::Failed, None, Some("the agent has closed its standard output".into())))
        } else if now >= wait.until {
            Some((StepStatus::Timeout, None, None))
        } else {
            None
        }
    }

    fn quiet_at(&self, wait: &Wait, quiet: Duration) -> Duration {
        if self.reading { self.last_in.max(wait.since) + quiet } else { wait.since + quiet }
    }

    /// The current step is over; without success and not optional, it is the last one.
    fn end_step(&mut self, (status, frame_line, detail): Ended, now: Duration) {
        let step = &self.plan.steps[self.current];
        let ends_scenario = matches!(status, StepStatus::Failed | StepStatus::Timeout) && !step.optional();
        let is_wait = matches!(step, Step::Wait(_));
        self.report(status, frame_line.filter(|_| is_wait), detail.as_deref(), now);
        self.current += 1;
        if ends_scenario {
            self.skip_rest("an earlier step ended the scenario", now);
            self.close(now);
        }
    }

    fn skip_rest(&mut self, detail: &'static str, now: Duration) {
        while self.current < self.plan.steps.len() {
            self.report(StepStatus::Skipped, None, Some(detail), now);
            self.current += 1;
        }
    }

    fn report(&mut self, status: StepStatus, frame_line: Option<u64>, detail: Option<&str>, now: Duration) {
        let began = self.began.get(self.current).filter(|_| status != StepStatus::Skipped);
        self.actions.push_back(Action::Step(StepReport {
            index: self.step_index(),
            status,
            name: self.plan.steps[self.current].name().map(str::to_owned),
            t_ns: nanos(now),
            start_t_ns: began.map(|(_, at)| nanos(*at)),
            frame_line,
            detail: detail.map(str::to_owned),
        }));
    }

    /// Marks, between the frames, where the steps are over and standard input is closed: what comes behind it is what an
    /// agent says when it is told to go.
    fn report_closing(&mut self, now: Duration) {
        self.actions.push_back(Action::Step(StepReport {
            index: u32::try_from(self.plan.steps.len()).unwrap_or(u32::MAX),
            status: StepStatus::Ok,
            name: None,
            t_ns: nanos(now),
            start_t_ns: Some(nanos(now)),
            frame_line: None,
            detail: Some("the steps are over, and standard input is closed".to_owned()),
        }));
    }

    fn step_index(&self) -> u32 {
        u32::try_from(self.current).unwrap_or(u32::MAX)
    }

    fn running_step(&self) -> Option<u32> {
        (self.current < self.plan.steps.len()).then(|| self.step_index())
    }
}

/// Nanoseconds of a time since the invocation's start; it would take centuries to leave the range.
pub(crate) fn nanos(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
