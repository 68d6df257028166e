//! Any pair of tokio byte streams as a transport.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Transport, TransportKind};

/// A transport over a reader and a writer that the embedding program opened: a socket, a pipe, a TLS stream.
#[derive(Debug)]
pub struct Stream<R, W> {
    kind: TransportKind,
    reader: R,
    writer: W,
}

/// Makes a transport of a reader and a writer. Its kind is [`TransportKind::Stream`].
pub fn stream<R, W>(reader: R, writer: W) -> Stream<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    Stream::new(TransportKind::Stream, reader, writer)
}

impl<R, W> Stream<R, W> {
    pub(crate) fn new(kind: TransportKind, reader: R, writer: W) -> Self {
        Self { kind, reader, writer }
    }
}

impl<R, W> Transport for Stream<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn kind(&self) -> TransportKind {
        self.kind
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.reader).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
