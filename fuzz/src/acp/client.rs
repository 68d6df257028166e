//! The client's end.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use pintle_acp::{Call, ClientEnd, ClientEvent, Error, OutId, Output, Reply, ReplyToken};
use pintle_wire::Framer;
use serde_json::json;

use super::watch::Watch;
use super::{Chunks, Step, config, epoch, json_or, seconds, steps};

/// Whatever an agent sends, in whatever chunks, and whatever the client's application does: as for the agent's end, and the
/// updates of a prompt are numbered without a gap, all of them before its outcome.
pub fn acp_client(input: &[u8]) {
    let whole = play(input, 0);
    let pieces = play(input, input.len() as u32 | 1);
    assert_eq!(whole.written.escape_ascii().to_string(), pieces.written.escape_ascii().to_string());
    assert_eq!(whole.shown, pieces.shown);
}

fn play(input: &[u8], seed: u32) -> Watch {
    let mut app = App::new(seed);
    for step in steps(input) {
        match step {
            Step::Bytes(bytes) => app.peer_sends(&bytes),
            Step::Act { what, rest } => app.act(what, rest),
        }
        app.settle();
    }
    app.finish()
}

struct App {
    end: ClientEnd<u32>,
    now: Instant,
    chunks: Chunks,
    /// The same framing, to know what was asked.
    framer: Framer,
    watch: Watch,
    /// While the peer does not read, nothing is written.
    peer_reads: bool,
    input_open: bool,
    tokens: VecDeque<ReplyToken>,
    asked: VecDeque<(OutId, u32)>,
    /// Updates that were raised for each prompt.
    raised: HashMap<OutId, u64>,
}

impl App {
    fn new(seed: u32) -> Self {
        Self {
            end: ClientEnd::new(config()),
            now: epoch(),
            chunks: Chunks(seed),
            framer: Framer::new(config().max_line_bytes),
            watch: Watch::default(),
            peer_reads: true,
            input_open: true,
            tokens: VecDeque::new(),
            asked: VecDeque::new(),
            raised: HashMap::new(),
        }
    }

    fn peer_sends(&mut self, bytes: &[u8]) {
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
        Watch::bounds(self.end.load(), self.end.held(), self.end.backlog_bytes(), bytes.len());
    }

    fn act(&mut self, what: u8, rest: &[u8]) {
        let session = || String::from_utf8_lossy(rest).trim().to_owned();
        match what {
            b'i' => self.request(
                "initialize",
                json!({ "protocolVersion": 1, "clientCapabilities": { "terminal": true } }),
                b"",
            ),
            b'N' => self.request("session/new", json!({ "cwd": "/", "mcpServers": [] }), b""),
            b'L' => self.request("session/load", json!({ "sessionId": session(), "cwd": "/", "mcpServers": [] }), b""),
            b'P' => self.request("session/prompt", json!({ "sessionId": session(), "prompt": [] }), b""),
            b'K' => self.request("session/close", json!({ "sessionId": session() }), b""),
            b'q' => self.request("_app/ask", json!({}), rest),
            b'x' => drop(self.end.cancel_turn(&session())),
            b'r' => self.reply(&Reply::ok(&json_or(rest, "{}")).expect("JSON")),
            b'e' => self.reply(&Reply::error(&Error::internal_error())),
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
                self.end.close();
                self.input_open = false;
            }
            b'X' => {
                self.end.lost();
                self.input_open = false;
            }
            _ => {}
        }
    }

    fn request(&mut self, method: &'static str, params: serde_json::Value, limit: &[u8]) {
        let tag = self.watch.new_tag();
        let deadline = (!limit.is_empty()).then(|| self.now + seconds(limit));
        if let Ok(id) = self.end.request(&Call::new(method, &params).expect("JSON"), deadline, tag) {
            self.watch.accepted(tag);
            self.asked.push_back((id, tag));
        }
    }

    fn reply(&mut self, reply: &Reply) {
        if let Some(token) = self.tokens.pop_front() {
            self.end.reply(token, reply);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        if self.end.poll_timeout().is_some_and(|deadline| deadline <= self.now) {
            self.end.handle_timeout(self.now);
            assert!(self.end.poll_timeout().is_none_or(|next| next > self.now), "a deadline is met once");
        }
    }

    fn settle(&mut self) {
        self.end.reap();
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
        while let Some(event) = self.end.poll_event() {
            assert_eq!(self.watch.closed, 0, "nothing comes after the end: {event:?}");
            match event {
                ClientEvent::Request { request, .. } => {
                    self.watch.shown += 1;
                    self.tokens.push_back(request.token);
                }
                ClientEvent::Update { delivery: Some(delivery), .. } => {
                    let raised = self.raised.entry(delivery.prompt).or_default();
                    assert_eq!(delivery.ordinal, *raised, "numbered where it was received, without a gap");
                    *raised += 1;
                }
                ClientEvent::Outcome { waiter, outcome, turn } => {
                    self.watch.outcome(waiter, &outcome);
                    let id = self.asked.iter().find(|(_, tag)| *tag == waiter).map(|(id, _)| *id);
                    let raised = id.and_then(|id| self.raised.remove(&id)).unwrap_or(0);
                    assert_eq!(turn.map_or(0, |(_, updates)| updates), raised, "all of them before the outcome");
                }
                ClientEvent::Closed(_) => self.watch.closed += 1,
                _ => {}
            }
        }
        Watch::bounds(self.end.load(), self.end.held(), self.end.backlog_bytes(), 4096);
    }

    /// The application lets go of everything, time passes, and the carrier is lost.
    fn finish(mut self) -> Watch {
        self.peer_reads = true;
        self.settle();
        self.tokens.clear();
        self.settle();
        if self.watch.closed == 0 {
            assert_eq!(self.end.load().0, 0, "nothing is owed that nobody holds");
            assert!(self.watch.answers() >= self.watch.shown, "what was shown was answered");
        }
        self.pass(Duration::from_secs(100));
        self.settle();
        self.end.lost();
        self.settle();
        assert_eq!((self.end.load(), self.end.held()), ((0, 0, 0), (0, 0, 0)));
        self.watch.all_is_told(self.end.counters());
        self.watch
    }
}
