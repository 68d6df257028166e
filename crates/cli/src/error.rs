//! What a command says when it cannot do what was asked.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use crate::exit::Exit;

/// A failure with its exit code and what the user can do about it.
///
/// The message completes "failed to ...", names the place, and never repeats a payload or a secret.
#[derive(Debug)]
pub(crate) struct CommandError {
    exit: Exit,
    class: &'static str,
    message: String,
    hints: Vec<String>,
}

impl CommandError {
    /// A failure that ends with `exit`; `class` is its stable word in JSON.
    pub(crate) fn new(exit: Exit, class: &'static str, message: impl fmt::Display) -> Self {
        Self { exit, class, message: message.to_string(), hints: Vec::new() }
    }

    /// The user's: a wrong command line or a wrong file.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// An error of a library, with the errors below it.
    pub(crate) fn caused(exit: Exit, class: &'static str, error: &dyn Error) -> Self {
        Self::new(exit, class, chain(error))
    }

    /// Adds a line that says what to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Adds a line for each of these.
    #[must_use]
    pub(crate) fn hint_all(mut self, hints: Vec<String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// The stable word of the failure.
    pub(crate) const fn class(&self) -> &'static str {
        self.class
    }

    /// What could not be done, without its hints.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The exit code.
    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether the reader of our output is gone, which is no failure of ours.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.class == "broken_pipe"
    }

    /// Writes it to standard error: lines for people, or one JSON object.
    pub(crate) fn print(&self, json: bool) {
        let mut err = anstream::stderr().lock();
        // A closed standard error leaves nobody to tell.
        let _ = if json { self.write_json(&mut err) } else { self.write_human(&mut err) };
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let line = serde_json::json!({
            "error": { "class": self.class, "message": self.message, "hints": self.hints, "exit": self.exit as u8 }
        });
        writeln!(out, "{line}")
    }

    fn write_human(&self, out: &mut dyn Write) -> io::Result<()> {
        let red = anstyle::AnsiColor::Red.on_default().bold();
        writeln!(out, "{red}error{red:#}: failed to {}", self.message)?;
        for hint in &self.hints {
            writeln!(out, "  hint: {hint}")?;
        }
        Ok(())
    }
}

impl From<io::Error> for CommandError {
    /// An error of writing our own output; every other IO error carries its path and comes from the store.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Ok, "broken_pipe", "write the output");
        }
        Self::new(Exit::Failed, "output", format!("write the output: {error}"))
    }
}

/// An error and the ones below it, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(source) = below {
        let more = source.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        below = source.source();
    }
    text
}
