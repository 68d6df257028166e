//! The pipes of a driver.

use std::io;
use std::os::fd::AsFd;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

/// The streams that a driver is served on: control in, control out, and the companion data stream if there is one.
#[derive(Debug)]
pub struct Channels<R, W, D> {
    /// Where Core's requests come from.
    pub control_in: R,
    /// Where answers and observations go.
    pub control_out: W,
    /// Where companion streams go.
    pub data: Option<D>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, D: AsyncWrite + Unpin> Channels<R, W, D> {
    /// Any three streams, as tests use them.
    pub const fn new(control_in: R, control_out: W, data: Option<D>) -> Self {
        Self { control_in, control_out, data }
    }
}

impl Channels<pipe::Receiver, pipe::Sender, pipe::Sender> {
    /// Standard input and output, which Core makes pipes, and the data stream that Core names in `PINTLE_DATA_STREAM`
    /// (pass that variable's value). Nothing else may use standard input and output from here on.
    ///
    /// Reads and writes are readiness based; no thread waits behind them. Call it within a runtime.
    ///
    /// # Errors
    /// When standard input or output is no pipe, or the data stream is not of the form `fd:N` or cannot be opened.
    pub fn stdio(data_stream: Option<&str>) -> io::Result<Self> {
        let control_in = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        let control_out = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
        let data = data_stream.map(open_data).transpose()?;
        Ok(Self { control_in, control_out, data })
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
