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

use super::clock::FairClock;
use super::feed::{InputFeed, InputTaken};
use crate::process::{ChildStdin, ChildStdout};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// How much is read after a deadline has passed before it is believed: more than the pipes hold. What was in them was in time,
/// and a driver that writes without a pause must not hold up its own deadlines.
const LATE_BYTES: usize = 2 << 20;

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
    /// The time of the session.
    pub(crate) clock: FairClock,
    /// What was read since a deadline has passed.
    late_bytes: usize,
}

#[derive(Debug)]
enum Happened {
    Control(io::Result<usize>),
    Data(io::Result<usize>),
    Written(io::Result<usize>),
    /// A deadline has passed, and there was nothing to be read.
    Overdue,
    Nothing,
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
            clock: FairClock::new(),
            late_bytes: 0,
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
        self.session.eof_data(self.clock.now());
    }

    /// Closes the driver's standard input.
    pub(crate) fn close_control(&mut self) {
        self.stdin = None;
    }

    /// Waits for the next event, until a moment of the [`clock`](Self::clock) at most: then there is none. Cancel safe.
    ///
    /// No time has passed for the driver while the application was busy with the last event, and none of its deadlines is
    /// believed before what it has written until then is read.
    pub(crate) async fn next(&mut self, until: Option<Instant>) -> Option<CoreEvent> {
        self.clock.attend();
        let mut passed = false;
        loop {
            let event = self.session.poll_event();
            if event.is_some() || passed {
                self.clock.stand();
                return event;
            }
            self.collect_output();
            let deadline = self.session.poll_timeout().into_iter().chain(until).min();
            let due = deadline.is_some_and(|deadline| deadline <= self.clock.now());
            if !due {
                self.late_bytes = 0;
            } else if self.late_bytes > LATE_BYTES {
                passed = self.expire(until);
                continue;
            }
            let longest = deadline.map(|deadline| self.clock.until(deadline));
            self.read.reserve(READ_BYTES);
            self.read_data.reserve(READ_BYTES);
            let waiting = self.clock.wait(longest);
            let happened = tokio::select! {
                biased;
                happened = async {
                    tokio::select! {
                        read = read(&mut self.stdout, &mut self.read) => Happened::Control(read),
                        read = read(&mut self.data, &mut self.read_data) => Happened::Data(read),
                        written = write(&mut self.stdin, &self.out), if !self.out.is_empty() => Happened::Written(written),
                        () = feed(&mut self.inputs) => Happened::Nothing,
                    }
                } => happened,
                () = waiting.passed() => if due { Happened::Overdue } else { Happened::Nothing },
            };
            drop(waiting);
            self.clock.attend();
            match happened {
                Happened::Overdue => passed = self.expire(until),
                happened => self.take(happened),
            }
        }
    }

    fn take(&mut self, happened: Happened) {
        let now = self.clock.now();
        match happened {
            Happened::Control(Ok(count)) if count > 0 => {
                self.late_bytes += count;
                self.session.feed(now, self.read.split().freeze());
            }
            // A broken pipe is an end of file like another: the driver is gone.
            Happened::Control(_) => {
                self.stdout = None;
                self.session.eof(now);
            }
            Happened::Data(Ok(count)) if count > 0 => {
                self.late_bytes += count;
                self.session.feed_data(now, self.read_data.split().freeze());
            }
            Happened::Data(_) => self.close_data(),
            Happened::Written(Ok(count)) => self.out.advance(count),
            // The driver does not read any more. What it still says, and its end of file, tell the rest.
            Happened::Written(Err(_)) => {
                self.stdin = None;
                self.out.clear();
            }
            Happened::Overdue | Happened::Nothing => {}
        }
    }

    /// Believes the deadlines that have passed: what the driver had written is read. Whether the caller's is one of them.
    fn expire(&mut self, until: Option<Instant>) -> bool {
        self.late_bytes = 0;
        let now = self.clock.now();
        self.session.handle_timeout(now);
        until.is_some_and(|until| until <= now)
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

#[cfg(all(test, unix))]
mod tests;
