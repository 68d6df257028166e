//! A check that was recorded, read back so that it can be judged again.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_sdk::driver::Digest;
use pintle_store::evidence::{ReadError, Record, RunState, StoredRun, Tail};
use serde::de::DeserializeOwned;

use super::drive::INTERRUPTED;
use super::evidence::{
    CHECK_SCHEMA, CheckFacts, DriverRecord, EndKind, EndRecord, ObservationRecord, StartRecord, StreamRecord,
    fault_of_word, kind,
};
use crate::cel::Evaluator;
use crate::json::read_own;
use crate::judge::{FailOn, Fault, ScenarioEvidence, ScenarioRun, judge, login_note};
use crate::pack::Pack;
use crate::report::{AgentSection, DriverSection, HostSection, Report, ReportContext, TimingSection};
use crate::trace::TraceBuilder;

/// A recorded check.
#[derive(Debug)]
pub struct StoredCheck {
    /// What the manifest says of it.
    pub facts: CheckFacts,
    /// The run's id.
    pub run: String,
    /// What there is of each scenario.
    pub evidence: Vec<ScenarioEvidence>,
    /// The first driver.
    pub driver: Option<DriverRecord>,
    /// What is missing from the evidence; empty when nothing is.
    pub gaps: Vec<String>,
    /// How often each rule of the sanitiser replaced something.
    pub redactions: BTreeMap<String, u64>,
}

/// Why a run cannot be judged again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// It cannot be read, or was changed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It is no check, or one of a later version.
    #[error("judge `{run}`: it is not the record of a check that this version understands")]
    NotACheck {
        /// The run.
        run: String,
    },
    /// A record does not have the form of its kind.
    #[error("judge `{run}`: record {seq} ({kind}) does not have the form of its kind")]
    Record {
        /// The run.
        run: String,
        /// The record.
        seq: u64,
        /// Its kind.
        kind: String,
    },
}

/// What the records say of one scenario.
#[derive(Default)]
struct Scenario {
    start: Option<StartRecord>,
    observations: Vec<ObservationRecord>,
    streams: BTreeMap<String, Digest>,
    end: Option<EndRecord>,
}

impl StoredCheck {
    /// Reads a run, each record and object checked against its digest.
    ///
    /// # Errors
    /// [`StoredError`].
    pub fn load(stored: &StoredRun) -> Result<Self, StoredError> {
        let manifest = stored.manifest();
        let run = manifest.id.to_string();
        let facts: Option<CheckFacts> = serde_json::from_str(manifest.facts.get()).ok();
        let facts = facts.filter(|facts| facts.schema == CHECK_SCHEMA);
        let facts = facts.ok_or_else(|| StoredError::NotACheck { run: run.clone() })?;
        let mut scenarios: BTreeMap<String, Scenario> = BTreeMap::new();
        let mut driver = None;
        let mut records = stored.records()?;
        for record in records.by_ref() {
            let record = record?;
            match record.kind.as_str() {
                kind::DRIVER => {
                    let found: DriverRecord = decode(&run, &record)?;
                    driver.get_or_insert(found);
                }
                kind::SCENARIO_START => {
                    let start: StartRecord = decode(&run, &record)?;
                    let scenario = scenarios.entry(start.scenario.clone()).or_default();
                    scenario.start = Some(start);
                }
                kind::OBSERVATION => {
                    let observation: ObservationRecord = decode(&run, &record)?;
                    scenarios.entry(observation.scenario.clone()).or_default().observations.push(observation);
                }
                kind::STREAM => {
                    let stream: StreamRecord = decode(&run, &record)?;
                    let scenario = scenarios.entry(stream.scenario).or_default();
                    if !stream.untraced {
                        scenario.streams.insert(stream.stream_id, stream.object);
                    }
                }
                kind::SCENARIO_END => {
                    let end: EndRecord = decode(&run, &record)?;
                    let scenario = scenarios.entry(end.scenario.clone()).or_default();
                    scenario.end = Some(end);
                }
                // Written by a later version; the rest is as it was.
                _ => {}
            }
        }
        let mut gaps = Vec::new();
        if let Some(Tail::Torn { bytes }) = records.tail() {
            gaps.push(format!("the run was interrupted: {bytes} bytes at the end of its journal are no record"));
        } else if manifest.state == RunState::Open {
            gaps.push("the run did not come to its end".to_owned());
        }
        if let Some(class) = &manifest.recording.failure {
            gaps.push(format!("recording failed ({class}), so the evidence is not whole"));
        }
        let evidence = facts.scenarios.iter().map(|id| {
            let run = scenarios.remove(id).unwrap_or_default().into_run(stored)?;
            Ok(ScenarioEvidence { id: id.clone(), run })
        });
        let evidence = evidence.collect::<Result<_, StoredError>>()?;
        Ok(Self { facts, run, evidence, driver, gaps, redactions: manifest.redactions.clone() })
    }

    /// Judges it, with the pack that it was made with or another.
    pub fn judge(&self, pack: &Pack, fail_on: FailOn, evaluator: &mut dyn Evaluator) -> Report {
        let judgement = judge(pack, &self.evidence, evaluator);
        let init = self.evidence.iter().find_map(|item| match &item.run {
            ScenarioRun::Traced(trace) if !trace.init.is_null() => Some(&trace.init),
            _ => None,
        });
        let identity = self.driver.as_ref().map(|driver| &driver.identity);
        let member = |name: &str| identity.and_then(|identity| identity.get(name)?.as_str()).map(str::to_owned);
        let context = ReportContext {
            demo: self.facts.agent.demo,
            notes: login_note(&self.evidence).into_iter().collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            agent: AgentSection::from_init(self.facts.agent.argv.clone(), init.unwrap_or(&serde_json::Value::Null)),
            driver: DriverSection {
                name: member("name").unwrap_or_default(),
                version: member("version").unwrap_or_default(),
                argv: self.facts.driver.clone(),
                artifact_digest: member("artifact_digest"),
            },
            host: HostSection {
                os: std::env::consts::OS.to_owned(),
                arch: std::env::consts::ARCH.to_owned(),
                cpus: std::thread::available_parallelism().map_or(0, usize::from),
            },
            run: self.run.clone(),
            timing: TimingSection { started: self.facts.started.clone(), ..TimingSection::default() },
            recording_faults: self.gaps.clone(),
            redactions: self.redactions.clone(),
        };
        Report::new(pack, &judgement, fail_on, context)
    }
}

impl Scenario {
    fn into_run(self, stored: &StoredRun) -> Result<ScenarioRun, StoredError> {
        let broken = |fault, message: String| Ok(ScenarioRun::Broken { fault, message });
        let Some(end) = self.end else {
            return broken(Fault::Environment, "the evidence ends before the scenario does".to_owned());
        };
        match (end.end, self.start) {
            (EndKind::LacksStep, _) => {
                Ok(ScenarioRun::LacksStep { operation: end.operation.unwrap_or_else(|| "unknown".to_owned()) })
            }
            (EndKind::Broken, _) => {
                let fault = fault_of_word(end.fault.as_deref());
                broken(fault, end.message.unwrap_or_else(|| "the scenario was not carried out".to_owned()))
            }
            (EndKind::Interrupted, _) => broken(Fault::Environment, INTERRUPTED.to_owned()),
            (EndKind::Completed, None) => {
                broken(Fault::Environment, "the start of the scenario is not in the evidence".to_owned())
            }
            (EndKind::Completed, Some(start)) => {
                // Pieces of text are kept once nothing that follows belongs to a secret in them, so later than others.
                let mut observations = self.observations;
                observations.sort_by_key(|observation| observation.sequence);
                // Read once and checked, so that a trace is not built on an object that was changed.
                let mut objects = BTreeMap::new();
                for (id, digest) in self.streams {
                    objects.insert(id, stored.object(&digest)?);
                }
                let mut builder = TraceBuilder::new(&start.plan, start.timeouts_ms);
                for observation in &observations {
                    if let Some(payload) = &observation.payload {
                        let payload = payload.to_string();
                        builder.push_stored(&observation.kind, &payload, &mut |id| objects.get(id).cloned());
                    }
                }
                Ok(ScenarioRun::Traced(Arc::new(builder.finish())))
            }
        }
    }
}

fn decode<T: DeserializeOwned>(run: &str, record: &Record) -> Result<T, StoredError> {
    read_own(record.value.get().as_bytes()).map_err(|_| StoredError::Record {
        run: run.to_owned(),
        seq: record.seq,
        kind: record.kind.clone(),
    })
}
