//! The recorder: every event sanitised, kept, and made part of a trace.
//!
//! It runs on a thread of its own, because it waits for the disk. When the disk fails, recording ends and the check goes
//! on: a trace is built from what was sanitised, not from what was written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_sdk::driver::{Exchange, Refusal};
use pintle_store::evidence::{EvidenceError, EvidenceRun};
use pintle_store::sanitise::{PieceRedactor, Redactions};
use pintle_store::{Sanitised, Sanitiser};
use pintle_wire::{Profile, ScanLimits, scan};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::drive::{DriverFacts, EXCHANGE_KEPT_BYTES, End, Event, INTERRUPTED};
use super::evidence::{
    DriverEndRecord, DriverRecord, EndKind, EndRecord, Head, NetworkRecord, ObservationRecord, StartRecord,
    StreamRecord, kind,
};
use super::plan::Job;
use super::progress::Progress;
use super::streams::{Kept, Streams};
use super::texts::TextKey;
use crate::json::read_own;
use crate::judge::{Fault, ScenarioEvidence, ScenarioRun};
use crate::report::ScenarioTiming;
use crate::trace::{Trace, TraceBuilder};

/// Deepest nesting of a payload; Driver RPC has refused anything deeper before.
const MAX_DEPTH: usize = 256;
/// Longest payload, in bytes; a control frame is shorter.
const MAX_PAYLOAD_BYTES: usize = 2 * 1024 * 1024;

/// Everything that the recorder knows when the last driver has ended.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) evidence: Vec<ScenarioEvidence>,
    pub(super) driver: Option<DriverFacts>,
    pub(super) timing: Vec<ScenarioTiming>,
    pub(super) interrupted: bool,
    pub(super) run: Option<EvidenceRun>,
    pub(super) faults: Vec<String>,
    /// What was replaced, also where nothing is kept.
    pub(super) redactions: Redactions,
}

/// The recorder.
pub(super) struct Recorder {
    pub(super) jobs: Arc<[Job]>,
    pub(super) sanitiser: Arc<Sanitiser>,
    pub(super) run: Option<EvidenceRun>,
    pub(super) faults: Vec<String>,
    pub(super) redactions: Redactions,
    pub(super) progress: mpsc::UnboundedSender<Progress>,
}

/// Texts that come in pieces and are followed at a time, in one scenario; the pieces of more are looked at one by one.
const MAX_TEXTS: usize = 64;

/// A scenario in the making.
#[derive(Default)]
struct Open<'s> {
    began: Option<Instant>,
    /// In the order in which they were let go; the trace is built in that of the sequence.
    observations: Vec<(u64, Box<str>, String)>,
    texts: BTreeMap<TextKey, PieceRedactor<'s, Held>>,
    streams: Streams<'s>,
}

/// An observation whose text may be a piece of a secret.
#[derive(Debug)]
struct Held {
    key: TextKey,
    record: ObservationRecord,
}

impl Recorder {
    /// Takes events until nobody sends any more.
    pub(super) fn record(mut self, mut events: mpsc::Receiver<Event>) -> Recorded {
        let sanitiser = Arc::clone(&self.sanitiser);
        let mut open: BTreeMap<usize, Open<'_>> = BTreeMap::new();
        let mut recorded = Recorded {
            evidence: Vec::new(),
            driver: None,
            timing: Vec::new(),
            interrupted: false,
            run: None,
            faults: Vec::new(),
            redactions: Redactions::default(),
        };
        while let Some(event) = events.blocking_recv() {
            match event {
                Event::Driver(facts) => {
                    self.driver(&facts);
                    recorded.driver.get_or_insert(*facts);
                }
                Event::Network(exchanges) => exchanges.iter().for_each(|exchange| self.network(exchange)),
                Event::DriverEnded(budget) => {
                    self.append(kind::DRIVER_END, &DriverEndRecord { budget: *budget });
                }
                Event::Started { job, invocation, attempt } => {
                    open.entry(job).or_default().began = Some(Instant::now());
                    let Job { plan, timeouts } = self.jobs[job].clone();
                    let scenario = plan.id.clone();
                    self.tell(Progress::Started { scenario: scenario.clone() });
                    let start = StartRecord { scenario, invocation, attempt, plan, timeouts_ms: timeouts };
                    self.append(kind::SCENARIO_START, &start);
                }
                Event::Observation { job, sequence, kind, monotonic_ns, payload } => {
                    let scenario = self.jobs[job].plan.id.clone();
                    let mut payload = payload.and_then(|payload| parse(&payload));
                    if let Some(payload) = &mut payload {
                        self.look_into_base64(payload);
                    }
                    let record = ObservationRecord { scenario, sequence, kind: kind.into(), monotonic_ns, payload };
                    let scenario = open.entry(job).or_default();
                    let followed = TextKey::of(&record)
                        .filter(|(key, _)| scenario.texts.len() < MAX_TEXTS || scenario.texts.contains_key(key));
                    match followed {
                        Some((key, text)) => {
                            let held = Held { key: key.clone(), record };
                            let follows_gap = key.follows_gap(&held.record);
                            let text_redactor = scenario.texts.entry(key).or_insert_with(|| sanitiser.pieces());
                            let mut certain = if follows_gap { text_redactor.gap() } else { Vec::new() };
                            certain.extend(text_redactor.push(held, text.as_bytes()));
                            self.let_go(scenario, certain);
                        }
                        None => self.observe(scenario, &record),
                    }
                }
                Event::Data { job, stream_id, bytes, is_final } => {
                    let scenario = open.entry(job).or_default();
                    let (run, redactions) = (&mut self.run, &mut self.redactions);
                    let kept = scenario.streams.take(&sanitiser, run, redactions, &stream_id, &bytes, is_final);
                    self.stream(job, &stream_id, kept);
                }
                Event::Ended { job, end } => {
                    let mut scenario = open.remove(&job).unwrap_or_default();
                    for (_, text) in std::mem::take(&mut scenario.texts) {
                        self.let_go(&mut scenario, text.finish());
                    }
                    self.end(job, &end);
                    recorded.interrupted |= end == End::Interrupted;
                    let id = self.jobs[job].plan.id.clone();
                    if let Some(began) = scenario.began {
                        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                        recorded.timing.push(ScenarioTiming { id: id.clone(), ms });
                    }
                    let run = self.scenario_run(job, scenario, end);
                    recorded.evidence.push(ScenarioEvidence { id: id.clone(), run });
                    self.tell(Progress::Ended { scenario: id, done: recorded.evidence.len(), of: self.jobs.len() });
                }
            }
        }
        recorded.timing.sort_by(|a, b| a.id.cmp(&b.id));
        recorded.run = self.run;
        recorded.faults = self.faults;
        recorded.redactions = self.redactions;
        recorded
    }

    fn driver(&mut self, facts: &DriverFacts) {
        let record = DriverRecord {
            identity: serde_json::to_value(&facts.hello.identity).unwrap_or(Value::Null),
            operations: facts.hello.capabilities.operations.iter().map(|name| name.to_string()).collect(),
            requested: facts.hello.requested_permissions.iter().map(ToString::to_string).collect(),
            approved: facts.approved.iter().map(ToString::to_string).collect(),
            permissions: facts.accepted.iter().map(ToString::to_string).collect(),
            kept: facts.kept,
            isolation: facts.applied.clone(),
        };
        self.append(kind::DRIVER, &record);
    }

    fn network(&mut self, exchange: &Exchange) {
        let record = NetworkRecord {
            to: exchange.to.clone(),
            refused: exchange.refused.map(Refusal::as_str),
            sent_bytes: exchange.sent_bytes,
            sent: self.head(&exchange.sent, exchange.sent_bytes),
            received_bytes: exchange.received_bytes,
            received: self.head(&exchange.received, exchange.received_bytes),
        };
        self.append(kind::NETWORK, &record);
    }

    /// The first of `all_bytes` that were said, of which `bytes` were kept. Secrets are looked for before the bytes are cut
    /// and encoded, after which they would not be found.
    fn head(&mut self, bytes: &[u8], all_bytes: u64) -> Head {
        let is_whole = bytes.len() as u64 == all_bytes;
        let certain = if is_whole { bytes.len() } else { bytes.len().saturating_sub(self.sanitiser.hold_back_bytes()) };
        let kept = self.sanitiser.beginning(bytes, certain.min(EXCHANGE_KEPT_BYTES));
        self.redactions.add(kept.redactions());
        match std::str::from_utf8(kept.bytes()) {
            Ok(text) => Head::Text(text.to_owned()),
            // The cut went through a character.
            Err(error) if error.error_len().is_none() => {
                Head::Text(String::from_utf8_lossy(&kept.bytes()[..error.valid_up_to()]).into_owned())
            }
            Err(_) => Head::Base64(STANDARD.encode(kept.bytes())),
        }
    }

    /// Keeps an observation, and gives back what a trace may see of it.
    fn observation(&mut self, record: &ObservationRecord) -> Option<(Box<str>, String)> {
        let sanitised = self.append(kind::OBSERVATION, record)?;
        let kept: ObservationRecord = read_own(sanitised.bytes()).ok()?;
        Some((kept.kind.into(), kept.payload?.to_string()))
    }

    fn observe(&mut self, scenario: &mut Open<'_>, record: &ObservationRecord) {
        if let Some((kind, payload)) = self.observation(record) {
            scenario.observations.push((record.sequence, kind, payload));
        }
    }

    /// Keeps observations whose text is certain by now.
    fn let_go(&mut self, scenario: &mut Open<'_>, certain: Vec<(Held, Sanitised)>) {
        for (Held { key, mut record }, text) in certain {
            self.redactions.add(text.redactions());
            if let Err(fault) = key.put(&mut record, &text) {
                self.faults.push(fault.to_owned());
                continue;
            }
            self.observe(scenario, &record);
        }
    }

    /// A line that is not UTF-8 travels as base64, in which only canaries would be seen.
    fn look_into_base64(&mut self, payload: &mut Value) {
        let Some(Value::String(encoded)) = payload.get_mut("base64") else { return };
        let Ok(bytes) = STANDARD.decode(encoded.as_bytes()) else { return };
        let kept = self.sanitiser.text(&bytes, usize::MAX);
        if !kept.redactions().is_empty() {
            self.redactions.add(kept.redactions());
            *encoded = STANDARD.encode(kept.bytes());
        }
    }

    /// Notes where a stream is kept that has come to its end.
    fn stream(&mut self, job: usize, stream_id: &str, kept: Option<Kept>) {
        let Some(Kept { object, bytes, untraced }) = kept else { return };
        if let Some(object) = self.noted(object) {
            let scenario = self.jobs[job].plan.id.clone();
            let stream_id = stream_id.to_owned();
            self.append(kind::STREAM, &StreamRecord { scenario, stream_id, object, bytes, untraced });
        }
    }

    fn end(&mut self, job: usize, end: &End) {
        let mut record = EndRecord {
            scenario: self.jobs[job].plan.id.clone(),
            end: EndKind::Completed,
            summary_digest: None,
            operation: None,
            fault: None,
            message: None,
        };
        match end {
            End::Completed { summary } => record.summary_digest = Some(*summary),
            End::LacksStep { operation } => {
                record.end = EndKind::LacksStep;
                record.operation = Some(operation.clone());
            }
            End::Broken { fault, message } => {
                record.end = EndKind::Broken;
                record.fault = Some(fault.as_str().to_owned());
                record.message = Some(message.clone());
            }
            End::Interrupted => record.end = EndKind::Interrupted,
        }
        self.append(kind::SCENARIO_END, &record);
        // What was seen so far survives a crash of this program from here on.
        let synced = self.run.as_mut().map(EvidenceRun::sync);
        self.noted(synced);
    }

    fn scenario_run(&self, job: usize, mut scenario: Open<'_>, end: End) -> ScenarioRun {
        match end {
            End::Completed { .. } => {
                let Job { plan, timeouts } = &self.jobs[job];
                let mut builder = TraceBuilder::new(plan, *timeouts);
                scenario.observations.sort_by_key(|(sequence, ..)| *sequence);
                for (_, kind, payload) in &scenario.observations {
                    builder.push_stored(kind, payload, &mut |id| scenario.streams.traced(id));
                }
                ScenarioRun::Traced(Arc::<Trace>::new(builder.finish()))
            }
            End::LacksStep { operation } => ScenarioRun::LacksStep { operation },
            End::Broken { fault, message } => ScenarioRun::Broken { fault, message },
            End::Interrupted => ScenarioRun::Broken { fault: Fault::Environment, message: INTERRUPTED.to_owned() },
        }
    }

    /// Sanitises a value and keeps it. `None` only if it cannot be sanitised at all.
    fn append<T: Serialize>(&mut self, kind: &str, value: &T) -> Option<Sanitised> {
        match self.sanitiser.value(value) {
            Ok(sanitised) => {
                self.redactions.add(sanitised.redactions());
                let appended = self.run.as_mut().map(|run| run.append(kind, &sanitised));
                self.noted(appended);
                Some(sanitised)
            }
            Err(error) => {
                self.faults.push(format!("failed to record a {kind}: {error}"));
                None
            }
        }
    }

    /// Notes the first failure to record; everything after it is refused for the same reason.
    fn noted<T>(&mut self, result: Option<Result<T, EvidenceError>>) -> Option<T> {
        match result? {
            Ok(value) => Some(value),
            Err(EvidenceError::Stopped { .. }) => None,
            Err(error) => {
                self.faults.push(fault_text(&error));
                None
            }
        }
    }

    fn tell(&self, progress: Progress) {
        // Nobody has to look.
        let _unseen = self.progress.send(progress);
    }
}

/// What a report says of a failure to record.
pub(super) fn fault_text(error: &EvidenceError) -> String {
    let mut text = format!("failed to record evidence: {error}");
    let mut below = std::error::Error::source(error);
    while let Some(source) = below {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        below = source.source();
    }
    text
}

fn parse(payload: &str) -> Option<Value> {
    let limits = ScanLimits { max_bytes: MAX_PAYLOAD_BYTES, max_depth: MAX_DEPTH };
    scan(payload.as_bytes(), Profile::DriverRpc, limits).ok()?.decode().ok()
}

#[cfg(test)]
mod tests {
    use pintle_store::RealFs;
    use pintle_store::evidence::Places;
    use pintle_wire::InstanceId;

    use super::*;

    const SECRET: &str = "s3cr3t-Canary-0123456789";

    /// What stands in the journal of a run in which one connection went through the recorder.
    fn journal(exchange: Exchange) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let sanitiser = Arc::new(Sanitiser::new([SECRET]));
        let facts = sanitiser.value(&serde_json::json!({"schema": "test"})).expect("facts");
        let id = InstanceId::new(1_700_000_000_000, [3; 16]).expect("an id");
        let run = EvidenceRun::create(Arc::new(RealFs), &Places::below(dir.path()), id, &facts).expect("a run");
        let journal = run.dir().join("journal.ndjson");
        let (progress, _) = mpsc::unbounded_channel();
        let mut recorder = Recorder {
            jobs: Arc::new([]),
            sanitiser,
            run: Some(run),
            faults: Vec::new(),
            redactions: Redactions::default(),
            progress,
        };
        recorder.network(&exchange);
        assert_eq!(recorder.faults, Vec::<String>::new());
        recorder.run.take().expect("a run").finish().expect("it is finished");
        std::fs::read_to_string(journal).expect("a journal")
    }

    /// No canary survives in any sink: not in parts either, wherever the limit of what is kept cuts it, plain or not.
    #[test]
    fn a_secret_that_the_recorders_limit_cuts_is_gone() {
        let hold_back = Sanitiser::new([SECRET]).hold_back_bytes();
        let encoded = STANDARD.encode(SECRET);
        for spelled in [SECRET, encoded.as_str()] {
            for before in (EXCHANGE_KEPT_BYTES - spelled.len()..=EXCHANGE_KEPT_BYTES).step_by(3) {
                let mut said = vec![b'.'; before];
                said.extend_from_slice(spelled.as_bytes());
                said.resize(EXCHANGE_KEPT_BYTES + hold_back, b'.');
                let mut exchange = Exchange::default();
                // One direction was cut by Core's limit for each, the other by that for all.
                (exchange.sent_bytes, exchange.received_bytes) = (1 << 20, 1 << 20);
                exchange.received = said[..before + 5].to_vec();
                exchange.sent = said;
                let journal = journal(exchange);
                for part in spelled.as_bytes().windows(6) {
                    assert!(memchr::memmem::find(journal.as_bytes(), part).is_none(), "{spelled} behind {before}");
                }
                assert!(journal.contains(&".".repeat(before)), "what stands before it is whole");
            }
        }
    }

    #[test]
    fn what_was_kept_as_a_whole_is_shown_as_a_whole() {
        let mut exchange = Exchange::default();
        exchange.sent = format!("first {SECRET} last").into_bytes();
        exchange.sent_bytes = exchange.sent.len() as u64;
        // A character that the limit cuts is left out, and does not make bytes of a text.
        exchange.received = "\u{20ac}".repeat(20_000).into_bytes();
        exchange.received_bytes = 60_000;
        let journal = journal(exchange);
        assert!(journal.contains("first [redacted:canary] last"), "{journal}");
        assert!(journal.contains(&format!("\"{}\"", "\u{20ac}".repeat(EXCHANGE_KEPT_BYTES / 3))));
    }
}
