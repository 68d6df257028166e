//! Which methods were negotiated, from the method table and the advertised capabilities.

use crate::methods::{Kind, Method, MethodId, Side};
use crate::types::{AgentCapabilities, Capabilities, ClientCapabilities, decode};

/// What one side advertised in the handshake; nothing before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Granted(Option<Capabilities>);

impl Granted {
    /// Reads `agentCapabilities`. What is left out or not an object advertises nothing.
    pub(crate) fn by_agent(text: Option<&str>) -> Self {
        let capabilities = text.and_then(|text| decode::<AgentCapabilities>(text).ok()).unwrap_or_default();
        Self(Some(Capabilities::Agent(capabilities)))
    }

    /// Reads `clientCapabilities`. What is left out or not an object advertises nothing.
    pub(crate) fn by_client(text: Option<&str>) -> Self {
        let capabilities = text.and_then(|text| decode::<ClientCapabilities>(text).ok()).unwrap_or_default();
        Self(Some(Capabilities::Client(capabilities)))
    }

    /// True if the handling side takes `method`: it needs no capability, or the one it needs was advertised. A method that
    /// nobody knows is no matter of capabilities.
    pub(crate) fn allows(&self, method: &str) -> bool {
        MethodId::from_wire(method).is_none_or(|id| self.takes(id.method()))
    }

    pub(crate) fn takes(&self, row: &Method) -> bool {
        row.is_negotiated(self.0.as_ref())
    }

    pub(crate) fn capabilities(&self) -> Option<&Capabilities> {
        self.0.as_ref()
    }
}

/// The row of a request that `side` handles.
pub(crate) fn request(side: Side, method: &str) -> Option<&'static Method> {
    row(side, method).filter(|row| row.kind == Kind::Request)
}

/// The row of a notification that `side` handles.
pub(crate) fn notification(side: Side, method: &str) -> Option<&'static Method> {
    row(side, method).filter(|row| row.kind == Kind::Notification)
}

fn row(side: Side, method: &str) -> Option<&'static Method> {
    Method::find(side, method)
}
