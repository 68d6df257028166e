//! What a wrong command line was probably meant to be.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options whose value may be a secret, which is not repeated.
const WITH_SECRETS: [&str; 2] = ["--env", "--secret"];

/// Adds a tip where a command line is right with `--` before the agent, by far the likeliest mistake of who checks one for
/// the first time. `parses` says whether a command line would be taken.
pub(crate) fn agent_after_dashes(error: &mut clap::Error, args: &[OsString], parses: impl Fn(&[OsString]) -> bool) {
    if let Some(meant) = with_dashes(error, args, parses) {
        let tip = format!("the agent comes after `--`: {}", shown(&meant));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
}

fn with_dashes(error: &clap::Error, args: &[OsString], parses: impl Fn(&[OsString]) -> bool) -> Option<Vec<OsString>> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(context) else { return None };
    // An unknown option is more likely a mistake of its own.
    if word.starts_with('-') || args.iter().any(|arg| arg == "--") {
        return None;
    }
    args.iter().enumerate().skip(1).filter(|(_, arg)| arg.to_str() == Some(word)).find_map(|(at, _)| {
        let mut meant = args.to_vec();
        meant.insert(at, "--".into());
        parses(&meant).then_some(meant)
    })
}

/// The words as a shell takes them.
fn shown(args: &[OsString]) -> String {
    let mut words = vec!["pintle".to_owned()];
    let mut before = "";
    for arg in args.iter().skip(1) {
        let word = arg.to_string_lossy();
        let option =
            WITH_SECRETS.iter().find(|option| word.starts_with(**option) && word[option.len()..].starts_with('='));
        let from = if WITH_SECRETS.contains(&before) { Some(0) } else { option.map(|option| option.len() + 1) };
        let value = from.and_then(|from| Some(from + word[from..].find('=')?));
        words.push(match value {
            Some(at) => quoted(&format!("{}=..", &word[..at])),
            None => quoted(&word),
        });
        before = arg.to_str().unwrap_or_default();
    }
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { shell_words::quote(word).into_owned() }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn command() -> Command {
        let agent = || Arg::new("agent").last(true).num_args(0..);
        let check =
            Command::new("check").arg(Arg::new("case").long("case")).arg(Arg::new("env").long("env")).arg(agent());
        let trace = Command::new("trace").subcommand(Command::new("show")).arg(agent());
        Command::new("pintle").subcommand(check).subcommand(trace.args_conflicts_with_subcommands(true))
    }

    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        let args: Vec<OsString> = shell_words::split(line).expect("words").into_iter().map(OsString::from).collect();
        let parse = |args: &[OsString]| command().try_get_matches_from(args);
        let mut error = parse(&args).expect_err("it is wrong");
        agent_after_dashes(&mut error, &args, |args| parse(args).is_ok());
        let text = error.to_string();
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: the agent comes after `--`: "));
        assert_eq!(tip, expected, "{text}");
    }

    #[test]
    fn a_forgotten_pair_of_dashes_is_told() {
        check("pintle check node agent.mjs", Some("pintle check -- node agent.mjs"));
        check("pintle check --case x node 'my agent.mjs'", Some("pintle check --case x -- node 'my agent.mjs'"));
        check("pintle check --case node node a", Some("pintle check --case node -- node a"));
        check("pintle trace node agent.mjs --acp", Some("pintle trace -- node agent.mjs --acp"));
        check("pintle check --nope node", None);
        check("pintle check x -- y", None);
        check("pintle chekc node", None);
        check("pintle trace show x", None);
    }

    /// The line may be copied into a report of a fault.
    #[test]
    fn values_of_variables_are_not_repeated() {
        check("pintle check --env KEY=secret node", Some("pintle check --env KEY=.. -- node"));
        check("pintle check --env=KEY=secret node", Some("pintle check --env=KEY=.. -- node"));
        check("pintle check --env KEY node", Some("pintle check --env KEY -- node"));
    }
}
