//! Reads the hand-written traces of `testdata/check`, whose format its README describes.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_check::observation::{
    AcpFrame, AgentDescendants, AgentExit, AgentStart, AgentStderr, Descendant, Direction, ExitPhase, Observation,
    StepReport, StepStatus,
};
use pintle_check::pack::{Pack, Plan};
use pintle_check::trace::{Trace, TraceBuilder};

/// One section of a file: a trace and what must be found in it.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) expected: BTreeMap<String, String>,
    /// Requirements whose dependants are blocked by them.
    pub(crate) blocking: Vec<String>,
    pub(crate) lines: Vec<String>,
}

/// The sections of a file. The first one is the base; each other one is the base after its edits.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(title) = line.strip_prefix("= ") {
            let lines = sections.first().map(|base| base.lines.clone()).unwrap_or_default();
            sections.push(Section { title: title.to_owned(), expected: BTreeMap::new(), blocking: Vec::new(), lines });
            continue;
        }
        let is_base = sections.len() == 1;
        let section = sections.last_mut().expect("a file begins with a section");
        if let Some(id) = line.strip_prefix("?? ") {
            section.blocking.push(id.to_owned());
        } else if let Some(expected) = line.strip_prefix("? ") {
            for item in expected.split(',') {
                let (id, outcome) = item.trim().split_once(' ').unwrap_or_else(|| panic!("{line}: ID OUTCOME"));
                section.expected.insert(id.to_owned(), outcome.trim().to_owned());
            }
        } else if is_base {
            section.lines.push(line.to_owned());
        } else {
            edit(section, line);
        }
    }
    sections
}

fn edit(section: &mut Section, line: &str) {
    let find = |lines: &[String], pattern: &str| {
        lines
            .iter()
            .position(|line| line.contains(pattern))
            .unwrap_or_else(|| panic!("{}: no line has {pattern}", section.title))
    };
    if let Some(pattern) = line.strip_prefix("- ") {
        let at = find(&section.lines, pattern);
        section.lines.remove(at);
    } else if let Some(rest) = line.strip_prefix("~ ") {
        let (from, to) = rest.split_once(" => ").unwrap_or_else(|| panic!("{line}: FROM => TO"));
        let at = find(&section.lines, from);
        section.lines[at] = section.lines[at].replace(from, to);
    } else if let Some(rest) = line.strip_prefix("+ ") {
        let (after, new) = rest.split_once(" => ").unwrap_or_else(|| panic!("{line}: AFTER => LINE"));
        let at = find(&section.lines, after);
        section.lines.insert(at + 1, new.to_owned());
    } else if let Some(rest) = line.strip_prefix("^ ") {
        let (before, new) = rest.split_once(" => ").unwrap_or_else(|| panic!("{line}: BEFORE => LINE"));
        let at = find(&section.lines, before);
        section.lines.insert(at, new.to_owned());
    } else if let Some(pattern) = line.strip_prefix("/ ") {
        let at = find(&section.lines, pattern);
        let end: Vec<_> = section.lines.split_off(at).into_iter().filter(|line| is_end(line)).collect();
        section.lines.extend(end);
    } else {
        // Anything else is a line of the trace, added at its end.
        section.lines.push(line.to_owned());
    }
}

/// True for lines that tell how the agent ended.
fn is_end(line: &str) -> bool {
    line.starts_with("exit ") || line.starts_with("left ")
}

/// The observations that a section's lines say.
pub(crate) fn observations(plan: &Plan, lines: &[String]) -> Vec<Observation> {
    let mut script = Script::new(plan);
    for line in lines {
        script.line(line);
    }
    script.finish()
}

/// The trace of a section.
pub(crate) fn trace(pack: &Pack, scenario: &str, lines: &[String]) -> Arc<Trace> {
    let scenario = pack
        .scenarios
        .iter()
        .find(|candidate| candidate.id == scenario)
        .unwrap_or_else(|| panic!("no scenario {scenario}"));
    let plan = scenario.plan(&pack.manifest, &BTreeMap::new());
    let mut builder = TraceBuilder::new(&plan, scenario.timeouts(&pack.manifest));
    for observation in observations(&plan, lines) {
        builder.push(&observation, &mut |_| None);
    }
    Arc::new(builder.finish())
}

struct Script<'a> {
    plan: &'a Plan,
    t_ns: u64,
    lines_in: u64,
    lines_out: u64,
    observations: Vec<Observation>,
    sent_at: BTreeMap<String, u64>,
    ended_by: BTreeMap<String, u64>,
    statuses: BTreeMap<String, StepStatus>,
    end: Vec<Observation>,
}

impl<'a> Script<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            t_ns: 0,
            lines_in: 0,
            lines_out: 0,
            observations: vec![Observation::Start(AgentStart { t_ns: 0, failure: None })],
            sent_at: BTreeMap::new(),
            ended_by: BTreeMap::new(),
            statuses: BTreeMap::new(),
            end: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) {
        self.t_ns += 1_000_000;
        if let Some(ms) = line.strip_prefix("@+") {
            self.t_ns += ms.parse::<u64>().expect("milliseconds") * 1_000_000;
        } else if let Some(rest) = line.strip_prefix("> ") {
            self.out(rest);
        } else if let Some(text) = line.strip_prefix("<< ") {
            self.inbound(Some(text.to_owned()), None, false);
        } else if let Some(text) = line.strip_prefix("<| ") {
            self.inbound(Some(text.to_owned()), None, true);
        } else if let Some(text) = line.strip_prefix("<64 ") {
            self.inbound(None, Some(text.to_owned()), false);
        } else if let Some(rest) = line.strip_prefix("<:") {
            let (name, rest) = rest.split_once(' ').expect("<:NAME MESSAGE");
            self.ended_by.insert(name.to_owned(), self.lines_in + 1);
            self.inbound(Some(message(rest)), None, false);
        } else if let Some(rest) = line.strip_prefix("< ") {
            self.inbound(Some(message(rest)), None, false);
        } else if let Some(text) = line.strip_prefix("! ") {
            let text = format!("{text}\n");
            self.observations.push(Observation::Stderr(AgentStderr { t_ns: self.t_ns, text, dropped_bytes: 0 }));
        } else if let Some(rest) = line.strip_prefix("step ") {
            let (name, status) = rest.split_once(' ').expect("step NAME STATUS");
            let status = serde_json::from_value(status.into()).expect("a status");
            self.statuses.insert(name.to_owned(), status);
        } else if let Some(rest) = line.strip_prefix("exit ") {
            self.exit(rest);
        } else if line == "close" {
            let index = u32::try_from(self.plan.steps.len()).expect("few steps");
            let (t_ns, status) = (self.t_ns, StepStatus::Ok);
            let (name, start_t_ns, frame_line, detail) = (None, Some(t_ns), None, None);
            let closing = StepReport { index, status, name, t_ns, start_t_ns, frame_line, detail };
            self.observations.push(Observation::Step(closing));
        } else if let Some(count) = line.strip_prefix("left ") {
            let count = count.parse().expect("a number");
            let processes = (0..count).map(|n| Descendant { pid: 100 + n, name: "sleep".to_owned() }).collect();
            let t_ns = self.t_ns;
            self.end.push(Observation::Descendants(AgentDescendants { t_ns, known: true, count, processes }));
        } else {
            panic!("{line}: not a line of a trace");
        }
    }

    fn out(&mut self, rest: &str) {
        let (name, rest) = rest.split_once(' ').expect("> NAME MESSAGE");
        let name = Some(name).filter(|name| *name != "-");
        let text = match rest.strip_prefix("<< ") {
            Some(raw) => raw.to_owned(),
            None => message(rest),
        };
        let step = name.map(|name| {
            let at = self.plan.steps.iter().position(|step| step.name() == Some(name));
            u32::try_from(at.unwrap_or_else(|| panic!("no step {name}"))).expect("few steps")
        });
        self.lines_out += 1;
        if let Some(name) = name {
            self.sent_at.insert(name.to_owned(), self.t_ns);
        }
        self.frame(Direction::Out, self.lines_out, (Some(text), None), false, step, name.map(str::to_owned));
    }

    fn inbound(&mut self, text: Option<String>, base64: Option<String>, unterminated: bool) {
        if let Some(encoded) = &base64 {
            STANDARD.decode(encoded).expect("base64");
        }
        self.lines_in += 1;
        self.frame(Direction::In, self.lines_in, (text, base64), unterminated, None, None);
    }

    fn frame(
        &mut self,
        dir: Direction,
        line: u64,
        (text, base64): (Option<String>, Option<String>),
        unterminated: bool,
        step: Option<u32>,
        name: Option<String>,
    ) {
        self.observations.push(Observation::Frame(AcpFrame {
            dir,
            line,
            t_ns: self.t_ns,
            text,
            base64,
            stream_id: None,
            over_long_bytes: None,
            unterminated,
            step,
            name,
        }));
    }

    fn exit(&mut self, rest: &str) {
        let (status, phase) = rest.split_once(' ').expect("exit STATUS PHASE");
        let phase: ExitPhase = serde_json::from_value(phase.into()).expect("a phase");
        let (code, signal) = match status.strip_prefix("sig") {
            Some(signal) => (None, Some(signal.parse().expect("a signal number"))),
            None => (Some(status.parse().expect("an exit code")), None),
        };
        let closed = !matches!(phase, ExitPhase::Running | ExitPhase::Signalled);
        self.end.push(Observation::Exit(AgentExit {
            t_ns: self.t_ns,
            code,
            signal,
            phase,
            stdin_closed_t_ns: closed.then(|| self.t_ns.saturating_sub(500_000)),
        }));
    }

    /// Reports every step: what was sent is `ok`, a named `wait` with its frame too, one without it is a `timeout`, the
    /// rest was skipped.
    fn finish(mut self) -> Vec<Observation> {
        for (index, step) in self.plan.steps.iter().enumerate() {
            let name = step.name().unwrap_or_default();
            let started = self.sent_at.get(name).copied();
            let frame_line = self.ended_by.get(name).copied();
            let derived = match (step.kind(), started, frame_line) {
                ("wait", _, None) if !name.is_empty() => StepStatus::Timeout,
                ("wait" | "pause_reading" | "resume_reading", ..) | (_, Some(_), _) => StepStatus::Ok,
                _ => StepStatus::Skipped,
            };
            let status = match step.awaits_reply_to() {
                Some(of) if name.is_empty() => self.statuses.get(&format!("reply:{of}")),
                _ => self.statuses.get(name),
            };
            let status = status.copied().unwrap_or(derived);
            self.observations.push(Observation::Step(StepReport {
                index: u32::try_from(index).expect("few steps"),
                status,
                name: step.name().map(str::to_owned),
                t_ns: self.t_ns,
                start_t_ns: (status != StepStatus::Skipped).then_some(started.unwrap_or(0)),
                frame_line,
                detail: None,
            }));
        }
        self.observations.append(&mut self.end);
        self.observations
    }
}

/// Spells out `#ID METHOD PARAMS`, `METHOD PARAMS`, `#ID = RESULT` and `#ID ! ERROR`.
fn message(text: &str) -> String {
    let (id, rest) = match text.strip_prefix('#') {
        Some(rest) => {
            let (id, rest) = rest.split_once(' ').expect("#ID and more");
            (format!(r#","id":{id}"#), rest)
        }
        None => (String::new(), text),
    };
    match rest.split_once(' ') {
        Some(("=", result)) => format!(r#"{{"jsonrpc":"2.0"{id},"result":{result}}}"#),
        Some(("!", error)) => format!(r#"{{"jsonrpc":"2.0"{id},"error":{error}}}"#),
        Some((method, params)) => format!(r#"{{"jsonrpc":"2.0"{id},"method":"{method}","params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0"{id},"method":"{rest}"}}"#),
    }
}
