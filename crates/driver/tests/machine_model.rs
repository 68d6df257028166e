//! The lifecycle machine against an independent model: the table of spec section 8, written down as such, over a history
//! of what was accepted.

use pintle_driver::{
    Call, CancelParams, CompletedParams, Digest, Dispatcher, ErrorClass, ExactInputHandle, FixtureRefs, HelloParams,
    Id, InputKind, InstanceId, InvokeParams, Machine, Message, Notification, ObservationParams, PrepareParams, Secret,
    State, TerminalStatus, VersionRange,
};
use proptest::prelude::*;

/// One step. Ids are small numbers, so that they meet.
#[derive(Debug, Clone)]
enum Step {
    Hello,
    Prepare,
    Capabilities,
    Invoke { invocation: u8, attempt: u8 },
    Cancel { invocation: u8, reason: bool },
    Observe { invocation: u8, attempt: u8, sequence: u64, kind: bool },
    Complete { invocation: u8, attempt: u8, last: Option<u64> },
    Reset,
    Shutdown,
    Response,
}

fn steps() -> impl Strategy<Value = Step> {
    let id = || 0_u8..3;
    let attempt = || prop_oneof![6 => Just(0_u8), 1 => 1_u8..3];
    let last = || prop_oneof![3 => Just(None), 2 => (0_u64..6).prop_map(Some)];
    prop_oneof![
        3 => Just(Step::Hello),
        3 => Just(Step::Prepare),
        1 => Just(Step::Capabilities),
        6 => (id(), attempt()).prop_map(|(invocation, attempt)| Step::Invoke { invocation, attempt }),
        2 => (id(), any::<bool>()).prop_map(|(invocation, reason)| Step::Cancel { invocation, reason }),
        6 => (id(), attempt(), 0_u64..6, prop::bool::weighted(0.9)).prop_map(|(invocation, attempt, sequence, kind)| {
            Step::Observe { invocation, attempt, sequence, kind }
        }),
        12 => (id(), attempt(), last()).prop_map(|(invocation, attempt, last)| {
            Step::Complete { invocation, attempt, last }
        }),
        1 => Just(Step::Reset),
        1 => Just(Step::Shutdown),
        1 => Just(Step::Response),
    ]
}

/// A run that gets somewhere: hello and prepare come first most of the time.
fn runs() -> impl Strategy<Value = Vec<Step>> {
    (any::<bool>(), prop::collection::vec(steps(), 0..60)).prop_map(|(prepared, rest)| {
        let start = if prepared { vec![Step::Hello, Step::Prepare] } else { Vec::new() };
        start.into_iter().chain(rest).collect()
    })
}

/// All that the model remembers is which steps were accepted.
#[derive(Debug, Default)]
struct Model {
    accepted: Vec<Step>,
}

impl Model {
    fn state(&self) -> State {
        self.accepted.iter().fold(State::New, |state, step| match step {
            Step::Hello => State::Hello,
            Step::Prepare | Step::Complete { .. } => State::Prepared,
            Step::Invoke { .. } => State::Invoking,
            Step::Shutdown => State::Shutdown,
            _ => state,
        })
    }

    /// The steps since the last invoke, and that invoke's ids.
    fn active(&self) -> Option<(u8, u8, &[Step])> {
        if self.state() != State::Invoking {
            return None;
        }
        let at = self.accepted.iter().rposition(|step| matches!(step, Step::Invoke { .. }))?;
        match self.accepted[at] {
            Step::Invoke { invocation, attempt } => Some((invocation, attempt, &self.accepted[at + 1..])),
            _ => None,
        }
    }

    fn last_sequence(&self) -> Option<u64> {
        self.active()?.2.iter().rev().find_map(|step| match step {
            Step::Observe { sequence, .. } => Some(*sequence),
            _ => None,
        })
    }

    fn is_used(&self, wanted: u8) -> bool {
        let completed = |step: &Step| matches!(step, Step::Complete { invocation, .. } if *invocation == wanted);
        self.accepted.iter().any(completed)
    }

    /// The class with which a step must be refused.
    fn refusal(&self, step: &Step) -> Option<ErrorClass> {
        use ErrorClass::{InvalidRequest, InvalidState, MalformedObservation};
        // Params are judged before the state.
        match step {
            Step::Response | Step::Cancel { reason: false, .. } => return Some(InvalidRequest),
            Step::Observe { kind: false, .. } => return Some(MalformedObservation),
            _ => {}
        }
        let allowed: &[State] = match step {
            Step::Hello => &[State::New],
            Step::Prepare => &[State::Hello],
            Step::Capabilities => &[State::Hello, State::Prepared],
            Step::Invoke { .. } | Step::Reset | Step::Shutdown => &[State::Prepared],
            _ => &[State::Invoking],
        };
        if !allowed.contains(&self.state()) {
            return Some(InvalidState);
        }
        let active = self.active().map(|(invocation, attempt, _)| (invocation, attempt));
        match *step {
            Step::Invoke { invocation, .. } => self.is_used(invocation).then_some(InvalidRequest),
            Step::Cancel { invocation, .. } => {
                (active.map(|(active, _)| active) != Some(invocation)).then_some(InvalidRequest)
            }
            Step::Observe { invocation, attempt, sequence, .. } => {
                let wrong = active != Some((invocation, attempt));
                (wrong || self.last_sequence().is_some_and(|last| sequence <= last)).then_some(MalformedObservation)
            }
            Step::Complete { invocation, attempt, last } => {
                let wrong = active != Some((invocation, attempt));
                (wrong || last != self.last_sequence()).then_some(MalformedObservation)
            }
            _ => None,
        }
    }
}

fn id(number: u8) -> InstanceId {
    InstanceId::new(1, [number; 16]).expect("an id")
}

fn message(step: &Step) -> Message {
    let request = |call| Message::request(Id::Int(1), call);
    match *step {
        Step::Hello => request(Call::Hello(HelloParams { core_version_range: VersionRange::new("1", "1") })),
        Step::Prepare => request(Call::Prepare(PrepareParams {
            resolved_plan_digest: Digest::of(b""),
            capability_token: Secret::new("t"),
            fixture_refs: FixtureRefs::Absent,
            approved_permissions: Vec::new(),
        })),
        Step::Capabilities => request(Call::Capabilities(None)),
        Step::Invoke { invocation, attempt } => request(Call::Invoke(InvokeParams {
            invocation_id: id(invocation),
            attempt_id: id(attempt),
            operation: "run".into(),
            input: ExactInputHandle { kind: InputKind::Memfd, value: Secret::new("v") },
        })),
        Step::Cancel { invocation, reason } => request(Call::Cancel(CancelParams {
            invocation_id: id(invocation),
            reason: if reason { "r".into() } else { "".into() },
            deadline_millis: 1,
        })),
        Step::Observe { invocation, attempt, sequence, kind } => {
            Message::Notification(Notification::Observation(ObservationParams {
                invocation_id: id(invocation),
                attempt_id: id(attempt),
                sequence,
                kind: if kind { "k".into() } else { "".into() },
                monotonic_ns: 0,
                payload: None,
                data_stream: None,
            }))
        }
        Step::Complete { invocation, attempt, last } => {
            Message::Notification(Notification::Completed(CompletedParams {
                invocation_id: id(invocation),
                attempt_id: id(attempt),
                status: TerminalStatus::Errored,
                last_sequence: last,
                summary_digest: Digest::of(b""),
            }))
        }
        Step::Reset => request(Call::Reset(None)),
        Step::Shutdown => request(Call::Shutdown(None)),
        Step::Response => Message::error(Id::Int(1), pintle_driver::RpcError::new(ErrorClass::DriverInternal, "m")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_machine_does_what_the_table_says(run in runs()) {
        let mut machine = Machine::new();
        let mut model = Model::default();
        for step in run {
            let found = machine.apply(&message(&step)).map_err(|error| error.class());
            let wanted = model.refusal(&step);
            prop_assert_eq!(found.err(), wanted, "{:?} in {}", step, model.state());
            if wanted.is_none() {
                model.accepted.push(step);
            }
            prop_assert_eq!(machine.state(), model.state());
            let snapshot = machine.active().map(|active| {
                let last = active.has_observation.then_some(active.last_sequence);
                (active.invocation_id, active.attempt_id, last, active.cancel_requested)
            });
            let wanted = model.active().map(|(invocation, attempt, since)| {
                let cancelled = since.iter().any(|step| matches!(step, Step::Cancel { .. }));
                (id(invocation), id(attempt), model.last_sequence(), cancelled)
            });
            prop_assert_eq!(snapshot, wanted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Issue item 8: a serial driver stays serial. Until more is declared, the dispatcher is the machine, error for error.
    #[test]
    fn a_serial_dispatcher_is_the_machine(run in runs()) {
        let (mut machine, mut dispatcher) = (Machine::new(), Dispatcher::new());
        for step in run {
            let message = message(&step);
            prop_assert_eq!(dispatcher.apply(&message), machine.apply(&message), "{:?}", step);
            prop_assert_eq!(dispatcher.state(), machine.state());
            prop_assert_eq!(dispatcher.active().next(), machine.active());
        }
    }

    /// With room for all, each invocation goes its own way: what one of them does, it does as if it were alone.
    #[test]
    fn invocations_do_not_see_each_other(run in prop::collection::vec(steps(), 0..80)) {
        let mut dispatcher = Dispatcher::new();
        dispatcher.declare(&pintle_driver::Capabilities { concurrency: true, max_concurrency: 3, ..Default::default() });
        let prepared = |apply: &mut dyn FnMut(&Message)| [Step::Hello, Step::Prepare].iter().for_each(|step| apply(&message(step)));
        prepared(&mut |step| dispatcher.apply(step).expect("prepared"));
        let mut alone: Vec<Machine> = (0..3).map(|_| Machine::new()).collect();
        for machine in &mut alone {
            prepared(&mut |step| machine.apply(step).expect("prepared"));
        }
        for step in run {
            let (Step::Invoke { invocation, .. } | Step::Cancel { invocation, .. } | Step::Observe { invocation, .. }
                | Step::Complete { invocation, .. }) = step else { continue };
            let message = message(&step);
            let found = dispatcher.apply(&message);
            let wanted = alone[usize::from(invocation)].apply(&message);
            prop_assert_eq!(found.is_ok(), wanted.is_ok(), "{:?}: {:?}, alone {:?}", step, found, wanted);
            let active: Vec<_> = dispatcher.active().collect();
            let mut expected: Vec<_> = alone.iter().filter_map(Machine::active).collect();
            expected.sort_by_key(|active| active.invocation_id);
            prop_assert_eq!(active, expected);
        }
    }
}

/// Without this the property could hold because nothing ever happens.
#[test]
fn the_runs_reach_every_state() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut reached = std::collections::HashSet::new();
    let mut completed = 0;
    for _ in 0..512 {
        let run = runs().new_tree(&mut runner).expect("a run").current();
        let mut machine = Machine::new();
        reached.insert(machine.state());
        for step in run {
            let accepted = machine.apply(&message(&step)).is_ok();
            reached.insert(machine.state());
            completed += usize::from(accepted && matches!(step, Step::Complete { .. }));
        }
    }
    assert_eq!(reached.len(), State::ALL.len());
    assert!(completed > 100, "{completed} invocations were completed");
}
