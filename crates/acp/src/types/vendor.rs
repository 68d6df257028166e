//! Pintle's own methods: durable sessions over a journal, and steering a running turn.
//!
//! The wire names are `_pintle/session.*`; the older `_raxol/session.*` spellings are answered alike.

use serde::{Deserializer, Serializer};

use super::declare::{object, serde_by_shape, words};
use super::ids::SessionId;
use super::raw::Raw;
use super::shape::{Read, Shape, Token};

object! {
    /// Gives a running turn more text. Decided by comparing the expected turn with the one that runs.
    pub struct SteerRequest, "a steer request", new(session_id: SessionId, expected_turn_id: TurnId) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The turn that the sender has in mind.
        req expected_turn_id: TurnId = "expectedTurnId",
        /// The text.
        opt_strict text: String = "text",
        /// An id of the sender's for this message; the same id twice is one message.
        opt_strict client_msg_id: String = "clientMsgId",
    }
}

object! {
    /// What became of the text. Every outcome is a successful result.
    pub struct SteerResponse, "a steer response", new(outcome: SteerOutcome) {
        /// What became of it.
        req outcome: SteerOutcome = "outcome",
        /// The turn that took it.
        opt turn_id: TurnId = "turnId",
        /// With `stale`: the turn that was expected.
        opt expected: TurnId = "expected",
        /// With `stale`: the turn that runs.
        opt actual: TurnId = "actual",
    }
}

words! {
    /// What became of a steer.
    pub enum SteerOutcome, "a steer outcome" {
        /// The running turn has it.
        Accepted = "accepted",
        /// The running turn had it before.
        Duplicate = "duplicate",
        /// Another turn runs than was expected.
        Stale = "stale",
        /// No turn runs.
        NoLiveTurn = "no_live_turn",
        /// The id was used before for another text.
        ClientMsgIdReuse = "client_msg_id_reuse",
        /// The session cannot be steered.
        NoSteerChannel = "no_steer_channel",
    }
}

/// The number of a turn within its session, or whatever else an agent calls its turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TurnId {
    /// The turn's ordinal, from 1.
    Ordinal(u64),
    /// Another name.
    Name(String),
}

impl From<u64> for TurnId {
    fn from(ordinal: u64) -> Self {
        Self::Ordinal(ordinal)
    }
}

serde_by_shape!(TurnId);

impl Shape for TurnId {
    const EXPECTED: &'static str = "a turn ordinal or a name";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(match Token::read(deserializer)? {
            Token::Int(v) if v >= 0 => Ok(Self::Ordinal(v.unsigned_abs())),
            Token::Uint(v) => Ok(Self::Ordinal(v)),
            Token::Str(v) => Ok(Self::Name(v.into_owned())),
            other => other.refuse(Self::EXPECTED),
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Ordinal(v) => serializer.serialize_u64(*v),
            Self::Name(v) => serializer.serialize_str(v),
        }
    }
}

object! {
    /// A record of a session's journal that is not an update.
    pub struct SessionRecordNotification, "a session record",
        new(session_id: SessionId, offset: u64, kind: String, payload: Raw) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The record's place in the journal, from 1.
        req offset: u64 = "offset",
        /// What kind of record it is; an open set.
        req kind: String = "kind",
        /// What it says.
        req payload: Raw = "payload",
        /// From where its content comes.
        opt taint: String = "taint",
        /// When it was written, milliseconds since the epoch.
        opt ts: i64 = "ts",
    }
}

object! {
    /// The history is sent; what follows is live.
    pub struct CaughtUpNotification, "a caught-up notification", new(session_id: SessionId, offset: u64) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The first offset that is live.
        req offset: u64 = "offset",
    }
}

object! {
    /// The receiver was too slow and is detached; it may load again from the next offset.
    pub struct LaggedNotification, "a lagged notification", new(session_id: SessionId, last_offset: u64) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The last offset that was sent.
        req last_offset: u64 = "lastOffset",
    }
}

object! {
    /// The receiver is detached.
    pub struct ClosedNotification, "a closed notification", new(session_id: SessionId, reason: String) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// Why.
        req reason: String = "reason",
    }
}

object! {
    /// The sender wants no more of the session.
    pub struct DetachNotification, "a detach notification", new(session_id: SessionId) {
        /// The session.
        req session_id: SessionId = "sessionId",
    }
}
