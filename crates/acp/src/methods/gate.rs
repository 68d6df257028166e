//! Capability gates: what a side must have advertised before it is asked.

use std::fmt;

use crate::types::{AgentCapabilities, Capabilities, ClientCapabilities};

use super::{Method, Side};

/// What the handling side must have advertised for a method to be negotiated.
#[derive(Clone, Copy)]
pub struct Gate {
    /// The capability's path in the handling side's capabilities, such as `sessionCapabilities.list`.
    pub path: &'static str,
    open: Open,
}

#[derive(Clone, Copy)]
enum Open {
    Agent(fn(&AgentCapabilities) -> bool),
    Client(fn(&ClientCapabilities) -> bool),
}

impl Gate {
    /// Whether `advertised` opens the gate. Nothing advertised opens none.
    pub fn is_open(&self, advertised: Option<&Capabilities>) -> bool {
        match (self.open, advertised) {
            (Open::Agent(open), Some(Capabilities::Agent(capabilities))) => open(capabilities),
            (Open::Client(open), Some(Capabilities::Client(capabilities))) => open(capabilities),
            _ => false,
        }
    }

    /// The side whose capabilities the gate looks at.
    pub fn side(&self) -> Side {
        match self.open {
            Open::Agent(_) => Side::Agent,
            Open::Client(_) => Side::Client,
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.path).finish()
    }
}

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path && self.side() == other.side()
    }
}

impl Eq for Gate {}

impl Method {
    /// Whether the handling side, having advertised `advertised`, takes the method. Without a handshake
    /// every gate is closed and every method without a gate is open.
    pub fn is_negotiated(&self, advertised: Option<&Capabilities>) -> bool {
        self.gate.is_none_or(|gate| gate.is_open(advertised))
    }
}

pub(super) const LOAD_SESSION: Gate = Gate { path: "loadSession", open: Open::Agent(|c| c.load_session) };
pub(super) const RESUME: Gate =
    Gate { path: "sessionCapabilities.resume", open: Open::Agent(|c| c.session_capabilities.resume.is_some()) };
pub(super) const LIST: Gate =
    Gate { path: "sessionCapabilities.list", open: Open::Agent(|c| c.session_capabilities.list.is_some()) };
pub(super) const CLOSE: Gate =
    Gate { path: "sessionCapabilities.close", open: Open::Agent(|c| c.session_capabilities.close.is_some()) };
pub(super) const DELETE: Gate =
    Gate { path: "sessionCapabilities.delete", open: Open::Agent(|c| c.session_capabilities.delete.is_some()) };
pub(super) const LOGOUT: Gate = Gate { path: "auth.logout", open: Open::Agent(|c| c.auth.logout.is_some()) };
pub(super) const FS_READ: Gate = Gate { path: "fs.readTextFile", open: Open::Client(|c| c.fs.read_text_file) };
pub(super) const FS_WRITE: Gate = Gate { path: "fs.writeTextFile", open: Open::Client(|c| c.fs.write_text_file) };
pub(super) const TERMINAL: Gate = Gate { path: "terminal", open: Open::Client(|c| c.terminal) };

/// Open for any mode; whether for the one that a request has is
/// [`CreateElicitationRequest::require_advertised`](crate::types::CreateElicitationRequest::require_advertised).
pub(super) const ELICITATION: Gate = Gate {
    path: "elicitation",
    open: Open::Client(|c| c.elicitation.as_ref().is_some_and(|e| e.form.is_some() || e.url.is_some())),
};
pub(super) const ELICITATION_URL: Gate =
    Gate { path: "elicitation.url", open: Open::Client(|c| c.elicitation.as_ref().is_some_and(|e| e.url.is_some())) };
