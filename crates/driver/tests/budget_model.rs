//! The ledger against a model that keeps every event and adds up from the beginning each time.

use std::time::{Duration, Instant};

use pintle_driver::{
    Amounts, BudgetError, BudgetPolicy, Ledger, Limits, MAX_OPEN_RESERVATIONS, Purpose, Reservation, Resource, Usage,
};
use proptest::prelude::*;

#[expect(clippy::disallowed_methods, reason = "an Instant has no other beginning; the tests only add to it")]
fn epoch() -> Instant {
    Instant::now()
}

const LIMITS: Limits = Limits {
    requests: 10,
    bytes_sent: 1000,
    bytes_received: 1000,
    artifacts: 3,
    artifact_bytes: 500,
    processes: 4,
    duration: Some(Duration::from_millis(5000)),
    tokens: Some(200),
};

fn policy() -> BudgetPolicy {
    BudgetPolicy { work: LIMITS, cleanup: Limits { requests: 2, ..LIMITS } }
}

fn request() -> Amounts {
    Amounts::of(Resource::Requests, 1)
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(Purpose, Amounts),
    Extend(usize, Amounts),
    Commit(usize, Amounts, Option<Resource>),
    Release(usize),
    Take(Purpose, Amounts),
    Spend(Purpose, Amounts),
    Wait(u64),
    Close,
}

fn amounts() -> impl Strategy<Value = Amounts> {
    let sizes =
        (0_u64..4, 0_u64..400, 0_u64..400, 0_u64..2, 0_u64..200, 0_u64..3, prop_oneof![4 => Just(0), 1 => 0_u64..3000]);
    (sizes, 0_u64..100).prop_map(|((requests, sent, received, artifacts, bytes, processes, ms), tokens)| {
        Amounts::of(Resource::Requests, requests)
            .with(Resource::BytesSent, sent)
            .with(Resource::BytesReceived, received)
            .with(Resource::Artifacts, artifacts)
            .with(Resource::ArtifactBytes, bytes)
            .with(Resource::Processes, processes)
            .with(Resource::DurationMs, ms)
            .with(Resource::Tokens, tokens)
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let purpose = || prop_oneof![3 => Just(Purpose::Work), 1 => Just(Purpose::Cleanup)];
    let unknown = prop::option::of(prop::sample::select(Resource::ALL.to_vec()));
    let step = prop_oneof![
        4 => (purpose(), amounts()).prop_map(|(purpose, amounts)| Step::Reserve(purpose, amounts)),
        1 => (0_usize..4, amounts()).prop_map(|(at, more)| Step::Extend(at, more)),
        3 => (0_usize..4, amounts(), unknown).prop_map(|(at, used, unknown)| Step::Commit(at, used, unknown)),
        1 => (0_usize..4).prop_map(Step::Release),
        1 => (purpose(), amounts()).prop_map(|(purpose, amounts)| Step::Take(purpose, amounts)),
        2 => (purpose(), amounts()).prop_map(|(purpose, amounts)| Step::Spend(purpose, amounts)),
        1 => (0_u64..1500).prop_map(Step::Wait),
        1 => prop_oneof![9 => Just(Step::Wait(1)), 1 => Just(Step::Close)],
    ];
    prop::collection::vec(step, 0..40)
}

/// What is known of the past. Sums are made from it, never kept.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    /// Purpose, amounts, and those of them that are estimates.
    charges: Vec<(Purpose, Amounts, Amounts)>,
    open: Vec<(Purpose, Amounts)>,
    first: [Option<u64>; 2],
    last: [u64; 2],
    closed: bool,
}

impl Model {
    fn touch(&mut self, purpose: Purpose) {
        self.first[purpose as usize].get_or_insert(self.now);
        self.last[purpose as usize] = self.now;
    }

    fn used(&self, purpose: Purpose, resource: Resource) -> u64 {
        if resource == Resource::DurationMs {
            return self.first[purpose as usize].map_or(0, |first| self.last[purpose as usize] - first);
        }
        self.charges.iter().filter(|(who, ..)| *who == purpose).map(|(_, amounts, _)| amounts.get(resource)).sum()
    }

    fn unknown(&self, purpose: Purpose, resource: Resource) -> u64 {
        let mine = self.charges.iter().filter(|(who, ..)| *who == purpose);
        if resource == Resource::DurationMs { 0 } else { mine.map(|(.., unknown)| unknown.get(resource)).sum() }
    }

    fn reserved(&self, purpose: Purpose, resource: Resource) -> u64 {
        let mine = self.open.iter().filter(|(who, _)| *who == purpose);
        if resource == Resource::DurationMs { 0 } else { mine.map(|(_, amounts)| amounts.get(resource)).sum() }
    }

    fn fits(&self, purpose: Purpose, wanted: &Amounts) -> bool {
        Resource::ALL.into_iter().all(|resource| {
            let limits = if purpose == Purpose::Work { policy().work } else { policy().cleanup };
            let limit = limits.get(resource).expect("every resource has one here");
            let (used, more) = (self.used(purpose, resource), wanted.get(resource));
            let late = resource == Resource::DurationMs && used >= limit;
            !late && (more == 0 || used + self.reserved(purpose, resource) + more <= limit)
        })
    }

    fn settle(&mut self, at: usize, used: Amounts, unknown: impl Fn(Resource) -> bool, is_now: bool) {
        let (purpose, estimate) = self.open.remove(at);
        if is_now {
            self.touch(purpose);
        }
        let (mut charged, mut estimated) = (used, Amounts::ZERO);
        for resource in Resource::ALL.into_iter().filter(|resource| unknown(*resource)) {
            charged = charged.with(resource, estimate.get(resource));
            estimated = estimated.with(resource, estimate.get(resource));
        }
        self.charges.push((purpose, charged, estimated));
    }
}

fn check(steps: &[Step]) {
    let start = epoch();
    let mut ledger = Ledger::new(policy());
    let mut model = Model::default();
    let mut open: Vec<Reservation> = Vec::new();
    for step in steps {
        let now = start + Duration::from_millis(model.now);
        match step.clone() {
            Step::Wait(ms) => model.now += ms,
            Step::Reserve(purpose, estimate) => {
                let works = estimate.get(Resource::Requests) + estimate.get(Resource::Processes) > 0;
                if works && !model.closed {
                    model.touch(purpose);
                }
                let expected = works && !model.closed && model.fits(purpose, &estimate);
                let got = ledger.reserve(now, purpose, estimate);
                assert_eq!(got.is_ok(), expected, "{step:?}: {got:?}");
                if let Ok(reservation) = got {
                    model.open.push((purpose, estimate));
                    open.push(reservation);
                }
            }
            Step::Extend(at, more) if at < open.len() => {
                let (purpose, _) = model.open[at];
                model.touch(purpose);
                let expected = model.fits(purpose, &more);
                assert_eq!(ledger.extend(now, &open[at], more).is_ok(), expected, "{step:?}");
                if expected {
                    let was = model.open[at].1;
                    model.open[at].1 = Resource::ALL
                        .into_iter()
                        .fold(was, |sum, resource| sum.with(resource, was.get(resource) + more.get(resource)));
                }
            }
            Step::Commit(at, used, unknown) if at < open.len() => {
                let usage = unknown.map_or(Usage::known(used), |resource| Usage::known(used).unknown(resource));
                ledger.commit(now, open.remove(at), usage).expect("it is open");
                model.settle(at, used, |resource| Some(resource) == unknown, true);
            }
            Step::Release(at) if at < open.len() => {
                ledger.release(now, open.remove(at)).expect("it is open");
                model.settle(at, Amounts::ZERO, |_| false, true);
            }
            Step::Take(purpose, amounts) => {
                if !model.closed {
                    model.touch(purpose);
                }
                let expected = !model.closed && model.fits(purpose, &amounts);
                assert_eq!(ledger.take(now, purpose, amounts).is_ok(), expected, "{step:?}");
                if expected {
                    model.charges.push((purpose, amounts, Amounts::ZERO));
                }
            }
            Step::Spend(purpose, amounts) => {
                model.touch(purpose);
                let expected = model.fits(purpose, &amounts);
                assert_eq!(ledger.spend(now, purpose, amounts).is_ok(), expected, "{step:?}");
                model.charges.push((purpose, amounts, Amounts::ZERO));
            }
            Step::Close => {
                ledger.close();
                for _ in 0..model.open.len() {
                    model.settle(0, Amounts::ZERO, |_| true, false);
                }
                model.closed = true;
                for reservation in open.drain(..) {
                    let late = ledger.commit(now, reservation, Usage::default());
                    assert_eq!(late, Err(BudgetError::NotOpen), "closing has closed it");
                }
            }
            Step::Extend(..) | Step::Commit(..) | Step::Release(..) => {}
        }
        let report = ledger.report();
        for (purpose, account) in [(Purpose::Work, report.work), (Purpose::Cleanup, report.cleanup)] {
            let limits = if purpose == Purpose::Work { policy().work } else { policy().cleanup };
            for resource in Resource::ALL {
                let used = model.used(purpose, resource);
                let limit = limits.get(resource).expect("a limit");
                assert_eq!(account.used.get(resource), used, "{purpose} {resource} used after {step:?}");
                assert_eq!(account.reserved.get(resource), model.reserved(purpose, resource), "{resource} reserved");
                assert_eq!(account.unknown.get(resource), model.unknown(purpose, resource), "{resource} unknown");
                assert_eq!(account.overshoot.get(resource), used.saturating_sub(limit), "{resource} overshoot");
            }
        }
        assert_eq!(ledger.open_reservations(), open.len());
    }
}

proptest! {
    /// Nothing is reserved that could lead over a limit, and every sum is the sum of what happened.
    #[test]
    fn the_ledger_adds_up_as_the_model_does(steps in steps()) {
        check(&steps);
    }
}

#[test]
fn a_refusal_says_what_and_how_much() {
    let mut ledger = Ledger::new(policy());
    let now = epoch();
    let first = ledger.reserve(now, Purpose::Work, request().with(Resource::BytesSent, 600)).expect("it fits");
    let error = ledger.reserve(now, Purpose::Work, request().with(Resource::BytesSent, 401)).expect_err("too much");
    let text = "work budget exceeded: 401 more bytes_sent, 0 used, 600 reserved, the limit is 1000";
    assert_eq!(error.to_string(), text);
    ledger.release(now, first).expect("open");
    assert!(ledger.reserve(now, Purpose::Work, request().with(Resource::BytesSent, 401)).is_ok());
    assert_eq!(
        ledger.reserve(now, Purpose::Work, Amounts::of(Resource::Tokens, 1)),
        Err(BudgetError::NoWork),
        "tokens without a request"
    );
}

#[test]
fn use_beyond_the_estimate_and_the_limit_is_charged_and_told() {
    let mut ledger = Ledger::new(policy());
    let now = epoch();
    let estimate = request().with(Resource::Tokens, 150);
    let reservation = ledger.reserve(now, Purpose::Work, estimate).expect("it fits");
    let used = request().with(Resource::Tokens, 230);
    let receipt = ledger.commit(now, reservation, Usage::known(used)).expect("open");
    assert_eq!((receipt.charged, receipt.overshoot), (used, Amounts::of(Resource::Tokens, 30)));
    let error = ledger.take(now, Purpose::Work, Amounts::of(Resource::Tokens, 1)).expect_err("exhausted");
    assert!(matches!(error, BudgetError::Exceeded { resource: Resource::Tokens, used: 230, .. }));
    assert_eq!(ledger.report().work.overshoot.get(Resource::Tokens), 30);
}

#[test]
fn unknown_use_is_charged_at_the_estimate_and_never_told_as_zero() {
    let mut ledger = Ledger::new(policy());
    let now = epoch();
    let reservation = ledger.reserve(now, Purpose::Work, request().with(Resource::Tokens, 90)).expect("it fits");
    let receipt = ledger.commit(now, reservation, Usage::known(request()).unknown(Resource::Tokens)).expect("open");
    assert_eq!(receipt.charged.get(Resource::Tokens), 90);
    assert_eq!(receipt.unknown, Amounts::of(Resource::Tokens, 90));
    // One that nobody closed is charged by the end.
    let _forgotten = ledger.reserve(now, Purpose::Work, request().with(Resource::Tokens, 50)).expect("it fits");
    let report = ledger.close();
    assert_eq!(report.work.used.get(Resource::Tokens), 140);
    assert_eq!(report.work.unknown.get(Resource::Tokens), 140);
    assert_eq!(report, ledger.close(), "closing again changes nothing");
    assert_eq!(ledger.reserve(now, Purpose::Work, request()), Err(BudgetError::Closed));
}

#[test]
fn cleaning_up_is_paid_for_when_the_rest_is_exhausted() {
    let mut ledger = Ledger::new(policy());
    let now = epoch();
    let over = ledger.spend(now, Purpose::Work, Amounts::of(Resource::Requests, 11));
    assert!(over.is_err());
    assert!(ledger.reserve(now, Purpose::Work, request()).is_err());
    for _ in 0..2 {
        let reservation = ledger.reserve(now, Purpose::Cleanup, request()).expect("its own account");
        ledger.commit(now, reservation, Usage::known(request())).expect("open");
    }
    let error = ledger.reserve(now, Purpose::Cleanup, request()).expect_err("it is bounded too");
    assert!(error.to_string().starts_with("cleanup budget exceeded"), "{error}");
}

#[test]
fn the_time_of_an_account_runs_out() {
    let mut ledger = Ledger::new(policy());
    let start = epoch();
    assert_eq!(ledger.deadline(Purpose::Work), None);
    ledger.take(start, Purpose::Work, request()).expect("it fits");
    assert_eq!(ledger.deadline(Purpose::Work), Some(start + Duration::from_secs(5)));
    let later = start + Duration::from_millis(4999);
    let long = request().with(Resource::DurationMs, 2);
    assert!(ledger.reserve(later, Purpose::Work, long).is_err(), "it would end too late");
    ledger.take(later, Purpose::Work, request()).expect("just in time");
    assert!(ledger.take(start + Duration::from_secs(5), Purpose::Work, request()).is_err());
    ledger.take(start + Duration::from_secs(60), Purpose::Cleanup, request()).expect("it begins with its first use");
}

#[test]
fn a_reservation_of_another_ledger_is_refused_and_the_open_ones_are_bounded() {
    let now = epoch();
    let many = Limits { requests: u64::MAX, ..LIMITS };
    let (mut one, mut two) = (Ledger::new(policy()), Ledger::new(BudgetPolicy { work: many, cleanup: many }));
    let foreign = one.reserve(now, Purpose::Work, request()).expect("it fits");
    let open: Vec<_> =
        (0..MAX_OPEN_RESERVATIONS).map(|_| two.reserve(now, Purpose::Work, request()).expect("it fits")).collect();
    assert_eq!(two.reserve(now, Purpose::Work, request()), Err(BudgetError::TooManyOpen));
    assert_eq!(two.commit(now, foreign, Usage::default()), Err(BudgetError::NotOpen));
    assert_eq!(open.len(), two.open_reservations());
}
