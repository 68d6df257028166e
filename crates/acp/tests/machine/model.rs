//! Random schedules against models: whatever order things happen in, nothing is answered twice, nothing is forgotten.

use std::collections::HashMap;
use std::time::Duration;

use pintle_acp::{Begin, Call, ClientEnd, ClientEvent, Config, Effect, Ending, OutId, Outcome, RxSeq, TurnMachine};
use proptest::prelude::*;
use serde_json::json;

use crate::pair::epoch;

const BACKSTOP: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
enum Step {
    Prompt { late: u64 },
    Cancel,
    Join,
    Leave,
    RootEnds { crash: bool, says_cancelled: bool },
    Post,
    Ask,
    AskAnswered,
    Pass(u64),
    Stale,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u64..4).prop_map(|late| Step::Prompt { late }),
        2 => Just(Step::Cancel),
        2 => Just(Step::Join),
        3 => Just(Step::Leave),
        4 => (any::<bool>(), any::<bool>()).prop_map(|(crash, says_cancelled)| Step::RootEnds { crash, says_cancelled }),
        2 => Just(Step::Post),
        2 => Just(Step::Ask),
        1 => Just(Step::AskAnswered),
        1 => (1u64..40).prop_map(Step::Pass),
        1 => Just(Step::Stale),
    ];
    prop::collection::vec(step, 0..80)
}

/// What the rules say, kept apart from how the machine does it.
#[derive(Default)]
struct Model {
    /// Prompts that owe an answer, with the ordinal of their turn.
    owed: Option<(u32, u64)>,
    cancelled_at: Option<u64>,
    root_runs: bool,
    members: u32,
    ending: Option<Ending<u32>>,
    says_cancelled: bool,
    asks: Vec<u32>,
    latch: u64,
    turns: u64,
}

proptest! {
    /// I3 to I7, I12, I13, I16, IC-5, under any schedule.
    #[test]
    fn a_turn_is_answered_once_under_any_schedule(steps in steps()) {
        let start = epoch();
        let mut seconds = 0;
        let mut turns: TurnMachine<u32, u32, u32> = TurnMachine::new(BACKSTOP);
        let mut model = Model::default();
        let mut rx = 10;
        let mut next = 0;
        let mut answered = Vec::new();
        let mut prompted = Vec::new();
        for step in steps {
            let now = start + Duration::from_secs(seconds);
            let mut effects = Vec::new();
            match step {
                Step::Prompt { late } => {
                    next += 1;
                    rx += 1;
                    let at = rx - late;
                    match turns.begin(RxSeq::new(at), next) {
                        Begin::Run(ordinal) => {
                            prop_assert!(model.owed.is_none(), "two turns at once");
                            prop_assert!(at >= model.latch, "a prompt before the cancel runs");
                            model.turns += 1;
                            prop_assert_eq!(ordinal, model.turns);
                            prompted.push(next);
                            model.owed = Some((next, ordinal));
                            model.root_runs = true;
                            model.members = 0;
                            model.ending = None;
                            model.says_cancelled = false;
                            model.cancelled_at = None;
                            model.asks.clear();
                        }
                        Begin::BornCancelled(reply) => {
                            prop_assert_eq!(reply, next);
                            prop_assert!(model.owed.is_none() && at < model.latch);
                        }
                        Begin::Busy(reply) => {
                            prop_assert_eq!(reply, next);
                            prop_assert!(model.owed.is_some());
                        }
                    }
                }
                Step::Cancel => {
                    rx += 1;
                    effects = turns.cancel(now, RxSeq::new(rx));
                    model.latch = rx;
                    if model.owed.is_some() && model.cancelled_at.is_none() {
                        model.cancelled_at = Some(seconds);
                        if !model.says_cancelled {
                            model.ending = Some(Ending::Cancelled);
                        }
                        let aborted = effects.iter().filter(|effect| matches!(effect, Effect::AbortAsk { .. })).count();
                        prop_assert_eq!(aborted, model.asks.len());
                        model.asks.clear();
                    } else {
                        prop_assert!(effects.is_empty(), "a cancel adds nothing to a cancel, or to nothing");
                    }
                }
                Step::Join => {
                    let joined = turns.join(model.turns).is_ok();
                    prop_assert_eq!(joined, model.owed.is_some() && model.cancelled_at.is_none());
                    model.members += u32::from(joined);
                }
                Step::Leave if model.members > 0 => {
                    model.members -= 1;
                    effects = turns.member_ended(model.turns);
                }
                Step::RootEnds { crash, says_cancelled } if model.root_runs => {
                    model.root_runs = false;
                    let value = (!crash).then_some(next);
                    let says_cancelled = says_cancelled && !crash;
                    if model.cancelled_at.is_none() || says_cancelled {
                        model.ending = Some(value.map_or(Ending::Crashed, Ending::Finished));
                    }
                    model.says_cancelled = says_cancelled;
                    effects = turns.root_ended(model.turns, value, says_cancelled);
                }
                Step::Post => {
                    prop_assert_eq!(turns.post(model.turns).is_ok(), model.owed.is_some());
                }
                Step::Ask => {
                    next += 1;
                    let asked = turns.ask(model.turns, next).is_ok();
                    prop_assert_eq!(asked, model.owed.is_some() && model.cancelled_at.is_none());
                    if asked {
                        model.asks.push(next);
                    }
                }
                Step::AskAnswered => {
                    if let Some(ask) = model.asks.pop() {
                        turns.ask_done(&ask);
                    }
                }
                Step::Pass(time) => {
                    seconds += time;
                    effects = turns.handle_timeout(start + Duration::from_secs(seconds));
                    let due = model.cancelled_at.is_some_and(|at| seconds >= at + BACKSTOP.as_secs());
                    if model.owed.is_some() && due {
                        let killed = matches!(effects.first(), Some(Effect::Kill { .. }));
                        prop_assert!(killed, "the backstop");
                        model.root_runs = false;
                        model.members = 0;
                    } else {
                        prop_assert!(effects.is_empty());
                    }
                }
                // Whatever a turn that is over still reports changes nothing.
                Step::Stale => {
                    let old = model.turns.wrapping_sub(1);
                    prop_assert!(turns.post(old).is_err() && turns.join(old).is_err() && turns.ask(old, 0).is_err());
                    prop_assert!(turns.root_ended(old, Some(0), false).is_empty());
                    prop_assert!(turns.member_ended(old).is_empty());
                }
                Step::Leave | Step::RootEnds { .. } => {}
            }
            for effect in effects {
                if let Effect::Reply { reply, turn, ending, .. } = effect {
                    prop_assert_eq!(model.owed.take(), Some((reply, turn)));
                    prop_assert!(!model.root_runs && model.members == 0, "answered while tasks run");
                    prop_assert_eq!(Some(ending), model.ending.take());
                    answered.push(reply);
                }
            }
            let done = model.owed.is_some() && !model.root_runs && model.members == 0;
            prop_assert!(!done, "every task is gone and there is no answer");
            prop_assert_eq!(turns.is_idle(), model.owed.is_none());
        }
        if let Some((reply, _)) = model.owed {
            prop_assert_eq!(turns.abandon(), Some(reply));
            answered.push(reply);
        }
        prop_assert_eq!(answered, prompted);
    }

    /// Inv-1, Inv-2: an accepted request ends exactly once, or not at all if its owner gave it up.
    #[test]
    fn a_request_ends_once_under_any_schedule(steps in prop::collection::vec((0u8..6, 0u8..8), 0..60)) {
        let mut end: ClientEnd<u32> = ClientEnd::new(Config::default());
        let mut now = epoch();
        let initialize = Call::new("initialize", &json!({ "protocolVersion": 1 })).expect("JSON");
        end.request(&initialize, None, 0).expect("the first");
        end.feed(now, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1}}\n");
        while end.poll_event().is_some() {}
        let mut open: Vec<(OutId, u32)> = Vec::new();
        let mut given_up = Vec::new();
        let mut sent = 0;
        let mut ended: HashMap<u32, usize> = HashMap::new();
        for (step, pick) in steps {
            let chosen = (!open.is_empty()).then(|| open[usize::from(pick) % open.len()]);
            match (step, chosen) {
                (0 | 1, _) => {
                    let call = Call::new("_agent/thing", &json!({})).expect("JSON");
                    let deadline = (step == 0).then(|| now + Duration::from_secs(u64::from(pick)));
                    sent += 1;
                    match end.request(&call, deadline, sent) {
                        Ok(id) => open.push((id, sent)),
                        Err(_) => sent -= 1,
                    }
                }
                (2, Some((id, _))) => {
                    // Answered, perhaps for the second time, perhaps after its owner gave it up.
                    end.feed(now, format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n", id.get()).as_bytes());
                }
                (3, Some((id, tag))) => {
                    if let Some(waiter) = end.cancel_request(id) {
                        prop_assert_eq!(waiter, tag);
                        given_up.push(tag);
                    }
                }
                (4, _) => {
                    now += Duration::from_secs(2);
                    end.handle_timeout(now);
                }
                (5, _) if pick == 0 => end.eof(now),
                _ => {}
            }
            while let Some(event) = end.poll_event() {
                if let ClientEvent::Outcome { waiter, .. } = event {
                    *ended.entry(waiter).or_default() += 1;
                }
            }
            let (_, left, _) = end.load();
            prop_assert_eq!(left, usize::try_from(sent).expect("few") - ended.len() - given_up.len());
        }
        end.lost();
        while let Some(event) = end.poll_event() {
            if let ClientEvent::Outcome { waiter, outcome, .. } = event {
                prop_assert_eq!(outcome, Outcome::Closed);
                *ended.entry(waiter).or_default() += 1;
            }
        }
        for tag in 1..=sent {
            let expected = usize::from(!given_up.contains(&tag));
            prop_assert_eq!(ended.get(&tag).copied().unwrap_or(0), expected, "request {}", tag);
        }
        prop_assert_eq!(end.load(), (0, 0, 0));
    }
}
