//! The peer's requests that are not answered yet, and the values that carry the obligation to answer them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pintle_wire::{Id, PeerId};

use super::encode::Call;
use crate::keys::KeyMap;
use crate::session::{SessionKey, TurnKey};

/// Names an accepted request of the peer. Never used again, even if the peer uses its id again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(u64);

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// What the connection has to do when a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing but to send the answer.
    Plain,
    /// Came while `initialize` was being answered, and runs after it.
    Held,
    Initialize,
    NewSession,
    OpenSession(SessionKey),
    CloseSession(SessionKey),
    /// A prompt that waits for its session to be loaded.
    WaitingPrompt(SessionKey),
    Turn(TurnKey),
    /// On the client: a permission request, answered "cancelled" when the turn is cancelled.
    Permission,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: PeerId,
    pub(crate) role: Role,
    /// Of its params.
    bytes: usize,
    /// The peer has sent `$/cancel_request` for it.
    pub(crate) cancelled: bool,
    /// The session that it is about, where the connection needs to know.
    pub(crate) session: Option<Arc<str>>,
    /// Updates that must follow the answer.
    pub(crate) after_reply: Vec<Call>,
}

/// The table of the peer's unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The peer chooses ids: they are compared, never hashed.
    by_id: BTreeMap<Id, RequestKey>,
    by_key: KeyMap<RequestKey, Entry>,
    bytes: usize,
    last: u64,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Bytes of the params of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn key(&self, id: &Id) -> Option<RequestKey> {
        self.by_id.get(id).copied()
    }

    /// Accepts a request whose id is not in flight, with params of `bytes` bytes.
    pub(crate) fn insert(&mut self, id: PeerId, role: Role, bytes: usize) -> RequestKey {
        self.last += 1;
        let key = RequestKey(self.last);
        self.bytes += bytes;
        self.by_id.insert(id.id().clone(), key);
        self.by_key.insert(key, Entry { id, role, bytes, cancelled: false, session: None, after_reply: Vec::new() });
        key
    }

    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Entry> {
        self.by_key.get_mut(&key)
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&Entry> {
        self.by_key.get(&key)
    }

    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<Entry> {
        let entry = self.by_key.remove(&key)?;
        self.by_id.remove(entry.id.id());
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// The entries that `wanted` picks, oldest first.
    pub(crate) fn keys_where(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<RequestKey> {
        let mut keys: Vec<_> = self.by_key.iter().filter(|(_, entry)| wanted(entry)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
        self.by_key.clear();
        self.bytes = 0;
    }
}

/// The obligation to answer one request.
///
/// It moves with this value, to any task, and is discharged by giving it back to the connection it came from.
/// Dropping it answers -32603 (or -32800 if the peer had cancelled the request), so a request cannot be forgotten, and
/// a second answer cannot be written down (R-091, Inv-19).
#[must_use = "dropping a reply token answers the request with an internal error"]
pub struct ReplyToken(Obligation);

/// The obligation to end one turn; see [`ReplyToken`]. Dropping it is a crash of the turn's root task.
#[must_use = "dropping a turn token answers the prompt with an internal error"]
pub struct TurnToken {
    turn: TurnKey,
    obligation: Obligation,
}

impl ReplyToken {
    pub(crate) fn new(key: RequestKey, lost: &Arc<Lost>) -> Self {
        Self(Obligation { owed: Some(Owed::Reply(key)), lost: lost.clone() })
    }

    /// The request.
    pub fn key(&self) -> RequestKey {
        match self.0.owed {
            Some(Owed::Reply(key)) => key,
            _ => RequestKey(0),
        }
    }

    /// Whether it is an obligation of the connection with these lost ones: keys of two connections are alike.
    pub(crate) fn belongs_to(&self, lost: &Arc<Lost>) -> bool {
        Arc::ptr_eq(&self.0.lost, lost)
    }

    pub(crate) fn discharge(mut self) -> RequestKey {
        let key = self.key();
        self.0.owed = None;
        key
    }
}

impl TurnToken {
    pub(crate) fn new(turn: TurnKey, lost: &Arc<Lost>) -> Self {
        Self { turn, obligation: Obligation { owed: Some(Owed::Turn(turn)), lost: lost.clone() } }
    }

    /// The turn.
    pub fn turn(&self) -> TurnKey {
        self.turn
    }

    /// As for [`ReplyToken`].
    pub(crate) fn belongs_to(&self, lost: &Arc<Lost>) -> bool {
        Arc::ptr_eq(&self.obligation.lost, lost)
    }

    pub(crate) fn discharge(mut self) -> TurnKey {
        self.obligation.owed = None;
        self.turn
    }
}

impl fmt::Debug for ReplyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyToken({})", self.key())
    }
}

impl fmt::Debug for TurnToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TurnToken({})", self.turn)
    }
}

struct Obligation {
    owed: Option<Owed>,
    lost: Arc<Lost>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Owed {
    Reply(RequestKey),
    Turn(TurnKey),
}

impl Drop for Obligation {
    fn drop(&mut self) {
        if let Some(owed) = self.owed.take() {
            self.lost.push(owed);
        }
    }
}

/// Obligations whose values were dropped, until the connection next looks.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    any: AtomicBool,
    owed: Mutex<Vec<Owed>>,
}

impl Lost {
    fn push(&self, owed: Owed) {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner).push(owed);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Vec<Owed> {
        // Looked at first: nearly always there is none, and a swap costs more.
        if !self.any.load(Ordering::Acquire) || !self.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.owed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
