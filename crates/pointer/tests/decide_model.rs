//! Property: under no interleaving of prompts, publishes, clears, repairs, crashes and upgrades does a stale publish
//! win, and no pair (generation, revision) ever comes back.

use crate::common;

use std::collections::HashSet;

use crate::common::{NOW, clean, dirty, legacy, session};
use pintle_pointer::{
    Answer, Code, Event, Expectation, Fresh, Observed, Pointer, PublishRequest, REVISION_MAX, Refusal, Start,
    StateFault, Status, decide,
};
use proptest::prelude::*;

const PUBLISHERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Prompt,
    MachinePrompt,
    Subagent,
    PreCompact,
    Start,
    Compact,
    Clear,
    /// A publisher reads what is stored.
    Look(usize),
    /// It publishes with what it read last.
    Publish(usize, Status),
    Repair,
    /// The disk damages the file.
    Damage,
}

/// How a process dies, if it does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    No,
    BeforeRename,
    /// The write stands, but nobody is told.
    AfterRename,
}

fn ops() -> impl Strategy<Value = Vec<(Op, Crash)>> {
    let status = prop_oneof![Just(Status::Clean), Just(Status::Dirty), Just(Status::Cleared)];
    let op = prop_oneof![
        4 => Just(Op::Prompt),
        1 => Just(Op::MachinePrompt),
        1 => Just(Op::Subagent),
        1 => Just(Op::PreCompact),
        1 => Just(Op::Start),
        1 => Just(Op::Compact),
        2 => Just(Op::Clear),
        5 => (0..PUBLISHERS).prop_map(Op::Look),
        8 => (0..PUBLISHERS, status).prop_map(|(publisher, status)| Op::Publish(publisher, status)),
        1 => Just(Op::Repair),
        1 => Just(Op::Damage),
    ];
    let crash = prop_oneof![6 => Just(Crash::No), 1 => Just(Crash::BeforeRename), 1 => Just(Crash::AfterRename)];
    prop::collection::vec((op, crash), 1..60)
}

fn beginnings() -> impl Strategy<Value = Observed> {
    prop_oneof![
        Just(Observed::Absent),
        Just(legacy(clean("old"), 3)),
        Just(legacy(Pointer::Cleared, 9)),
        Just(legacy(dirty("old"), REVISION_MAX)),
        Just(common::current(clean("old"), 200, REVISION_MAX - 2)),
    ]
}

/// The model: what is stored in terms of the table, and how often it was written.
struct Model {
    status: Option<Status>,
    legacy: bool,
    corrupt: bool,
    revision: u64,
    writes: u64,
}

impl Model {
    fn of(observed: &Observed) -> Self {
        Self {
            status: observed.pointer().map(Pointer::status),
            legacy: matches!(observed, Observed::Legacy(_)),
            corrupt: false,
            revision: observed.expectation().map_or(0, |pair| pair.revision),
            writes: 0,
        }
    }

    /// What a write must leave: status, revision, whether the generation changes. `None`: nothing may be written.
    fn predict(&self, op: Op, fresh_publisher: bool) -> Option<(Status, u64, bool)> {
        let next = self.revision + 1;
        let cleared = (Status::Cleared, if next > REVISION_MAX || self.corrupt { 1 } else { next }, true);
        let ordinary = |status| {
            (next <= REVISION_MAX && !self.corrupt).then_some((status, next, self.status.is_none() || self.legacy))
        };
        match op {
            Op::Prompt => ordinary(match self.status {
                None | Some(Status::Cleared) => Status::Cleared,
                Some(Status::Clean | Status::Dirty) => Status::Dirty,
            }),
            Op::Clear => Some(cleared),
            Op::Repair => self.corrupt.then_some(cleared),
            Op::Publish(..) if self.corrupt || !fresh_publisher => None,
            Op::Publish(_, Status::Cleared) => Some(cleared),
            Op::Publish(_, status) => ordinary(status),
            _ => None,
        }
    }
}

fn check(beginning: Observed, ops: Vec<(Op, Crash)>) -> Result<(), TestCaseError> {
    let session = session();
    let mut model = Model::of(&beginning);
    let mut stored = beginning;
    let mut pairs: HashSet<(String, u64)> = HashSet::new();
    if let Observed::Current(state) = &stored {
        pairs.insert((state.generation.as_str().to_owned(), state.revision.get()));
    }
    // What each publisher saw, and after how many writes.
    let mut seen: [Option<(Expectation, u64)>; PUBLISHERS] = [const { None }; PUBLISHERS];
    for (index, (op, crash)) in ops.into_iter().enumerate() {
        let mut random = [0_u8; 16];
        random[..8].copy_from_slice(&(index as u64 + 1).to_be_bytes());
        let fresh = Fresh { now_unix_seconds: NOW + index as i64, random };
        let mut request = None;
        let mut is_fresh = false;
        let event = match op {
            Op::Damage => {
                if stored != Observed::Absent {
                    stored = Observed::Corrupt(StateFault { code: Code::StateJson, place: None });
                    model = Model { status: None, legacy: false, corrupt: true, revision: 0, writes: model.writes + 1 };
                }
                continue;
            }
            Op::Look(publisher) => {
                seen[publisher] = stored.expectation().map(|pair| (pair, model.writes));
                continue;
            }
            Op::Publish(publisher, status) => {
                let Some((expected, writes)) = seen[publisher].clone() else { continue };
                is_fresh = writes == model.writes;
                let target = match status {
                    Status::Clean => clean("new"),
                    Status::Dirty => dirty("new"),
                    Status::Cleared => Pointer::Cleared,
                };
                Event::Publish(request.insert(PublishRequest { session_id: session.clone(), expected, target }))
            }
            Op::Prompt => Event::Prompt,
            Op::MachinePrompt => Event::MachinePrompt,
            Op::Subagent => Event::Subagent,
            Op::PreCompact => Event::PreCompact,
            Op::Start => Event::SessionStart(Start::Read),
            Op::Compact => Event::SessionStart(Start::Compact),
            Op::Clear => Event::SessionStart(Start::Clear),
            Op::Repair => Event::Repair,
        };
        let decision = decide(&session, &stored, event, fresh);
        let predicted = model.predict(op, is_fresh);
        let written = decision.write.as_ref().map(|write| {
            let kept = matches!(&stored, Observed::Current(old) if old.generation == write.state.generation);
            (write.state.pointer.status(), write.state.revision.get(), !kept)
        });
        prop_assert_eq!(written, predicted, "{:?} on {:?}", op, stored);
        if let Op::Publish(..) = op {
            let published = decision.answer == Answer::Published;
            prop_assert_eq!(published, decision.write.is_some());
            prop_assert!(!published || is_fresh, "a stale publish won");
            if !is_fresh && !model.corrupt {
                prop_assert!(matches!(
                    decision.answer,
                    Answer::Refused(Refusal::StaleGeneration | Refusal::StaleRevision)
                ));
            }
        }
        let Some(write) = decision.write.filter(|_| crash != Crash::BeforeRename) else { continue };
        let pair = (write.state.generation.as_str().to_owned(), write.state.revision.get());
        prop_assert!(pairs.insert(pair), "a pair came back");
        let bytes = write.state.to_bytes();
        stored = Observed::decode(&bytes, &session);
        prop_assert_eq!(&stored, &Observed::Current(write.state));
        let writes = model.writes + 1;
        model = Model { writes, ..Model::of(&stored) };
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_stale_publish_wins_and_no_pair_repeats(beginning in beginnings(), ops in ops()) {
        check(beginning, ops)?;
    }
}
