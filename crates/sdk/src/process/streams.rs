//! The standard streams of a child: true asynchronous pipes on our side, what a child expects on its own.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{launch::Stderr, stderr::StderrCapture};

pub(super) use os::ChildEnd;

/// The child's ends of its streams.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: ChildEnd,
    pub(super) stdout: ChildEnd,
    pub(super) stderr: ChildEnd,
}

/// Our ends of them.
#[derive(Debug)]
pub(super) struct OurStreams {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    stderr: Option<ChildStderr>,
}

impl Streams {
    pub(super) async fn open(stderr: Stderr) -> io::Result<(Self, OurStreams)> {
        let (stdin, child_stdin) = os::input_pipe().await?;
        let (stdout, child_stdout) = os::output_pipe().await?;
        let (ours, child_stderr) = match stderr {
            Stderr::Capture | Stderr::Piped => {
                let (ours, theirs) = os::output_pipe().await?;
                (Some(ChildStderr(ours)), theirs)
            }
            Stderr::Stdout => (None, child_stdout.try_clone()?),
            Stderr::Inherit => (None, os::own_stderr()?),
            Stderr::Null => (None, os::null()?),
        };
        let ours = OurStreams { stdin: ChildStdin(Some(stdin)), stdout: ChildStdout(stdout), stderr: ours };
        Ok((Self { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr }, ours))
    }
}

impl OurStreams {
    /// Our end of the standard error: for the caller, or for a capture that starts now.
    pub(super) fn take_stderr(&mut self, mode: Stderr) -> (Option<ChildStderr>, Option<StderrCapture>) {
        match (self.stderr.take(), mode) {
            (Some(pipe), Stderr::Capture) => (None, Some(StderrCapture::start(pipe))),
            (pipe, _) => (pipe, None),
        }
    }
}

/// Where a child reads from: a pipe, without a thread behind it. Shutting it down closes it, as dropping it does.
#[derive(Debug)]
pub struct ChildStdin(Option<os::Sender>);

impl ChildStdin {
    fn open(&mut self) -> io::Result<Pin<&mut os::Sender>> {
        self.0.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

/// Where a child writes to: a pipe, without a thread behind it.
#[derive(Debug)]
pub struct ChildStdout(os::Receiver);

/// Where a child writes its errors to: a pipe, without a thread behind it.
#[derive(Debug)]
pub struct ChildStderr(os::Receiver);

#[cfg(all(test, unix))]
pub(crate) mod of_pipes {
    use super::{ChildStdin, ChildStdout, os};

    pub(crate) fn stdin(pipe: os::Sender) -> ChildStdin {
        ChildStdin(Some(pipe))
    }

    pub(crate) fn stdout(pipe: os::Receiver) -> ChildStdout {
        ChildStdout(pipe)
    }
}

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

#[cfg(unix)]
mod os {
    use std::{
        fs::File,
        io,
        os::fd::{AsFd, OwnedFd},
    };

    use tokio::net::unix::pipe;

    pub(super) use pipe::{Receiver, Sender};

    pub(crate) type ChildEnd = OwnedFd;

    pub(super) async fn input_pipe() -> io::Result<(Sender, ChildEnd)> {
        let (ours, theirs) = pipe::pipe()?;
        Ok((ours, theirs.into_blocking_fd()?))
    }

    pub(super) async fn output_pipe() -> io::Result<(Receiver, ChildEnd)> {
        let (theirs, ours) = pipe::pipe()?;
        Ok((ours, theirs.into_blocking_fd()?))
    }

    pub(super) fn own_stderr() -> io::Result<ChildEnd> {
        io::stderr().as_fd().try_clone_to_owned()
    }

    pub(super) fn null() -> io::Result<ChildEnd> {
        Ok(File::options().write(true).open("/dev/null")?.into())
    }
}

#[cfg(windows)]
mod os {
    use std::{
        fs::File,
        io,
        os::windows::io::{AsHandle, OwnedHandle},
        sync::atomic::{AtomicU64, Ordering},
    };

    use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};

    pub(super) type Sender = NamedPipeServer;
    pub(super) type Receiver = NamedPipeServer;
    pub(crate) type ChildEnd = OwnedHandle;

    /// An anonymous pipe cannot be waited for without a thread; a named one can. Its name is new, it takes one client,
    /// which is us, and nobody from another machine.
    async fn named(
        ours: &mut ServerOptions,
        theirs: &mut std::fs::OpenOptions,
    ) -> io::Result<(NamedPipeServer, ChildEnd)> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!(r"\\.\pipe\pintle-{}-{count}", std::process::id());
        let server = ours.first_pipe_instance(true).reject_remote_clients(true).max_instances(1).create(&name)?;
        let client = theirs.open(&name)?;
        server.connect().await?;
        Ok((server, client.into()))
    }

    pub(super) async fn input_pipe() -> io::Result<(Sender, ChildEnd)> {
        named(ServerOptions::new().access_inbound(false), File::options().read(true)).await
    }

    pub(super) async fn output_pipe() -> io::Result<(Receiver, ChildEnd)> {
        named(ServerOptions::new().access_outbound(false), File::options().write(true)).await
    }

    pub(super) fn own_stderr() -> io::Result<ChildEnd> {
        io::stderr().as_handle().try_clone_to_owned()
    }

    pub(super) fn null() -> io::Result<ChildEnd> {
        Ok(File::options().write(true).open("NUL")?.into())
    }
}
