//! The client's end.

use std::collections::HashMap;

use pintle_acp::{ClientEnd, ClientEvent, OutId, Reply};
use serde_json::json;

use super::json_or;
use super::side::{App, Side, both_ways};

/// Whatever an agent sends, in whatever chunks, and whatever the client's application does: as for the agent's end, and the
/// updates of a prompt are numbered without a gap, all of them before its outcome.
pub fn acp_client(input: &[u8]) {
    both_ways::<ClientApp>(input);
}

struct ClientApp {
    side: Side<ClientEnd<u32>>,
    /// Updates that were raised for each prompt.
    raised: HashMap<OutId, u64>,
}

impl App for ClientApp {
    type End = ClientEnd<u32>;

    fn new(seed: u32) -> Self {
        Self { side: Side::new(seed), raised: HashMap::new() }
    }

    fn side(&mut self) -> &mut Side<Self::End> {
        &mut self.side
    }

    fn act(&mut self, what: u8, rest: &[u8]) {
        let session = String::from_utf8_lossy(rest).trim().to_owned();
        match what {
            b'i' => {
                let hello = json!({ "protocolVersion": 1, "clientCapabilities": { "terminal": true } });
                self.side.request("initialize", &hello, b"");
            }
            b'N' => self.side.request("session/new", &json!({ "cwd": "/", "mcpServers": [] }), b""),
            b'L' => {
                let load = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
                self.side.request("session/load", &load, b"");
            }
            b'P' => self.side.request("session/prompt", &json!({ "sessionId": session, "prompt": [] }), b""),
            b'K' => self.side.request("session/close", &json!({ "sessionId": session }), b""),
            b'q' => self.side.request("_app/ask", &json!({}), rest),
            b'x' => drop(self.side.end.cancel_turn(&session)),
            b'r' => self.side.reply(&Reply::ok(&json_or(rest, "{}")).expect("JSON")),
            _ => self.side.act(what, rest),
        }
    }

    fn settle(&mut self) {
        self.side.write();
        while let Some(event) = self.side.next_event() {
            match event {
                ClientEvent::Request { request, .. } => {
                    self.side.watch.shown += 1;
                    self.side.tokens.push_back(request.token);
                }
                ClientEvent::Update { delivery: Some(delivery), .. } => {
                    let raised = self.raised.entry(delivery.prompt).or_default();
                    assert_eq!(delivery.ordinal, *raised, "numbered where it was received, without a gap");
                    *raised += 1;
                }
                ClientEvent::Outcome { waiter, outcome, turn } => {
                    self.side.watch.outcome(waiter, &outcome);
                    let id = self.side.asked.iter().find(|(_, tag)| *tag == waiter).map(|(id, _)| *id);
                    let raised = id.and_then(|id| self.raised.remove(&id)).unwrap_or(0);
                    assert_eq!(turn.map_or(0, |(_, updates)| updates), raised, "all of them before the outcome");
                }
                ClientEvent::Closed(_) => self.side.watch.closed += 1,
                _ => {}
            }
        }
        self.side.bounds(4096);
    }

    fn let_go(&mut self) {
        self.side.tokens.clear();
        self.settle();
    }

    fn into_side(self) -> Side<Self::End> {
        self.side
    }
}
