//! The whole transition table of spec section 5, cell by cell.

use crate::common::{NOW, clean, current, dirty, generation, legacy, session, task};
use pintle_pointer::{
    Answer, Code, Event, Expectation, ExpectedGeneration, Fresh, Observed, Pointer, PublishRequest, REVISION_MAX,
    Refusal, Start, StateFault, Status, decide,
};

const SEED: u8 = 0x55;

/// What a cell of the table says.
#[derive(Debug, PartialEq)]
enum Cell {
    /// No write, this answer.
    Keep(Answer),
    /// A write: status, whether the generation is new, revision; and the answer.
    Write(Status, bool, u64, Answer),
}

fn run(observed: &Observed, event: Event<'_>) -> Cell {
    let fresh = Fresh { now_unix_seconds: NOW + 1, random: [SEED; 16] };
    let decision = decide(&session(), observed, event, fresh);
    let Some(write) = decision.write else { return Cell::Keep(decision.answer) };
    let state = write.state;
    assert_eq!(state.session_id, session());
    assert_eq!(write.quarantine, matches!(observed, Observed::Corrupt(_)), "only a corrupt file is set aside");
    let kept = matches!(observed, Observed::Current(old) if old.generation == state.generation);
    assert!(kept || state.generation == generation(SEED), "a new generation comes from the random bits");
    if let (Event::Prompt, Some(before), Some(after)) = (event, observed.task(), state.pointer.task()) {
        assert_eq!(before, after, "a prompt keeps task_id and text byte for byte");
    }
    assert_eq!(state.updated_at.unix(), NOW + 1);
    Cell::Write(state.pointer.status(), !kept, state.revision.get(), decision.answer)
}

fn fault() -> StateFault {
    StateFault { code: Code::StateJson, place: None }
}

fn rows() -> Vec<(&'static str, Observed, u64)> {
    vec![
        ("ABSENT", Observed::Absent, 0),
        ("LEGACY live", legacy(clean("x"), 4), 4),
        ("LEGACY dirty", legacy(dirty("x"), 4), 4),
        ("LEGACY cleared", legacy(Pointer::Cleared, 4), 4),
        ("CLEARED", current(Pointer::Cleared, 1, 4), 4),
        ("CLEAN", current(clean("x"), 1, 4), 4),
        ("DIRTY", current(dirty("x"), 1, 4), 4),
        ("CORRUPT", Observed::Corrupt(fault()), 0),
    ]
}

#[test]
fn prompt_column() {
    for (name, observed, revision) in rows() {
        let expected = match name {
            "ABSENT" => Cell::Write(Status::Cleared, true, 1, Answer::Context),
            "LEGACY live" | "LEGACY dirty" => Cell::Write(Status::Dirty, true, revision + 1, Answer::Context),
            "LEGACY cleared" => Cell::Write(Status::Cleared, true, revision + 1, Answer::Context),
            "CLEARED" => Cell::Write(Status::Cleared, false, revision + 1, Answer::Context),
            "CLEAN" | "DIRTY" => Cell::Write(Status::Dirty, false, revision + 1, Answer::Context),
            _ => Cell::Keep(Answer::Block(Refusal::Corrupt(fault()))),
        };
        assert_eq!(run(&observed, Event::Prompt), expected, "{name}");
    }
}

/// PreCompact and subagents: nothing, whatever is stored (items 21, 25).
#[test]
fn silent_columns() {
    for (name, observed, _) in rows() {
        for event in [Event::PreCompact, Event::Subagent] {
            assert_eq!(run(&observed, event), Cell::Keep(Answer::Silent), "{name}");
        }
    }
}

#[test]
fn reading_columns() {
    for (name, observed, _) in rows() {
        let corrupt = name == "CORRUPT";
        let refusal = || Refusal::Corrupt(fault());
        for event in [Event::SessionStart(Start::Read), Event::MachinePrompt] {
            let expected = if corrupt { Answer::UnknownRecovery(refusal()) } else { Answer::Context };
            assert_eq!(run(&observed, event), Cell::Keep(expected), "{name}");
        }
        let expected = if corrupt { Answer::RecoveryRequired(refusal()) } else { Answer::Context };
        assert_eq!(run(&observed, Event::SessionStart(Start::Compact)), Cell::Keep(expected), "{name}");
    }
}

#[test]
fn clear_column() {
    for (name, observed, revision) in rows() {
        let expected = Cell::Write(Status::Cleared, true, revision + 1, Answer::Context);
        assert_eq!(run(&observed, Event::SessionStart(Start::Clear)), expected, "{name}");
    }
}

fn request(expected: Expectation, target: Pointer) -> PublishRequest {
    PublishRequest { session_id: session(), expected, target }
}

#[test]
fn publish_columns() {
    for (name, observed, revision) in rows() {
        for target in [clean("new"), dirty("new"), Pointer::Cleared] {
            let status = target.status();
            let Some(pair) = observed.expectation() else {
                let pair = Expectation { generation: ExpectedGeneration::Absent, revision: 0 };
                let cell = run(&observed, Event::Publish(&request(pair, target)));
                assert_eq!(cell, Cell::Keep(Answer::Refused(Refusal::Corrupt(fault()))), "{name}");
                continue;
            };
            let new = !matches!(observed, Observed::Current(_)) || status == Status::Cleared;
            let cell = run(&observed, Event::Publish(&request(pair.clone(), target.clone())));
            assert_eq!(cell, Cell::Write(status, new, revision + 1, Answer::Published), "{name} {status}");

            let stale = Expectation { revision: pair.revision + 1, ..pair.clone() };
            let cell = run(&observed, Event::Publish(&request(stale, target.clone())));
            assert_eq!(cell, Cell::Keep(Answer::Refused(Refusal::StaleRevision)), "{name}");

            // The generation is compared first: both differ, and the generation is named.
            let other = ExpectedGeneration::Current(generation(0x99));
            let stale = Expectation { generation: other, revision: pair.revision + 1 };
            let cell = run(&observed, Event::Publish(&request(stale, target)));
            assert_eq!(cell, Cell::Keep(Answer::Refused(Refusal::StaleGeneration)), "{name}");
        }
    }
}

/// A repair touches only what cannot be read.
#[test]
fn repair_column() {
    for (name, observed, _) in rows() {
        let expected = if name == "CORRUPT" {
            Cell::Write(Status::Cleared, true, 1, Answer::Context)
        } else {
            Cell::Keep(Answer::Refused(Refusal::NothingToRepair))
        };
        assert_eq!(run(&observed, Event::Repair), expected, "{name}");
    }
}

/// Item 15: at the maximum only a clear goes on, under a new generation, from 1.
#[test]
fn revision_overflow() {
    for observed in [current(clean("x"), 1, REVISION_MAX), legacy(clean("x"), REVISION_MAX)] {
        let pair = observed.expectation().expect("readable");
        assert_eq!(run(&observed, Event::Prompt), Cell::Keep(Answer::Block(Refusal::RevisionOverflow)));
        assert_eq!(
            run(&observed, Event::Publish(&request(pair.clone(), clean("y")))),
            Cell::Keep(Answer::Refused(Refusal::RevisionOverflow))
        );
        assert_eq!(
            run(&observed, Event::Publish(&request(pair, Pointer::Cleared))),
            Cell::Write(Status::Cleared, true, 1, Answer::Published)
        );
        assert_eq!(
            run(&observed, Event::SessionStart(Start::Clear)),
            Cell::Write(Status::Cleared, true, 1, Answer::Context)
        );
    }
}

/// Item 14: a broken clock stops a publish, not a prompt, and time never goes back.
#[test]
fn broken_clock() {
    let observed = current(clean("x"), 1, 4);
    let pair = observed.expectation().expect("readable");
    for now in [i64::MIN, -1, i64::MAX] {
        let fresh = Fresh { now_unix_seconds: now, random: [SEED; 16] };
        let publish = request(pair.clone(), clean("y"));
        let decision = decide(&session(), &observed, Event::Publish(&publish), fresh);
        assert_eq!(decision.answer, Answer::Refused(Refusal::ClockInvalid));
        assert!(decide(&session(), &observed, Event::Prompt, fresh).write.is_some());
    }
    let fresh = Fresh { now_unix_seconds: 5, random: [SEED; 16] };
    let write = decide(&session(), &observed, Event::Prompt, fresh).write.expect("write");
    assert_eq!(write.state.updated_at.unix(), NOW);
    let _ = task("x");
}

/// The typical sequence that the published protocol ends with.
#[test]
fn typical_sequence() {
    let mut observed = Observed::Absent;
    let mut seed = 0_u8;
    let mut seen = Vec::new();
    let mut step = |event: &str| {
        seed += 1;
        let publish = observed.expectation().map(|pair| request(pair, clean("goal")));
        let event = match event {
            "prompt" => Event::Prompt,
            "clear" => Event::SessionStart(Start::Clear),
            _ => Event::Publish(publish.as_ref().expect("readable")),
        };
        let fresh = Fresh { now_unix_seconds: NOW, random: [seed; 16] };
        let state = decide(&session(), &observed, event, fresh).write.expect("write").state;
        seen.push((state.pointer.status(), state.generation.clone(), state.revision.get()));
        observed = Observed::Current(state);
    };
    for event in ["prompt", "publish", "prompt", "publish", "clear"] {
        step(event);
    }
    let (g1, g2) = (generation(1), generation(5));
    assert_eq!(
        seen,
        vec![
            (Status::Cleared, g1.clone(), 1),
            (Status::Clean, g1.clone(), 2),
            (Status::Dirty, g1.clone(), 3),
            (Status::Clean, g1, 4),
            (Status::Cleared, g2, 5),
        ]
    );
}
