//! An agent on the official Rust SDK, written as its documentation asks. It understands the prompts of the pack as far as
//! a few words go: it works on the long one until it is cancelled, asks for permission where the prompt says so, uses the
//! client's files and terminals where it is to, and repeats everything else.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ClientCapabilities, ContentBlock, ContentChunk, CreateTerminalRequest,
    Implementation, InitializeRequest, InitializeResponse, NewSessionRequest, NewSessionResponse, PermissionOption,
    PermissionOptionId, PermissionOptionKind, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, PromptRequest,
    PromptResponse, ReadTextFileRequest, ReleaseTerminalRequest, RequestPermissionOutcome, RequestPermissionRequest,
    SessionId, SessionNotification, SessionUpdate, StopReason, TerminalOutputRequest, ToolCall, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind, WaitForTerminalExitRequest, WriteTextFileRequest,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Error, Result, Stdio};
use tokio::sync::watch;

/// In the pack's long prompt, which is there to be cancelled.
const LONG_PROMPT: &str = "numbers from 1 to 500";
/// In the pack's prompt that wants to see a stream.
const STREAM_PROMPT: &str = "numbers from 1 to 200";
/// In the pack's prompt that wants to be asked.
const PERMISSION_PROMPT: &str = "ask for permission";

/// In the pack's prompt that wants the client's files and terminals to be used.
const CALLBACKS_PROMPT: &str = "Read the file";
/// In the pack's prompt that wants to see a plan.
const PLAN_PROMPT: &str = "Make a plan";

/// What the agent remembers.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    offered: ClientCapabilities,
    open: HashMap<SessionId, Session>,
}

/// A session: where it works, and the switch that a cancel turns.
struct Session {
    cwd: PathBuf,
    cancels: watch::Sender<u64>,
    /// Alive while a turn runs.
    running: Weak<()>,
}

/// What a turn needs to know of its session.
struct Turn {
    cwd: PathBuf,
    offered: ClientCapabilities,
    cancels: watch::Receiver<u64>,
    running: Arc<()>,
}

impl Sessions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn open(&self, cwd: PathBuf) -> SessionId {
        let mut state = self.state();
        let id = SessionId::new(format!("sdk-{}", state.open.len() + 1));
        state.open.insert(id.clone(), Session { cwd, cancels: watch::channel(0).0, running: Weak::new() });
        id
    }

    /// Begins a turn, one at a time in a session.
    fn turn(&self, id: &SessionId) -> Result<Turn> {
        let mut state = self.state();
        let offered = state.offered.clone();
        let session = state.open.get_mut(id).ok_or_else(|| Error::new(-32002, "unknown session"))?;
        if session.running.strong_count() > 0 {
            return Err(Error::new(-32600, "a turn is running"));
        }
        let running = Arc::new(());
        session.running = Arc::downgrade(&running);
        Ok(Turn { cwd: session.cwd.clone(), offered, cancels: session.cancels.subscribe(), running })
    }

    fn cancel(&self, id: &SessionId) {
        if let Some(session) = self.state().open.get(id) {
            session.cancels.send_modify(|count| *count += 1);
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let sessions = Sessions::default();
    let (greeting, opening) = (sessions.clone(), sessions.clone());
    let (prompting, cancelling) = (sessions.clone(), sessions);
    Agent
        .v1()
        .name("sdk-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                greeting.state().offered = request.client_capabilities;
                let hello = InitializeResponse::new(ProtocolVersion::V1);
                let hello = hello.agent_info(Implementation::new("sdk-agent", "0"));
                responder.respond(hello.agent_capabilities(AgentCapabilities::new()))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, _| {
                responder.respond(NewSessionResponse::new(opening.open(request.cwd)))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection: ConnectionTo<Client>| {
                let session = prompting.turn(&request.session_id);
                let task = turn(request, responder, connection.clone(), session);
                connection.spawn(task)
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _| {
                cancelling.cancel(&cancel.session_id);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}

async fn turn(
    request: PromptRequest,
    responder: Responder<PromptResponse>,
    connection: ConnectionTo<Client>,
    session: Result<Turn>,
) -> Result<()> {
    let mut session = match session {
        Ok(session) => session,
        Err(error) => return responder.respond_with_error(error),
    };
    // Either way to cancel a turn: the session's, and that of the prompt's request.
    let request_cancelled = responder.cancellation();
    let stopped = tokio::select! {
        _ = session.cancels.changed() => None,
        () = request_cancelled.cancelled() => None,
        done = work(&request, &connection, &session.cwd, &session.offered) => Some(done),
    };
    // Whoever reads the answer may prompt again at once.
    drop(session.running);
    // An error that a spawned task returns ends the connection, so it is the prompt's answer instead.
    match stopped {
        None => responder.respond(PromptResponse::new(StopReason::Cancelled)),
        Some(Ok(reason)) => responder.respond(PromptResponse::new(reason)),
        Some(Err(error)) => responder.respond_with_error(error),
    }
}

async fn work(
    request: &PromptRequest,
    connection: &ConnectionTo<Client>,
    cwd: &Path,
    offered: &ClientCapabilities,
) -> Result<StopReason> {
    let session = &request.session_id;
    let text: String = request
        .prompt
        .iter()
        .filter_map(|block| if let ContentBlock::Text(text) = block { Some(text.text.as_str()) } else { None })
        .collect();
    say(connection, session, &text)?;
    if text.contains(LONG_PROMPT) {
        std::future::pending::<()>().await;
    }
    if text.contains(STREAM_PROMPT) {
        for number in 1..=200 {
            say(connection, session, &format!("{number}\n"))?;
        }
    }
    if text.contains(PLAN_PROMPT) {
        let entry = |content| PlanEntry::new(content, PlanEntryPriority::Medium, PlanEntryStatus::Pending);
        tell(connection, session, SessionUpdate::Plan(Plan::new(["Look", "Sort", "Throw away"].map(entry).to_vec())))?;
    }
    if text.contains(PERMISSION_PROMPT) {
        let call = ToolCall::new("call-1", "Write a file").kind(ToolKind::Edit);
        tell(connection, session, SessionUpdate::ToolCall(call))?;
        let status = match ask(connection, session).await? {
            RequestPermissionOutcome::Selected(chosen) if chosen.option_id == PermissionOptionId::new("yes") => {
                ToolCallStatus::Completed
            }
            RequestPermissionOutcome::Selected(_) => ToolCallStatus::Failed,
            _ => return Ok(StopReason::Cancelled),
        };
        let update = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new().status(status));
        tell(connection, session, SessionUpdate::ToolCallUpdate(update))?;
    }
    if text.contains(CALLBACKS_PROMPT) {
        say(connection, session, &use_client(connection, session, cwd, offered).await?)?;
    }
    Ok(StopReason::EndTurn)
}

/// Writes, reads and runs, as far as the client offered it.
async fn use_client(
    connection: &ConnectionTo<Client>,
    session: &SessionId,
    cwd: &Path,
    offered: &ClientCapabilities,
) -> Result<String> {
    let (mut seen, path) = (Vec::new(), cwd.join("pintle-out.txt"));
    if offered.fs.write_text_file {
        let write = WriteTextFileRequest::new(session.clone(), path.clone(), "pintle");
        connection.send_request(write).block_task().await?;
        seen.push("written".to_owned());
    }
    if offered.fs.read_text_file {
        let read = ReadTextFileRequest::new(session.clone(), path);
        seen.push(format!("read {}", connection.send_request(read).block_task().await?.content));
    }
    if offered.terminal {
        let create = CreateTerminalRequest::new(session.clone(), "echo");
        let create = create.args(vec!["pintle".to_owned()]).cwd(cwd.to_path_buf());
        let id = connection.send_request(create).block_task().await?.terminal_id;
        let wait = WaitForTerminalExitRequest::new(session.clone(), id.clone());
        connection.send_request(wait).block_task().await?;
        let output = TerminalOutputRequest::new(session.clone(), id.clone());
        let output = connection.send_request(output).block_task().await?.output;
        connection.send_request(ReleaseTerminalRequest::new(session.clone(), id)).block_task().await?;
        seen.push(format!("ran {}", output.trim()));
    }
    Ok(if seen.is_empty() { "the client offers nothing".to_owned() } else { seen.join(", ") })
}

fn say(connection: &ConnectionTo<Client>, session: &SessionId, text: &str) -> Result<()> {
    let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
    tell(connection, session, SessionUpdate::AgentMessageChunk(chunk))
}

fn tell(connection: &ConnectionTo<Client>, session: &SessionId, update: SessionUpdate) -> Result<()> {
    connection.send_notification(SessionNotification::new(session.clone(), update))
}

async fn ask(connection: &ConnectionTo<Client>, session: &SessionId) -> Result<RequestPermissionOutcome> {
    let call = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new());
    let options = vec![
        PermissionOption::new("yes", "Allow once", PermissionOptionKind::AllowOnce),
        PermissionOption::new("no", "Reject once", PermissionOptionKind::RejectOnce),
    ];
    let request = RequestPermissionRequest::new(session.clone(), call, options);
    Ok(connection.send_request(request).block_task().await?.outcome)
}
