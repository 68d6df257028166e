use thiserror::Error;

/// What is wrong with a file that should be edited. The file is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditFault {
    /// Over the size that is edited.
    TooLarge,
    /// Not UTF-8.
    Encoding,
    /// A byte order mark: Codex drops the whole file for it.
    Bom,
    /// A comment, for which the agent drops the whole file.
    Comment,
    /// A member name twice, for which the agent drops the whole file.
    DuplicateKey,
    /// A comma behind the last member or item.
    TrailingComma,
    /// Half a surrogate pair.
    LoneSurrogate,
    /// A number that no double can hold.
    HugeNumber,
    /// More containers in one another than the agent reads, or than we edit.
    TooDeep,
    /// A member of the root for which the agent drops the file.
    RootMember,
    /// Not JSON.
    Syntax,
    /// The root is not an object.
    NotAnObject,
    /// Something has another shape than the agent reads.
    Schema,
    /// Not TOML.
    TomlSyntax,
    /// Lines end with LF here and with CRLF there, and our table can only be edited together with others.
    MixedLineEnds,
    /// A marked block whose end is missing, so that nobody can say what is ours.
    RulesBlock,
    /// The plugin file at our path was not written by us.
    ForeignFile,
}

impl EditFault {
    /// The stable code of the receipt.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "JSON_TOO_LARGE",
            Self::Encoding => "JSON_ENCODING",
            Self::Bom => "JSON_BOM",
            Self::Comment => "JSON_COMMENT",
            Self::DuplicateKey => "JSON_DUPLICATE_KEY",
            Self::TrailingComma => "JSON_TRAILING_COMMA",
            Self::LoneSurrogate => "JSON_LONE_SURROGATE",
            Self::HugeNumber => "JSON_NUMBER",
            Self::TooDeep => "JSON_TOO_DEEP",
            Self::RootMember => "JSON_ROOT_MEMBER",
            Self::Syntax => "JSON_SYNTAX",
            Self::NotAnObject => "JSON_ROOT",
            Self::Schema => "HOOKS_SCHEMA_INVALID",
            Self::TomlSyntax => "TOML_SYNTAX",
            Self::MixedLineEnds => "TOML_LINE_ENDS",
            Self::RulesBlock => "RULES_BLOCK_OPEN",
            Self::ForeignFile => "DESTINATION_INVALID",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::TooLarge => "the file is larger than a settings file can be",
            Self::Encoding => "the file is not UTF-8",
            Self::Bom => "the file begins with a byte order mark, for which the agent drops it whole",
            Self::Comment => "the file has a comment, for which the agent drops it whole",
            Self::DuplicateKey => "a member name stands twice, for which the agent drops the file whole",
            Self::TrailingComma => "a comma is followed by nothing, for which the agent drops the file whole",
            Self::LoneSurrogate => "an escape is half a character, for which the agent drops the file whole",
            Self::HugeNumber => "a number is too large, for which the agent drops the file whole",
            Self::TooDeep => "values are nested deeper than the agent, or an edit, goes",
            Self::RootMember => "the root has a member that the agent does not know, for which it drops the file whole",
            Self::Syntax => "the file is not JSON",
            Self::NotAnObject => "the file is not a JSON object",
            Self::Schema => "a member has another shape than the agent reads",
            Self::TomlSyntax => "the file is not TOML",
            Self::MixedLineEnds => "its lines end with LF here and with CRLF there",
            Self::RulesBlock => "our block has a beginning and no end",
            Self::ForeignFile => "the file at our path was not written by pintle",
        }
    }
}

/// A fault with its place. The text never repeats what the file holds, but for the name of a member that we look for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}", fault.text(), place(*line, *column, member.as_deref()))]
pub struct EditError {
    fault: EditFault,
    line: usize,
    column: usize,
    member: Option<String>,
}

impl EditError {
    pub(crate) const fn new(fault: EditFault) -> Self {
        Self { fault, line: 0, column: 0, member: None }
    }

    pub(crate) const fn at(fault: EditFault, line: usize, column: usize) -> Self {
        Self { fault, line, column, member: None }
    }

    pub(crate) fn member(fault: EditFault, member: Option<&str>) -> Self {
        Self { fault, line: 0, column: 0, member: member.map(str::to_owned) }
    }

    /// Which fault it is.
    pub const fn fault(&self) -> EditFault {
        self.fault
    }
}

fn place(line: usize, column: usize, member: Option<&str>) -> String {
    match (line, member) {
        (0, None) => String::new(),
        (0, Some(member)) => format!(" (member `{member}`)"),
        (line, _) => format!(" (line {line}, column {column})"),
    }
}
