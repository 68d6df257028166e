use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pintle_sdk::acp::types::{
    AcpPath, AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest,
    AuthenticateResponse, AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ClientCapabilities,
    CloseSessionRequest, CloseSessionResponse, ConfigOptionUpdate, CurrentModeUpdate, DeleteSessionRequest,
    DeleteSessionResponse, Fault, FaultReason, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, LogoutResponse, Marker,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, ResumeSessionRequest, ResumeSessionResponse,
    SessionId, SessionInfo, SessionUpdate, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
    SetSessionModeRequest, SetSessionModeResponse, SystemPromptCapabilities, SystemPromptModeCapabilities,
};
use pintle_sdk::acp::{Agent, Ctx, Error, Turn};

use super::command::Command;
use super::scenes;
use super::settings::Settings;

/// Sessions that one connection may have.
const SESSIONS_MAX: usize = 10_000;
/// Messages that a session keeps for a later load; older ones are forgotten.
const HISTORY_MAX_MESSAGES: usize = 1_000;
/// Sessions in one page of a list.
const PAGE_MAX_SESSIONS: usize = 100;
/// The one way to authenticate. There is nothing to log in to, but a client that logged out must come back through it.
const AUTH_METHOD: &str = "mock";

/// The reference agent: every stable method and update of version 1, chosen by the text of the prompt.
pub(super) struct MockAgent {
    options: super::MockOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the order in which they were made, which is the order of lists and what their cursors count in.
    sessions: BTreeMap<u64, Session>,
    made: u64,
    logged_out: bool,
    client: ClientCapabilities,
}

/// What the agent knows of a session. It outlives the session's closing, so that it can be loaded again.
#[derive(Clone)]
struct Session {
    id: SessionId,
    cwd: AcpPath,
    additional_directories: Vec<AcpPath>,
    settings: Settings,
    history: Vec<SessionUpdate>,
    cancelled_turns: u64,
    prompts: u64,
}

impl State {
    fn session(&mut self, id: &SessionId) -> Result<&mut Session, Error> {
        let number = id.as_str().rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let found = self.sessions.get_mut(&number).filter(|session| session.id == *id);
        found.ok_or_else(|| Error::session_not_found(id))
    }

    /// What opens sessions needs a login again once the client logged out.
    fn require_login(&self) -> Result<(), Error> {
        if self.logged_out { Err(Error::auth_required()) } else { Ok(()) }
    }
}

impl MockAgent {
    pub(super) fn new(options: super::MockOptions) -> Self {
        Self { options, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, id: &SessionId, read: impl FnOnce(&mut Session) -> R) -> Result<R, Error> {
        self.state().session(id).map(read)
    }

    /// Adds to what a later load replays.
    pub(super) fn remember(&self, id: &SessionId, update: SessionUpdate) {
        let _ = self.with(id, |session| {
            if session.history.len() == HISTORY_MAX_MESSAGES {
                session.history.remove(0);
            }
            session.history.push(update);
        });
    }

    pub(super) fn cancelled_turns(&self, id: &SessionId) -> u64 {
        self.with(id, |session| session.cancelled_turns).unwrap_or(0)
    }

    pub(super) fn cwd(&self, id: &SessionId) -> String {
        self.with(id, |session| session.cwd.as_str().to_owned()).unwrap_or_default()
    }

    /// What the client offers.
    pub(super) fn client(&self) -> ClientCapabilities {
        self.state().client.clone()
    }

    pub(super) fn die(&self) {
        (self.options.die)();
    }

    /// What a client is told of the settings of a session, in the two updates that there are for them.
    pub(super) fn setting_updates(&self, id: &SessionId) -> Option<(CurrentModeUpdate, ConfigOptionUpdate)> {
        let mut state = self.state();
        let settings = state.session(id).ok()?.settings.clone();
        let options = settings.options(&state.client);
        Some((CurrentModeUpdate::new(settings.mode()), ConfigOptionUpdate::new(options)))
    }
}

pub(super) fn commands() -> SessionUpdate {
    let mut echo = AvailableCommand::new("echo", "Says it back");
    echo.input = Some(AvailableCommandInput::new("what to say"));
    AvailableCommandsUpdate::new(vec![AvailableCommand::new("help", "What this agent does"), echo]).into()
}

impl Agent for MockAgent {
    fn capabilities(&self) -> AgentCapabilities {
        let mut capabilities = AgentCapabilities::new();
        capabilities.load_session = true;
        capabilities.prompt_capabilities.image = true;
        capabilities.prompt_capabilities.audio = true;
        capabilities.prompt_capabilities.embedded_context = true;
        let session = &mut capabilities.session_capabilities;
        session.list = Some(Marker::new());
        session.delete = Some(Marker::new());
        session.resume = Some(Marker::new());
        session.close = Some(Marker::new());
        session.additional_directories = Some(Marker::new());
        // There is no model to give it to; the text of the prompt is all that counts.
        let mut modes = SystemPromptModeCapabilities::new();
        modes.overriding = Some(Marker::new());
        let mut system_prompt = SystemPromptCapabilities::new();
        system_prompt.mode = Some(modes);
        session.system_prompt = Some(system_prompt);
        let mut auth = AgentAuthCapabilities::new();
        auth.logout = Some(Marker::new());
        capabilities.auth = auth;
        capabilities
    }

    fn info(&self) -> Option<Implementation> {
        Some(Implementation::new("pintle-mock-agent", env!("CARGO_PKG_VERSION")))
    }

    async fn initialize(&self, request: InitializeRequest, _: &Ctx) -> Result<InitializeResponse, Error> {
        self.state().client = request.client_capabilities;
        let mut response = InitializeResponse::new(request.protocol_version.answer());
        response.agent_capabilities = self.capabilities();
        response.agent_info = self.info();
        let method = AuthMethodAgent::new(AUTH_METHOD, "Nothing to log in to");
        response.auth_methods = vec![AuthMethod::Agent(method)].into();
        Ok(response)
    }

    async fn authenticate(&self, request: AuthenticateRequest, _: &Ctx) -> Result<AuthenticateResponse, Error> {
        if request.method_id.as_str() != AUTH_METHOD {
            return Err(expected("one of the auth methods", "methodId"));
        }
        self.state().logged_out = false;
        Ok(AuthenticateResponse::new())
    }

    async fn logout(&self, _: &Ctx) -> Result<LogoutResponse, Error> {
        self.state().logged_out = true;
        Ok(LogoutResponse::new())
    }

    async fn new_session(&self, request: NewSessionRequest, cx: &Ctx) -> Result<NewSessionResponse, Error> {
        let response = {
            let mut state = self.state();
            state.require_login()?;
            if state.sessions.len() >= SESSIONS_MAX {
                return Err(Error::server_busy(SESSIONS_MAX));
            }
            state.made += 1;
            let number = state.made;
            let session = Session {
                id: SessionId::from(format!("mock-{}-{number}", std::process::id())),
                cwd: request.cwd,
                additional_directories: request.additional_directories,
                settings: Settings::default(),
                history: Vec::new(),
                cancelled_turns: 0,
                prompts: 0,
            };
            let mut response = NewSessionResponse::new(session.id.clone());
            response.modes = Some(session.settings.modes());
            response.config_options = Some(session.settings.options(&state.client).into());
            state.sessions.insert(number, session);
            response
        };
        // It waits for the answer that tells the client of the id.
        let _ = cx.update_session(response.session_id.clone(), commands()).await;
        Ok(response)
    }

    async fn load_session(&self, request: LoadSessionRequest, cx: &Ctx) -> Result<LoadSessionResponse, Error> {
        let (history, response) = {
            let mut state = self.state();
            state.require_login()?;
            let client = state.client.clone();
            let session = state.session(&request.session_id)?;
            session.cwd = request.cwd;
            session.additional_directories = request.additional_directories;
            let mut response = LoadSessionResponse::new();
            response.modes = Some(session.settings.modes());
            response.config_options = Some(session.settings.options(&client).into());
            (session.history.clone(), response)
        };
        for update in history {
            let sent = cx.update_session(request.session_id.clone(), update).await;
            sent.map_err(|_| Error::internal_error())?;
        }
        Ok(response)
    }

    async fn resume_session(&self, request: ResumeSessionRequest, _: &Ctx) -> Result<ResumeSessionResponse, Error> {
        let mut state = self.state();
        state.require_login()?;
        let client = state.client.clone();
        let session = state.session(&request.session_id)?;
        session.cwd = request.cwd;
        session.additional_directories = request.additional_directories;
        let mut response = ResumeSessionResponse::new();
        response.modes = Some(session.settings.modes());
        response.config_options = Some(session.settings.options(&client).into());
        Ok(response)
    }

    async fn list_sessions(&self, request: ListSessionsRequest, _: &Ctx) -> Result<ListSessionsResponse, Error> {
        let after = match request.cursor {
            None => 0,
            Some(cursor) => cursor.parse::<u64>().map_err(|_| expected("a cursor that was given out", "cursor"))?,
        };
        let state = self.state();
        let mut found = state
            .sessions
            .range(after.saturating_add(1)..)
            .filter(|(_, session)| request.cwd.as_ref().is_none_or(|cwd| *cwd == session.cwd));
        let page: Vec<(u64, SessionInfo)> =
            found.by_ref().take(PAGE_MAX_SESSIONS).map(|(number, session)| (*number, info(session))).collect();
        let last = page.last().map(|(number, _)| number.to_string());
        let next = found.next().and(last);
        let mut response =
            ListSessionsResponse::new(page.into_iter().map(|(_, info)| info).collect::<Vec<SessionInfo>>());
        response.next_cursor = next;
        Ok(response)
    }

    /// The turn that runs in it, if there is one, is cancelled by the connection.
    async fn close_session(&self, request: CloseSessionRequest, _: &Ctx) -> Result<CloseSessionResponse, Error> {
        self.with(&request.session_id, |_| CloseSessionResponse::new())
    }

    async fn delete_session(&self, request: DeleteSessionRequest, _: &Ctx) -> Result<DeleteSessionResponse, Error> {
        self.state().sessions.retain(|_, session| session.id != request.session_id);
        Ok(DeleteSessionResponse::new())
    }

    async fn set_session_mode(
        &self,
        request: SetSessionModeRequest,
        cx: &Ctx,
    ) -> Result<SetSessionModeResponse, Error> {
        self.with(&request.session_id, |session| session.settings.set_mode(request.mode_id.as_str()))??;
        if let Some((mode, options)) = self.setting_updates(&request.session_id) {
            let _ = cx.update_session(request.session_id.clone(), mode).await;
            let _ = cx.update_session(request.session_id, options).await;
        }
        Ok(SetSessionModeResponse::new())
    }

    async fn set_session_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
        cx: &Ctx,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let (changed, options) = {
            let mut state = self.state();
            let client = state.client.clone();
            let settings = &mut state.session(&request.session_id)?.settings;
            let changed = settings.set_option(request.config_id.as_str(), &request.value, &client)?;
            (changed, settings.options(&client))
        };
        if let Some((mode, options)) = self.setting_updates(&request.session_id) {
            if changed.mode {
                let _ = cx.update_session(request.session_id.clone(), mode).await;
            }
            let _ = cx.update_session(request.session_id, options).await;
        }
        Ok(SetSessionConfigOptionResponse::new(options))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        let id = turn.session_id().clone();
        let text = request.text();
        self.with(&id, |session| session.prompts += 1)?;
        self.remember(&id, SessionUpdate::user_text(text.clone()));
        let command = Command::parse(self.options.command_of(&text).unwrap_or(&text));
        let done = tokio::select! {
            biased;
            () = turn.cancelled() => None,
            done = scenes::play(self, &command, turn) => Some(done),
        };
        match done {
            Some(Ok(())) => Ok(PromptResponse::end_turn()),
            Some(Err(error)) => Err(error),
            None => {
                self.with(&id, |session| session.cancelled_turns += 1)?;
                Ok(PromptResponse::cancelled())
            }
        }
    }
}

fn info(session: &Session) -> SessionInfo {
    let mut info = SessionInfo::new(session.id.clone(), session.cwd.clone());
    info.additional_directories = session.additional_directories.clone().into();
    info.title = Some(format!("{} prompts", session.prompts));
    info
}

fn expected(what: &'static str, member: &str) -> Error {
    Error::invalid_params(&Fault::new(FaultReason::Expected(what)).inside(member))
}
