//! The transition table of the protocol (spec section 5) as one total function.

use thiserror::Error;

use crate::Code;
use crate::ids::{Generation, Revision, SessionId};
use crate::request::PublishRequest;
use crate::state::{Observed, Pointer, State, StateFault};
use crate::time::Timestamp;

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The user sent a prompt.
    Prompt,
    /// A prompt that a machine made (a background task's notice, a loop's wake-up): context, but the fence stands.
    MachinePrompt,
    /// Anything inside a subagent: neither a write nor a context.
    Subagent,
    /// The host is about to compact. Fires up to once per turn, so nothing at all happens.
    PreCompact,
    /// The host starts, resumes, forks or compacted a session, or something that we do not know yet.
    SessionStart(Start),
    /// A publish request arrived.
    Publish(&'a PublishRequest),
    /// A person asked to repair what cannot be read.
    Repair,
}

/// The sources of a session start that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// `startup`, `resume`, `fork`, `new` and every source unknown today: reads only.
    Read,
    /// `compact`: reads only, but the model has forgotten what it was told.
    Compact,
    /// `clear`: the user wants to forget.
    Clear,
}

/// What the outside contributes to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// The clock, in seconds since 1970.
    pub now_unix_seconds: i64,
    /// 128 random bits that were never used before, for a new generation.
    pub random: [u8; 16],
}

/// What to do and what to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The state to write before answering.
    pub write: Option<Write>,
    /// The answer once the write is durable.
    pub answer: Answer,
}

/// A write, under the session's lock and by atomic replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The new state.
    pub state: State,
    /// Move the unreadable file aside first; it is never deleted.
    pub quarantine: bool,
}

/// What a decision answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Silent,
    /// The context block of what is stored after the write.
    Context,
    /// The receipt of the written state.
    Published,
    /// The receipt of a refusal; what is stored stands.
    Refused(Refusal),
    /// The prompt must not pass.
    Block(Refusal),
    /// The session goes on without knowing its task.
    UnknownRecovery(Refusal),
    /// The session should not go on: what it needs to recover is not there.
    RecoveryRequired(Refusal),
}

/// Why something did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The stored generation is another one. A clear, an upgrade or a repair overtook the publisher.
    #[error("the stored generation is not the expected one; read it again and decide anew")]
    StaleGeneration,
    /// The stored revision is another one. A prompt or another publish overtook the publisher.
    #[error("the stored revision is not the expected one; read it again and decide anew")]
    StaleRevision,
    /// The file cannot be trusted.
    #[error("{0}; `pintle task doctor --repair` sets it aside and starts afresh")]
    Corrupt(StateFault),
    /// No revision is left.
    #[error("the revision is at its maximum; only a clear can go on")]
    RevisionOverflow,
    /// The clock cannot be written down.
    #[error("the clock shows a year that the state cannot name")]
    ClockInvalid,
    /// There is nothing to repair.
    #[error("the state is valid; a repair would only forget it")]
    NothingToRepair,
}

impl Refusal {
    /// The code: for a corrupt file the cause, not [`Code::StateCorrupt`].
    pub const fn code(&self) -> Code {
        match self {
            Self::StaleGeneration => Code::StaleGeneration,
            Self::StaleRevision => Code::StaleRevision,
            Self::Corrupt(fault) => fault.code,
            Self::RevisionOverflow => Code::RevisionOverflow,
            Self::ClockInvalid => Code::ClockInvalid,
            Self::NothingToRepair => Code::RequestSchema,
        }
    }
}

/// Decides what an event does to what is stored. Total, and a function of its arguments alone.
///
/// What it guarantees, and what the tests prove of it: a publish changes something only if the pair it names is the
/// stored one; every successful write makes a pair (generation, revision) that this session never had, given that
/// `fresh.random` never repeats; a clear, an upgrade and a repair change the generation, a prompt and a publish of
/// CLEAN or DIRTY keep it.
pub fn decide(session: &SessionId, observed: &Observed, event: Event<'_>, fresh: Fresh) -> Decision {
    match event {
        Event::Subagent | Event::PreCompact => answer(Answer::Silent),
        Event::MachinePrompt | Event::SessionStart(Start::Read) => read(observed, Answer::UnknownRecovery),
        Event::SessionStart(Start::Compact) => read(observed, Answer::RecoveryRequired),
        Event::SessionStart(Start::Clear) => clear(session, observed, fresh, Answer::Context),
        Event::Prompt => prompt(session, observed, fresh),
        Event::Publish(request) => publish(observed, request, fresh),
        Event::Repair => match observed {
            Observed::Corrupt(_) => clear(session, observed, fresh, Answer::Context),
            _ => answer(Answer::Refused(Refusal::NothingToRepair)),
        },
    }
}

const fn answer(answer: Answer) -> Decision {
    Decision { write: None, answer }
}

fn read(observed: &Observed, on_corrupt: fn(Refusal) -> Answer) -> Decision {
    match observed {
        Observed::Corrupt(fault) => answer(on_corrupt(Refusal::Corrupt(fault.clone()))),
        Observed::Absent | Observed::Legacy(_) | Observed::Current(_) => answer(Answer::Context),
    }
}

/// Marks the task dirty, or makes the fence that a publish of this prompt has to name.
fn prompt(session: &SessionId, observed: &Observed, fresh: Fresh) -> Decision {
    let (generation, pointer) = match observed {
        Observed::Corrupt(fault) => return answer(Answer::Block(Refusal::Corrupt(fault.clone()))),
        Observed::Absent => (Generation::from_random(fresh.random), Pointer::Cleared),
        Observed::Legacy(state) => (Generation::from_random(fresh.random), state.pointer.dirtied()),
        Observed::Current(state) => (state.generation.clone(), state.pointer.dirtied()),
    };
    let Some(revision) = next_revision(observed) else {
        return answer(Answer::Block(Refusal::RevisionOverflow));
    };
    let updated_at = not_before(observed, Timestamp::clamped(fresh.now_unix_seconds));
    write(State { session_id: session.clone(), generation, revision, pointer, updated_at }, false, Answer::Context)
}

/// Forgets the task under a new generation. The only write that also works at the last revision and on a corrupt file:
/// both start again at 1, which repeats no pair because the generation is new (A5).
fn clear(session: &SessionId, observed: &Observed, fresh: Fresh, then: Answer) -> Decision {
    let state = State {
        session_id: session.clone(),
        generation: Generation::from_random(fresh.random),
        revision: next_revision(observed).unwrap_or(Revision::FIRST),
        pointer: Pointer::Cleared,
        updated_at: not_before(observed, Timestamp::clamped(fresh.now_unix_seconds)),
    };
    write(state, matches!(observed, Observed::Corrupt(_)), then)
}

fn publish(observed: &Observed, request: &PublishRequest, fresh: Fresh) -> Decision {
    let refuse = |refusal| answer(Answer::Refused(refusal));
    let stored = match (observed.expectation(), observed) {
        (Some(stored), _) => stored,
        (None, Observed::Corrupt(fault)) => return refuse(Refusal::Corrupt(fault.clone())),
        (None, _) => return refuse(Refusal::StaleGeneration),
    };
    if stored.generation != request.expected.generation {
        return refuse(Refusal::StaleGeneration);
    }
    if stored.revision != request.expected.revision {
        return refuse(Refusal::StaleRevision);
    }
    let Some(now) = Timestamp::from_unix(fresh.now_unix_seconds) else { return refuse(Refusal::ClockInvalid) };
    if request.target == Pointer::Cleared {
        return clear(&request.session_id, observed, fresh, Answer::Published);
    }
    let Some(revision) = next_revision(observed) else { return refuse(Refusal::RevisionOverflow) };
    let generation = match observed {
        Observed::Current(state) => state.generation.clone(),
        _ => Generation::from_random(fresh.random),
    };
    let state = State {
        session_id: request.session_id.clone(),
        generation,
        revision,
        pointer: request.target.clone(),
        updated_at: not_before(observed, now),
    };
    write(state, false, Answer::Published)
}

const fn write(state: State, quarantine: bool, answer: Answer) -> Decision {
    Decision { write: Some(Write { state, quarantine }), answer }
}

fn next_revision(observed: &Observed) -> Option<Revision> {
    match observed {
        Observed::Absent | Observed::Corrupt(_) => Some(Revision::FIRST),
        Observed::Legacy(state) => state.revision.next(),
        Observed::Current(state) => state.revision.next(),
    }
}

/// Item 14: `updated_at` never goes back within a session, though the clock may.
fn not_before(observed: &Observed, now: Timestamp) -> Timestamp {
    match observed {
        Observed::Legacy(state) => now.max(state.updated_at),
        Observed::Current(state) => now.max(state.updated_at),
        Observed::Absent | Observed::Corrupt(_) => now,
    }
}
