//! The exact input of an invocation, on the driver's side.

use std::io;

use pintle_driver::{ExactInputHandle, InputKind};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{UnixStream, unix::pipe};

/// The bound of an exact input in bytes.
pub const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Why the exact input could not be read. The handle itself is never part of the text.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The channel could not be opened.
    #[error("open the exact input ({})", .kind.as_str())]
    Open {
        /// The channel.
        kind: InputKind,
        /// Why.
        source: io::Error,
    },
    /// The channel broke.
    #[error("read the exact input")]
    Read {
        /// Why.
        source: io::Error,
    },
    /// The input is over [`MAX_INPUT_BYTES`].
    #[error("exact input is longer than {MAX_INPUT_BYTES} bytes")]
    TooLarge,
}

/// Reads a handle to its end.
pub(crate) async fn read(handle: &ExactInputHandle) -> Result<Vec<u8>, InputError> {
    let kind = handle.kind;
    let open = |source| InputError::Open { kind, source };
    let path = handle.value.expose();
    match kind {
        // Opened without blocking and without a writer, a FIFO gets no readiness until Core has opened its end, so the
        // first read waits and an end of file is a real one.
        InputKind::Pipe => read_all(pipe::OpenOptions::new().open_receiver(path).map_err(open)?).await,
        InputKind::Socket => read_all(UnixStream::connect(path).await.map_err(open)?).await,
        InputKind::Memfd => {
            // Memory of ours: reading it does not wait.
            let bytes = std::fs::read(path).map_err(open)?;
            if bytes.len() as u64 > MAX_INPUT_BYTES { Err(InputError::TooLarge) } else { Ok(bytes) }
        }
    }
}

async fn read_all(source: impl AsyncRead + Unpin) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    let mut source = source.take(MAX_INPUT_BYTES + 1);
    source.read_to_end(&mut bytes).await.map_err(|source| InputError::Read { source })?;
    if bytes.len() as u64 > MAX_INPUT_BYTES { Err(InputError::TooLarge) } else { Ok(bytes) }
}
