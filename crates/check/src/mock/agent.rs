use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pintle_sdk::acp::types::{
    AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, AuthenticateResponse,
    AvailableCommand, AvailableCommandsUpdate, CloseSessionRequest, CloseSessionResponse, ConfigOptionUpdate,
    CurrentModeUpdate, DeleteSessionRequest, DeleteSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse,
    LogoutResponse, Marker, NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, ResumeSessionRequest,
    ResumeSessionResponse, SessionConfigKind, SessionConfigOption, SessionConfigSelect, SessionConfigSelectOption,
    SessionConfigSelectOptions, SessionConfigValue, SessionId, SessionInfo, SessionMode, SessionModeState,
    SessionUpdate, SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use pintle_sdk::acp::{Agent, Ctx, Error, Turn};

use super::command::Command;
use super::scenes;

/// Sessions that one connection may have.
const SESSIONS_MAX: usize = 10_000;
/// Messages that a session keeps for a later load; older ones are forgotten.
const HISTORY_MAX_MESSAGES: usize = 1_000;

/// The modes of every session.
const MODES: [(&str, &str); 2] = [("ask", "Ask"), ("code", "Code")];
/// The values of the one option of every session.
const MODELS: [(&str, &str); 2] = [("small", "Small"), ("large", "Large")];

/// The reference agent: every stable method and update of version 1, chosen by the text of the prompt.
pub(super) struct MockAgent {
    options: super::MockOptions,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<SessionId, Session>,
    made: u64,
}

/// What the agent knows of a session. It outlives the session's closing, so that it can be loaded again.
#[derive(Clone)]
struct Session {
    cwd: String,
    mode: &'static str,
    model: &'static str,
    history: Vec<SessionUpdate>,
    cancelled_turns: u64,
    prompts: u64,
}

impl MockAgent {
    pub(super) fn new(options: super::MockOptions) -> Self {
        Self { options, sessions: Mutex::default() }
    }

    fn with<R>(&self, id: &SessionId, read: impl FnOnce(&mut Session) -> R) -> Result<R, Error> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.open.get_mut(id).map(read).ok_or_else(|| Error::session_not_found(id))
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
        self.with(id, |session| session.cwd.clone()).unwrap_or_default()
    }

    pub(super) fn die(&self) {
        (self.options.die)();
    }
}

fn modes(current: &str) -> SessionModeState {
    let available: Vec<SessionMode> = MODES.iter().map(|(id, name)| SessionMode::new(*id, *name)).collect();
    SessionModeState::new(current, available)
}

fn options(current: &str) -> Vec<SessionConfigOption> {
    let values: Vec<SessionConfigSelectOption> =
        MODELS.iter().map(|(value, name)| SessionConfigSelectOption::new(*value, *name)).collect();
    let select = SessionConfigSelect::new(current, SessionConfigSelectOptions::Ungrouped(values));
    vec![SessionConfigOption::new("model", "Model", SessionConfigKind::Select(select))]
}

pub(super) fn commands() -> SessionUpdate {
    let commands: Vec<AvailableCommand> =
        [("help", "What this agent does"), ("echo", "Says it back")].map(|(a, b)| AvailableCommand::new(a, b)).into();
    AvailableCommandsUpdate::new(commands).into()
}

/// The table's own spelling of a word, so that sessions hold no text of a peer.
fn known(table: &[(&'static str, &str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(id, _)| *id == word).map(|(id, _)| *id)
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
        let mut auth = AgentAuthCapabilities::new();
        auth.logout = Some(Marker::new());
        capabilities.auth = auth;
        capabilities
    }

    fn info(&self) -> Option<Implementation> {
        Some(Implementation::new("pintle-mock-agent", env!("CARGO_PKG_VERSION")))
    }

    async fn initialize(&self, request: InitializeRequest, _: &Ctx) -> Result<InitializeResponse, Error> {
        let mut response = InitializeResponse::new(request.protocol_version.answer());
        response.agent_capabilities = self.capabilities();
        response.agent_info = self.info();
        response.auth_methods = vec![AuthMethod::Agent(AuthMethodAgent::new("mock", "Nothing to log in to"))].into();
        Ok(response)
    }

    async fn authenticate(&self, _: AuthenticateRequest, _: &Ctx) -> Result<AuthenticateResponse, Error> {
        Ok(AuthenticateResponse::new())
    }

    async fn logout(&self, _: &Ctx) -> Result<LogoutResponse, Error> {
        Ok(LogoutResponse::new())
    }

    async fn new_session(&self, request: NewSessionRequest, cx: &Ctx) -> Result<NewSessionResponse, Error> {
        let id = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if sessions.open.len() >= SESSIONS_MAX {
                return Err(Error::server_busy(SESSIONS_MAX));
            }
            sessions.made += 1;
            let id = SessionId::from(format!("mock-{}-{}", std::process::id(), sessions.made));
            let session = Session {
                cwd: request.cwd.as_str().to_owned(),
                mode: MODES[0].0,
                model: MODELS[0].0,
                history: Vec::new(),
                cancelled_turns: 0,
                prompts: 0,
            };
            sessions.open.insert(id.clone(), session);
            id
        };
        // It waits for the answer that tells the client of the id.
        let _ = cx.update_session(id.clone(), commands()).await;
        let mut response = NewSessionResponse::new(id);
        response.modes = Some(modes(MODES[0].0));
        response.config_options = Some(options(MODELS[0].0).into());
        Ok(response)
    }

    async fn load_session(&self, request: LoadSessionRequest, cx: &Ctx) -> Result<LoadSessionResponse, Error> {
        let session = self.with(&request.session_id, |session| session.clone())?;
        for update in session.history {
            let sent = cx.update_session(request.session_id.clone(), update).await;
            sent.map_err(|_| Error::internal_error())?;
        }
        let mut response = LoadSessionResponse::new();
        response.modes = Some(modes(session.mode));
        response.config_options = Some(options(session.model).into());
        Ok(response)
    }

    async fn resume_session(&self, request: ResumeSessionRequest, _: &Ctx) -> Result<ResumeSessionResponse, Error> {
        let (mode, model) = self.with(&request.session_id, |session| (session.mode, session.model))?;
        let mut response = ResumeSessionResponse::new();
        response.modes = Some(modes(mode));
        response.config_options = Some(options(model).into());
        Ok(response)
    }

    async fn list_sessions(&self, request: ListSessionsRequest, _: &Ctx) -> Result<ListSessionsResponse, Error> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = request.cwd.as_ref().map(|cwd| cwd.as_str());
        let mut found: Vec<SessionInfo> = sessions
            .open
            .iter()
            .filter(|(_, session)| wanted.is_none_or(|cwd| cwd == session.cwd))
            .map(|(id, session)| {
                let mut info = SessionInfo::new(id.clone(), session.cwd.as_str());
                info.title = Some(format!("{} prompts", session.prompts));
                info
            })
            .collect();
        found.sort_by(|a, b| a.session_id.as_str().cmp(b.session_id.as_str()));
        Ok(ListSessionsResponse::new(found))
    }

    async fn close_session(&self, request: CloseSessionRequest, _: &Ctx) -> Result<CloseSessionResponse, Error> {
        self.with(&request.session_id, |_| CloseSessionResponse::new())
    }

    async fn delete_session(&self, request: DeleteSessionRequest, _: &Ctx) -> Result<DeleteSessionResponse, Error> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.open.remove(&request.session_id);
        Ok(DeleteSessionResponse::new())
    }

    async fn set_session_mode(
        &self,
        request: SetSessionModeRequest,
        cx: &Ctx,
    ) -> Result<SetSessionModeResponse, Error> {
        let Some(mode) = known(&MODES, request.mode_id.as_str()) else {
            return Err(Error::resource_not_found("mode"));
        };
        self.with(&request.session_id, |session| session.mode = mode)?;
        let _ = cx.update_session(request.session_id, CurrentModeUpdate::new(mode)).await;
        Ok(SetSessionModeResponse::new())
    }

    async fn set_session_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
        cx: &Ctx,
    ) -> Result<SetSessionConfigOptionResponse, Error> {
        let SessionConfigValue::Id(value) = &request.value else {
            return Err(Error::resource_not_found("value"));
        };
        let model = known(&MODELS, value.value.as_str()).filter(|_| request.config_id.as_str() == "model");
        let Some(model) = model else { return Err(Error::resource_not_found("value")) };
        self.with(&request.session_id, |session| session.model = model)?;
        let _ = cx.update_session(request.session_id, ConfigOptionUpdate::new(options(model))).await;
        Ok(SetSessionConfigOptionResponse::new(options(model)))
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
