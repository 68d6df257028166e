//! MCP servers that the client asks the agent to connect to.

use super::capabilities::McpCapabilities;
use super::declare::{object, tagged};
use super::shape::{Fault, FaultReason};

tagged! {
    /// How to reach an MCP server.
    ///
    /// An entry without `type` is stdio. One with a `type` that is not known is kept as it is and is never
    /// mistaken for stdio.
    pub enum McpServer, "an MCP server", "type" {
        /// Over HTTP; needs `mcpCapabilities.http`.
        Http(McpServerHttp) = "http",
        /// Over server-sent events; needs `mcpCapabilities.sse`.
        Sse(McpServerSse) = "sse",
    } default {
        /// A program that the agent starts. Every agent can.
        Stdio(McpServerStdio) = "stdio",
    }
}

impl McpServer {
    /// Refuses a transport that the agent did not advertise.
    ///
    /// # Errors
    /// When `advertised` lacks the transport, or when the type is not known.
    pub fn require_advertised(&self, advertised: &McpCapabilities) -> Result<(), Fault> {
        let missing = match self {
            Self::Stdio(_) => None,
            Self::Http(_) => (!advertised.http).then_some("mcpCapabilities.http"),
            Self::Sse(_) => (!advertised.sse).then_some("mcpCapabilities.sse"),
            Self::Unknown { .. } => return Err(Fault::expected("a known transport").inside("type")),
        };
        missing.map_or(Ok(()), |capability| Err(Fault::new(FaultReason::NotAdvertised(capability)).inside("type")))
    }
}

impl From<McpServerHttp> for McpServer {
    fn from(server: McpServerHttp) -> Self {
        Self::Http(server)
    }
}

impl From<McpServerSse> for McpServer {
    fn from(server: McpServerSse) -> Self {
        Self::Sse(server)
    }
}

impl From<McpServerStdio> for McpServer {
    fn from(server: McpServerStdio) -> Self {
        Self::Stdio(server)
    }
}

object! {
    /// See [`McpServer::Http`].
    pub struct McpServerHttp, "an HTTP MCP server", new(name: String, url: String) {
        /// The name to show.
        req name: String = "name",
        /// Where it is.
        req url: String = "url",
        /// Headers of every request. Values can be secrets.
        req_null headers: Vec<HttpHeader> = "headers",
    }
}

object! {
    /// See [`McpServer::Sse`].
    pub struct McpServerSse, "an SSE MCP server", new(name: String, url: String) {
        /// The name to show.
        req name: String = "name",
        /// Where it is.
        req url: String = "url",
        /// Headers of every request. Values can be secrets.
        req_null headers: Vec<HttpHeader> = "headers",
    }
}

object! {
    /// See [`McpServer::Stdio`].
    pub struct McpServerStdio, "a stdio MCP server", new(name: String, command: String) {
        /// The name to show.
        req name: String = "name",
        /// The program.
        req command: String = "command",
        /// Its arguments.
        req_null args: Vec<String> = "args",
        /// Variables to add to its environment. Values can be secrets.
        req_null env: Vec<EnvVariable> = "env",
        /// `stdio`, where the peer spelled the default out.
        opt explicit_type: String = "type",
    }
}

object! {
    /// An HTTP header.
    pub struct HttpHeader, "a header", new(name: String, value: String) {
        /// Its name.
        req name: String = "name",
        /// Its value.
        req value: String = "value",
    }
}

object! {
    /// An environment variable.
    pub struct EnvVariable, "an environment variable", new(name: String, value: String) {
        /// Its name.
        req name: String = "name",
        /// Its value.
        req value: String = "value",
    }
}
