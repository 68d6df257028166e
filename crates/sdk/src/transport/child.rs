//! A child's standard input and output as a transport.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::watch;

use super::{Stream, Transport, TransportKind};
use crate::process::{
    Captured, ChildStdin, ChildStdout, Isolation, Ladder, Launch, Outcome, Process, SpawnError, StderrCapture,
};

/// Read and thrown away at a time while the child is brought to its end.
const DISCARD_BYTES: usize = 16 * 1024;

/// The standard input and output of a child that this process started.
///
/// It owns the child until [`Child::take_process`]. When the connection closes it, the child's standard input is closed,
/// upon which a well-behaved peer exits, and what does not is brought to its end step by step ([`Ladder`]). Dropping it
/// kills the child and all that it started.
pub struct Child {
    stream: Stream<ChildStdout, ChildStdin>,
    owned: Owned,
    ladder: Ladder,
    watch: ChildWatch,
    outcome: watch::Sender<Option<Outcome>>,
}

enum Owned {
    Process(Box<Process>),
    ShuttingDown(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// Somebody else has it, or it is gone.
    Nothing,
}

/// Starts a child and makes a transport of it (R-226), as an editor does with an agent.
///
/// ```no_run
/// # async fn example(launch: pintle_sdk::process::Launch) -> Result<(), Box<dyn std::error::Error>> {
/// # struct Editor;
/// # impl pintle_sdk::acp::Client for Editor {}
/// let transport = pintle_sdk::transport::child(launch).await?;
/// let mut child = transport.watch();
/// let connection = pintle_sdk::acp::connect(Editor, transport)?;
/// // ... speak; then let it end, by force if it must be:
/// connection.shut_down().await?;
/// let outcome = child.gone().await;
/// # let _ = (outcome, child.stderr());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`SpawnError`]; then there is no child.
pub async fn child(launch: Launch) -> Result<Child, SpawnError> {
    Child::new(Process::spawn(launch).await?, Ladder::default())
        // A process that was just spawned has both streams.
        .ok_or(SpawnError::Pipe { source: io::ErrorKind::NotConnected.into() })
}

impl Child {
    /// A transport over a child that was started before, with the steps by which it will be brought to its end. `None` if
    /// its standard input or output was taken.
    pub fn new(mut process: Process, ladder: Ladder) -> Option<Self> {
        let (stdout, stdin) = (process.take_stdout()?, process.take_stdin()?);
        let outcome = watch::Sender::new(None);
        let watch = ChildWatch {
            pid: process.id(),
            isolation: process.isolation().clone(),
            stderr: process.stderr(),
            outcome: outcome.subscribe(),
        };
        let stream = Stream::new(TransportKind::Child, stdout, stdin);
        Some(Self { stream, owned: Owned::Process(Box::new(process)), ladder, watch, outcome })
    }

    /// The child, while this owns it.
    #[must_use]
    pub fn process(&self) -> Option<&Process> {
        match &self.owned {
            Owned::Process(process) => Some(process),
            Owned::ShuttingDown(_) | Owned::Nothing => None,
        }
    }

    /// Takes the child, so that its end can be watched, and it can be brought about, apart from the connection's.
    pub fn take_process(&mut self) -> Option<Process> {
        match std::mem::replace(&mut self.owned, Owned::Nothing) {
            Owned::Process(process) => Some(*process),
            other => {
                self.owned = other;
                None
            }
        }
    }

    /// What can be known of the child while a connection has this.
    #[must_use]
    pub fn watch(&self) -> ChildWatch {
        self.watch.clone()
    }
}

/// A look at the child behind a [`Child`] transport. Clones look at the same child.
#[derive(Debug, Clone)]
pub struct ChildWatch {
    pid: u32,
    isolation: Isolation,
    stderr: Option<StderrCapture>,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl ChildWatch {
    /// The process id, which is also that of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// How it is supervised.
    #[must_use]
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// What it has written to its standard error so far; nothing if that is not captured.
    #[must_use]
    pub fn stderr(&self) -> Captured {
        self.stderr.as_ref().map(StderrCapture::snapshot).unwrap_or_default()
    }

    /// How it ended, once it and everything that it had started are gone. `None` if the transport was dropped, or its
    /// child taken, before that was seen. Cancel safe.
    pub async fn gone(&mut self) -> Option<Outcome> {
        self.outcome.wait_for(Option::is_some).await.ok()?.clone()
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
        let closed = ready!(self.stream.poll_close(cx));
        self.owned = match std::mem::replace(&mut self.owned, Owned::Nothing) {
            Owned::Process(mut process) => {
                let ladder = self.ladder;
                Owned::ShuttingDown(Box::pin(async move { process.shut_down(ladder).await }))
            }
            other => other,
        };
        let Owned::ShuttingDown(shut_down) = &mut self.owned else { return Poll::Ready(closed) };
        // A child that still has something to say must not be stuck because nobody listens.
        let mut discarded = [0; DISCARD_BYTES];
        while let Poll::Ready(Ok(1..)) = self.stream.poll_read(cx, &mut discarded) {}
        let outcome = ready!(shut_down.as_mut().poll(cx));
        self.outcome.send_replace(Some(outcome));
        self.owned = Owned::Nothing;
        Poll::Ready(closed)
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("watch", &self.watch).finish_non_exhaustive()
    }
}
