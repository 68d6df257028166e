//! The conformance kit for drivers: `pintle driver check` (`docs/driver-rpc.md`).
//!
//! Each requirement is tried in sessions of its own: a driver process is started, spoken to as Core speaks, and then as no
//! Core should. What the driver sends goes through [`CoreSession`](pintle_sdk::driver::CoreSession), so the kit accepts
//! exactly what Core accepts. A fault that turns up while another requirement is tried is charged to the requirement that
//! it breaks; the one that was being tried is skipped as blocked by it.
//!
//! A driver that answers late, writes in small pieces or logs a lot to standard error is a good driver: everything here
//! waits for an event, and no requirement depends on speed.

mod answer;
mod cases;
mod catalog;
mod heard;
mod pipes;
mod report;
mod rig;
mod scenario;
mod session;
mod stop;
mod transcript;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

pub use catalog::{DriverRequirement, REQUIREMENTS};
pub use report::{DRIVER_REPORT_SCHEMA, DriverReport, DriverReportItem, FrameItem, HelloSection, terminal};
pub use rig::{DEFAULT_MAX_SESSION_BYTES, KitOperation, KitRequest, MAX_KIT_INPUT_BYTES};
pub use scenario::scenario_operations;

use crate::judge::{FailOn, Fault, Outcome, SkipReason};
use catalog::ALWAYS;
use rig::Rig;
use stop::Stop;
use transcript::{Line, Transcript};

/// What happens while the kit runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KitProgress {
    /// A requirement is tried next: how many were before it, of how many.
    Trying {
        /// Its id.
        id: &'static str,
        /// Requirements that are done.
        done: usize,
        /// All that are tried one by one.
        of: usize,
    },
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// The driver could not be started at all.
    #[error("start the driver: {0}")]
    Start(String),
    /// A requirement is asked for that does not exist.
    #[error("find the requirement `{0}`: there is none of that name")]
    UnknownCase(String),
}

/// What was found for one requirement.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) outcome: Outcome,
    pub(crate) detail: String,
    pub(crate) lines: Vec<Line>,
}

/// What the cases share: how to start the driver, and what was heard of it.
pub(crate) struct Trial<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) transcript: Rc<RefCell<Transcript>>,
}

/// Tries a driver. Needs a tokio runtime with IO and time; dropping the future kills the driver that runs.
///
/// # Errors
/// [`KitError`]. A driver that starts and then does everything wrong is no error but a report.
pub async fn check_driver(
    request: KitRequest,
    fail_on: FailOn,
    mut progress: impl FnMut(KitProgress),
) -> Result<DriverReport, KitError> {
    let began = Instant::now();
    for id in &request.cases {
        if !REQUIREMENTS.iter().any(|requirement| requirement.id == id) {
            return Err(KitError::UnknownCase(id.clone()));
        }
    }
    let mut rig = Rig::new(request);
    let mut found: BTreeMap<&'static str, Found> = BTreeMap::new();
    let tried: Vec<_> = REQUIREMENTS.iter().filter(|requirement| rig.wants(requirement)).collect();
    let of = tried.len();
    for (done, requirement) in tried.into_iter().enumerate() {
        progress(KitProgress::Trying { id: requirement.id, done, of });
        let outcome = if let Some(root) = blocker(requirement, &found) {
            Found { outcome: Outcome::Skipped(SkipReason::BlockedBy(root)), detail: String::new(), lines: Vec::new() }
        } else {
            let transcript = Rc::new(RefCell::new(Transcript::default()));
            let trial = Trial { rig: &rig, transcript: Rc::clone(&transcript) };
            let ended = cases::run(requirement.id, &trial).await;
            if let Err(Stop::NotStarted(message)) = ended {
                return Err(KitError::Start(message));
            }
            let transcript = transcript.borrow();
            rig.heard.add(&transcript.heard);
            if let Some(hello) = transcript.hello.clone() {
                rig.learn(hello);
            }
            settle(requirement, ended, &transcript, &mut found)
        };
        found.entry(requirement.id).or_insert(outcome);
    }
    // What is watched in every session holds unless a session has shown otherwise.
    for requirement in REQUIREMENTS.iter().filter(|requirement| requirement.kind == ALWAYS && rig.shows(requirement)) {
        let held = Found { outcome: watched(requirement, &rig, &found), detail: String::new(), lines: Vec::new() };
        found.entry(requirement.id).or_insert(held);
    }
    Ok(DriverReport::new(&rig, &found, fail_on, began.elapsed()))
}

/// The requirement at the root, if one that this depends on is not met.
fn blocker(requirement: &DriverRequirement, found: &BTreeMap<&'static str, Found>) -> Option<String> {
    requirement.depends.iter().find_map(|id| match &found.get(id)?.outcome {
        Outcome::Skipped(SkipReason::BlockedBy(root)) => Some(root.clone()),
        // A driver that was never brought to it shows nothing about what comes after it either.
        Outcome::Skipped(_) | Outcome::Pass => None,
        _ => Some((*id).to_owned()),
    })
}

/// The outcome of a watched requirement that no session has broken. Where no session has shown what it is about, nothing is
/// known.
fn watched(requirement: &DriverRequirement, rig: &Rig, found: &BTreeMap<&'static str, Found>) -> Outcome {
    let passed = |id: &&str| found.get(id).is_some_and(|found| found.outcome == Outcome::Pass);
    match blocker(requirement, found) {
        Some(root) => Outcome::Skipped(SkipReason::BlockedBy(root)),
        None if requirement.id == catalog::id::STREAMS && !rig.wants_streams() => {
            Outcome::Skipped(SkipReason::NotAdvertised)
        }
        None if requirement.depends.iter().all(passed) && rig.heard.shows(requirement.id) => Outcome::Pass,
        None => Outcome::Skipped(SkipReason::NotExercised),
    }
}

/// Turns the end of a case into what is reported, and charges a fault to the requirement that it breaks.
fn settle(
    requirement: &DriverRequirement,
    ended: Result<(), Stop>,
    transcript: &Transcript,
    found: &mut BTreeMap<&'static str, Found>,
) -> Found {
    let without_lines = |outcome, detail| Found { outcome, detail, lines: Vec::new() };
    match ended {
        Ok(()) => without_lines(Outcome::Pass, String::new()),
        Err(Stop::Unmet(detail)) => broken(requirement, detail, transcript),
        Err(Stop::Breaks { id, detail }) if id == requirement.id => broken(requirement, detail, transcript),
        Err(Stop::Breaks { id, detail }) => {
            if let Some(other) = REQUIREMENTS.iter().find(|other| other.id == id) {
                let seen = broken(other, detail, transcript);
                // A later session can break what held in an earlier one.
                let entry = found.entry(other.id).or_insert_with(|| seen.clone());
                if matches!(entry.outcome, Outcome::Pass | Outcome::Skipped(_)) {
                    *entry = seen;
                }
            }
            without_lines(Outcome::Skipped(SkipReason::BlockedBy(id.to_owned())), String::new())
        }
        Err(Stop::NotAdvertised) => without_lines(Outcome::Skipped(SkipReason::NotAdvertised), String::new()),
        Err(Stop::NotExercised(detail)) => without_lines(Outcome::Skipped(SkipReason::NotExercised), detail.to_owned()),
        Err(Stop::Environment(detail) | Stop::NotStarted(detail)) => {
            without_lines(Outcome::Inconclusive(Fault::Environment), detail)
        }
    }
}

fn broken(requirement: &DriverRequirement, detail: String, transcript: &Transcript) -> Found {
    let outcome = match requirement.level {
        crate::pack::Level::Must => Outcome::Fail,
        _ => Outcome::Warn,
    };
    Found { outcome, detail, lines: transcript.last_lines() }
}
