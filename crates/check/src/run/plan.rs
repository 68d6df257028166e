//! From a request to the scenarios that a driver is given.

use std::time::Duration;

use pintle_wire::{CanonError, Digest, to_canonical};
use serde_json::{Value, json};

use super::evidence::PLAN_SCHEMA;
use super::request::CheckRequest;
use crate::driver::{AgentSpec, INPUT_SCHEMA, Input, Limits, SCENARIO_OPERATION, STEP_OPERATION_PREFIX};
use crate::pack::{LoadError, Plan, Step, Timeouts};

/// What a scenario may take beyond its own waits: process start, file callbacks, a slow machine.
const MARGIN: Duration = Duration::from_secs(30);

/// One scenario to carry out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) timeouts: Timeouts,
}

/// The scenarios that the request selects, in the pack's order, ready for a driver.
pub(super) fn jobs(request: &CheckRequest) -> Result<Vec<Job>, LoadError> {
    let scenarios = request.pack.select_cases(&request.cases)?;
    let manifest = &request.pack.manifest;
    let job = |scenario: &crate::pack::Scenario| {
        let mut plan = scenario.plan(manifest, &request.prompts);
        if let Some(chosen) = &request.agent.auth {
            choose_method(&mut plan, chosen);
        }
        let mut timeouts = scenario.timeouts(manifest);
        if let Some(start) = request.waits.start_ms {
            timeouts.start = start;
        }
        if let Some(reply) = request.waits.reply_ms {
            timeouts.request = reply;
            timeouts.prompt = reply;
        }
        Job { plan, timeouts }
    };
    Ok(scenarios.into_iter().map(job).collect())
}

fn choose_method(plan: &mut Plan, chosen: &str) {
    for step in &mut plan.steps {
        if let Step::Authenticate(step) = step {
            step.method.get_or_insert_with(|| chosen.to_owned());
        }
    }
}

impl Job {
    /// The first operation that this scenario needs and that is not among `operations`.
    pub(super) fn lacks(&self, operations: &[Box<str>]) -> Option<String> {
        let steps = self.plan.steps.iter().map(|step| format!("{STEP_OPERATION_PREFIX}{}", step.kind()));
        let needed = std::iter::once(SCENARIO_OPERATION.to_owned()).chain(steps);
        needed.into_iter().find(|needed| !operations.iter().any(|operation| **operation == **needed))
    }

    /// What the driver reads.
    pub(super) fn input(&self, request: &CheckRequest, session_cwd: String) -> Input {
        Input {
            schema: INPUT_SCHEMA.to_owned(),
            scenario: self.plan.clone(),
            agent: AgentSpec {
                argv: request.agent.argv.clone(),
                cwd: request.agent.cwd.to_string_lossy().into_owned(),
                env: request.agent.env.clone(),
                session_cwd,
            },
            limits: Limits::default(),
            timeouts_ms: self.timeouts,
        }
    }

    /// The longest that a driver can take that keeps to the waits.
    pub(super) fn deadline(&self) -> Duration {
        let steps: u64 = self.plan.steps.iter().map(|step| longest(step, self.timeouts)).sum();
        Duration::from_millis(steps + self.timeouts.close_grace + self.timeouts.term_grace) + MARGIN
    }

    /// How long a cancelled scenario may take to close its agent down.
    pub(super) fn cancel_grace(&self) -> Duration {
        Duration::from_millis(self.timeouts.close_grace + self.timeouts.term_grace) + MARGIN / 3
    }
}

/// The longest that a step can wait.
fn longest(step: &Step, timeouts: Timeouts) -> u64 {
    let longest_default = timeouts.start.max(timeouts.request).max(timeouts.prompt).max(timeouts.close_grace);
    let chosen = match step {
        Step::Initialize(step) => step.timeout_ms,
        Step::Authenticate(step) => step.timeout_ms,
        Step::Request(step) => step.timeout_ms,
        Step::NewSession(step) => step.timeout_ms,
        Step::Prompt(step) => step.timeout_ms,
        Step::Wait(step) => step.timeout_ms,
        _ => Some(0),
    };
    chosen.unwrap_or(longest_default)
}

/// `resolved_plan_digest`, over the digests of all inputs in order; and what is kept of the inputs.
pub(super) fn resolved(jobs: &[Job], request: &CheckRequest) -> Result<(Digest, Value), CanonError> {
    let session_cwd = request.agent.session_cwd.as_ref().map(|path| path.to_string_lossy().into_owned());
    let (mut digests, mut inputs) = (Vec::new(), Vec::new());
    for job in jobs {
        let input = job.input(request, session_cwd.clone().unwrap_or_default());
        digests.push(input.plan_digest()?.to_string());
        // It has a canonical form, so it is JSON.
        inputs.push(serde_json::to_value(input.public()).unwrap_or_default());
    }
    let digest = Digest::of(&to_canonical(&digests)?);
    Ok((digest, json!({"schema": PLAN_SCHEMA, "resolved_plan_digest": digest, "inputs": inputs})))
}
