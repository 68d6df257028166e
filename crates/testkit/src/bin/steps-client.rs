//! Our client, playing the steps of a file; it prints what its types hold. `cargo xtask interop` runs it against the mock
//! agent and against agents on the official SDKs.
//!
//! `steps-client STEPS.json CWD AGENT [ARGS..]`: one JSON line a step, with the updates, the calls of the client's methods
//! and the result. What that means is not decided here.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pintle_sdk::acp::types::*;
use pintle_sdk::acp::{Client, ClientConnection, Ctx, Error, PromptError, RequestError, SendError, connect};
use pintle_sdk::process::{Environment, Launch, Program, Stderr};
use pintle_sdk::transport::child;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// How long an update may take that comes after the answer.
const LATE: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Default)]
struct Recorder {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    step: Value,
    updates: Vec<Value>,
    calls: Vec<Value>,
    terminals: HashMap<String, String>,
    killed: HashSet<String>,
}

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, notification: &SessionNotification) {
        self.state().updates.push(plain(notification));
        self.changed.notify_waiters();
    }

    fn call(&self, method: &str, params: &impl Serialize) {
        self.state().calls.push(json!({ "method": method, "params": plain(params) }));
        self.changed.notify_waiters();
    }

    /// Waits until the step has come so far, or for as long as something late may take.
    async fn until(&self, far: impl Fn(&State) -> bool) {
        let enough = async {
            loop {
                let changed = self.changed.notified();
                if far(&self.state()) {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(LATE, enough).await;
    }
}

impl Client for Recorder {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::new();
        capabilities.fs = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
        capabilities.terminal = true;
        let mut session = ClientSessionCapabilities::new();
        session.notices = Some(Marker::new());
        session.compaction = Some(Marker::new());
        session.config_options = Some(ConfigOptionCapabilities::new().boolean(Marker::new()));
        capabilities.session = Some(session);
        capabilities.plan = Some(Marker::new());
        capabilities.subagents = Some(Marker::new());
        capabilities.elicitation = Some(ElicitationCapabilities::new().form(Marker::new()).url(Marker::new()));
        capabilities
    }

    fn info(&self) -> Option<Implementation> {
        Some(Implementation::new("steps-client", "0"))
    }

    async fn session_update(&self, notification: SessionNotification, _: &Ctx) {
        self.update(&notification);
    }

    async fn request_permission(
        &self,
        request: RequestPermissionRequest,
        _: &Ctx,
    ) -> Result<RequestPermissionResponse, Error> {
        self.call("session/request_permission", &request);
        let step = self.state().step.clone();
        if step["cancel"] == "permission" {
            // The player cancels the turn; the connection answers for this handler then, and drops it.
            return std::future::pending().await;
        }
        let wanted = step["permission"].as_str().unwrap_or("allow_once");
        let chosen = request.options.iter().find(|option| plain(&option.kind) == json!(wanted));
        Ok(match chosen {
            Some(option) => RequestPermissionResponse::selected(option.option_id.clone()),
            None => RequestPermissionResponse::cancelled(),
        })
    }

    async fn read_text_file(&self, request: ReadTextFileRequest, _: &Ctx) -> Result<ReadTextFileResponse, Error> {
        self.call("fs/read_text_file", &request);
        let read = std::fs::read_to_string(request.path.as_str());
        Ok(ReadTextFileResponse::new(read.map_err(|_| Error::resource_not_found(request.path.as_str()))?))
    }

    async fn write_text_file(&self, request: WriteTextFileRequest, _: &Ctx) -> Result<WriteTextFileResponse, Error> {
        self.call("fs/write_text_file", &request);
        std::fs::write(request.path.as_str(), &request.content).map_err(|_| Error::internal_error())?;
        Ok(WriteTextFileResponse::new())
    }

    async fn create_terminal(&self, request: CreateTerminalRequest, _: &Ctx) -> Result<CreateTerminalResponse, Error> {
        self.call("terminal/create", &request);
        let mut state = self.state();
        let id = format!("terminal-{}", state.terminals.len() + 1);
        state.terminals.insert(id.clone(), request.command);
        Ok(CreateTerminalResponse::new(id))
    }

    async fn terminal_output(&self, request: TerminalOutputRequest, _: &Ctx) -> Result<TerminalOutputResponse, Error> {
        self.call("terminal/output", &request);
        Ok(TerminalOutputResponse::new("pintle\n", false))
    }

    async fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
        _: &Ctx,
    ) -> Result<WaitForTerminalExitResponse, Error> {
        self.call("terminal/wait_for_exit", &request);
        let mut response = WaitForTerminalExitResponse::new();
        match self.state().killed.contains(request.terminal_id.as_str()) {
            true => response.signal = Some("SIGKILL".to_owned()),
            false => response.exit_code = Some(0),
        }
        Ok(response)
    }

    async fn kill_terminal(&self, request: KillTerminalRequest, _: &Ctx) -> Result<KillTerminalResponse, Error> {
        self.call("terminal/kill", &request);
        self.state().killed.insert(request.terminal_id.as_str().to_owned());
        Ok(KillTerminalResponse::new())
    }

    async fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
        _: &Ctx,
    ) -> Result<ReleaseTerminalResponse, Error> {
        self.call("terminal/release", &request);
        Ok(ReleaseTerminalResponse::new())
    }

    async fn create_elicitation(
        &self,
        request: CreateElicitationRequest,
        _: &Ctx,
    ) -> Result<CreateElicitationResponse, Error> {
        self.call("elicitation/create", &request);
        let content = match request.mode {
            ElicitationMode::Form(_) => vec![
                ("name".to_owned(), ElicitationContentValue::String("Ada".to_owned())),
                ("age".to_owned(), ElicitationContentValue::Integer(36)),
                ("member".to_owned(), ElicitationContentValue::Boolean(true)),
                ("days".to_owned(), ElicitationContentValue::Strings(vec!["sunday".to_owned()])),
            ],
            _ => Vec::new(),
        };
        Ok(CreateElicitationResponse::new(ElicitationAction::accept(content)))
    }

    async fn complete_elicitation(&self, notification: CompleteElicitationNotification, _: &Ctx) {
        self.call("elicitation/complete", &notification);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let steps = std::fs::read_to_string(args.next().ok_or("no steps")?)?;
    let steps: Vec<Value> = serde_json::from_str(&steps)?;
    let cwd = args.next().ok_or("no working directory")?;
    let path = std::env::var_os("PATH");
    let program = Program::find(args.next().ok_or("no agent")?, path.as_deref(), Path::new(&cwd))?;
    let mut launch = Launch::new(program);
    launch.args = args.map(Into::into).collect();
    launch.env = Environment::agent_allowlist(std::env::vars_os());
    launch.stderr = Stderr::Inherit;
    let transport = child(launch).await?;
    let mut watch = transport.watch();
    let recorder = Recorder::default();
    let connection = connect(recorder.clone(), transport)?;
    let mut player = Player { recorder, connection, cwd, sessions: HashMap::new() };
    for step in steps {
        player.play(step).await?;
    }
    player.connection.shut_down().await?;
    watch.gone().await;
    Ok(())
}

struct Player {
    recorder: Recorder,
    connection: ClientConnection,
    cwd: String,
    sessions: HashMap<String, SessionId>,
}

impl Player {
    async fn play(&mut self, step: Value) -> Result<(), Failure> {
        self.recorder.state().step = step.clone();
        let mut more = Map::new();
        let result = self.act(&step, &mut more).await;
        let late = usize::try_from(step["updates"].as_u64().unwrap_or(0))?;
        self.recorder.until(|state| state.updates.len() >= late).await;
        let (updates, calls) = {
            let mut state = self.recorder.state();
            (std::mem::take(&mut state.updates), std::mem::take(&mut state.calls))
        };
        let mut line = json!({ "step": step["name"], "updates": updates, "calls": calls, "more": more });
        match result {
            Ok(Played::Result(result)) => line["result"] = result,
            Ok(Played::Skipped(why)) => line["skipped"] = json!(why),
            Err(error) => line["error"] = code(&error),
        }
        writeln!(std::io::stdout(), "{line}")?;
        Ok(())
    }

    async fn act(&mut self, step: &Value, more: &mut Map<String, Value>) -> Result<Played, RequestError> {
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        let session = self.sessions.get(step["session"].as_str().unwrap_or("main")).cloned();
        let session = session.unwrap_or_else(|| "".into());
        let cwd = self.cwd.as_str();
        let connection = &self.connection;
        Ok(Played::Result(match text("do") {
            "initialize" => plain(&connection.initialize().await?),
            "authenticate" => plain(&connection.request(AuthenticateRequest::new(text("method"))).await?),
            "logout" => plain(&connection.request(LogoutRequest::new()).await?),
            "new" => {
                let made = connection.request(NewSessionRequest::new(cwd)).await?;
                let name = step["as"].as_str().unwrap_or("main").to_owned();
                self.sessions.insert(name, made.session_id.clone());
                plain(&made)
            }
            "prompt" if step["cancel"] == "request" => {
                return Ok(Played::Skipped("a request is cancelled by dropping it, and then nobody sees its answer"));
            }
            "prompt" => self.prompt(step, session, more).await?,
            "cancel" => {
                connection.cancel(&session);
                json!({})
            }
            "set_mode" => plain(&connection.request(SetSessionModeRequest::new(session, text("value"))).await?),
            "set_option" => {
                let value = match step["on"].as_bool() {
                    Some(on) => SessionConfigValue::from(on),
                    None => SessionConfigValue::from(text("value")),
                };
                let request = SetSessionConfigOptionRequest::new(session, text("option"), value);
                plain(&connection.request(request).await?)
            }
            "list" => {
                let mut request = ListSessionsRequest::new();
                request.cwd = step["elsewhere"].as_bool().map(|_| "/no/such/folder".into());
                plain(&connection.request(request).await?)
            }
            "load" => plain(&connection.request(LoadSessionRequest::new(session, cwd)).await?),
            "resume" => plain(&connection.request(ResumeSessionRequest::new(session, cwd)).await?),
            "close" => plain(&connection.request(CloseSessionRequest::new(session)).await?),
            "delete" => plain(&connection.request(DeleteSessionRequest::new(session)).await?),
            "ext" => plain(&connection.ext_request(text("method"), &json!({})).await?.as_str()),
            _ => return Ok(Played::Skipped("no such step")),
        }))
    }

    async fn prompt(
        &self,
        step: &Value,
        session: SessionId,
        more: &mut Map<String, Value>,
    ) -> Result<Value, RequestError> {
        let ask =
            |text: &Value| PromptRequest::new(session.clone(), [ContentBlock::text(text.as_str().unwrap_or_default())]);
        let mut turn = self.connection.prompt_stream(ask(&step["text"])).await?;
        let cancel = step["cancel"].as_str().unwrap_or_default();
        if matches!(cancel, "update" | "close")
            && let Some(first) = turn.next().await
        {
            self.recorder.update(&first);
        }
        if step["second"].is_string() {
            more.insert("second".to_owned(), outcome(self.connection.request(ask(&step["second"])).await));
        }
        match cancel {
            "update" => turn.cancel(),
            "permission" => {
                let recorder = self.recorder.clone();
                recorder.until(|state| !state.calls.is_empty()).await;
                turn.cancel();
            }
            "close" => {
                let closed = self.connection.request(CloseSessionRequest::new(session.clone())).await;
                more.insert("close".to_owned(), outcome(closed));
            }
            _ => {}
        }
        while let Some(update) = turn.next().await {
            self.recorder.update(&update);
        }
        match turn.finish().await {
            Ok(response) => Ok(plain(&response)),
            Err(PromptError::Request(error)) => Err(error),
            Err(_) => Err(RequestError::Closed),
        }
    }
}

enum Played {
    Result(Value),
    Skipped(&'static str),
}

fn plain(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn outcome(result: Result<impl Serialize, RequestError>) -> Value {
    match result {
        Ok(value) => json!({ "result": plain(&value) }),
        Err(error) => json!({ "error": code(&error) }),
    }
}

/// A code of the agent's, `connection` where there is no agent any more, or what kept the request from being sent.
fn code(error: &RequestError) -> Value {
    match error {
        RequestError::Peer(error) => json!(error.code.get()),
        RequestError::Closed | RequestError::Send(SendError::Closed) => json!("connection"),
        other => json!(other.to_string()),
    }
}
