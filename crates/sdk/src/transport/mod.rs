//! How the bytes of a connection travel: the [`Transport`] trait and its carriers.
//!
//! A transport moves the bytes of an NDJSON stream, in order, in both directions, and knows nothing of what they mean
//! . A carrier of whole messages (a WebSocket, say) ends each with LF on the way up and splits at LF on the way
//! down, so nothing above changes with the carrier. Its [`TransportKind`] is this program's own knowledge: policies may
//! rely on it, and no peer can claim another.

#[cfg(unix)]
mod child;
#[cfg(target_os = "linux")]
mod fd;
mod intercept;
mod memory;
#[cfg(target_os = "linux")]
mod stdio;
mod stream;

use std::fmt;
use std::io;
use std::task::{Context, Poll};

#[cfg(unix)]
pub use child::{Child, ChildWatch, child};
pub use intercept::{Direction, Intercept, Verdict, intercept};
pub use memory::{MEMORY_PIPE_BYTES, Memory, memory};
#[cfg(target_os = "linux")]
pub use stdio::{OwnStdin, OwnStdout, Stdio, stdio, take_stdio};
pub use stream::{Stream, stream};

/// An ordered, reliable, duplex carrier of bytes.
///
/// The connection's loop is the only caller. After [`Transport::poll_close`] the peer sees the end of the stream;
/// dropping the transport releases everything that it holds, in any state.
pub trait Transport: Send + Unpin + 'static {
    /// What carries the bytes.
    fn kind(&self) -> TransportKind;

    /// Takes hold of the carrier. Called once, inside the runtime, before any other call; whatever can fail for a
    /// reason that the user should see (a program that is not there, a descriptor that is taken) fails here.
    ///
    /// # Errors
    /// The carrier cannot be used. The default does nothing.
    fn open(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Reads some bytes into `buf`. Zero is the end of the stream. Nothing is lost when the caller stops polling.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Accepts a non-empty prefix of `bufs` and says how long it was.
    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>>;

    /// Hands over what was accepted and is still held. Called whenever there is nothing more to write for now; carriers
    /// that hold nothing keep the default.
    ///
    /// # Errors
    /// The peer cannot be reached any more.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// Hands over everything accepted so far and ends the outgoing direction. Idempotent.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// What carries a connection's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportKind {
    /// Both ends are in this process.
    InProcess,
    /// This process's own standard input and output: its parent is the peer.
    Stdio,
    /// The standard input and output of a child that this process started.
    Child,
    /// A byte stream that the embedding program opened and answers for.
    Stream,
    /// A WebSocket.
    WebSocket,
    /// Streamable HTTP.
    Http,
}

impl TransportKind {
    /// True where the peer is this process, its parent or its child.
    pub fn is_local(self) -> bool {
        matches!(self, Self::InProcess | Self::Stdio | Self::Child)
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProcess => "in-process",
            Self::Stdio => "stdio",
            Self::Child => "child",
            Self::Stream => "stream",
            Self::WebSocket => "websocket",
            Self::Http => "http",
        })
    }
}
