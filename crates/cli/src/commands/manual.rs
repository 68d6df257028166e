//! `pintle completions` and `pintle man`: what shells complete and what `man` shows, out of the description of the command
//! line that the help is made of.

use std::io::{self, Write};

use clap::{Args, Command};
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
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    print(&page)
}

fn print(bytes: &[u8]) -> Result<Exit, CommandError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Exit::Ok)
}
