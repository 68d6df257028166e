//! What is true of every connection, whatever happens on it.

use std::collections::HashMap;

use pintle_acp::{Counters, Outcome};
use pintle_wire::{Envelope, IdField, Kind, Line, Profile, ScanLimits, VersionRule, scan};

use super::config;

/// What one connection has said and been asked.
#[derive(Default)]
pub(super) struct Watch {
    /// Everything that was written.
    pub(super) written: Vec<u8>,
    /// Where the first frame that was not looked at begins.
    looked: usize,
    /// Requests that the peer sent and that could be accepted, by the text of their id.
    asked: HashMap<String, usize>,
    /// Answers that we sent, by the text of their id.
    answered: HashMap<String, usize>,
    /// Requests that the application was shown.
    pub(super) shown: usize,
    /// Requests of ours that were accepted, with how often each came back and whether it was given up.
    ours: HashMap<u32, (usize, bool)>,
    tags: u32,
    pub(super) closed: usize,
}

impl Watch {
    pub(super) fn new_tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    pub(super) fn accepted(&mut self, tag: u32) {
        self.ours.insert(tag, (0, false));
    }

    pub(super) fn given_up(&mut self, tag: u32) {
        let entry = self.ours.get_mut(&tag).expect("what is given up was accepted");
        assert!(entry.0 == 0 && !entry.1, "given up once, and not after it ended");
        entry.1 = true;
    }

    pub(super) fn outcome(&mut self, tag: u32, _: &Outcome) {
        assert_eq!(self.closed, 0, "nothing comes after the end");
        let entry = self.ours.get_mut(&tag).expect("only what was accepted comes back");
        entry.0 += 1;
        assert!(entry.0 == 1 && !entry.1, "exactly once, and never after it was given up");
    }

    /// Notes the requests among whole lines that the peer sent.
    pub(super) fn peer_sent(&mut self, line: &Line) {
        let Line::Complete(line) = line else { return };
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let Ok(text) = scan(line, Profile::Acp, ScanLimits::ACP) else { return };
        let Ok(envelope) = Envelope::parse(&text) else { return };
        if let (Some(id), true) = (envelope.id.raw(), envelope.id.is_legal()) {
            *self.asked.entry(id.get().to_owned()).or_default() += 1;
        }
    }

    /// Every line that was written is one message of ours; answers go to what was asked, and no oftener.
    pub(super) fn look(&mut self) {
        while let Some(end) = self.written[self.looked..].iter().position(|byte| *byte == b'\n') {
            let line = &self.written[self.looked..self.looked + end];
            self.looked += end + 1;
            assert!(!line.contains(&b'\r'), "one line, one frame");
            let text = scan(line, Profile::Acp, ScanLimits::ACP).expect("we write strict JSON");
            let envelope = Envelope::parse(&text).expect("we write objects");
            assert_eq!(envelope.unknown_members, 0);
            match envelope.kind(VersionRule::Required) {
                Kind::Request | Kind::Notification => {}
                Kind::Response => {
                    assert!(envelope.result.is_some() != envelope.error.is_some(), "a result or an error");
                    let id = envelope.id.raw().expect("an id").get().to_owned();
                    let answered = self.answered.entry(id.clone()).or_default();
                    *answered += 1;
                    let asked = self.asked.get(&id).copied().unwrap_or(0);
                    assert!(*answered <= asked, "{id} was asked {asked} times and answered {answered} times");
                }
                Kind::Malformed(_) => {
                    // With id null: to what had no id that could be read.
                    assert!(matches!(envelope.id, IdField::Null { .. }) && envelope.error.is_some());
                }
            }
        }
    }

    pub(super) fn ends_with_a_whole_frame(&self) {
        assert_eq!(self.looked, self.written.len(), "what is written ends with a whole frame");
    }

    /// What an end holds stays within its bounds: requests of the peer, requests of ours, sessions; frames and bytes kept, and
    /// bytes of a line in the making; bytes of calls, and of everything, that wait to be written.
    pub(super) fn bounds(
        load: (usize, usize, usize),
        held: (usize, usize, usize),
        backlog: (usize, usize),
        chunk_bytes: usize,
    ) {
        let config = config();
        assert!(load.0 <= config.max_inflight_requests && load.1 <= config.max_outbound_requests, "{load:?}");
        assert!(load.2 <= config.max_sessions, "{load:?}");
        let frames = config.max_held_frames.max(config.max_early_sessions * config.max_early_updates_per_session);
        assert!(held.0 <= frames, "{held:?}");
        // One frame may be larger than all of them together.
        assert!(held.1 <= config.max_early_bytes.max(config.max_line_bytes), "{held:?}");
        assert!(held.2 <= config.max_line_bytes + 1, "{held:?}");
        assert!(backlog.0 <= config.max_call_backlog_bytes + 3 * config.max_line_bytes, "{backlog:?}");
        // Answers that handlers owe come on top, as does what one chunk can provoke: under 100 bytes for every two.
        let owed = config.max_inflight_requests * config.max_line_bytes;
        assert!(backlog.1 <= backlog.0 + config.max_reply_backlog_bytes + owed + 60 * chunk_bytes, "{backlog:?}");
    }

    /// The end of the connection has been told, and nothing of ours is left open.
    pub(super) fn all_is_told(&mut self, counters: Counters) {
        self.look();
        assert_eq!(self.closed, 1, "the end is told once");
        for (tag, (ended, given_up)) in &self.ours {
            assert_eq!(*ended, usize::from(!given_up), "request {tag} of ours, given up: {given_up}");
        }
        assert!(counters.frames_in >= counters.parse_error + counters.invalid_frame + counters.malformed_response);
    }

    pub(super) fn answers(&self) -> usize {
        self.answered.iter().filter(|(id, _)| *id != "null").map(|(_, count)| count).sum()
    }
}
