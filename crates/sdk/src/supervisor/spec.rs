//! What a child is, before it starts.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::policy::{Limits, Restart};
use super::subtree::ChildKind;
use crate::acp::{Agent, Client, Config, Connection, Run, ServeError, agent_connection, client_connection};
use crate::transport::Transport;

pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How long a worker may take to stop unless its spec says otherwise.
const WORKER_SHUTDOWN: Duration = Duration::from_secs(5);
/// The same for a connection: longer than the steps by which a [`transport::child`](crate::transport::child) is ended.
const CONNECTION_SHUTDOWN: Duration = Duration::from_secs(10);

/// The recipe of a child of a [`Supervisor`](super::Supervisor).
///
/// `Arg` is what its handler is made of, where that is still to be given: [`ChildSpec::handler_arg`].
///
/// ```
/// use pintle_sdk::acp::Agent;
/// use pintle_sdk::supervisor::{ChildSpec, Restart};
/// use pintle_sdk::transport::memory;
///
/// struct Echo { greeting: String }
/// impl Agent for Echo {}
///
/// let (_editor, transport) = memory();
/// let agent = ChildSpec::agent(|greeting| Echo { greeting }, transport)
///     .handler_arg("hello".to_owned())
///     .id("echo")
///     .name("the echo agent");
/// let housekeeping = ChildSpec::worker("housekeeping", Restart::Permanent, |cx| async move {
///     cx.stopping().await;
///     Ok::<_, std::io::Error>(())
/// });
/// # let _ = (agent, housekeeping);
/// ```
pub struct ChildSpec<Arg = ()> {
    pub(super) id: Arc<str>,
    pub(super) name: Option<Arc<str>>,
    pub(super) significant: bool,
    /// `None` for as long as its own children need.
    pub(super) shutdown: Option<Duration>,
    pub(super) start: Start<Arg>,
}

pub(super) enum Start<Arg = ()> {
    Connection(ConnectionFn<Arg>),
    Worker(Restart, WorkerFn),
    Supervisor(Restart, Limits, SpecsFn),
}

pub(super) type ConnectionFn<Arg> = Box<dyn FnOnce(Arg) -> BoxFuture<Result<ConnectionParts, ServeError>> + Send>;
pub(super) type ConnectionParts = (Connection, Run);
pub(super) type WorkerError = Arc<dyn Error + Send + Sync>;
pub(super) type WorkerFn = Arc<dyn Fn(ChildCx) -> BoxFuture<Result<(), WorkerError>> + Send + Sync>;
pub(super) type SpecsFn = Arc<dyn Fn() -> Vec<ChildSpec> + Send + Sync>;

impl<Arg: 'static> ChildSpec<Arg> {
    /// One agent's connection over `transport`: a subtree with its sessions, its handlers and its carrier, all of which end
    /// together. Its id is `agent` unless [`ChildSpec::id`] says otherwise.
    ///
    /// `handler` makes the agent of the argument that [`ChildSpec::handler_arg`] gives: `|()| MyAgent` needs none.
    ///
    /// It is never started again: whatever the peer knew of its sessions is gone with it. To speak to a peer again, add a
    /// new child with a new transport; [`ChildSpec::worker`] shows the form that does so by itself.
    pub fn agent<A: Agent>(handler: impl FnOnce(Arg) -> A + Send + 'static, transport: impl Transport) -> Self {
        Self::agent_with(handler, transport, Config::default())
    }

    /// [`ChildSpec::agent`] with other bounds and times than the default.
    pub fn agent_with<A: Agent>(
        handler: impl FnOnce(Arg) -> A + Send + 'static,
        transport: impl Transport,
        config: Config,
    ) -> Self {
        let start = move |arg: Arg| -> BoxFuture<_> {
            let agent = handler(arg);
            Box::pin(agent_connection(agent, transport, config))
        };
        Self::new("agent", Some(CONNECTION_SHUTDOWN), Start::Connection(Box::new(start)))
    }

    /// One client's connection to the agent behind `transport`, which may be a child process
    /// ([`transport::child`](crate::transport::child)): the process ends with the subtree. Its id is `client` unless
    /// [`ChildSpec::id`] says otherwise. Otherwise as [`ChildSpec::agent`].
    ///
    /// The handshake is the host's: send an `InitializeRequest` on the [`connection`](super::connection()).
    pub fn client<C: Client>(handler: impl FnOnce(Arg) -> C + Send + 'static, transport: impl Transport) -> Self {
        let start = move |arg: Arg| -> BoxFuture<_> {
            let client = handler(arg);
            Box::pin(std::future::ready(client_connection(client, transport, Config::default())))
        };
        Self::new("client", Some(CONNECTION_SHUTDOWN), Start::Connection(Box::new(start)))
    }

    /// Gives the handler what it is made of.
    #[must_use]
    pub fn handler_arg(self, arg: Arg) -> ChildSpec
    where
        Arg: Send,
    {
        let start = match self.start {
            Start::Connection(start) => Start::Connection(Box::new(move |()| start(arg))),
            Start::Worker(restart, work) => Start::Worker(restart, work),
            Start::Supervisor(restart, limits, specs) => Start::Supervisor(restart, limits, specs),
        };
        ChildSpec { id: self.id, name: self.name, significant: self.significant, shutdown: self.shutdown, start }
    }

    /// The id by which its supervisor knows it. Two children of one supervisor have different ones.
    #[must_use]
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = id.into();
        self
    }

    /// A name by which it is found from the outermost supervisor, however deep it is
    /// ([`Supervisor::find`](super::Supervisor::find)). No other child below that may have the same one.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// When this child ends for good, its supervisor stops the others and ends too.
    #[must_use]
    pub fn significant(mut self) -> Self {
        self.significant = true;
        self
    }

    /// How long it may take to stop when it is asked to; then it is dropped. 5 s for a worker, 10 s for a connection; a
    /// supervisor may take as long as its own children may, one after the other.
    #[must_use]
    pub fn shutdown(mut self, limit: Duration) -> Self {
        self.shutdown = Some(limit);
        self
    }

    fn new(id: &str, shutdown: Option<Duration>, start: Start<Arg>) -> Self {
        Self { id: id.into(), name: None, significant: false, shutdown, start }
    }

    pub(super) fn kind(&self) -> ChildKind {
        match self.start {
            Start::Connection(_) => ChildKind::Connection,
            Start::Worker(..) => ChildKind::Worker,
            Start::Supervisor(..) => ChildKind::Supervisor,
        }
    }
}

impl ChildSpec {
    /// A future of the host's, started again as `restart` says. `work` is called for each start.
    ///
    /// It should end soon after [`ChildCx::stopping`] resolves; after its shutdown limit it is dropped at its next await.
    /// What it spawned without keeping is not known here: hold such tasks in a
    /// [`JoinSet`](tokio::task::JoinSet), which ends them when it is dropped.
    ///
    /// This is the form in which a link to an agent may come back: a worker that makes process, transport and connection
    /// anew each time.
    ///
    /// ```no_run
    /// # use pintle_sdk::supervisor::{ChildSpec, Restart};
    /// # struct Editor;
    /// # impl pintle_sdk::acp::Client for Editor {}
    /// # fn launch() -> pintle_sdk::process::Launch { unreachable!() }
    /// let link = ChildSpec::worker("agent link", Restart::Transient, |cx| async move {
    ///     let transport = pintle_sdk::transport::child(launch()).await?;
    ///     let connection = pintle_sdk::acp::connect(Editor, transport)?;
    ///     connection.initialize().await?;
    ///     tokio::select! {
    ///         closed = connection.closed() => return Err(format!("lost the agent: {closed}").into()),
    ///         () = cx.stopping() => {}
    ///     }
    ///     connection.shut_down().await?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// });
    /// ```
    pub fn worker<F, Fut, E>(id: impl Into<Arc<str>>, restart: Restart, work: F) -> Self
    where
        F: Fn(ChildCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let work: WorkerFn = Arc::new(move |cx| {
            let work = work(cx);
            Box::pin(async move { work.await.map_err(|error| WorkerError::from(error.into())) })
        });
        Self::new("", Some(WORKER_SHUTDOWN), Start::Worker(restart, work)).id(id)
    }

    /// A supervisor below this one, with its own limits. `children` is called for each start of it; it is up when they are.
    /// When it gives up, that is an end like an error, to which `restart` applies.
    pub fn supervisor(
        id: impl Into<Arc<str>>,
        restart: Restart,
        limits: Limits,
        children: impl Fn() -> Vec<Self> + Send + Sync + 'static,
    ) -> Self {
        Self::new("", None, Start::Supervisor(restart, limits, Arc::new(children))).id(id)
    }
}

impl<Arg> fmt::Debug for ChildSpec<Arg> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("significant", &self.significant)
            .field("shutdown", &self.shutdown)
            .finish_non_exhaustive()
    }
}

/// What a worker gets.
#[derive(Debug, Clone)]
pub struct ChildCx {
    stop: CancellationToken,
    restarts: u32,
}

impl ChildCx {
    pub(super) fn new(stop: CancellationToken, restarts: u32) -> Self {
        Self { stop, restarts }
    }

    /// Resolves when the worker should end.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// True once [`ChildCx::stopping`] would resolve.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// How often it has been started again before.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.restarts
    }
}
