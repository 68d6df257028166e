//! A transport that says one thing more when it is closed, and ends it without a line feed.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use pintle_sdk::transport::{Transport, TransportKind};

const LAST_WORDS: &[u8] = br#"{"jsonrpc":"2.0","method":"_pintle/bye"}"#;

pub(super) struct LastWords<T> {
    inner: T,
    said: usize,
}

impl<T> LastWords<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, said: 0 }
    }
}

impl<T: Transport> Transport for LastWords<T> {
    fn kind(&self) -> TransportKind {
        self.inner.kind()
    }

    fn open(&mut self) -> io::Result<()> {
        self.inner.open()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.inner.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.inner.poll_write(cx, bufs)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.said < LAST_WORDS.len() {
            self.said += ready!(self.inner.poll_write(cx, &[IoSlice::new(&LAST_WORDS[self.said..])]))?;
        }
        self.inner.poll_close(cx)
    }
}
