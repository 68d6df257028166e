//! Turns observations into a trace.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::message;
use super::model::{
    DescendantFacts, EXCERPT_MAX_BYTES, Entry, EntryKind, ExitFacts, Flaw, Shape, StartFacts, StepFacts, Trace,
};
use crate::observation::{AcpFrame, Direction, Observation, StepReport, StepStatus};
use crate::pack::{Plan, Step, Timeouts};

/// Most entries of a trace.
pub const TRACE_MAX_ENTRIES: usize = 10_000;
/// Longest run of alike notifications that is kept whole; of a longer one the middle becomes one `flood` entry.
pub const FLOOD_RUN_MAX: usize = 1024;
/// Most bytes of messages that a trace keeps decoded as they are. Of later ones that are not small, long texts are cut and
/// long lists end early, so that what says which message it is still stands.
pub const JSON_MAX_BYTES: u64 = 64 << 20;
/// A message that is kept as it is in any case, in bytes.
const SMALL_JSON_BYTES: u64 = 4096;
/// Longest text in a message that was cut, in bytes.
const PRUNED_TEXT_MAX_BYTES: usize = 256;
/// Most values in a message that was cut.
const PRUNED_MAX_VALUES: usize = 256;

/// Builds a [`Trace`] from observations in their order.
#[derive(Debug)]
pub struct TraceBuilder<'a> {
    plan: &'a Plan,
    timeouts: Timeouts,
    entries: Vec<Entry>,
    run: Run,
    reports: BTreeMap<u32, StepReport>,
    start: StartFacts,
    exit: ExitFacts,
    descendants: DescendantFacts,
    exit_seen: bool,
    json_bytes: u64,
    dropped: u64,
    bytes_missing: u64,
    malformed: Vec<String>,
}

/// The run of alike notifications that the last entries belong to.
#[derive(Debug, Default)]
struct Run {
    key: Option<String>,
    head: usize,
    tail: VecDeque<Entry>,
    dropped: u64,
    dropped_at: Option<Entry>,
}

impl<'a> TraceBuilder<'a> {
    /// A builder for one scenario.
    pub fn new(plan: &'a Plan, timeouts: Timeouts) -> Self {
        Self {
            plan,
            timeouts,
            entries: Vec::new(),
            run: Run::default(),
            reports: BTreeMap::new(),
            start: StartFacts::Unknown,
            exit: ExitFacts::default(),
            descendants: DescendantFacts::default(),
            exit_seen: false,
            json_bytes: 0,
            dropped: 0,
            bytes_missing: 0,
            malformed: Vec::new(),
        }
    }

    /// Takes the next observation. `stream` gives the bytes of a companion stream, if they are in the evidence.
    pub fn push(&mut self, observation: &Observation, stream: &mut dyn FnMut(&str) -> Option<Vec<u8>>) {
        match observation {
            Observation::Start(start) => {
                self.start = match &start.failure {
                    None => StartFacts::Started,
                    Some(failure) => StartFacts::Failed(failure.clone()),
                };
            }
            Observation::Frame(frame) => self.frame(frame, stream),
            Observation::Omitted(omitted) => {
                self.end_run();
                let mut flood = blank(EntryKind::Flood, omitted.first_t_ns);
                flood.dir = Some(omitted.dir);
                flood.line = omitted.first_line;
                flood.size = omitted.bytes;
                flood.count = omitted.count;
                flood.text = format!("{} lines that the driver counted", omitted.count);
                self.keep(flood);
            }
            Observation::Stderr(stderr) => {
                let mut entry = blank(EntryKind::Stderr, stderr.t_ns);
                entry.size = stderr.text.len() as u64;
                entry.text = excerpt(&stderr.text);
                self.add(entry);
            }
            Observation::Exit(exit) => {
                self.exit_seen = true;
                self.exit = ExitFacts {
                    known: true,
                    code: exit.code,
                    signal: exit.signal,
                    phase: exit.phase.as_str().to_owned(),
                    t_ms: ms(exit.t_ns),
                    after_close_ms: exit.stdin_closed_t_ns.map_or(-1.0, |closed| ms(exit.t_ns.saturating_sub(closed))),
                };
                let mut entry = blank(EntryKind::Exit, exit.t_ns);
                entry.text = match (exit.code, exit.signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, Some(signal)) => format!("signal {signal}"),
                    (None, None) => "exit status unknown".to_owned(),
                };
                entry.status = self.exit.phase.clone();
                self.add(entry);
            }
            Observation::Descendants(descendants) => {
                self.descendants = DescendantFacts {
                    known: descendants.known,
                    count: descendants.count,
                    names: descendants.processes.iter().map(|process| process.name.clone()).collect(),
                };
                let mut entry = blank(EntryKind::Descendants, descendants.t_ns);
                entry.text = match descendants.count {
                    0 => "no process left".to_owned(),
                    count => format!("{count} process(es) left: {}", self.descendants.names.join(", ")),
                };
                self.add(entry);
            }
            Observation::Step(report) => {
                let mut entry = blank(EntryKind::Step, report.t_ns);
                entry.step = Some(report.index);
                entry.name = report.name.clone().unwrap_or_default();
                entry.status = report.status.as_str().to_owned();
                entry.text = report.detail.clone().unwrap_or_default();
                self.add(entry);
                self.reports.insert(report.index, report.clone());
            }
        }
    }

    /// Takes the payload of an observation as it is stored. An unknown kind is ignored; a payload that does not have its
    /// kind's form becomes a [`Flaw`].
    pub fn push_stored(&mut self, kind: &str, payload: &str, stream: &mut dyn FnMut(&str) -> Option<Vec<u8>>) {
        match Observation::decode(kind, payload) {
            Some(Ok(observation)) => self.push(&observation, stream),
            Some(Err(error)) => self.malformed.push(format!("{kind}: {error}")),
            None => {}
        }
    }

    /// The trace.
    pub fn finish(mut self) -> Trace {
        self.end_run();
        if self.dropped > 0 {
            let mut gap = blank(EntryKind::Gap, 0);
            gap.t_ms = self.entries.last().map_or(0.0, |entry| entry.t_ms);
            gap.count = self.dropped;
            gap.text = format!("{} more entries were not kept", self.dropped);
            self.entries.push(gap);
        }
        for (i, entry) in self.entries.iter_mut().enumerate() {
            entry.i = i;
        }
        let replies = match_replies(&mut self.entries, self.plan);
        mark_sessions(&mut self.entries);
        let closing = self.closing();
        let steps = self.step_facts(&replies, closing);
        let init = self
            .entries
            .iter()
            .filter(|entry| entry.dir == Some(Direction::Out) && entry.method() == "initialize")
            .filter_map(|entry| self.reply_in_time(entry, closing)?.json.get("result"))
            .find(|result| !result.is_null())
            .cloned()
            .unwrap_or(Value::Null);
        let mut flaws = Vec::new();
        if self.dropped > 0 {
            flaws.push(Flaw::Dropped(self.dropped));
        }
        if self.bytes_missing > 0 {
            flaws.push(Flaw::BytesMissing(self.bytes_missing));
        }
        if !self.exit_seen && !matches!(self.start, StartFacts::Failed(_)) {
            flaws.push(Flaw::Incomplete);
        }
        flaws.extend(self.malformed.into_iter().map(Flaw::Malformed));
        Trace {
            scenario: self.plan.id.clone(),
            entries: self.entries,
            steps,
            init,
            start: self.start,
            exit: self.exit,
            descendants: self.descendants,
            timeouts: self.timeouts,
            offered: self.plan.client_capabilities.clone(),
            flaws,
        }
    }

    fn frame(&mut self, frame: &AcpFrame, stream: &mut dyn FnMut(&str) -> Option<Vec<u8>>) {
        let mut entry = blank(EntryKind::Frame, frame.t_ns);
        entry.dir = Some(frame.dir);
        entry.line = frame.line;
        entry.step = frame.step;
        entry.name = frame.name.clone().unwrap_or_default();
        entry.unterminated = frame.unterminated;
        let bytes = match (&frame.text, &frame.base64, &frame.stream_id) {
            (Some(text), _, _) => Some(text.clone().into_bytes()),
            (None, Some(encoded), _) => STANDARD.decode(encoded).ok(),
            (None, None, Some(id)) => stream(id),
            (None, None, None) => None,
        };
        match bytes {
            Some(bytes) => {
                let message = message::read(&bytes);
                entry.size = bytes.len() as u64;
                entry.text = excerpt(&String::from_utf8_lossy(&bytes[..bytes.len().min(2 * EXCERPT_MAX_BYTES)]));
                entry.valid = message.fault.is_empty();
                entry.fault = message.fault.to_owned();
                entry.fault_detail = message.detail;
                entry.shape = message.shape;
                entry.lone_surrogates = message.lone_surrogates;
                self.json_bytes = self.json_bytes.saturating_add(entry.size);
                entry.json = if self.json_bytes <= JSON_MAX_BYTES || entry.size <= SMALL_JSON_BYTES {
                    message.json
                } else {
                    prune(message.json, &mut { PRUNED_MAX_VALUES })
                };
            }
            None => {
                entry.valid = false;
                if let Some(bytes) = frame.over_long_bytes {
                    entry.size = bytes;
                    entry.fault = "too_large".to_owned();
                } else {
                    entry.fault = "not_recorded".to_owned();
                    self.bytes_missing += 1;
                }
            }
        }
        self.add(entry);
    }

    fn add(&mut self, entry: Entry) {
        let key = flood_key(&entry);
        if key.is_none() || key != self.run.key {
            self.end_run();
            self.run.key = key;
        }
        if self.run.key.is_none() {
            self.keep(entry);
        } else if self.run.head < FLOOD_RUN_MAX / 2 {
            self.run.head += 1;
            self.keep(entry);
        } else {
            self.run.tail.push_back(entry);
            if self.run.tail.len() > FLOOD_RUN_MAX / 2 {
                self.run.dropped += 1;
                let first = self.run.tail.pop_front();
                if self.run.dropped_at.is_none() {
                    self.run.dropped_at = first;
                }
            }
        }
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if let Some(first) = run.dropped_at {
            let mut flood = blank(EntryKind::Flood, 0);
            flood.t_ms = first.t_ms;
            flood.dir = first.dir;
            flood.line = first.line;
            flood.step = first.step;
            flood.json = first.json;
            flood.text = first.text;
            flood.count = run.dropped;
            self.keep(flood);
        }
        for entry in run.tail {
            self.keep(entry);
        }
    }

    /// Keeps an entry while there is room. What the judge cannot do without (responses, requests, steps, the end) has
    /// room in any case, bounded by what a scenario can bring about.
    fn keep(&mut self, entry: Entry) {
        let common = entry.kind == EntryKind::Stderr || entry.shape == Shape::Notification || !entry.valid;
        let room = if common { TRACE_MAX_ENTRIES - TRACE_MAX_ENTRIES / 10 } else { TRACE_MAX_ENTRIES - 1 };
        if self.entries.len() < room {
            self.entries.push(entry);
        } else {
            self.dropped += entry.count;
        }
    }

    /// Where the driver closed the agent's standard input: as a step of the plan, or behind the last one. Evidence of a
    /// driver that does not say so has no such place.
    fn closing(&self) -> Option<usize> {
        self.entries.iter().position(|entry| {
            let closes = |step: u32| match self.plan.steps.get(step as usize) {
                Some(step) => matches!(step, Step::CloseStdin(_)),
                None => true,
            };
            entry.kind == EntryKind::Step && entry.status == StepStatus::Ok.as_str() && entry.step.is_some_and(closes)
        })
    }

    /// The first response to what the driver sent, if it came in time. An answer from behind the closing is what an agent
    /// says when it is told to go: where a step had waited for it in vain, nobody would have got it. Where no step waited,
    /// the agent was given no other time for it, and the answer counts.
    fn reply_in_time(&self, sent: &Entry, closing: Option<usize>) -> Option<&Entry> {
        let reply = self.entries.get(sent.answered?)?;
        let late = closing.is_some_and(|closing| reply.i > closing) && self.waited_in_vain(&sent.name);
        (!late).then_some(reply)
    }

    /// Whether the last step that waited for the reply to the step `name` waited to its end.
    fn waited_in_vain(&self, name: &str) -> bool {
        let waited =
            |index: &u32| self.plan.steps.get(*index as usize).is_some_and(|step| step.awaits_reply_to() == Some(name));
        let mut carried_out = self.reports.iter().rev().filter(|(_, report)| report.status != StepStatus::Skipped);
        carried_out.find(|(index, _)| waited(index)).is_some_and(|(_, report)| report.status == StepStatus::Timeout)
    }

    fn step_facts(&self, replies: &HashMap<usize, u64>, closing: Option<usize>) -> BTreeMap<String, StepFacts> {
        let mut facts = BTreeMap::new();
        for (index, step) in self.plan.steps.iter().enumerate() {
            let Some(name) = step.name() else { continue };
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let report = self.reports.get(&index);
            let sent = self
                .entries
                .iter()
                .find(|entry| entry.dir == Some(Direction::Out) && entry.step == Some(index) && entry.name == name);
            let frame = match report.and_then(|report| report.frame_line) {
                Some(line) => self.entries.iter().find(|entry| entry.is_inbound() && entry.line == line),
                None => sent,
            };
            let reply = sent.and_then(|entry| self.reply_in_time(entry, closing));
            let started = report.and_then(|report| report.start_t_ns).map_or(-1.0, ms);
            let ended = match report {
                Some(report) if report.start_t_ns.is_some() => ms(report.t_ns),
                _ => -1.0,
            };
            facts.insert(
                name.to_owned(),
                StepFacts {
                    index,
                    kind: step.kind().to_owned(),
                    status: report.map_or("skipped", |report| report.status.as_str()).to_owned(),
                    detail: report.and_then(|report| report.detail.clone()).unwrap_or_default(),
                    frame: frame.map(|entry| entry.i),
                    reply: reply.map(|entry| entry.i),
                    replies: sent.and_then(|entry| replies.get(&entry.i).copied()).unwrap_or(0),
                    sent: sent.is_some(),
                    t_ms: sent.map_or(started, |entry| entry.t_ms),
                    end_ms: reply.map_or(ended, |entry| entry.t_ms),
                    session: session_of(step, sent, reply),
                },
            );
        }
        facts
    }
}

/// Finds the first response of each request, in both directions, and counts the responses per request.
fn match_replies(entries: &mut [Entry], plan: &Plan) -> HashMap<usize, u64> {
    let mut pending: HashMap<(Direction, String), VecDeque<usize>> = HashMap::new();
    let mut last: HashMap<(Direction, String), usize> = HashMap::new();
    let mut replies: HashMap<usize, u64> = HashMap::new();
    for at in 0..entries.len() {
        let entry = &entries[at];
        let Some(dir) = entry.dir.filter(|_| entry.kind == EntryKind::Frame) else { continue };
        if entry.shape == Shape::Response {
            let asked = match dir {
                Direction::In => Direction::Out,
                Direction::Out => Direction::In,
            };
            let key = (asked, entry.id().to_string());
            // Without an id the answer is to the last line that may be answered so, with one to the first.
            let take = if entry.id().is_null() { VecDeque::pop_back } else { VecDeque::pop_front };
            if let Some(request) = pending.get_mut(&key).and_then(take) {
                if !entry.id().is_null()
                    && let Some(open) = pending.get_mut(&(asked, "null".to_owned()))
                {
                    // A peer answers lines in order, so what it passed over it does not answer any more.
                    open.retain(|line| *line > request);
                }
                entries[at].answers = Some(request);
                entries[request].answered = Some(at);
                replies.insert(request, 1);
                last.insert(key, request);
            } else if let Some(request) = last.get(&key).filter(|_| key.1 != "null") {
                *replies.entry(*request).or_default() += 1;
            }
        } else if let Some(id) = expected_id(entry, plan) {
            pending.entry((dir, id)).or_default().push_back(at);
        }
    }
    replies
}

/// Notes which session each frame is about, and whether the client can know it: created by a `session/new` of this trace,
/// listed by the agent, or named by the client.
fn mark_sessions(entries: &mut [Entry]) {
    let mut known = HashSet::new();
    for entry in entries.iter_mut() {
        let place = if entry.shape == Shape::Response { "/result/sessionId" } else { "/params/sessionId" };
        entry.session = entry.json.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        let named_by_client = entry.dir == Some(Direction::Out);
        let created = entry.dir == Some(Direction::In) && entry.shape == Shape::Response;
        if !entry.session.is_empty() && (named_by_client || created) {
            known.insert(entry.session.clone());
        }
        // `session/list` tells the client of sessions.
        let listed = entry.json.pointer("/result/sessions").filter(|_| created).and_then(Value::as_array);
        let listed = listed.into_iter().flatten().filter_map(|session| session.get("sessionId")?.as_str());
        known.extend(listed.map(str::to_owned));
    }
    for entry in entries {
        entry.session_known = known.contains(&entry.session);
    }
}

/// The id, as JSON text, with which a frame may be answered.
fn expected_id(entry: &Entry, plan: &Plan) -> Option<String> {
    if entry.dir == Some(Direction::Out)
        && let Some(Step::Raw(raw)) = entry.step.and_then(|step| plan.steps.get(step as usize))
        && let Some(id) = &raw.id
    {
        return serde_json::from_str::<Value>(id).ok().map(|id| id.to_string());
    }
    (entry.shape == Shape::Request).then(|| entry.id().to_string())
}

fn session_of(step: &Step, sent: Option<&Entry>, reply: Option<&Entry>) -> String {
    let value = match step {
        Step::NewSession(_) => reply.and_then(|entry| entry.json.pointer("/result/sessionId")),
        _ => sent.and_then(|entry| entry.json.pointer("/params/sessionId")),
    };
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Notifications with the same key say the same kind of thing about the same session.
fn flood_key(entry: &Entry) -> Option<String> {
    if entry.kind != EntryKind::Frame || entry.shape != Shape::Notification || !entry.valid {
        return None;
    }
    let dir = entry.dir?.as_str();
    let part = |pointer| entry.json.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{dir}\n{}\n{}\n{}", entry.method(), part("/params/sessionId"), part("/params/update/sessionUpdate")))
}

/// The same message with less in it: every value has the type that it had, texts are cut, and when `left` values were taken
/// the rest of each list and object is left out.
fn prune(json: Value, left: &mut usize) -> Value {
    *left = left.saturating_sub(1);
    match json {
        Value::String(mut text) => {
            let mut end = text.len().min(PRUNED_TEXT_MAX_BYTES);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.shrink_to_fit();
            Value::String(text)
        }
        Value::Array(items) => {
            let mut kept = Vec::new();
            for item in items {
                if *left == 0 {
                    break;
                }
                kept.push(prune(item, left));
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let mut kept = serde_json::Map::new();
            // Shallow ones first: what says which message it is stands next to what may be long.
            let (flat, deep): (Vec<_>, Vec<_>) =
                members.into_iter().partition(|(_, value)| !matches!(value, Value::Array(_) | Value::Object(_)));
            for (name, value) in flat.into_iter().chain(deep) {
                if *left == 0 {
                    break;
                }
                // None takes what its neighbours need.
                let mut share = left.div_ceil(2);
                *left -= share;
                kept.insert(name, prune(value, &mut share));
                *left += share;
            }
            Value::Object(kept)
        }
        other => other,
    }
}

fn blank(kind: EntryKind, t_ns: u64) -> Entry {
    Entry {
        i: 0,
        t_ms: ms(t_ns),
        kind,
        dir: None,
        line: 0,
        text: String::new(),
        size: 0,
        json: Value::Null,
        valid: true,
        fault: String::new(),
        fault_detail: String::new(),
        shape: Shape::Other,
        session: String::new(),
        session_known: false,
        answers: None,
        answered: None,
        step: None,
        name: String::new(),
        status: String::new(),
        unterminated: false,
        lone_surrogates: 0,
        count: 1,
    }
}

fn ms(t_ns: u64) -> f64 {
    t_ns as f64 / 1e6
}

fn excerpt(text: &str) -> String {
    let mut end = text.len().min(EXCERPT_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_that_is_cut_still_says_what_it_is() {
        let text = "x".repeat(1 << 20);
        let message = json!({
            "jsonrpc": "2.0", "method": "session/update",
            "params": {
                "blob": vec![json!({"a": text.clone()}); 1000], "sessionId": "s",
                "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}},
            },
        });
        let pruned = prune(message, &mut { PRUNED_MAX_VALUES });
        assert_eq!(pruned["params"]["sessionId"], "s");
        assert_eq!(pruned["params"]["update"]["sessionUpdate"], "agent_message_chunk");
        assert_eq!(pruned["params"]["update"]["content"]["type"], "text");
        assert_eq!(pruned["method"], "session/update");
        assert!(pruned.to_string().len() < 128 << 10);
        let update = json!({"params": {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}}});
        assert_eq!(prune(update.clone(), &mut { PRUNED_MAX_VALUES }), update);
    }
}
