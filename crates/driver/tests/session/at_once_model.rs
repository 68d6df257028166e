//! Both ends with several invocations, against a model, over random interleavings in virtual time.
//!
//! Control and data streams lag behind at random, so the two ends are never in the same place. The model knows what each
//! end was asked for and which bytes it has; it says what each command must give, and what Core must have seen of each
//! invocation at its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pintle_driver::{
    CoreConfig, CoreEvent, CoreSession, DriverConfig, DriverEvent, DriverSession, ErrorClass, Fault, FreeValue,
    InstanceId, Life, Method, ObservationBody, Output, RpcError, TerminalStatus,
};
use proptest::prelude::*;

use crate::at_once::concurrent;
use crate::pair::{epoch, id, invoke_params, permissions, prepare_params};

/// One step; invocations are small numbers, so that they meet.
#[derive(Debug, Clone)]
enum Step {
    Invoke(u8),
    Cancel(u8, u64),
    Take(u8),
    Refuse(u8),
    Observe(u8),
    Send(u8, usize),
    End(u8),
    ToDriver(usize),
    ToCore(usize),
    Data(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = || 0_u8..6;
    let step = prop_oneof![
        4 => number().prop_map(Step::Invoke),
        1 => (number(), 2_u64..60).prop_map(|(number, millis)| Step::Cancel(number, millis)),
        6 => number().prop_map(Step::Take),
        1 => number().prop_map(Step::Refuse),
        6 => number().prop_map(Step::Observe),
        4 => (number(), 0_usize..300).prop_map(|(number, bytes)| Step::Send(number, bytes)),
        3 => number().prop_map(Step::End),
        6 => (1_usize..3000).prop_map(Step::ToDriver),
        6 => (1_usize..3000).prop_map(Step::ToCore),
        4 => (1_usize..600).prop_map(Step::Data),
        2 => (1_u64..30).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 0..150)
}

/// What the driver did with an invocation that it has heard of.
#[derive(Debug, Default)]
struct Theirs {
    taken: bool,
    observed: u64,
    streaming: bool,
    sent: Vec<u8>,
    ended: bool,
}

/// What Core knows of an invocation that it began.
#[derive(Debug, Default)]
struct Ours {
    seen: u64,
    got: Vec<u8>,
    until: Option<Instant>,
    /// Where in the driver's control stream its end stands.
    end_at: Option<usize>,
}

struct World {
    now: Instant,
    core: CoreSession,
    driver: DriverSession,
    to_driver: VecDeque<u8>,
    to_core: VecDeque<u8>,
    data: VecDeque<u8>,
    written: usize,
    read: usize,
    limit: usize,
    ours: BTreeMap<u8, Ours>,
    theirs: BTreeMap<u8, Theirs>,
    used: BTreeSet<u8>,
    fault: Option<Fault>,
}

type Checked = Result<(), TestCaseError>;

fn number(invocation_id: InstanceId) -> u8 {
    (0..6).find(|number| id(*number) == invocation_id).expect("one of ours")
}

impl World {
    fn new(limit: u32) -> Self {
        let hour = Duration::from_secs(3600);
        let config =
            CoreConfig { verify_summary: true, request_timeout: hour, stream_grace: hour, ..CoreConfig::default() };
        let mut world = Self {
            now: epoch(),
            core: CoreSession::new(config),
            driver: DriverSession::new(DriverConfig::new(concurrent(limit))).expect("it validates"),
            to_driver: VecDeque::new(),
            to_core: VecDeque::new(),
            data: VecDeque::new(),
            written: 0,
            read: 0,
            limit: limit.max(1) as usize,
            ours: BTreeMap::new(),
            theirs: BTreeMap::new(),
            used: BTreeSet::new(),
            fault: None,
        };
        world.core.hello(world.now).expect("hello");
        world.settle().expect("no surprise");
        world.core.prepare(world.now, prepare_params(&["companion-stream"])).expect("prepare");
        world.settle().expect("no surprise");
        world.driver.accept_prepare(permissions(&["companion-stream"])).expect("accept");
        world.settle().expect("no surprise");
        world
    }

    /// Everything arrives.
    fn settle(&mut self) -> Checked {
        for _ in 0..4 {
            self.step(&Step::ToDriver(usize::MAX))?;
            self.step(&Step::ToCore(usize::MAX))?;
            self.step(&Step::Data(usize::MAX))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Invoke(n) => {
                let found = self.core.invoke(self.now, invoke_params(n, "run")).map_err(|error| error.class());
                let wanted = if self.fault.is_some() || self.ours.len() >= self.limit {
                    Some(ErrorClass::InvalidState)
                } else if self.ours.contains_key(&n) || self.used.contains(&n) {
                    Some(ErrorClass::InvalidRequest)
                } else {
                    self.ours.insert(n, Ours::default());
                    None
                };
                prop_assert_eq!(found.err(), wanted);
            }
            Step::Cancel(n, millis) => {
                let deadline = Duration::from_millis(millis);
                let found = self.core.cancel(self.now, id(n), "r", deadline).map_err(|error| error.class());
                let active = |ours: &Ours| ours.end_at.is_none_or(|end| end > self.read);
                let (any, this) = (self.ours.values().any(active), self.ours.get(&n).is_some_and(active));
                let wanted = match (self.fault.is_some(), any, this) {
                    (true, ..) | (_, false, _) => Some(ErrorClass::InvalidState),
                    (_, _, false) => Some(ErrorClass::InvalidRequest),
                    _ => None,
                };
                prop_assert_eq!(found.err(), wanted);
                if wanted.is_none() {
                    let until = self.now + deadline;
                    let ours = self.ours.entry(n).or_default();
                    ours.until = Some(ours.until.map_or(until, |earlier| earlier.min(until)));
                }
            }
            Step::Take(n) => {
                let pending = self.theirs.get(&n).is_some_and(|theirs| !theirs.taken);
                prop_assert_eq!(self.driver.accept_invoke(id(n)).is_ok(), pending);
                if let Some(theirs) = self.theirs.get_mut(&n) {
                    theirs.taken = true;
                }
            }
            Step::Refuse(n) => {
                let pending = self.theirs.get(&n).is_some_and(|theirs| !theirs.taken);
                let refused = self.driver.refuse_invoke(id(n), RpcError::new(ErrorClass::DriverInternal, "no"));
                prop_assert_eq!(refused.is_ok(), pending);
                if pending {
                    self.theirs.remove(&n);
                }
            }
            Step::Observe(n) => {
                let payload = FreeValue::from_serialize(&n).expect("a payload");
                let found = self.driver.observe(id(n), "k", 0, &ObservationBody::Payload(payload));
                match self.theirs.get_mut(&n).filter(|theirs| theirs.taken && !theirs.ended) {
                    Some(theirs) => {
                        prop_assert_eq!(found, Ok(theirs.observed));
                        theirs.observed += 1;
                    }
                    None => prop_assert!(found.is_err()),
                }
            }
            Step::Send(n, bytes) => {
                let payload: Vec<u8> = (0..bytes).map(|at| n.wrapping_mul(31).wrapping_add(at as u8)).collect();
                let active = self.theirs.get_mut(&n).filter(|theirs| theirs.taken && !theirs.ended);
                let Some(theirs) = active else {
                    prop_assert!(self.driver.send_data(id(n), "s", &payload, false).is_err());
                    return Ok(());
                };
                if !theirs.streaming {
                    let named = self.driver.observe(id(n), "k", 0, &ObservationBody::Stream("s".into()));
                    prop_assert_eq!(named, Ok(theirs.observed));
                    theirs.observed += 1;
                    theirs.streaming = true;
                }
                self.driver.send_data(id(n), "s", &payload, false).expect("it may be sent");
                theirs.sent.extend(payload);
            }
            Step::End(n) => {
                let active = self.theirs.get(&n).is_some_and(|theirs| theirs.taken && !theirs.ended);
                let ended = self
                    .driver
                    .finish_streams(id(n))
                    .and_then(|()| self.driver.complete(id(n), TerminalStatus::Completed));
                prop_assert_eq!(ended.is_ok(), active);
                self.drain();
                if let Some(theirs) = self.theirs.get_mut(&n).filter(|_| active) {
                    theirs.ended = true;
                    if let Some(ours) = self.ours.get_mut(&n) {
                        ours.end_at = Some(self.written);
                    }
                }
            }
            Step::ToDriver(bytes) => {
                self.drain();
                let bytes: Vec<u8> = self.to_driver.drain(..bytes.min(self.to_driver.len())).collect();
                self.driver.feed(self.now, bytes);
                while let Some(event) = self.driver.poll_event() {
                    if let DriverEvent::Invoke(params) = event {
                        self.theirs.insert(number(params.invocation_id), Theirs::default());
                    }
                }
            }
            Step::ToCore(bytes) => {
                self.drain();
                let bytes: Vec<u8> = self.to_core.drain(..bytes.min(self.to_core.len())).collect();
                self.read += bytes.len();
                self.core.feed(self.now, bytes);
                self.look()?;
            }
            Step::Data(bytes) => {
                self.drain();
                let bytes: Vec<u8> = self.data.drain(..bytes.min(self.data.len())).collect();
                self.core.feed_data(self.now, bytes);
                self.look()?;
            }
            Step::Wait(millis) => {
                self.now += Duration::from_millis(millis);
                self.core.handle_timeout(self.now);
                let read = self.read;
                let late = self.ours.values().any(|ours| {
                    ours.end_at.is_none_or(|end| end > read) && ours.until.is_some_and(|until| until <= self.now)
                });
                let before = self.fault.is_some();
                self.look()?;
                prop_assert_eq!(self.fault.is_some(), before || late);
            }
        }
        Ok(())
    }

    fn drain(&mut self) {
        while let Some(Output::Control(bytes)) = self.core.poll_output() {
            self.to_driver.extend(bytes);
        }
        while let Some(bytes) = self.driver.poll_control() {
            self.written += bytes.len();
            self.to_core.extend(bytes);
        }
        while let Some(bytes) = self.driver.poll_data() {
            self.data.extend(bytes);
        }
    }

    /// What Core has seen, invocation by invocation.
    fn look(&mut self) -> Checked {
        while let Some(event) = self.core.poll_event() {
            match event {
                CoreEvent::Observation(params) => {
                    let n = number(params.invocation_id);
                    let ours = self.ours.get_mut(&n).expect("an invocation that Core began");
                    prop_assert_eq!(params.sequence, ours.seen, "in order, without a gap");
                    ours.seen += 1;
                    if let Some(payload) = params.payload {
                        prop_assert_eq!(payload.as_str(), n.to_string());
                    }
                }
                CoreEvent::Data { invocation_id, bytes, .. } => {
                    self.ours.get_mut(&number(invocation_id)).expect("one of ours").got.extend_from_slice(&bytes);
                }
                CoreEvent::Completed(params) => {
                    let n = number(params.invocation_id);
                    let ours = self.ours.remove(&n).expect("it ends once");
                    let theirs = self.theirs.remove(&n).expect("the driver had it");
                    prop_assert!(theirs.ended);
                    prop_assert_eq!((ours.seen, ours.got), (theirs.observed, theirs.sent));
                    self.used.insert(n);
                }
                CoreEvent::Refused { invocation_id: Some(invocation_id), method: Method::Invoke, .. } => {
                    let ours = self.ours.remove(&number(invocation_id)).expect("it was asked for");
                    prop_assert_eq!(ours.seen, 0);
                }
                CoreEvent::Fault(fault) => {
                    prop_assert!(self.fault.is_none());
                    prop_assert_eq!(&fault, &Fault::CancellationTimeout);
                    self.fault = Some(fault);
                }
                _ => {}
            }
        }
        prop_assert!(self.core.dispatcher().active_count() <= self.limit);
        prop_assert_eq!(self.core.life() == &Life::Alive, self.fault.is_none());
        Ok(())
    }
}

fn run(limit: u32, steps: &[Step]) -> Result<World, TestCaseError> {
    let mut world = World::new(limit);
    for step in steps {
        world.step(step)?;
    }
    // Whatever is under way comes to its end, unless the driver is dead.
    for _ in 0..2 {
        world.settle()?;
        for n in 0..6 {
            if world.theirs.contains_key(&n) {
                if !world.theirs[&n].taken {
                    world.step(&Step::Take(n))?;
                }
                world.step(&Step::End(n))?;
            }
        }
    }
    world.settle()?;
    if world.fault.is_none() {
        prop_assert!(world.ours.is_empty(), "{:?}", world.ours);
        prop_assert!(world.core.shutdown(world.now).is_ok());
    }
    Ok(world)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn every_invocation_gets_what_is_its_own(limit in 0_u32..5, steps in steps()) {
        run(limit, &steps)?;
    }
}

/// Without this the property could hold because nothing ever overlaps.
#[test]
fn the_interleavings_overlap_end_and_time_out() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut completed, mut faults, mut overlaps) = (0, 0, 0);
    for _ in 0..200 {
        let steps = steps().new_tree(&mut runner).expect("steps").current();
        let mut world = World::new(3);
        for step in &steps {
            world.step(step).expect("as the model says");
            overlaps += usize::from(world.core.dispatcher().active_count() > 1);
        }
        let world = run(3, &steps).expect("as the model says");
        completed += world.used.len();
        faults += usize::from(world.fault.is_some());
    }
    assert!(completed > 100 && faults > 2 && overlaps > 500, "{completed} ends, {faults} faults, {overlaps} overlaps");
}
