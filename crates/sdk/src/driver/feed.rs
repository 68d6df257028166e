//! The exact input on Core's side: a FIFO that the driver opens when it wants to.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

/// How soon after a failed open the next one is tried, at first and at most.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const LAST_RETRY: Duration = Duration::from_millis(20);

/// Writes one exact input. Dropping it ends the attempt and removes the FIFO.
#[derive(Debug)]
pub(crate) struct InputFeed {
    path: PathBuf,
    bytes: Vec<u8>,
    written: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No reader yet: an open without blocking says so by an error.
    Opening {
        retry_at: Instant,
        delay: Duration,
    },
    Writing(pipe::Sender),
    Done,
}

impl InputFeed {
    pub(crate) fn new(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self { path, bytes, written: 0, state: State::Opening { retry_at: Instant::now(), delay: FIRST_RETRY } }
    }

    /// Brings the feed on until the driver has it all. Cancel safe: a later call goes on where this one stopped.
    pub(crate) async fn drive(&mut self) -> io::Result<()> {
        loop {
            match &mut self.state {
                State::Done => return Ok(()),
                State::Opening { retry_at, delay } => {
                    sleep_until(*retry_at).await;
                    match pipe::OpenOptions::new().open_sender(&self.path) {
                        Ok(sender) => self.state = State::Writing(sender),
                        // ENXIO: nobody has the FIFO open for reading.
                        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                            *retry_at = Instant::now() + *delay;
                            *delay = (*delay * 2).min(LAST_RETRY);
                        }
                        Err(error) => return Err(error),
                    }
                }
                State::Writing(sender) => {
                    let rest = self.bytes.get(self.written..).unwrap_or_default();
                    if rest.is_empty() {
                        self.state = State::Done;
                        continue;
                    }
                    sender.writable().await?;
                    match sender.try_write(rest) {
                        Ok(count) => self.written += count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        // The driver has closed its end: it does not want the rest.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.state = State::Done,
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}

impl Drop for InputFeed {
    fn drop(&mut self) {
        // It lies in the work directory, which is removed as a whole; this only keeps it small.
        let _ = std::fs::remove_file(&self.path);
    }
}
