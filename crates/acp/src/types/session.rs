//! Sessions: made, loaded, resumed, listed, closed, deleted.

use super::capabilities::{AgentCapabilities, SystemPromptCapabilities};
use super::config::{SessionConfigOption, SessionModeState};
use super::content::ContentBlock;
use super::declare::{object, words};
use super::ids::SessionId;
use super::leaf::List;
use super::mcp::McpServer;
use super::path::AcpPath;
use super::shape::{Fault, FaultReason};

object! {
    /// Makes a session.
    pub struct NewSessionRequest, "a session/new request", new(cwd: AcpPath) {
        /// The working directory; absolute.
        req cwd: AcpPath = "cwd",
        /// MCP servers to connect to. Required on the wire, may be empty; a broken entry breaks the request.
        req_null mcp_servers: Vec<McpServer> = "mcpServers",
        /// More roots of the workspace; absolute. Needs `sessionCapabilities.additionalDirectories`.
        def_strict additional_directories: Vec<AcpPath> = "additionalDirectories",
        /// What to do with the system prompt. Needs `sessionCapabilities.systemPrompt`.
        opt_strict system_prompt: SystemPrompt = "systemPrompt",
    }
}

object! {
    /// The session is there.
    pub struct NewSessionResponse, "a session/new response", new(session_id: SessionId) {
        /// Its id.
        req session_id: SessionId = "sessionId",
        /// The modes it knows. Config options are their successor; agents send both.
        opt modes: SessionModeState = "modes",
        /// All configuration options.
        opt config_options: List<SessionConfigOption> = "configOptions",
    }
}

object! {
    /// Opens a session again and replays its history as updates before the reply. Needs `loadSession`.
    pub struct LoadSessionRequest, "a session/load request", new(session_id: SessionId, cwd: AcpPath) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The working directory; absolute.
        req cwd: AcpPath = "cwd",
        /// MCP servers to connect to. Required on the wire, may be empty; a broken entry breaks the request.
        req_null mcp_servers: Vec<McpServer> = "mcpServers",
        /// More roots of the workspace; absolute. Needs `sessionCapabilities.additionalDirectories`.
        def_strict additional_directories: Vec<AcpPath> = "additionalDirectories",
        /// What to do with the system prompt. Needs `sessionCapabilities.systemPrompt`.
        opt_strict system_prompt: SystemPrompt = "systemPrompt",
    }
}

object! {
    /// The whole history was replayed. Older agents answer `null`.
    #[derive(Default)]
    pub struct LoadSessionResponse, "a session/load response", new() {
        /// The modes the session knows.
        opt modes: SessionModeState = "modes",
        /// All configuration options.
        opt config_options: List<SessionConfigOption> = "configOptions",
    }
}

object! {
    /// Opens a session again without a replay. Needs `sessionCapabilities.resume`.
    pub struct ResumeSessionRequest, "a session/resume request", new(session_id: SessionId, cwd: AcpPath) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// The working directory; absolute.
        req cwd: AcpPath = "cwd",
        /// MCP servers to connect to; a broken entry breaks the request.
        def_strict mcp_servers: Vec<McpServer> = "mcpServers",
        /// More roots of the workspace; absolute. Needs `sessionCapabilities.additionalDirectories`.
        def_strict additional_directories: Vec<AcpPath> = "additionalDirectories",
        /// What to do with the system prompt. Needs `sessionCapabilities.systemPrompt`.
        opt_strict system_prompt: SystemPrompt = "systemPrompt",
    }
}

object! {
    /// The session is open again.
    #[derive(Default)]
    pub struct ResumeSessionResponse, "a session/resume response", new() {
        /// The modes the session knows.
        opt modes: SessionModeState = "modes",
        /// All configuration options.
        opt config_options: List<SessionConfigOption> = "configOptions",
    }
}

object! {
    /// Lists sessions. Needs `sessionCapabilities.list`.
    #[derive(Default)]
    pub struct ListSessionsRequest, "a session/list request", new() {
        /// Only sessions of this directory; absolute.
        opt_strict cwd: AcpPath = "cwd",
        /// Where the page before stopped.
        opt_strict cursor: String = "cursor",
    }
}

object! {
    /// A page of sessions.
    pub struct ListSessionsResponse, "a session/list response", new(sessions: List<SessionInfo>) {
        /// The sessions.
        req_lax sessions: List<SessionInfo> = "sessions",
        /// Where the next page starts; absent on the last one.
        opt next_cursor: String = "nextCursor",
    }
}

object! {
    /// A session in a list.
    pub struct SessionInfo, "a session", new(session_id: SessionId, cwd: AcpPath) {
        /// Its id.
        req session_id: SessionId = "sessionId",
        /// Its working directory.
        req cwd: AcpPath = "cwd",
        /// More roots of its workspace.
        def additional_directories: List<AcpPath> = "additionalDirectories",
        /// Its name.
        opt title: String = "title",
        /// When it last changed, ISO 8601.
        opt updated_at: String = "updatedAt",
    }
}

object! {
    /// Frees a session and cancels what it does. Needs `sessionCapabilities.close`.
    pub struct CloseSessionRequest, "a session/close request", new(session_id: SessionId) {
        /// The session.
        req session_id: SessionId = "sessionId",
    }
}

object! {
    /// The session is closed.
    #[derive(Default)]
    pub struct CloseSessionResponse, "a session/close response", new() {}
}

object! {
    /// Takes a session off the list. Needs `sessionCapabilities.delete`.
    pub struct DeleteSessionRequest, "a session/delete request", new(session_id: SessionId) {
        /// The session; one that is not known counts as deleted.
        req session_id: SessionId = "sessionId",
    }
}

object! {
    /// The session is off the list.
    #[derive(Default)]
    pub struct DeleteSessionResponse, "a session/delete response", new() {}
}

object! {
    /// Text for the system prompt.
    pub struct SystemPrompt, "a system prompt", new(mode: SystemPromptMode, content: Vec<ContentBlock>) {
        /// What to do with it.
        req mode: SystemPromptMode = "mode",
        /// The text.
        req content: Vec<ContentBlock> = "content",
    }
}

words! {
    /// What to do with a system prompt that is already there.
    #[derive(Default)]
    pub enum SystemPromptMode, "a system prompt mode" {
        /// Add to it.
        #[default]
        Append = "append",
        /// Replace it; needs `sessionCapabilities.systemPrompt.mode.override`.
        Override = "override",
    }
}

/// What `session/new`, `session/load` and `session/resume` ask for in common.
struct Workspace<'a> {
    cwd: &'a AcpPath,
    mcp_servers: &'a [McpServer],
    additional_directories: &'a [AcpPath],
    system_prompt: Option<&'a SystemPrompt>,
}

impl Workspace<'_> {
    fn validate(&self) -> Result<(), Fault> {
        self.cwd.require_absolute("cwd")?;
        for (i, directory) in self.additional_directories.iter().enumerate() {
            directory.require_absolute("").map_err(|fault| fault.at(i).inside("additionalDirectories"))?;
        }
        Ok(())
    }

    fn require_advertised(&self, advertised: &AgentCapabilities) -> Result<(), Fault> {
        for (i, server) in self.mcp_servers.iter().enumerate() {
            let checked = server.require_advertised(&advertised.mcp_capabilities);
            checked.map_err(|fault| fault.at(i).inside("mcpServers"))?;
        }
        let session = &advertised.session_capabilities;
        if !self.additional_directories.is_empty() && session.additional_directories.is_none() {
            let reason = FaultReason::NotAdvertised("sessionCapabilities.additionalDirectories");
            return Err(Fault::new(reason).inside("additionalDirectories"));
        }
        if let Some(prompt) = self.system_prompt {
            let checked = require_system_prompt(prompt, session.system_prompt.as_ref());
            checked.map_err(|fault| fault.inside("systemPrompt"))?;
        }
        Ok(())
    }
}

fn require_system_prompt(prompt: &SystemPrompt, advertised: Option<&SystemPromptCapabilities>) -> Result<(), Fault> {
    let Some(advertised) = advertised else {
        return Err(Fault::new(FaultReason::NotAdvertised("sessionCapabilities.systemPrompt")));
    };
    let may_override = advertised.mode.as_ref().is_some_and(|mode| mode.overriding.is_some());
    match prompt.mode {
        SystemPromptMode::Append => Ok(()),
        SystemPromptMode::Override if may_override => Ok(()),
        SystemPromptMode::Override => {
            let capability = "sessionCapabilities.systemPrompt.mode.override";
            Err(Fault::new(FaultReason::NotAdvertised(capability)).inside("mode"))
        }
        SystemPromptMode::Unknown(_) => Err(Fault::expected("append or override").inside("mode")),
    }
}

macro_rules! workspace_checks {
    ($($name:ident),+) => { $(
        impl $name {
            /// Checks what the types alone do not say: that all paths are absolute.
            ///
            /// # Errors
            /// The first member that breaks the rule; the answer to the peer is -32602.
            pub fn validate(&self) -> Result<(), Fault> {
                self.workspace().validate()
            }

            /// Checks that nothing is asked for that the agent did not advertise: MCP transports,
            /// additional directories, a system prompt.
            ///
            /// # Errors
            /// The first member that asks for more; the answer to the peer is -32602.
            pub fn require_advertised(&self, advertised: &AgentCapabilities) -> Result<(), Fault> {
                self.workspace().require_advertised(advertised)
            }

            fn workspace(&self) -> Workspace<'_> {
                Workspace {
                    cwd: &self.cwd,
                    mcp_servers: &self.mcp_servers,
                    additional_directories: &self.additional_directories,
                    system_prompt: self.system_prompt.as_ref(),
                }
            }
        }
    )+ };
}

workspace_checks!(NewSessionRequest, LoadSessionRequest, ResumeSessionRequest);

impl ListSessionsRequest {
    /// Checks that the directory, if there is one, is absolute.
    ///
    /// # Errors
    /// When it is not; the answer to the peer is -32602.
    pub fn validate(&self) -> Result<(), Fault> {
        self.cwd.as_ref().map_or(Ok(()), |cwd| cwd.require_absolute("cwd"))
    }
}
