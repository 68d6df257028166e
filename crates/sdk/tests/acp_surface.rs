//! Every handler of both sides, reached over a connection: what `callbacks` lists is what is called.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pintle_sdk::acp::types::*;
use pintle_sdk::acp::{
    Agent, Client, ClientConnection, Ctx, Error, RawJson, RequestError, ServeError, Side, Turn, callbacks, connect,
    serve,
};
use pintle_sdk::transport::memory;
use serde_json::json;
use tokio::sync::Notify;

/// The names of the handlers that were called, in order.
#[derive(Clone, Default)]
struct Called(Arc<Mutex<Vec<&'static str>>>);

impl Called {
    fn note(&self, name: &'static str) {
        self.0.lock().expect("not poisoned").push(name);
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.lock().expect("not poisoned").clone()
    }

    fn assert_all(&self, side: Side) {
        let called: BTreeSet<&str> = self.names().into_iter().collect();
        let listed: BTreeSet<&str> = callbacks(side).into_iter().map(|callback| callback.name).collect();
        assert_eq!(listed.difference(&called).collect::<Vec<_>>(), Vec::<&&str>::new(), "not called");
    }
}

fn everything_an_agent_can() -> AgentCapabilities {
    AgentCapabilities::new()
        .load_session(true)
        .session_capabilities(
            SessionCapabilities::new()
                .list(Marker::new())
                .delete(Marker::new())
                .resume(Marker::new())
                .close(Marker::new()),
        )
        .auth(AgentAuthCapabilities::new().logout(Marker::new()))
}

fn everything_a_client_can() -> ClientCapabilities {
    ClientCapabilities::new()
        .fs(FileSystemCapabilities::new().read_text_file(true).write_text_file(true))
        .terminal(true)
        .elicitation(ElicitationCapabilities::new().form(Marker::new()).url(Marker::new()))
}

fn web_search(on: bool) -> SessionConfigOption {
    SessionConfigOption::new("web", "Web search", SessionConfigBoolean::new(on))
}

/// An agent with every handler. Its prompt calls every handler of the client.
#[derive(Clone, Default)]
struct Whole {
    called: Called,
    extension: Arc<Notify>,
    order: Arc<Mutex<Vec<pintle_sdk::acp::RxSeq>>>,
}

impl Whole {
    fn at(&self, name: &'static str, cx: &Ctx) {
        self.called.note(name);
        self.order.lock().expect("not poisoned").push(cx.rx_seq());
    }
}

impl Agent for Whole {
    async fn init(&self, _: &Ctx) -> Result<(), Error> {
        self.called.note("init");
        Ok(())
    }

    async fn initialize(&self, request: InitializeRequest, cx: &Ctx) -> Result<InitializeResponse, Error> {
        self.at("initialize", cx);
        Ok(InitializeResponse::new(request.protocol_version.answer()).agent_capabilities(everything_an_agent_can()))
    }

    async fn authenticate(&self, _: AuthenticateRequest, cx: &Ctx) -> Result<AuthenticateResponse, Error> {
        self.at("authenticate", cx);
        Ok(AuthenticateResponse::new())
    }

    async fn logout(&self, cx: &Ctx) -> Result<LogoutResponse, Error> {
        self.at("logout", cx);
        Ok(LogoutResponse::new())
    }

    async fn new_session(&self, _: NewSessionRequest, cx: &Ctx) -> Result<NewSessionResponse, Error> {
        self.at("new_session", cx);
        assert_eq!(cx.session(), None);
        let modes = SessionModeState::new("code", [SessionMode::new("code", "Code"), SessionMode::new("ask", "Ask")]);
        Ok(NewSessionResponse::new("s1").modes(modes).config_options([web_search(false)]))
    }

    async fn load_session(&self, request: LoadSessionRequest, cx: &Ctx) -> Result<LoadSessionResponse, Error> {
        self.at("load_session", cx);
        assert_eq!(cx.session(), Some(request.session_id.as_str()));
        Ok(LoadSessionResponse::new())
    }

    async fn resume_session(&self, _: ResumeSessionRequest, cx: &Ctx) -> Result<ResumeSessionResponse, Error> {
        self.at("resume_session", cx);
        Ok(ResumeSessionResponse::new())
    }

    async fn list_sessions(&self, _: ListSessionsRequest, cx: &Ctx) -> Result<ListSessionsResponse, Error> {
        self.at("list_sessions", cx);
        Ok(ListSessionsResponse::new([SessionInfo::new("s1", "/")]))
    }

    async fn close_session(&self, _: CloseSessionRequest, cx: &Ctx) -> Result<CloseSessionResponse, Error> {
        self.at("close_session", cx);
        Ok(CloseSessionResponse::new())
    }

    async fn delete_session(&self, _: DeleteSessionRequest, cx: &Ctx) -> Result<DeleteSessionResponse, Error> {
        self.at("delete_session", cx);
        Ok(DeleteSessionResponse::new())
    }

    async fn set_session_mode(&self, _: SetSessionModeRequest, cx: &Ctx) -> Result<SetSessionModeResponse, Error> {
        self.at("set_session_mode", cx);
        Ok(SetSessionModeResponse::new())
    }

    async fn set_session_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
        cx: &Ctx,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        self.at("set_session_config_option", cx);
        assert_eq!(request.value, SessionConfigValue::from(true));
        Ok(SetSessionConfigOptionResponse::new([web_search(true)]))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        self.at("prompt", turn);
        let session = request.session_id;
        let terminal = "t1";
        turn.agent_text("hello").await?;
        let options = [PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce)];
        let decision = turn.ask_permission(ToolCallUpdate::new("c1"), options).await?;
        turn.agent_text(decision.to_string()).await?;
        turn.request(ReadTextFileRequest::new(&session, "/f")).await?;
        turn.request(WriteTextFileRequest::new(&session, "/f", "x")).await?;
        turn.request(CreateTerminalRequest::new(&session, "ls")).await?;
        turn.request(TerminalOutputRequest::new(&session, terminal)).await?;
        turn.request(WaitForTerminalExitRequest::new(&session, terminal)).await?;
        turn.request(KillTerminalRequest::new(&session, terminal)).await?;
        turn.request(ReleaseTerminalRequest::new(&session, terminal)).await?;
        let form = ElicitationForm::new(ElicitationSchema::new()).session_id(&session);
        turn.request(CreateElicitationRequest::new("Which?", form)).await?;
        turn.notify(CompleteElicitationNotification::new("e1")).await?;
        turn.notify(SessionRecordNotification::new(&session, 1u64, "note", Raw::from(json!({})))).await?;
        turn.notify(CaughtUpNotification::new(&session, 2u64)).await?;
        turn.notify(LaggedNotification::new(&session, 3u64)).await?;
        turn.notify(ClosedNotification::new(&session, "revoked")).await?;
        turn.ext_request("_c/ask", &json!({"n": 1})).await?;
        turn.ext_notify("_c/tell", &json!({})).await?;
        Ok(PromptResponse::end_turn())
    }

    async fn load_durable_session(&self, _: LoadSessionRequest, cx: &Ctx) -> Result<LoadSessionResponse, Error> {
        self.at("load_durable_session", cx);
        Ok(LoadSessionResponse::new())
    }

    async fn steer_session(&self, _: SteerRequest, cx: &Ctx) -> Result<SteerResponse, Error> {
        self.at("steer_session", cx);
        Ok(SteerResponse::new(SteerOutcome::NoLiveTurn))
    }

    async fn ext_request(&self, method: &str, params: Option<RawJson>, cx: &Ctx) -> Result<Raw, Error> {
        self.at("ext_request", cx);
        Ok(Raw::from(json!({"method": method, "params": params.map(|params| params.as_str().to_owned())})))
    }

    async fn ext_notification(&self, method: &str, _: Option<RawJson>, cx: &Ctx) {
        assert_eq!(method, "_a/tell");
        self.at("ext_notification", cx);
        self.extension.notify_one();
    }
}

/// A client with every handler.
#[derive(Clone, Default)]
struct Desk {
    called: Called,
    extension: Arc<Notify>,
}

impl Client for Desk {
    fn capabilities(&self) -> ClientCapabilities {
        everything_a_client_can()
    }

    async fn session_update(&self, _: SessionNotification, _: &Ctx) {
        self.called.note("session_update");
    }

    async fn request_permission(
        &self,
        request: RequestPermissionRequest,
        _: &Ctx,
    ) -> Result<RequestPermissionResponse, Error> {
        self.called.note("request_permission");
        Ok(RequestPermissionResponse::selected(&request.options[0].option_id))
    }

    async fn read_text_file(&self, _: ReadTextFileRequest, _: &Ctx) -> Result<ReadTextFileResponse, Error> {
        self.called.note("read_text_file");
        Ok(ReadTextFileResponse::new("text"))
    }

    async fn write_text_file(&self, _: WriteTextFileRequest, _: &Ctx) -> Result<WriteTextFileResponse, Error> {
        self.called.note("write_text_file");
        Ok(WriteTextFileResponse::new())
    }

    async fn create_terminal(&self, _: CreateTerminalRequest, _: &Ctx) -> Result<CreateTerminalResponse, Error> {
        self.called.note("create_terminal");
        Ok(CreateTerminalResponse::new("t1"))
    }

    async fn terminal_output(&self, _: TerminalOutputRequest, _: &Ctx) -> Result<TerminalOutputResponse, Error> {
        self.called.note("terminal_output");
        Ok(TerminalOutputResponse::new("out", false))
    }

    async fn wait_for_terminal_exit(
        &self,
        _: WaitForTerminalExitRequest,
        _: &Ctx,
    ) -> Result<WaitForTerminalExitResponse, Error> {
        self.called.note("wait_for_terminal_exit");
        Ok(WaitForTerminalExitResponse::new().exit_code(0u32))
    }

    async fn kill_terminal(&self, _: KillTerminalRequest, _: &Ctx) -> Result<KillTerminalResponse, Error> {
        self.called.note("kill_terminal");
        Ok(KillTerminalResponse::new())
    }

    async fn release_terminal(&self, _: ReleaseTerminalRequest, _: &Ctx) -> Result<ReleaseTerminalResponse, Error> {
        self.called.note("release_terminal");
        Ok(ReleaseTerminalResponse::new())
    }

    async fn create_elicitation(
        &self,
        _: CreateElicitationRequest,
        _: &Ctx,
    ) -> Result<CreateElicitationResponse, Error> {
        self.called.note("create_elicitation");
        Ok(CreateElicitationResponse::new(ElicitationAction::decline()))
    }

    async fn complete_elicitation(&self, _: CompleteElicitationNotification, _: &Ctx) {
        self.called.note("complete_elicitation");
    }

    async fn session_record(&self, _: SessionRecordNotification, _: &Ctx) {
        self.called.note("session_record");
    }

    async fn session_caught_up(&self, _: CaughtUpNotification, _: &Ctx) {
        self.called.note("session_caught_up");
    }

    async fn session_lagged(&self, _: LaggedNotification, _: &Ctx) {
        self.called.note("session_lagged");
    }

    async fn session_closed(&self, _: ClosedNotification, _: &Ctx) {
        self.called.note("session_closed");
    }

    async fn ext_request(&self, method: &str, _: Option<RawJson>, _: &Ctx) -> Result<Raw, Error> {
        assert_eq!(method, "_c/ask");
        Ok(Raw::from(json!("answer")))
    }

    async fn ext_notification(&self, method: &str, _: Option<RawJson>, _: &Ctx) {
        assert_eq!(method, "_c/tell");
        self.extension.notify_one();
    }
}

type Served = tokio::task::JoinHandle<Result<pintle_sdk::acp::Closed, ServeError>>;

async fn pair(agent: impl Agent, client: impl Client) -> (ClientConnection, Served) {
    let (ours, theirs) = memory();
    let served = tokio::spawn(serve(agent, theirs));
    let connection = connect(client, ours).expect("a pair opens");
    connection.initialize().await.expect("a handshake");
    (connection, served)
}

/// R-008, R-009, R-076, I18, G-02: every handler that the table lists, on both sides, is called for its method, with the session
/// that it names.
#[tokio::test(start_paused = true)]
async fn every_handler_is_reached() {
    let (agent, client) = (Whole::default(), Desk::default());
    let (cx, served) = pair(agent.clone(), client.clone()).await;
    let ok = "answered";
    cx.request(AuthenticateRequest::new("m")).await.expect(ok);
    let session = cx.request(NewSessionRequest::new("/")).await.expect(ok).session_id;
    cx.request(LoadSessionRequest::new("s2", "/")).await.expect(ok);
    cx.request(ResumeSessionRequest::new("s3", "/")).await.expect(ok);
    assert_eq!(cx.request(ListSessionsRequest::new()).await.expect(ok).sessions.len(), 1);
    cx.request(SetSessionModeRequest::new(&session, "ask")).await.expect(ok);
    cx.request(SetSessionConfigOptionRequest::new(&session, "web", true)).await.expect(ok);
    let answer = cx.request(PromptRequest::new(&session, ["go".into()])).await.expect(ok);
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    cx.request(SteerRequest::new(&session, 1)).await.expect(ok);
    cx.ext_request("_pintle/session.load", &LoadSessionRequest::new("s4", "/")).await.expect(ok);
    cx.ext_request("_raxol/session.load", &LoadSessionRequest::new("s5", "/")).await.expect(ok);
    cx.request(CloseSessionRequest::new(&session)).await.expect(ok);
    cx.request(DeleteSessionRequest::new(&session)).await.expect(ok);
    cx.request(LogoutRequest::new()).await.expect(ok);
    // R-131, R-133: names and params go through as they are.
    let echoed = cx.ext_request("_a/ask", &json!({"n": 1})).await.expect(ok);
    assert_eq!(echoed.as_str(), r#"{"method":"_a/ask","params":"{\"n\":1}"}"#);
    cx.ext_notify("_a/tell", &json!({})).await.expect("sent");
    agent.extension.notified().await;
    client.extension.notified().await;

    agent.called.assert_all(Side::Agent);
    client.called.assert_all(Side::Client);
    // R-012: init comes before everything, once.
    assert_eq!(agent.called.names()[0], "init");
    assert_eq!(agent.called.names().iter().filter(|name| **name == "init").count(), 1);
    // R-105: each frame that was received has a higher number than the one before.
    let order = agent.order.lock().expect("not poisoned").clone();
    assert!(order.windows(2).all(|two| two[0] < two[1]), "{order:?}");
    cx.shut_down().await.expect("a good end");
    served.await.expect("no panic").expect("a good end");
}

/// R-051, IC-3: a request that is not waited for is answered when it is.
#[tokio::test(start_paused = true)]
async fn requests_can_be_waited_for_later() {
    let (cx, _served) = pair(Whole::default(), Desk::default()).await;
    let first = cx.async_request(&NewSessionRequest::new("/")).await.expect("taken");
    let second = cx.async_request(&ListSessionsRequest::new()).await.expect("taken");
    assert_eq!(second.await.expect("answered").sessions.len(), 1);
    assert_eq!(first.await.expect("answered").session_id.as_str(), "s1");
}

/// What has capabilities and no handlers.
struct Bare;

impl Agent for Bare {
    fn capabilities(&self) -> AgentCapabilities {
        everything_an_agent_can()
    }
}

impl Client for Bare {
    fn capabilities(&self) -> ClientCapabilities {
        everything_a_client_can()
    }
}

/// R-009: a handler that was not written answers "method not found", and says of which.
#[tokio::test(start_paused = true)]
async fn handlers_default_to_method_not_found() {
    let (cx, _served) = pair(Bare, Bare).await;
    macro_rules! refused {
        ($($params:expr),* $(,)?) => { $(
            let params = $params;
            let method = pintle_sdk::acp::MethodId::wire(method_of(&params));
            match cx.request(params).await {
                Err(RequestError::Peer(error)) => {
                    assert_eq!(error.code.get(), -32601, "{method}");
                    assert_eq!(error.data.expect("the method").get(), json!(method).to_string());
                }
                other => panic!("{method}: {other:?}"),
            }
        )* };
    }
    refused!(
        AuthenticateRequest::new("m"),
        LogoutRequest::new(),
        NewSessionRequest::new("/"),
        LoadSessionRequest::new("s", "/"),
        ResumeSessionRequest::new("s", "/"),
        ListSessionsRequest::new(),
        DeleteSessionRequest::new("s"),
    );
    match cx.ext_request("_a/ask", &json!({})).await {
        Err(RequestError::Peer(error)) => assert_eq!(error.code.get(), -32601),
        other => panic!("{other:?}"),
    }
    cx.ext_notify("_a/tell", &json!({})).await.expect("sent, and passed over");
}

fn method_of<R: pintle_acp::Request>(_: &R) -> pintle_sdk::acp::MethodId {
    R::METHOD
}

/// R-012: an agent may refuse to begin.
#[tokio::test(start_paused = true)]
async fn init_may_refuse() {
    struct Unwilling;
    impl Agent for Unwilling {
        async fn init(&self, _: &Ctx) -> Result<(), Error> {
            Err(Error::internal_error())
        }
    }
    let (_ours, theirs) = memory();
    assert!(serve(Unwilling, theirs).await.is_err());
}
