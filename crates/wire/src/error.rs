//! Why bytes are not strict JSON, and where.

use std::fmt;

/// Stable class of a [`JsonError`]: what a caller maps to its protocol's own error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JsonErrorClass {
    /// More bytes than [`ScanLimits::max_bytes`](crate::ScanLimits::max_bytes).
    TooLarge,
    /// Not UTF-8.
    Encoding,
    /// Not one value of the RFC 8259 grammar.
    Syntax,
    /// A value deeper than [`ScanLimits::max_depth`](crate::ScanLimits::max_depth).
    TooDeep,
    /// Two members of one object have the same name after unescaping.
    DuplicateName,
    /// A number that no IEEE 754 double holds.
    NumberRange,
    /// A surrogate escape without its other half.
    Surrogate,
}

impl JsonErrorClass {
    /// The class as a stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Encoding => "encoding",
            Self::Syntax => "syntax",
            Self::TooDeep => "too_deep",
            Self::DuplicateName => "duplicate_name",
            Self::NumberRange => "number_range",
            Self::Surrogate => "surrogate",
        }
    }
}

impl fmt::Display for JsonErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The precise reason of a [`JsonError`]. It names rules and limits, never content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JsonReason {
    /// The text is longer than this many bytes.
    TooLarge {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A byte sequence that is not UTF-8.
    InvalidUtf8,
    /// Nothing, or nothing but white space.
    Empty,
    /// The text starts with a byte order mark.
    ByteOrderMark,
    /// The text ends inside a value.
    UnexpectedEnd,
    /// A byte that cannot start a value.
    ExpectedValue,
    /// A byte that cannot start a member name, or a closing brace after a comma.
    ExpectedName,
    /// A member name without its colon.
    ExpectedColon,
    /// Neither a comma nor the end of the array or object.
    ExpectedCommaOrEnd,
    /// A letter sequence that is not `true`, `false` or `null`.
    InvalidLiteral,
    /// A number that the grammar does not have (leading zero, missing digits).
    InvalidNumber,
    /// An escape that the grammar does not have.
    InvalidEscape,
    /// A control character inside a string.
    ControlCharacter,
    /// More text after the value.
    TrailingData,
    /// A value deeper than this level (the root is level 0).
    TooDeep {
        /// The deepest level at which a value may sit.
        limit_levels: usize,
    },
    /// A member name that the object already has.
    DuplicateName,
    /// A number beyond the range of a double.
    NumberOutOfRange,
    /// A surrogate escape that is not half of a pair.
    LoneSurrogate,
}

impl JsonReason {
    /// The class that this reason belongs to.
    pub const fn class(self) -> JsonErrorClass {
        match self {
            Self::TooLarge { .. } => JsonErrorClass::TooLarge,
            Self::InvalidUtf8 => JsonErrorClass::Encoding,
            Self::TooDeep { .. } => JsonErrorClass::TooDeep,
            Self::DuplicateName => JsonErrorClass::DuplicateName,
            Self::NumberOutOfRange => JsonErrorClass::NumberRange,
            Self::LoneSurrogate => JsonErrorClass::Surrogate,
            Self::Empty
            | Self::ByteOrderMark
            | Self::UnexpectedEnd
            | Self::ExpectedValue
            | Self::ExpectedName
            | Self::ExpectedColon
            | Self::ExpectedCommaOrEnd
            | Self::InvalidLiteral
            | Self::InvalidNumber
            | Self::InvalidEscape
            | Self::ControlCharacter
            | Self::TrailingData => JsonErrorClass::Syntax,
        }
    }
}

impl fmt::Display for JsonReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit_bytes } => write!(f, "text is longer than {limit_bytes} bytes"),
            Self::InvalidUtf8 => f.write_str("text is not UTF-8"),
            Self::Empty => f.write_str("no value"),
            Self::ByteOrderMark => f.write_str("byte order mark before the value"),
            Self::UnexpectedEnd => f.write_str("text ends inside a value"),
            Self::ExpectedValue => f.write_str("expected a value"),
            Self::ExpectedName => f.write_str("expected a member name"),
            Self::ExpectedColon => f.write_str("expected a colon after a member name"),
            Self::ExpectedCommaOrEnd => f.write_str("expected a comma or the end of the array or object"),
            Self::InvalidLiteral => f.write_str("expected true, false or null"),
            Self::InvalidNumber => f.write_str("malformed number"),
            Self::InvalidEscape => f.write_str("malformed escape in a string"),
            Self::ControlCharacter => f.write_str("control character in a string"),
            Self::TrailingData => f.write_str("more text after the value"),
            Self::TooDeep { limit_levels } => write!(f, "value is nested deeper than {limit_levels} levels"),
            Self::DuplicateName => f.write_str("duplicate member name"),
            Self::NumberOutOfRange => f.write_str("number is beyond the range of a double"),
            Self::LoneSurrogate => f.write_str("surrogate escape without its other half"),
        }
    }
}

/// The bytes are not strict JSON: class, place and reason.
///
/// `Display` gives the reason and the place and never a byte of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {offset} (line {line}, column {column})")]
pub struct JsonError {
    /// Stable class.
    pub class: JsonErrorClass,
    /// Zero-based offset, in bytes, of the first byte that is wrong (the length of the text, when it ends too early).
    pub offset: usize,
    /// One-based line of `offset`; lines end at LF.
    pub line: usize,
    /// One-based column of `offset`, in bytes.
    pub column: usize,
    /// What is wrong.
    pub reason: JsonReason,
}

impl JsonError {
    /// An error at `offset` of `bytes`, with line and column worked out.
    pub(crate) fn at(bytes: &[u8], offset: usize, reason: JsonReason) -> Self {
        let before = &bytes[..offset.min(bytes.len())];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |lf| lf + 1) + 1;
        Self { class: reason.class(), offset, line, column, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_counts_lines_and_bytes() {
        let bytes = b"{\n \"a\": x}";
        let error = JsonError::at(bytes, 8, JsonReason::ExpectedValue);
        assert_eq!((error.line, error.column, error.class), (2, 7, JsonErrorClass::Syntax));
        assert_eq!(error.to_string(), "expected a value at byte 8 (line 2, column 7)");
    }
}
