use super::change::{Change, HookShape, Target, TargetRole};
use super::hosts::{Dirs, Host};
use super::json_edit::Json;
use super::{plugin, rules};
use crate::{Agent, Shell};

/// The name under which an agent lists our MCP server.
pub const MCP_SERVER: &str = "pintle-task";

/// How long an agent waits for the hook: a stuck disk then costs this much of a prompt and no more (A11).
const HOOK_TIMEOUT_S: u64 = 5;

/// The tools that the model may use without being asked.
const CLAUDE_ALLOW: [&str; 3] =
    ["mcp__pintle-task__task_get", "mcp__pintle-task__task_publish", "mcp__pintle-task__task_clear"];

/// What to install for one agent.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For whom.
    pub agent: Agent,
    /// The program as it was installed: never a resolved path, which a package manager's next upgrade removes, and
    /// never one with a version in it, since a changed command asks for trust again.
    pub program: String,
    /// The shell in which the agent runs commands.
    pub shell: Shell,
    /// Whether the agent's version has the exec form (a program and its arguments, no shell).
    pub exec_form: bool,
    /// Block the prompt on every failure, as the published protocol does, and not only warn (A6).
    pub strict: bool,
    /// Register the MCP server (A3).
    pub mcp: bool,
    /// Write the lines that teach the model to publish (A3).
    pub rules: bool,
}

impl Setup {
    /// The files to edit, hooks first.
    pub fn targets(&self, dirs: &Dirs) -> Vec<Target> {
        let Some(host) = Host::of(self.agent) else { return Vec::new() };
        let mut targets = vec![self.target(host.hooks_file(dirs), TargetRole::Hooks, self.hooks())];
        if self.agent == Agent::Opencode {
            targets[0].role = TargetRole::Plugin;
        }
        if self.mcp {
            let mcp = self.target(host.mcp_file(dirs), TargetRole::Mcp, self.mcp_server());
            // One file, one edit: Gemini and Qwen keep both in their settings.
            match targets.iter_mut().find(|target| target.path == mcp.path) {
                Some(target) => target.changes.extend(mcp.changes),
                None => targets.push(mcp),
            }
        }
        if let Some(path) = host.rules_file(dirs).filter(|_| self.rules) {
            targets.push(self.target(path, TargetRole::Rules, vec![Change::Rules { text: rules::text(self.mcp) }]));
        }
        targets
    }

    /// Whether the agent's shell can be told of the program. On Windows the same line may reach cmd, `powershell -Command`
    /// or `pwsh -Command`, and a path with a blank can be spelled in no way that all of them run: quoted, PowerShell
    /// prints it.
    pub fn is_program_spellable(&self) -> bool {
        let without_shell = match self.agent {
            Agent::Claude => self.exec_form,
            Agent::Copilot | Agent::Opencode | Agent::Generic => true,
            Agent::Codex | Agent::Gemini | Agent::Qwen | Agent::Cursor => false,
        };
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '\\' | ':' | '.' | '_' | '-' | '~');
        without_shell || self.shell == Shell::Posix || self.program.chars().all(plain)
    }

    /// The hook command in one line, as the agent's shell reads it.
    pub fn hook_command(&self) -> String {
        let program = match self.shell {
            Shell::Posix => quote_posix(&self.program),
            Shell::Windows => self.program.replace('\\', "/"),
        };
        let options = self.options().join(" ");
        let space = if options.is_empty() { "" } else { " " };
        format!("{program} task hook --agent {}{space}{options}", self.agent)
    }

    fn target(&self, path: std::path::PathBuf, role: TargetRole, changes: Vec<Change>) -> Target {
        Target { path, role, agent: self.agent, changes }
    }

    fn options(&self) -> Vec<&'static str> {
        let mut options = Vec::new();
        if !self.strict {
            options.extend(["--on-error", "open"]);
        }
        if self.mcp {
            options.push("--mcp");
        }
        options
    }

    fn hook_args(&self) -> Vec<&'static str> {
        let mut args = vec!["task", "hook", "--agent", self.agent.as_str()];
        args.extend(self.options());
        args
    }

    fn hooks(&self) -> Vec<Change> {
        let grouped = |events: &[&'static str], handler: &Json| {
            let hook = |event| Change::Hook { event, handler: handler.clone(), shape: HookShape::Grouped };
            events.iter().copied().map(hook).collect::<Vec<_>>()
        };
        let command = Json::text(self.hook_command());
        match self.agent {
            // The session start has no matcher: a list of sources misses the one that comes next.
            Agent::Codex => {
                let mut members = vec![("type", Json::text("command")), ("command", command)];
                if self.shell == Shell::Windows {
                    members.push(("commandWindows", Json::text(self.hook_command())));
                }
                members.push(("timeout", Json::number(HOOK_TIMEOUT_S)));
                let handler = Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
                grouped(&["UserPromptSubmit", "PreCompact", "SessionStart", "Stop"], &handler)
            }
            Agent::Claude => {
                let mut handler = vec![("type".to_owned(), Json::text("command"))];
                if self.exec_form {
                    handler.push(("command".to_owned(), Json::text(self.program.as_str())));
                    handler.push(("args".to_owned(), Json::texts(self.hook_args())));
                } else {
                    handler.push(("command".to_owned(), command));
                }
                handler.push(("timeout".to_owned(), Json::number(HOOK_TIMEOUT_S)));
                let events = ["UserPromptSubmit", "PreCompact", "SessionStart", "Stop"];
                let mut changes = grouped(&events, &Json::Map(handler));
                if self.mcp {
                    let allow = |text| Change::Item { path: vec!["permissions", "allow"], text };
                    changes.extend(CLAUDE_ALLOW.map(allow));
                }
                changes
            }
            // Before a compression Gemini asks at every turn, and there is nothing to do: no entry for it.
            Agent::Gemini => grouped(&["SessionStart", "BeforeAgent"], &milliseconds(command)),
            Agent::Qwen => grouped(&["SessionStart", "UserPromptSubmit", "PreCompact"], &milliseconds(command)),
            Agent::Copilot => {
                let handler = Json::map([
                    ("type", Json::text("command")),
                    ("exec", Json::text(self.program.as_str())),
                    ("args", Json::texts(self.hook_args())),
                    ("timeoutSec", Json::number(HOOK_TIMEOUT_S)),
                ]);
                let hook = |event| Change::Hook { event, handler: handler.clone(), shape: HookShape::Flat };
                let mut changes = vec![Change::Header { name: "version", value: Json::number(1) }];
                changes.extend(["SessionStart", "UserPromptSubmit", "PreCompact"].map(hook));
                changes
            }
            Agent::Cursor => {
                let handler = Json::map([("command", command), ("timeout", Json::number(HOOK_TIMEOUT_S))]);
                let hook = |event| Change::Hook { event, handler: handler.clone(), shape: HookShape::Flat };
                let mut changes = vec![Change::Header { name: "version", value: Json::number(1) }];
                changes.extend(["sessionStart", "beforeSubmitPrompt", "preCompact"].map(hook));
                changes
            }
            Agent::Opencode => vec![Change::File { text: plugin::text(&self.program, &self.options()) }],
            Agent::Generic => Vec::new(),
        }
    }

    fn mcp_server(&self) -> Vec<Change> {
        let args = ["task", "mcp", "--agent", self.agent.as_str()];
        let program = Json::text(self.program.as_str());
        let member = |path: Vec<&'static str>, value: Json| vec![Change::Member { path, value }];
        match self.agent {
            Agent::Codex => vec![Change::TomlServer {
                command: self.program.clone(),
                args: args.iter().map(|word| (*word).to_owned()).collect(),
            }],
            Agent::Claude => member(
                vec!["mcpServers", MCP_SERVER],
                Json::map([("type", Json::text("stdio")), ("command", program), ("args", Json::texts(args))]),
            ),
            Agent::Gemini => member(
                vec!["mcpServers", MCP_SERVER],
                Json::map([("command", program), ("args", Json::texts(args)), ("trust", Json::bool(true))]),
            ),
            // Qwen Code hides the tools behind a search otherwise (measured on 0.24.4).
            Agent::Qwen => member(
                vec!["mcpServers", MCP_SERVER],
                Json::map([
                    ("command", program),
                    ("args", Json::texts(args)),
                    ("trust", Json::bool(true)),
                    ("alwaysLoadTools", Json::bool(true)),
                ]),
            ),
            Agent::Copilot => member(
                vec!["mcpServers", MCP_SERVER],
                Json::map([
                    ("type", Json::text("local")),
                    ("command", program),
                    ("args", Json::texts(args)),
                    ("tools", Json::texts(["*"])),
                ]),
            ),
            Agent::Cursor => {
                member(vec!["mcpServers", MCP_SERVER], Json::map([("command", program), ("args", Json::texts(args))]))
            }
            Agent::Opencode => {
                let mut words = vec![self.program.as_str()];
                words.extend(args);
                member(
                    vec!["mcp", MCP_SERVER],
                    Json::map([
                        ("type", Json::text("local")),
                        ("command", Json::texts(words)),
                        ("enabled", Json::bool(true)),
                    ]),
                )
            }
            Agent::Generic => Vec::new(),
        }
    }
}

/// A handler of Gemini and Qwen, whose time-outs are in milliseconds.
fn milliseconds(command: Json) -> Json {
    Json::map([
        ("type", Json::text("command")),
        ("name", Json::text(MCP_SERVER)),
        ("command", command),
        ("timeout", Json::number(HOOK_TIMEOUT_S * 1000)),
    ])
}

fn quote_posix(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
