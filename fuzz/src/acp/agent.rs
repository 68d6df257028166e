//! The agent's end.

use std::collections::VecDeque;

use pintle_acp::{AgentEnd, AgentEvent, Call, Reply, RequestKey, TurnKey, TurnToken};
use serde_json::json;

use super::json_or;
use super::side::{App, Side, both_ways};

/// Whatever a client sends, in whatever chunks, and whatever the agent's application does: the end does not panic, writes
/// only whole frames, answers no request twice and forgets none, ends each of its own once, and holds no more than it may.
pub fn acp_agent(input: &[u8]) {
    both_ways::<AgentApp>(input);
}

struct AgentApp {
    side: Side<AgentEnd<u32>>,
    turns: VecDeque<TurnToken>,
    members: VecDeque<TurnKey>,
    /// A handler of `session/new` that may still send updates.
    creating: Option<RequestKey>,
}

impl App for AgentApp {
    type End = AgentEnd<u32>;

    fn new(seed: u32) -> Self {
        Self { side: Side::new(seed), turns: VecDeque::new(), members: VecDeque::new(), creating: None }
    }

    fn side(&mut self) -> &mut Side<Self::End> {
        &mut self.side
    }

    fn act(&mut self, what: u8, rest: &[u8]) {
        let Side { end, now, watch, asked, .. } = &mut self.side;
        match what {
            b'r' => {
                self.creating = None;
                self.side.reply(&Reply::ok(&json_or(rest, r#"{"protocolVersion":1}"#)).expect("JSON"));
            }
            b'E' => {
                if let Some(turn) = self.turns.pop_front() {
                    let reply = Reply::ok(&json_or(rest, r#"{"stopReason":"end_turn"}"#)).expect("JSON");
                    end.end_turn(*now, turn, reply);
                }
            }
            b'D' => drop(self.turns.pop_front()),
            b'u' => {
                if let Some(turn) = self.turns.front() {
                    let _ = end.turn_update(turn.turn(), &update());
                }
            }
            b's' => {
                let session = String::from_utf8_lossy(rest);
                let _ = end.session_update(self.creating, session.trim(), &update());
            }
            b'j' => {
                if let Some(turn) = self.turns.front().map(TurnToken::turn)
                    && end.join_turn(turn).is_ok()
                {
                    self.members.push_back(turn);
                }
            }
            b'l' => {
                if let Some(turn) = self.members.pop_front() {
                    end.leave_turn(*now, turn);
                }
            }
            b'q' => self.side.request("_app/ask", &json!({}), rest),
            b'a' => {
                let tag = watch.new_tag();
                let ask = Call::new("session/request_permission", &json!({})).expect("JSON");
                if let Some(turn) = self.turns.front().map(TurnToken::turn)
                    && let Ok(id) = end.ask(turn, &ask, None, tag)
                {
                    watch.accepted(tag);
                    asked.push_back((id, tag));
                }
            }
            _ => {
                if what == b'e' {
                    self.creating = None;
                }
                self.side.act(what, rest);
            }
        }
    }

    fn settle(&mut self) {
        self.side.write();
        while let Some(event) = self.side.next_event() {
            let watch = &mut self.side.watch;
            match event {
                AgentEvent::Request { request, .. } => {
                    watch.shown += 1;
                    if request.method == "session/new" {
                        self.creating = Some(request.token.key());
                    }
                    self.side.tokens.push_back(request.token);
                }
                AgentEvent::Prompt { token, .. } => {
                    watch.shown += 1;
                    self.turns.push_back(token);
                }
                AgentEvent::Outcome { waiter, outcome } => watch.outcome(waiter, &outcome),
                AgentEvent::Closed(_) => watch.closed += 1,
                _ => {}
            }
        }
        self.side.bounds(4096);
    }

    fn let_go(&mut self) {
        // What is let go of may bring up what waited behind it.
        while !(self.side.tokens.is_empty() && self.turns.is_empty() && self.members.is_empty()) {
            self.side.tokens.clear();
            self.turns.clear();
            for turn in std::mem::take(&mut self.members) {
                self.side.end.leave_turn(self.side.now, turn);
            }
            self.settle();
        }
    }

    fn into_side(self) -> Side<Self::End> {
        self.side
    }
}

fn update() -> Call {
    Call::new("session/update", &json!({ "sessionId": "s", "update": { "sessionUpdate": "plan", "entries": [] } }))
        .expect("JSON")
}
