//! The model `pintle.report.v1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::judge::{Counts, Evidence, FailOn, Judgement, Problem, RequirementResult};
use crate::pack::{Level, Pack};

/// Value of `schema` in a report.
pub const REPORT_SCHEMA: &str = "pintle.report.v1";

/// A report. Members that a reader does not know may be added in later versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// `conformant`, `nonconformant` or `inconclusive`.
    pub verdict: String,
    /// The built-in agent was checked because none was named.
    pub demo: bool,
    /// What concerns the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemSection>,
    /// What else the reader of the verdict should know, a sentence each: a login that the agent refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// This program.
    pub pintle: PintleSection,
    /// The pack.
    pub pack: PackSection,
    /// The agent.
    pub agent: AgentSection,
    /// The driver.
    pub driver: DriverSection,
    /// The machine.
    pub host: HostSection,
    /// Id of the run in the evidence store; empty when nothing was stored.
    pub run: String,
    /// How many requirements had each outcome.
    pub counts: CountsSection,
    /// What it is like beside an earlier report; absent when there was none to compare it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineSection>,
    /// One item per requirement, in the pack's order.
    pub requirements: Vec<RequirementItem>,
    /// How long it took.
    pub timing: TimingSection,
    /// What went wrong while evidence was recorded; empty when nothing did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recording_faults: Vec<String>,
    /// How often each rule replaced a secret in what is kept, by the rule's id; empty when nothing was replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redactions: BTreeMap<String, u64>,
}

/// A problem of the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProblemSection {
    /// `agent_did_not_start` or `authentication_needed`.
    pub kind: String,
    /// One sentence.
    pub message: String,
    /// The end of the agent's stderr; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Ids of the auth methods; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
}

/// This program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PintleSection {
    /// Its version.
    pub version: String,
}

/// The pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PackSection {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The revision of the specification that it was written for.
    pub spec_revision: String,
    /// Over its files.
    pub digest: String,
}

/// The agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentSection {
    /// Its command line.
    pub argv: Vec<String>,
    /// `agentInfo`, or null.
    pub info: Value,
    /// `protocolVersion`, or null.
    pub protocol_version: Value,
    /// `agentCapabilities`, or null.
    pub capabilities: Value,
    /// `authMethods`, or null.
    pub auth: Value,
}

/// The driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DriverSection {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its command line.
    pub argv: Vec<String>,
    /// Digest of its artifact, when it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostSection {
    /// `linux`, `macos`, `windows`.
    pub os: String,
    /// `x86_64`, `aarch64`, ..
    pub arch: String,
    /// Number of processors; 0 when unknown.
    pub cpus: usize,
}

/// How many requirements had each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CountsSection {
    /// Passed.
    pub pass: usize,
    /// Failed.
    pub fail: usize,
    /// Warnings.
    pub warn: usize,
    /// Skipped.
    pub skipped: usize,
    /// Inconclusive.
    pub inconclusive: usize,
}

/// A report beside an earlier one. The verdict is the agent's own whatever stands here; the exit code is by this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BaselineSection {
    /// Requirements that fail now and failed then.
    pub known: usize,
    /// Requirements that are worse than they were.
    pub worse: Vec<Regression>,
    /// Requirements that pass now and failed then.
    pub mended: usize,
}

/// A requirement that is worse than it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Regression {
    /// The requirement.
    pub id: String,
    /// Its outcome in the earlier report; absent when it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its outcome now.
    pub now: String,
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequirementItem {
    /// Its id.
    pub id: String,
    /// `must`, `should`, `may` or `info`.
    pub level: Level,
    /// `pass`, `fail`, `warn`, `skipped` or `inconclusive`.
    pub outcome: String,
    /// For `skipped`: `not_advertised`, `not_exercised`, `driver_lacks_step NAME`, `auth_required` or `blocked_by ID`; for
    /// `inconclusive`: `agent`, `driver`, `harness` or `environment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its area.
    pub area: String,
    /// What is required.
    pub title: String,
    /// Where the specification says so.
    pub spec: String,
    /// The scenario that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Other scenarios with the same outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_in: Vec<String>,
    /// What a failure means for users.
    pub why: String,
    /// What decided it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// What the agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// What proves it.
    pub evidence: Vec<EvidenceItem>,
    /// How many more entries prove it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub evidence_omitted: usize,
}

/// An entry that proves an outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EvidenceItem {
    /// Position in the trace of the scenario.
    pub index: usize,
    /// `frame`, `stderr`, `step`, `exit`, `descendants`, `flood` or `gap`.
    pub kind: String,
    /// `in` (from the agent) or `out` (to it); absent when it is not a frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Line number in that direction, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Milliseconds since the scenario began.
    pub t_ms: f64,
    /// The step that sent it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// What it says, cut.
    pub excerpt: String,
    /// What is wrong with the line; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

/// How long it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimingSection {
    /// When the run began, RFC 3339; empty when it is not known.
    pub started: String,
    /// Milliseconds for everything.
    pub total_ms: u64,
    /// Per scenario, in order of their ids.
    pub scenarios: Vec<ScenarioTiming>,
}

/// How long a scenario took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScenarioTiming {
    /// The scenario.
    pub id: String,
    /// Milliseconds from the start of the driver to the end of the agent.
    pub ms: u64,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// What a report says beside the judgement.
#[derive(Clone, Debug, Default)]
pub struct ReportContext {
    /// See [`Report::demo`].
    pub demo: bool,
    /// See [`Report::notes`].
    pub notes: Vec<String>,
    /// Version of this program.
    pub version: String,
    /// See [`Report::agent`].
    pub agent: AgentSection,
    /// See [`Report::driver`].
    pub driver: DriverSection,
    /// See [`Report::host`].
    pub host: HostSection,
    /// See [`Report::run`].
    pub run: String,
    /// See [`Report::timing`].
    pub timing: TimingSection,
    /// See [`Report::recording_faults`].
    pub recording_faults: Vec<String>,
    /// See [`Report::redactions`].
    pub redactions: BTreeMap<String, u64>,
}

impl Report {
    /// The report on a judgement.
    pub fn new(pack: &Pack, judgement: &Judgement, fail_on: FailOn, context: ReportContext) -> Self {
        let counts = judgement.counts();
        Self {
            schema: REPORT_SCHEMA.to_owned(),
            verdict: judgement.verdict(fail_on).as_str().to_owned(),
            demo: context.demo,
            problem: judgement.problem.as_ref().map(problem),
            notes: context.notes,
            pintle: PintleSection { version: context.version },
            pack: PackSection {
                name: pack.manifest.name.clone(),
                version: pack.manifest.version.clone(),
                spec_revision: pack.manifest.spec_revision.clone(),
                digest: pack.digest.to_string(),
            },
            agent: context.agent,
            driver: context.driver,
            host: context.host,
            run: context.run,
            counts: counts.into(),
            baseline: None,
            requirements: judgement.results.iter().map(item).collect(),
            timing: context.timing,
            recording_faults: context.recording_faults,
            redactions: context.redactions,
        }
    }
}

impl From<Counts> for CountsSection {
    fn from(counts: Counts) -> Self {
        Self {
            pass: counts.pass,
            fail: counts.fail,
            warn: counts.warn,
            skipped: counts.skipped,
            inconclusive: counts.inconclusive,
        }
    }
}

impl AgentSection {
    /// What an `initialize` result says about the agent.
    pub fn from_init(argv: Vec<String>, init: &Value) -> Self {
        let member = |name: &str| init.get(name).map_or(Value::Null, exact);
        Self {
            argv,
            info: member("agentInfo"),
            protocol_version: member("protocolVersion"),
            capabilities: member("agentCapabilities"),
            auth: member("authMethods"),
        }
    }
}

/// Integers that a double cannot hold become strings: the report is canonical JSON, which has only doubles.
fn exact(value: &Value) -> Value {
    const LIMIT: u64 = (1 << 53) - 1;
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|n| n.unsigned_abs() > LIMIT) => number.to_string().into(),
        Value::Number(number) if number.as_u64().is_some_and(|n| n > LIMIT) => number.to_string().into(),
        Value::Array(items) => items.iter().map(exact).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), exact(value))).collect(),
        other => other.clone(),
    }
}

fn problem(problem: &Problem) -> ProblemSection {
    let (message, stderr, methods) = match problem {
        Problem::AgentDidNotStart { message, stderr } => (message.clone(), stderr.clone(), Vec::new()),
        Problem::AuthenticationNeeded { methods } => (
            "the agent wants the user to authenticate before it creates a session".to_owned(),
            String::new(),
            methods.clone(),
        ),
    };
    ProblemSection { kind: problem.as_str().to_owned(), message, stderr, methods }
}

fn item(result: &RequirementResult) -> RequirementItem {
    RequirementItem {
        id: result.id.clone(),
        level: result.level,
        outcome: result.outcome.as_str().to_owned(),
        reason: result.outcome.reason(),
        area: result.area.clone(),
        title: result.title.clone(),
        spec: result.spec.clone(),
        scenario: result.scenario.clone(),
        also_in: result.also_in.clone(),
        why: result.why.clone(),
        detail: result.detail.clone(),
        observed: result.observed.clone(),
        evidence: result.evidence.iter().map(evidence).collect(),
        evidence_omitted: result.evidence_omitted,
    }
}

fn evidence(of: &Evidence) -> EvidenceItem {
    EvidenceItem {
        index: of.index,
        kind: of.kind.as_str().to_owned(),
        dir: of.dir.map(|dir| dir.as_str().to_owned()),
        line: of.line,
        t_ms: of.t_ms,
        step: of.step.clone(),
        excerpt: of.excerpt.clone(),
        fault: of.fault.clone(),
    }
}
