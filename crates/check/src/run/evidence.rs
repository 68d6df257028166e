//! What a check writes into its evidence run: the values of the journal's records, by kind, and the manifest's facts.

use pintle_sdk::driver::BudgetReport;
use pintle_sdk::process::Applied;
use pintle_wire::{Digest, InstanceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::judge::Fault;
use crate::pack::{Plan, Timeouts};

/// Value of `schema` in the facts of a check's manifest.
pub const CHECK_SCHEMA: &str = "pintle.check.v1";

/// Value of `schema` in `input/plan.json`: `resolved_plan_digest`, and in `inputs` what each driver was given for each
/// scenario, with the names of environment variables in place of the variables. The digest is over the canonical list of
/// the digests of the inputs' canonical forms, unless something in them was redacted.
pub const PLAN_SCHEMA: &str = "pintle.plan.v1";

/// Kinds of record.
pub mod kind {
    /// [`DriverRecord`](super::DriverRecord): a driver was started.
    pub const DRIVER: &str = "driver";
    /// [`StartRecord`](super::StartRecord): a scenario was given to a driver.
    pub const SCENARIO_START: &str = "scenario.start";
    /// [`ObservationRecord`](super::ObservationRecord).
    pub const OBSERVATION: &str = "observation";
    /// [`StreamRecord`](super::StreamRecord): a companion stream is whole.
    pub const STREAM: &str = "stream";
    /// `NetworkRecord`: a connection through the recorder, or a request for one.
    pub const NETWORK: &str = "network";
    /// [`DriverEndRecord`](super::DriverEndRecord): a driver is gone.
    pub const DRIVER_END: &str = "driver.end";
    /// [`EndRecord`](super::EndRecord): a scenario is over.
    pub const SCENARIO_END: &str = "scenario.end";
}

/// Facts of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckFacts {
    /// Always [`CHECK_SCHEMA`].
    pub schema: String,
    /// Version of the program that made the run.
    pub pintle: String,
    /// The pack.
    pub pack: PackFacts,
    /// The agent.
    pub agent: AgentFacts,
    /// Command line of the driver.
    pub driver: Vec<String>,
    /// Digest of what the drivers were given, environment values left out.
    pub resolved_plan_digest: Digest,
    /// Ids of the scenarios that were to be carried out, in order.
    pub scenarios: Vec<String>,
    /// When the run began, RFC 3339.
    pub started: String,
}

/// The pack of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackFacts {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Over its files.
    pub digest: Digest,
    /// `built in`, or its path.
    pub origin: String,
}

/// The agent of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFacts {
    /// Its command line.
    pub argv: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// Names of the variables in its environment.
    pub env: Vec<String>,
    /// It is the built-in one, because the user named none.
    pub demo: bool,
}

/// A driver that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverRecord {
    /// What it said in `driver.hello`.
    pub identity: Value,
    /// Its operations.
    pub operations: Vec<String>,
    /// The permissions that it requested.
    #[serde(default)]
    pub requested: Vec<String>,
    /// Those of them that were approved.
    #[serde(default)]
    pub approved: Vec<String>,
    /// Those of them that it accepted.
    pub permissions: Vec<String>,
    /// A keeper stands between it and the check.
    pub kept: bool,
    /// What it was kept from, and how far the system enforced that.
    #[serde(default)]
    pub isolation: Applied,
}

/// What went through the recorder for one request of an isolated agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NetworkRecord {
    /// `host:port` as the agent wrote it; empty where it wrote something else.
    pub to: String,
    /// Why it was refused, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'static str>,
    /// Bytes from the agent.
    pub sent_bytes: u64,
    /// The first of them.
    pub sent: Head,
    /// Bytes to the agent.
    pub received_bytes: u64,
    /// The first of them.
    pub received: Head,
}

/// The first bytes of one direction, with secrets replaced: text where they are UTF-8, else base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Head {
    /// They are UTF-8.
    Text(String),
    /// They are not.
    Base64(String),
}

/// A driver that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DriverEndRecord {
    /// What the session with it has used, by account and resource, and how much of it went over a limit.
    pub budget: BudgetReport,
}

/// A scenario that was given to a driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRecord {
    /// The scenario's id.
    pub scenario: String,
    /// The invocation.
    pub invocation: InstanceId,
    /// The attempt.
    pub attempt: InstanceId,
    /// What the driver was to do.
    pub plan: Plan,
    /// The waits.
    pub timeouts_ms: Timeouts,
}

/// An observation, as the driver reported it and the sanitiser left it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservationRecord {
    /// The scenario's id.
    pub scenario: String,
    /// The driver's number.
    pub sequence: u64,
    /// Kind of the observation.
    pub kind: String,
    /// The driver's clock.
    pub monotonic_ns: u64,
    /// The payload; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// A companion stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRecord {
    /// The scenario's id.
    pub scenario: String,
    /// The stream's id, as the observation names it.
    pub stream_id: String,
    /// The object that holds its bytes.
    pub object: Digest,
    /// Bytes before anything was replaced in them.
    pub bytes: u64,
    /// Whether it was too large for the trace, so that only the evidence has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untraced: bool,
}

/// A scenario that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndRecord {
    /// The scenario's id.
    pub scenario: String,
    /// How.
    pub end: EndKind,
    /// For `completed`: the driver's digest over its observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_digest: Option<Digest>,
    /// For `lacks_step`: the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// For `broken`: whose fault it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// For `broken`: what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The driver carried it out.
    Completed,
    /// The driver cannot do one of its steps.
    LacksStep,
    /// Nothing can be concluded.
    Broken,
    /// The user stopped the check.
    Interrupted,
}

/// The fault that a word in an [`EndRecord`] means; an unknown word is the harness's.
pub(super) fn fault_of_word(word: Option<&str>) -> Fault {
    [Fault::Agent, Fault::Driver, Fault::Harness, Fault::Environment]
        .into_iter()
        .find(|fault| Some(fault.as_str()) == word)
        .unwrap_or(Fault::Harness)
}
