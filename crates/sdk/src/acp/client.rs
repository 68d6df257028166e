//! What a client author writes.

use std::future::{Future, ready};
use std::sync::Arc;

use pintle_acp::types::*;
use pintle_acp::{Error, MethodId, NotificationToClient, RawJson, Reply, RequestToClient};

use super::agent::answer;
use super::ctx::{Ctx, Stop};
use super::host::ToolKinds;
use super::lane::{Updates, catch_panic};
use super::service::{BoxFuture, Service, panicked};
use super::turn::Turn;

/// A client: the handlers of everything that an agent may ask of it.
///
/// Override what the client supports, and advertise it in [`Client::capabilities`]: what is not advertised is answered
/// -32601 by the connection. Each request handler runs as its own task and may wait, for a person, say. Updates of one
/// session are handled one after the other, in the order of the wire; while a handler works on one, the connection reads
/// no further than a bounded queue, so a slow client slows the agent down and does not fill its memory.
pub trait Client: Send + Sync + 'static {
    /// What [`connect`](super::connect) advertises: nothing.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// Name and version for the agent: none.
    fn info(&self) -> Option<Implementation> {
        None
    }

    /// Where the connection notes the kinds of tool calls as it reads them, for permission policies; asked for once, by
    /// [`connect`](super::connect). By default nowhere.
    fn tool_kinds(&self) -> Option<ToolKinds> {
        None
    }

    /// `session/update`. Updates of a turn that is taken as a stream go there instead.
    fn session_update(&self, notification: SessionNotification, cx: &Ctx) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        ready(())
    }

    /// The agent has closed a session of this client's, as it was asked to: what belongs to it can go. Sessions that are
    /// open when the connection ends are not told one by one; the client itself is dropped then.
    fn session_ended(&self, session: &SessionId) -> impl Future<Output = ()> + Send {
        let _ = session;
        ready(())
    }

    /// `session/request_permission`. When the turn is cancelled the agent is answered "cancelled" and this is dropped.
    ///
    /// # Errors
    /// What the agent is told; it takes an error for a no.
    fn request_permission(
        &self,
        request: RequestPermissionRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<RequestPermissionResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::RequestPermission)
    }

    /// `fs/read_text_file`; needs `fs.readTextFile`.
    ///
    /// # Errors
    /// What the agent is told.
    fn read_text_file(
        &self,
        request: ReadTextFileRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<ReadTextFileResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::ReadTextFile)
    }

    /// `fs/write_text_file`; needs `fs.writeTextFile`.
    ///
    /// # Errors
    /// What the agent is told.
    fn write_text_file(
        &self,
        request: WriteTextFileRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<WriteTextFileResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::WriteTextFile)
    }

    /// `terminal/create`; needs `terminal`. Answers when the command has started.
    ///
    /// # Errors
    /// What the agent is told.
    fn create_terminal(
        &self,
        request: CreateTerminalRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<CreateTerminalResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::CreateTerminal)
    }

    /// `terminal/output`; needs `terminal`.
    ///
    /// # Errors
    /// What the agent is told.
    fn terminal_output(
        &self,
        request: TerminalOutputRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<TerminalOutputResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::TerminalOutput)
    }

    /// `terminal/wait_for_exit`; needs `terminal`.
    ///
    /// # Errors
    /// What the agent is told.
    fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<WaitForTerminalExitResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::WaitForTerminalExit)
    }

    /// `terminal/kill`; needs `terminal`. The terminal stays.
    ///
    /// # Errors
    /// What the agent is told.
    fn kill_terminal(
        &self,
        request: KillTerminalRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<KillTerminalResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::KillTerminal)
    }

    /// `terminal/release`; needs `terminal`. Kills what still runs.
    ///
    /// # Errors
    /// What the agent is told.
    fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<ReleaseTerminalResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::ReleaseTerminal)
    }

    /// `elicitation/create`; needs `elicitation.form` or `elicitation.url`, as the request's mode is.
    ///
    /// # Errors
    /// What the agent is told.
    fn create_elicitation(
        &self,
        request: CreateElicitationRequest,
        cx: &Ctx,
    ) -> impl Future<Output = Result<CreateElicitationResponse, Error>> + Send {
        let _ = (request, cx);
        not_found(MethodId::CreateElicitation)
    }

    /// `elicitation/complete`.
    fn complete_elicitation(
        &self,
        notification: CompleteElicitationNotification,
        cx: &Ctx,
    ) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        ready(())
    }

    /// `_pintle/session.record`: an entry of a durable session's journal that is no update.
    fn session_record(&self, notification: SessionRecordNotification, cx: &Ctx) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        ready(())
    }

    /// `_pintle/session.caught_up`: the replay of a durable session is over.
    fn session_caught_up(&self, notification: CaughtUpNotification, cx: &Ctx) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        ready(())
    }

    /// `_pintle/session.lagged`: this client was too slow and is no longer attached.
    fn session_lagged(&self, notification: LaggedNotification, cx: &Ctx) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        ready(())
    }

    /// `_pintle/session.closed`: this client is no longer attached.
    fn session_closed(&self, notification: ClosedNotification, cx: &Ctx) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        ready(())
    }

    /// Any other request whose method begins with `_`. The result is sent exactly as it is returned.
    ///
    /// # Errors
    /// What the agent is told; by default -32601.
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

/// The handlers of a client, as the connection calls them.
pub(crate) struct ClientService<C> {
    pub(crate) client: Arc<C>,
    /// What was advertised, for rules that look into a request.
    pub(crate) capabilities: ClientCapabilities,
}

impl<C: Client> Service for ClientService<C> {
    fn request<'a>(&'a self, method: &'a str, params: Option<&'a RawJson>, cx: &'a Ctx) -> BoxFuture<'a, Reply> {
        let client = &*self.client;
        let Some(id) = MethodId::from_wire(method) else {
            return Box::pin(async move { client.ext_request(method, params.cloned(), cx).await.into() });
        };
        let request = match RequestToClient::decode(id, params.map(RawJson::as_raw_value)) {
            Some(Ok(request)) => request,
            Some(Err(error)) => return answer(Reply::error(&error)),
            None => return answer(Reply::error(&Error::method_not_found(method))),
        };
        match request {
            RequestToClient::RequestPermission(r) => {
                Box::pin(async move { client.request_permission(r, cx).await.into() })
            }
            RequestToClient::ReadTextFile(r) => Box::pin(async move { client.read_text_file(r, cx).await.into() }),
            RequestToClient::WriteTextFile(r) => Box::pin(async move { client.write_text_file(r, cx).await.into() }),
            RequestToClient::CreateTerminal(r) => Box::pin(async move { client.create_terminal(r, cx).await.into() }),
            RequestToClient::TerminalOutput(r) => Box::pin(async move { client.terminal_output(r, cx).await.into() }),
            RequestToClient::WaitForTerminalExit(r) => {
                Box::pin(async move { client.wait_for_terminal_exit(r, cx).await.into() })
            }
            RequestToClient::KillTerminal(r) => Box::pin(async move { client.kill_terminal(r, cx).await.into() }),
            RequestToClient::ReleaseTerminal(r) => Box::pin(async move { client.release_terminal(r, cx).await.into() }),
            RequestToClient::CreateElicitation(r) => match r.require_advertised(self.capabilities.elicitation.as_ref())
            {
                Ok(()) => Box::pin(async move { client.create_elicitation(r, cx).await.into() }),
                Err(fault) => answer(Reply::error(&Error::invalid_params(&fault))),
            },
            _ => answer(Reply::error(&Error::method_not_found(method))),
        }
    }

    /// Prompts go to agents.
    fn prompt<'a>(&'a self, _: &'a RawJson, _: &'a Turn) -> BoxFuture<'a, Reply> {
        answer(Reply::error(&Error::method_not_found(MethodId::Prompt.wire())))
    }

    fn updates<'a>(&'a self, mut updates: Updates<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let link = updates.link;
            let mut context: Option<Ctx> = None;
            while let Some((session, params, rx)) = updates.next() {
                let Ok(notification) = decode_update(params.as_str(), &session) else {
                    link.lock().end.count_dropped_notification();
                    continue;
                };
                let cx = context
                    .get_or_insert_with(|| Ctx::without_reply(link.clone(), None, Some(session), rx, Stop::Connection));
                cx.move_to(rx);
                if catch_panic(self.client.session_update(notification, cx)).await.is_err() {
                    panicked(link, MethodId::SessionUpdate.wire());
                }
                // A long queue of updates must not keep others on this thread waiting.
                tokio::task::coop::consume_budget().await;
            }
        })
    }

    fn tool_kinds(&self) -> Option<ToolKinds> {
        self.client.tool_kinds()
    }

    fn session_ended<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        Box::pin(self.client.session_ended(session))
    }

    fn notification<'a>(&'a self, method: &'a str, params: Option<&'a RawJson>, cx: &'a Ctx) -> BoxFuture<'a, bool> {
        let client = &*self.client;
        Box::pin(async move {
            let Some(id) = MethodId::from_wire(method) else {
                client.ext_notification(method, params.cloned(), cx).await;
                return true;
            };
            match NotificationToClient::decode(id, params.map(RawJson::as_raw_value)) {
                Some(Ok(NotificationToClient::SessionUpdate(n))) => client.session_update(n, cx).await,
                Some(Ok(NotificationToClient::CompleteElicitation(n))) => client.complete_elicitation(n, cx).await,
                Some(Ok(NotificationToClient::SessionRecord(n))) => client.session_record(n, cx).await,
                Some(Ok(NotificationToClient::SessionCaughtUp(n))) => client.session_caught_up(n, cx).await,
                Some(Ok(NotificationToClient::SessionLagged(n))) => client.session_lagged(n, cx).await,
                Some(Ok(NotificationToClient::SessionClosed(n))) => client.session_closed(n, cx).await,
                Some(Ok(_) | Err(_)) | None => return false,
            }
            true
        })
    }
}
