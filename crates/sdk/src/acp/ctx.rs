//! What a handler gets beside its params.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use pintle_acp::types::{SessionId, SessionNotification, SessionUpdate};
use pintle_acp::{Call, Error, Reply, ReplyToken, RequestKey, RxSeq, UpdateError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::link::Link;

/// The context of one call of a handler (R-077, IC-2).
///
/// It dereferences to the [`Connection`], so a handler can send requests and notifications to the peer that called it; it
/// may wait for their answers, since nothing waits for the handler.
pub struct Ctx {
    connection: Connection,
    token: Mutex<Option<ReplyToken>>,
    key: Option<RequestKey>,
    session: Option<Arc<str>>,
    rx: RxSeq,
    stop: Stop,
}

/// What tells a handler to wind down.
pub(crate) enum Stop {
    /// The end of the connection.
    Connection,
    /// That, or the end of the request or turn itself. The token of a request knows of nothing else.
    Own(CancellationToken),
}

impl From<CancellationToken> for Stop {
    fn from(token: CancellationToken) -> Self {
        Self::Own(token)
    }
}

impl Ctx {
    pub(crate) fn for_request(
        link: Arc<Link>,
        token: ReplyToken,
        session: Option<Arc<str>>,
        rx: RxSeq,
        stop: CancellationToken,
    ) -> Self {
        let key = Some(token.key());
        let stop = Stop::Own(stop);
        Self { connection: Connection::new(link), token: Mutex::new(Some(token)), key, session, rx, stop }
    }

    pub(crate) fn without_reply(
        link: Arc<Link>,
        key: Option<RequestKey>,
        session: Option<Arc<str>>,
        rx: RxSeq,
        stop: impl Into<Stop>,
    ) -> Self {
        let stop = stop.into();
        Self { connection: Connection::new(link), token: Mutex::new(None), key, session, rx, stop }
    }

    /// The same context for the next of several updates of one session.
    pub(crate) fn move_to(&mut self, rx: RxSeq) {
        self.rx = rx;
    }

    /// The connection. A clone of it may outlive the call.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The session that the request names, if it names one.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Position of the frame among all frames that the connection received, from 1.
    pub fn rx_seq(&self) -> RxSeq {
        self.rx
    }

    /// Resolves when the peer gives the request up, its turn is cancelled, or the connection ends.
    ///
    /// The handler of a request other than a prompt is dropped at that moment, at its next await, and its request answered
    /// -32800; so only a prompt, and what a handler spawned, ever sees it resolve.
    pub async fn cancelled(&self) {
        let link = self.connection.link();
        match &self.stop {
            Stop::Connection => link.stop.cancelled().await,
            Stop::Own(token) => tokio::select! {
                () = token.cancelled() => {}
                () = link.stop.cancelled() => {}
            },
        }
    }

    /// True once [`Ctx::cancelled`] would resolve.
    pub fn is_cancelled(&self) -> bool {
        let own = matches!(&self.stop, Stop::Own(token) if token.is_cancelled());
        own || self.connection.link().stop.is_cancelled()
    }

    /// Sends an update of a session outside a turn: available commands, a changed mode, the replay of `session/load`.
    ///
    /// From the handler of `session/new` the new id may be named: the update waits for the answer that tells the client
    /// of it. Waits while the client does not read.
    ///
    /// # Errors
    /// No such session is open, or the connection is closed.
    pub async fn update_session(
        &self,
        session: impl Into<SessionId>,
        update: impl Into<SessionUpdate>,
    ) -> Result<(), UpdateError> {
        let session = session.into();
        let params = SessionNotification::new(session.clone(), update.into());
        let call = encode_update(&params)?;
        let via = self.key;
        let link = self.connection.link();
        link.send(&call, |state| state.end.agent()?.session_update(via, session.as_str(), &call)).await
    }

    /// Takes the obligation to answer out of the handler, to be discharged anywhere, any time later. What the handler
    /// returns after that is ignored; [`Ctx::deferred`] is a value for it.
    ///
    /// `None` if there is nothing to take: in a prompt, in a notification, or for the second time.
    pub fn delegate_reply<R: Serialize>(&self) -> Option<DelegatedReply<R>> {
        let token = self.take_token()?;
        Some(DelegatedReply {
            token: Some(token),
            link: self.connection.link().clone(),
            stop: match &self.stop {
                Stop::Own(token) => token.clone(),
                Stop::Connection => self.connection.link().stop.clone(),
            },
            result: PhantomData,
        })
    }

    /// What a handler returns after [`Ctx::delegate_reply`]. Without that, it is an internal error.
    ///
    /// # Errors
    /// Always.
    pub fn deferred<R>(&self) -> Result<R, Error> {
        Err(Error::internal_error())
    }

    pub(crate) fn take_token(&self) -> Option<ReplyToken> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Deref for Ctx {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("session", &self.session).field("rx", &self.rx).finish_non_exhaustive()
    }
}

impl Drop for Ctx {
    fn drop(&mut self) {
        if let Some(token) = self.take_token() {
            self.connection.link().forget_reply(token);
        }
    }
}

/// An answer that was taken out of its handler. It moves with this value; dropping it answers -32603, or -32800 if the peer
/// had given the request up.
#[must_use = "dropping a delegated reply answers the request with an internal error"]
pub struct DelegatedReply<R> {
    token: Option<ReplyToken>,
    link: Arc<Link>,
    stop: CancellationToken,
    result: PhantomData<fn(R)>,
}

impl<R: Serialize> DelegatedReply<R> {
    /// Answers the request.
    pub fn send(mut self, result: Result<R, Error>) {
        if let Some(token) = self.token.take() {
            self.link.reply(token, &Reply::from(result));
        }
    }

    /// Resolves when the peer gives the request up or the connection ends. The answer is still owed: a result, or
    /// -32800.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        let (own, all) = (self.stop.clone(), self.link.stop.clone());
        async move {
            tokio::select! {
                () = own.cancelled() => {}
                () = all.cancelled() => {}
            }
        }
    }
}

impl<R> Drop for DelegatedReply<R> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.link.forget_reply(token);
        }
    }
}

impl<R> fmt::Debug for DelegatedReply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegatedReply").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Our own types can be written as JSON; a text with a lone surrogate, the one exception, cannot exist in Rust.
pub(crate) fn encode_update(params: &SessionNotification) -> Result<Call, UpdateError> {
    Call::update(params).map_err(|_| UpdateError::Send(pintle_acp::SendError::Closed))
}
