//! This process's own standard input and output.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rustix::fs::{Mode, OFlags};
use tokio::io::Interest;

use super::fd::PollFd;
use super::{Transport, TransportKind};

/// Only one transport per process can own the standard streams.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The transport that [`stdio`] makes.
#[derive(Debug)]
pub struct Stdio {
    state: State,
}

#[derive(Debug)]
enum State {
    Unopened,
    Open { input: PollFd, output: Option<PollFd> },
    Failed,
}

/// This process's own standard input and output, for an agent that an editor starts.
///
/// Opening it takes both streams away from the rest of the program: descriptor 1 is duplicated for the protocol and
/// then points at standard error, so that a stray `println!` of some dependency, or of a child that inherits it, is seen
/// there and cannot break a frame; descriptor 0 then reads `/dev/null`, so that no child eats the peer's bytes.
/// It is read and written under readiness, without helper threads; blocking mode comes back when it is dropped.
///
/// It can be opened once per process. What `println!` had written before goes out first.
pub fn stdio() -> Stdio {
    Stdio { state: State::Unopened }
}

impl Transport for Stdio {
    fn kind(&self) -> TransportKind {
        TransportKind::Stdio
    }

    fn open(&mut self) -> io::Result<()> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the standard streams are already in use"));
        }
        self.state = State::Failed;
        let (input, output) = take_standard_streams()?;
        self.state = State::Open {
            input: PollFd::new(input, Interest::READABLE)?,
            output: Some(PollFd::new(output, Interest::WRITABLE)?),
        };
        Ok(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Open { input, .. } => input.poll_read(cx, buf),
            State::Unopened | State::Failed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Open { output: Some(output), .. } => Poll::Ready(ready!(output.poll_write(cx, bufs))),
            _ => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let State::Open { output, .. } = &mut self.state {
            drop(output.take());
        }
        Poll::Ready(Ok(()))
    }
}

/// Private copies of descriptors 0 and 1, which then point at `/dev/null` and at standard error.
fn take_standard_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    use io::Write as _;
    io::stdout().flush()?;
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}
