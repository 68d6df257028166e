//! A child's standard input and output as a transport.

use std::io;
use std::task::{Context, Poll};

use super::{Stream, Transport, TransportKind};
use crate::process::{ChildStdin, ChildStdout, Launch, Process, SpawnError};

/// The standard input and output of a child that this process started.
///
/// It owns the child until [`Child::take_process`]: then dropping it, which a connection does at its end, kills the child
/// and all that it started. Closing it closes the child's standard input, upon which a well-behaved peer exits.
#[derive(Debug)]
pub struct Child {
    stream: Stream<ChildStdout, ChildStdin>,
    process: Option<Process>,
}

/// Starts a child and makes a transport of it.
///
/// ```no_run
/// # async fn example(launch: pintle_sdk::process::Launch) -> Result<(), pintle_sdk::process::SpawnError> {
/// use pintle_sdk::process::Ladder;
///
/// let mut transport = pintle_sdk::transport::child(launch).await?;
/// let mut process = transport.take_process().expect("not taken before");
/// // ... give the transport to a connection; when that has ended:
/// let outcome = process.shut_down(Ladder::default()).await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`SpawnError`]; then there is no child.
pub async fn child(launch: Launch) -> Result<Child, SpawnError> {
    let mut process = Process::spawn(launch).await?;
    match (process.take_stdout(), process.take_stdin()) {
        (Some(stdout), Some(stdin)) => {
            Ok(Child { stream: Stream::new(TransportKind::Child, stdout, stdin), process: Some(process) })
        }
        // A process that was just spawned has both.
        _ => Err(SpawnError::Pipe { source: io::ErrorKind::NotConnected.into() }),
    }
}

impl Child {
    /// The child, while this owns it.
    #[must_use]
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Takes the child, so that its end can be watched, and it can be brought about, apart from the connection's.
    pub fn take_process(&mut self) -> Option<Process> {
        self.process.take()
    }
}

impl Transport for Child {
    fn kind(&self) -> TransportKind {
        self.stream.kind()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, bufs)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_close(cx)
    }
}
