//! What each side can do, as told in `initialize`.
//!
//! Everything that is not advertised is not there. A boolean counts only as the literal `true`: anything
//! else reads as false, is kept, and is reported by [`inspect`](super::inspect). An object marker counts as
//! advertised when it is an object, `{}` included; `null` and absent mean no, and any other value is a type
//! error of that member, never a yes.

use super::declare::object;

object! {
    /// What the agent can do.
    #[derive(Default)]
    pub struct AgentCapabilities, "agent capabilities", new() {
        /// Whether `session/load` works.
        def load_session: bool = "loadSession",
        /// Which content prompts may have.
        def prompt_capabilities: PromptCapabilities = "promptCapabilities",
        /// Over what the agent reaches MCP servers, stdio apart.
        def mcp_capabilities: McpCapabilities = "mcpCapabilities",
        /// Which session methods work.
        def session_capabilities: SessionCapabilities = "sessionCapabilities",
        /// Which authentication methods work.
        def auth: AgentAuthCapabilities = "auth",
    }
}

object! {
    /// Which content prompts may have, besides text and resource links.
    #[derive(Default)]
    pub struct PromptCapabilities, "prompt capabilities", new() {
        /// Images.
        def image: bool = "image",
        /// Sounds.
        def audio: bool = "audio",
        /// Resources with their contents.
        def embedded_context: bool = "embeddedContext",
    }
}

object! {
    /// Over what the agent reaches MCP servers, stdio apart.
    #[derive(Default)]
    pub struct McpCapabilities, "MCP capabilities", new() {
        /// HTTP.
        def http: bool = "http",
        /// Server-sent events.
        def sse: bool = "sse",
    }
}

object! {
    /// Which session methods work. Each member is a marker: present means yes.
    #[derive(Default)]
    pub struct SessionCapabilities, "session capabilities", new() {
        /// `session/list`.
        opt list: Marker = "list",
        /// `session/delete`.
        opt delete: Marker = "delete",
        /// `additionalDirectories` in `session/new`, `session/load` and `session/resume`.
        opt additional_directories: Marker = "additionalDirectories",
        /// `systemPrompt` in `session/new`, `session/load` and `session/resume`.
        opt system_prompt: SystemPromptCapabilities = "systemPrompt",
        /// `session/resume`.
        opt resume: Marker = "resume",
        /// `session/close`.
        opt close: Marker = "close",
    }
}

object! {
    /// How far the client may set the system prompt. Present means that it may append to it.
    #[derive(Default)]
    pub struct SystemPromptCapabilities, "system prompt capabilities", new() {
        /// What more it may do than append.
        opt mode: SystemPromptModeCapabilities = "mode",
    }
}

object! {
    /// What the client may do with the system prompt besides appending.
    #[derive(Default)]
    pub struct SystemPromptModeCapabilities, "system prompt modes", new() {
        /// Replace it.
        opt overriding: Marker = "override",
    }
}

object! {
    /// Which authentication methods of the agent work.
    #[derive(Default)]
    pub struct AgentAuthCapabilities, "agent auth capabilities", new() {
        /// `logout`.
        opt logout: Marker = "logout",
    }
}

object! {
    /// A capability that is advertised by being there.
    #[derive(Default)]
    pub struct Marker, "an object", new() {}
}

object! {
    /// What the client can do.
    #[derive(Default)]
    pub struct ClientCapabilities, "client capabilities", new() {
        /// Which file methods work. The key is `fs`.
        def fs: FileSystemCapabilities = "fs",
        /// Whether all `terminal/*` methods work.
        def terminal: bool = "terminal",
        /// Which session updates the client understands.
        opt session: ClientSessionCapabilities = "session",
        /// Whether it follows subagents.
        opt subagents: Marker = "subagents",
        /// Whether it understands `plan_update` and `plan_removed`.
        opt plan: Marker = "plan",
        /// Which ways to authenticate it supports.
        def auth: ClientAuthCapabilities = "auth",
        /// Which elicitations it can show. An empty object advertises none.
        opt elicitation: ElicitationCapabilities = "elicitation",
    }
}

object! {
    /// Which file methods work.
    #[derive(Default)]
    pub struct FileSystemCapabilities, "file system capabilities", new() {
        /// `fs/read_text_file`.
        def read_text_file: bool = "readTextFile",
        /// `fs/write_text_file`.
        def write_text_file: bool = "writeTextFile",
    }
}

object! {
    /// Which session updates the client understands.
    #[derive(Default)]
    pub struct ClientSessionCapabilities, "client session capabilities", new() {
        /// `compaction_update` and `compaction_summary_chunk`.
        opt compaction: Marker = "compaction",
        /// Kinds of configuration options besides `select`.
        opt config_options: ConfigOptionCapabilities = "configOptions",
        /// `notice`.
        opt notices: Marker = "notices",
    }
}

object! {
    /// Which kinds of configuration options the client shows, besides `select`.
    #[derive(Default)]
    pub struct ConfigOptionCapabilities, "config option capabilities", new() {
        /// `boolean`.
        opt boolean: Marker = "boolean",
    }
}

object! {
    /// Which ways to authenticate the client supports.
    #[derive(Default)]
    pub struct ClientAuthCapabilities, "client auth capabilities", new() {
        /// Running the agent's own command in a terminal.
        def terminal: bool = "terminal",
    }
}

object! {
    /// Which elicitations the client can show.
    #[derive(Default)]
    pub struct ElicitationCapabilities, "elicitation capabilities", new() {
        /// Forms.
        opt form: Marker = "form",
        /// Pages that the user opens.
        opt url: Marker = "url",
    }
}

/// What one side advertised; the gates of [`METHODS`](crate::METHODS) look at this.
#[derive(Debug, Clone, PartialEq)]
pub enum Capabilities {
    /// What an agent said in its `initialize` reply.
    Agent(AgentCapabilities),
    /// What a client said in its `initialize` request.
    Client(ClientCapabilities),
}

impl From<AgentCapabilities> for Capabilities {
    fn from(capabilities: AgentCapabilities) -> Self {
        Self::Agent(capabilities)
    }
}

impl From<ClientCapabilities> for Capabilities {
    fn from(capabilities: ClientCapabilities) -> Self {
        Self::Client(capabilities)
    }
}
