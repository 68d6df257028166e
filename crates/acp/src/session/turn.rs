//! The turn of one session: which task may still speak, and when the prompt is answered.

use std::fmt;
use std::time::{Duration, Instant};

/// The position of a frame among all frames that one connection received, from 1.
///
/// It is given out where the frame is read, so that "before" and "after" mean the order on the wire, whatever
/// order tasks run in later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RxSeq(u64);

impl RxSeq {
    /// The number `n`.
    pub fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number as an integer.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RxSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rx {}", self.0)
    }
}

/// How a turn ended, for the one answer to its prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending<O> {
    /// The root task returned this value.
    Finished(O),
    /// The turn was cancelled, whatever its tasks returned.
    Cancelled,
    /// The root task panicked, or went away without a value.
    Crashed,
}

/// What [`TurnMachine::begin`] decided about a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin<R> {
    /// Run the root task of the turn with this ordinal.
    Run(u64),
    /// A cancel that stands behind this prompt on the wire was handled first: answer `cancelled`, run nothing.
    BornCancelled(R),
    /// Another turn is running or winding down: answer -32600 and leave that turn alone.
    Busy(R),
}

/// What the owner of a [`TurnMachine`] has to do after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<R, A, O> {
    /// Tell every task of the turn, not only its root, to wind down (G-10).
    Cooperate {
        /// Ordinal of the turn.
        turn: u64,
    },
    /// Answer this open permission ask with "cancelled" and tell the client that nobody waits for it.
    AbortAsk {
        /// The ask.
        ask: A,
    },
    /// Stop what is left of the turn's tasks.
    Kill {
        /// Ordinal of the turn.
        turn: u64,
    },
    /// Answer the prompt. Comes exactly once per turn that ran.
    Reply {
        /// The obligation that [`TurnMachine::begin`] took over.
        reply: R,
        /// Ordinal of the turn.
        turn: u64,
        /// How it ended.
        ending: Ending<O>,
        /// Updates that were posted during the turn; zero on a finished turn is worth a word in a log.
        updates: u64,
    },
}

/// The turn is over, or winding down where only a running turn may do this. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the turn is over")]
pub struct TurnOver;

/// The turn machine of one session (acp-runtime chapter 11).
///
/// `R` is the obligation to answer the prompt, `A` names a permission ask, `O` is what a root task returns.
/// The machine holds no task and no clock: its owner reports ends of tasks, passes the time in, and carries out
/// the [`Effect`]s.
#[derive(Debug)]
pub struct TurnMachine<R, A, O> {
    state: State<R, A, O>,
    /// The newest `session/cancel` seen. Only prompts that stand before it on the wire are cancelled by it.
    latch: RxSeq,
    ordinal: u64,
    backstop: Duration,
}

#[derive(Debug)]
enum State<R, A, O> {
    Idle,
    Prompting(Turn<R, A, O>),
    Cancelling(Turn<R, A, O>, Instant),
}

#[derive(Debug)]
struct Turn<R, A, O> {
    reply: R,
    ending: Option<Ending<O>>,
    says_cancelled: bool,
    root_running: bool,
    members: usize,
    asks: Vec<A>,
    updates: u64,
}

impl<R, A: PartialEq, O> TurnMachine<R, A, O> {
    /// An idle session whose cancelled turns get `backstop` to wind down before they are stopped.
    pub fn new(backstop: Duration) -> Self {
        Self { state: State::Idle, latch: RxSeq::default(), ordinal: 0, backstop }
    }

    /// True while no turn runs or winds down.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Ordinal of the turn that runs or winds down. Counts from 1; busy and born-cancelled prompts take none.
    pub fn current(&self) -> Option<u64> {
        (!self.is_idle()).then_some(self.ordinal)
    }

    /// A prompt arrived with receive number `rx`; `reply` is the obligation to answer it.
    pub fn begin(&mut self, rx: RxSeq, reply: R) -> Begin<R> {
        if !self.is_idle() {
            return Begin::Busy(reply);
        }
        if rx < self.latch {
            return Begin::BornCancelled(reply);
        }
        self.ordinal += 1;
        self.state = State::Prompting(Turn {
            reply,
            ending: None,
            says_cancelled: false,
            root_running: true,
            members: 0,
            asks: Vec::new(),
            updates: 0,
        });
        Begin::Run(self.ordinal)
    }

    /// A cancel arrived with receive number `rx`. On an idle session it is only remembered; a second one adds nothing.
    pub fn cancel(&mut self, now: Instant, rx: RxSeq) -> Vec<Effect<R, A, O>> {
        self.latch = self.latch.max(rx);
        let mut turn = match std::mem::replace(&mut self.state, State::Idle) {
            State::Prompting(turn) => turn,
            other => {
                self.state = other;
                return Vec::new();
            }
        };
        let mut effects: Vec<_> = turn.asks.drain(..).map(|ask| Effect::AbortAsk { ask }).collect();
        // A root that already said "cancelled" keeps what its answer carries; anything else loses to the cancel (I5).
        if !turn.says_cancelled {
            turn.ending = Some(Ending::Cancelled);
        }
        effects.push(Effect::Cooperate { turn: self.ordinal });
        self.state = State::Cancelling(turn, now + self.backstop);
        effects
    }

    /// Counts one update of turn `turn`, or says that it comes too late.
    pub fn post(&mut self, turn: u64) -> Result<(), TurnOver> {
        let current = self.turn_mut(turn)?;
        current.updates += 1;
        Ok(())
    }

    /// True while turn `turn` may still post updates.
    pub fn may_post(&self, turn: u64) -> bool {
        self.current() == Some(turn)
    }

    /// One more task joins turn `turn`; only while it is not winding down.
    pub fn join(&mut self, turn: u64) -> Result<(), TurnOver> {
        match &mut self.state {
            State::Prompting(current) if self.ordinal == turn => {
                current.members += 1;
                Ok(())
            }
            _ => Err(TurnOver),
        }
    }

    /// A task that had joined turn `turn` ended, well or by a panic: a subtask's crash does not fail the turn.
    pub fn member_ended(&mut self, turn: u64) -> Vec<Effect<R, A, O>> {
        if let Ok(current) = self.turn_mut(turn) {
            current.members = current.members.saturating_sub(1);
        }
        self.drained()
    }

    /// The root task of turn `turn` ended. The first ending stands, unless the turn is cancelled: then `value` counts
    /// only if `is_cancelled` says that it is itself a "cancelled" answer, whose extra members are kept (G-11).
    pub fn root_ended(&mut self, turn: u64, value: Option<O>, is_cancelled: bool) -> Vec<Effect<R, A, O>> {
        let cancelling = matches!(self.state, State::Cancelling(..));
        if let Ok(current) = self.turn_mut(turn)
            && current.root_running
        {
            current.root_running = false;
            current.says_cancelled = is_cancelled;
            match value {
                Some(value) if !cancelling || is_cancelled => current.ending = Some(Ending::Finished(value)),
                None if !cancelling => current.ending = Some(Ending::Crashed),
                _ => {}
            }
        }
        self.drained()
    }

    /// True while turn `turn` may ask for permission.
    pub fn may_ask(&self, turn: u64) -> bool {
        matches!(self.state, State::Prompting(_)) && self.ordinal == turn
    }

    /// Registers a permission ask of turn `turn`; only while the turn runs.
    pub fn ask(&mut self, turn: u64, ask: A) -> Result<(), TurnOver> {
        match &mut self.state {
            State::Prompting(current) if self.ordinal == turn => {
                current.asks.push(ask);
                Ok(())
            }
            _ => Err(TurnOver),
        }
    }

    /// A permission ask was answered, timed out or given up by its asker.
    pub fn ask_done(&mut self, ask: &A) {
        if let State::Prompting(turn) | State::Cancelling(turn, _) = &mut self.state {
            turn.asks.retain(|open| open != ask);
        }
    }

    /// When [`TurnMachine::handle_timeout`] has work.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Cancelling(_, deadline) => Some(*deadline),
            _ => None,
        }
    }

    /// The backstop: a cancelled turn that has not wound down in time is stopped and answered `cancelled`. A task that
    /// cannot be stopped (it never yields) does not hold up the answer; what it reports later is ignored.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Effect<R, A, O>> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        if let State::Cancelling(turn, _) = &mut self.state {
            turn.root_running = false;
            turn.members = 0;
        }
        let mut effects = vec![Effect::Kill { turn: self.ordinal }];
        effects.extend(self.drained());
        effects
    }

    /// Gives the obligation back without an answer: the connection is gone.
    pub fn abandon(&mut self) -> Option<R> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => None,
            State::Prompting(turn) | State::Cancelling(turn, _) => Some(turn.reply),
        }
    }

    fn turn_mut(&mut self, turn: u64) -> Result<&mut Turn<R, A, O>, TurnOver> {
        match &mut self.state {
            State::Prompting(current) | State::Cancelling(current, _) if self.ordinal == turn => Ok(current),
            _ => Err(TurnOver),
        }
    }

    /// The answer, once every task is gone and an ending exists.
    fn drained(&mut self) -> Vec<Effect<R, A, O>> {
        let turn = match std::mem::replace(&mut self.state, State::Idle) {
            State::Prompting(turn) | State::Cancelling(turn, _) if turn.is_drained() => turn,
            other => {
                self.state = other;
                return Vec::new();
            }
        };
        let mut effects: Vec<_> = turn.asks.into_iter().map(|ask| Effect::AbortAsk { ask }).collect();
        effects.push(Effect::Reply {
            reply: turn.reply,
            turn: self.ordinal,
            ending: turn.ending.unwrap_or(Ending::Crashed),
            updates: turn.updates,
        });
        effects
    }
}

impl<R, A, O> Turn<R, A, O> {
    fn is_drained(&self) -> bool {
        !self.root_running && self.members == 0
    }
}
