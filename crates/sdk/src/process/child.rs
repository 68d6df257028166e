//! A running child, on Unix.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::unix::pipe,
    sync::watch,
    time::timeout,
};

use super::{
    bare::Bare,
    error::SpawnError,
    launch::{Ladder, Launch, Shim, Stderr},
    outcome::{Descendants, Exit, Isolation, NoIsolation, Outcome},
    stderr::StderrCapture,
};

#[cfg(target_os = "linux")]
use super::kept::Kept;

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
}

/// What is known of a child so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub(super) exit: Option<Exit>,
    /// Set when all is over; `exit` is set before, if it is known at all.
    pub(super) gone: Option<Gone>,
}

/// The end of everything.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub(super) descendants: Descendants,
    pub(super) survivors: Vec<super::outcome::Found>,
}

#[derive(Debug)]
enum Handle {
    #[cfg(target_os = "linux")]
    Kept(Kept),
    Bare(Bare),
}

/// What a spawn needs beside the launch itself: the child's ends of its streams.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// A started child, as [`Kept`] and [`Bare`] hand it over.
#[derive(Debug)]
pub(super) struct Started<H> {
    pub(super) pid: u32,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) handle: H,
}

impl Process {
    /// Starts a child. Needs a tokio runtime with IO enabled.
    ///
    /// Cancel safe: if the future is dropped, so is the child.
    ///
    /// # Errors
    /// [`SpawnError`]; then there is no child.
    pub async fn spawn(launch: Launch) -> Result<Self, SpawnError> {
        let pipe_error = |source| SpawnError::Pipe { source };
        let (stdin, child_stdin) = {
            let (ours, theirs) = pipe::pipe().map_err(pipe_error)?;
            (ChildStdin(Some(ours)), theirs.into_blocking_fd().map_err(pipe_error)?)
        };
        let (child_stdout, stdout) = output_pipe().map_err(pipe_error)?;
        let mut stderr_pipe = None;
        let child_stderr = match launch.stderr {
            Stderr::Capture | Stderr::Piped => {
                let (theirs, ours) = output_pipe().map_err(pipe_error)?;
                stderr_pipe = Some(ours);
                theirs
            }
            Stderr::Inherit => io::stderr().as_fd().try_clone_to_owned().map_err(pipe_error)?,
            Stderr::Null => File::options().write(true).open("/dev/null").map_err(pipe_error)?.into(),
        };
        let capture = launch.stderr == Stderr::Capture;
        let streams = Streams { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr };

        let (pid, progress, handle, isolation) = match launch.shim.clone() {
            #[cfg(target_os = "linux")]
            Shim::Path(shim) => {
                let started = Kept::spawn(launch, shim, streams).await?;
                (started.pid, started.progress, Handle::Kept(started.handle), Isolation::Keeper)
            }
            #[cfg(not(target_os = "linux"))]
            Shim::Path(_) => {
                let started = Bare::spawn(launch, streams)?;
                let isolation = Isolation::None { reason: NoIsolation::Platform };
                (started.pid, started.progress, Handle::Bare(started.handle), isolation)
            }
            Shim::None => {
                let started = Bare::spawn(launch, streams)?;
                let isolation = Isolation::None { reason: NoIsolation::NoShim };
                (started.pid, started.progress, Handle::Bare(started.handle), isolation)
            }
        };
        let stderr = if capture { stderr_pipe.take().map(StderrCapture::start) } else { None };
        Ok(Self {
            pid,
            stdin: Some(stdin),
            stdout: Some(ChildStdout(stdout)),
            stderr_pipe: stderr_pipe.map(ChildStderr),
            stderr,
            progress,
            handle,
            isolation,
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

    /// Its standard input. Dropping that closes it; so does [`Process::shut_down`] while it has not been taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its standard output.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Its standard error, with [`Stderr::Piped`].
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr_pipe.take()
    }

    /// What it wrote to its standard error, with [`Stderr::Capture`].
    #[must_use]
    pub fn stderr(&self) -> Option<StderrCapture> {
        self.stderr.clone()
    }

    /// Sends a signal to the child's process group. Nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        match &self.handle {
            #[cfg(target_os = "linux")]
            Handle::Kept(kept) => kept.signal(signal),
            Handle::Bare(bare) => bare.signal(signal),
        }
    }

    /// Kills the child, its group and every descendant. Returns at once; [`Process::gone`] says when it is done.
    pub fn kill(&self) {
        match &self.handle {
            #[cfg(target_os = "linux")]
            Handle::Kept(kept) => kept.kill(),
            Handle::Bare(bare) => bare.signal(Signal::Kill),
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
        let Progress { exit, gone } = self.progress.borrow().clone();
        let gone = gone.unwrap_or_else(|| Gone { descendants: Descendants::Unknown, survivors: Vec::new() });
        Outcome { exit, descendants: gone.descendants, survivors: gone.survivors, isolation: self.isolation.clone() }
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

/// The signals that a child may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Term,
    /// SIGHUP.
    Hangup,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
    /// SIGKILL, to the group only; see [`Process::kill`] for all.
    Kill,
}

impl Signal {
    pub(super) fn to_rustix(self) -> rustix::process::Signal {
        use rustix::process::Signal as Named;
        match self {
            Self::Interrupt => Named::INT,
            Self::Term => Named::TERM,
            Self::Hangup => Named::HUP,
            Self::Quit => Named::QUIT,
            Self::User1 => Named::USR1,
            Self::User2 => Named::USR2,
            Self::Stop => Named::STOP,
            Self::Continue => Named::CONT,
            Self::Kill => Named::KILL,
        }
    }
}

/// Where a child reads from: a pipe, without a thread behind it. Shutting it down closes it, as dropping it does.
#[derive(Debug)]
pub struct ChildStdin(Option<pipe::Sender>);

impl ChildStdin {
    fn open(&mut self) -> io::Result<Pin<&mut pipe::Sender>> {
        self.0.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

/// Where a child writes to: a pipe, without a thread behind it.
#[derive(Debug)]
pub struct ChildStdout(pipe::Receiver);

/// Where a child writes its errors to: a pipe, without a thread behind it.
#[derive(Debug)]
pub struct ChildStderr(pipe::Receiver);

impl AsyncWrite for ChildStdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.open()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is held back.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ChildStdout {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncRead for ChildStderr {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

/// The child's end, which blocks as a child expects, and ours.
fn output_pipe() -> io::Result<(OwnedFd, pipe::Receiver)> {
    let (theirs, ours) = pipe::pipe()?;
    Ok((theirs.into_blocking_fd()?, ours))
}
