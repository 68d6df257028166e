//! The one loop of Core: whatever can happen while it waits for the next event.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use pintle_driver::{CoreEvent, CoreSession, InstanceId, Output};
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
    /// The inputs of the active invocations that the driver has not taken as a whole.
    inputs: BTreeMap<InstanceId, InputFeed>,
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
            inputs: BTreeMap::new(),
            out: Bytes::new(),
            close: false,
            read: BytesMut::new(),
            read_data: BytesMut::new(),
        }
    }

    pub(crate) const fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// An invocation begins with this input.
    pub(crate) fn begin_input(&mut self, invocation_id: InstanceId, input: InputFeed) {
        self.inputs.insert(invocation_id, input);
    }

    /// The driver gets no more of the input; what it has had of it.
    pub(crate) fn end_input(&mut self, invocation_id: &InstanceId) -> Option<InputTaken> {
        self.inputs.remove(invocation_id).map(|input| input.taken())
    }

    /// How much the driver has taken of an input that it still gets.
    pub(crate) fn input_taken(&self, invocation_id: &InstanceId) -> Option<InputTaken> {
        self.inputs.get(invocation_id).map(InputFeed::taken)
    }

    /// The driver gets no more of any input.
    pub(crate) fn end_inputs(&mut self) {
        self.inputs.clear();
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
                () = feed(&mut self.inputs) => {}
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
        None => pending().await,
    }
}

async fn write(target: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match target {
        Some(target) => target.write(bytes).await,
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Brings every input on that is not with the driver yet. Waits without end: what was taken shows in the feeds.
async fn feed(inputs: &mut BTreeMap<InstanceId, InputFeed>) {
    let mut feeds: Vec<Pin<Box<_>>> = Vec::new();
    feeds.extend(inputs.values_mut().filter(|input| !input.is_done()).map(|input| {
        Box::pin(async move {
            if let Err(error) = input.drive().await {
                tracing::warn!(%error, "the exact input could not be handed over");
                input.give_up();
            }
        })
    }));
    if feeds.is_empty() {
        return pending().await;
    }
    // Those that are done leave; the others are polled whenever one of them can go on.
    poll_fn(|cx| {
        feeds.retain_mut(|feed| feed.as_mut().poll(cx).is_pending());
        Poll::<()>::Pending
    })
    .await;
}
