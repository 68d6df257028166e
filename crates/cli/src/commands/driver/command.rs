//! A driver that the user names.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use pintle_sdk::process::Program;

use crate::error::CommandError;
use crate::exit::Exit;

/// A command line, ready to be started in a directory of its own.
pub(crate) struct DriverLine {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    /// The file whose digest identifies the driver: its last argument that is a file, else its program.
    pub(crate) artifact: PathBuf,
}

impl DriverLine {
    /// Splits a command line by the word rules of POSIX; no shell is started.
    pub(crate) fn split(line: &str, current: &Path) -> Result<Self, CommandError> {
        let words = shell_words::split(line)
            .map_err(|error| CommandError::usage(format!("split the driver's command line `{line}`: {error}")))?;
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        Self::find(&words, current)
    }

    /// Finds the program on PATH, and makes the files that are named independent of the directory.
    pub(crate) fn find(words: &[OsString], current: &Path) -> Result<Self, CommandError> {
        let Some((name, rest)) = words.split_first() else {
            return Err(CommandError::usage("start the driver: its command line is empty"));
        };
        let path = std::env::var_os("PATH");
        let program = Program::find(name, path.as_deref(), current)
            .map_err(|error| CommandError::caused(Exit::Usage, "driver", &error))?;
        let named: Vec<(OsString, Option<PathBuf>)> = rest.iter().map(|word| named(word, current)).collect();
        let artifact = named.iter().rev().find_map(|(_, file)| file.clone());
        let artifact = artifact.unwrap_or_else(|| program.path().to_owned());
        Ok(Self { program, args: named.into_iter().map(|(word, _)| word).collect(), artifact })
    }
}

fn named(word: &OsStr, current: &Path) -> (OsString, Option<PathBuf>) {
    let file = current.join(word);
    if file.is_file() { (file.clone().into(), Some(file)) } else { (word.to_owned(), None) }
}
