use crate::{Agent, SessionId};

/// Over this length the publisher's path is not printed: the pointer text needs the room more.
pub const PUBLISHER_MAX_BYTES: usize = 4096;

/// From this length of program and root on it is worth to look up whether the bare name would do.
pub const CONTEXT_ROOM_FOR_PATHS_BYTES: usize = 512;

/// How the model publishes: the `publisher:` line of a context block (A2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// With the MCP tools of `pintle task mcp`.
    Tool,
    /// With a shell command.
    Command(PublisherCommand),
}

/// A shell command, quoted for the shell of the system it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherCommand {
    // Quoted words; `None` where the path cannot be printed in one line.
    program: Option<String>,
    options: Option<String>,
    on_path: Option<String>,
}

/// Which quoting the agent's shell understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// POSIX shells.
    Posix,
    /// cmd and PowerShell, as far as they agree.
    Windows,
}

impl PublisherCommand {
    /// The command for the program as it was installed (never its resolved path, which a package manager's next upgrade
    /// removes). `on_path` is its bare name, when that name finds it too: the form to fall back on where the path is
    /// long. A path that is not UTF-8 is `None`.
    pub fn new(program: Option<&str>, on_path: Option<&str>, root: Option<&str>, agent: Agent, shell: Shell) -> Self {
        let root = root.and_then(|root| quote(root, shell));
        Self {
            program: program.and_then(|program| quote(program, shell)),
            options: root.map(|root| format!(" --root {root} --agent {agent}")),
            on_path: on_path.and_then(|name| quote(name, shell)),
        }
    }

    fn full(&self, verb: &str) -> Option<String> {
        Some(format!("{} task {verb}{}", self.program.as_ref()?, self.options.as_ref()?))
            .filter(|line| line.len() <= PUBLISHER_MAX_BYTES)
    }

    fn bare(&self, verb: &str) -> Option<String> {
        let name = self.on_path.as_ref()?;
        let options = self.options.as_deref().unwrap_or_default();
        let line = format!("{name} task {verb}{options}");
        if line.len() <= PUBLISHER_MAX_BYTES / 4 { Some(line) } else { Some(format!("{name} task {verb}")) }
    }
}

const UNPRINTABLE: &str = "the pintle program that this hook runs, whose path is too long to print, with: task publish";

impl Publisher {
    /// The value of the `publisher:` line. With `shorten`, the bare command name where there is one.
    pub(crate) fn publish(&self, shorten: bool) -> String {
        match self {
            Self::Tool => "publish with the tool task_publish".to_owned(),
            Self::Command(command) => pick(command, "publish", shorten).unwrap_or_else(|| UNPRINTABLE.to_owned()),
        }
    }

    /// The value of the `read:` line of a block whose text was cut.
    pub(crate) fn show(&self, session: &SessionId) -> String {
        match self {
            Self::Tool => "read the rest with the tool task_get".to_owned(),
            Self::Command(command) => pick(command, &format!("show {session}"), true)
                .filter(|line| line.len() <= PUBLISHER_MAX_BYTES / 4)
                .unwrap_or_else(|| format!("the publisher program with: task show {session}")),
        }
    }
}

fn pick(command: &PublisherCommand, verb: &str, shorten: bool) -> Option<String> {
    if shorten {
        command.bare(verb).or_else(|| command.full(verb))
    } else {
        command.full(verb).or_else(|| command.bare(verb))
    }
}

/// One word of a command line; `None` where a control character would break the line (or forge a header in it).
fn quote(word: &str, shell: Shell) -> Option<String> {
    if word.is_empty() || word.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return None;
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | ':' | '@' | '%' | '=');
    match shell {
        Shell::Posix if word.chars().all(plain) => Some(word.to_owned()),
        Shell::Posix => Some(format!("'{}'", word.replace('\'', "'\\''"))),
        Shell::Windows if word.chars().all(|c| plain(c) || c == '\\') => Some(word.to_owned()),
        Shell::Windows if word.contains('"') => None,
        Shell::Windows => Some(format!("\"{word}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        let check = |word: &str, shell, expected: Option<&str>| {
            assert_eq!(quote(word, shell).as_deref(), expected, "{word:?}");
        };
        check("/usr/bin/pintle", Shell::Posix, Some("/usr/bin/pintle"));
        check("/home/a b/pintle", Shell::Posix, Some("'/home/a b/pintle'"));
        check("/it's", Shell::Posix, Some("'/it'\\''s'"));
        check("/a$(b)", Shell::Posix, Some("'/a$(b)'"));
        check("/a\nTASK_POINTER_V2", Shell::Posix, None);
        check("C:\\bin\\pintle.exe", Shell::Windows, Some("C:\\bin\\pintle.exe"));
        check("C:\\Program Files\\p.exe", Shell::Windows, Some("\"C:\\Program Files\\p.exe\""));
        check("", Shell::Posix, None);
    }

    #[test]
    fn long_and_unprintable_paths_fall_back() {
        let session: SessionId = "s".parse().expect("id");
        let long = format!("/{}", "d".repeat(PUBLISHER_MAX_BYTES));
        let command = |program: Option<&str>, on_path| {
            Publisher::Command(PublisherCommand::new(program, on_path, Some("/r"), Agent::Codex, Shell::Posix))
        };
        assert_eq!(
            command(Some("/bin/pintle"), None).publish(false),
            "/bin/pintle task publish --root /r --agent codex"
        );
        assert_eq!(command(Some(&long), Some("pintle")).publish(false), "pintle task publish --root /r --agent codex");
        assert_eq!(command(Some(&long), None).publish(false), UNPRINTABLE);
        assert_eq!(command(None, None).publish(true), UNPRINTABLE);
        assert!(command(Some(&long), None).show(&session).len() < 200);
    }
}
