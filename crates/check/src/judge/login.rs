//! What became of the login that the user chose.

use serde_json::Value;

use super::resolve::{ScenarioEvidence, ScenarioRun};
use crate::trace::{StepFacts, Trace};

/// What is to be said of a login that did not come about, or that the agent does not offer; `None` where all is well or
/// none was tried. It is no requirement's business: an agent may refuse a login, but whoever chose it believes that what was
/// checked was logged in.
pub fn login_note(evidence: &[ScenarioEvidence]) -> Option<String> {
    evidence.iter().find_map(|item| match &item.run {
        ScenarioRun::Traced(trace) => trace.steps.values().find_map(|step| note(trace, step)),
        _ => None,
    })
}

fn note(trace: &Trace, step: &StepFacts) -> Option<String> {
    if step.kind != "authenticate" || !step.sent {
        return None;
    }
    let method = trace.entries.get(step.frame?)?.json.pointer("/params/methodId")?.as_str()?;
    let offered = trace.init.get("authMethods").and_then(Value::as_array).into_iter().flatten();
    let offered: Vec<&str> = offered.filter_map(|method| method.get("id").and_then(Value::as_str)).collect();
    let reply = step.reply.and_then(|at| trace.entries.get(at)).map(|reply| reply.json.get("error"));
    let what = match reply {
        Some(Some(error)) => {
            let why = error.get("message").and_then(Value::as_str).unwrap_or("it did not say why");
            format!("the agent refused the login `{method}`: {why}")
        }
        None => format!("the agent did not answer the login `{method}`"),
        Some(None) if !offered.contains(&method) => {
            format!("the agent took the login `{method}`, which it does not offer")
        }
        Some(None) => return None,
    };
    let offers =
        if offered.is_empty() { "it offers none".to_owned() } else { format!("it offers {}", offered.join(", ")) };
    Some(format!("{what}; {offers}"))
}
