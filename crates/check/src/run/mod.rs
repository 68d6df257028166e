//! A check, from a request to a report: plan, drivers, evidence, judgement.
//!
//! ```text
//! pack -> jobs -> queue -> N drivers -> events -> recorder -> evidence run
//!                                                    |
//!                                                    +-> traces -> judge -> report
//! ```
//!
//! A fault of a driver, of this program or of the machine makes requirements inconclusive and says whose it is; a
//! failure to record is reported and changes no outcome.

mod drive;
mod evidence;
mod plan;
mod progress;
mod record;
mod request;
mod stored;
mod streams;
mod texts;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pintle_sdk::driver::Artifact;
use pintle_store::evidence::{EvidenceError, EvidenceRun, Places};
use pintle_store::sanitise::Redactions;
use pintle_store::{Fs, Sanitiser};
use pintle_wire::{CanonError, Digest, InstanceId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use evidence::{
    AgentFacts, CHECK_SCHEMA, CheckFacts, DriverEndRecord, DriverRecord, EndKind, EndRecord, ObservationRecord,
    PLAN_SCHEMA, PackFacts, StartRecord, StreamRecord, kind,
};
pub use progress::Progress;
pub use request::{
    AgentIsolation, AgentNetwork, AgentUnderTest, CheckRequest, DriverCommand, MAX_JOBS, Secrets, Waits,
};
pub use stored::{StoredCheck, StoredError};

use crate::cel::Worker;
use crate::json::read_own;
use crate::judge::{FailOn, Judgement, ScenarioEvidence, ScenarioRun, judge, login_note};
use crate::pack::LoadError;
use crate::report::{AgentSection, DriverSection, HostSection, Report, ReportContext, TimingSection};
use drive::{DriverFacts, Work, work};
use plan::{Job, jobs, resolved};
use record::{Recorded, Recorder, fault_text};

/// Events that may wait for the recorder; beyond it a driver waits, and its own queue takes over.
const EVENT_QUEUE: usize = 1024;

/// Where evidence goes.
#[derive(Debug)]
pub struct EvidencePlace {
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// Where runs and objects are.
    pub places: Places,
    /// Without it there is no check. If not, a check whose evidence cannot be kept says so in its report.
    pub required: bool,
}

/// Why a check did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The selection names what the pack does not have.
    #[error(transparent)]
    Pack(#[from] LoadError),
    /// The driver's artifact cannot be read.
    #[error("take the digest of the driver `{}`", path.display())]
    Artifact {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The evidence run could not be begun.
    #[error("keep evidence: {0}")]
    Evidence(#[source] EvidenceError),
    /// A value has no canonical form.
    #[error("write the plan: {0}")]
    Plan(#[from] CanonError),
    /// The system gave no time or no randomness for an id.
    #[error("make an id for the run: the system gave no time or no randomness")]
    Id,
    /// The report is not one any more once the secrets are taken out of it.
    #[error("take the secrets out of the report")]
    Report(#[source] serde_json::Error),
    /// A thread of this program ended in a panic.
    #[error("finish the check: a part of this program panicked")]
    Panicked,
}

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    /// The report, sanitised.
    pub report: Report,
    /// The user stopped it; what was seen until then is in the report.
    pub interrupted: bool,
    /// The directory of the evidence run, if there is one.
    pub run: Option<PathBuf>,
}

/// Carries out a check. Needs a tokio runtime with IO and time.
///
/// When `cancel` fires, running scenarios are cancelled and closed down, the others are not begun, and what was seen is
/// judged and reported. If the future is dropped, every driver is killed with its agent.
///
/// # Errors
/// [`CheckError`], before any driver was started, or after a panic. Whatever goes wrong later is in the report.
pub async fn check(
    request: CheckRequest,
    fail_on: FailOn,
    evidence: Option<EvidencePlace>,
    mut progress: impl FnMut(Progress),
    cancel: CancellationToken,
) -> Result<Checked, CheckError> {
    let began = Instant::now();
    let started = jiff::Timestamp::now();
    let jobs: Arc<[Job]> = jobs(&request)?.into();
    let (digest, plan) = resolved(&jobs, &request)?;
    let artifact = measure_artifact(&request)?;
    let sanitiser = Arc::new(Sanitiser::with(request.secrets.expose()));
    let facts = facts(&request, &jobs, digest, started);
    let mut faults = Vec::new();
    let run = match evidence {
        Some(place) => {
            let id = drive::new_id().ok_or(CheckError::Id)?;
            let facts = sanitiser.value(&facts)?;
            match EvidenceRun::create(place.fs, &place.places, id, &facts) {
                Ok(mut run) => {
                    let kept = run.put_input("plan.json", &sanitiser.value(&plan)?);
                    faults.extend(kept.err().iter().map(fault_text));
                    Some(run)
                }
                Err(error) if place.required => return Err(CheckError::Evidence(error)),
                Err(error) => {
                    faults.push(fault_text(&error));
                    None
                }
            }
        }
        None => None,
    };
    let run_dir = run.as_ref().map(|run| run.dir().to_owned());
    let run_id = run.as_ref().map(EvidenceRun::id);

    let request = Arc::new(request);
    let (events, received) = mpsc::channel(EVENT_QUEUE);
    let (told, mut heard) = mpsc::unbounded_channel();
    let recorder = Recorder {
        jobs: Arc::clone(&jobs),
        sanitiser: Arc::clone(&sanitiser),
        run,
        faults,
        redactions: Redactions::default(),
        progress: told,
    };
    let recording = tokio::task::spawn_blocking(move || recorder.record(received));
    let shared = Arc::new(Work {
        request: Arc::clone(&request),
        queue: Mutex::new((0..jobs.len()).collect::<VecDeque<_>>()),
        jobs: Arc::clone(&jobs),
        plan_digest: digest,
        sanitiser: Arc::clone(&sanitiser),
        artifact,
        cancel,
        events,
        silence: Mutex::default(),
    });
    let mut workers = JoinSet::new();
    for _ in 0..request.jobs.clamp(1, MAX_JOBS).min(jobs.len()) {
        workers.spawn(work(Arc::clone(&shared)));
    }
    drop(shared);
    while let Some(step) = heard.recv().await {
        progress(step);
    }
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|_| CheckError::Panicked)?.unwrap_or_default();
    }
    let mut recorded = recording.await.map_err(|_| CheckError::Panicked)?;

    progress(Progress::Judging);
    let judgement = judge_all(&request, std::mem::take(&mut recorded.evidence)).await?;
    let context = context(&request, &recorded, &judgement.1, run_id, started, began);
    let report = Report::new(&request.pack, &judgement.0, fail_on, context);
    let (report, interrupted) = keep_report(report, recorded, &sanitiser)?;
    Ok(Checked { report, interrupted, run: run_dir })
}

/// The judgement, with the evidence that it was made on.
async fn judge_all(
    request: &Arc<CheckRequest>,
    evidence: Vec<ScenarioEvidence>,
) -> Result<(Judgement, Vec<ScenarioEvidence>), CheckError> {
    let request = Arc::clone(request);
    let judged = tokio::task::spawn_blocking(move || {
        let mut evaluator = Worker::new(request.evaluator.clone());
        (judge(&request.pack, &evidence, &mut evaluator), evidence)
    });
    judged.await.map_err(|_| CheckError::Panicked)
}

/// Sanitises the report, puts it beside the evidence and ends the run. What goes wrong with that is in the report that is
/// shown, since it cannot be in the one that is kept.
fn keep_report(report: Report, recorded: Recorded, sanitiser: &Sanitiser) -> Result<(Report, bool), CheckError> {
    let sanitised = sanitiser.value(&report)?;
    let mut redactions = recorded.redactions;
    redactions.add(sanitised.redactions());
    let sanitised = sanitised.with_redactions("redactions", &redactions)?;
    // Never the one that was not sanitised.
    let mut report: Report = read_own(sanitised.bytes()).map_err(CheckError::Report)?;
    if let Some(mut run) = recorded.run {
        let kept = run.put_report("report.json", &sanitised).err();
        let finished = run.finish().err();
        for error in kept.into_iter().chain(finished) {
            if !matches!(error, EvidenceError::Stopped { .. }) {
                report.recording_faults.push(fault_text(&error));
            }
        }
    }
    Ok((report, recorded.interrupted))
}

fn measure_artifact(request: &CheckRequest) -> Result<Artifact, CheckError> {
    let path = &request.driver.artifact;
    Artifact::measure(path).map_err(|source| CheckError::Artifact { path: path.clone(), source })
}

fn driver_argv(request: &CheckRequest) -> Vec<String> {
    let program = request.driver.program.name().to_string_lossy().into_owned();
    std::iter::once(program).chain(request.driver.args.iter().map(|arg| arg.to_string_lossy().into_owned())).collect()
}

fn facts(request: &CheckRequest, jobs: &[Job], digest: Digest, started: jiff::Timestamp) -> CheckFacts {
    let manifest = &request.pack.manifest;
    CheckFacts {
        schema: CHECK_SCHEMA.to_owned(),
        pintle: env!("CARGO_PKG_VERSION").to_owned(),
        pack: PackFacts {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: request.pack.digest,
            origin: request.pack.origin.clone(),
        },
        agent: AgentFacts {
            argv: request.agent.argv.clone(),
            cwd: request.agent.cwd.to_string_lossy().into_owned(),
            env: request.agent.env.keys().cloned().collect(),
            demo: request.agent.demo,
        },
        driver: driver_argv(request),
        resolved_plan_digest: digest,
        scenarios: jobs.iter().map(|job| job.plan.id.clone()).collect(),
        started: started.to_string(),
    }
}

fn context(
    request: &CheckRequest,
    recorded: &Recorded,
    evidence: &[ScenarioEvidence],
    run: Option<InstanceId>,
    started: jiff::Timestamp,
    began: Instant,
) -> ReportContext {
    ReportContext {
        demo: request.agent.demo,
        notes: login_note(evidence).into_iter().collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent: agent_section(request.agent.argv.clone(), evidence),
        driver: driver_section(driver_argv(request), recorded.driver.as_ref()),
        host: HostSection {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
        },
        run: run.map(|run| run.to_string()).unwrap_or_default(),
        timing: TimingSection {
            started: started.to_string(),
            total_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            scenarios: recorded.timing.clone(),
        },
        recording_faults: recorded.faults.clone(),
        redactions: Default::default(),
    }
}

/// What the first answered `initialize` says.
fn agent_section(argv: Vec<String>, evidence: &[ScenarioEvidence]) -> AgentSection {
    let init = evidence.iter().find_map(|item| match &item.run {
        ScenarioRun::Traced(trace) if !trace.init.is_null() => Some(&trace.init),
        _ => None,
    });
    AgentSection::from_init(argv, init.unwrap_or(&serde_json::Value::Null))
}

fn driver_section(argv: Vec<String>, facts: Option<&DriverFacts>) -> DriverSection {
    let identity = facts.map(|facts| &facts.hello.identity);
    DriverSection {
        name: identity.map(|identity| identity.name.to_string()).unwrap_or_default(),
        version: identity.map(|identity| identity.version.to_string()).unwrap_or_default(),
        argv,
        artifact_digest: identity.map(|identity| identity.artifact_digest.to_string()),
    }
}
