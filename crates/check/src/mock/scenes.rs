//! What the commands do. Each scene is an ordinary prompt handler; the faults are not here.

use std::collections::BTreeMap;

use pintle_sdk::acp::permission::Decision;
use pintle_sdk::acp::types::{
    AudioContent, BooleanPropertySchema, CompactionStatus, CompactionSummaryChunk, CompactionUpdate,
    CompleteElicitationNotification, ContentBlock, ContentChunk, Cost, CreateElicitationRequest, CreateTerminalRequest,
    Diff, ElicitationAction, ElicitationForm, ElicitationMode, ElicitationPropertySchema, ElicitationSchema,
    ElicitationUrl, EmbeddedResource, EnumOption, IdleState, ImageContent, IntegerPropertySchema, KillTerminalRequest,
    MultiSelectItems, MultiSelectPropertySchema, Notice, NoticeSeverity, NumberPropertySchema, Patch, PermissionOption,
    PermissionOptionKind, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, PlanItems, PlanMarkdown, PlanRemoved,
    PlanUpdate, PlanUpdateContent, Raw, ReadTextFileRequest, ReleaseTerminalRequest, ResourceContents, ResourceLink,
    SessionInfoUpdate, SessionMessage, SessionMessageChunk, SessionUpdate, StateUpdate, StringPropertySchema,
    SubagentUpdate, TerminalContent, TerminalId, TerminalOutputRequest, TextResourceContents, ToolCall,
    ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolKind, UsageUpdate,
    WaitForTerminalExitRequest, WriteTextFileRequest,
};
use pintle_sdk::acp::{Error, RequestError, SendError, Turn, UpdateError};

use super::agent::{MockAgent, commands};
use super::command::{Command, HELP};

/// A 1x1 image, and a silence.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAESsAACJWAAACABAAZGF0YQAAAAA=";
/// What it wants to see of a command's output.
const TERMINAL_OUTPUT_MAX_BYTES: u64 = 64 << 10;

/// Plays one command to its end.
pub(super) async fn play(agent: &MockAgent, command: &Command, turn: &Turn) -> Result<(), Error> {
    let played = match command {
        Command::Help => turn.agent_text(HELP).await,
        Command::Echo(text) => say(agent, turn, text).await,
        Command::SessionUpdates => session_updates(agent, turn).await,
        Command::Content => content(turn).await,
        Command::ToolCalls => tool_calls(agent, turn).await,
        Command::Callbacks => callbacks(agent, turn).await,
        Command::Elicitations => elicitations(agent, turn).await,
        Command::WaitForCancel => wait_for_cancel(turn).await,
        Command::CancelStatus => cancel_status(agent, turn).await,
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

async fn cancel_status(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    let count = agent.cancelled_turns(turn.session_id());
    turn.agent_text(format!("{count} turns of this session were cancelled")).await
}

/// One update of every kind. Those of tool calls have their own scene, for they have a life of their own.
async fn session_updates(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    offer(turn, SessionUpdate::user_text("a message of the user")).await?;
    turn.agent_thought("thinking").await?;
    turn.agent_text("speaking").await?;
    offer(turn, commands()).await?;
    offer(turn, Plan::new(steps())).await?;
    if let Some((mode, options)) = agent.setting_updates(turn.session_id()) {
        offer(turn, mode).await?;
        offer(turn, options).await?;
    }
    let mut info = SessionInfoUpdate::new();
    info.title = Patch::Set("A session".to_owned());
    offer(turn, info).await?;
    let mut usage = UsageUpdate::new(1_000_u64, 200_000_u64);
    usage.cost = Some(Cost::new(0.25, "USD"));
    offer(turn, usage).await?;
    let mut notice = Notice::new(NoticeSeverity::Info, "A notice");
    notice.description = Some("and more about it".to_owned());
    offer(turn, notice).await?;
    offer(turn, CompactionUpdate::new("compaction-1", CompactionStatus::InProgress)).await?;
    offer(turn, CompactionSummaryChunk::new("compaction-1", ContentBlock::text("summary"))).await?;
    offer(turn, CompactionUpdate::new("compaction-1", CompactionStatus::Completed)).await?;
    let items = PlanUpdateContent::Items(PlanItems::new("plan-1", steps()));
    offer(turn, PlanUpdate::new(items)).await?;
    let text = PlanUpdateContent::Markdown(PlanMarkdown::new("plan-2", "# A plan\n\n1. Look\n"));
    offer(turn, PlanUpdate::new(text)).await?;
    offer(turn, PlanRemoved::new("plan-1")).await?;
    subagents(turn).await
}

/// A child session that begins, is told something, and ends.
async fn subagents(turn: &Turn) -> Result<(), UpdateError> {
    let child = format!("{}-child", turn.session_id().as_str());
    let mut begins = SubagentUpdate::new(child.as_str());
    begins.title = Patch::Set("A helper".to_owned());
    begins.state = Patch::Set(StateUpdate::Running(Default::default()));
    offer(turn, begins).await?;
    let mut message = SessionMessage::new("message-1");
    message.sender_session_id = Patch::Set(turn.session_id().clone());
    message.recipient_session_id = Patch::Set(child.as_str().into());
    message.content = Patch::Set(vec![ContentBlock::text("look")].into());
    offer(turn, message).await?;
    offer(turn, SessionMessageChunk::new("message-1", ContentBlock::text(" around"))).await?;
    let mut ends = SubagentUpdate::new(child.as_str());
    let mut idle = IdleState::new();
    idle.stop_reason = Some("end_turn".to_owned());
    ends.state = Patch::Set(StateUpdate::Idle(idle));
    offer(turn, ends).await
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
        call.name = Some("edit".to_owned());
        call.kind = ToolKind::Edit;
        call.locations = vec![ToolCallLocation::new(path.as_str())].into();
        call.raw_input = Raw::from_serialize(&BTreeMap::from([("path", path.as_str())])).ok();
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

/// One command that ends by itself, and one that is killed.
async fn terminal(turn: &Turn, cwd: &str) -> Result<(), RequestError> {
    let echo = create_terminal(turn, cwd, "echo", "pintle").await?;
    let session = turn.session_id();
    turn.request(WaitForTerminalExitRequest::new(session.clone(), echo.clone())).await?;
    turn.request(TerminalOutputRequest::new(session.clone(), echo.clone())).await?;
    turn.request(ReleaseTerminalRequest::new(session.clone(), echo)).await?;
    let sleep = create_terminal(turn, cwd, "sleep", "600").await?;
    turn.request(KillTerminalRequest::new(session.clone(), sleep.clone())).await?;
    turn.request(WaitForTerminalExitRequest::new(session.clone(), sleep.clone())).await?;
    turn.request(ReleaseTerminalRequest::new(session.clone(), sleep)).await?;
    Ok(())
}

async fn create_terminal(turn: &Turn, cwd: &str, command: &str, word: &str) -> Result<TerminalId, RequestError> {
    let mut create = CreateTerminalRequest::new(turn.session_id().clone(), command);
    create.args = vec![word.to_owned()];
    create.cwd = Some(cwd.into());
    create.output_byte_limit = Some(TERMINAL_OUTPUT_MAX_BYTES);
    let id: TerminalId = turn.request(create).await?.terminal_id;
    let mut shown = ToolCallUpdate::new("call-1");
    shown.content = Some(vec![ToolCallContent::from(TerminalContent::new(id.clone()))].into());
    let _ = turn.tool_call_update(shown).await;
    Ok(id)
}

fn outcome<T>(result: &Result<T, RequestError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(RequestError::Peer(_)) => "refused",
        Err(RequestError::Send(SendError::NotAdvertised)) => "not offered",
        Err(_) => "no answer",
    }
}

async fn elicitations(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    let session = turn.session_id().clone();
    let mut form = ElicitationForm::new(questions());
    form.session_id = Some(session.clone());
    let form = CreateElicitationRequest::new("Who are you?", ElicitationMode::Form(form));
    let asked = elicit(agent, turn, form).await;
    turn.agent_text(format!("form: {asked}")).await?;
    let mut page = ElicitationUrl::new("elicitation-1", "https://example.com/login");
    page.session_id = Some(session);
    let page = CreateElicitationRequest::new("Log in", ElicitationMode::Url(page));
    let asked = elicit(agent, turn, page).await;
    turn.agent_text(format!("page: {asked}")).await?;
    if asked == "accept" {
        let _ = turn.notify(CompleteElicitationNotification::new("elicitation-1")).await;
    }
    Ok(())
}

/// Asks, if the client shows what is asked, and says what the user did.
async fn elicit(agent: &MockAgent, turn: &Turn, request: CreateElicitationRequest) -> &'static str {
    if request.require_advertised(agent.client().elicitation.as_ref()).is_err() {
        return "not offered";
    }
    match &turn.request(request).await {
        Ok(answer) => match answer.action {
            ElicitationAction::Accept(_) => "accept",
            ElicitationAction::Decline(_) => "decline",
            ElicitationAction::Cancel(_) => "cancel",
            _ => "an unknown action",
        },
        answer => outcome(answer),
    }
}

/// A form with one field of every kind.
fn questions() -> ElicitationSchema {
    let mut name = StringPropertySchema::new();
    name.title = Some("Your name".to_owned());
    name.max_length = Some(80);
    let mut colour = StringPropertySchema::new();
    colour.one_of = Some(vec![EnumOption::new("red", "Red"), EnumOption::new("blue", "Blue")]);
    let mut age = IntegerPropertySchema::new();
    age.minimum = Some(0);
    let mut days = MultiSelectItems::new();
    days.item_type = Some("string".to_owned());
    days.choices = Some(vec!["monday".to_owned(), "sunday".to_owned()]);
    let mut schema = ElicitationSchema::new();
    schema.schema_type = Some("object".to_owned());
    schema.required = Some(vec!["name".to_owned()]);
    schema.properties = BTreeMap::from([
        ("name".to_owned(), ElicitationPropertySchema::String(name)),
        ("colour".to_owned(), ElicitationPropertySchema::String(colour)),
        ("age".to_owned(), ElicitationPropertySchema::Integer(age)),
        ("height".to_owned(), ElicitationPropertySchema::Number(NumberPropertySchema::new())),
        ("member".to_owned(), ElicitationPropertySchema::Boolean(BooleanPropertySchema::new())),
        ("days".to_owned(), ElicitationPropertySchema::Array(MultiSelectPropertySchema::new(days))),
    ]);
    schema
}

/// Says that it has begun, so that a client knows when to cancel; the caller sees the cancel.
async fn wait_for_cancel(turn: &Turn) -> Result<(), UpdateError> {
    turn.agent_text("waiting for a cancel").await?;
    std::future::pending().await
}

async fn full(agent: &MockAgent, turn: &Turn) -> Result<(), UpdateError> {
    turn.agent_text(HELP).await?;
    say(agent, turn, "everything").await?;
    session_updates(agent, turn).await?;
    content(turn).await?;
    tool_calls(agent, turn).await?;
    callbacks(agent, turn).await?;
    elicitations(agent, turn).await?;
    cancel_status(agent, turn).await
}

async fn flood(turn: &Turn, count: u64) -> Result<(), UpdateError> {
    for number in 0..count {
        turn.agent_text(format!("{number}\n")).await?;
    }
    Ok(())
}
