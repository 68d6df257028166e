//! One of many processes that use a task pointer at the same time: `pointer-worker ROOT SESSION SEED COUNT`.
//!
//! It does COUNT operations by the throw of a die and prints a line for each that wrote: what it did, generation,
//! revision, status. Whatever it reads must be valid, or it fails.

#![expect(clippy::print_stdout, reason = "it is a program, and speaks to its test")]

use std::time::Duration;

use pintle_pointer::{Answer, Event, Observed, Pointer, PointerText, PublishRequest, SessionId, Start, Task, TaskId};
use pintle_store::{
    RealFs,
    pointer::{PointerStore, fresh},
};

/// Far beyond what anybody waits for: the test is about order, not about patience.
const WAIT: Duration = Duration::from_secs(120);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let session: SessionId = args[2].parse().expect("a session id");
    let seed: u64 = args[3].parse().expect("a number");
    let count: u32 = args[4].parse().expect("a number");
    let store = PointerStore::new(&RealFs, &args[1]);
    let mut dice = Dice(seed);
    let mut lines = String::new();
    for round in 0..count {
        let request = publish(&store, &session, &mut dice, &format!("process {seed}, round {round}"));
        let (name, event) = match (dice.below(10), &request) {
            (0..=3, _) => ("prompt", Event::Prompt),
            (4, _) => ("clear", Event::SessionStart(Start::Clear)),
            (5, _) => ("read", Event::SessionStart(Start::Read)),
            (_, request) => ("publish", Event::Publish(request)),
        };
        let mut locked = store.lock(&session, WAIT).expect("the lock comes");
        let before = locked.observed().clone();
        assert!(!matches!(before, Observed::Corrupt(_)), "always valid: {before:?}");
        let answer = locked.apply(event, fresh().expect("random bits")).expect("written");
        let Observed::Current(state) = locked.observed() else {
            assert_eq!(before, Observed::Absent);
            continue;
        };
        if *locked.observed() == before {
            assert!(matches!(answer, Answer::Context | Answer::Refused(_)), "{answer:?}");
            continue;
        }
        if answer == Answer::Published {
            assert_eq!(before.expectation(), Some(request.expected), "only the pair that is stored wins");
        }
        lines.push_str(&format!("{name} {} {} {}\n", state.generation, state.revision, state.pointer.status()));
    }
    print!("{lines}");
}

/// A request with the pair that is stored before the lock is taken, so that most of them lose.
fn publish(store: &PointerStore<'_>, session: &SessionId, dice: &mut Dice, text: &str) -> PublishRequest {
    let expected = store.observe(session).expect("readable").expectation().expect("valid at any time");
    let task = || Task { id: TaskId::from_random([1; 16]), text: PointerText::publish(text).expect("legal") };
    let target = match dice.below(8) {
        0 => Pointer::Cleared,
        1 => Pointer::Dirty(task()),
        _ => Pointer::Clean(task()),
    };
    PublishRequest { session_id: session.clone(), expected, target }
}

/// SplitMix64: all that is asked of it is that processes do different things.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
