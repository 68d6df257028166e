//! The one loop of Core: whatever can happen while it waits for the next event.

use std::io;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use pintle_driver::{CoreEvent, CoreSession, Output};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::time::sleep_until;

use super::feed::{InputFeed, InputTaken};
use crate::process::{ChildStdin, ChildStdout};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// The pipes of a driver and the session behind them. Nothing is read while an event waits to be taken, so a slow
/// application slows the driver down and holds no more than one read of frames.
#[derive(Debug)]
pub(crate) struct Pump {
    pub(crate) session: CoreSession,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    data: Option<pipe::Receiver>,
    input: Option<InputFeed>,
    /// What became of the input that is not fed any more.
    taken: InputTaken,
    out: Bytes,
    close: bool,
    read: BytesMut,
    read_data: BytesMut,
}

impl Pump {
    pub(crate) fn new(
        session: CoreSession,
        stdin: Option<ChildStdin>,
        stdout: Option<ChildStdout>,
        data: Option<pipe::Receiver>,
    ) -> Self {
        Self {
            session,
            stdin,
            stdout,
            data,
            input: None,
            taken: InputTaken::NotOpened,
            out: Bytes::new(),
            close: false,
            read: BytesMut::new(),
            read_data: BytesMut::new(),
        }
    }

    pub(crate) const fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// An invocation begins with this input; `None` if the driver has it already.
    pub(crate) fn begin_input(&mut self, input: Option<InputFeed>) {
        self.taken = if input.is_none() { InputTaken::Whole } else { InputTaken::NotOpened };
        self.input = input;
    }

    /// The driver gets no more of it.
    pub(crate) fn end_input(&mut self) {
        if let Some(input) = self.input.take() {
            self.taken = input.taken();
        }
    }

    pub(crate) fn input_taken(&self) -> InputTaken {
        self.input.as_ref().map_or(self.taken, InputFeed::taken)
    }

    /// Nobody listens to the companion stream any more.
    pub(crate) fn close_data(&mut self) {
        self.data = None;
        self.session.eof_data(Instant::now());
    }

    /// Closes the driver's standard input.
    pub(crate) fn close_control(&mut self) {
        self.stdin = None;
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> CoreEvent {
        loop {
            if let Some(event) = self.session.poll_event() {
                return event;
            }
            self.collect_output();
            let timeout = self.session.poll_timeout();
            let timer = tokio::time::Instant::from_std(timeout.unwrap_or_else(Instant::now));
            self.read.reserve(READ_BYTES);
            self.read_data.reserve(READ_BYTES);
            tokio::select! {
                read = read(&mut self.stdout, &mut self.read) => {
                    let now = Instant::now();
                    match read {
                        Ok(count) if count > 0 => self.session.feed(now, self.read.split().freeze()),
                        // A broken pipe is an end of file like another: the driver is gone.
                        _ => {
                            self.stdout = None;
                            self.session.eof(now);
                        }
                    }
                }
                read = read(&mut self.data, &mut self.read_data) => match read {
                    Ok(count) if count > 0 => self.session.feed_data(Instant::now(), self.read_data.split().freeze()),
                    _ => self.close_data(),
                },
                written = write(&mut self.stdin, &self.out), if !self.out.is_empty() => match written {
                    Ok(count) => self.out.advance(count),
                    // The driver does not read any more. What it still says, and its end of file, tell the rest.
                    Err(_) => {
                        self.stdin = None;
                        self.out.clear();
                    }
                },
                fed = feed(&mut self.input) => {
                    self.end_input();
                    if let Err(error) = fed {
                        tracing::warn!(%error, "the exact input could not be handed over");
                    }
                }
                () = sleep_until(timer), if timeout.is_some() => self.session.handle_timeout(Instant::now()),
            }
        }
    }

    fn collect_output(&mut self) {
        while self.out.is_empty() {
            match self.session.poll_output() {
                Some(Output::Control(bytes)) => self.out = bytes,
                Some(Output::Close) => self.close = true,
                // Core has no data stream of its own to write.
                Some(Output::Data(_)) => {}
                None => break,
            }
        }
        if self.close && self.out.is_empty() {
            self.stdin = None;
        }
    }
}

async fn read(source: &mut Option<impl AsyncReadExt + Unpin>, buffer: &mut BytesMut) -> io::Result<usize> {
    match source {
        Some(source) => source.read_buf(buffer).await,
        None => std::future::pending().await,
    }
}

async fn write(target: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match target {
        Some(target) => target.write(bytes).await,
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

async fn feed(input: &mut Option<InputFeed>) -> io::Result<()> {
    match input {
        Some(input) => input.drive().await,
        None => std::future::pending().await,
    }
}
