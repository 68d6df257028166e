//! A turn, as the agent's prompt handler sees it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_acp::permission::{Decision, NoDecision};
use pintle_acp::types::{
    Capabilities, ContentBlock, PermissionOption, Plan, PlanEntry, RequestPermissionRequest, SessionId,
    SessionNotification, SessionUpdate, ToolCall, ToolCallUpdate, UsageUpdate,
};
use pintle_acp::{Call, Error, Outcome, RequestKey, RxSeq, SendError, TurnKey, TurnOver, UpdateError, timeouts};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::ctx::{Ctx, encode_update};
use super::lane::catch_panic;
use super::link::{Link, Waiter, now};

/// How tasks of a turn learn that it is cancelled, and how they are stopped.
#[derive(Debug)]
pub(crate) struct TurnControl {
    /// Cooperative: whoever listens winds down.
    pub(crate) cancel: CancellationToken,
    /// Not: tasks are dropped at their next await.
    pub(crate) kill: CancellationToken,
    tasks: AtomicUsize,
}

impl TurnControl {
    /// Registers a turn whose root task is about to start.
    pub(crate) fn start(link: &Link, turn: TurnKey) -> Arc<Self> {
        let kill = link.stop.child_token();
        let control = Arc::new(Self { cancel: kill.child_token(), kill, tasks: AtomicUsize::new(1) });
        link.turns().insert(turn, control.clone());
        control
    }

    /// A task of the turn is gone; after the last one nobody listens any more.
    pub(crate) fn task_ended(&self, link: &Link, turn: TurnKey) {
        if self.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            link.turns().remove(&turn);
        }
    }
}

/// One turn of a session: the prompt handler's way to the client. Clones are the same turn.
///
/// Updates leave in the order in which they are handed over, all of them before the answer to the prompt; after that answer
/// they fail with [`TurnOver`]. A cancel, by `session/cancel` or `$/cancel_request`, makes [`Ctx::cancelled`] resolve in
/// every task of the turn; the prompt is answered `cancelled` once they are gone, whatever they return, and after a backstop
/// of 30 seconds in any case.
///
/// Dereferences to [`Ctx`].
#[derive(Clone)]
pub struct Turn {
    inner: Arc<Inner>,
}

struct Inner {
    cx: Ctx,
    link: Arc<Link>,
    turn: TurnKey,
    session: SessionId,
    control: Arc<TurnControl>,
}

impl Turn {
    pub(crate) fn new(
        link: Arc<Link>,
        turn: TurnKey,
        key: RequestKey,
        session: Arc<str>,
        rx: RxSeq,
        control: Arc<TurnControl>,
    ) -> Self {
        let stop = control.cancel.clone();
        let cx = Ctx::without_reply(link.clone(), Some(key), Some(session.clone()), rx, stop);
        let session = SessionId::from(&*session);
        Self { inner: Arc::new(Inner { cx, link, turn, session, control }) }
    }

    pub(crate) fn control(&self) -> &TurnControl {
        &self.inner.control
    }

    pub(crate) fn key(&self) -> TurnKey {
        self.inner.turn
    }

    /// The session.
    pub fn session_id(&self) -> &SessionId {
        &self.inner.session
    }

    /// Position of the turn among the turns of its session, from 1.
    pub fn ordinal(&self) -> u64 {
        self.inner.turn.ordinal()
    }

    /// Sends an update. Waits while the client does not read: an agent is never further ahead than a bounded queue.
    ///
    /// Cancel safe: dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    /// The turn is over, or the connection closed. An empty chunk of text is refused.
    pub async fn update(&self, update: impl Into<SessionUpdate>) -> Result<(), UpdateError> {
        let call = self.encode(update.into())?;
        self.send(&call).await
    }

    /// Sends an update, or fails with [`Full`](pintle_acp::SendError::Full) where [`Turn::update`] would wait.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub fn try_update(&self, update: impl Into<SessionUpdate>) -> Result<(), UpdateError> {
        let call = self.encode(update.into())?;
        self.inner.link.try_send(&call, |state| state.end.agent()?.turn_update(self.inner.turn, &call))
    }

    /// Sends a piece of the agent's message.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn agent_text(&self, text: impl Into<String>) -> Result<(), UpdateError> {
        let call = self.text(false, &text.into())?;
        self.send(&call).await
    }

    /// Sends a piece of the agent's reasoning.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn agent_thought(&self, text: impl Into<String>) -> Result<(), UpdateError> {
        let call = self.text(true, &text.into())?;
        self.send(&call).await
    }

    /// Sends the plan, as a whole.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn plan(&self, entries: impl IntoIterator<Item = PlanEntry>) -> Result<(), UpdateError> {
        self.update(SessionUpdate::Plan(Plan::new(entries.into_iter().collect::<Vec<_>>()))).await
    }

    /// Announces a tool call.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn tool_call(&self, call: ToolCall) -> Result<(), UpdateError> {
        self.update(SessionUpdate::ToolCall(Box::new(call))).await
    }

    /// Changes a tool call.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn tool_call_update(&self, update: ToolCallUpdate) -> Result<(), UpdateError> {
        self.update(SessionUpdate::ToolCallUpdate(Box::new(update))).await
    }

    /// Tells how much of the context window is used.
    ///
    /// # Errors
    /// As [`Turn::update`].
    pub async fn usage(&self, used: u64, size: u64) -> Result<(), UpdateError> {
        self.update(SessionUpdate::UsageUpdate(UsageUpdate::new(used, size))).await
    }

    /// Asks the user, through the client, and waits for the answer: at most ten minutes.
    ///
    /// Fails closed: a yes is only an answer that selects an option which was offered and whose kind allows.
    /// Everything else, from a timeout to a cancelled turn, is [`Decision::Cancelled`] or [`Decision::Rejected`]. Several
    /// questions may be open at once.
    ///
    /// # Errors
    /// Two of the options have the same id, so that an answer would say nothing.
    pub async fn ask_permission(
        &self,
        tool_call: impl Into<ToolCallUpdate>,
        options: impl IntoIterator<Item = PermissionOption>,
    ) -> Result<Decision, Error> {
        let options: Vec<_> = options.into_iter().collect();
        let request = RequestPermissionRequest::new(self.session_id().clone(), tool_call.into(), options);
        request.validate().map_err(|_| Error::internal_error())?;
        let Ok(call) = Call::new("session/request_permission", &request) else {
            return Ok(Decision::Cancelled(NoDecision::NotAsked));
        };
        let (sender, outcome) = oneshot::channel();
        let link = &self.inner.link;
        let asked = link
            .send(&call, |state| {
                let deadline = Some(now() + timeouts::PERMISSION);
                let agent = state.end.agent()?;
                agent.ask(self.inner.turn, &call, deadline, Waiter::Call(sender)).map_err(|(error, _)| error)
            })
            .await;
        let Ok(id) = asked else { return Ok(Decision::Cancelled(NoDecision::NotAsked)) };
        let ask = Ask { link, id: Some(id) };
        // What cannot be taken is no yes.
        let outcome = outcome.await.ok().and_then(|parcel| parcel.open().ok()).unwrap_or(Outcome::Closed);
        ask.done();
        Ok(Decision::judge(&request.options, &outcome))
    }

    /// Runs `task` as a part of the turn: the answer to the prompt waits for it, and a cancel reaches it. A panic in it
    /// does not fail the turn.
    ///
    /// # Errors
    /// The turn is over or is winding down.
    pub fn spawn<F>(&self, task: F) -> Result<(), TurnOver>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let joined = self.inner.link.command(|state| match state.end.agent() {
            Ok(agent) => agent.join_turn(self.inner.turn),
            Err(_) => Err(TurnOver),
        });
        joined?;
        self.inner.control.tasks.fetch_add(1, Ordering::AcqRel);
        let member =
            Member { link: self.inner.link.clone(), turn: self.inner.turn, control: self.inner.control.clone() };
        self.inner.link.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = member.control.kill.cancelled() => {}
                end = catch_panic(task) => {
                    if end.is_err() {
                        member.link.lock().end.count_handler_panic();
                    }
                }
            }
        });
        Ok(())
    }

    /// Some updates are only for clients that advertised that they understand them.
    fn is_understood(&self, update: &SessionUpdate) -> bool {
        self.inner.link.command(|state| match state.end.agent().map(|agent| agent.peer_capabilities()) {
            Ok(Some(Capabilities::Client(capabilities))) => update.is_understood_by(capabilities),
            _ => false,
        })
    }

    async fn send(&self, call: &Call) -> Result<(), UpdateError> {
        self.inner.link.send(call, |state| state.end.agent()?.turn_update(self.inner.turn, call)).await
    }

    fn text(&self, thought: bool, text: &str) -> Result<Call, UpdateError> {
        if text.is_empty() {
            return Err(self.empty_chunk());
        }
        Ok(Call::text(&self.inner.session, thought, text))
    }

    fn empty_chunk(&self) -> UpdateError {
        let counted = self.inner.link.command(|state| state.end.agent().map(|agent| agent.count_empty_chunk()));
        counted.err().unwrap_or(UpdateError::EmptyChunk)
    }

    fn encode(&self, update: SessionUpdate) -> Result<Call, UpdateError> {
        if is_empty_text(&update) {
            return Err(self.empty_chunk());
        }
        if update.required_capability().is_some() && !self.is_understood(&update) {
            return Err(SendError::NotAdvertised.into());
        }
        encode_update(&SessionNotification::new(self.session_id().clone(), update))
    }
}

impl Deref for Turn {
    type Target = Ctx;

    fn deref(&self) -> &Ctx {
        &self.inner.cx
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("session", &self.inner.session)
            .field("turn", &self.inner.turn)
            .finish_non_exhaustive()
    }
}

/// A task that had joined a turn; however it ends, the turn learns of it.
struct Member {
    link: Arc<Link>,
    turn: TurnKey,
    control: Arc<TurnControl>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.control.task_ended(&self.link, self.turn);
        self.link.command(|state| {
            if let Ok(agent) = state.end.agent() {
                agent.leave_turn(now(), self.turn);
            }
        });
    }
}

/// An open permission ask; given up when its asker goes away.
struct Ask<'a> {
    link: &'a Link,
    id: Option<pintle_acp::OutId>,
}

impl Ask<'_> {
    fn done(mut self) {
        self.id = None;
    }
}

impl Drop for Ask<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.command(|state| state.end.cancel_request(id));
        }
    }
}

/// a chunk without text tells the client nothing and confuses some.
fn is_empty_text(update: &SessionUpdate) -> bool {
    match update {
        SessionUpdate::AgentMessageChunk(chunk) | SessionUpdate::AgentThoughtChunk(chunk) => {
            matches!(&chunk.content, ContentBlock::Text(text) if text.text.is_empty())
        }
        _ => false,
    }
}
