//! The handle of a connection.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pintle_acp::types::{Fault, Raw, Shape, decode};
use pintle_acp::{
    Call, Closed, Counters, EncodeError, Error, MethodId, Notification, OutId, Outcome, RawJson, Request, SendError,
    timeouts,
};
use serde::Serialize;
use tokio::sync::oneshot;

use super::link::{Link, NoRoom, Parcel, Waiter, now};
use crate::transport::TransportKind;

/// A request was not answered with a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The connection did not take it; nothing was sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// It could not be written as JSON; nothing was sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The peer answered with an error.
    #[error("the peer answered: {0}")]
    Peer(Error),
    /// The peer's result is not what the method returns.
    #[error("the peer's result is malformed: {0}")]
    Result(Fault),
    /// The agent answered the handshake with a version of the protocol that this crate does not speak.
    #[error("the agent speaks version {offered} of the protocol")]
    Version {
        /// The version that it offered.
        offered: u16,
    },
    /// No answer came in time, or the request could not even leave. The peer has been told that nobody waits any more.
    #[error("no answer within the time allowed")]
    TimedOut,
    /// The turn in which it was asked was cancelled.
    #[error("the turn was cancelled")]
    TurnCancelled,
    /// The connection closed before the answer came.
    #[error("connection closed")]
    Closed,
    /// The answer came and was dropped: too many bytes of answers wait to be taken
    /// ([`Config::max_untaken_answer_bytes`](super::Config::max_untaken_answer_bytes)). The peer has done what it was
    /// asked for.
    #[error("more than {limit_bytes} bytes of answers wait to be taken")]
    NoRoom {
        /// The bound that was reached.
        limit_bytes: usize,
    },
}

impl From<RequestError> for Error {
    /// For handlers that pass on what went wrong: the peer learns nothing but that something did.
    fn from(_: RequestError) -> Self {
        Self::internal_error()
    }
}

/// A connection, as its users see it. Cheap to clone; all clones are the same connection.
///
/// Requests and notifications leave in the order in which they were handed over. A sender waits while the peer does not
/// read; the `try_` forms fail with [`SendError::Full`] instead.
#[derive(Clone)]
pub struct Connection {
    link: Arc<Link>,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Sends a request and waits for its answer, at most for the time that is usual for the method
    /// ([`timeouts`](super::timeouts)): a minute for `initialize` and for what only changes or lists something, five
    /// to open a session, ten where a person has to act (`authenticate`, a permission), half an hour for the exit of a
    /// terminal, half a minute for the other callbacks of an agent. A prompt and an elicitation take as long as they take,
    /// as extension methods do. [`Connection::request_within`] names another time.
    ///
    /// Dropping the future gives the request up: the peer is told (`$/cancel_request`), as it is after a timeout.
    ///
    /// # Errors
    /// There is no result, or not one that can be read.
    pub async fn request<R: Request + Serialize>(&self, params: R) -> Result<R::Response, RequestError> {
        self.async_request(&params).await?.await
    }

    /// Like [`Connection::request`], with a limit of its own.
    ///
    /// # Errors
    /// There is no result, or not one that can be read.
    pub async fn request_within<R: Request + Serialize>(
        &self,
        params: R,
        limit: Option<Duration>,
    ) -> Result<R::Response, RequestError> {
        let call = Call::new(R::METHOD.wire(), &params)?;
        self.submit(&call, limit).await?.await
    }

    /// Sends a request; the answer comes from the value that is returned, when it is awaited.
    ///
    /// # Errors
    /// The connection did not take it.
    pub async fn async_request<R: Request + Serialize>(
        &self,
        params: &R,
    ) -> Result<PendingReply<R::Response>, RequestError> {
        let call = Call::new(R::METHOD.wire(), params)?;
        self.submit(&call, usual_limit(R::METHOD)).await
    }

    /// Sends a request of any method and waits for its result, whatever that is. Methods that are not in the protocol
    /// begin with `_`.
    ///
    /// # Errors
    /// There is no result.
    pub async fn ext_request<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<RawJson, RequestError> {
        let call = Call::new(method.to_owned(), params)?;
        self.submit::<Raw>(&call, None).await?.raw().await
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// The connection did not take it.
    pub async fn notify<N: Notification + Serialize>(&self, params: N) -> Result<(), RequestError> {
        let call = Call::new(N::METHOD.wire(), &params)?;
        Ok(self.link.send(&call, |state| state.end.notify(&call)).await?)
    }

    /// Sends a notification, or fails at once when the peer does not read.
    ///
    /// # Errors
    /// The connection did not take it.
    pub fn try_notify<N: Notification + Serialize>(&self, params: N) -> Result<(), RequestError> {
        let call = Call::new(N::METHOD.wire(), &params)?;
        Ok(self.link.try_send(&call, |state| state.end.notify(&call))?)
    }

    /// Sends a notification of any method. Those that are not in the protocol begin with `_`.
    ///
    /// # Errors
    /// The connection did not take it.
    pub async fn ext_notify<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<(), RequestError> {
        let call = Call::new(method.to_owned(), params)?;
        Ok(self.link.send(&call, |state| state.end.notify(&call)).await?)
    }

    /// True if the peer advertised what `method` needs, or it needs nothing. False before the handshake for all that need
    /// something.
    pub fn peer_offers(&self, method: &str) -> bool {
        self.link.lock().end.peer_offers(method)
    }

    /// True from the end of the handshake to the end of the connection.
    pub fn is_initialized(&self) -> bool {
        self.link.lock().end.is_initialized()
    }

    /// What carries the connection. This program's own knowledge: no peer can claim another.
    pub fn transport_kind(&self) -> TransportKind {
        self.link.kind()
    }

    /// What happened so far, as numbers.
    pub fn counters(&self) -> Counters {
        self.link.lock().end.counters()
    }

    /// Waits until everything that was handed over has been written, or the connection is closed.
    pub async fn flush(&self) {
        loop {
            let flushed = self.link.flushed.notified();
            if self.link.lock().end.is_idle() || self.link.closed_now().is_some() {
                return;
            }
            flushed.await;
        }
    }

    /// Begins to close the connection: what waits to be written still is. [`Connection::closed`] tells the end.
    pub fn close(&self) {
        self.link.close();
    }

    /// Waits for the end of the connection.
    pub async fn closed(&self) -> Closed {
        self.link.closed().await
    }

    /// Why the connection ended, if it has.
    pub fn close_reason(&self) -> Option<Closed> {
        self.link.closed_now()
    }

    /// Waits until no task of a connection that is over goes on.
    pub(crate) async fn tasks_ended(&self) {
        self.link.tasks.wait().await;
    }

    pub(crate) async fn submit<T: Shape>(
        &self,
        call: &Call,
        limit: Option<Duration>,
    ) -> Result<PendingReply<T>, RequestError> {
        let (sender, outcome) = oneshot::channel();
        let deadline = limit.map(|limit| now() + limit);
        let sent = self.link.send(call, |state| state.end.request(call, deadline, Waiter::Call(sender)));
        let id = match deadline {
            // The time allowed counts from here, also while a peer that does not read keeps the request from leaving.
            Some(deadline) => {
                tokio::time::timeout_at(deadline.into(), sent).await.map_err(|_| RequestError::TimedOut)??
            }
            None => sent.await?,
        };
        Ok(PendingReply::new(self.link.clone(), id, outcome, is_waited_for(call.method())))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("transport", &self.link.kind()).finish_non_exhaustive()
    }
}

/// Updates come before the answers to these, so waiting for them is no reason to read past what lanes hold.
fn is_waited_for(method: &str) -> bool {
    !matches!(method, "session/prompt" | "session/load")
}

fn usual_limit(method: MethodId) -> Option<Duration> {
    match method {
        MethodId::Initialize => Some(timeouts::INITIALIZE),
        MethodId::Authenticate => Some(timeouts::AUTHENTICATE),
        MethodId::NewSession | MethodId::LoadSession | MethodId::ResumeSession => Some(timeouts::OPEN_SESSION),
        MethodId::ListSessions
        | MethodId::CloseSession
        | MethodId::DeleteSession
        | MethodId::SetSessionMode
        | MethodId::SetSessionConfigOption
        | MethodId::Logout => Some(timeouts::CONTROL),
        MethodId::RequestPermission => Some(timeouts::PERMISSION),
        MethodId::WaitForTerminalExit => Some(timeouts::TERMINAL_EXIT),
        MethodId::ReadTextFile
        | MethodId::WriteTextFile
        | MethodId::CreateTerminal
        | MethodId::TerminalOutput
        | MethodId::KillTerminal
        | MethodId::ReleaseTerminal => Some(timeouts::CALLBACK),
        _ => None,
    }
}

/// The answer to a request that was sent. Await it; dropping it gives the request up.
#[must_use = "dropping a pending reply cancels the request"]
pub struct PendingReply<T> {
    link: Arc<Link>,
    id: OutId,
    outcome: oneshot::Receiver<Parcel>,
    waited_for: bool,
    done: bool,
    result: std::marker::PhantomData<fn() -> T>,
}

impl<T: Shape> PendingReply<T> {
    fn new(link: Arc<Link>, id: OutId, outcome: oneshot::Receiver<Parcel>, waited_for: bool) -> Self {
        if waited_for {
            link.wait_begins();
        }
        Self { link, id, outcome, waited_for, done: false, result: std::marker::PhantomData }
    }

    /// Its id on the wire.
    pub fn id(&self) -> OutId {
        self.id
    }

    /// Waits for the result without decoding it.
    ///
    /// # Errors
    /// There is no result.
    pub async fn raw(mut self) -> Result<RawJson, RequestError> {
        let parcel = std::future::poll_fn(|cx| self.poll_parcel(cx)).await;
        result(parcel)
    }

    fn poll_parcel(&mut self, cx: &mut Context<'_>) -> Poll<Parcel> {
        let parcel = std::task::ready!(Pin::new(&mut self.outcome).poll(cx));
        self.done = true;
        Poll::Ready(parcel.unwrap_or_else(|_| Parcel::closed()))
    }
}

impl<T: Shape> Future for PendingReply<T> {
    type Output = Result<T, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let parcel = std::task::ready!(self.poll_parcel(cx));
        Poll::Ready(result(parcel).and_then(|result| typed(&result).map_err(RequestError::Result)))
    }
}

impl<T> Drop for PendingReply<T> {
    fn drop(&mut self) {
        if self.waited_for {
            self.link.wait_ends();
        }
        if !self.done {
            let id = self.id;
            self.link.command(|state| state.end.cancel_request(id));
        }
    }
}

impl<T> fmt::Debug for PendingReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReply").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Older peers answer `null` where the protocol has an object without required members.
fn typed<T: Shape>(result: &RawJson) -> Result<T, Fault> {
    let text = result.as_str();
    decode(text).or_else(|fault| if text == "null" { decode("{}").map_err(|_| fault) } else { Err(fault) })
}

pub(crate) fn result(parcel: Parcel) -> Result<RawJson, RequestError> {
    match parcel.open() {
        Ok(Outcome::Result(result)) => Ok(result),
        Ok(Outcome::Error(error)) => Err(RequestError::Peer(error)),
        Ok(Outcome::TimedOut) => Err(RequestError::TimedOut),
        Ok(Outcome::TurnCancelled) => Err(RequestError::TurnCancelled),
        Ok(Outcome::Closed) => Err(RequestError::Closed),
        Err(NoRoom { limit_bytes }) => Err(RequestError::NoRoom { limit_bytes }),
    }
}
