//! A running child.

use tokio::{sync::watch, time::timeout};

#[cfg(unix)]
use super::bare::Bare;
#[cfg(windows)]
use super::job::InJob;
#[cfg(target_os = "linux")]
use super::kept::Kept;
#[cfg(unix)]
use super::outcome::NoIsolation;
use super::{
    applied::Applied,
    error::SpawnError,
    launch::{Ladder, Launch, Shim},
    outcome::{Descendants, Exit, Isolation, Outcome},
    progress::{Gone, Progress},
    sandbox::Exceeded,
    signal::Signal,
    stderr::StderrCapture,
    streams::{ChildStderr, ChildStdin, ChildStdout, Streams},
};

/// A child process and all that it starts.
///
/// Dropping it kills them all. With a keeper that holds however the drop comes about, also when this process is killed
/// and never drops anything; without one (see [`Process::isolation`]) the process group is killed on drop.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr_pipe: Option<ChildStderr>,
    stderr: Option<StderrCapture>,
    progress: watch::Receiver<Progress>,
    handle: Handle,
    isolation: Isolation,
    applied: Applied,
}

#[derive(Debug)]
enum Handle {
    #[cfg(target_os = "linux")]
    Kept(Kept),
    #[cfg(unix)]
    Bare(Bare),
    #[cfg(windows)]
    InJob(InJob),
}

impl Process {
    /// Starts a child. Needs a tokio runtime with IO enabled.
    ///
    /// Cancel safe: if the future is dropped, so is the child.
    ///
    /// # Errors
    /// [`SpawnError`]; then there is no child.
    pub async fn spawn(launch: Launch) -> Result<Self, SpawnError> {
        let stderr_mode = launch.stderr;
        let (streams, mut ours) = Streams::open(stderr_mode).await.map_err(|source| SpawnError::Pipe { source })?;
        let (pid, applied, progress, handle, isolation) = match launch.shim.clone() {
            #[cfg(target_os = "linux")]
            Shim::Path(shim) => {
                let started = Kept::spawn(launch, shim, streams).await?;
                (started.pid, started.applied, started.progress, Handle::Kept(started.handle), Isolation::Keeper)
            }
            #[cfg(all(unix, not(target_os = "linux")))]
            Shim::Path(_) => {
                let started = Bare::spawn(launch, streams)?;
                let isolation = Isolation::None { reason: NoIsolation::Platform };
                (started.pid, started.applied, started.progress, Handle::Bare(started.handle), isolation)
            }
            #[cfg(unix)]
            Shim::None => {
                let started = Bare::spawn(launch, streams)?;
                let isolation = Isolation::None { reason: NoIsolation::NoShim };
                (started.pid, started.applied, started.progress, Handle::Bare(started.handle), isolation)
            }
            #[cfg(windows)]
            Shim::Path(_) | Shim::None => {
                let started = InJob::spawn(launch, streams)?;
                (started.pid, started.applied, started.progress, Handle::InJob(started.handle), Isolation::JobObject)
            }
        };
        let (stderr_pipe, stderr) = ours.take_stderr(stderr_mode);
        Ok(Self {
            pid,
            stdin: Some(ours.stdin),
            stdout: Some(ours.stdout),
            stderr_pipe,
            stderr,
            progress,
            handle,
            isolation,
            applied,
        })
    }

    /// The process id of the child itself, which is also that of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// How it is supervised.
    #[must_use]
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// What it is kept from, and how far.
    #[must_use]
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// The bound that it exceeded, if its keeper killed it for that.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.progress.borrow().exceeded
    }

    /// Its standard input. Dropping that closes it; so does [`Process::shut_down`] while it has not been taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its standard output.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Its standard error, with [`super::Stderr::Piped`].
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr_pipe.take()
    }

    /// What it wrote to its standard error, with [`super::Stderr::Capture`].
    #[must_use]
    pub fn stderr(&self) -> Option<StderrCapture> {
        self.stderr.clone()
    }

    /// Sends a signal to the child's process group. Nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        match &self.handle {
            #[cfg(target_os = "linux")]
            Handle::Kept(kept) => kept.signal(signal),
            #[cfg(unix)]
            Handle::Bare(bare) => bare.signal(signal),
            #[cfg(windows)]
            Handle::InJob(job) => job.signal(signal),
        }
    }

    /// Kills the child, its group and every descendant. Returns at once; [`Process::gone`] says when it is done.
    pub fn kill(&self) {
        match &self.handle {
            #[cfg(target_os = "linux")]
            Handle::Kept(kept) => kept.kill(),
            #[cfg(unix)]
            Handle::Bare(bare) => bare.signal(Signal::Kill),
            #[cfg(windows)]
            Handle::InJob(job) => job.signal(Signal::Kill),
        }
    }

    /// How the child itself ended, if it has. What it started may still be there.
    #[must_use]
    pub fn try_exit(&self) -> Option<Exit> {
        self.progress.borrow().exit
    }

    /// Waits until the child itself has ended. `None` if how was lost: somebody killed the keeper. Cancel safe.
    pub async fn exited(&mut self) -> Option<Exit> {
        match self.progress.wait_for(|progress| progress.exit.is_some() || progress.gone.is_some()).await {
            Ok(progress) => progress.exit,
            // The supervising task is gone with its runtime, and the child with it.
            Err(_) => None,
        }
    }

    /// Waits until the child has ended, its descendants have had their settle time, and what was left of them has been
    /// killed. Cancel safe.
    pub async fn gone(&mut self) -> Outcome {
        // An error means that the supervising task is gone with its runtime, and the child with it.
        let _ = self.progress.wait_for(|progress| progress.gone.is_some()).await;
        let Progress { exit, exceeded, gone } = self.progress.borrow().clone();
        let gone = gone.unwrap_or_else(|| Gone { descendants: Descendants::Unknown, survivors: Vec::new() });
        let (descendants, survivors) = (gone.descendants, gone.survivors);
        Outcome { exit, descendants, exceeded, survivors, isolation: self.isolation.clone() }
    }

    /// Brings the child to its end by the steps of `ladder`, as far as they are needed, and waits for the last of its
    /// standard error. If standard input was taken, its holder closes it.
    ///
    /// Not cancel safe in that the steps begin again; the child is killed when `self` is dropped, as always.
    pub async fn shut_down(&mut self, ladder: Ladder) -> Outcome {
        drop(self.stdin.take());
        if timeout(ladder.close_grace, self.exited()).await.is_err() {
            self.signal(Signal::Term);
            if timeout(ladder.term_grace, self.exited()).await.is_err() {
                self.kill();
            }
        }
        let outcome = self.gone().await;
        if let Some(stderr) = &mut self.stderr {
            let _ = timeout(ladder.stream_grace, stderr.closed()).await;
        }
        outcome
    }
}
