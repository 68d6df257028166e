//! What an earlier install left in a file: for a doctor, who compares it with what a new install would write.

use super::change::{HookShape, TargetRole, is_ours};
use super::dialect::Dialect;
use super::error::EditError;
use super::json_edit::{Json, JsonDoc, Step};
use super::setup::MCP_SERVER;
use super::{plugin, toml_file};
use crate::Agent;

/// The hooks of ours in a file, by the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The program that the hook runs.
    pub program: String,
    /// Whether a failure blocks the prompt.
    pub strict: bool,
    /// Whether contexts name the MCP tools.
    pub mcp: bool,
    /// Whether it stands as a program with arguments, without a shell.
    pub exec_form: bool,
    /// How many handlers of ours there are.
    pub handlers: usize,
}

impl Installed {
    /// Reads a hooks file, or our plugin; `None` when nothing of ours is in it.
    ///
    /// # Errors
    /// [`EditError`] where the file cannot be read.
    pub fn in_hooks(agent: Agent, bytes: &[u8]) -> Result<Option<Self>, EditError> {
        if agent == Agent::Opencode {
            return Ok(plugin::command(bytes).map(|words| Self::of_words(words, true, 1)));
        }
        let doc = JsonDoc::parse(bytes, Dialect::of(agent, TargetRole::Hooks))?;
        let Some(Json::Map(events)) = doc.value(&[Step::Member("hooks")]) else { return Ok(None) };
        let mut found: Option<Self> = None;
        for (_, groups) in &events {
            let groups = groups.as_list().unwrap_or_default();
            for shape in [HookShape::Flat, HookShape::Grouped] {
                for handler in handlers(groups, shape).filter(|handler| is_ours(handler, agent)) {
                    match &mut found {
                        Some(found) => found.handlers += 1,
                        None => found = Some(Self::of_handler(handler)),
                    }
                }
            }
        }
        Ok(found)
    }

    fn of_handler(handler: &Json) -> Self {
        let args = handler
            .get("args")
            .and_then(Json::as_list)
            .map(|list| list.iter().filter_map(Json::as_text).map(str::to_owned).collect::<Vec<_>>());
        if let Some(args) = args {
            let program = ["exec", "command"].iter().find_map(|name| handler.get(name).and_then(Json::as_text));
            let words = std::iter::once(program.unwrap_or_default().to_owned()).chain(args).collect();
            return Self::of_words(words, true, 1);
        }
        let line = ["command", "commandWindows", "bash", "powershell"]
            .iter()
            .find_map(|name| handler.get(name).and_then(Json::as_text).filter(|line| line.contains(" hook --agent ")));
        Self::of_words(split(line.unwrap_or_default()), false, 1)
    }

    fn of_words(words: Vec<String>, exec_form: bool, handlers: usize) -> Self {
        let has = |word: &str| words.iter().any(|own| own == word);
        Self {
            strict: !has("open"),
            mcp: has("--mcp"),
            exec_form,
            handlers,
            program: words.into_iter().next().unwrap_or_default(),
        }
    }
}

/// The command of our MCP server in a file, program first; `None` when it is not registered there.
///
/// # Errors
/// [`EditError`] where the file cannot be read.
pub fn installed_server(agent: Agent, bytes: &[u8]) -> Result<Option<Vec<String>>, EditError> {
    if agent == Agent::Codex {
        return toml_file::server(bytes);
    }
    let list = if agent == Agent::Opencode { "mcp" } else { "mcpServers" };
    let doc = JsonDoc::parse(bytes, Dialect::of(agent, TargetRole::Mcp))?;
    let Some(server) = doc.value(&[Step::Member(list), Step::Member(MCP_SERVER)]) else { return Ok(None) };
    let words = |value: Option<&Json>| match value {
        Some(Json::Text(program)) => vec![program.clone()],
        Some(Json::List(words)) => words.iter().filter_map(Json::as_text).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let mut command = words(server.get("command"));
    command.extend(words(server.get("args")));
    Ok(Some(command))
}

/// Whether a settings file switches every hook off, and by which member.
pub fn hooks_switch(agent: Agent, bytes: &[u8]) -> Option<&'static str> {
    let doc = JsonDoc::parse(bytes, Dialect::of(agent, TargetRole::Hooks)).ok()?;
    let is = |path: &[Step<'_>], value: bool| doc.value(path) == Some(Json::bool(value));
    if is(&[Step::Member("disableAllHooks")], true) {
        return Some("disableAllHooks");
    }
    if is(&[Step::Member("hooksConfig"), Step::Member("enabled")], false) {
        return Some("hooksConfig.enabled");
    }
    is(&[Step::Member("tools"), Step::Member("enableHooks")], false).then_some("tools.enableHooks")
}

fn handlers(groups: &[Json], shape: HookShape) -> impl Iterator<Item = &Json> {
    groups.iter().flat_map(move |group| match shape {
        HookShape::Flat => std::slice::from_ref(group),
        HookShape::Grouped => group.get("hooks").and_then(Json::as_list).unwrap_or_default(),
    })
}

/// The words of a line that we wrote: single quotes, and the quoted quote of POSIX shells.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => quoted = !quoted,
            '\\' if !quoted && cfg!(unix) => word.extend(chars.next()),
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shell;
    use crate::install::{Dirs, Setup, TargetRole};

    fn setup(agent: Agent, program: &str, strict: bool, mcp: bool) -> Setup {
        let exec_form = agent == Agent::Claude;
        Setup { agent, program: program.to_owned(), shell: Shell::Posix, exec_form, strict, mcp, rules: true }
    }

    /// Whatever an install writes is read back as what was asked for, for every agent and choice.
    #[cfg(unix)]
    #[test]
    fn what_was_installed_is_read_back() {
        let dirs = Dirs { home: "/h".into(), ..Dirs::default() };
        for agent in Agent::ALL.into_iter().filter(|agent| *agent != Agent::Generic) {
            for program in ["/opt/pintle", "/with space/it's/pintle"] {
                for (strict, mcp) in [(false, true), (true, false)] {
                    let targets = setup(agent, program, strict, mcp).targets(&dirs);
                    let hooks = targets[0].install(None).expect("installs").bytes.expect("a file");
                    let found = Installed::in_hooks(agent, &hooks).expect("reads").expect("ours");
                    assert_eq!((found.program.as_str(), found.strict, found.mcp), (program, strict, mcp), "{agent}");
                    let server = targets.iter().find(|target| target.role == TargetRole::Mcp).unwrap_or(&targets[0]);
                    let server = server.install(None).expect("installs").bytes.expect("a file");
                    if agent != Agent::Opencode || mcp {
                        let command = installed_server(agent, &server).unwrap_or_default();
                        let expected = mcp
                            .then(|| [program, "task", "mcp", "--agent", agent.as_str()].map(str::to_owned).to_vec());
                        assert_eq!(command, expected, "{agent}");
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_of_ours_is_nothing() {
        let others = br#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}"#;
        assert_eq!(Installed::in_hooks(Agent::Codex, others), Ok(None));
        assert_eq!(installed_server(Agent::Claude, b"{}"), Ok(None));
        assert_eq!(installed_server(Agent::Codex, b"model = 'x'\n"), Ok(None));
    }

    #[test]
    fn the_switches_are_found() {
        assert_eq!(hooks_switch(Agent::Claude, br#"{"disableAllHooks":true}"#), Some("disableAllHooks"));
        assert_eq!(hooks_switch(Agent::Gemini, br#"{"hooksConfig":{"enabled":false}}"#), Some("hooksConfig.enabled"));
        assert_eq!(hooks_switch(Agent::Claude, br#"{"disableAllHooks":false}"#), None);
    }
}
