use serde::Deserialize;

/// What a prompt makes the agent do. The words are those of the public test agent `testy`, so that scripts carry over;
/// the last five are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `help`: lists the commands.
    Help,
    /// `echo TEXT`: says the text. Any text that is no command is echoed as well.
    Echo(String),
    /// `session_updates`: one update of every kind that the client understands.
    SessionUpdates,
    /// `content`: one piece of every kind of content.
    Content,
    /// `tool_calls`: tool calls through their whole life, one completed and one failed.
    ToolCalls,
    /// `callbacks`: asks for permission, then uses the client's files and terminals as far as it offered them.
    Callbacks,
    /// `elicitations`: asks the user by form and by page, as far as the client offered them.
    Elicitations,
    /// `wait_for_cancel`: works until it is cancelled.
    WaitForCancel,
    /// `cancel_status`: says how many turns of the session were cancelled.
    CancelStatus,
    /// `full`: everything above that ends by itself.
    Full,
    /// `flood N`: that many updates.
    Flood(u64),
    /// `sleep MS`: that many milliseconds, then the end of the turn.
    Sleep(u64),
    /// `big BYTES`: one update of about that size.
    Big(usize),
    /// `crash`: the process ends at once, in the middle of the turn.
    Crash,
}

/// The most updates of one flood.
pub const FLOOD_MAX_UPDATES: u64 = 10_000_000;
/// The longest sleep, in milliseconds.
pub const SLEEP_MAX_MS: u64 = 600_000;
/// The largest update.
pub const BIG_MAX_BYTES: usize = 32 << 20;

/// What `help` says, a line a command.
pub const HELP: &str = "help, echo TEXT, session_updates, content, tool_calls, callbacks, elicitations, wait_for_cancel, \
                        cancel_status, full, flood N, sleep MS, big BYTES, crash, \
                        {\"command\":\"run_scenario\",\"scenario\":NAME}";

/// The form of a command as JSON.
#[derive(Deserialize)]
struct JsonCommand {
    command: String,
    #[serde(default)]
    scenario: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

impl Command {
    /// Reads a prompt. What is no command is echoed, so that every prompt has an answer.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.starts_with('{')
            && let Ok(json) = serde_json::from_str::<JsonCommand>(text)
        {
            let words = match json.command.as_str() {
                "run_scenario" => json.scenario.unwrap_or_default(),
                "echo" => format!("echo {}", json.message.unwrap_or_default()),
                other => other.to_owned(),
            };
            return Self::words(&words);
        }
        Self::words(text)
    }

    fn words(text: &str) -> Self {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("help", "") => Self::Help,
            ("echo", _) => Self::Echo(rest.to_owned()),
            ("session_updates", "") => Self::SessionUpdates,
            ("content", "") => Self::Content,
            ("tool_calls", "") => Self::ToolCalls,
            ("callbacks", "") => Self::Callbacks,
            ("elicitations", "") => Self::Elicitations,
            ("wait_for_cancel", "") => Self::WaitForCancel,
            ("cancel_status", "") => Self::CancelStatus,
            ("full", "") => Self::Full,
            ("crash", "") => Self::Crash,
            ("flood", number) => Self::number(number, text, |n| Self::Flood(n.min(FLOOD_MAX_UPDATES))),
            ("sleep", number) => Self::number(number, text, |n| Self::Sleep(n.min(SLEEP_MAX_MS))),
            ("big", number) => Self::number(number, text, |n| {
                Self::Big(usize::try_from(n).unwrap_or(BIG_MAX_BYTES).min(BIG_MAX_BYTES))
            }),
            _ => Self::Echo(text.to_owned()),
        }
    }

    fn number(word: &str, text: &str, make: impl FnOnce(u64) -> Self) -> Self {
        word.parse().map_or_else(|_| Self::Echo(text.to_owned()), make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_read_as_commands_and_everything_else_is_echoed() {
        let check = |text: &str, expected: Command| assert_eq!(Command::parse(text), expected, "{text}");
        check("help", Command::Help);
        check("  echo a b ", Command::Echo("a b".into()));
        check("wait_for_cancel", Command::WaitForCancel);
        check("flood 5000", Command::Flood(5000));
        check("flood many", Command::Echo("flood many".into()));
        check("sleep 99999999999", Command::Sleep(SLEEP_MAX_MS));
        check("big 1000", Command::Big(1000));
        check("say hello", Command::Echo("say hello".into()));
        check("{\"command\":\"run_scenario\",\"scenario\":\"tool_calls\"}", Command::ToolCalls);
        check("{\"command\":\"echo\",\"message\":\"x\"}", Command::Echo("x".into()));
        check("{\"not\":1}", Command::Echo("{\"not\":1}".into()));
        check("", Command::Echo(String::new()));
    }
}
