//! A transport that shows each line to a function first, which may change it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};

use super::{Transport, TransportKind};

/// Bytes of changed lines that wait to be written before the connection has to wait.
const HELD_BYTES: usize = 256 * 1024;
/// Bytes taken from the carrier at a time.
const READ_BYTES: usize = 64 * 1024;

/// Which way a line travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// What becomes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It travels as it is.
    Pass,
    /// These bytes travel instead, exactly as they are: they bring their own LF, may hold any number of lines or a
    /// part of one, and may be empty.
    Replace(Vec<u8>),
    /// Like [`Verdict::Replace`], and then the stream ends in this direction.
    ReplaceAndClose(Vec<u8>),
}

/// The transport that [`intercept`] makes.
pub struct Intercept<T, F> {
    inner: T,
    judge: F,
    outgoing: Lines,
    incoming: Lines,
    scratch: Box<[u8]>,
    incoming_ended: bool,
}

/// Puts `judge` between a connection and its carrier. It sees each whole line, without its LF, in both directions and
/// in order, and decides what travels: faults for a mock agent, a recorder, a filter.
///
/// A line is held until it is complete, so there is no bound on its length here; the connection's own bound applies
/// to what it is handed.
pub fn intercept<T, F>(inner: T, judge: F) -> Intercept<T, F>
where
    T: Transport,
    F: FnMut(Direction, &[u8]) -> Verdict + Send + Unpin + 'static,
{
    Intercept {
        inner,
        judge,
        outgoing: Lines::default(),
        incoming: Lines::default(),
        scratch: vec![0; READ_BYTES].into_boxed_slice(),
        incoming_ended: false,
    }
}

/// One direction: the line that is still growing, and what may travel on.
#[derive(Debug, Default)]
struct Lines {
    partial: BytesMut,
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    closed: bool,
}

impl Lines {
    fn push(&mut self, mut bytes: &[u8], mut judge: impl FnMut(&[u8]) -> Verdict) {
        while let Some(end) = memchr_lf(bytes) {
            if self.closed {
                return;
            }
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            let whole = if self.partial.is_empty() {
                Bytes::copy_from_slice(line)
            } else {
                self.partial.extend_from_slice(line);
                self.partial.split().freeze()
            };
            let verdict = judge(whole.strip_suffix(b"\n").unwrap_or(&whole));
            self.settle(whole, verdict);
        }
        if !self.closed {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// The stream ended: what is left of it without an LF is judged as the last line.
    fn finish(&mut self, judge: impl FnOnce(&[u8]) -> Verdict) {
        if !self.partial.is_empty() && !self.closed {
            let last = self.partial.split().freeze();
            let verdict = judge(&last);
            self.settle(last, verdict);
        }
    }

    fn settle(&mut self, line: Bytes, verdict: Verdict) {
        let bytes = match verdict {
            Verdict::Pass => line,
            Verdict::Replace(bytes) => bytes.into(),
            Verdict::ReplaceAndClose(bytes) => {
                self.closed = true;
                bytes.into()
            }
        };
        if !bytes.is_empty() {
            self.ready_bytes += bytes.len();
            self.ready.push_back(bytes);
        }
    }

    fn advance(&mut self, count: usize) {
        self.ready_bytes -= count;
        let mut count = count;
        while let Some(front) = self.ready.front_mut()
            && count > 0
        {
            let taken = count.min(front.len());
            front.advance(taken);
            count -= taken;
            if front.is_empty() {
                self.ready.pop_front();
            }
        }
    }
}

impl<T, F> Intercept<T, F>
where
    T: Transport,
    F: FnMut(Direction, &[u8]) -> Verdict + Send + Unpin + 'static,
{
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(front) = self.outgoing.ready.front() {
            let written = ready!(self.inner.poll_write(cx, &[io::IoSlice::new(front)]))?;
            self.outgoing.advance(written);
        }
        if self.outgoing.closed { self.inner.poll_close(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<T, F> Transport for Intercept<T, F>
where
    T: Transport,
    F: FnMut(Direction, &[u8]) -> Verdict + Send + Unpin + 'static,
{
    fn kind(&self) -> TransportKind {
        self.inner.kind()
    }

    fn open(&mut self) -> io::Result<()> {
        self.inner.open()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if let Some(front) = self.incoming.ready.front() {
                let taken = front.len().min(buf.len());
                buf[..taken].copy_from_slice(&front[..taken]);
                self.incoming.advance(taken);
                return Poll::Ready(Ok(taken));
            }
            if self.incoming.closed || self.incoming_ended {
                return Poll::Ready(Ok(0));
            }
            let read = ready!(self.inner.poll_read(cx, &mut self.scratch))?;
            let judge = &mut self.judge;
            if read == 0 {
                self.incoming_ended = true;
                self.incoming.finish(|line| judge(Direction::In, line));
            } else {
                self.incoming.push(&self.scratch[..read], |line| judge(Direction::In, line));
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.outgoing.ready_bytes >= HELD_BYTES {
            ready!(self.poll_drain(cx))?;
        }
        let judge = &mut self.judge;
        let mut accepted = 0;
        for buf in bufs {
            self.outgoing.push(buf, |line| judge(Direction::Out, line));
            accepted += buf.len();
            if self.outgoing.ready_bytes >= HELD_BYTES {
                break;
            }
        }
        Poll::Ready(Ok(accepted))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        self.inner.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let judge = &mut self.judge;
        self.outgoing.finish(|line| judge(Direction::Out, line));
        ready!(self.poll_drain(cx))?;
        self.inner.poll_close(cx)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Intercept<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intercept").field("inner", &self.inner).finish_non_exhaustive()
    }
}

fn memchr_lf(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
