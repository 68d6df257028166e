//! From an event of the connection to a call of a handler, and back to an answer.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use pintle_acp::types::SessionId;
use pintle_acp::{Error, PeerNotification, PeerRequest, RawJson, Reply, TurnToken};
use tokio_util::sync::CancellationToken;

use super::ctx::{Ctx, Stop};
use super::host::ToolKinds;
use super::lane::{Panicked, Updates, catch_panic};
use super::link::{Link, now};
use super::turn::Turn;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The handlers of one side, behind one type: an agent's or a client's.
pub(crate) trait Service: Send + Sync + 'static {
    /// Decodes a request, calls its handler, encodes the answer.
    fn request<'a>(&'a self, method: &'a str, params: Option<&'a RawJson>, cx: &'a Ctx) -> BoxFuture<'a, Reply>;

    /// The same for a prompt.
    fn prompt<'a>(&'a self, params: &'a RawJson, turn: &'a Turn) -> BoxFuture<'a, Reply>;

    /// Decodes updates of a session and calls their handler, one after the other. An agent gets none.
    fn updates<'a>(&'a self, updates: Updates<'a>) -> BoxFuture<'a, ()>;

    /// Decodes a notification and calls its handler; false if nobody took it.
    fn notification<'a>(&'a self, method: &'a str, params: Option<&'a RawJson>, cx: &'a Ctx) -> BoxFuture<'a, bool>;

    /// Where a client wants the kinds of tool calls noted.
    fn tool_kinds(&self) -> Option<ToolKinds> {
        None
    }

    /// A session of a client is closed.
    fn session_ended<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        Box::pin(std::future::ready(()))
    }
}

pub(crate) async fn request(
    link: Arc<Link>,
    service: Arc<dyn Service>,
    request: PeerRequest,
    session: Option<Arc<str>>,
    stop: CancellationToken,
) {
    let PeerRequest { token, method, params, rx } = request;
    let cx = Ctx::for_request(link.clone(), token, session, rx, stop);
    let handled = until_cancelled(&cx, service.request(&method, params.as_ref(), &cx)).await;
    // A handler that took the token out will answer, or has.
    let Some(token) = cx.take_token() else { return };
    let reply = match handled {
        Some(Ok(reply)) => reply,
        Some(Err(Panicked)) => {
            panicked(&link, &method);
            Reply::error(&Error::internal_error())
        }
        None => Reply::error(&Error::request_cancelled()),
    };
    link.reply(token, &reply);
}

/// Runs a handler until it is done or its request is over. Most handlers have nothing to wait for: those are done at the first
/// look, and nobody needs to tell them of an end.
async fn until_cancelled<T>(cx: &Ctx, handler: impl Future<Output = T>) -> Option<Result<T, Panicked>> {
    let mut handler = pin!(catch_panic(handler));
    let mut cancelled = pin!(cx.cancelled());
    let mut waits = false;
    std::future::poll_fn(|task| {
        let is_over = if waits { cancelled.as_mut().poll(task).is_ready() } else { cx.is_cancelled() };
        if is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(handled) = handler.as_mut().poll(task) {
            return Poll::Ready(Some(handled));
        }
        if !std::mem::replace(&mut waits, true) && cancelled.as_mut().poll(task).is_ready() {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await
}

pub(crate) async fn prompt(link: Arc<Link>, service: Arc<dyn Service>, token: TurnToken, params: RawJson, turn: Turn) {
    let handled = tokio::select! {
        biased;
        () = turn.control().kill.cancelled() => None,
        handled = catch_panic(service.prompt(&params, &turn)) => Some(handled),
    };
    let reply = match handled {
        Some(Ok(reply)) => reply,
        Some(Err(Panicked)) => {
            panicked(&link, "session/prompt");
            Reply::error(&Error::internal_error())
        }
        None => Reply::error(&Error::request_cancelled()),
    };
    let key = turn.key();
    link.command(|state| {
        if let Ok(agent) = state.end.agent() {
            agent.end_turn(now(), token, reply);
        }
    });
    turn.control().task_ended(&link, key);
}

pub(crate) async fn notification(link: &Arc<Link>, service: &dyn Service, notification: PeerNotification) {
    let PeerNotification { method, params, rx } = notification;
    let cx = Ctx::without_reply(link.clone(), None, None, rx, Stop::Connection);
    match catch_panic(service.notification(&method, params.as_ref(), &cx)).await {
        Ok(true) => {}
        Ok(false) => link.lock().end.count_dropped_notification(),
        Err(Panicked) => panicked(link, &method),
    }
}

pub(crate) async fn session_ended(link: &Link, service: &dyn Service, session: &str) {
    if catch_panic(service.session_ended(&SessionId::from(session))).await.is_err() {
        panicked(link, "session_ended");
    }
}

/// The panic hook has said what there is to say; here it is counted, and a log gets the place in the protocol.
pub(crate) fn panicked(link: &Link, method: &str) {
    link.lock().end.count_handler_panic();
    tracing::error!(method, "handler panicked");
}
