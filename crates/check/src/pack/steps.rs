//! The steps of a scenario, one type per kind.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that a driver does. In TOML and JSON the member `do` names the kind.
///
/// A step waits for what it waits for, then the next one starts. A step that times out or cannot be carried out ends
/// the scenario (the steps after it are `skipped`), unless it says `optional = true`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// Send `initialize` and wait for the reply.
    Initialize(InitializeStep),
    /// Send `authenticate`; a no-op (status `skipped`) when the user chose no method and the step names none.
    Authenticate(AuthenticateStep),
    /// Send any request.
    Request(RequestStep),
    /// Send any notification.
    Notify(NotifyStep),
    /// Send `session/new` and remember the session id.
    NewSession(NewSessionStep),
    /// Send `session/prompt`.
    Prompt(PromptStep),
    /// Send `session/cancel`; answer held permission requests of the session with `cancelled` after it.
    Cancel(CancelStep),
    /// Send `$/cancel_request` for a request that was sent under a name.
    CancelRequest(CancelRequestStep),
    /// Answer a request of the agent that the callback policy holds.
    Respond(RespondStep),
    /// Write bytes as they are.
    Raw(RawStep),
    /// Wait for something.
    Wait(WaitStep),
    /// Close the agent's stdin; what it still writes is recorded.
    CloseStdin(CloseStdinStep),
    /// Send a signal to the agent's process.
    Signal(SignalStep),
    /// Stop reading the agent's stdout.
    PauseReading(PauseReadingStep),
    /// Read again.
    ResumeReading(ResumeReadingStep),
}

impl Step {
    /// The kind's name, as in `do` and in the driver operation `acp.step.KIND`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Initialize(_) => "initialize",
            Self::Authenticate(_) => "authenticate",
            Self::Request(_) => "request",
            Self::Notify(_) => "notify",
            Self::NewSession(_) => "new_session",
            Self::Prompt(_) => "prompt",
            Self::Cancel(_) => "cancel",
            Self::CancelRequest(_) => "cancel_request",
            Self::Respond(_) => "respond",
            Self::Raw(_) => "raw",
            Self::Wait(_) => "wait",
            Self::CloseStdin(_) => "close_stdin",
            Self::Signal(_) => "signal",
            Self::PauseReading(_) => "pause_reading",
            Self::ResumeReading(_) => "resume_reading",
        }
    }

    /// The capabilities without which the step is skipped.
    pub fn needs(&self) -> &[String] {
        match self {
            Self::Request(step) => &step.needs,
            Self::Notify(step) => &step.needs,
            Self::NewSession(step) => &step.needs,
            Self::Prompt(step) => &step.needs,
            Self::Cancel(step) => &step.needs,
            Self::Raw(step) => &step.needs,
            Self::Wait(step) => &step.needs,
            Self::Initialize(_)
            | Self::Authenticate(_)
            | Self::CancelRequest(_)
            | Self::Respond(_)
            | Self::CloseStdin(_)
            | Self::Signal(_)
            | Self::PauseReading(_)
            | Self::ResumeReading(_) => &[],
        }
    }

    /// Every kind, in the order of the enum.
    pub const KINDS: [&'static str; 15] = [
        "initialize",
        "authenticate",
        "request",
        "notify",
        "new_session",
        "prompt",
        "cancel",
        "cancel_request",
        "respond",
        "raw",
        "wait",
        "close_stdin",
        "signal",
        "pause_reading",
        "resume_reading",
    ];

    /// The name of the step whose reply this one waits for, if it waits for a reply: its own name where it sends a request.
    pub fn awaits_reply_to(&self) -> Option<&str> {
        match self {
            Self::Initialize(step) if step.wait => Some(&step.name),
            Self::Authenticate(step) if step.wait => Some(&step.name),
            Self::Request(step) if step.wait => step.name.as_deref(),
            Self::NewSession(step) if step.wait => Some(&step.name),
            Self::Prompt(step) if step.wait => step.name.as_deref(),
            Self::Wait(step) if step.until == WaitFor::Reply => step.of.as_deref(),
            _ => None,
        }
    }

    /// The name under which the trace and later steps find this step, if it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Initialize(step) => Some(&step.name),
            Self::Authenticate(step) => Some(&step.name),
            Self::Request(step) => step.name.as_deref(),
            Self::Notify(step) => step.name.as_deref(),
            Self::NewSession(step) => Some(&step.name),
            Self::Prompt(step) => step.name.as_deref(),
            Self::Cancel(step) => step.name.as_deref(),
            Self::CancelRequest(step) => step.name.as_deref(),
            Self::Respond(step) => step.name.as_deref(),
            Self::Raw(step) => step.name.as_deref(),
            Self::Wait(step) => step.name.as_deref(),
            Self::CloseStdin(step) => step.name.as_deref(),
            Self::Signal(_) | Self::PauseReading(_) | Self::ResumeReading(_) => None,
        }
    }

    /// True when a failure or a timeout of the step does not end the scenario.
    pub fn optional(&self) -> bool {
        match self {
            Self::Initialize(step) => step.optional,
            Self::Authenticate(step) => step.optional,
            Self::Request(step) => step.optional,
            Self::NewSession(step) => step.optional,
            Self::Prompt(step) => step.optional,
            Self::Respond(step) => step.optional,
            Self::Wait(step) => step.optional,
            Self::Notify(_)
            | Self::Cancel(_)
            | Self::CancelRequest(_)
            | Self::Raw(_)
            | Self::CloseStdin(_)
            | Self::Signal(_)
            | Self::PauseReading(_)
            | Self::ResumeReading(_) => false,
        }
    }
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn named_initialize() -> String {
    "initialize".to_owned()
}

fn named_authenticate() -> String {
    "authenticate".to_owned()
}

fn named_session() -> String {
    "session".to_owned()
}

/// Sends `initialize` with the scenario's capabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InitializeStep {
    /// Name of the request, by default `initialize`.
    #[serde(rename = "as", default = "named_initialize")]
    pub name: String,
    /// `protocolVersion` as JSON; default: the pack's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<Value>,
    /// Wait for the reply before the next step.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Instead of the start timeout (first request of the process) or the request timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A timeout does not end the scenario.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// Sends `authenticate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AuthenticateStep {
    /// Name of the request, by default `authenticate`.
    #[serde(rename = "as", default = "named_authenticate")]
    pub name: String,
    /// `methodId`; default: what the user gave with `--auth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Wait for the reply before the next step.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Instead of the request timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A timeout does not end the scenario.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// Sends a request. Strings in `params` may contain `${NAME}` (session id got by the step NAME), `${cwd}`, `${id:NAME}`
/// (id of the request NAME) and `${reply:NAME/POINTER}` (the value at a JSON pointer in the `result` of the request NAME,
/// as in `${reply:session/modes/availableModes/0/id}`). A string that is nothing but one variable becomes its value,
/// whatever its type. A variable without a value makes the step `failed`. `$${` is a plain `${`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequestStep {
    /// Name under which the request and its reply are found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The method.
    pub method: String,
    /// `params` as a table or an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// `params` as JSON text, for what TOML cannot say (`null`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_json: Option<String>,
    /// The id as JSON text, written as it is; default: the driver's next integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Wait for the reply before the next step.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Instead of the request timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A timeout does not end the scenario.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Sends a notification; `params` as in [`RequestStep`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NotifyStep {
    /// Name under which the frame is found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The method.
    pub method: String,
    /// `params` as a table or an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// `params` as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_json: Option<String>,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Sends `session/new`; the id in the reply is the variable `${NAME}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSessionStep {
    /// Name of the session and of the request, by default `session`.
    #[serde(rename = "as", default = "named_session")]
    pub name: String,
    /// `cwd`; default: the work directory of the run, which is absolute. Written as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `mcpServers`; default: `[]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<Value>>,
    /// `additionalDirectories`; left out by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_directories: Option<Vec<String>>,
    /// Wait for the reply before the next step.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Instead of the request timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A timeout, or a reply without a session id, does not end the scenario.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Sends `session/prompt`. Exactly one of `prompt`, `text` and `blocks`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PromptStep {
    /// Name under which the request and its reply are found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The session's name.
    #[serde(default = "named_session")]
    pub session: String,
    /// Key into the pack's prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// One text block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content blocks as they are; `${..}` is replaced as in [`RequestStep`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<Value>>,
    /// Bytes of filler text that are added as one more text block, to make the line long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad_bytes: Option<u32>,
    /// `_meta` of the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// Wait for the reply before the next step.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub wait: bool,
    /// Instead of the prompt timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A timeout does not end the scenario.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Sends `session/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelStep {
    /// Name under which the frame is found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The session's name.
    #[serde(default = "named_session")]
    pub session: String,
    /// Leave held permission requests open: what a faulty client would do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_permissions: bool,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Sends `$/cancel_request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelRequestStep {
    /// Name under which the frame is found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the request to cancel.
    pub of: String,
}

/// Answers the oldest held request of the agent. Exactly one of `outcome`, `result_json` and `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RespondStep {
    /// Name under which the frame is found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Method of the held request.
    pub method: String,
    /// For `session/request_permission`: what the policy of that name would answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RespondOutcome>,
    /// `result` as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_json: Option<String>,
    /// An error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RespondError>,
    /// Answer every other request of this method likewise until the next prompt: an agent may ask more than once in a turn.
    #[serde(default, skip_serializing_if = "is_false")]
    pub later: bool,
    /// It is fine when no such request is held (status `skipped`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// Answers that `respond` can give to a permission request; meaning as in
/// [`PermissionPolicy`](super::PermissionPolicy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RespondOutcome {
    /// Select an option of kind `allow_once`.
    AllowOnce,
    /// Select an option of kind `allow_always`.
    AllowAlways,
    /// Select an option of kind `reject_once`.
    RejectOnce,
    /// Select an option of kind `reject_always`.
    RejectAlways,
    /// Outcome `cancelled`.
    Cancelled,
}

/// A JSON-RPC error that `respond` sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RespondError {
    /// `code`.
    pub code: i64,
    /// `message`.
    pub message: String,
}

/// Writes bytes. Exactly one of `text`, `base64` and `repeat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RawStep {
    /// Name under which the frame, and a response with the id `id`, are found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text; `${..}` is replaced as in [`RequestStep`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes in base64 (standard alphabet, padded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// A pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// Add a LF.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub newline: bool,
    /// The id inside the bytes as JSON text, so that a response is found as this step's reply. `null` finds the next
    /// response whose id is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// `prefix`, then `unit` `count` times, then `suffix`; at most 64 MiB in all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Written once, first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Written `count` times.
    pub unit: String,
    /// How often.
    pub count: u32,
    /// Written once, last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suffix: String,
}

/// Waits for one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitStep {
    /// Name under which the frame that ended the wait is found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What to wait for.
    #[serde(rename = "for")]
    pub until: WaitFor,
    /// `reply`: name of the request. `update`, `call`: name of the request whose reply ends the wait too, so that a
    /// turn that is over does not cost the whole timeout (status `timeout`). `quiet`: the same, with status `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// `call` and `frame`: the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// `update`: only this kind of update (`tool_call`, ..).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
    /// `quiet`: nothing arrives for this long; default: the quiet timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<u64>,
    /// Longest wait; default: the prompt timeout for the reply of a prompt and for `update` and `call`, the close
    /// grace for `exit`, else the request timeout. `quiet` gives up after this long with status `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// A timeout does not end the scenario.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
    /// Capability paths into the `initialize` result that must be `true` or an object; else the step is `skipped` and the
    /// scenario goes on. Steps that refer to it need the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// What a `wait` step waits for. A frame that arrived after the step that sent `of` (without `of`: after the step
/// before this one began) and was not used by an earlier wait counts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// The reply to the request `of`.
    Reply,
    /// A `session/update`.
    Update,
    /// A request of the agent.
    Call,
    /// No frame from the agent for a while. While reading is paused, just the time.
    Quiet,
    /// The agent's exit.
    Exit,
    /// Any frame from the agent (with `method`: of that method).
    Frame,
}

/// Closes stdin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CloseStdinStep {
    /// Name under which the step is found.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Sends a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SignalStep {
    /// Which one.
    pub signal: SignalName,
}

/// Signals that a scenario may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum SignalName {
    /// SIGINT.
    Int,
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Cont,
}

/// Stops reading stdout. The pipe fills; an agent that writes then waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseReadingStep {}

/// Reads again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeReadingStep {}
