//! Sessions of an agent's connection and their turns.

mod registry;
mod turn;

pub use turn::{Begin, Effect, Ending, RxSeq, TurnMachine, TurnOver};

pub(crate) use registry::{Phase, SessionKey, Sessions, Waiting};

use std::fmt;

/// Names one turn of one connection. Never used again, not even when a session of the same id is opened later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnKey {
    session: SessionKey,
    ordinal: u64,
}

impl TurnKey {
    pub(crate) fn new(session: SessionKey, ordinal: u64) -> Self {
        Self { session, ordinal }
    }

    pub(crate) fn session(self) -> SessionKey {
        self.session
    }

    /// Position of the turn among the turns of its session, from 1.
    pub fn ordinal(self) -> u64 {
        self.ordinal
    }
}

impl fmt::Display for TurnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {}", self.ordinal)
    }
}
