//! An agent on the official Rust SDK, written as its documentation asks. It understands the prompts of the pack as far as
//! a few words go: it works on the long one until it is cancelled, asks for permission where the prompt says so, and
//! repeats everything else. `pintle check` runs against it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ContentBlock, ContentChunk, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, SessionNotification, SessionUpdate, StopReason,
    ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Result, Stdio};
use tokio::sync::watch;

/// In the pack's long prompt, which is there to be cancelled.
const LONG_PROMPT: &str = "numbers from 1 to 500";
/// In the pack's prompt that wants to be asked.
const PERMISSION_PROMPT: &str = "ask for permission";

/// What the agent remembers of its sessions: the switch that a cancel turns.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<SessionId, watch::Sender<u64>>>>);

impl Sessions {
    fn open(&self) -> SessionId {
        let mut sessions = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let id = SessionId::new(format!("sdk-{}", sessions.len() + 1));
        sessions.insert(id.clone(), watch::channel(0).0);
        id
    }

    fn cancels(&self, id: &SessionId) -> Option<watch::Receiver<u64>> {
        let sessions = self.0.lock().unwrap_or_else(|e| e.into_inner());
        sessions.get(id).map(watch::Sender::subscribe)
    }

    fn cancel(&self, id: &SessionId) {
        let sessions = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(switch) = sessions.get(id) {
            switch.send_modify(|count| *count += 1);
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let sessions = Sessions::default();
    let (opening, prompting, cancelling) = (sessions.clone(), sessions.clone(), sessions);
    Agent
        .v1()
        .name("sdk-agent")
        .on_receive_request(
            async move |_: InitializeRequest, responder, _| {
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(AgentCapabilities::new()),
                )
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| responder.respond(NewSessionResponse::new(opening.open())),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection: ConnectionTo<Client>| {
                let cancels = prompting.cancels(&request.session_id);
                let task = turn(request, responder, connection.clone(), cancels);
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
    cancels: Option<watch::Receiver<u64>>,
) -> Result<()> {
    let Some(mut cancels) = cancels else {
        return responder.respond_with_error(agent_client_protocol::Error::new(-32002, "unknown session"));
    };
    let text: String = request
        .prompt
        .iter()
        .filter_map(|block| if let ContentBlock::Text(text) = block { Some(text.text.as_str()) } else { None })
        .collect();
    say(&connection, &request.session_id, &text)?;
    if text.contains(LONG_PROMPT) {
        let _ = cancels.changed().await;
        return responder.respond(PromptResponse::new(StopReason::Cancelled));
    }
    if text.contains(PERMISSION_PROMPT) {
        let asked = ask(&connection, &request.session_id);
        tokio::select! {
            _ = cancels.changed() => return responder.respond(PromptResponse::new(StopReason::Cancelled)),
            outcome = asked => match outcome? {
                RequestPermissionOutcome::Cancelled => {
                    return responder.respond(PromptResponse::new(StopReason::Cancelled));
                }
                _ => say(&connection, &request.session_id, "answered")?,
            },
        }
    }
    responder.respond(PromptResponse::new(StopReason::EndTurn))
}

fn say(connection: &ConnectionTo<Client>, session: &SessionId, text: &str) -> Result<()> {
    let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
    connection.send_notification(SessionNotification::new(session.clone(), SessionUpdate::AgentMessageChunk(chunk)))
}

async fn ask(connection: &ConnectionTo<Client>, session: &SessionId) -> Result<RequestPermissionOutcome> {
    let call = ToolCallUpdate::new("call-1", ToolCallUpdateFields::new().title("Write a file".to_owned()));
    let options = vec![
        PermissionOption::new("yes", "Allow once", PermissionOptionKind::AllowOnce),
        PermissionOption::new("no", "Reject once", PermissionOptionKind::RejectOnce),
    ];
    let request = RequestPermissionRequest::new(session.clone(), call, options);
    Ok(connection.send_request(request).block_task().await?.outcome)
}
