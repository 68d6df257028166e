//! This process's own standard input and output.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fd::PollFd;
use super::{Transport, TransportKind};

/// What one read of [`OwnStdin`] takes at least, and at most, of what its buffer has room for.
const LEAST_READ_BYTES: usize = 4 * 1024;
const MOST_READ_BYTES: usize = 64 * 1024;

/// The standard streams can be taken once per process.
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
/// It is read and written under readiness, without helper threads; blocking mode comes back when it is dropped, and when
/// the program exits without.
///
/// It can be opened once per process. What `println!` had written before goes out first.
pub fn stdio() -> Stdio {
    Stdio { state: State::Unopened }
}

/// The same streams, taken in the same way, as two halves for a program that is no end of a connection, such as a relay.
/// Needs a tokio runtime with IO enabled. Dropping a half closes it, which its peer sees.
///
/// # Errors
/// They are taken already, or cannot be duplicated.
pub fn take_stdio() -> io::Result<(OwnStdin, OwnStdout)> {
    let (input, output) = take()?;
    Ok((OwnStdin { fd: input, room_bytes: LEAST_READ_BYTES }, OwnStdout(Some(output))))
}

/// What this process is sent on its standard input.
#[derive(Debug)]
pub struct OwnStdin {
    fd: PollFd,
    /// How much of a buffer the next read is given. It is cleared before, which for a whole pipe takes longer than to read
    /// a short line.
    room_bytes: usize,
}

/// What this process sends on its standard output. Shutting it down closes it, as dropping it does.
#[derive(Debug)]
pub struct OwnStdout(Option<PollFd>);

impl Transport for Stdio {
    fn kind(&self) -> TransportKind {
        TransportKind::Stdio
    }

    fn open(&mut self) -> io::Result<()> {
        self.state = State::Failed;
        let (input, output) = take()?;
        self.state = State::Open { input, output: Some(output) };
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
            State::Open { output: Some(output), .. } => output.poll_write(cx, bufs),
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

impl AsyncRead for OwnStdin {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = self.room_bytes.min(buf.remaining());
        let read = ready!(self.fd.poll_read(cx, buf.initialize_unfilled_to(room)))?;
        buf.advance(read);
        self.room_bytes =
            if read == room { (2 * room).clamp(LEAST_READ_BYTES, MOST_READ_BYTES) } else { LEAST_READ_BYTES };
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for OwnStdout {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(output) => output.poll_write(cx, bufs),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
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

fn take() -> io::Result<(PollFd, PollFd)> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the standard streams are already in use"));
    }
    let (input, output) = take_descriptors()?;
    PollFd::pair(input, output)
}

/// Private copies of descriptors 0 and 1, which then point at `/dev/null` and at standard error.
fn take_descriptors() -> io::Result<(OwnedFd, OwnedFd)> {
    use io::Write as _;
    io::stdout().flush()?;
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}
