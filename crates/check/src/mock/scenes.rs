//! What the commands do. Each scene is an ordinary prompt handler; the faults are not here.

use pintle_sdk::acp::permission::Decision;
use pintle_sdk::acp::types::{
    AudioContent, CompactionStatus, CompactionSummaryChunk, CompactionUpdate, CompleteElicitationNotification,
    ContentBlock, ContentChunk, CreateElicitationRequest, CreateTerminalRequest, CurrentModeUpdate, Diff,
    ElicitationForm, ElicitationMode, ElicitationSchema, ElicitationUrl, EmbeddedResource, ImageContent, Notice,
    NoticeSeverity, Patch, PermissionOption, PermissionOptionKind, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus,
    PlanItems, PlanRemoved, PlanUpdate, PlanUpdateContent, ReadTextFileRequest, ReleaseTerminalRequest,
    ResourceContents, ResourceLink, SessionInfoUpdate, SessionUpdate, StateUpdate, SubagentUpdate, TerminalContent,
    TerminalId, TerminalOutputRequest, TextResourceContents, ToolCall, ToolCallContent, ToolCallLocation,
    ToolCallStatus, ToolCallUpdate, ToolKind, UsageUpdate, WaitForTerminalExitRequest, WriteTextFileRequest,
};
use pintle_sdk::acp::{Error, RequestError, SendError, Turn, UpdateError};

use super::agent::{MockAgent, commands};
use super::command::{Command, HELP};

/// A 1x1 image, and a silence.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAESsAACJWAAACABAAZGF0YQAAAAA=";

/// Plays one command to its end.
pub(super) async fn play(agent: &MockAgent, command: &Command, turn: &Turn) -> Result<(), Error> {
    let played = match command {
        Command::Help => turn.agent_text(HELP).await,
        Command::Echo(text) => say(agent, turn, text).await,
        Command::SessionUpdates => session_updates(turn).await,
        Command::Content => content(turn).await,
        Command::ToolCalls => tool_calls(agent, turn).await,
        Command::Callbacks => callbacks(agent, turn).await,
        Command::Elicitations => elicitations(turn).await,
        Command::WaitForCancel => wait_for_cancel(turn).await,
        Command::CancelStatus => {
            let count = agent.cancelled_turns(turn.session_id());
            turn.agent_text(format!("{count} turns of this session were cancelled")).await
        }
        Command::Full => full(agent, turn).await,
        Command::Flood(count) => flood(turn, *count).await,
        Command::Sleep(millis) => {
            tokio::time::sleep(std::time::Duration::from_millis(*millis)).await;
            Ok(())
        }
        Command::Big(bytes) => turn.agent_text("x".repeat(*bytes)).await,
        Command::Crash => {
            agent.die();
            Ok(())
        }
    };
    match played {
        // A turn that was cancelled, or whose client is gone, is answered by the connection.
        Ok(()) | Err(UpdateError::TurnOver(_) | UpdateError::Send(SendError::Closed)) => Ok(()),
        Err(_) => Err(Error::internal_error()),
    }
}

async fn say(agent: &MockAgent, turn: &Turn, text: &str) -> Result<(), UpdateError> {
    let text = if text.is_empty() { "(nothing)" } else { text };
    agent.remember(turn.session_id(), SessionUpdate::agent_text(text));
    turn.agent_text(text).await
}

/// Sends an update, or nothing where the client did not say that it understands it.
async fn offer(turn: &Turn, update: impl Into<SessionUpdate>) -> Result<(), UpdateError> {
    match turn.update(update).await {
        Err(UpdateError::Send(SendError::NotAdvertised)) => Ok(()),
        other => other,
    }
}

async fn session_updates(turn: &Turn) -> Result<(), UpdateError> {
    offer(turn, SessionUpdate::user_text("a message of the user")).await?;
    turn.agent_thought("thinking").await?;
    turn.agent_text("speaking").await?;
    offer(turn, commands()).await?;
    offer(turn, Plan::new(steps())).await?;
    offer(turn, CurrentModeUpdate::new("ask")).await?;
    offer(turn, UsageUpdate::new(1_000_u64, 200_000_u64)).await?;
    let mut info = SessionInfoUpdate::new();
    info.title = Patch::Set("A session".to_owned());
    offer(turn, info).await?;
    offer(turn, Notice::new(NoticeSeverity::Info, "A notice")).await?;
    offer(turn, CompactionUpdate::new("compaction-1", CompactionStatus::InProgress)).await?;
    offer(turn, CompactionSummaryChunk::new("compaction-1", ContentBlock::text("summary"))).await?;
    offer(turn, CompactionUpdate::new("compaction-1", CompactionStatus::Completed)).await?;
    let items = PlanUpdateContent::Items(PlanItems::new("plan-1", steps()));
    offer(turn, PlanUpdate::new(items)).await?;
    offer(turn, PlanRemoved::new("plan-1")).await?;
    let mut subagent = SubagentUpdate::new("subagent-1");
    subagent.state = Patch::Set(StateUpdate::Running(Default::default()));
    offer(turn, subagent).await
}

fn steps() -> Vec<PlanEntry> {
    vec![
        PlanEntry::new("Look", PlanEntryPriority::High, PlanEntryStatus::Completed),
        PlanEntry::new("Change", PlanEntryPriority::Medium, PlanEntryStatus::InProgress),
        PlanEntry::new("Check", PlanEntryPriority::Low, PlanEntryStatus::Pending),
    ]
}

async fn content(turn: &Turn) -> Result<(), UpdateError> {
    let text = TextResourceContents::new("file:///notes.txt", "text of a resource");
    let blocks = [
        ContentBlock::text("text"),
        ContentBlock::Image(ImageContent::new(PIXEL, "image/png")),
        ContentBlock::Audio(AudioContent::new(SILENCE, "audio/wav")),
        ResourceLink::new("notes", "file:///notes.txt").into(),
        EmbeddedResource::new(ResourceContents::Text(text)).into(),
    ];
    for block in blocks {
        turn.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(block))).await?;
    }
    Ok(())
}

async fn tool_calls(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    let path = format!("{}/pintle-out.txt", agent.cwd(turn.session_id()));
    for (id, end) in [("call-1", ToolCallStatus::Completed), ("call-2", ToolCallStatus::Failed)] {
        let mut call = ToolCall::new(id, "Edit a file");
        call.kind = ToolKind::Edit;
        call.locations = vec![ToolCallLocation::new(path.as_str())].into();
        turn.tool_call(call).await?;
        let mut running = ToolCallUpdate::new(id);
        running.status = Some(ToolCallStatus::InProgress);
        turn.tool_call_update(running).await?;
        let mut done = ToolCallUpdate::new(id);
        let diff = ToolCallContent::from(Diff::new(path.as_str(), "pintle\n"));
        done.content = Some(vec![diff, ToolCallContent::from(ContentBlock::text("a result"))].into());
        done.status = Some(end);
        turn.tool_call_update(done).await?;
    }
    Ok(())
}

async fn callbacks(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    turn.plan(steps()).await?;
    let mut call = ToolCall::new("call-1", "Write pintle-check.txt");
    call.kind = ToolKind::Edit;
    turn.tool_call(call).await?;
    let options = [
        PermissionOption::new("yes", "Allow once", PermissionOptionKind::AllowOnce),
        PermissionOption::new("always", "Always allow", PermissionOptionKind::AllowAlways),
        PermissionOption::new("no", "Reject once", PermissionOptionKind::RejectOnce),
        PermissionOption::new("never", "Always reject", PermissionOptionKind::RejectAlways),
    ];
    let decision = turn.ask_permission(ToolCallUpdate::new("call-1"), options).await;
    let allowed = matches!(decision, Ok(Decision::Allowed(_)));
    let mut done = ToolCallUpdate::new("call-1");
    if allowed {
        let seen = use_client(agent, turn).await?;
        done.content = Some(vec![ToolCallContent::from(ContentBlock::text(seen))].into());
    }
    done.status = Some(if allowed { ToolCallStatus::Completed } else { ToolCallStatus::Failed });
    turn.tool_call_update(done).await?;
    turn.agent_text(if allowed { "done as allowed" } else { "not allowed, so not done" }).await
}

/// Reads, writes and runs, as far as the client offered it, and says what came of it.
async fn use_client(agent: &MockAgent, turn: &Turn) -> Result<String, UpdateError> {
    let session = turn.session_id().clone();
    let cwd = agent.cwd(&session);
    let mut seen = Vec::new();
    if turn.peer_offers("fs/write_text_file") {
        let path = format!("{cwd}/pintle-check.txt");
        let written = turn.request(WriteTextFileRequest::new(session.clone(), path.as_str(), "pintle\n")).await;
        seen.push(format!("write: {}", outcome(&written)));
    }
    if turn.peer_offers("fs/read_text_file") {
        let path = format!("{cwd}/pintle-check.txt");
        let read = turn.request(ReadTextFileRequest::new(session.clone(), path.as_str())).await;
        seen.push(format!("read: {}", outcome(&read)));
    }
    if turn.peer_offers("terminal/create") {
        seen.push(format!("terminal: {}", outcome(&terminal(turn, &cwd).await)));
    }
    Ok(if seen.is_empty() { "the client offers nothing to use".to_owned() } else { seen.join(", ") })
}

async fn terminal(turn: &Turn, cwd: &str) -> Result<(), RequestError> {
    let session = turn.session_id().clone();
    let mut create = CreateTerminalRequest::new(session.clone(), "echo");
    create.args = vec!["pintle".to_owned()];
    create.cwd = Some(cwd.into());
    let id: TerminalId = turn.request(create).await?.terminal_id;
    let mut shown = ToolCallUpdate::new("call-1");
    shown.content = Some(vec![ToolCallContent::from(TerminalContent::new(id.clone()))].into());
    let _ = turn.tool_call_update(shown).await;
    turn.request(WaitForTerminalExitRequest::new(session.clone(), id.clone())).await?;
    turn.request(TerminalOutputRequest::new(session.clone(), id.clone())).await?;
    turn.request(ReleaseTerminalRequest::new(session, id)).await?;
    Ok(())
}

fn outcome<T>(result: &Result<T, RequestError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(RequestError::Peer(_)) => "refused",
        Err(_) => "no answer",
    }
}

async fn elicitations(turn: &Turn) -> Result<(), UpdateError> {
    let session = turn.session_id().clone();
    let mut form = ElicitationForm::new(ElicitationSchema::new());
    form.session_id = Some(session.clone());
    let form = CreateElicitationRequest::new("Your name?", ElicitationMode::Form(form));
    let asked = turn.request(form).await;
    turn.agent_text(format!("form: {}", outcome(&asked))).await?;
    let mut page = ElicitationUrl::new("elicitation-1", "https://example.com/login");
    page.session_id = Some(session);
    let page = CreateElicitationRequest::new("Log in", ElicitationMode::Url(page));
    let asked = turn.request(page).await;
    turn.agent_text(format!("page: {}", outcome(&asked))).await?;
    if asked.is_ok() {
        let _ = turn.notify(CompleteElicitationNotification::new("elicitation-1")).await;
    }
    Ok(())
}

/// Says that it has begun, so that a client knows when to cancel; the caller sees the cancel.
async fn wait_for_cancel(turn: &Turn) -> Result<(), UpdateError> {
    turn.agent_text("waiting for a cancel").await?;
    std::future::pending().await
}

async fn full(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    say(agent, turn, "everything").await?;
    session_updates(turn).await?;
    content(turn).await?;
    tool_calls(agent, turn).await?;
    callbacks(agent, turn).await?;
    elicitations(turn).await
}

async fn flood(turn: &Turn, count: u64) -> Result<(), UpdateError> {
    for number in 0..count {
        turn.agent_text(format!("{number}\n")).await?;
    }
    Ok(())
}
