//! The pipes of a driver.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pintle_driver::DEFAULT_MAX_DATA_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use crate::transport::{Stdio, Transport, stdio};

/// The streams that a driver is served on: control in, control out, and the companion data stream if there is one.
#[derive(Debug)]
pub struct Channels<R, W, D> {
    /// Where Core's requests come from.
    pub control_in: R,
    /// Where answers and observations go.
    pub control_out: W,
    /// Where companion streams go.
    pub data: Option<D>,
    /// The bound of a data frame's payload in bytes; [`DEFAULT_MAX_DATA_FRAME_BYTES`] unless Core wants smaller ones.
    pub max_data_frame_bytes: usize,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, D: AsyncWrite + Unpin> Channels<R, W, D> {
    /// Any three streams, as tests use them.
    pub const fn new(control_in: R, control_out: W, data: Option<D>) -> Self {
        Self { control_in, control_out, data, max_data_frame_bytes: DEFAULT_MAX_DATA_FRAME_BYTES }
    }

    /// Lowers the bound of a data frame's payload to what Core names in `PINTLE_DATA_FRAME_MAX_BYTES` (pass that variable's
    /// value; `None` changes nothing).
    ///
    /// # Errors
    /// When it is no number from 1 to [`DEFAULT_MAX_DATA_FRAME_BYTES`].
    pub fn with_max_data_frame(mut self, bytes: Option<&str>) -> io::Result<Self> {
        if let Some(bytes) = bytes {
            let bytes = bytes.parse().ok().filter(|bytes| (1..=DEFAULT_MAX_DATA_FRAME_BYTES).contains(bytes));
            self.max_data_frame_bytes = bytes.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "data frame bound is no number from 1 to 262144")
            })?;
        }
        Ok(self)
    }
}

impl Channels<StdioReader, StdioWriter, pipe::Sender> {
    /// Standard input and output, and the data stream that Core names in `PINTLE_DATA_STREAM` (pass that variable's value).
    ///
    /// Both standard streams are taken from the rest of the program, as [`stdio`] does it: a stray print goes to standard
    /// error and cannot break a frame. Reads and writes are readiness based; no thread waits behind them. Call it within a
    /// runtime, once.
    ///
    /// # Errors
    /// When the standard streams are taken already, or the data stream is not of the form `fd:N` or cannot be opened.
    pub fn stdio(data_stream: Option<&str>) -> io::Result<Self> {
        let data = data_stream.map(open_data).transpose()?;
        let mut streams = stdio();
        streams.open()?;
        let streams = Arc::new(Mutex::new(streams));
        Ok(Self::new(StdioReader(Arc::clone(&streams)), StdioWriter(streams), data))
    }
}

/// The descriptor is reopened by its name, so that nobody needs to assume who owns the number.
fn open_data(name: &str) -> io::Result<pipe::Sender> {
    let number = name.strip_prefix("fd:").and_then(|number| number.parse::<u32>().ok());
    let number =
        number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "data stream is not of the form fd:N"))?;
    let directory = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    pipe::OpenOptions::new().open_sender(format!("{directory}/{number}"))
}

/// The reading half of the standard streams. The halves share what restores them when both are gone.
#[derive(Debug)]
pub struct StdioReader(Arc<Mutex<Stdio>>);

/// The writing half of the standard streams.
#[derive(Debug)]
pub struct StdioWriter(Arc<Mutex<Stdio>>);

/// Held for one poll, which does not wait.
fn lock(streams: &Mutex<Stdio>) -> MutexGuard<'_, Stdio> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncRead for StdioReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(lock(&self.0).poll_read(cx, buf.initialize_unfilled()))?;
        buf.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StdioWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_close(cx)
    }
}
