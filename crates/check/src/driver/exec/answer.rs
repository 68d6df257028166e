//! Replies that come in and answers that go out.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::callbacks::{self, Answer};
use super::super::inbound::normal_id;
use super::{Action, Executor, FileAccess, Held, Reply, Sent};
use crate::pack::PermissionPolicy;

/// Requests of the agent that may be held at once; one more is answered with an internal error.
const MAX_HELD: usize = 256;
/// Requests of the agent that are answered in one scenario; a flood beyond it is recorded and not answered.
const MAX_ANSWERED: u32 = 10_000;
/// JSON-RPC: an internal error.
const INTERNAL: i64 = -32603;
/// ACP: the request was cancelled by `$/cancel_request`.
const REQUEST_CANCELLED: i64 = -32800;

/// The method whose answers a scenario may hold.
const REQUEST_PERMISSION: &str = "session/request_permission";
/// The method that opens a terminal.
const TERMINAL_CREATE: &str = "terminal/create";

/// An answer that a scenario gives.
#[derive(Debug, Clone)]
pub(super) enum Given {
    /// This error.
    Error(i64, String),
    /// This result.
    Result(Value),
    /// To a permission request: an option of this kind.
    Choice(PermissionPolicy),
}

impl Given {
    fn to(&self, params: &Value) -> Result<Value, (i64, String)> {
        match self {
            Self::Error(code, message) => Err((*code, message.clone())),
            Self::Result(result) => Ok(result.clone()),
            Self::Choice(choice) => Ok(match callbacks::permission(*choice, params) {
                Answer::Result(result) => result,
                _ => callbacks::cancelled(),
            }),
        }
    }
}

impl Executor {
    /// A response came: it belongs to the oldest open request with its id, or to none. Without an id it is about the last
    /// line that may be answered so, because an agent need not answer those before it.
    pub(super) fn response(&mut self, id: &str, reply: Reply) {
        let open = |sent: &&mut Sent| sent.reply.is_none() && sent.id == id;
        let mut requests = self.requests.iter_mut();
        let Some(sent) = (if id == "null" { requests.rfind(open) } else { requests.find(open) }) else { return };
        if let Some(session) = &sent.session {
            self.cancelling.retain(|cancelling| cancelling != session);
        }
        if sent.method == "session/new"
            && let (Some(name), Some(session)) = (&sent.name, reply.result.as_ref().and_then(|r| r.get("sessionId")))
        {
            self.variables.insert(name.clone(), session.clone());
        }
        sent.reply = Some(reply);
    }

    /// The agent asks something.
    pub(super) fn call(&mut self, now: Duration, held: Held) {
        if self.answered == MAX_ANSWERED {
            return;
        }
        self.answered += 1;
        let standing = self.standing.as_ref().filter(|(method, _)| *method == held.method);
        let answer = if self.is_cancelling(&held) {
            Answer::Result(callbacks::cancelled())
        } else if let Some((_, given)) = standing {
            match given.to(&held.params) {
                Ok(result) => Answer::Result(result),
                Err((code, message)) => Answer::Error { code, message },
            }
        } else {
            callbacks::answer(&self.plan.callbacks, &self.plan.client_capabilities, &held.method, &held.params)
        };
        match answer {
            // Each terminal has a name of its own, or one that was released seems to be used again.
            Answer::Result(mut result) if held.method == TERMINAL_CREATE => {
                self.terminals += 1;
                result["terminalId"] = format!("pintle-terminal-{}", self.terminals).into();
                self.reply(now, &held.id, "result", &result, None);
            }
            Answer::Result(result) => self.reply(now, &held.id, "result", &result, None),
            Answer::Error { code, message } => self.reply_error(now, &held.id, code, &message, None),
            Answer::Hold if self.held.len() < MAX_HELD => self.held.push_back(held),
            Answer::Hold => self.reply_error(now, &held.id, INTERNAL, "too many open requests", None),
            Answer::Ignore => {}
            Answer::Read { path, line, limit } => {
                self.actions.push_back(Action::File { id: held.id, access: FileAccess::Read { path, line, limit } });
            }
            Answer::Write { path, content } => {
                self.actions.push_back(Action::File { id: held.id, access: FileAccess::Write { path, content } });
            }
        }
    }

    /// A client that has cancelled a turn answers its permission requests with `cancelled`, whenever they come.
    fn is_cancelling(&self, held: &Held) -> bool {
        held.method == REQUEST_PERMISSION
            && self.plan.callbacks.permission != PermissionPolicy::Ignore
            && held.params.get("sessionId").is_some_and(|session| self.cancelling.contains(session))
    }

    /// A file access is done; `Err` is the JSON-RPC error to answer with.
    pub(crate) fn file_done(&mut self, now: Duration, id: &str, outcome: Result<Value, (i64, String)>) {
        match outcome {
            Ok(result) => self.reply(now, id, "result", &result, None),
            Err((code, message)) => self.reply_error(now, id, code, &message, None),
        }
    }

    /// The agent withdraws one of its requests; a held one is answered as cancelled.
    pub(super) fn withdrawn(&mut self, now: Duration, params: &Value) {
        let Some(id) = params.get("requestId").map(|id| normal_id(&id.to_string())) else { return };
        let Some(at) = self.held.iter().position(|held| normal_id(&held.id) == id) else { return };
        if let Some(held) = self.held.remove(at) {
            self.reply_error(now, &held.id, REQUEST_CANCELLED, "request cancelled", None);
        }
    }

    /// Answers the held permission requests of a session with `cancelled`.
    pub(super) fn release_permissions(&mut self, now: Duration, session: &Value) {
        let (released, kept) = self.held.drain(..).partition::<Vec<_>, _>(|held| {
            held.method == REQUEST_PERMISSION && held.params.get("sessionId") == Some(session)
        });
        self.held = kept.into();
        for held in released {
            self.reply(now, &held.id, "result", &callbacks::cancelled(), None);
        }
    }

    /// Answers the oldest held request of a method; false when there is none.
    pub(super) fn answer_held(&mut self, now: Duration, method: &str, given: &Given, name: Option<&str>) -> bool {
        let Some(at) = self.held.iter().position(|held| held.method == method) else { return false };
        let Some(held) = self.held.remove(at) else { return false };
        match given.to(&held.params) {
            Ok(result) => self.reply(now, &held.id, "result", &result, name),
            Err((code, message)) => self.reply_error(now, &held.id, code, &message, name),
        }
        true
    }

    fn reply_error(&mut self, now: Duration, id: &str, code: i64, message: &str, name: Option<&str>) {
        self.reply(now, id, "error", &json!({"code": code, "message": message}), name);
    }

    /// The id goes back letter for letter.
    fn reply(&mut self, now: Duration, id: &str, member: &str, value: &Value, name: Option<&str>) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#);
        // An agent that has closed its input while it waits for an answer has itself to blame; it is in the trace.
        let _closed = self.send(now, text.into_bytes(), true, name);
    }
}
