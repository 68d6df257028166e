//! The sessions of one connection: by id for the peer, by key for tasks that may outlive them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{RxSeq, TurnMachine};
use crate::keys::KeyMap;

/// Names a session of one connection; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionKey(u64);

/// A session as the connection knows it.
#[derive(Debug)]
pub(crate) struct Session<R, A, O, P> {
    pub(crate) id: Arc<str>,
    pub(crate) phase: Phase,
    pub(crate) turns: TurnMachine<R, A, O>,
    /// Prompts that arrived behind the `session/load` that opens the session.
    pub(crate) waiting: VecDeque<Waiting<P>>,
    /// Ids of the modes that the session offers; none if it has no modes.
    pub(crate) modes: Option<Vec<Box<str>>>,
    idle_since: Instant,
    /// The deadline under which the session stands in [`Sessions::deadlines`].
    armed: Option<Instant>,
}

/// Whether prompts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// `session/load` or `session/resume` is being answered; how many of them.
    Opening(usize),
    /// Prompts run.
    Open,
    /// `session/close` is being answered; how many of them.
    Closing(usize),
    /// Closed, but its last turn has not wound down.
    Doomed,
}

/// A prompt that waits for its session.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) rx: RxSeq,
    pub(crate) prompt: P,
}

/// All sessions of one connection.
#[derive(Debug)]
pub(crate) struct Sessions<R, A, O, P> {
    by_id: HashMap<Arc<str>, SessionKey>,
    by_key: KeyMap<SessionKey, Session<R, A, O, P>>,
    deadlines: BTreeSet<(Instant, SessionKey)>,
    next: u64,
    backstop: Duration,
    idle_timeout: Option<Duration>,
}

impl<R, A: PartialEq, O, P> Sessions<R, A, O, P> {
    pub(crate) fn new(backstop: Duration, idle_timeout: Option<Duration>) -> Self {
        Self {
            by_id: HashMap::new(),
            by_key: KeyMap::default(),
            deadlines: BTreeSet::new(),
            next: 0,
            backstop,
            idle_timeout,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Opens a session, or says that there is one of this id.
    pub(crate) fn open(&mut self, now: Instant, id: &str, phase: Phase) -> Option<SessionKey> {
        if self.by_id.contains_key(id) {
            return None;
        }
        self.next += 1;
        let key = SessionKey(self.next);
        let id: Arc<str> = id.into();
        self.by_id.insert(id.clone(), key);
        self.by_key.insert(
            key,
            Session {
                id,
                phase,
                turns: TurnMachine::new(self.backstop),
                waiting: VecDeque::new(),
                modes: None,
                idle_since: now,
                armed: None,
            },
        );
        Some(key)
    }

    pub(crate) fn key(&self, id: &str) -> Option<SessionKey> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session<R, A, O, P>> {
        self.by_key.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session<R, A, O, P>> {
        self.by_key.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: SessionKey) -> Option<Session<R, A, O, P>> {
        let session = self.by_key.remove(&key)?;
        self.by_id.remove(&session.id);
        if let Some(deadline) = session.armed {
            self.deadlines.remove(&(deadline, key));
        }
        Some(session)
    }

    pub(crate) fn keys(&self) -> Vec<SessionKey> {
        let mut keys: Vec<_> = self.by_key.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// To be called after anything happened on a session: its idle time starts again and its deadline is noted.
    pub(crate) fn touched(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.by_key.get_mut(&key) else { return };
        session.idle_since = now;
        let deadline = session.turns.deadline().or_else(|| {
            let idle = session.turns.is_idle() && session.phase == Phase::Open;
            self.idle_timeout.filter(|_| idle).map(|timeout| now + timeout)
        });
        if deadline == session.armed {
            return;
        }
        if let Some(old) = std::mem::replace(&mut session.armed, deadline) {
            self.deadlines.remove(&(old, key));
        }
        if let Some(new) = deadline {
            self.deadlines.insert((new, key));
        }
    }

    /// The next backstop or idle deadline of any session.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The sessions whose backstop or idle deadline has come, in the order of the deadlines.
    pub(crate) fn due(&self, now: Instant) -> Vec<SessionKey> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, key)| *key).collect()
    }

    /// True if the session has been without a turn for too long.
    pub(crate) fn is_idle_too_long(&self, now: Instant, key: SessionKey) -> bool {
        self.by_key.get(&key).is_some_and(|session| {
            session.turns.is_idle() && self.idle_timeout.is_some_and(|timeout| session.idle_since + timeout <= now)
        })
    }
}
