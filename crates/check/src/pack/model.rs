//! The model of a pack: what `pack.toml` and the scenario files say, and the plan that a driver executes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::steps::Step;

/// Value of `schema` in `pack.toml`.
pub const PACK_SCHEMA: &str = "pintle.pack.v1";
/// Value of `schema` in a scenario file and in a [`Plan`].
pub const SCENARIO_SCHEMA: &str = "pintle.scenario.v1";

/// What `pack.toml` says: identity, protocol, default waits, prompts and the requirements that every scenario checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`PACK_SCHEMA`].
    pub schema: String,
    /// Name that `--pack` selects, lower-case words joined by `-`.
    pub name: String,
    /// SemVer version of the pack.
    pub version: String,
    /// One line for people.
    pub title: String,
    /// Revision of the specification that the requirements were read from.
    pub spec_revision: String,
    /// Protocol version that `initialize` asks for unless a step says otherwise.
    pub protocol_version: u16,
    /// Waits in milliseconds.
    #[serde(default)]
    pub timeouts_ms: Timeouts,
    /// Prompts by key; a project's configuration may replace the text of each.
    #[serde(default)]
    pub prompts: BTreeMap<String, Prompt>,
    /// Requirements that are judged over the trace of every scenario; the worst outcome counts.
    #[serde(default, rename = "requirement")]
    pub requirements: Vec<Requirement>,
}

impl Manifest {
    /// What the reference agent does when it is sent exactly this text, if the text is one of the pack's prompts.
    pub fn command_for(&self, text: &str) -> Option<&str> {
        self.prompts.values().find(|prompt| prompt.text == text).and_then(|prompt| prompt.command.as_deref())
    }
}

/// Waits in milliseconds. `--timeout` and `--startup-timeout` replace `prompt`/`request` and `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// From spawn to the reply of the first `initialize`.
    pub start: u64,
    /// From any other request to its reply.
    pub request: u64,
    /// From `session/prompt` to its reply.
    pub prompt: u64,
    /// How long nothing may arrive before a connection counts as quiet.
    pub quiet: u64,
    /// From closing stdin to the agent's own exit.
    pub close_grace: u64,
    /// From SIGTERM to SIGKILL.
    pub term_grace: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { start: 10_000, request: 10_000, prompt: 60_000, quiet: 300, close_grace: 3_000, term_grace: 2_000 }
    }
}

/// A prompt of the pack's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The text sent to the agent, in words that make a real agent act.
    pub text: String,
    /// What the reference agent does when it gets this text (`wait_for_cancel`, `callbacks`, ..).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What the prompt is meant to bring about, for people who replace it.
    pub purpose: String,
}

/// One scenario file: how to drive the agent, and what must hold of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Always [`SCENARIO_SCHEMA`].
    pub schema: String,
    /// Unique in the pack; `--case` selects by it. Lower-case words joined by `-`.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// What `initialize` offers as `clientCapabilities`.
    #[serde(default)]
    pub client_capabilities: Map<String, Value>,
    /// How the driver answers what the agent asks.
    #[serde(default)]
    pub callbacks: Callbacks,
    /// Waits that differ from the pack's.
    #[serde(default, skip_serializing_if = "TimeoutOverrides::is_empty")]
    pub timeouts_ms: TimeoutOverrides,
    /// What the driver does, in order. Afterwards it closes stdin and runs the kill ladder.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
    /// What must hold of the trace.
    #[serde(default, rename = "requirement")]
    pub requirements: Vec<Requirement>,
}

/// Waits that a scenario changes; an absent one keeps the pack's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TimeoutOverrides {
    /// See [`Timeouts::start`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// See [`Timeouts::request`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// See [`Timeouts::prompt`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u64>,
    /// See [`Timeouts::quiet`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<u64>,
    /// See [`Timeouts::close_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_grace: Option<u64>,
    /// See [`Timeouts::term_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term_grace: Option<u64>,
}

impl TimeoutOverrides {
    /// True when nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The pack's waits with the overrides applied.
    pub fn apply(&self, base: Timeouts) -> Timeouts {
        Timeouts {
            start: self.start.unwrap_or(base.start),
            request: self.request.unwrap_or(base.request),
            prompt: self.prompt.unwrap_or(base.prompt),
            quiet: self.quiet.unwrap_or(base.quiet),
            close_grace: self.close_grace.unwrap_or(base.close_grace),
            term_grace: self.term_grace.unwrap_or(base.term_grace),
        }
    }
}

/// How the driver answers the agent's requests when no step does.
///
/// A method that `client_capabilities` did not offer is always answered with error -32601, whatever stands here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Callbacks {
    /// `session/request_permission`.
    pub permission: PermissionPolicy,
    /// `fs/read_text_file` and `fs/write_text_file`.
    pub fs: FsPolicy,
    /// `terminal/*`.
    pub terminal: TerminalPolicy,
    /// `elicitation/create`.
    pub elicitation: ElicitationPolicy,
}

/// Answer to `session/request_permission`. An option is chosen by its kind, never by its position; when no option of
/// that kind was offered, an `allow_*` policy falls back to the other allowing kind and a `reject_*` policy to the
/// other rejecting kind, then to `cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    /// Select an option of kind `allow_once`.
    AllowOnce,
    /// Select an option of kind `allow_always`.
    AllowAlways,
    /// Select an option of kind `reject_once`: the default, because nothing may change unless a scenario allows it.
    #[default]
    RejectOnce,
    /// Select an option of kind `reject_always`.
    RejectAlways,
    /// Outcome `cancelled` at once.
    Cancelled,
    /// Leave it open until a `respond` step, or until the session is cancelled (then outcome `cancelled`).
    Hold,
    /// Never answer, also not on cancel. For scenarios about agents that wait too long.
    Ignore,
}

/// Answer to the `fs/*` methods that were offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FsPolicy {
    /// Real files below the session's working directory; anything else is refused.
    #[default]
    Sandbox,
    /// Error -32603.
    Error,
    /// Never answer.
    Ignore,
}

/// Answer to the `terminal/*` methods when `terminal` was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TerminalPolicy {
    /// A made-up terminal: `terminal/create` gives an id, the command counts as finished with exit code 0 and the
    /// output `pintle`, kill and release succeed. Nothing is executed.
    #[default]
    Fake,
    /// Error -32603.
    Error,
    /// Never answer.
    Ignore,
}

/// Answer to `elicitation/create` when a mode was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ElicitationPolicy {
    /// Action `cancel`.
    #[default]
    Cancel,
    /// Action `decline`.
    Decline,
    /// Never answer.
    Ignore,
}

/// How strongly the specification asks for a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A violation makes the agent nonconformant.
    Must,
    /// A violation is a warning; `--fail-on should` makes it count.
    Should,
    /// Allowed behaviour, shown for information.
    May,
    /// The specification is silent: what the agent does is recorded and never counts.
    Info,
}

impl Level {
    /// The word that TOML and reports use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::May => "may",
            Self::Info => "info",
        }
    }
}

/// One requirement: when it applies, and the assertions that decide it. All expressions are CEL over the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// `ACP-AREA-NNN`; unique in the pack.
    pub id: String,
    /// How much it counts.
    pub level: Level,
    /// Group in the summary, lower case.
    pub area: String,
    /// What is required, one sentence.
    pub title: String,
    /// Where the specification says so (`page#heading`), or `-` where it is silent.
    pub spec: String,
    /// What it means for a user when this fails.
    pub why: String,
    /// Paths into the `initialize` result that must be `true` or an object; else skipped as `not_advertised`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Boolean expression; false means skipped as `not_advertised`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<String>,
    /// Requirements without which this one means nothing; unless they passed, skipped as `blocked_by`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<String>,
    /// Boolean expression; false means skipped as `not_exercised`: the agent was never brought to do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exercised: Option<String>,
    /// Boolean expression; true means that the agent gave no ground for a verdict (inconclusive, agent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inconclusive_if: Option<String>,
    /// Boolean expressions that all must be true.
    pub assert: Vec<String>,
    /// Expression whose value is shown with the outcome: what the agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// Expression for the entry or entries that prove the outcome. Default: the frames of the steps that the deciding
    /// expression names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub show: Option<String>,
}

/// What a driver executes: a scenario with its prompts resolved and without its requirements. This is the member
/// `scenario` of `pintle.input.v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Always [`SCENARIO_SCHEMA`].
    pub schema: String,
    /// The scenario's id.
    pub id: String,
    /// What `initialize` asks for unless the step says otherwise.
    pub protocol_version: u16,
    /// What `initialize` offers.
    pub client_capabilities: Map<String, Value>,
    /// How to answer the agent.
    pub callbacks: Callbacks,
    /// The steps, in order. Every `prompt` step has `text` or `blocks`.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// The plan for a driver: prompts replaced by their text (`overrides` by key first, then the pack's table).
    ///
    /// The loader has checked that every key exists, so a key that is in neither table keeps its `prompt` member, and a
    /// driver refuses it.
    pub fn plan(&self, manifest: &Manifest, overrides: &BTreeMap<String, String>) -> Plan {
        let mut steps = self.steps.clone();
        for step in &mut steps {
            let Step::Prompt(prompt) = step else { continue };
            let Some(key) = &prompt.prompt else { continue };
            let text = overrides.get(key).or_else(|| manifest.prompts.get(key).map(|prompt| &prompt.text));
            if let Some(text) = text {
                prompt.text = Some(text.clone());
                prompt.prompt = None;
            }
        }
        Plan {
            schema: SCENARIO_SCHEMA.to_owned(),
            id: self.id.clone(),
            protocol_version: manifest.protocol_version,
            client_capabilities: self.client_capabilities.clone(),
            callbacks: self.callbacks.clone(),
            steps,
        }
    }

    /// The waits that hold in this scenario.
    pub fn timeouts(&self, manifest: &Manifest) -> Timeouts {
        self.timeouts_ms.apply(manifest.timeouts_ms)
    }
}
