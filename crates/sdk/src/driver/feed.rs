//! The exact input on Core's side: a channel that the driver opens when it wants to, once.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream, unix::pipe};
use tokio::time::{Instant, sleep_until};

use crate::process::NamedPipe;

/// How soon after a failed open the next one is tried, at first and at most.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const LAST_RETRY: Duration = Duration::from_millis(20);

/// How much of the exact input a driver has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputTaken {
    /// It has not opened the channel.
    #[default]
    NotOpened,
    /// It has opened the channel, and so many bytes are on their way to it or with it.
    Bytes(u64),
    /// It can have it all.
    Whole,
}

/// Writes one exact input. Dropping it ends the attempt and removes the channel.
pub(crate) struct InputFeed {
    bytes: Vec<u8>,
    written: usize,
    state: State,
}

enum State {
    /// No reader yet.
    Opening {
        channel: NamedPipe,
        retry_at: Instant,
        delay: Duration,
    },
    Accepting {
        #[expect(dead_code, reason = "held for its drop")]
        channel: SocketFile,
        listener: UnixListener,
    },
    ToPipe(pipe::Sender),
    ToSocket(UnixStream),
    Done,
    Failed,
}

impl InputFeed {
    /// Through a FIFO at `path`, which is made now.
    pub(crate) fn pipe(path: PathBuf, bytes: Vec<u8>) -> io::Result<Self> {
        let channel = NamedPipe::make(path)?;
        let state = State::Opening { channel, retry_at: Instant::now(), delay: FIRST_RETRY };
        Ok(Self { bytes, written: 0, state })
    }

    /// Through a socket at `path`, which is made now.
    pub(crate) fn socket(path: PathBuf, bytes: Vec<u8>) -> io::Result<Self> {
        let state = State::Accepting { listener: UnixListener::bind(&path)?, channel: SocketFile(path) };
        Ok(Self { bytes, written: 0, state })
    }

    pub(crate) fn taken(&self) -> InputTaken {
        match &self.state {
            State::Opening { .. } | State::Accepting { .. } => InputTaken::NotOpened,
            State::Failed if self.written == 0 => InputTaken::NotOpened,
            _ if self.written == self.bytes.len() => InputTaken::Whole,
            _ => InputTaken::Bytes(self.written as u64),
        }
    }

    /// Whether there is nothing left to do.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::Failed)
    }

    /// Ends the attempt: the channel could not be used.
    pub(crate) fn give_up(&mut self) {
        self.state = State::Failed;
    }

    /// Brings the feed on until the driver has it all. Cancel safe: a later call goes on where this one stopped.
    pub(crate) async fn drive(&mut self) -> io::Result<()> {
        loop {
            match &mut self.state {
                State::Done | State::Failed => return Ok(()),
                // With the state goes the channel's name: the input is given once, and a second opening finds nothing.
                State::Opening { channel, retry_at, delay } => {
                    sleep_until(*retry_at).await;
                    match channel.sender()? {
                        Some(sender) => self.state = State::ToPipe(sender),
                        None => {
                            *retry_at = Instant::now() + *delay;
                            *delay = (*delay * 2).min(LAST_RETRY);
                        }
                    }
                }
                State::Accepting { listener, .. } => {
                    let (stream, _) = listener.accept().await?;
                    self.state = State::ToSocket(stream);
                }
                State::ToPipe(sender) => {
                    let rest = self.bytes.get(self.written..).unwrap_or_default();
                    if rest.is_empty() {
                        self.state = State::Done;
                        continue;
                    }
                    sender.writable().await?;
                    let written = sender.try_write(rest);
                    self.wrote(written)?;
                }
                State::ToSocket(stream) => {
                    let rest = self.bytes.get(self.written..).unwrap_or_default();
                    if rest.is_empty() {
                        // A peer that is gone has had what it wanted.
                        let _ = stream.shutdown().await;
                        self.state = State::Done;
                        continue;
                    }
                    let written = stream.write(rest).await;
                    self.wrote(written)?;
                }
            }
        }
    }

    fn wrote(&mut self, written: io::Result<usize>) -> io::Result<()> {
        match written {
            Ok(count) => self.written += count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // The driver has closed its end: it does not want the rest.
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                self.state = State::Done;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The name of a socket, which goes with it.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It lies in the work directory, which is removed as a whole; this only keeps it small.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl fmt::Debug for InputFeed {
    /// Neither where the input is nor what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputFeed").field("taken", &self.taken()).finish_non_exhaustive()
    }
}
