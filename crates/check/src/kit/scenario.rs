//! Operations to try a scenario driver with when the user names none: two small scenarios with an agent that is known.

use pintle_wire::{CanonError, to_canonical};
use serde_json::{Value, json};

use super::rig::KitOperation;
use crate::driver::{AgentSpec, INPUT_SCHEMA, SCENARIO_OPERATION};
use crate::pack::SCENARIO_SCHEMA;

/// How long the turn of the lasting scenario may go on, in milliseconds.
const LASTING_MS: u64 = 600_000;

/// A scenario that ends on its own, and one that goes on until it is cancelled, with an agent that knows the prompts of
/// the mock agent (`echo X`, `wait_for_cancel`).
///
/// # Errors
/// The agent's description has no canonical form.
pub fn scenario_operations(agent: &AgentSpec) -> Result<[KitOperation; 2], CanonError> {
    let soon = steps(json!({"do": "prompt", "as": "turn", "text": "echo kit"}));
    let lasting = steps(json!({"do": "prompt", "as": "turn", "text": "wait_for_cancel", "timeout_ms": LASTING_MS}));
    Ok([operation(agent, "kit-soon", soon)?, operation(agent, "kit-lasting", lasting)?])
}

fn steps(last: Value) -> Value {
    json!([{"do": "initialize"}, {"do": "new_session"}, last])
}

fn operation(agent: &AgentSpec, id: &str, steps: Value) -> Result<KitOperation, CanonError> {
    let input = json!({
        "schema": INPUT_SCHEMA,
        "scenario": {
            "schema": SCENARIO_SCHEMA, "id": id, "protocol_version": 1, "client_capabilities": {}, "callbacks": {},
            "steps": steps,
        },
        "agent": agent,
        "timeouts_ms": {"start": 60_000, "request": 60_000, "prompt": LASTING_MS, "quiet": 300, "close_grace": 3_000,
            "term_grace": 2_000},
    });
    Ok(KitOperation { name: SCENARIO_OPERATION.to_owned(), input: to_canonical(&input)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Input;

    #[test]
    fn the_inputs_are_what_the_built_in_driver_reads() {
        let agent =
            AgentSpec { argv: vec!["agent".into()], cwd: "/".into(), env: Default::default(), session_cwd: "/".into() };
        for operation in scenario_operations(&agent).expect("it has a canonical form") {
            let input: Input = serde_json::from_slice(&operation.input).expect("an input");
            assert_eq!(input.scenario.steps.len(), 3);
        }
    }
}
