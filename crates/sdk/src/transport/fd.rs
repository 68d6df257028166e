//! A file descriptor read and written under readiness, never through a helper thread.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor in non-blocking mode; the mode it had comes back when this is dropped.
///
/// Pipes, sockets and terminals wait under readiness. A regular file or `/dev/null` cannot be polled by the kernel and
/// never makes one wait, so it is read and written at once.
#[derive(Debug)]
pub(crate) struct PollFd {
    source: Source,
    restore: Option<OFlags>,
}

#[derive(Debug)]
enum Source {
    Polled(AsyncFd<OwnedFd>),
    AlwaysReady(OwnedFd),
}

impl PollFd {
    /// Puts `fd` into non-blocking mode and registers it with the runtime.
    pub(crate) fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        let flags = fcntl_getfl(&fd)?;
        if !flags.contains(OFlags::NONBLOCK) {
            fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        }
        let restore = (!flags.contains(OFlags::NONBLOCK)).then_some(flags);
        match crate::sys::watch(fd, interest) {
            Ok(polled) => Ok(Self { source: Source::Polled(polled), restore }),
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
        let polled = match &self.source {
            Source::Polled(polled) => polled,
            Source::AlwaysReady(fd) => return Poll::Ready(retry_interrupted(|| rustix::io::read(fd, &mut *buf))),
        };
        loop {
            let mut guard = ready!(polled.poll_read_ready(cx))?;
            let Ok(result) = guard.try_io(|fd| retry_interrupted(|| rustix::io::read(fd.get_ref(), &mut *buf))) else {
                continue;
            };
            // A short read emptied the pipe: what comes later raises a new edge, so the next poll can wait at once
            // instead of asking the kernel again.
            if let Ok(read) = result
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
            Source::Polled(polled) => polled,
            Source::AlwaysReady(fd) => return Poll::Ready(retry_interrupted(|| rustix::io::writev(fd, bufs))),
        };
        loop {
            let mut guard = ready!(polled.poll_write_ready(cx))?;
            if let Ok(result) = guard.try_io(|fd| retry_interrupted(|| rustix::io::writev(fd.get_ref(), bufs))) {
                return Poll::Ready(result);
            }
        }
    }
}

impl Drop for PollFd {
    fn drop(&mut self) {
        if let Some(flags) = self.restore {
            let fd = match &self.source {
                Source::Polled(polled) => polled.as_fd(),
                Source::AlwaysReady(fd) => fd.as_fd(),
            };
            // The mode belongs to everybody who shares the open file, a shell's terminal among them. There is nobody
            // to tell if it cannot be put back.
            let _ = fcntl_setfl(fd, flags);
        }
    }
}

fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
