//! The agent's end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pintle_acp::{AgentEnd, AgentEvent, Call, Error, OutId, Output, Reply, ReplyToken, RequestKey, TurnKey, TurnToken};
use pintle_wire::Framer;
use serde_json::json;

use super::watch::Watch;
use super::{Chunks, Step, config, epoch, json_or, seconds, steps};

/// Whatever a client sends, in whatever chunks, and whatever the agent's application does: the end does not panic, writes
/// only whole frames, answers no request twice and forgets none, ends each of its own once, and holds no more than it may.
pub fn acp_agent(input: &[u8]) {
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
    end: AgentEnd<u32>,
    now: Instant,
    chunks: Chunks,
    /// The same framing, to know what was asked.
    framer: Framer,
    watch: Watch,
    /// While the peer does not read, nothing is written.
    peer_reads: bool,
    input_open: bool,
    tokens: VecDeque<ReplyToken>,
    turns: VecDeque<TurnToken>,
    members: VecDeque<TurnKey>,
    /// A handler of `session/new` that may still send updates.
    creating: Option<RequestKey>,
    asked: VecDeque<(OutId, u32)>,
}

impl App {
    fn new(seed: u32) -> Self {
        Self {
            end: AgentEnd::new(config()),
            now: epoch(),
            chunks: Chunks(seed),
            framer: Framer::new(config().max_line_bytes),
            watch: Watch::default(),
            peer_reads: true,
            input_open: true,
            tokens: VecDeque::new(),
            turns: VecDeque::new(),
            members: VecDeque::new(),
            creating: None,
            asked: VecDeque::new(),
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
        match what {
            b'r' => self.reply(&Reply::ok(&json_or(rest, r#"{"protocolVersion":1}"#)).expect("JSON")),
            b'e' => self.reply(&Reply::error(&Error::internal_error())),
            b'd' => drop(self.tokens.pop_front()),
            b'E' => {
                if let Some(turn) = self.turns.pop_front() {
                    let reply = Reply::ok(&json_or(rest, r#"{"stopReason":"end_turn"}"#)).expect("JSON");
                    self.end.end_turn(self.now, turn, reply);
                }
            }
            b'D' => drop(self.turns.pop_front()),
            b'u' => {
                if let Some(turn) = self.turns.front() {
                    let _ = self.end.turn_update(turn.turn(), &update());
                }
            }
            b's' => {
                let session = String::from_utf8_lossy(rest);
                let _ = self.end.session_update(self.creating, session.trim(), &update());
            }
            b'j' => {
                if let Some(turn) = self.turns.front().map(TurnToken::turn)
                    && self.end.join_turn(turn).is_ok()
                {
                    self.members.push_back(turn);
                }
            }
            b'l' => {
                if let Some(turn) = self.members.pop_front() {
                    self.end.leave_turn(self.now, turn);
                }
            }
            b'q' => {
                let tag = self.watch.new_tag();
                let deadline = (!rest.is_empty()).then(|| self.now + seconds(rest));
                if let Ok(id) = self.end.request(&Call::new("_app/ask", &json!({})).expect("JSON"), deadline, tag) {
                    self.watch.accepted(tag);
                    self.asked.push_back((id, tag));
                }
            }
            b'a' => {
                let tag = self.watch.new_tag();
                let ask = Call::new("session/request_permission", &json!({})).expect("JSON");
                if let Some(turn) = self.turns.front().map(TurnToken::turn)
                    && let Ok(id) = self.end.ask(turn, &ask, None, tag)
                {
                    self.watch.accepted(tag);
                    self.asked.push_back((id, tag));
                }
            }
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

    fn reply(&mut self, reply: &Reply) {
        if let Some(token) = self.tokens.pop_front() {
            self.creating = None;
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

    fn settle(&mut self) {
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
        while let Some(event) = self.end.poll_event() {
            assert_eq!(self.watch.closed, 0, "nothing comes after the end: {event:?}");
            match event {
                AgentEvent::Request { request, .. } => {
                    self.watch.shown += 1;
                    if request.method == "session/new" {
                        self.creating = Some(request.token.key());
                    }
                    self.tokens.push_back(request.token);
                }
                AgentEvent::Prompt { token, .. } => {
                    self.watch.shown += 1;
                    self.turns.push_back(token);
                }
                AgentEvent::Outcome { waiter, outcome } => self.watch.outcome(waiter, &outcome),
                AgentEvent::Closed(_) => self.watch.closed += 1,
                _ => {}
            }
        }
        Watch::bounds(self.end.load(), self.end.held(), self.end.backlog_bytes(), 4096);
    }

    /// The application lets go of everything, time passes, and the carrier is lost.
    fn finish(mut self) -> Watch {
        self.peer_reads = true;
        self.settle();
        // What is let go of may bring up what waited behind it.
        while !(self.tokens.is_empty() && self.turns.is_empty() && self.members.is_empty()) {
            self.tokens.clear();
            self.turns.clear();
            for turn in std::mem::take(&mut self.members) {
                self.end.leave_turn(self.now, turn);
            }
            self.settle();
        }
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

fn update() -> Call {
    Call::new("session/update", &json!({ "sessionId": "s", "update": { "sessionUpdate": "plan", "entries": [] } }))
        .expect("JSON")
}
