//! One requirement over one trace, before dependencies count.

use serde_json::Value;

use super::evidence::{Evidence, collect, frames_of_steps, named_steps};
use super::outcome::{Fault, Outcome, SkipReason};
use crate::cel::{Answer, EvalError, Evaluator, Want};
use crate::pack::{Level, Requirement};
use crate::trace::{Flaw, StartFacts, Trace};

/// What one trace says about one requirement.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) outcome: Outcome,
    pub(super) detail: String,
    pub(super) observed: Option<String>,
    pub(super) evidence: Vec<Evidence>,
    pub(super) omitted: usize,
    /// It holds whatever became of the requirements that this one depends on.
    pub(super) settled: bool,
}

impl Local {
    pub(super) fn settled(outcome: Outcome, detail: String) -> Self {
        Self { settled: true, ..Self::bare(outcome, detail) }
    }

    fn bare(outcome: Outcome, detail: String) -> Self {
        Self { outcome, detail, observed: None, evidence: Vec::new(), omitted: 0, settled: false }
    }
}

/// Judges one requirement over the trace that `evaluator` has loaded.
pub(super) fn judge_one(requirement: &Requirement, trace: &Trace, evaluator: &mut dyn Evaluator) -> Local {
    if let StartFacts::Failed(failure) = &trace.start {
        return Local::settled(Outcome::Inconclusive(Fault::Environment), failure.message.clone());
    }
    if let Some(flaw) = trace.flaws.first() {
        let (fault, detail) = describe(flaw);
        return Local::settled(Outcome::Inconclusive(fault), detail);
    }
    let mut judge = OneJudge { requirement, trace, evaluator };
    match judge.decide() {
        Ok(decision) => judge.explain(decision),
        Err(error) => Local::bare(Outcome::Inconclusive(Fault::Harness), error.to_string()),
    }
}

fn describe(flaw: &Flaw) -> (Fault, String) {
    match flaw {
        Flaw::Dropped(count) => {
            (Fault::Harness, format!("the trace is too long to judge: {count} entries were not kept"))
        }
        Flaw::BytesMissing(count) => (Fault::Driver, format!("the bytes of {count} frame(s) are not in the evidence")),
        Flaw::Incomplete => (Fault::Driver, "the observations end before the agent's exit".to_owned()),
        Flaw::Malformed(what) => {
            (Fault::Driver, format!("the driver reported an observation that is malformed: {what}"))
        }
    }
}

/// An outcome, the expression that decided it, and its number among the assertions.
struct Decision<'a> {
    outcome: Outcome,
    expression: &'a str,
    note: Note,
}

enum Note {
    None,
    Assertion(usize),
    Capability(String),
    Exercised,
    InconclusiveIf,
    Error(String),
}

struct OneJudge<'a> {
    requirement: &'a Requirement,
    trace: &'a Trace,
    evaluator: &'a mut dyn Evaluator,
}

impl<'a> OneJudge<'a> {
    fn decide(&mut self) -> Result<Decision<'a>, EvalError> {
        let requirement = self.requirement;
        let decision = |outcome, expression, note| Ok(Decision { outcome, expression, note });
        if let Some(path) = requirement.needs.iter().find(|path| !advertised(&self.trace.init, path)) {
            let reason = match self.trace.init {
                Value::Null => SkipReason::NotExercised,
                _ => SkipReason::NotAdvertised,
            };
            return decision(Outcome::Skipped(reason), "steps.initialize", Note::Capability(path.clone()));
        }
        if let Some(expression) = &requirement.advertised
            && !self.holds(expression)?
        {
            let reason = self.unless_gated(SkipReason::NotAdvertised);
            return decision(Outcome::Skipped(reason), expression, Note::None);
        }
        if let Some(expression) = &requirement.exercised
            && !self.holds(expression)?
        {
            let reason = self.unless_gated(SkipReason::NotExercised);
            return decision(Outcome::Skipped(reason), expression, Note::Exercised);
        }
        if let Some(expression) = &requirement.inconclusive_if
            && self.holds(expression)?
        {
            return decision(Outcome::Inconclusive(Fault::Agent), expression, Note::InconclusiveIf);
        }
        let mut error = None;
        for (index, expression) in requirement.assert.iter().enumerate() {
            match self.holds(expression) {
                Ok(true) => {}
                Ok(false) => {
                    let outcome = if requirement.level == Level::Must { Outcome::Fail } else { Outcome::Warn };
                    return decision(outcome, expression, Note::Assertion(index));
                }
                Err(failure) => {
                    error.get_or_insert((expression.as_str(), failure.to_string()));
                }
            }
        }
        match error {
            Some((expression, message)) => {
                decision(Outcome::Inconclusive(Fault::Harness), expression, Note::Error(message))
            }
            None => decision(Outcome::Pass, requirement.assert.first().map_or("", String::as_str), Note::None),
        }
    }

    fn holds(&mut self, expression: &str) -> Result<bool, EvalError> {
        match self.evaluator.ask(expression, Want::Bool)? {
            Answer::Bool(value) => Ok(value),
            _ => Err(EvalError::WrongType { found: "something else than a boolean".to_owned() }),
        }
    }

    /// A session that the agent refused until the user authenticates explains why something was not done.
    fn unless_gated(&self, reason: SkipReason) -> SkipReason {
        if is_gated(self.trace) { SkipReason::AuthRequired } else { reason }
    }

    fn explain(&mut self, decision: Decision<'_>) -> Local {
        let requirement = self.requirement;
        let judged = !matches!(decision.outcome, Outcome::Skipped(_));
        let observed = requirement.observed.as_ref().filter(|_| judged).and_then(|expression| {
            match self.evaluator.ask(expression, Want::Text) {
                Ok(Answer::Text(text)) => Some(text),
                // What the agent did is a courtesy; the outcome stands without it.
                _ => None,
            }
        });
        let shown = requirement.show.as_ref().filter(|_| judged).and_then(|expression| {
            match self.evaluator.ask(expression, Want::Entries) {
                Ok(Answer::Entries(indices)) if !indices.is_empty() => Some(indices),
                _ => None,
            }
        });
        let indices = shown.unwrap_or_else(|| frames_of_steps(decision.expression, self.trace));
        let (evidence, omitted) = collect(self.trace, indices);
        let detail = self.detail(&decision);
        // What the agent never said that it can is not blocked by anything.
        let settled = matches!(decision.note, Note::Capability(_)) && !self.trace.init.is_null();
        Local { outcome: decision.outcome, detail, observed, evidence, omitted, settled }
    }

    fn detail(&self, decision: &Decision<'_>) -> String {
        match &decision.note {
            Note::None if decision.outcome == Outcome::Pass => String::new(),
            Note::None => format!("not advertised: `{}` is false", one_line(decision.expression)),
            Note::Capability(path) => format!("`{path}` is not advertised"),
            Note::Exercised => {
                format!("the agent was not brought to do it: `{}` is false", one_line(decision.expression))
            }
            Note::InconclusiveIf => match self.silence(decision.expression) {
                Some(silence) => silence,
                None => format!("the agent gave no ground for a verdict: `{}`", one_line(decision.expression)),
            },
            Note::Error(message) => format!("`{}`: {message}", one_line(decision.expression)),
            Note::Assertion(index) => {
                let number = match self.requirement.assert.len() {
                    1 => String::new(),
                    count => format!(" {} of {count}", index + 1),
                };
                let expression = one_line(decision.expression);
                match self.silence(decision.expression) {
                    Some(silence) => format!("{silence}; assertion{number} does not hold: `{expression}`"),
                    None => format!("assertion{number} does not hold: `{expression}`"),
                }
            }
        }
    }

    /// What an unanswered request among the named steps, or an error in answer to one, says in words.
    fn silence(&self, expression: &str) -> Option<String> {
        let trace = self.trace;
        named_steps(expression, trace).into_iter().find_map(|name| {
            let step = trace.steps.get(name)?;
            let frame = trace.entries.get(step.frame?)?;
            let method = frame.method();
            if let Some(reply) = step.reply.and_then(|at| trace.entries.get(at)) {
                let error = reply.json.get("error").filter(|error| !error.is_null())?;
                let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
                let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
                return Some(format!("{method} was answered with error {code}: {}", one_line(message)));
            }
            let asks = step.sent && !frame.id().is_null() && !method.is_empty();
            asks.then(|| match (trace.exit.known, trace.exit.phase.as_str(), trace.exit.code, trace.exit.signal) {
                (true, "running", Some(code), _) => {
                    format!("{method} was not answered, the agent exited with code {code}")
                }
                (true, "running", None, Some(signal)) => {
                    format!("{method} was not answered, the agent was ended by signal {signal}")
                }
                _ => format!("{method} was not answered"),
            })
        })
    }
}

/// True when the agent refused a session until the user authenticates.
pub(super) fn is_gated(trace: &Trace) -> bool {
    trace.steps.values().filter(|step| step.kind == "new_session").any(|step| {
        let reply = step.reply.and_then(|at| trace.entries.get(at));
        let code = reply.and_then(|reply| reply.json.pointer("/error/code")).and_then(Value::as_i64);
        code == Some(-32000)
    })
}

/// The value at a dotted path into the `initialize` result is `true` or an object.
fn advertised(init: &Value, path: &str) -> bool {
    let mut at = init;
    for part in path.split('.') {
        match at.get(part) {
            Some(next) => at = next,
            None => return false,
        }
    }
    at.is_object() || *at == Value::Bool(true)
}

/// On one line, cut at 200 characters.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().nth(200) {
        line.truncate(at);
        line.push_str("..");
    }
    line
}
