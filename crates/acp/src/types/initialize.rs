//! The handshake and authentication: `initialize`, `authenticate`, `logout`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserializer, Serializer};

use super::capabilities::{AgentCapabilities, ClientCapabilities};
use super::declare::{object, serde_by_shape, tagged};
use super::ids::AuthMethodId;
use super::leaf::List;
use super::shape::{Read, Shape};

/// The version of the protocol: an integer from 0 to 65535, raised only when something breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolVersion(u16);

impl ProtocolVersion {
    /// Version 1, the stable one.
    pub const V1: Self = Self(1);

    /// The latest version that this crate speaks.
    pub const LATEST: Self = Self::V1;

    /// Any version, spoken or not.
    pub const fn new(version: u16) -> Self {
        Self(version)
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether this crate speaks the version.
    pub const fn is_spoken(self) -> bool {
        self.0 == Self::V1.0
    }

    /// What an agent answers to this version in a request: the same if it speaks it, else its own latest.
    /// Never an error, never an echo of a number that it does not speak.
    #[must_use]
    pub const fn answer(self) -> Self {
        if self.is_spoken() { self } else { Self::LATEST }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u16> for ProtocolVersion {
    fn from(version: u16) -> Self {
        Self(version)
    }
}

serde_by_shape!(ProtocolVersion);

impl Shape for ProtocolVersion {
    const EXPECTED: &'static str = u16::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(u16::read(deserializer)?.map(Self))
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.0)
    }
}

object! {
    /// The client's first message.
    pub struct InitializeRequest, "an initialize request", new(protocol_version: ProtocolVersion) {
        /// The latest version that the client speaks.
        req protocol_version: ProtocolVersion = "protocolVersion",
        /// What the client can do.
        def client_capabilities: ClientCapabilities = "clientCapabilities",
        /// What the client is.
        opt client_info: Implementation = "clientInfo",
    }
}

object! {
    /// The agent's answer.
    pub struct InitializeResponse, "an initialize response", new(protocol_version: ProtocolVersion) {
        /// The version that will be spoken.
        req protocol_version: ProtocolVersion = "protocolVersion",
        /// What the agent can do.
        def agent_capabilities: AgentCapabilities = "agentCapabilities",
        /// What the agent is.
        opt agent_info: Implementation = "agentInfo",
        /// Ways to authenticate.
        def auth_methods: List<AuthMethod> = "authMethods",
    }
}

object! {
    /// Name and version of a program.
    pub struct Implementation, "an implementation", new(name: String, version: String) {
        /// The name for programs.
        req name: String = "name",
        /// The name for people.
        opt title: String = "title",
        /// The version, to show and to log.
        req version: String = "version",
    }
}

tagged! {
    /// A way to authenticate.
    pub enum AuthMethod, "an auth method", "type" {
        /// The client runs the agent's own command in a terminal, with these arguments and variables added.
        /// Never passed to `authenticate`; offered only if the client advertised `auth.terminal`.
        Terminal(AuthMethodTerminal) = "terminal",
    } default {
        /// The agent does it itself when `authenticate` names it. The form without `type`.
        Agent(AuthMethodAgent) = "agent",
    }
}

impl AuthMethod {
    /// The id, if the method has one that can be read.
    pub fn id(&self) -> Option<AuthMethodId> {
        match self {
            Self::Terminal(method) => Some(method.id.clone()),
            Self::Agent(method) => Some(method.id.clone()),
            Self::Unknown { raw, .. } => {
                let method: AuthMethodAgent = raw.decode().ok()?;
                Some(method.id)
            }
        }
    }
}

impl From<AuthMethodTerminal> for AuthMethod {
    fn from(method: AuthMethodTerminal) -> Self {
        Self::Terminal(method)
    }
}

impl From<AuthMethodAgent> for AuthMethod {
    fn from(method: AuthMethodAgent) -> Self {
        Self::Agent(method)
    }
}

object! {
    /// See [`AuthMethod::Terminal`].
    pub struct AuthMethodTerminal, "a terminal auth method", new(id: AuthMethodId, name: String) {
        /// What the method is called in the protocol.
        req id: AuthMethodId = "id",
        /// The name to show.
        req name: String = "name",
        /// What it does.
        opt description: String = "description",
        /// Arguments to add.
        def_strict args: Vec<String> = "args",
        /// Variables to add.
        def_strict env: BTreeMap<String, String> = "env",
    }
}

object! {
    /// See [`AuthMethod::Agent`].
    pub struct AuthMethodAgent, "an auth method", new(id: AuthMethodId, name: String) {
        /// What `authenticate` names.
        req id: AuthMethodId = "id",
        /// The name to show.
        req name: String = "name",
        /// What it does.
        opt description: String = "description",
        /// `agent`, where the peer spelled the default out.
        opt explicit_type: String = "type",
    }
}

object! {
    /// Asks the agent to authenticate.
    pub struct AuthenticateRequest, "an authenticate request", new(method_id: AuthMethodId) {
        /// One of `authMethods`, but none of type `terminal`.
        req method_id: AuthMethodId = "methodId",
    }
}

object! {
    /// Done; `session/new` may be tried.
    #[derive(Default)]
    pub struct AuthenticateResponse, "an authenticate response", new() {}
}

object! {
    /// Asks the agent to forget its credentials.
    #[derive(Default)]
    pub struct LogoutRequest, "a logout request", new() {}
}

object! {
    /// Done; what needs authentication fails again.
    #[derive(Default)]
    pub struct LogoutResponse, "a logout response", new() {}
}
