//! Why a pack cannot be used.

use std::path::PathBuf;

use thiserror::Error;

use crate::cel::ExpressionError;

use super::document::FILE_MAX_BYTES;
use super::steps::Step;

/// A pack cannot be used. Always the fault of the pack's author or of the command line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A file says something that it may not say.
    #[error("{file}:{line}: {problem}")]
    Content {
        /// The file, as the user named it; for an embedded pack its place in the project.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: Box<LoadProblem>,
    },
    /// A file or folder could not be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        source: pintle_store::FsError,
    },
    /// A file is not UTF-8.
    #[error("{path}: the file is not UTF-8", path = path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// A folder has no `pack.toml`, or no scenario.
    #[error("{path}: {problem}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        problem: &'static str,
    },
    /// No pack of that name is built in.
    #[error("there is no pack `{name}`; built in: {known}; a pack of your own is named by its path")]
    UnknownPack {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: &'static str,
    },
    /// The pack has another version.
    #[error("pack `{name}` has version {found}, not {wanted}")]
    WrongVersion {
        /// The pack.
        name: String,
        /// Its version.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// No scenario or requirement has that id.
    #[error("pack `{pack}` has no scenario or requirement `{id}`{hint}", hint = hint(nearest.as_deref()))]
    UnknownCase {
        /// The pack.
        pack: String,
        /// What was asked for.
        id: String,
        /// The id that looks most like it.
        nearest: Option<String>,
    },
}

impl LoadError {
    /// A stable word for reports.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Content { .. } | Self::NotUtf8 { .. } | Self::Folder { .. } => "bad_pack",
            Self::Read { .. } => "unreadable_pack",
            Self::UnknownPack { .. } => "unknown_pack",
            Self::WrongVersion { .. } => "wrong_pack_version",
            Self::UnknownCase { .. } => "unknown_case",
        }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|id| format!("; did you mean `{id}`?")).unwrap_or_default()
}

/// What a file says wrongly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadProblem {
    /// Not TOML, or a member that is missing, unknown or of the wrong type.
    #[error("{0}")]
    Toml(String),
    /// Over [`FILE_MAX_BYTES`].
    #[error("the file has more than {FILE_MAX_BYTES} bytes")]
    FileTooLarge,
    /// Another schema.
    #[error("schema must be \"{expected}\", not \"{found}\"")]
    Schema {
        /// What this version reads.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A name that does not have the form of its kind.
    #[error("{what} `{value}` must be {form}")]
    Form {
        /// Of what.
        what: &'static str,
        /// What stands there.
        value: String,
        /// What it should look like.
        form: &'static str,
    },
    /// `[[step]]` or `[[requirement]]` is something else.
    #[error("`{name}` must be an array of tables, written as [[{name}]]")]
    NotTables {
        /// The member.
        name: &'static str,
    },
    /// A step without `do`.
    #[error("a step needs `do`, one of {kinds}", kinds = kinds())]
    StepWithoutKind,
    /// A kind that there is not.
    #[error("there is no step kind `{0}`; there are {kinds}", kinds = kinds())]
    UnknownStepKind(String),
    /// A TOML date.
    #[error("a date cannot be sent as JSON; write a string")]
    Datetime,
    /// A scenario without steps.
    #[error("a scenario needs at least one [[step]]")]
    NoSteps,
    /// Too many of something.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// A name that is used twice.
    #[error("{what} `{name}` is already used in {place}")]
    Duplicate {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
        /// Where it is used first: `FILE:LINE`.
        place: String,
    },
    /// A reference that leads nowhere.
    #[error("no {what} is named `{name}` here{known}")]
    UnknownReference {
        /// What it should be.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that there are, as `; there are a, b`, or empty.
        known: String,
    },
    /// A variable where none is filled in.
    #[error(
        "`{member}` is sent as it is written, and `${{{name}}}` is not filled in: `blocks` takes variables, and `$${{` for a plain `${{`"
    )]
    NotFilled {
        /// The member that has it.
        member: &'static str,
        /// The variable.
        name: String,
    },
    /// Members that exclude each other, or that need each other.
    #[error("`{step}` needs {rule}")]
    Members {
        /// The step's kind.
        step: &'static str,
        /// The rule.
        rule: &'static str,
    },
    /// A member that must be JSON text.
    #[error("`{member}` is not JSON: {reason}")]
    NotJson {
        /// The member.
        member: &'static str,
        /// Why.
        reason: String,
    },
    /// Bytes that are not base64.
    #[error("`base64` is not standard base64 with padding")]
    NotBase64,
    /// More bytes than a step may write.
    #[error("the step writes {bytes} bytes, more than {limit}")]
    TooManyBytes {
        /// How many.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A wait that is too long.
    #[error("{ms} ms is longer than the limit of {limit} ms")]
    TooLong {
        /// The wait.
        ms: u64,
        /// The limit.
        limit: u64,
    },
    /// A requirement without assertions.
    #[error("a requirement needs at least one expression in `assert`")]
    NoAssertion,
    /// Requirements that depend on each other.
    #[error("`{0}` depends on itself, by way of {1}")]
    DependencyCycle(String, String),
    /// An expression that may not stand here.
    #[error("in `{member}`: {source}")]
    Expression {
        /// The member.
        member: &'static str,
        /// What is wrong with it.
        source: ExpressionError,
    },
}

fn kinds() -> String {
    Step::KINDS.join(", ")
}
