//! The mock agent is whole: every stable method answers, every kind of update comes, every word of a prompt does what it
//! says (design section 5), and nothing comes that the client did not offer to understand.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pintle_check::mock::{MockOptions, serve_mock};
use pintle_sdk::acp::types::*;
use pintle_sdk::acp::{Client, ClientConnection, Ctx, Error, RequestError, connect};
use pintle_sdk::transport::memory;

/// Every kind of `session/update` of the stable protocol.
const UPDATES: [&str; 19] = [
    "agent_message_chunk",
    "agent_thought_chunk",
    "available_commands_update",
    "compaction_summary_chunk",
    "compaction_update",
    "config_option_update",
    "current_mode_update",
    "notice",
    "plan",
    "plan_removed",
    "plan_update",
    "session_info_update",
    "session_message",
    "session_message_chunk",
    "subagent_update",
    "tool_call",
    "tool_call_update",
    "usage_update",
    "user_message_chunk",
];
/// Those of them that need a word of the client.
const GATED: [&str; 8] = [
    "compaction_summary_chunk",
    "compaction_update",
    "notice",
    "plan_removed",
    "plan_update",
    "session_message",
    "session_message_chunk",
    "subagent_update",
];

#[derive(Clone, Default)]
struct Editor {
    offers: ClientCapabilities,
    elicitation: Option<ElicitationAction>,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Editor {
    fn offering_all() -> Self {
        let mut offers = ClientCapabilities::new();
        offers.fs = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
        offers.terminal = true;
        let mut session = ClientSessionCapabilities::new();
        session.notices = Some(Marker::new());
        session.compaction = Some(Marker::new());
        session.config_options = Some(ConfigOptionCapabilities::new().boolean(Marker::new()));
        offers.session = Some(session);
        offers.plan = Some(Marker::new());
        offers.subagents = Some(Marker::new());
        offers.elicitation = Some(ElicitationCapabilities::new().form(Marker::new()).url(Marker::new()));
        Self { offers, ..Self::default() }
    }

    fn note(&self, call: &'static str) {
        self.calls.lock().expect("not poisoned").push(call);
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().expect("not poisoned").clone()
    }
}

impl Client for Editor {
    fn capabilities(&self) -> ClientCapabilities {
        self.offers.clone()
    }

    async fn request_permission(
        &self,
        request: RequestPermissionRequest,
        _: &Ctx,
    ) -> Result<RequestPermissionResponse, Error> {
        self.note("session/request_permission");
        let allowing = request.options.iter().find(|option| option.kind.is_allow()).expect("something to allow");
        Ok(RequestPermissionResponse::selected(allowing.option_id.clone()))
    }

    async fn read_text_file(&self, _: ReadTextFileRequest, _: &Ctx) -> Result<ReadTextFileResponse, Error> {
        self.note("fs/read_text_file");
        Ok(ReadTextFileResponse::new("pintle\n"))
    }

    async fn write_text_file(&self, _: WriteTextFileRequest, _: &Ctx) -> Result<WriteTextFileResponse, Error> {
        self.note("fs/write_text_file");
        Ok(WriteTextFileResponse::new())
    }

    async fn create_terminal(&self, _: CreateTerminalRequest, _: &Ctx) -> Result<CreateTerminalResponse, Error> {
        self.note("terminal/create");
        Ok(CreateTerminalResponse::new("terminal-1"))
    }

    async fn terminal_output(&self, _: TerminalOutputRequest, _: &Ctx) -> Result<TerminalOutputResponse, Error> {
        self.note("terminal/output");
        Ok(TerminalOutputResponse::new("pintle\n", false))
    }

    async fn wait_for_terminal_exit(
        &self,
        _: WaitForTerminalExitRequest,
        _: &Ctx,
    ) -> Result<WaitForTerminalExitResponse, Error> {
        self.note("terminal/wait_for_exit");
        Ok(WaitForTerminalExitResponse::new())
    }

    async fn kill_terminal(&self, _: KillTerminalRequest, _: &Ctx) -> Result<KillTerminalResponse, Error> {
        self.note("terminal/kill");
        Ok(KillTerminalResponse::new())
    }

    async fn release_terminal(&self, _: ReleaseTerminalRequest, _: &Ctx) -> Result<ReleaseTerminalResponse, Error> {
        self.note("terminal/release");
        Ok(ReleaseTerminalResponse::new())
    }

    async fn create_elicitation(
        &self,
        request: CreateElicitationRequest,
        _: &Ctx,
    ) -> Result<CreateElicitationResponse, Error> {
        self.note("elicitation/create");
        request.validate().expect("it belongs to a session");
        Ok(CreateElicitationResponse::new(self.elicitation.clone().unwrap_or_else(ElicitationAction::decline)))
    }

    async fn complete_elicitation(&self, _: CompleteElicitationNotification, _: &Ctx) {
        self.note("elicitation/complete");
    }
}

/// A client that is connected to the mock agent and has a session.
struct Bench {
    connection: ClientConnection,
    agent: tokio::task::JoinHandle<()>,
    session: SessionId,
    opened: NewSessionResponse,
}

impl Bench {
    async fn new(editor: &Editor) -> Self {
        let (ours, theirs) = memory();
        let options = MockOptions { fault: None, die: Arc::new(|| {}), pack: None };
        let agent = tokio::spawn(async move {
            let _ = serve_mock(options, theirs).await;
        });
        let connection = connect(editor.clone(), ours).expect("an in-memory transport opens");
        connection.initialize().await.expect("the mock agent speaks version 1");
        let opened = connection.request(NewSessionRequest::new("/work")).await.expect("a session");
        Self { connection, agent, session: opened.session_id.clone(), opened }
    }

    async fn prompt(&self, words: &str) -> (Vec<SessionUpdate>, StopReason) {
        let request = PromptRequest::new(self.session.clone(), [ContentBlock::text(words)]);
        let turn = self.connection.prompt(request).await.expect("the turn ends well");
        (turn.updates.into_iter().map(|notification| notification.update).collect(), turn.response.stop_reason)
    }

    async fn said(&self, words: &str) -> Vec<String> {
        self.prompt(words).await.0.iter().filter_map(text_of).collect()
    }

    async fn end(self) {
        self.connection.shut_down().await.expect("the connection ends well");
        self.agent.await.expect("the agent ends");
    }
}

fn kind(update: &SessionUpdate) -> String {
    let value = serde_json::to_value(update).expect("an update is JSON");
    value["sessionUpdate"].as_str().expect("its kind").to_owned()
}

fn text_of(update: &SessionUpdate) -> Option<String> {
    match update {
        SessionUpdate::AgentMessageChunk(ContentChunk { content: ContentBlock::Text(text), .. }) => {
            Some(text.text.clone())
        }
        _ => None,
    }
}

fn values(options: &[SessionConfigOption]) -> Vec<String> {
    let value = |option: &SessionConfigOption| match &option.kind {
        SessionConfigKind::Select(select) => {
            assert!(select.offers(&select.current_value), "{} has a value that it does not list", option.id.as_str());
            select.current_value.as_str().to_owned()
        }
        SessionConfigKind::Boolean(boolean) => boolean.current_value.to_string(),
        _ => "?".to_owned(),
    };
    options.iter().map(|option| format!("{}={}", option.id.as_str(), value(option))).collect()
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_update_comes_to_a_client_that_understands_them_all() {
    let bench = Bench::new(&Editor::offering_all()).await;
    let mut seen = BTreeSet::new();
    for scene in ["session_updates", "tool_calls"] {
        seen.extend(bench.prompt(scene).await.0.iter().map(kind));
    }
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), UPDATES);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_offers_nothing_gets_and_is_asked_nothing_that_needs_an_offer() {
    let editor = Editor::default();
    let bench = Bench::new(&editor).await;
    let kinds: BTreeSet<String> = bench.prompt("full").await.0.iter().map(kind).collect();
    let expected: Vec<&str> = UPDATES.into_iter().filter(|kind| !GATED.contains(kind)).collect();
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(editor.calls(), ["session/request_permission"]);
    assert_eq!(bench.said("elicitations").await, ["form: not offered", "page: not offered"]);
    let options: Vec<_> = bench.opened.config_options.iter().flat_map(|options| options.iter().cloned()).collect();
    assert_eq!(values(&options), ["model=small", "mode=ask", "effort=low"], "no boolean option");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn every_method_of_the_client_is_called_and_every_terminal_released() {
    let editor = Editor::offering_all();
    let bench = Bench::new(&editor).await;
    let said = bench.said("callbacks").await;
    assert_eq!(said, ["done as allowed"]);
    let calls = editor.calls();
    assert_eq!(
        calls,
        [
            "session/request_permission",
            "fs/write_text_file",
            "fs/read_text_file",
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release",
            "terminal/create",
            "terminal/kill",
            "terminal/wait_for_exit",
            "terminal/release",
        ]
    );
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_user_does_with_a_form_is_told() {
    let actions = [
        ("accept", ElicitationAction::accept([])),
        ("decline", ElicitationAction::decline()),
        ("cancel", ElicitationAction::cancel()),
    ];
    for (word, action) in actions {
        let editor = Editor { elicitation: Some(action), ..Editor::offering_all() };
        let bench = Bench::new(&editor).await;
        assert_eq!(bench.said("elicitations").await, [format!("form: {word}"), format!("page: {word}")]);
        bench.end().await;
        let completed = editor.calls().contains(&"elicitation/complete");
        assert_eq!(completed, word == "accept", "a page is completed when the user agreed to open it");
    }
}

#[tokio::test(start_paused = true)]
async fn modes_and_options_are_one_setting_in_two_forms() {
    let bench = Bench::new(&Editor::offering_all()).await;
    let connection = &bench.connection;
    let set = |id: &'static str, value: SessionConfigValue| {
        connection.request(SetSessionConfigOptionRequest::new(bench.session.clone(), id, value))
    };
    let changed = set("mode", "code".into()).await.expect("a mode that it lists");
    assert_eq!(values(&changed.config_options), ["model=small", "mode=code", "effort=low", "loud=false"]);
    connection.request(SetSessionModeRequest::new(bench.session.clone(), "ask")).await.expect("a mode that it lists");
    let changed = set("loud", true.into()).await.expect("a boolean");
    assert_eq!(values(&changed.config_options), ["model=small", "mode=ask", "effort=low", "loud=true"]);
    let changed = set("effort", "highest".into()).await.expect("a value of the second group");
    assert_eq!(values(&changed.config_options), ["model=small", "mode=ask", "effort=highest", "loud=true"]);
    for (id, value) in [("effort", "gone".into()), ("loud", "yes".into()), ("gone", true.into())] {
        let refused = set(id, value).await;
        assert!(matches!(refused, Err(RequestError::Peer(_))), "{id}: {refused:?}");
    }
    let resumed = connection.request(ResumeSessionRequest::new(bench.session.clone(), "/work")).await.expect("resumed");
    let options: Vec<_> = resumed.config_options.iter().flat_map(|options| options.iter().cloned()).collect();
    assert_eq!(values(&options), ["model=small", "mode=ask", "effort=highest", "loud=true"], "they outlive a resume");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages() {
    let bench = Bench::new(&Editor::default()).await;
    for _ in 0..149 {
        bench.connection.request(NewSessionRequest::new("/work")).await.expect("a session");
    }
    let mut request = ListSessionsRequest::new();
    let mut pages = Vec::new();
    loop {
        let page = bench.connection.request(request.clone()).await.expect("a page");
        pages.push(page.sessions.len());
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [100, 50]);
    request.cursor = Some("nonsense".to_owned());
    assert!(matches!(bench.connection.request(request).await, Err(RequestError::Peer(e)) if e.code.get() == -32602));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_logout_sessions_need_a_login() {
    let bench = Bench::new(&Editor::default()).await;
    let connection = &bench.connection;
    let opening = || connection.request(NewSessionRequest::new("/work"));
    connection.request(LogoutRequest::new()).await.expect("logged out");
    assert!(matches!(opening().await, Err(RequestError::Peer(e)) if e.code.get() == -32000));
    let wrong = connection.request(AuthenticateRequest::new("nothing")).await;
    assert!(matches!(wrong, Err(RequestError::Peer(e)) if e.code.get() == -32602));
    connection.request(AuthenticateRequest::new("mock")).await.expect("logged in");
    opening().await.expect("a session");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_replayed_by_load_and_gone_after_delete() {
    let bench = Bench::new(&Editor::default()).await;
    assert_eq!(bench.said("echo hello").await, ["hello"]);
    assert_eq!(bench.said("cancel_status").await, ["0 turns of this session were cancelled"]);
    let connection = &bench.connection;
    connection.request(CloseSessionRequest::new(bench.session.clone())).await.expect("closed");
    connection.request(LoadSessionRequest::new(bench.session.clone(), "/work")).await.expect("loaded");
    for _ in 0..2 {
        connection.request(DeleteSessionRequest::new(bench.session.clone())).await.expect("deleted, or gone before");
    }
    let gone = connection.request(LoadSessionRequest::new(bench.session.clone(), "/work")).await;
    assert!(matches!(gone, Err(RequestError::Peer(e)) if e.code.get() == -32002));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_words_for_load_and_time_do_what_they_say() {
    let bench = Bench::new(&Editor::default()).await;
    let flood = bench.said("flood 2000").await;
    assert_eq!((flood.len(), flood.last().map(String::as_str)), (2000, Some("1999\n")));
    assert_eq!(bench.said("big 300000").await.first().map(String::len), Some(300_000));
    assert_eq!(bench.prompt("sleep 60000").await, (Vec::new(), StopReason::EndTurn));
    assert_eq!(bench.said("help").await.len(), 1);
    assert_eq!(bench.said("anything else").await, ["anything else"]);
    bench.end().await;
}
