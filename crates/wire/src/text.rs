//! A text that the scan has accepted, and decoding it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use crate::members::Members;

/// What the root of a [`Text`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RootKind {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

/// What the scan found out about a text.
pub(crate) struct Scanned<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) text: Cow<'a, str>,
    pub(crate) lone_surrogates: u32,
    pub(crate) root: RootKind,
    /// The names of every object are in canonical order.
    pub(crate) sorted: bool,
    /// There is no white space, and every string and number is spelled canonically.
    pub(crate) plain: bool,
    pub(crate) members: Members,
}

/// Proof that bytes passed the strict [`scan`](crate::scan): the only thing that serde may be given.
#[derive(Clone)]
pub struct Text<'a> {
    raw: &'a [u8],
    text: Cow<'a, str>,
    lone_surrogates: u32,
    root: RootKind,
    sorted: bool,
    canonical: bool,
    members: Members,
}

impl<'a> Text<'a> {
    pub(crate) fn new(scanned: Scanned<'a>) -> Self {
        let Scanned { raw, text, lone_surrogates, root, sorted, plain, members } = scanned;
        Self { raw, text, lone_surrogates, root, sorted, canonical: sorted && plain, members }
    }

    /// The bytes as they came.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The bytes as they came, as a string.
    pub(crate) fn raw_str(&self) -> &str {
        // Borrowed text is the raw text; only a text with lone surrogates is looked at again.
        match &self.text {
            Cow::Borrowed(text) => text,
            Cow::Owned(text) => std::str::from_utf8(self.raw).unwrap_or(text),
        }
    }

    /// The text that is decoded: the bytes as they came, but for lone surrogate escapes, which are spelled `\ufffd`. Offsets
    /// are the same in both.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Number of lone surrogate escapes; 0 unless the profile is [`Profile::Acp`](crate::Profile::Acp).
    pub fn lone_surrogates(&self) -> u32 {
        self.lone_surrogates
    }

    /// What the root is.
    pub fn root(&self) -> RootKind {
        self.root
    }

    /// True when the scan saw that the text is in canonical form already. False does not mean that it is not: numbers with a
    /// fraction or an exponent, and texts with characters beyond U+FFFF, are not looked at closely.
    pub fn is_known_canonical(&self) -> bool {
        self.canonical
    }

    /// The members of the root object, where it is one of few.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Whether the scan saw that every object's names are in canonical order.
    pub(crate) fn is_known_sorted(&self) -> bool {
        self.sorted
    }

    /// Decodes the whole text into `T`.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] when the text does not have the shape of `T`.
    pub fn decode<'b, T: Deserialize<'b>>(&'b self) -> Result<T, DecodeError> {
        decode_str(&self.text)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The content may be secret.
        f.debug_struct("Text").field("bytes", &self.raw.len()).field("root", &self.root).finish_non_exhaustive()
    }
}

/// Decodes text that has passed the scan, alone or as part of one that has. serde_json's own depth bound is off, because
/// the scan has bounded the depth.
pub(crate) fn decode_str<'b, T: Deserialize<'b>>(text: &'b str) -> Result<T, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer).map_err(|error| DecodeError::new(&error))?;
    deserializer.end().map_err(|error| DecodeError::new(&error))?;
    Ok(value)
}

/// Strict JSON that does not have the expected shape.
///
/// `Display` names members and types of ours, and the place; never what the peer sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (line {line}, column {column})")]
pub struct DecodeError {
    /// What is wrong.
    pub reason: DecodeReason,
    /// One-based line within the decoded text; 0 when unknown.
    pub line: usize,
    /// One-based column, in bytes, within the decoded text; 0 when unknown.
    pub column: usize,
}

/// What a [`DecodeError`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeReason {
    /// A member that must be there is not.
    Missing {
        /// Its name.
        member: Box<str>,
    },
    /// A member that may not be there is.
    UnknownMember,
    /// Something else stands where this was expected.
    Expected {
        /// What the type says it expects.
        what: Box<str>,
    },
    /// None of the above.
    Other,
}

impl fmt::Display for DecodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { member } => write!(f, "missing member {member}"),
            Self::UnknownMember => f.write_str("unknown member"),
            Self::Expected { what } => write!(f, "expected {what}"),
            Self::Other => f.write_str("value does not have the expected shape"),
        }
    }
}

impl DecodeError {
    /// serde puts everything into one message. The parts taken out of it here come from the type that is decoded; the parts
    /// that quote the input are left behind.
    fn new(error: &serde_json::Error) -> Self {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        let reason =
            if let Some(member) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
                DecodeReason::Missing { member: member.into() }
            } else if message.starts_with("unknown field ") {
                DecodeReason::UnknownMember
            } else if let Some((_, what)) = message.rsplit_once(", expected ") {
                DecodeReason::Expected { what: what.into() }
            } else {
                DecodeReason::Other
            };
        Self { reason, line: error.line(), column: error.column() }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use crate::{Profile, ScanLimits, scan};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        #[expect(dead_code, reason = "decoded only")]
        left: u8,
        #[expect(dead_code, reason = "decoded only")]
        right: bool,
    }

    fn check(text: &str, expected: &str) {
        let text = scan(text.as_bytes(), Profile::DriverRpc, ScanLimits::CONTROL).expect("strict");
        assert_eq!(text.decode::<Pair>().expect_err("wrong shape").to_string(), expected);
    }

    #[test]
    fn errors_name_our_members_and_never_quote_the_peer() {
        check(r#"{"left":1}"#, "missing member right (line 1, column 10)");
        check(r#"{"left":1,"hunter2":1}"#, "unknown member (line 1, column 19)");
        check(r#"{"left":"hunter2, expected a lie","right":true}"#, "expected u8 (line 1, column 33)");
        check(r#"{"left":300,"right":true}"#, "expected u8 (line 1, column 11)");
    }
}
