//! `pintle completions` and `pintle man`: what shells complete and what `man` shows, out of the description of the command
//! line that the help is made of.

use std::io::{self, Write};

use clap::{Arg, ArgAction, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::CommandError;
use crate::exit::Exit;

/// For which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// For which command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is wanted, as it is typed behind `pintle`. Default: that of `pintle` itself.
    #[arg(value_name = "COMMAND")]
    path: Vec<String>,
}

/// Prints the script that teaches a shell.
pub(crate) fn completions(args: &CompletionsArgs, mut pintle: Command) -> Result<Exit, CommandError> {
    // It writes to memory first: a shell must not read half a script, and a closed output is no panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut pintle, "pintle", &mut script);
    print(&script)
}

/// Prints one manual page.
pub(crate) fn man(args: &ManArgs, mut pintle: Command) -> Result<Exit, CommandError> {
    pintle.build();
    let mut command = pintle;
    for name in &args.path {
        let Some(next) = command.find_subcommand(name) else {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let what = format!("find the command `{name}` below `{}`", command.get_bin_name().unwrap_or("pintle"));
            return Err(CommandError::new(Exit::Usage, "command", what).hint(match names.as_slice() {
                [] => "it has no commands".to_owned(),
                names => format!("there are {}", names.join(", ")),
            }));
        };
        command = next.clone();
    }
    let synopsis = synopsis(&command);
    let mut page = Vec::new();
    let source = concat!("pintle ", env!("CARGO_PKG_VERSION"));
    Man::new(command.override_usage(synopsis)).source(source).render(&mut page)?;
    print(&page)
}

/// How a command is called, with the names of what its options take.
fn synopsis(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or("pintle").to_owned()];
    let is_shown = |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    words.extend(command.get_opts().filter(is_shown).map(synopsis_of));
    let flag = |arg: &&Arg| is_shown(arg) && !arg.is_positional() && !arg.get_action().takes_values();
    words.extend(command.get_arguments().filter(flag).map(synopsis_of));
    words.extend(command.get_positionals().filter(is_shown).map(synopsis_of));
    if command.has_subcommands() {
        words.push("COMMAND".to_owned());
    }
    words.join(" ")
}

fn synopsis_of(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) if arg.is_last_set() => "--".to_owned(),
        (None, None) => String::new(),
    };
    let takes_none = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let word = match (name.as_str(), arg.get_action().takes_values()) {
        ("", _) => values,
        (_, false) => name,
        (_, true) if takes_none && !arg.is_last_set() => format!("{name}[={values}]"),
        (_, true) => format!("{name} {values}"),
    };
    let more = matches!(arg.get_action(), ArgAction::Append) || arg.get_num_args().is_some_and(|n| n.max_values() > 1);
    let more = if more { ".." } else { "" };
    if arg.is_required_set() { format!("{word}{more}") } else { format!("[{word}]{more}") }
}

fn print(bytes: &[u8]) -> Result<Exit, CommandError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Exit::Ok)
}
