//! How a client answers `session/request_permission`.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pintle_acp::RawJson;
use pintle_acp::permission::Approve;
use pintle_acp::types::{
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SessionId, SessionNotification,
    SessionUpdate, ToolCallId, ToolKind, decode,
};

use crate::acp::service::BoxFuture;

/// Tool calls whose kind is remembered at a time, over all sessions of a connection.
const MAX_REMEMBERED: usize = 4096;

type Ask = dyn Fn(RequestPermissionRequest) -> BoxFuture<'static, RequestPermissionResponse> + Send + Sync;

/// Who decides what an agent may do.
///
/// A choice is made by the kind of an option (allow or reject, once or always) and by the kind of the tool call, never by
/// position or name. It fails closed: an answer that was not among the options is "cancelled", as is an answer by a policy
/// for which no option fits.
#[derive(Clone)]
pub enum Permissions {
    /// A rule.
    Approve(Approve),
    /// A person, or whatever else the function asks. It may take its time; when the turn is cancelled meanwhile, the agent
    /// is answered "cancelled" and the future is dropped.
    Ask(AskPermission),
}

/// See [`Permissions::ask`].
#[derive(Clone)]
pub struct AskPermission(Arc<Ask>);

impl Permissions {
    /// Asks `decide`, which gets the request as it came, its tool call's kind filled in where an earlier update told it.
    pub fn ask<F, D>(decide: D) -> Self
    where
        D: Fn(RequestPermissionRequest) -> F + Send + Sync + 'static,
        F: Future<Output = RequestPermissionResponse> + Send + 'static,
    {
        Self::Ask(AskPermission(Arc::new(move |request| Box::pin(decide(request)))))
    }

    pub(super) async fn answer(&self, request: RequestPermissionRequest) -> RequestPermissionResponse {
        match self {
            Self::Approve(rule) => rule.answer(&request),
            Self::Ask(AskPermission(ask)) => {
                let offered = request.options.clone();
                let answer = ask(request).await;
                match &answer.outcome {
                    RequestPermissionOutcome::Selected(selected)
                        if offered.iter().any(|option| option.option_id == selected.option_id) =>
                    {
                        answer
                    }
                    RequestPermissionOutcome::Cancelled(_) => answer,
                    _ => RequestPermissionResponse::cancelled(),
                }
            }
        }
    }
}

impl Default for Permissions {
    /// Rejects everything.
    fn default() -> Self {
        Self::Approve(Approve::None)
    }
}

impl From<Approve> for Permissions {
    fn from(rule: Approve) -> Self {
        Self::Approve(rule)
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approve(rule) => f.debug_tuple("Approve").field(rule).finish(),
            Self::Ask(ask) => ask.fmt(f),
        }
    }
}

impl fmt::Debug for AskPermission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskPermission(..)")
    }
}

/// What kinds the tool calls of a connection are of, as its updates told.
///
/// Agents name the kind when they announce a tool call, and many leave it out when they ask for permission. The connection
/// notes it as it reads, so that a policy has it in the order of the wire, whoever takes the updates. See
/// [`Client::tool_kinds`](crate::acp::Client::tool_kinds). Clones are the same notes; the oldest of too many are dropped,
/// and then a kind is unknown again, for which policies say no.
#[derive(Debug, Clone, Default)]
pub struct ToolKinds {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    kinds: HashMap<(SessionId, ToolCallId), ToolKind>,
    order: VecDeque<(SessionId, ToolCallId)>,
}

impl ToolKinds {
    /// No notes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The kind of a tool call, if an update told it.
    #[must_use]
    pub fn get(&self, session: &SessionId, call: &ToolCallId) -> Option<ToolKind> {
        self.lock().kinds.get(&(session.clone(), call.clone())).cloned()
    }

    /// Called by the connection's loop with the params of every `session/update`.
    pub(crate) fn note(&self, params: &RawJson) {
        // Most updates are pieces of text, and are not looked into twice.
        if !params.as_str().contains("\"tool_call") {
            return;
        }
        let Ok(SessionNotification { session_id, update, .. }) = decode(params.as_str()) else { return };
        let (call, kind) = match update {
            SessionUpdate::ToolCall(call) => (call.tool_call_id, call.kind),
            SessionUpdate::ToolCallUpdate(update) => match update.kind {
                Some(kind) => (update.tool_call_id, kind),
                None => return,
            },
            _ => return,
        };
        let key = (session_id, call);
        let mut known = self.lock();
        if known.kinds.insert(key.clone(), kind).is_none() {
            known.order.push_back(key);
            if known.order.len() > MAX_REMEMBERED
                && let Some(oldest) = known.order.pop_front()
            {
                known.kinds.remove(&oldest);
            }
        }
    }

    /// Fills in what the agent left out.
    pub(super) fn fill(&self, request: &mut RequestPermissionRequest) {
        if request.tool_call.kind.is_none() {
            request.tool_call.kind = self.get(&request.session_id, &request.tool_call.tool_call_id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
