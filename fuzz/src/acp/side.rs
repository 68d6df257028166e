//! What both ends have in common, and what their applications do alike.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use pintle_acp::{
    AgentEnd, AgentEvent, Call, ClientEnd, ClientEvent, Config, Counters, OutId, Output, Reply, ReplyToken, SendError,
};
use pintle_wire::Framer;
use serde_json::Value;

use super::watch::Watch;
use super::{Chunks, config, epoch, json_or, seconds};

/// Either end of a connection, with what comes back with the outcome of its requests.
pub trait End: Debug {
    /// What comes back.
    type Tag;
    /// What the application must see.
    type Event: Debug;

    /// A fresh end.
    fn new(config: Config) -> Self;
    /// Bytes arrived.
    fn feed(&mut self, now: Instant, bytes: &[u8]);
    /// No more will.
    fn eof(&mut self, now: Instant);
    /// The application closes.
    fn close(&mut self, now: Instant);
    /// The carrier failed.
    fn lost(&mut self);
    /// Answers what dropped tokens owed.
    fn reap(&mut self, now: Instant);
    /// Answers a request.
    fn reply(&mut self, now: Instant, token: ReplyToken, reply: &Reply);
    /// Sends a request.
    ///
    /// # Errors
    /// It was not taken.
    fn request(
        &mut self,
        call: &Call,
        deadline: Option<Instant>,
        tag: Self::Tag,
    ) -> Result<OutId, (SendError, Self::Tag)>;
    /// Gives one up.
    fn cancel_request(&mut self, id: OutId) -> Option<Self::Tag>;
    /// Sends a notification.
    ///
    /// # Errors
    /// It was not taken.
    fn notify(&mut self, call: &Call) -> Result<(), SendError>;
    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;
    /// The next output.
    fn poll_output(&mut self) -> Option<Output>;
    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;
    /// It has come.
    fn handle_timeout(&mut self, now: Instant);
    /// So much was written.
    fn wrote(&mut self, bytes: usize);
    /// Whether to go on reading.
    fn wants_input(&self) -> bool;
    /// Requests of the peer, requests of ours, sessions.
    fn load(&self) -> (usize, usize, usize);
    /// Frames kept, their bytes, bytes of a line that has not ended.
    fn held(&self) -> (usize, usize, usize);
    /// Bytes of calls that wait to be written, and of everything.
    fn backlog_bytes(&self) -> (usize, usize);
    /// What happened so far.
    fn counters(&self) -> Counters;
}

macro_rules! end {
    ($end:ident, $event:ident, |$it:ident, $now:ident| $reap:expr, |$reply_it:ident, $reply_now:ident, $token:ident, $reply:ident| $replies:expr, |$close_it:ident, $close_now:ident| $close:expr) => {
        impl<W: Debug> End for $end<W> {
            type Tag = W;
            type Event = $event<W>;

            fn new(config: Config) -> Self {
                Self::new(config)
            }

            fn feed(&mut self, now: Instant, bytes: &[u8]) {
                self.feed(now, bytes);
            }

            fn eof(&mut self, now: Instant) {
                self.eof(now);
            }

            fn close(&mut self, $close_now: Instant) {
                let $close_it = self;
                $close
            }

            fn lost(&mut self) {
                self.lost();
            }

            fn reap(&mut self, $now: Instant) {
                let $it = self;
                $reap
            }

            fn reply(&mut self, $reply_now: Instant, $token: ReplyToken, $reply: &Reply) {
                let $reply_it = self;
                $replies
            }

            fn request(&mut self, call: &Call, deadline: Option<Instant>, tag: W) -> Result<OutId, (SendError, W)> {
                self.request(call, deadline, tag)
            }

            fn cancel_request(&mut self, id: OutId) -> Option<W> {
                self.cancel_request(id)
            }

            fn notify(&mut self, call: &Call) -> Result<(), SendError> {
                self.notify(call)
            }

            fn poll_event(&mut self) -> Option<Self::Event> {
                self.poll_event()
            }

            fn poll_output(&mut self) -> Option<Output> {
                self.poll_output()
            }

            fn poll_timeout(&self) -> Option<Instant> {
                self.poll_timeout()
            }

            fn handle_timeout(&mut self, now: Instant) {
                self.handle_timeout(now);
            }

            fn wrote(&mut self, bytes: usize) {
                self.wrote(bytes);
            }

            fn wants_input(&self) -> bool {
                self.wants_input()
            }

            fn load(&self) -> (usize, usize, usize) {
                self.load()
            }

            fn held(&self) -> (usize, usize, usize) {
                self.held()
            }

            fn backlog_bytes(&self) -> (usize, usize) {
                self.backlog_bytes()
            }

            fn counters(&self) -> Counters {
                self.counters()
            }
        }
    };
}

end!(
    AgentEnd,
    AgentEvent,
    |end, now| end.reap(now),
    |end, now, token, reply| end.reply(now, token, reply),
    |end, now| {
        end.close(now);
    }
);
end!(ClientEnd, ClientEvent, |end, _now| end.reap(), |end, _now, token, reply| end.reply(token, reply), |end, _now| {
    end.close();
});

/// One end, its peer and its application.
pub(super) struct Side<E: End> {
    pub(super) end: E,
    pub(super) now: Instant,
    chunks: Chunks,
    /// The same framing, to know what was asked.
    framer: Framer,
    pub(super) watch: Watch,
    /// While the peer does not read, nothing is written.
    pub(super) peer_reads: bool,
    input_open: bool,
    pub(super) tokens: VecDeque<ReplyToken>,
    pub(super) asked: VecDeque<(OutId, u32)>,
}

impl<E: End<Tag = u32>> Side<E> {
    pub(super) fn new(seed: u32) -> Self {
        Self {
            end: E::new(config()),
            now: epoch(),
            chunks: Chunks(seed),
            framer: Framer::new(config().max_line_bytes),
            watch: Watch::default(),
            peer_reads: true,
            input_open: true,
            tokens: VecDeque::new(),
            asked: VecDeque::new(),
        }
    }

    pub(super) fn peer_sends(&mut self, bytes: &[u8]) {
        // A loop reads no more from a peer that does not read; what it has read is fed.
        if !self.input_open || !self.end.wants_input() {
            return;
        }
        self.framer.feed_slice(bytes);
        while let Some(line) = self.framer.next() {
            self.watch.peer_sent(&line);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.chunks.next(rest.len()));
            self.end.feed(self.now, chunk);
            rest = after;
        }
        self.bounds(bytes.len());
    }

    /// What the application of either end can do.
    pub(super) fn act(&mut self, what: u8, rest: &[u8]) {
        match what {
            b'e' => self.reply(&Reply::error(&pintle_acp::Error::internal_error())),
            b'd' => drop(self.tokens.pop_front()),
            b'c' => {
                if let Some((id, tag)) = self.asked.pop_front()
                    && let Some(waiter) = self.end.cancel_request(id)
                {
                    assert_eq!(waiter, tag);
                    self.watch.given_up(tag);
                }
            }
            b'n' => drop(self.end.notify(&Call::new("_app/note", &json_or(rest, "{}")).expect("JSON"))),
            b't' => self.pass(seconds(rest)),
            b'w' => self.peer_reads = !self.peer_reads,
            b'F' => {
                if let Some(line) = self.input_open.then(|| self.framer.finish()).flatten() {
                    self.watch.peer_sent(&line);
                }
                self.end.eof(self.now);
                self.input_open = false;
            }
            b'C' => {
                self.end.close(self.now);
                self.input_open = false;
            }
            b'X' => {
                self.end.lost();
                self.input_open = false;
            }
            _ => {}
        }
    }

    pub(super) fn request(&mut self, method: &'static str, params: &Value, limit: &[u8]) {
        let tag = self.watch.new_tag();
        let deadline = (!limit.is_empty()).then(|| self.now + seconds(limit));
        if let Ok(id) = self.end.request(&Call::new(method, params).expect("JSON"), deadline, tag) {
            self.watch.accepted(tag);
            self.asked.push_back((id, tag));
        }
    }

    /// Answers the request that was shown first; false if none is open.
    pub(super) fn reply(&mut self, reply: &Reply) {
        if let Some(token) = self.tokens.pop_front() {
            self.end.reply(self.now, token, reply);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.end.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
            self.end.handle_timeout(self.now);
            assert!(self.end.poll_timeout().is_none_or(|next| next > self.now), "a deadline is met once");
        }
    }

    /// What is to be written is, unless the peer does not read; the events are left to the application.
    pub(super) fn write(&mut self) {
        self.end.reap(self.now);
        if self.peer_reads {
            while let Some(output) = self.end.poll_output() {
                if let Output::Bytes(bytes) = output {
                    self.watch.written.extend_from_slice(&bytes);
                    self.end.wrote(bytes.len());
                }
            }
            self.watch.look();
            self.watch.ends_with_a_whole_frame();
        }
    }

    pub(super) fn next_event(&mut self) -> Option<E::Event> {
        let event = self.end.poll_event()?;
        assert_eq!(self.watch.closed, 0, "nothing comes after the end: {event:?}");
        Some(event)
    }

    pub(super) fn bounds(&self, chunk_bytes: usize) {
        Watch::bounds(self.end.load(), self.end.held(), self.end.backlog_bytes(), chunk_bytes);
    }

    /// The application has let go of everything.
    pub(super) fn nothing_is_owed(&self) {
        if self.watch.closed == 0 {
            assert_eq!(self.end.load().0, 0, "nothing is owed that nobody holds");
            assert!(self.watch.answers() >= self.watch.shown, "what was shown was answered");
        }
    }

    /// A long time passes.
    pub(super) fn outlast(&mut self) {
        self.pass(Duration::from_secs(100));
    }

    /// The carrier was lost, and that was seen.
    pub(super) fn finish(mut self) -> Watch {
        assert_eq!((self.end.load(), self.end.held()), ((0, 0, 0), (0, 0, 0)));
        self.watch.all_is_told(self.end.counters());
        self.watch
    }
}

/// An application at one end.
pub(super) trait App {
    type End: End<Tag = u32>;

    fn new(seed: u32) -> Self;
    fn side(&mut self) -> &mut Side<Self::End>;
    fn act(&mut self, what: u8, rest: &[u8]);
    fn settle(&mut self);
    fn let_go(&mut self);
    fn into_side(self) -> Side<Self::End>;
}

/// Plays a script to its end: everything is let go of, time passes, and the carrier is lost.
pub(super) fn play<A: App>(input: &[u8], seed: u32) -> Watch {
    let mut app = A::new(seed);
    for step in super::steps(input) {
        match step {
            super::Step::Bytes(bytes) => app.side().peer_sends(&bytes),
            super::Step::Act { what, rest } => app.act(what, rest),
        }
        app.settle();
    }
    app.side().peer_reads = true;
    app.settle();
    app.let_go();
    app.side().nothing_is_owed();
    app.side().outlast();
    app.settle();
    app.side().end.lost();
    app.settle();
    app.into_side().finish()
}

/// Plays a script twice, with other chunk sizes: it must come out the same.
pub(super) fn both_ways<A: App>(input: &[u8]) {
    let whole = play::<A>(input, 0);
    let pieces = play::<A>(input, input.len() as u32 | 1);
    assert_eq!(whole.written.escape_ascii().to_string(), pieces.written.escape_ascii().to_string());
    assert_eq!(whole.shown, pieces.shown);
}
