//! A client on the official Rust SDK that plays the steps of a file and prints what its typed interface gave it.
//!
//! `sdk-client STEPS.json CWD AGENT [ARGS..]`: one JSON line a step, with the updates, the calls of the client's methods
//! and the result. What that means is not decided here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::v1::{ConnectionTo, SentRequest};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client, JsonRpcRequest, UntypedMessage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// How long an update may take that comes after the answer.
const LATE: Duration = Duration::from_secs(10);

/// One step; see `interop/scenarios.toml`.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Step {
    name: String,
    #[serde(rename = "do")]
    action: String,
    session: Option<String>,
    #[serde(rename = "as")]
    as_session: Option<String>,
    method: String,
    text: String,
    second: Option<String>,
    permission: Option<String>,
    cancel: Option<String>,
    option: String,
    value: String,
    on: Option<bool>,
    elsewhere: bool,
    updates: usize,
}

#[derive(Clone, Default)]
struct Shared {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct State {
    step: Step,
    updates: Vec<Value>,
    calls: Vec<Value>,
    terminals: HashMap<String, String>,
    killed: HashSet<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_update(&self, update: &impl Serialize) {
        let update = serde_json::to_value(update).unwrap_or_default();
        self.state().updates.push(update);
        self.changed.notify_waiters();
    }

    fn note_call(&self, method: &str, params: &impl Serialize) {
        let params = serde_json::to_value(params).unwrap_or_default();
        self.state().calls.push(json!({ "method": method, "params": params }));
        self.changed.notify_waiters();
    }

    async fn updates(&self, count: usize) {
        let enough = async {
            loop {
                let changed = self.changed.notified();
                if self.state().updates.len() >= count {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(LATE, enough).await;
    }

    /// What the client's own files and terminals answer.
    fn serve<P: Serialize, R: DeserializeOwned>(&self, method: &str, params: &P) -> agent_client_protocol::Result<R> {
        self.note_call(method, params);
        let params = serde_json::to_value(params).unwrap_or_default();
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        let id = text("terminalId");
        let mut state = self.state();
        let answer = match method {
            "fs/write_text_file" => {
                std::fs::write(text("path"), text("content"))
                    .map_err(agent_client_protocol::Error::into_internal_error)?;
                json!({})
            }
            "fs/read_text_file" => {
                let read = std::fs::read_to_string(text("path"));
                json!({ "content": read.map_err(agent_client_protocol::Error::into_internal_error)? })
            }
            "terminal/create" => {
                let id = format!("terminal-{}", state.terminals.len() + 1);
                state.terminals.insert(id.clone(), text("command"));
                json!({ "terminalId": id })
            }
            "terminal/output" => json!({ "output": "pintle\n", "truncated": false, "exitStatus": { "exitCode": 0 } }),
            "terminal/wait_for_exit" if state.killed.contains(&id) => json!({ "signal": "SIGKILL" }),
            "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
            "terminal/kill" => {
                state.killed.insert(id);
                json!({})
            }
            "elicitation/create" if params["mode"] == "form" => {
                json!({ "action": "accept", "content": { "name": "Ada", "age": 36, "member": true, "days": ["sunday"] } })
            }
            "elicitation/create" => json!({ "action": "accept" }),
            _ => json!({}),
        };
        serde_json::from_value(answer).map_err(agent_client_protocol::Error::into_internal_error)
    }
}

macro_rules! serve {
    ($shared:expr, $request:ty, $method:literal) => {{
        let shared = $shared.clone();
        async move |request: $request, responder, _: ConnectionTo<Agent>| {
            responder.respond_with_result(shared.serve($method, &request))
        }
    }};
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let steps: Vec<Step> = serde_json::from_str(&std::fs::read_to_string(args.next().ok_or("no steps")?)?)?;
    let cwd = args.next().ok_or("no working directory")?;
    let agent = AcpAgent::new(AcpAgentConfig::new(args.next().ok_or("no agent")?).args(args));
    let last = steps.last().map(|step| step.name.clone());
    let shared = Shared::default();
    let all = Arc::new(AtomicBool::new(false));
    let played = all.clone();
    let (updating, asked, completed, playing) = (shared.clone(), shared.clone(), shared.clone(), shared.clone());
    let ended = Client
        .v1()
        .name("sdk-client")
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                updating.note_update(&notification);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_notification(
            async move |notification: CompleteElicitationNotification, _| {
                completed.note_call("elicitation/complete", &notification);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, connection: ConnectionTo<Agent>| {
                asked.note_call("session/request_permission", &request);
                let step = asked.state().step.clone();
                let wanted = step.permission.unwrap_or_else(|| "allow_once".to_owned());
                let kind = |option: &PermissionOption| serde_json::to_value(option.kind).unwrap_or_default();
                let chosen = request.options.iter().find(|option| kind(option) == json!(wanted));
                let outcome = match chosen {
                    _ if step.cancel.as_deref() == Some("permission") => {
                        connection.send_notification(CancelNotification::new(request.session_id.clone()))?;
                        RequestPermissionOutcome::Cancelled
                    }
                    Some(option) => {
                        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
                    }
                    None => RequestPermissionOutcome::Cancelled,
                };
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, WriteTextFileRequest, "fs/write_text_file"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, ReadTextFileRequest, "fs/read_text_file"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, CreateTerminalRequest, "terminal/create"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, TerminalOutputRequest, "terminal/output"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, WaitForTerminalExitRequest, "terminal/wait_for_exit"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, KillTerminalRequest, "terminal/kill"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, ReleaseTerminalRequest, "terminal/release"),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            serve!(shared, CreateElicitationRequest, "elicitation/create"),
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(agent, async move |connection: ConnectionTo<Agent>| {
            let mut player = Player { connection, shared: playing, cwd, sessions: HashMap::new() };
            for step in steps {
                player.play(step).await;
            }
            played.store(true, Ordering::Relaxed);
            Ok(())
        })
        .await;
    // How the connection ends after the last step is not a step: that one may be to make the agent crash.
    match ended {
        Err(error) if !all.load(Ordering::Relaxed) => {
            // The SDK may end the connection before the request that it was lost under is told of it.
            let running = shared.state().step.name.clone();
            println!("{}", json!({ "step": running, "updates": [], "calls": [], "more": {}, "error": "connection" }));
            if last.as_deref() == Some(running.as_str()) { Ok(()) } else { Err(error.into()) }
        }
        _ => Ok(()),
    }
}

struct Player {
    connection: ConnectionTo<Agent>,
    shared: Shared,
    cwd: String,
    sessions: HashMap<String, String>,
}

impl Player {
    async fn play(&mut self, step: Step) {
        self.shared.state().step = step.clone();
        let mut more = serde_json::Map::new();
        let result = self.act(&step, &mut more).await;
        self.shared.updates(step.updates).await;
        let (updates, calls) = {
            let mut state = self.shared.state();
            (std::mem::take(&mut state.updates), std::mem::take(&mut state.calls))
        };
        let mut line = json!({ "step": step.name, "updates": updates, "calls": calls, "more": more });
        match result {
            Ok(result) => line["result"] = result,
            Err(error) => line["error"] = error,
        }
        println!("{line}");
    }

    async fn act(&mut self, step: &Step, more: &mut serde_json::Map<String, Value>) -> Result<Value, Value> {
        let name = step.session.as_deref().unwrap_or("main");
        let session = self.sessions.get(name).cloned().unwrap_or_default();
        let (cwd, id) = (self.cwd.clone(), json!({ "sessionId": session }));
        match step.action.as_str() {
            "initialize" => self.ask::<InitializeRequest>(hello()).await,
            "authenticate" => self.ask::<AuthenticateRequest>(json!({ "methodId": step.method })).await,
            "logout" => self.ask::<LogoutRequest>(json!({})).await,
            "new" => {
                let made = self.ask::<NewSessionRequest>(json!({ "cwd": cwd, "mcpServers": [] })).await?;
                let name = step.as_session.clone().unwrap_or_else(|| "main".to_owned());
                self.sessions.insert(name, made["sessionId"].as_str().unwrap_or_default().to_owned());
                Ok(made)
            }
            "prompt" => self.prompt(step, &session, more).await,
            "cancel" => {
                let cancelled = self.connection.send_notification(CancelNotification::new(session));
                cancelled.map(|()| json!({})).map_err(|e| code(&e))
            }
            "set_mode" => {
                self.ask::<SetSessionModeRequest>(json!({ "sessionId": session, "modeId": step.value })).await
            }
            "set_option" => {
                let mut params = json!({ "sessionId": session, "configId": step.option, "value": step.value });
                if let Some(on) = step.on {
                    params["type"] = json!("boolean");
                    params["value"] = json!(on);
                }
                self.ask::<SetSessionConfigOptionRequest>(params).await
            }
            "list" => {
                let params = if step.elsewhere { json!({ "cwd": "/no/such/folder" }) } else { json!({}) };
                self.ask::<ListSessionsRequest>(params).await
            }
            "load" => {
                self.ask::<LoadSessionRequest>(json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] })).await
            }
            "resume" => self.ask::<ResumeSessionRequest>(json!({ "sessionId": session, "cwd": cwd })).await,
            "close" => self.ask::<CloseSessionRequest>(id).await,
            "delete" => self.ask::<DeleteSessionRequest>(id).await,
            "ext" => {
                let message = UntypedMessage::new(&step.method, json!({})).map_err(|e| code(&e))?;
                self.connection.send_request(message).block_task().await.map_err(|e| code(&e))
            }
            other => Err(json!(format!("no such step: {other}"))),
        }
    }

    async fn prompt(
        &self,
        step: &Step,
        session: &str,
        more: &mut serde_json::Map<String, Value>,
    ) -> Result<Value, Value> {
        let prompt = |text: &str| PromptRequest::new(session.to_owned(), vec![ContentBlock::from(text.to_owned())]);
        let sent: SentRequest<PromptResponse> = self.connection.send_request(prompt(&step.text));
        if matches!(step.cancel.as_deref(), Some("update" | "request" | "close")) {
            self.shared.updates(1).await;
        }
        if let Some(text) = &step.second {
            let second = self.connection.send_request(prompt(text)).block_task().await;
            more.insert("second".to_owned(), outcome(second));
        }
        match step.cancel.as_deref() {
            Some("update") => {
                self.connection.send_notification(CancelNotification::new(session.to_owned())).map_err(|e| code(&e))?;
            }
            Some("request") => sent.cancel().map_err(|e| code(&e))?,
            Some("close") => {
                let closed =
                    self.connection.send_request(CloseSessionRequest::new(session.to_owned())).block_task().await;
                more.insert("close".to_owned(), outcome(closed));
            }
            _ => {}
        }
        let answered = sent.block_task().await.map_err(|e| code(&e))?;
        Ok(serde_json::to_value(answered).unwrap_or_default())
    }

    /// Sends a request through its type, and gives the typed answer back as JSON.
    async fn ask<R>(&self, params: Value) -> Result<Value, Value>
    where
        R: JsonRpcRequest + DeserializeOwned,
        R::Response: Serialize,
    {
        let request: R = serde_json::from_value(params).map_err(|e| json!(e.to_string()))?;
        let answered = self.connection.send_request(request).block_task().await.map_err(|e| code(&e))?;
        Ok(serde_json::to_value(answered).unwrap_or_default())
    }
}

fn hello() -> Value {
    json!({
        "protocolVersion": ProtocolVersion::V1,
        "clientInfo": { "name": "sdk-client", "version": "0" },
        "clientCapabilities": {
            "fs": { "readTextFile": true, "writeTextFile": true },
            "terminal": true,
            "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
            "plan": {},
            "subagents": {},
            "elicitation": { "form": {}, "url": {} },
        },
    })
}

fn outcome<T: Serialize>(result: Result<T, agent_client_protocol::Error>) -> Value {
    match result {
        Ok(value) => json!({ "result": value }),
        Err(error) => json!({ "error": code(&error) }),
    }
}

/// A code of the agent's, or `connection` where there is no agent any more.
fn code(error: &agent_client_protocol::Error) -> Value {
    if agent_client_protocol::is_incoming_transport_closed(error) {
        return json!("connection");
    }
    json!(i32::from(error.code))
}
