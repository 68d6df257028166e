//! Bringing an agent or a client together with a transport.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use pintle_acp::types::{InitializeRequest, InitializeResponse, PromptRequest, ProtocolVersion, SessionId};
use pintle_acp::{AgentEnd, Call, ClientEnd, Closed, Config, Error, Request, RxSeq, timeouts};
use tokio::task::JoinHandle;

use super::agent::{Agent, AgentService};
use super::client::{Client, ClientService};
use super::connection::{Connection, RequestError};
use super::ctx::Ctx;
use super::end::End;
use super::lane::{Panicked, catch_panic};
use super::link::{Bounds, Link, Waiter};
use super::run::Run;
use super::service::Service;
use super::stream::{CollectedTurn, PromptError, Sink, TurnStream};
use crate::transport::Transport;

/// How long tasks of a connection that is over may take to notice.
pub(crate) const TASKS_GRACE: Duration = Duration::from_secs(1);

/// A connection could not be served, or did not end as one should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The transport could not be opened.
    #[error("failed to open the transport")]
    Open(#[source] io::Error),
    /// The agent's [`init`](Agent::init) refused.
    #[error("the agent refused to start: {0}")]
    Init(Error),
    /// The carrier failed in a way that is not the peer's going away.
    #[error("the transport failed")]
    Transport(#[source] io::Error),
}

/// Serves `agent` on `transport` until the connection ends.
///
/// The client's closing its end is a good end. Dropping the future ends the connection: every handler is stopped at its
/// next await.
///
/// ```no_run
/// # use pintle_sdk::acp::{Agent, ServeError};
/// # async fn main_(agent: impl Agent) -> Result<(), ServeError> {
/// pintle_sdk::acp::serve(agent, pintle_sdk::transport::stdio()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The transport could not be opened or failed, or the agent refused to start.
pub async fn serve(agent: impl Agent, transport: impl Transport) -> Result<Closed, ServeError> {
    serve_with(agent, transport, Config::default()).await
}

/// [`serve`] with other bounds and times than the default.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(agent: impl Agent, transport: impl Transport, config: Config) -> Result<Closed, ServeError> {
    let (connection, run) = agent_connection(agent, transport, config).await?;
    let closed = run.await.map_err(ServeError::Transport)?;
    // The tasks were told to stop; a handler that never yields must not hold up the program's end.
    let _ = tokio::time::timeout(TASKS_GRACE, connection.tasks_ended()).await;
    Ok(closed)
}

pub(crate) async fn agent_connection(
    agent: impl Agent,
    mut transport: impl Transport,
    config: Config,
) -> Result<(Connection, Run), ServeError> {
    transport.open().map_err(ServeError::Open)?;
    let agent = Arc::new(agent);
    let (config, bounds) = with_fair_credit(config);
    let link = Link::new(End::Agent(Box::new(AgentEnd::new(config))), bounds, transport.kind());
    let cx = Ctx::without_reply(link.clone(), None, None, RxSeq::default(), link.stop.clone());
    match catch_panic(agent.init(&cx)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(ServeError::Init(error)),
        Err(Panicked) => return Err(ServeError::Init(Error::internal_error())),
    }
    let service: Arc<dyn Service> = Arc::new(AgentService(agent));
    Ok((Connection::new(link.clone()), Run::new(link, Box::new(transport), service)))
}

/// Senders queue in the order in which they came, before the end sees their calls; so its own bound, which knows no order,
/// is lifted.
fn with_fair_credit(mut config: Config) -> (Config, Bounds) {
    let bounds = Bounds {
        credit_bytes: config.max_call_backlog_bytes.clamp(1, u32::MAX as usize / 2),
        untaken_answer_bytes: config.max_untaken_answer_bytes,
    };
    config.max_call_backlog_bytes = usize::MAX;
    (config, bounds)
}

/// Connects `client` to the agent behind `transport`, without the handshake: call [`ClientConnection::initialize`] first.
///
/// # Errors
/// The transport could not be opened.
pub fn connect(client: impl Client, transport: impl Transport) -> Result<ClientConnection, ServeError> {
    connect_with(client, transport, Config::default())
}

/// [`connect`] with other bounds and times than the default.
///
/// # Errors
/// The transport could not be opened.
pub fn connect_with(
    client: impl Client,
    transport: impl Transport,
    config: Config,
) -> Result<ClientConnection, ServeError> {
    let hello = Hello { capabilities: client.capabilities(), info: client.info() };
    let (connection, run) = client_connection(client, transport, config)?;
    Ok(ClientConnection { connection, hello, task: tokio::spawn(run) })
}

pub(crate) fn client_connection(
    client: impl Client,
    mut transport: impl Transport,
    config: Config,
) -> Result<(Connection, Run), ServeError> {
    transport.open().map_err(ServeError::Open)?;
    let (config, bounds) = with_fair_credit(config);
    let link = Link::new(End::Client(Box::new(ClientEnd::new(config))), bounds, transport.kind());
    let capabilities = client.capabilities();
    let service: Arc<dyn Service> = Arc::new(ClientService { client: Arc::new(client), capabilities });
    let run = Run::new(link.clone(), Box::new(transport), service);
    Ok((Connection::new(link), run))
}

#[derive(Debug, Clone)]
struct Hello {
    capabilities: pintle_acp::types::ClientCapabilities,
    info: Option<pintle_acp::types::Implementation>,
}

/// A client's connection. It ends when this is dropped; [`Connection`] handles that outlive it find it closed.
///
/// Dereferences to [`Connection`].
pub struct ClientConnection {
    connection: Connection,
    hello: Hello,
    task: JoinHandle<io::Result<Closed>>,
}

impl ClientConnection {
    /// The handshake, with what the client advertises. An agent has a minute to answer
    /// ([`timeouts::INITIALIZE`](super::timeouts::INITIALIZE)); [`Self::initialize_within`] names another time.
    ///
    /// # Errors
    /// There is no good answer, or the agent answers with a version of the protocol that this crate does not speak; the
    /// connection is closed then.
    pub async fn initialize(&self) -> Result<InitializeResponse, RequestError> {
        self.initialize_within(Some(timeouts::INITIALIZE)).await
    }

    /// [`Self::initialize`] with a limit of its own. After [`RequestError::TimedOut`] it may be tried again.
    ///
    /// # Errors
    /// As [`Self::initialize`].
    pub async fn initialize_within(&self, limit: Option<Duration>) -> Result<InitializeResponse, RequestError> {
        let mut request = InitializeRequest::new(ProtocolVersion::LATEST);
        request.client_capabilities = self.hello.capabilities.clone();
        request.client_info.clone_from(&self.hello.info);
        let response = self.connection.request_within(request, limit).await?;
        if !response.protocol_version.is_spoken() {
            self.connection.close();
            return Err(RequestError::Version { offered: response.protocol_version.get() });
        }
        Ok(response)
    }

    /// Sends a prompt and collects the updates of its turn, at most [`Self::MAX_COLLECTED_UPDATES`] (R-181).
    ///
    /// Dropping the future cancels the turn.
    ///
    /// # Errors
    /// The turn did not come to a good end.
    pub async fn prompt(&self, request: PromptRequest) -> Result<CollectedTurn, PromptError> {
        let mut turn = self.prompt_stream(request).await?;
        let mut updates = Vec::new();
        while let Some(update) = turn.next().await {
            if updates.len() >= Self::MAX_COLLECTED_UPDATES {
                return Err(PromptError::TooManyUpdates { limit: Self::MAX_COLLECTED_UPDATES });
            }
            updates.push(update);
        }
        Ok(CollectedTurn { updates, response: turn.finish().await? })
    }

    /// Most updates that [`ClientConnection::prompt`] collects. For longer turns there is
    /// [`ClientConnection::prompt_stream`].
    pub const MAX_COLLECTED_UPDATES: usize = 1_000_000;

    /// Sends a prompt and hands out the updates of its turn as they come.
    ///
    /// A third way is [`Connection::request`] with a [`PromptRequest`]: updates then go to
    /// [`Client::session_update`], and the answer comes when that has handled the last of them.
    ///
    /// # Errors
    /// The connection did not take it.
    pub async fn prompt_stream(&self, request: PromptRequest) -> Result<TurnStream, RequestError> {
        let call = Call::new(<PromptRequest as Request>::METHOD.wire(), &request)?;
        let sink = Arc::new(Sink::default());
        let link = self.connection.link();
        link.send(&call, |state| {
            let id = state.end.request(&call, None, Waiter::Stream(sink.clone()))?;
            state.sinks.insert(id, sink.clone());
            Ok::<_, pintle_acp::SendError>(())
        })
        .await?;
        Ok(TurnStream::new(link.clone(), sink, request.session_id.as_str().into()))
    }

    /// Cancels the turn that runs in a session: sends `session/cancel`, and answers the session's open permission requests
    /// "cancelled". The prompt still ends with the agent's answer.
    pub fn cancel(&self, session: &SessionId) {
        super::stream::cancel_turn(self.connection.link(), session.as_str());
    }

    /// Closes the connection and waits until everything has been written and the agent's end of the carrier let go.
    ///
    /// # Errors
    /// The carrier failed.
    pub async fn shut_down(mut self) -> Result<Closed, ServeError> {
        self.connection.close();
        match (&mut self.task).await {
            Ok(Ok(closed)) => Ok(closed),
            Ok(Err(error)) => Err(ServeError::Transport(error)),
            Err(_) => Ok(Closed::Lost),
        }
    }
}

impl Deref for ClientConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}
