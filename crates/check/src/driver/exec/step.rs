//! How each kind of step begins.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pintle_wire::{Profile, ScanLimits, scan};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::inbound::normal_id;
use super::super::placeholder::{Lookup, fill, fill_json_text};
use super::answer::Given;
use super::ladder::millis;
use super::mark::Pattern;
use super::{Action, Awaited, Content, Executor, Frame, Sent, Wait};
use crate::observation::{Direction, StepStatus};
use crate::pack::{
    AuthenticateStep, CancelRequestStep, CancelStep, InitializeStep, NewSessionStep, NotifyStep, PermissionPolicy,
    PromptStep, RawStep, RequestStep, RespondOutcome, RespondStep, Step, WaitFor, WaitStep,
};

/// Most bytes that one `raw` step writes.
const MAX_RAW_BYTES: usize = 64 * 1024 * 1024 + 4096;
/// Most bytes of filler in one prompt.
const MAX_PAD_BYTES: u32 = 64 * 1024 * 1024;

/// How a step that has begun goes on.
pub(super) enum Begun {
    /// It is done.
    Done,
    /// It waits.
    Wait { what: Awaited, at_most: Duration },
    /// There was nothing to do.
    Skipped(Cow<'static, str>),
    /// It could not be done.
    Failed(Cow<'static, str>),
}

/// Why a line could not be built or sent.
type Failure = Cow<'static, str>;

impl Executor {
    pub(super) fn begin_step(&mut self, now: Duration) {
        self.began.push((self.lines_in, now));
        let step = self.plan.steps[self.current].clone();
        if let Some(path) = step.needs().iter().find(|path| !self.advertised(path)) {
            let why = format!("{path} is not advertised");
            return self.end_step((StepStatus::Skipped, None, Some(why.into())), now);
        }
        let begun = match step {
            Step::Initialize(step) => self.initialize(now, step),
            Step::Authenticate(step) => self.authenticate(now, step),
            Step::Request(step) => self.request(now, step),
            Step::Notify(step) => self.notify(now, &step),
            Step::NewSession(step) => self.new_session(now, step),
            Step::Prompt(step) => self.prompt(now, step),
            Step::Cancel(step) => self.cancel_session(now, &step),
            Step::CancelRequest(step) => self.cancel_request(now, &step),
            Step::Respond(step) => self.respond(now, &step),
            Step::Raw(step) => self.raw(now, &step),
            Step::Wait(step) => self.wait(step),
            Step::CloseStdin(_) => {
                self.close_stdin(now);
                Ok(Begun::Done)
            }
            Step::Signal(step) => {
                self.signalled = true;
                self.actions.push_back(Action::Signal(step.signal));
                Ok(Begun::Done)
            }
            Step::PauseReading(_) => Ok(self.set_reading(false)),
            Step::ResumeReading(_) => Ok(self.set_reading(true)),
        };
        match begun.unwrap_or_else(Begun::Failed) {
            Begun::Done => self.end_step((StepStatus::Ok, None, None), now),
            Begun::Skipped(why) => self.end_step((StepStatus::Skipped, None, Some(why)), now),
            Begun::Failed(why) => self.end_step((StepStatus::Failed, None, Some(why)), now),
            Begun::Wait { what, at_most } => self.wait = Some(Wait { what, since: now, until: now + at_most }),
        }
    }

    /// Whether the value at a path into the `initialize` result is `true` or an object.
    fn advertised(&self, path: &str) -> bool {
        let results = self.requests.iter().filter(|sent| sent.method == "initialize");
        let mut results = results.filter_map(|sent| sent.reply.as_ref()?.result.as_ref());
        let at = results.next().and_then(|result| path.split('.').try_fold(result, |at, name| at.get(name)));
        at.is_some_and(|value| value.is_object() || *value == Value::Bool(true))
    }

    fn initialize(&mut self, now: Duration, step: InitializeStep) -> Result<Begun, Failure> {
        let timeouts = self.settings.timeouts;
        let default = if self.initialized_once { timeouts.request } else { timeouts.start };
        self.initialized_once = true;
        let params = json!({
            "protocolVersion": step.protocol_version.unwrap_or_else(|| self.plan.protocol_version.into()),
            "clientCapabilities": self.plan.client_capabilities,
            "clientInfo": {"name": "pintle", "title": "Pintle", "version": env!("CARGO_PKG_VERSION")},
        });
        let request = self.send_request(now, Some(step.name), "initialize", Some(&params.to_string()), None, None)?;
        Ok(until_reply(request, step.wait, step.timeout_ms.unwrap_or(default)))
    }

    fn authenticate(&mut self, now: Duration, step: AuthenticateStep) -> Result<Begun, Failure> {
        let Some(method) = step.method else {
            return Ok(Begun::Skipped("no authentication method was chosen".into()));
        };
        let params = json!({"methodId": method}).to_string();
        let request = self.send_request(now, Some(step.name), "authenticate", Some(&params), None, None)?;
        Ok(until_reply(request, step.wait, step.timeout_ms.unwrap_or(self.settings.timeouts.request)))
    }

    fn request(&mut self, now: Duration, step: RequestStep) -> Result<Begun, Failure> {
        let params = self.params(step.params.as_ref(), step.params_json.as_deref())?;
        let default = match step.method.as_str() {
            "session/prompt" => self.settings.timeouts.prompt,
            "initialize" if !std::mem::replace(&mut self.initialized_once, true) => self.settings.timeouts.start,
            _ => self.settings.timeouts.request,
        };
        let session = match step.method.as_str() {
            "session/prompt" => params.as_deref().and_then(session_of),
            _ => None,
        };
        let request =
            self.send_request(now, step.name, &step.method, params.as_deref(), step.id.as_deref(), session)?;
        Ok(until_reply(request, step.wait, step.timeout_ms.unwrap_or(default)))
    }

    fn notify(&mut self, now: Duration, step: &NotifyStep) -> Result<Begun, Failure> {
        let params = self.params(step.params.as_ref(), step.params_json.as_deref())?;
        self.send_notification(now, step.name.as_deref(), &step.method, params.as_deref())?;
        Ok(Begun::Done)
    }

    fn new_session(&mut self, now: Duration, step: NewSessionStep) -> Result<Begun, Failure> {
        let mut params = json!({
            "cwd": step.cwd.as_deref().unwrap_or(&self.settings.session_cwd),
            "mcpServers": step.mcp_servers.unwrap_or_default(),
        });
        if let Some(directories) = step.additional_directories {
            params["additionalDirectories"] = json!(directories);
        }
        let params = self.fill(&params)?.to_string();
        let request = self.send_request(now, Some(step.name), "session/new", Some(&params), None, None)?;
        if !step.wait {
            return Ok(Begun::Done);
        }
        let at_most = millis(step.timeout_ms.unwrap_or(self.settings.timeouts.request));
        Ok(Begun::Wait { what: Awaited::Reply { request, session: true }, at_most })
    }

    fn prompt(&mut self, now: Duration, step: PromptStep) -> Result<Begun, Failure> {
        let session = self.session(&step.session)?;
        let mut blocks = match (step.text, step.blocks) {
            (Some(text), None) => vec![json!({"type": "text", "text": text})],
            (None, Some(blocks)) => blocks.iter().map(|block| self.fill(block)).collect::<Result<_, _>>()?,
            _ => return Err("the prompt has no text".into()),
        };
        if let Some(bytes) = step.pad_bytes {
            if bytes > MAX_PAD_BYTES {
                return Err(format!("the filler is over {MAX_PAD_BYTES} bytes").into());
            }
            blocks.push(json!({"type": "text", "text": "pad ".repeat(bytes as usize / 4)}));
        }
        let mut params = json!({"sessionId": session, "prompt": blocks});
        if let Some(meta) = step.meta {
            params["_meta"] = self.fill(&meta)?;
        }
        self.cancelling.retain(|cancelling| *cancelling != session);
        self.standing = None;
        let params = params.to_string();
        let request = self.send_request(now, step.name, "session/prompt", Some(&params), None, Some(session))?;
        Ok(until_reply(request, step.wait, step.timeout_ms.unwrap_or(self.settings.timeouts.prompt)))
    }

    fn cancel_session(&mut self, now: Duration, step: &CancelStep) -> Result<Begun, Failure> {
        let session = self.session(&step.session)?;
        let params = json!({"sessionId": session}).to_string();
        self.send_notification(now, step.name.as_deref(), "session/cancel", Some(&params))?;
        if !step.keep_permissions {
            self.release_permissions(now, &session);
            let open = |sent: &Sent| sent.reply.is_none() && sent.session.as_ref() == Some(&session);
            if self.requests.iter().any(open) {
                self.cancelling.push(session);
            }
        }
        Ok(Begun::Done)
    }

    fn cancel_request(&mut self, now: Duration, step: &CancelRequestStep) -> Result<Begun, Failure> {
        let id = &self.requests[self.named(&step.of)?].id;
        let params = format!(r#"{{"requestId":{id}}}"#);
        self.send_notification(now, step.name.as_deref(), "$/cancel_request", Some(&params))?;
        Ok(Begun::Done)
    }

    fn respond(&mut self, now: Duration, step: &RespondStep) -> Result<Begun, Failure> {
        let result = step.result_json.as_deref().map(|text| self.fill_json(text)).transpose()?;
        let given = match (&step.error, result, step.outcome) {
            (Some(error), ..) => Given::Error(error.code, error.message.clone()),
            (None, Some(result), _) => Given::Result(result),
            (None, None, outcome) => Given::Choice(policy_of(outcome)),
        };
        let answered = self.answer_held(now, &step.method, &given, step.name.as_deref());
        if step.later {
            while self.answer_held(now, &step.method, &given, None) {}
            self.standing = Some((step.method.clone(), given));
        }
        if answered {
            Ok(Begun::Done)
        } else if step.optional {
            Ok(Begun::Skipped("no such request of the agent is held".into()))
        } else {
            Err("no such request of the agent is held".into())
        }
    }

    fn raw(&mut self, now: Duration, step: &RawStep) -> Result<Begun, Failure> {
        let bytes = match (&step.text, &step.base64, &step.repeat) {
            (Some(text), None, None) => fill_json_text(text, &Scope(self)).map_err(no_value)?.into_bytes(),
            (None, Some(base64), None) => {
                STANDARD.decode(base64).map_err(|_| Failure::from("the step's base64 is not base64"))?
            }
            (None, None, Some(repeat)) => {
                let count = repeat.count as usize;
                let size = repeat.unit.len().saturating_mul(count);
                if size.saturating_add(repeat.prefix.len() + repeat.suffix.len()) > MAX_RAW_BYTES {
                    return Err(format!("the pattern is over {MAX_RAW_BYTES} bytes").into());
                }
                [repeat.prefix.as_str(), &repeat.unit.repeat(count), &repeat.suffix].concat().into_bytes()
            }
            _ => return Err("the step says nothing to write, or too much".into()),
        };
        let after_line = self.lines_in;
        self.send(now, bytes, step.newline, step.name.as_deref())?;
        if let Some(id) = &step.id {
            let (name, id) = (step.name.clone(), normal_id(id));
            self.requests.push(Sent { name, id, method: String::new(), session: None, after_line, reply: None });
        }
        Ok(Begun::Done)
    }

    fn wait(&self, step: WaitStep) -> Result<Begun, Failure> {
        let timeouts = self.settings.timeouts;
        let of = step.of.as_deref().map(|name| self.named(name)).transpose()?;
        let line = |pattern| Awaited::Line { pattern, after_line: self.looks_back_to(of), or_reply: of };
        let (what, default) = match step.until {
            WaitFor::Reply => {
                let request = of.ok_or("the step does not say whose reply")?;
                let is_prompt = self.requests[request].method == "session/prompt";
                let default = if is_prompt { timeouts.prompt } else { timeouts.request };
                (Awaited::Reply { request, session: false }, default)
            }
            WaitFor::Update => (line(Pattern::Update(step.update)), timeouts.prompt),
            WaitFor::Call => (line(Pattern::Call(step.method)), timeouts.prompt),
            WaitFor::Frame => (line(Pattern::Frame(step.method)), timeouts.request),
            WaitFor::Quiet => {
                let quiet = millis(step.quiet_ms.unwrap_or(timeouts.quiet));
                (Awaited::Quiet { quiet, or_reply: of }, timeouts.request)
            }
            WaitFor::Exit => (Awaited::Exit, timeouts.close_grace),
        };
        Ok(Begun::Wait { what, at_most: millis(step.timeout_ms.unwrap_or(default)) })
    }

    /// The line behind which a wait looks: where the request `of` was sent, else where the step before began.
    fn looks_back_to(&self, of: Option<usize>) -> u64 {
        match of {
            Some(request) => self.requests[request].after_line,
            None => {
                let before = self.began.len().saturating_sub(2);
                self.began.get(before).map_or(0, |(line, _)| *line)
            }
        }
    }

    fn set_reading(&mut self, reading: bool) -> Begun {
        self.reading = reading;
        self.actions.push_back(Action::Read(reading));
        Begun::Done
    }

    fn params(&self, params: Option<&Value>, text: Option<&str>) -> Result<Option<String>, Failure> {
        match (params, text) {
            (Some(params), _) => Ok(Some(self.fill(params)?.to_string())),
            (None, Some(text)) => Ok(Some(fill_json_text(text, &Scope(self)).map_err(no_value)?)),
            (None, None) => Ok(None),
        }
    }

    fn fill(&self, value: &Value) -> Result<Value, Failure> {
        fill(value, &Scope(self)).map_err(no_value)
    }

    fn fill_json(&self, text: &str) -> Result<Value, Failure> {
        let text = fill_json_text(text, &Scope(self)).map_err(no_value)?;
        let deep = scan(text.as_bytes(), Profile::Acp, ScanLimits::DEPTH_ONLY).ok();
        let deep = deep.and_then(|text| text.decode().ok());
        deep.or_else(|| serde_json::from_str(&text).ok()).ok_or_else(|| "the step's JSON is not JSON".into())
    }

    fn session(&self, name: &str) -> Result<Value, Failure> {
        self.variables.get(name).cloned().ok_or_else(|| format!("there is no session {name}").into())
    }

    /// The latest request that was sent under a name.
    fn named(&self, name: &str) -> Result<usize, Failure> {
        let found = self.requests.iter().rposition(|sent| sent.name.as_deref() == Some(name));
        found.ok_or_else(|| format!("no request {name} was sent").into())
    }

    fn send_request(
        &mut self,
        now: Duration,
        name: Option<String>,
        method: &str,
        params: Option<&str>,
        id: Option<&str>,
        session: Option<Value>,
    ) -> Result<usize, Failure> {
        let id = match id {
            Some(id) => id.to_owned(),
            None => self.next_id.to_string(),
        };
        self.next_id += 1;
        let after_line = self.lines_in;
        let method_text = Value::from(method);
        let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method_text}{params}}}"#);
        self.send(now, text.into_bytes(), true, name.as_deref())?;
        let (id, method) = (normal_id(&id), method.to_owned());
        self.requests.push(Sent { name, id, method, session, after_line, reply: None });
        Ok(self.requests.len() - 1)
    }

    fn send_notification(
        &mut self,
        now: Duration,
        name: Option<&str>,
        method: &str,
        params: Option<&str>,
    ) -> Result<(), Failure> {
        let method = Value::from(method);
        let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
        self.send(now, format!(r#"{{"jsonrpc":"2.0","method":{method}{params}}}"#).into_bytes(), true, name)
    }

    /// Records what is written as the lines that it makes, then writes it.
    pub(super) fn send(
        &mut self,
        now: Duration,
        mut bytes: Vec<u8>,
        newline: bool,
        name: Option<&str>,
    ) -> Result<(), Failure> {
        if !self.stdin_open {
            return Err("the agent's standard input is closed".into());
        }
        if newline {
            bytes.push(b'\n');
        }
        let bytes = Bytes::from(bytes);
        let mut rest = bytes.clone();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let line = rest.split_to(end.unwrap_or(rest.len()));
            if end.is_some() {
                let _line_feed = rest.split_to(1);
            }
            self.lines_out += 1;
            self.actions.push_back(Action::Frame(Frame {
                dir: Direction::Out,
                line: self.lines_out,
                at: now,
                content: Content::Whole(line),
                unterminated: end.is_none(),
                step: self.running_step(),
                name: name.map(str::to_owned),
                notable: true,
            }));
        }
        self.actions.push_back(Action::Write(bytes));
        Ok(())
    }
}

/// What placeholders mean in a running scenario.
struct Scope<'a>(&'a Executor);

impl Lookup for Scope<'_> {
    fn get(&self, name: &str) -> Option<Value> {
        if name == "cwd" {
            return Some(Value::from(self.0.settings.session_cwd.as_str()));
        }
        if let Some(name) = name.strip_prefix("id:") {
            let sent = self.0.requests.iter().rfind(|sent| sent.name.as_deref() == Some(name))?;
            return serde_json::from_str(&sent.id).ok();
        }
        if let Some(path) = name.strip_prefix("reply:") {
            let (name, pointer) = path.split_at(path.find('/').unwrap_or(path.len()));
            let sent = self.0.requests.iter().rfind(|sent| sent.name.as_deref() == Some(name))?;
            return sent.reply.as_ref()?.result.as_ref()?.pointer(pointer).cloned();
        }
        self.0.variables.get(name).cloned()
    }
}

fn until_reply(request: usize, wait: bool, timeout_ms: u64) -> Begun {
    if wait {
        Begun::Wait { what: Awaited::Reply { request, session: false }, at_most: millis(timeout_ms) }
    } else {
        Begun::Done
    }
}

fn session_of(params: &str) -> Option<Value> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct About {
        session_id: Option<Value>,
    }
    serde_json::from_str::<About>(params).ok()?.session_id
}

fn no_value(name: String) -> Failure {
    format!("the placeholder {name} has no value").into()
}

fn policy_of(outcome: Option<RespondOutcome>) -> PermissionPolicy {
    match outcome {
        Some(RespondOutcome::AllowOnce) => PermissionPolicy::AllowOnce,
        Some(RespondOutcome::AllowAlways) => PermissionPolicy::AllowAlways,
        Some(RespondOutcome::RejectOnce) => PermissionPolicy::RejectOnce,
        Some(RespondOutcome::RejectAlways) => PermissionPolicy::RejectAlways,
        Some(RespondOutcome::Cancelled) | None => PermissionPolicy::Cancelled,
    }
}
