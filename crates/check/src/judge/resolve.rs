//! From the outcomes of single traces to the judgement: scenarios merged, dependencies applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::local::{Local, is_gated, judge_one};
use super::outcome::{Fault, Judgement, Outcome, Problem, RequirementResult, SkipReason};
use crate::cel::Evaluator;
use crate::pack::{Pack, Requirement};
use crate::trace::{EntryKind, StartFacts, Trace};

/// Most bytes of stderr that a [`Problem`] quotes.
const STDERR_MAX_BYTES: usize = 2048;

/// What there is of one scenario.
#[derive(Clone, Debug)]
pub struct ScenarioEvidence {
    /// The scenario's id.
    pub id: String,
    /// How far it came.
    pub run: ScenarioRun,
}

/// How far a scenario came.
#[derive(Clone, Debug)]
pub enum ScenarioRun {
    /// It was driven, and this is what was seen.
    Traced(Arc<Trace>),
    /// The driver does not have the operation.
    LacksStep {
        /// The operation's name, as `acp.step.raw`.
        operation: String,
    },
    /// It was not driven to its end; whatever was seen is no ground for a verdict.
    Broken {
        /// Whose fault it is.
        fault: Fault,
        /// What happened, one sentence.
        message: String,
    },
}

/// Judges evidence. Requirements of scenarios that are not in `evidence` are not in the judgement.
///
/// An evaluator that fails makes requirements inconclusive; it does not make the judgement fail.
pub fn judge(pack: &Pack, evidence: &[ScenarioEvidence], evaluator: &mut dyn Evaluator) -> Judgement {
    let mut evidence: Vec<&ScenarioEvidence> = evidence.iter().collect();
    evidence.sort_by(|a, b| a.id.cmp(&b.id));
    evidence.dedup_by(|a, b| a.id == b.id);
    let problem = start_problem(&evidence);
    let mut found: BTreeMap<&str, Vec<(&str, Local)>> = BTreeMap::new();
    for item in &evidence {
        let Some(scenario) = pack.scenarios.iter().find(|scenario| scenario.id == item.id) else { continue };
        let requirements = pack.manifest.requirements.iter().chain(&scenario.requirements);
        for (id, local) in judge_scenario(requirements, item, problem.as_ref(), evaluator) {
            found.entry(id).or_default().push((scenario.id.as_str(), local));
        }
    }
    let mut merged: BTreeMap<&str, Merged<'_>> =
        found.into_iter().filter_map(|(id, locals)| Some((id, merge(locals)?))).collect();
    apply_dependencies(pack, &mut merged);
    let results = pack
        .requirements()
        .filter_map(|(_, requirement)| Some(result(requirement, merged.remove(requirement.id.as_str())?)))
        .collect();
    let problem = problem.or_else(|| authentication_problem(&evidence));
    Judgement { results, problem }
}

fn judge_scenario<'a>(
    requirements: impl Iterator<Item = &'a Requirement>,
    item: &ScenarioEvidence,
    problem: Option<&Problem>,
    evaluator: &mut dyn Evaluator,
) -> Vec<(&'a str, Local)> {
    let same = |local: Local| move |requirement: &'a Requirement| (requirement.id.as_str(), local.clone());
    match (&item.run, problem) {
        (_, Some(Problem::AgentDidNotStart { message, .. })) => {
            let fault = match &item.run {
                ScenarioRun::Traced(trace) if matches!(trace.start, StartFacts::Failed(_)) => Fault::Environment,
                _ => Fault::Agent,
            };
            let local = Local::settled(Outcome::Inconclusive(fault), message.clone());
            requirements.map(same(local)).collect()
        }
        (ScenarioRun::LacksStep { operation }, _) => {
            let reason = SkipReason::DriverLacksStep(operation.clone());
            let local = Local::settled(Outcome::Skipped(reason), format!("the driver cannot do `{operation}`"));
            requirements.map(same(local)).collect()
        }
        (ScenarioRun::Broken { fault, message }, _) => {
            let local = Local::settled(Outcome::Inconclusive(*fault), message.clone());
            requirements.map(same(local)).collect()
        }
        (ScenarioRun::Traced(trace), _) => match evaluator.load(trace) {
            Ok(()) => requirements
                .map(|requirement| (requirement.id.as_str(), judge_one(requirement, trace, evaluator)))
                .collect(),
            Err(error) => {
                let local = Local::settled(Outcome::Inconclusive(Fault::Harness), error.to_string());
                requirements.map(same(local)).collect()
            }
        },
    }
}

/// The outcome that counts of those that several scenarios gave.
struct Merged<'a> {
    scenario: &'a str,
    also_in: Vec<&'a str>,
    local: Local,
}

fn merge<'a>(locals: Vec<(&'a str, Local)>) -> Option<Merged<'a>> {
    let highest = locals.iter().map(|(_, local)| local.outcome.rank()).max()?;
    let mut counting = locals.into_iter().filter(|(_, local)| local.outcome.rank() == highest);
    let (scenario, local) = counting.next()?;
    Some(Merged { scenario, also_in: counting.map(|(scenario, _)| scenario).collect(), local })
}

/// Replaces the outcome of what depends on something that was not met.
fn apply_dependencies(pack: &Pack, merged: &mut BTreeMap<&str, Merged<'_>>) {
    let depends: BTreeMap<&str, &[String]> =
        pack.requirements().map(|(_, requirement)| (requirement.id.as_str(), requirement.depends.as_slice())).collect();
    let causes: Vec<(String, SkipReason)> = merged
        .iter()
        .filter(|(_, merged)| !merged.local.settled)
        .filter_map(|(id, _)| Some(((*id).to_owned(), cause(id, &depends, merged)?)))
        .collect();
    for (id, reason) in causes {
        let Some(merged) = merged.get_mut(id.as_str()) else { continue };
        let detail = match &reason {
            SkipReason::BlockedBy(root) => format!("means nothing unless {root} is met"),
            SkipReason::NotAdvertised => "what it depends on is not advertised".to_owned(),
            _ => "the agent wants the user to authenticate first".to_owned(),
        };
        merged.local = Local::settled(Outcome::Skipped(reason), detail);
    }
}

/// Why a requirement means nothing: the first requirement below it, in the order of the pack, that was not met.
fn cause(id: &str, depends: &BTreeMap<&str, &[String]>, merged: &BTreeMap<&str, Merged<'_>>) -> Option<SkipReason> {
    depends.get(id)?.iter().find_map(|dependency| {
        // The dependency's own reason first, so that the root of a chain is named.
        if let Some(deeper) = cause(dependency, depends, merged) {
            return Some(deeper);
        }
        match merged.get(dependency.as_str())?.local.outcome {
            Outcome::Pass | Outcome::Warn => None,
            Outcome::Skipped(SkipReason::AuthRequired) => Some(SkipReason::AuthRequired),
            Outcome::Skipped(SkipReason::NotAdvertised) => Some(SkipReason::NotAdvertised),
            _ => Some(SkipReason::BlockedBy(dependency.clone())),
        }
    })
}

fn result(requirement: &Requirement, merged: Merged<'_>) -> RequirementResult {
    RequirementResult {
        id: requirement.id.clone(),
        level: requirement.level,
        area: requirement.area.clone(),
        title: requirement.title.clone(),
        spec: requirement.spec.clone(),
        why: requirement.why.clone(),
        outcome: merged.local.outcome,
        detail: merged.local.detail,
        observed: merged.local.observed,
        scenario: Some(merged.scenario.to_owned()),
        also_in: merged.also_in.into_iter().map(str::to_owned).collect(),
        evidence: merged.local.evidence,
        evidence_omitted: merged.local.omitted,
    }
}

fn traces<'a>(evidence: &'a [&ScenarioEvidence]) -> impl Iterator<Item = &'a Arc<Trace>> {
    evidence.iter().filter_map(|item| match &item.run {
        ScenarioRun::Traced(trace) => Some(trace),
        _ => None,
    })
}

/// An agent from which no scenario got a single line did not start; anything else it was asked says nothing about it.
fn start_problem(evidence: &[&ScenarioEvidence]) -> Option<Problem> {
    let first = traces(evidence).next()?;
    let spoke = |trace: &Trace| trace.entries.iter().any(|entry| entry.is_inbound() || entry.kind == EntryKind::Flood);
    let watched = |trace: &Trace| matches!(trace.start, StartFacts::Failed(_)) || trace.flaws.is_empty();
    if traces(evidence).any(|trace| spoke(trace) || !watched(trace)) {
        return None;
    }
    let message = match (&first.start, first.exit.known, first.exit.phase.as_str(), first.exit.code, first.exit.signal)
    {
        (StartFacts::Failed(failure), ..) => failure.message.clone(),
        (_, true, "running", Some(code), _) => format!("the agent exited with code {code} before it wrote anything"),
        (_, true, "running", None, Some(signal)) => {
            format!("the agent was ended by signal {signal} before it wrote anything")
        }
        _ => format!("the agent wrote nothing within {} ms", first.timeouts.start),
    };
    Some(Problem::AgentDidNotStart { message, stderr: stderr_tail(first) })
}

fn stderr_tail(trace: &Trace) -> String {
    let text: String =
        trace.entries.iter().filter(|entry| entry.kind == EntryKind::Stderr).map(|entry| entry.text.as_str()).collect();
    let mut start = text.len().saturating_sub(STDERR_MAX_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

fn authentication_problem(evidence: &[&ScenarioEvidence]) -> Option<Problem> {
    let trace = traces(evidence).find(|trace| is_gated(trace))?;
    let methods = trace.init.get("authMethods").and_then(Value::as_array).into_iter().flatten();
    let ids = methods.filter_map(|method| method.get("id").and_then(Value::as_str)).map(str::to_owned).collect();
    Some(Problem::AuthenticationNeeded { methods: ids })
}
