//! The end of every scenario: close standard input, wait, terminate, wait, kill.

use std::time::Duration;

use super::{Action, Executor};
use crate::pack::SignalName;

/// How long the output of an agent that has exited may still come in, when a descendant holds it open.
pub(super) const STREAM_GRACE: Duration = Duration::from_secs(1);
/// How long a killed process may take to be reaped before the scenario is completed without knowing its end.
const REAP_GRACE: Duration = Duration::from_secs(5);

/// Where the scenario stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Steps are being carried out.
    Running,
    /// The next rung is due at `until`.
    Closing { rung: Rung, until: Duration },
    /// Over.
    Finished,
}

/// The rungs of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    /// Standard input is closed; the agent should leave on its own.
    Close,
    /// Asked to terminate.
    Term,
    /// Killed; waiting for the reaper.
    Kill,
    /// Gone; waiting for the end of its output.
    Drain,
}

impl Executor {
    /// The first rung. Reading goes on, or an agent that waits for us to read could not leave.
    pub(super) fn close(&mut self, now: Duration) {
        self.report_closing(now);
        if !self.reading {
            self.reading = true;
            self.actions.push_back(Action::Read(true));
        }
        self.close_stdin(now);
        self.phase = Phase::Closing { rung: Rung::Close, until: now + millis(self.settings.timeouts.close_grace) };
        if self.exited {
            self.drain(now);
        }
    }

    /// Closes standard input once.
    pub(super) fn close_stdin(&mut self, now: Duration) {
        if self.stdin_closed_at.is_none() {
            self.stdin_closed_at = Some(now);
            self.actions.push_back(Action::CloseStdin);
        }
        self.stdin_open = false;
    }

    /// The next rung, when it is due.
    pub(super) fn climb(&mut self, now: Duration) {
        let Phase::Closing { rung, until } = self.phase else { return };
        if now < until {
            return;
        }
        match rung {
            Rung::Close => {
                self.actions.push_back(Action::Signal(SignalName::Term));
                let until = now + millis(self.settings.timeouts.term_grace);
                self.phase = Phase::Closing { rung: Rung::Term, until };
            }
            Rung::Term => {
                self.actions.push_back(Action::Kill);
                self.phase = Phase::Closing { rung: Rung::Kill, until: now + REAP_GRACE };
            }
            Rung::Kill | Rung::Drain => self.finish(),
        }
    }

    /// The agent is gone: what it has written may still be on its way.
    pub(super) fn drain(&mut self, now: Duration) {
        if let Phase::Closing { .. } = self.phase {
            let until = self.drained_at.unwrap_or(now);
            self.phase = Phase::Closing { rung: Rung::Drain, until };
        }
    }

    pub(super) fn finish(&mut self) {
        if self.phase != Phase::Finished {
            self.phase = Phase::Finished;
            self.actions.push_back(Action::Finish);
        }
    }
}

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
