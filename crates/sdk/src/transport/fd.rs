//! A file descriptor read and written under readiness, never through a helper thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::SocketType;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor in non-blocking mode; the mode it had comes back when this is dropped, or the process exits without.
///
/// Pipes, sockets and terminals wait under readiness. A regular file or `/dev/null` cannot be polled by the kernel and
/// never makes one wait, so it is read and written at once.
#[derive(Debug)]
pub(crate) struct PollFd {
    source: Source,
    restore: Option<Restore>,
}

#[derive(Debug)]
enum Source {
    Polled { fd: AsyncFd<OwnedFd>, short_read_empties: bool },
    AlwaysReady(OwnedFd),
}

/// The mode that a descriptor had. Two descriptors of one open file (a terminal, a socket) share the mode and thereby
/// this: it comes back with the last of them.
type Restore = Arc<OFlags>;

impl PollFd {
    /// A reader and a writer. Both go into non-blocking mode and are registered with the runtime.
    pub(crate) fn pair(input: OwnedFd, output: OwnedFd) -> io::Result<(Self, Self)> {
        let output_before = fcntl_getfl(&output)?;
        let restore_input = set_non_blocking(&input)?;
        let is_shared = !output_before.contains(OFlags::NONBLOCK) && fcntl_getfl(&output)?.contains(OFlags::NONBLOCK);
        let restore_output = if is_shared { restore_input.clone() } else { set_non_blocking(&output)? };
        let input = Self::new(input, Interest::READABLE, restore_input)?;
        Ok((input, Self::new(output, Interest::WRITABLE, restore_output)?))
    }

    fn new(fd: OwnedFd, interest: Interest, restore: Option<Restore>) -> io::Result<Self> {
        if let Some(flags) = &restore {
            crate::sys::restore_at_exit(&fd, **flags);
        }
        let short_read_empties = is_byte_stream(&fd);
        match crate::sys::watch(fd, interest) {
            Ok(fd) => Ok(Self { source: Source::Polled { fd, short_read_empties }, restore }),
            Err((fd, error)) => {
                let this = Self { source: Source::AlwaysReady(fd), restore };
                // epoll says EPERM of what it cannot poll; kqueue says EINVAL.
                match error.kind() {
                    io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => Ok(this),
                    _ => Err(error),
                }
            }
        }
    }

    /// Reads some bytes; zero is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let (polled, short_read_empties) = match &self.source {
            Source::Polled { fd, short_read_empties } => (fd, *short_read_empties),
            Source::AlwaysReady(fd) => return Poll::Ready(retry_interrupted(|| rustix::io::read(fd, &mut *buf))),
        };
        loop {
            let mut guard = ready!(polled.poll_read_ready(cx))?;
            let Ok(result) = guard.try_io(|fd| retry_interrupted(|| rustix::io::read(fd.get_ref(), &mut *buf))) else {
                continue;
            };
            // A short read emptied the pipe: what comes later raises a new edge, so the next poll can wait at once
            // instead of asking the kernel again. A terminal gives one line at a time, however many wait.
            if short_read_empties
                && let Ok(read) = result
                && read > 0
                && read < buf.len()
            {
                guard.clear_ready();
            }
            return Poll::Ready(result);
        }
    }

    /// Writes a prefix of `bufs`.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = match &self.source {
            Source::Polled { fd, .. } => fd,
            Source::AlwaysReady(fd) => return Poll::Ready(retry_interrupted(|| rustix::io::writev(fd, bufs))),
        };
        loop {
            let mut guard = ready!(polled.poll_write_ready(cx))?;
            if let Ok(result) = guard.try_io(|fd| retry_interrupted(|| rustix::io::writev(fd.get_ref(), bufs))) {
                return Poll::Ready(result);
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Polled { fd, .. } => fd.as_fd(),
            Source::AlwaysReady(fd) => fd.as_fd(),
        }
    }
}

impl Drop for PollFd {
    fn drop(&mut self) {
        let Some(flags) = self.restore.take() else { return };
        crate::sys::forget_at_exit(self.fd().as_raw_fd());
        if let Some(flags) = Arc::into_inner(flags) {
            // The mode belongs to everybody who shares the open file, a shell's terminal among them. There is nobody
            // to tell if it cannot be put back.
            let _ = fcntl_setfl(self.fd(), flags);
        }
    }
}

/// Whether a read that gives less than was asked for has taken all that there was: a pipe or a stream socket, but not what
/// keeps lines or packets apart, such as a terminal.
fn is_byte_stream(fd: &OwnedFd) -> bool {
    match rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        // But for one of packets (O_DIRECT), which its reading end cannot tell from others.
        Ok(FileType::Fifo) => true,
        Ok(FileType::Socket) => rustix::net::sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM),
        _ => false,
    }
}

/// The mode that it had, if that was another.
fn set_non_blocking(fd: &OwnedFd) -> io::Result<Option<Restore>> {
    let flags = fcntl_getfl(fd)?;
    if flags.contains(OFlags::NONBLOCK) {
        return Ok(None);
    }
    fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    Ok(Some(Arc::new(flags)))
}

fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn is_blocking(fd: impl AsFd) -> bool {
        !fcntl_getfl(fd).expect("open").contains(OFlags::NONBLOCK)
    }

    /// a socket or a terminal for both directions has one mode; the half that goes first must not give it back while
    /// the other is in use.
    #[tokio::test]
    async fn a_shared_mode_comes_back_with_the_last_half() {
        let (ours, _peer) = UnixStream::pair().expect("a pair");
        let watched = ours.try_clone().expect("another descriptor of it");
        let second = ours.try_clone().expect("another descriptor of it");
        assert!(is_blocking(&watched));
        let (input, output) = PollFd::pair(ours.into(), second.into()).expect("registered");
        assert!(!is_blocking(&watched));
        drop(input);
        assert!(!is_blocking(&watched));
        drop(output);
        assert!(is_blocking(&watched));
    }

    #[tokio::test]
    async fn separate_modes_come_back_one_by_one() {
        let ((ours, _a), (other, _b)) = (UnixStream::pair().expect("a pair"), UnixStream::pair().expect("a pair"));
        let watched = (ours.try_clone().expect("another"), other.try_clone().expect("another"));
        let (input, output) = PollFd::pair(ours.into(), other.into()).expect("registered");
        drop(input);
        assert!(is_blocking(&watched.0) && !is_blocking(&watched.1));
        drop(output);
        assert!(is_blocking(&watched.1));
    }

    /// Who passed it non-blocking gets it back so.
    #[tokio::test]
    async fn a_mode_that_was_not_changed_is_not_changed_back() {
        let (ours, other) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("set");
        let watched = ours.try_clone().expect("another");
        drop(PollFd::pair(ours.into(), other.into()).expect("registered"));
        assert!(!is_blocking(&watched));
    }

    /// What keeps packets apart, or lines as a terminal does, has more to give after a read that did not fill the buffer.
    #[tokio::test]
    async fn what_waits_behind_a_short_read_is_read_too() {
        use rustix::net::{AddressFamily, SocketFlags, socketpair};

        let packets =
            || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
        let ((reader, writer), (other, _peer)) = (packets(), packets());
        let (mut input, _output) = PollFd::pair(reader, other).expect("registered");
        for word in ["one", "two", "three"] {
            rustix::io::write(&writer, word.as_bytes()).expect("written");
        }
        let mut buf = [0; 64];
        for word in ["one", "two", "three"] {
            let read = std::future::poll_fn(|cx| input.poll_read(cx, &mut buf)).await.expect("read");
            assert_eq!(&buf[..read], word.as_bytes());
        }
    }
}
