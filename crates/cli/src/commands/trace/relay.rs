//! The tee itself: bytes pass as they come, whatever becomes of the recording.

use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, Bytes};
use pintle_sdk::process::{Exit, Launch, Process, Signal, SpawnError};
use pintle_sdk::transport::take_stdio;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::blocks::{Blocks, Spare};
use super::queue::{Queue, What};
use super::row::Dir;

/// Read at a time.
const READ_BYTES: usize = 64 * 1024;
/// Signals that wait to be passed on.
const SIGNALS_HELD: usize = 16;

/// Signals that are passed on to the agent, as they would have reached it without us.
const PASSED_ON: [(fn() -> SignalKind, Signal); 6] = [
    (SignalKind::terminate, Signal::Term),
    (SignalKind::interrupt, Signal::Interrupt),
    (SignalKind::hangup, Signal::Hangup),
    (SignalKind::quit, Signal::Quit),
    (SignalKind::user_defined1, Signal::User1),
    (SignalKind::user_defined2, Signal::User2),
];

/// Why there was nothing to relay.
#[derive(Debug, thiserror::Error)]
pub(super) enum RelayError {
    /// The agent did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Our own streams or signals could not be taken.
    #[error("take the standard streams")]
    Own(#[source] std::io::Error),
}

/// Where what passes is told, and since when. Without a queue nobody records.
#[derive(Debug, Clone)]
pub(super) struct Tap {
    pub(super) queue: Option<Arc<Queue>>,
    /// What is read goes there.
    pub(super) spare: Arc<Spare>,
    pub(super) start: Instant,
}

impl Tap {
    fn bytes(&self, dir: Dir, bytes: &Bytes) {
        if let Some(queue) = &self.queue {
            queue.push_bytes(self.now_ns(), dir, bytes.clone());
        }
    }

    fn rare(&self, what: What) {
        if let Some(queue) = &self.queue {
            queue.push_rare(self.now_ns(), what);
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Starts the agent and relays until it has ended and everything that it wrote is passed on. `None` if how it ended was
/// lost.
pub(super) async fn relay(launch: Launch, tap: Tap) -> Result<Option<Exit>, RelayError> {
    // From here on signals are ours to pass on; those that come before the agent is there wait.
    let mut signals = passed_on().map_err(RelayError::Own)?;
    let mut process = Process::spawn(launch).await?;
    let (own_stdin, own_stdout) = take_stdio().map_err(RelayError::Own)?;
    let (Some(stdin), Some(stdout)) = (process.take_stdin(), process.take_stdout()) else {
        return Err(RelayError::Own(std::io::ErrorKind::NotConnected.into()));
    };
    let mut up = Box::pin(pump(own_stdin, stdin, Dir::ToAgent, tap.clone()));
    let mut down = Box::pin(pump(stdout, own_stdout, Dir::FromAgent, tap.clone()));
    let (mut up_done, mut down_done, mut exit) = (false, false, None);
    while !down_done || exit.is_none() {
        tokio::select! {
            () = &mut up, if !up_done => up_done = true,
            () = &mut down, if !down_done => down_done = true,
            ended = process.exited(), if exit.is_none() => {
                tap.rare(What::Exit(ended));
                exit = Some(ended);
            }
            Some(signal) = signals.recv() => process.signal(signal),
        }
    }
    Ok(exit.flatten())
}

/// Passes one direction on until it ends, or nobody reads it: then its writer sees that too.
async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, dir: Dir, tap: Tap) {
    let mut blocks = Blocks::new(tap.spare.clone());
    loop {
        let block = blocks.with_room();
        match from.read_buf(&mut block.limit(READ_BYTES)).await {
            Ok(1..) => {}
            // An error of a pipe is an end: there is nothing more to pass on.
            Ok(0) | Err(_) => break,
        }
        let chunk = block.split().freeze();
        // Told before it is passed on, so that an answer is never recorded before its question.
        tap.bytes(dir, &chunk);
        if to.write_all(&chunk).await.is_err() {
            tap.rare(What::Refused(dir));
            return;
        }
    }
    tap.rare(What::Eof(dir));
    // Whoever reads it may be gone.
    let _ = to.shutdown().await;
}

fn passed_on() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(SIGNALS_HELD);
    for (kind, passed) in PASSED_ON {
        let mut arrived = signal(kind())?;
        let sender = sender.clone();
        tokio::spawn(async move { while arrived.recv().await.is_some() && sender.send(passed).await.is_ok() {} });
    }
    Ok(receiver)
}
