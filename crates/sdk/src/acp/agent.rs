//! What an agent author writes.

use std::future::{Future, ready};
use std::sync::Arc;

use pintle_acp::types::*;
use pintle_acp::{Error, MethodId, RawJson, Reply, RequestToAgent};

use super::ctx::Ctx;
use super::lane::Updates;
use super::service::{BoxFuture, Service};
use super::turn::Turn;

/// An agent: the handlers of everything that a client may ask of it.
///
/// Override what the agent supports. Every other request is answered -32601, so an agent that advertises nothing more than
/// sessions and prompts needs [`Agent::new_session`] and [`Agent::prompt`] only. What is gated by a capability is answered
/// -32601 by the connection unless [`Agent::initialize`] advertised it.
///
/// Each handler runs as its own task. It may wait for as long as it wants, and call back to the client through its
/// [`Ctx`]; requests of one session start in the order of the wire, those of different sessions do not wait for each other.
/// A panic is answered -32603, without its text. `_meta` travels in every type.
///
/// ```
/// use pintle_sdk::acp::{Agent, Ctx, Error, Turn};
/// use pintle_sdk::acp::types::{NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse};
///
/// struct Echo;
///
/// impl Agent for Echo {
///     async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
///         Ok(NewSessionResponse::new("session-1"))
///     }
///
///     async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
///         turn.agent_text(request.text()).await?;
///         Ok(PromptResponse::end_turn())
///     }
/// }
/// ```
pub trait Agent: Send + Sync + 'static {
    /// Called once, before anything is read (R-012).
    ///
    /// # Errors
    /// The agent refuses: the connection ends at once.
    fn init(&self, cx: &Ctx) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = cx;
        ready(Ok(()))
    }

    /// What the default [`Agent::initialize`] advertises: nothing.
    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::default()
    }

    /// Name and version for the default [`Agent::initialize`]: none.
    fn info(&self) -> Option<Implementation> {
        None
    }

    /// `initialize`. The version in the answer is replaced by the one this crate speaks if it speaks no other.
    ///
    /// # Errors
    /// The handshake fails; the client may try again.
    fn initialize(
        &self,
        request: InitializeRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<InitializeResponse, Error>> + Send {
        let _ = cx;
        let mut response = InitializeResponse::new(request.protocol_version.answer());
        response.agent_capabilities = self.capabilities();
        response.agent_info = self.info();
        ready(Ok(response))
    }

    /// `authenticate`.
    ///
    /// # Errors
    /// What the client is told.
    fn authenticate(
        &self,
        request: AuthenticateRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<AuthenticateResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::Authenticate)
    }

    /// `logout`; needs `auth.logout`.
    ///
    /// # Errors
    /// What the client is told.
    fn logout(&self, cx: &Ctx) -> impl Future<Output = Result<LogoutResponse, Error>> + Send {
        let _ = cx;
        not_found(MethodId::Logout)
    }

    /// `session/new`. The session is open once this has answered; updates about it, sent with [`Ctx::update_session`] from
    /// here, follow the answer.
    ///
    /// # Errors
    /// What the client is told. [`Error::auth_required`] where the user has to log in.
    fn new_session(
        &self,
        request: NewSessionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<NewSessionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::NewSession)
    }

    /// `session/load`; needs `loadSession`. Replay the history with [`Ctx::update_session`] before answering. Prompts that
    /// arrive meanwhile wait.
    ///
    /// # Errors
    /// What the client is told.
    fn load_session(
        &self,
        request: LoadSessionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<LoadSessionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::LoadSession)
    }

    /// `session/resume`; needs `sessionCapabilities.resume`. Must not replay.
    ///
    /// # Errors
    /// What the client is told.
    fn resume_session(
        &self,
        request: ResumeSessionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<ResumeSessionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::ResumeSession)
    }

    /// `session/list`; needs `sessionCapabilities.list`.
    ///
    /// # Errors
    /// What the client is told.
    fn list_sessions(
        &self,
        request: ListSessionsRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<ListSessionsResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::ListSessions)
    }

    /// `session/close`; needs `sessionCapabilities.close`. The running turn has been told to wind down.
    ///
    /// # Errors
    /// What the client is told; the session stays open.
    fn close_session(
        &self,
        request: CloseSessionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<CloseSessionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::CloseSession)
    }

    /// `session/delete`; needs `sessionCapabilities.delete`. A session that is not there is deleted already.
    ///
    /// # Errors
    /// What the client is told.
    fn delete_session(
        &self,
        request: DeleteSessionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<DeleteSessionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::DeleteSession)
    }

    /// `session/set_mode`, for a mode that the session offered; others were refused.
    ///
    /// # Errors
    /// What the client is told.
    fn set_session_mode(
        &self,
        request: SetSessionModeRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<SetSessionModeResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::SetSessionMode)
    }

    /// `session/set_config_option`. The answer holds all options.
    ///
    /// # Errors
    /// What the client is told.
    fn set_session_config_option(
        &self,
        request: SetSessionConfigOptionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<SetSessionConfigOptionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::SetSessionConfigOption)
    }

    /// `session/prompt`: the root task of a turn. The answer leaves when this has returned and every task that it spawned
    /// into the turn is gone; it is `cancelled` if the turn was cancelled meanwhile.
    ///
    /// # Errors
    /// What the client is told.
    fn prompt(
        &self,
        request: PromptRequest,
        turn: &Turn,
    ) -> impl Future<Output = Result<PromptResponse, Error>> + Send {
        let _ = (request, turn);
        not_found(MethodId::Prompt)
    }

    /// `_pintle/session.load`: attach to a durable session.
    ///
    /// # Errors
    /// What the client is told.
    fn load_durable_session(
        &self,
        request: LoadSessionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<LoadSessionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::LoadDurableSession)
    }

    /// `_pintle/session.steer`: tell a running turn something more.
    ///
    /// # Errors
    /// What the client is told.
    fn steer_session(
        &self,
        request: SteerRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<SteerResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::SteerSession)
    }

    /// Any other request whose method begins with `_`. The result is sent exactly as it is returned (R-133).
    ///
    /// # Errors
    /// What the client is told; by default -32601.
    fn ext_request(
        &self,
        method: &str,
        params: Option<RawJson>,
        cx: &Ctx,
    ) -> impl Future<Output = Result<Raw, Error>> + Send {
        let _ = (params, cx);
        ready(Err(Error::method_not_found(method)))
    }

    /// Any other notification whose method begins with `_`; by default ignored.
    fn ext_notification(&self, method: &str, params: Option<RawJson>, cx: &Ctx) -> impl Future<Output = ()> + Send {
        let _ = (method, params, cx);
        ready(())
    }
}

fn not_found<R: Send>(method: MethodId) -> impl Future<Output = Result<R, Error>> + Send {
    ready(Err(Error::method_not_found(method.wire())))
}

/// The handlers of an agent, as the connection calls them.
pub(crate) struct AgentService<A>(pub(crate) Arc<A>);

impl<A: Agent> Service for AgentService<A> {
    fn request<'a>(&'a self, method: &'a str, params: Option<&'a RawJson>, cx: &'a Ctx) -> BoxFuture<'a, Reply> {
        let Some(id) = MethodId::from_wire(method) else {
            return Box::pin(async move { self.0.ext_request(method, params.cloned(), cx).await.into() });
        };
        let decoded = RequestToAgent::decode(id, params.map(RawJson::as_raw_value));
        let request = match decoded {
            Some(Ok(request)) => request,
            Some(Err(error)) => return answer(Reply::error(&error)),
            None => return answer(Reply::error(&Error::method_not_found(method))),
        };
        let agent = &*self.0;
        match request {
            RequestToAgent::Initialize(request) => Box::pin(async move {
                let mut response = agent.initialize(request, cx).await;
                if let Ok(response) = &mut response
                    && !response.protocol_version.is_spoken()
                {
                    response.protocol_version = ProtocolVersion::LATEST;
                }
                response.into()
            }),
            RequestToAgent::Authenticate(r) => Box::pin(async move { agent.authenticate(r, cx).await.into() }),
            RequestToAgent::Logout(_) => Box::pin(async move { agent.logout(cx).await.into() }),
            RequestToAgent::NewSession(r) => Box::pin(async move { agent.new_session(r, cx).await.into() }),
            RequestToAgent::LoadSession(r) => Box::pin(async move { agent.load_session(r, cx).await.into() }),
            RequestToAgent::ResumeSession(r) => Box::pin(async move { agent.resume_session(r, cx).await.into() }),
            RequestToAgent::ListSessions(r) => Box::pin(async move { agent.list_sessions(r, cx).await.into() }),
            RequestToAgent::CloseSession(r) => Box::pin(async move { agent.close_session(r, cx).await.into() }),
            RequestToAgent::DeleteSession(r) => Box::pin(async move { agent.delete_session(r, cx).await.into() }),
            RequestToAgent::SetSessionMode(r) => Box::pin(async move { agent.set_session_mode(r, cx).await.into() }),
            RequestToAgent::SetSessionConfigOption(r) => {
                Box::pin(async move { agent.set_session_config_option(r, cx).await.into() })
            }
            RequestToAgent::LoadDurableSession(r) => {
                Box::pin(async move { agent.load_durable_session(r, cx).await.into() })
            }
            RequestToAgent::SteerSession(r) => Box::pin(async move { agent.steer_session(r, cx).await.into() }),
            // Prompts come by way of their turn.
            RequestToAgent::Prompt(_) => answer(Reply::error(&Error::internal_error())),
            _ => answer(Reply::error(&Error::method_not_found(method))),
        }
    }

    fn prompt<'a>(&'a self, params: &'a RawJson, turn: &'a Turn) -> BoxFuture<'a, Reply> {
        match RequestToAgent::decode(MethodId::Prompt, Some(params.as_raw_value())) {
            Some(Ok(RequestToAgent::Prompt(request))) => {
                Box::pin(async move { self.0.prompt(request, turn).await.into() })
            }
            Some(Err(error)) => answer(Reply::error(&error)),
            _ => answer(Reply::error(&Error::internal_error())),
        }
    }

    /// Updates go to clients.
    fn updates<'a>(&'a self, _: Updates<'a>) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    fn notification<'a>(&'a self, method: &'a str, params: Option<&'a RawJson>, cx: &'a Ctx) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            self.0.ext_notification(method, params.cloned(), cx).await;
            true
        })
    }
}

pub(crate) fn answer<'a>(reply: Reply) -> BoxFuture<'a, Reply> {
    Box::pin(ready(reply))
}
