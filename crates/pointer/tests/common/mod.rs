//! Builders that several tests share.
#![allow(dead_code, reason = "each test binary uses some of them")]

use pintle_pointer::{
    Generation, LegacyState, Observed, Pointer, PointerText, Revision, SessionId, State, Task, TaskId, Timestamp,
};

pub(crate) const NOW: i64 = 1_767_225_600;

pub(crate) fn session() -> SessionId {
    "session-example".parse().expect("legal id")
}

pub(crate) fn task(text: &str) -> Task {
    Task { id: TaskId::from_random([7; 16]), text: PointerText::publish(text).expect("legal text") }
}

pub(crate) fn clean(text: &str) -> Pointer {
    Pointer::Clean(task(text))
}

pub(crate) fn dirty(text: &str) -> Pointer {
    Pointer::Dirty(task(text))
}

pub(crate) fn generation(seed: u8) -> Generation {
    Generation::from_random([seed; 16])
}

pub(crate) fn current(pointer: Pointer, seed: u8, revision: u64) -> Observed {
    Observed::Current(State {
        session_id: session(),
        generation: generation(seed),
        revision: Revision::new(revision).expect("legal"),
        pointer,
        updated_at: Timestamp::clamped(NOW),
    })
}

pub(crate) fn legacy(pointer: Pointer, revision: u64) -> Observed {
    Observed::Legacy(LegacyState {
        session_id: session(),
        revision: Revision::new(revision).expect("legal"),
        pointer,
        updated_at: Timestamp::clamped(NOW),
    })
}
