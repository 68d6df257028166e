//! One terminal: a command, what it printed, how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pintle_acp::types::{SessionId, TerminalExitStatus};
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::output::Output;
use crate::process::{ChildStdout, Exit, Process};

/// Read from a command at a time.
const READ_BYTES: usize = 16 * 1024;
/// How long the last of a command's output may take when the command itself has ended, beside the time that its
/// descendants have to end.
const LAST_OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// How long a killed command may take to be gone; it is, unless it is stuck in the kernel.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// A command that was started for an agent. Dropping it kills the command and all that it started.
#[derive(Debug)]
pub(super) struct Terminal {
    session: SessionId,
    output: Arc<Mutex<Output>>,
    status: watch::Receiver<Option<Ended>>,
    kill: Arc<Notify>,
    task: JoinHandle<()>,
}

/// How a command ended; `None` if that was lost.
pub(super) type Ended = Option<Exit>;

/// A look at a terminal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TerminalSnapshot {
    /// What is kept of the command's output.
    pub output: String,
    /// Whether something was dropped.
    pub truncated: bool,
    /// How the command ended, if it did. Both members are absent if that was lost.
    pub exit_status: Option<TerminalExitStatus>,
}

impl Terminal {
    /// Takes over a command that was just started.
    pub(super) fn watch(session: SessionId, mut process: Process, limit_bytes: usize, settle: Duration) -> Self {
        let output = Arc::new(Mutex::new(Output::new(limit_bytes)));
        let (ended, status) = watch::channel(None);
        let kill = Arc::new(Notify::new());
        // There is nobody who could type.
        drop(process.take_stdin());
        let stdout = process.take_stdout();
        let watched = Watched { process, stdout, output: output.clone(), kill: kill.clone() };
        let task = tokio::spawn(watched.run(ended, settle + LAST_OUTPUT_GRACE));
        Self { session, output, status, kill, task }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    pub(super) fn snapshot(&self) -> TerminalSnapshot {
        // Before the output: an end that is told comes with all of it.
        let exit_status = self.status.borrow().map(exit_status);
        let output = lock(&self.output);
        TerminalSnapshot { output: output.text().to_owned(), truncated: output.is_truncated(), exit_status }
    }

    /// Waits for the command's end; any number of callers may.
    pub(super) async fn ended(&self) -> TerminalExitStatus {
        let mut status = self.status.clone();
        let ended = status.wait_for(Option::is_some).await.ok().and_then(|ended| *ended).flatten();
        exit_status(ended)
    }

    /// Kills the command and all that it started, and waits until it is gone.
    pub(super) async fn kill(&self) {
        if self.status.borrow().is_none() {
            self.kill.notify_one();
            let _ = timeout(KILL_GRACE, self.ended()).await;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The task owns the process, which kills what it started when it is dropped.
        self.task.abort();
    }
}

/// What the task of a terminal holds.
struct Watched {
    process: Process,
    stdout: Option<ChildStdout>,
    output: Arc<Mutex<Output>>,
    kill: Arc<Notify>,
}

impl Watched {
    async fn run(mut self, ended: watch::Sender<Option<Ended>>, grace: Duration) {
        let mut chunk = vec![0; READ_BYTES];
        let exit = loop {
            tokio::select! {
                read = read(&mut self.stdout, &mut chunk) => self.take(&chunk[..read]),
                exit = self.process.exited() => break exit,
                () = self.kill.notified() => self.process.kill(),
            }
        };
        let last = async {
            while self.stdout.is_some() {
                tokio::select! {
                    read = read(&mut self.stdout, &mut chunk) => self.take(&chunk[..read]),
                    () = self.kill.notified() => self.process.kill(),
                }
            }
        };
        let _ = timeout(grace, last).await;
        lock(&self.output).end();
        ended.send_replace(Some(exit));
        // What it left behind gets its time to end; a kill shortens that.
        tokio::select! {
            _ = self.process.gone() => {}
            () = self.kill.notified() => self.process.kill(),
        }
    }

    /// Nothing read is the end of the output.
    fn take(&mut self, read: &[u8]) {
        if read.is_empty() {
            self.stdout = None;
        } else {
            lock(&self.output).push(read);
        }
    }
}

/// Without a pipe this waits for ever: the other branches go on.
async fn read(stdout: &mut Option<ChildStdout>, chunk: &mut [u8]) -> usize {
    match stdout {
        // A pipe that cannot be read has ended.
        Some(stdout) => stdout.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

fn exit_status(exit: Ended) -> TerminalExitStatus {
    match exit {
        Some(Exit::Code(code)) => TerminalExitStatus::new().exit_code(code.cast_unsigned()),
        Some(Exit::Signal(number)) => TerminalExitStatus::new().signal(signal_name(number)),
        None => TerminalExitStatus::new(),
    }
}

/// The name of a signal, as `kill -l` would say it with its `SIG`.
fn signal_name(number: i32) -> String {
    const NAMES: [(rustix::process::Signal, &str); 15] = {
        use rustix::process::Signal as S;
        [
            (S::HUP, "SIGHUP"),
            (S::INT, "SIGINT"),
            (S::QUIT, "SIGQUIT"),
            (S::ILL, "SIGILL"),
            (S::TRAP, "SIGTRAP"),
            (S::ABORT, "SIGABRT"),
            (S::BUS, "SIGBUS"),
            (S::FPE, "SIGFPE"),
            (S::KILL, "SIGKILL"),
            (S::SEGV, "SIGSEGV"),
            (S::PIPE, "SIGPIPE"),
            (S::ALARM, "SIGALRM"),
            (S::TERM, "SIGTERM"),
            (S::XCPU, "SIGXCPU"),
            (S::XFSZ, "SIGXFSZ"),
        ]
    };
    let known = NAMES.iter().find(|(signal, _)| signal.as_raw() == number);
    known.map_or_else(|| format!("SIG{number}"), |(_, name)| (*name).to_owned())
}
