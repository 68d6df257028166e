//! A working editor side out of parts: files, terminals, permissions, elicitation.
//!
//! [`Host`] is a [`Client`] that a builder puts together; what is not switched on is neither advertised nor answered.
//!
//! ```no_run
//! use pintle_sdk::acp::host::{Host, TerminalConfig};
//! use pintle_sdk::acp::permission::Approve;
//! use pintle_sdk::acp::types::{NewSessionRequest, PromptRequest};
//!
//! # async fn example(launch: pintle_sdk::process::Launch) -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder()
//!     .root("/home/me/project")
//!     .read_files()
//!     .write_files()
//!     .terminals(TerminalConfig::new("/home/me/project"))
//!     .permissions(Approve::Reads)
//!     .build()?;
//! let agent = pintle_sdk::acp::connect(host, pintle_sdk::transport::child(launch).await?)?;
//! agent.initialize().await?;
//! let session = agent.request(NewSessionRequest::new("/home/me/project")).await?.session_id;
//! let turn = agent.prompt(PromptRequest::new(session, ["what is this project?".into()])).await?;
//! # let _ = turn;
//! # Ok(())
//! # }
//! ```
//!
//! The parts ([`Files`], [`Terminals`], [`Permissions`], [`Elicit`]) also serve in a [`Client`] of one's own.

mod elicitation;
mod files;
mod output;
mod permission;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod terminals;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;

use pintle_acp::types::*;
use pintle_acp::{Error, MethodId};
use pintle_store::beneath::BeneathError;

pub use self::elicitation::{AskUser, Elicit};
pub use self::files::{FileLimits, Files};
pub use self::permission::{AskPermission, Permissions, ToolKinds};
#[cfg(unix)]
pub use self::terminal::TerminalSnapshot;
#[cfg(unix)]
pub use self::terminals::{TerminalConfig, TerminalView, Terminals};

use self::elicitation::OpenPages;
use super::client::Client;
use super::ctx::Ctx;
use super::service::BoxFuture;

type OnUpdate = dyn Fn(SessionNotification) -> BoxFuture<'static, ()> + Send + Sync;
type OnPageDone = dyn Fn(ElicitationId) + Send + Sync;

/// A client's side, put together with [`Host::builder`].
///
/// Its terminals end with the connection that it is given to.
pub struct Host {
    capabilities: ClientCapabilities,
    info: Option<Implementation>,
    files: Option<Files>,
    #[cfg(unix)]
    terminals: Option<Terminals>,
    permissions: Permissions,
    forms: Elicit,
    pages: Elicit,
    open_pages: OpenPages,
    kinds: ToolKinds,
    on_update: Option<Box<OnUpdate>>,
    on_page_done: Option<Box<OnPageDone>>,
}

/// A [`Host`] could not be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A directory for files cannot be used.
    #[error("failed to use the directory `{}`", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: BeneathError,
    },
    /// Files are switched on, and there is no directory for them.
    #[error("failed to offer files: no directory is named")]
    NoRoot,
}

impl Host {
    /// Nothing is switched on: a client that takes updates, and rejects what it is asked to permit.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// A look at the terminals, for whoever shows them to a person. `None` if they are not switched on.
    #[cfg(unix)]
    #[must_use]
    pub fn terminal_view(&self) -> Option<TerminalView> {
        self.terminals.as_ref().map(Terminals::view)
    }

    fn files(&self, method: MethodId) -> Result<&Files, Error> {
        self.files.as_ref().ok_or_else(|| Error::method_not_found(method.wire()))
    }

    #[cfg(unix)]
    fn terminals(&self, method: MethodId) -> Result<&Terminals, Error> {
        self.terminals.as_ref().ok_or_else(|| Error::method_not_found(method.wire()))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

/// Puts a [`Host`] together.
#[derive(Default)]
pub struct HostBuilder {
    info: Option<Implementation>,
    roots: Vec<PathBuf>,
    rerooted: bool,
    read: bool,
    write: bool,
    file_limits: FileLimits,
    #[cfg(unix)]
    terminals: Option<TerminalConfig>,
    permissions: Permissions,
    forms: Option<Elicit>,
    pages: Option<Elicit>,
    understands: Option<ClientCapabilities>,
    on_update: Option<Box<OnUpdate>>,
    on_page_done: Option<Box<OnPageDone>>,
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl HostBuilder {
    /// Name and version, for the agent.
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = Some(info);
        self
    }

    /// A directory below which files may be read and written, as far as that is switched on. Absolute; may be called
    /// again for more.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.roots.push(root.into());
        self
    }

    /// Takes the first root for the root of every path, so that an agent in a container, say, finds its own paths.
    #[must_use]
    pub fn rerooted(mut self) -> Self {
        self.rerooted = true;
        self
    }

    /// Offers `fs/read_text_file`.
    #[must_use]
    pub fn read_files(mut self) -> Self {
        self.read = true;
        self
    }

    /// Offers `fs/write_text_file`. The agent asks for permission itself, or does not: what is offered may be used.
    #[must_use]
    pub fn write_files(mut self) -> Self {
        self.write = true;
        self
    }

    /// Other bounds for files than the default.
    #[must_use]
    pub fn file_limits(mut self, limits: FileLimits) -> Self {
        self.file_limits = limits;
        self
    }

    /// Offers `terminal/*`: the agent may run any command.
    #[cfg(unix)]
    #[must_use]
    pub fn terminals(mut self, config: TerminalConfig) -> Self {
        self.terminals = Some(config);
        self
    }

    /// Who answers permission requests. By default all are rejected.
    #[must_use]
    pub fn permissions(mut self, permissions: impl Into<Permissions>) -> Self {
        self.permissions = permissions.into();
        self
    }

    /// Offers forms, and says who fills them in.
    #[must_use]
    pub fn forms(mut self, elicit: Elicit) -> Self {
        self.forms = Some(elicit);
        self
    }

    /// Offers pages that the user opens, and says who opens them.
    #[must_use]
    pub fn pages(mut self, elicit: Elicit) -> Self {
        self.pages = Some(elicit);
        self
    }

    /// Advertises what the consumer of updates understands: `session`, `plan`, `subagents` and `auth` of these
    /// capabilities. Their files, terminal and elicitation are not looked at: those follow from what is switched on.
    #[must_use]
    pub fn understands(mut self, capabilities: ClientCapabilities) -> Self {
        self.understands = Some(capabilities);
        self
    }

    /// Where updates go that no [`TurnStream`](crate::acp::TurnStream) takes. The next one of the session waits until the
    /// future is done.
    #[must_use]
    pub fn on_update<F, U>(mut self, take: U) -> Self
    where
        U: Fn(SessionNotification) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.on_update = Some(Box::new(move |update| Box::pin(take(update))));
        self
    }

    /// Told when the agent says that the user is done with a page that was opened.
    #[must_use]
    pub fn on_page_done(mut self, done: impl Fn(ElicitationId) + Send + Sync + 'static) -> Self {
        self.on_page_done = Some(Box::new(done));
        self
    }

    /// The host.
    ///
    /// # Errors
    /// A directory cannot be used, or files are offered without one.
    pub fn build(self) -> Result<Host, HostError> {
        let capabilities = self.capabilities();
        let files = if self.read || self.write {
            if self.roots.is_empty() {
                return Err(HostError::NoRoot);
            }
            let files = Files::below(self.roots, self.rerooted, self.file_limits);
            Some(files.map_err(|(path, source)| HostError::Root { path, source })?)
        } else {
            None
        };
        Ok(Host {
            capabilities,
            info: self.info,
            files,
            #[cfg(unix)]
            terminals: self.terminals.map(Terminals::new),
            permissions: self.permissions,
            forms: self.forms.unwrap_or_default(),
            pages: self.pages.unwrap_or_default(),
            open_pages: OpenPages::default(),
            kinds: ToolKinds::new(),
            on_update: self.on_update,
            on_page_done: self.on_page_done,
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = self.understands.clone().unwrap_or_default();
        capabilities.fs = FileSystemCapabilities::new().read_text_file(self.read).write_text_file(self.write);
        #[cfg(unix)]
        let terminal = self.terminals.is_some();
        #[cfg(not(unix))]
        let terminal = false;
        capabilities.terminal = terminal;
        capabilities.elicitation = (self.forms.is_some() || self.pages.is_some()).then(|| {
            let mut elicitation = ElicitationCapabilities::new();
            elicitation.form = self.forms.as_ref().map(|_| Marker::new());
            elicitation.url = self.pages.as_ref().map(|_| Marker::new());
            elicitation
        });
        capabilities
    }
}

impl Client for Host {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities.clone()
    }

    fn info(&self) -> Option<Implementation> {
        self.info.clone()
    }

    fn tool_kinds(&self) -> Option<ToolKinds> {
        Some(self.kinds.clone())
    }

    async fn session_update(&self, notification: SessionNotification, _: &Ctx) {
        if let Some(take) = &self.on_update {
            take(notification).await;
        }
    }

    async fn session_ended(&self, session: &SessionId) {
        #[cfg(unix)]
        if let Some(terminals) = &self.terminals {
            terminals.end_session(session);
        }
        #[cfg(not(unix))]
        let _ = session;
    }

    async fn request_permission(
        &self,
        mut request: RequestPermissionRequest,
        _: &Ctx,
    ) -> Result<RequestPermissionResponse, Error> {
        self.kinds.fill(&mut request);
        Ok(self.permissions.answer(request).await)
    }

    async fn read_text_file(&self, request: ReadTextFileRequest, _: &Ctx) -> Result<ReadTextFileResponse, Error> {
        self.files(MethodId::ReadTextFile)?.read(request).await
    }

    async fn write_text_file(&self, request: WriteTextFileRequest, _: &Ctx) -> Result<WriteTextFileResponse, Error> {
        self.files(MethodId::WriteTextFile)?.write(request).await
    }

    #[cfg(unix)]
    async fn create_terminal(&self, request: CreateTerminalRequest, _: &Ctx) -> Result<CreateTerminalResponse, Error> {
        self.terminals(MethodId::CreateTerminal)?.create(request).await
    }

    #[cfg(unix)]
    async fn terminal_output(&self, request: TerminalOutputRequest, _: &Ctx) -> Result<TerminalOutputResponse, Error> {
        self.terminals(MethodId::TerminalOutput)?.output(&request)
    }

    #[cfg(unix)]
    async fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
        _: &Ctx,
    ) -> Result<WaitForTerminalExitResponse, Error> {
        self.terminals(MethodId::WaitForTerminalExit)?.wait_for_exit(&request).await
    }

    #[cfg(unix)]
    async fn kill_terminal(&self, request: KillTerminalRequest, _: &Ctx) -> Result<KillTerminalResponse, Error> {
        self.terminals(MethodId::KillTerminal)?.kill(&request).await
    }

    #[cfg(unix)]
    async fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
        _: &Ctx,
    ) -> Result<ReleaseTerminalResponse, Error> {
        self.terminals(MethodId::ReleaseTerminal)?.release(&request).await
    }

    async fn create_elicitation(
        &self,
        request: CreateElicitationRequest,
        _: &Ctx,
    ) -> Result<CreateElicitationResponse, Error> {
        let Some(page) = OpenPages::of(&request) else { return Ok(self.forms.answer(request).await) };
        let answer = self.pages.answer(request).await;
        if matches!(answer.action, ElicitationAction::Accept(_)) {
            self.open_pages.opened(page);
        }
        Ok(answer)
    }

    async fn complete_elicitation(&self, notification: CompleteElicitationNotification, _: &Ctx) {
        if self.open_pages.completed(&notification.elicitation_id)
            && let Some(done) = &self.on_page_done
        {
            done(notification.elicitation_id);
        }
    }
}
