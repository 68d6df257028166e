//! What the sessions have shown so far: a requirement about something that never happened is not met, it is not exercised.

use std::collections::BTreeMap;

use pintle_sdk::driver::{CoreEvent, InstanceId, Message, Outcome, ProtocolError};

use super::catalog::id;

/// How often each thing happened that a watched requirement is about.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    frames: u64,
    responses: u64,
    errors: u64,
    observations: u64,
    /// Observations that came after another one of the same invocation.
    successors: u64,
    completed: u64,
    streams: u64,
    /// Capability tokens and input handles that the driver was given.
    pub(super) secrets: u64,
    /// Sessions that were followed to the end of the process.
    pub(super) ended: u64,
    /// The observations of each active invocation of this session.
    active: BTreeMap<InstanceId, u64>,
}

impl Heard {
    /// The driver has written a line.
    pub(super) fn frame(&mut self, message: &Result<Message, ProtocolError>) {
        self.frames += 1;
        if let Ok(Message::Response(response)) = message {
            self.responses += 1;
            self.errors += u64::from(matches!(response.outcome, Outcome::Error(_)));
        }
    }

    /// Core has made this of it.
    pub(super) fn event(&mut self, event: &CoreEvent) {
        match event {
            CoreEvent::Observation(params) => {
                let before = self.active.entry(params.invocation_id).or_default();
                self.successors += u64::from(*before > 0);
                *before += 1;
                self.observations += 1;
                self.streams += u64::from(params.data_stream.is_some());
            }
            CoreEvent::Completed(params) => {
                self.active.remove(&params.invocation_id);
                self.completed += 1;
            }
            _ => {}
        }
    }

    /// What one case has shown, added to the rest.
    pub(super) fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.responses += other.responses;
        self.errors += other.errors;
        self.observations += other.observations;
        self.successors += other.successors;
        self.completed += other.completed;
        self.streams += other.streams;
        self.secrets += other.secrets;
        self.ended += other.ended;
    }

    /// Whether a watched requirement had something to look at.
    pub(super) fn shows(&self, requirement: &str) -> bool {
        let of = match requirement {
            id::ONLY_FRAMES | id::CONTRACT | id::FRAME_SIZE | id::DIRECTION | id::FLOOD => self.frames,
            id::REQUESTED | id::RESPONSES | id::ANSWERS | id::STAYS => self.responses,
            id::DETAILS => self.errors,
            id::SECRETS => self.secrets.min(self.frames),
            id::DESCENDANTS => self.ended,
            id::OUTSIDE | id::LAST_SEQUENCE | id::SUMMARY => self.completed,
            id::IDENTITY => self.observations,
            id::SEQUENCE => self.successors,
            id::STREAMS => self.streams,
            _ => 0,
        };
        of > 0
    }
}
