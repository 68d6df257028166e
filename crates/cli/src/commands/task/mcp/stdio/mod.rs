//! The standard streams as rmcp wants them.

mod mend;

use std::io;

use rmcp::RoleServer;
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;

use mend::Mended;

/// A longer line is dropped and told. The largest legal call is a publish request with every character escaped.
const LINE_MAX_BYTES: usize = 1 << 20;

#[cfg(target_os = "linux")]
pub(super) fn transport() -> io::Result<impl Transport<RoleServer, Error = io::Error>> {
    let (read, write) = tokio::io::split(linux::Streams::open()?);
    Ok(AsyncRwTransport::new_server(Mended::new(read), write).with_max_line_length(LINE_MAX_BYTES))
}

/// Elsewhere tokio's own, which read and write on threads of their own.
#[cfg(not(target_os = "linux"))]
pub(super) fn transport() -> io::Result<impl Transport<RoleServer, Error = io::Error>> {
    let (read, write) = (Mended::new(tokio::io::stdin()), tokio::io::stdout());
    Ok(AsyncRwTransport::new_server(read, write).with_max_line_length(LINE_MAX_BYTES))
}

/// The transport of the host runtime: without helper threads, and a stray `println!` of a dependency goes to standard
/// error instead of into a message.
#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, IoSlice};
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use pintle_sdk::transport::{Stdio, Transport, stdio};
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    pub(super) struct Streams(Stdio);

    impl Streams {
        pub(super) fn open() -> io::Result<Self> {
            let mut stdio = stdio();
            stdio.open()?;
            Ok(Self(stdio))
        }
    }

    impl AsyncRead for Streams {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let count = ready!(self.0.poll_read(cx, buf.initialize_unfilled()))?;
            buf.advance(count);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Streams {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            if bytes.is_empty() {
                return Poll::Ready(Ok(0));
            }
            self.0.poll_write(cx, &[IoSlice::new(bytes)])
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_close(cx)
        }
    }
}
