//! `pintle.input.v1`: what a scenario driver reads from the exact input handle.

use std::collections::BTreeMap;
use std::fmt;

use pintle_wire::{CanonError, Digest};
use serde::{Deserialize, Serialize};

use crate::pack::{Plan, Timeouts};

/// Value of `schema` in an [`Input`].
pub const INPUT_SCHEMA: &str = "pintle.input.v1";
/// Largest input that a driver reads, in bytes.
pub const INPUT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Everything that one invocation of `acp.scenario.v1` needs.
///
/// It may hold secrets (values of environment variables), so it travels over the exact input handle, never in a
/// control frame, and its `Debug` form shows no environment value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Always [`INPUT_SCHEMA`].
    pub schema: String,
    /// The steps, with their prompts resolved.
    pub scenario: Plan,
    /// The program under test.
    pub agent: AgentSpec,
    /// Bounds of what is kept.
    #[serde(default)]
    pub limits: Limits,
    /// Waits in milliseconds.
    pub timeouts_ms: Timeouts,
}

/// How the agent under test is started.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Program and arguments; never empty. The program is looked up in `PATH` of `env` when it has no slash.
    pub argv: Vec<String>,
    /// Directory in which the process starts, absolute: a relative program or script is meant from here.
    pub cwd: String,
    /// The whole environment of the process.
    pub env: BTreeMap<String, String>,
    /// Directory that `session/new` names and that file callbacks are confined to, absolute.
    pub session_cwd: String,
}

impl fmt::Debug for AgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSpec")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("session_cwd", &self.session_cwd)
            .finish()
    }
}

/// What a driver keeps of an agent that says a lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest line that is kept, in bytes; a longer one is drained and reported by its length.
    pub max_line_bytes: usize,
    /// Frames that are reported one by one; of what comes after, only responses and the agent's requests are, and the
    /// notifications are summed up.
    pub max_frames: u32,
    /// Bytes of frames that are reported with their content; of what comes after, only the length is.
    pub max_record_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_line_bytes: 64 * 1024 * 1024, max_frames: 8_000, max_record_bytes: 96 * 1024 * 1024 }
    }
}

impl Input {
    /// The input with the names of the environment variables in place of the variables.
    #[must_use]
    pub fn public(&self) -> PublicInput<'_> {
        let agent = PublicAgent {
            argv: &self.agent.argv,
            cwd: &self.agent.cwd,
            env: self.agent.env.keys().collect(),
            session_cwd: &self.agent.session_cwd,
        };
        PublicInput {
            schema: &self.schema,
            scenario: &self.scenario,
            agent,
            limits: self.limits,
            timeouts_ms: self.timeouts_ms,
        }
    }

    /// `resolved_plan_digest`: over the canonical form of [`Input::public`], so that no secret can be guessed from it.
    ///
    /// # Errors
    /// The input holds a number that canonical JSON cannot say.
    pub fn plan_digest(&self) -> Result<Digest, CanonError> {
        Ok(Digest::of(&pintle_wire::to_canonical(&self.public())?))
    }
}

/// An [`Input`] without the values of the environment: what is kept of it.
#[derive(Debug, Serialize)]
pub struct PublicInput<'a> {
    schema: &'a str,
    scenario: &'a Plan,
    agent: PublicAgent<'a>,
    limits: Limits,
    timeouts_ms: Timeouts,
}

#[derive(Debug, Serialize)]
struct PublicAgent<'a> {
    argv: &'a [String],
    cwd: &'a str,
    env: Vec<&'a String>,
    session_cwd: &'a str,
}
