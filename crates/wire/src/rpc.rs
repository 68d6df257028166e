//! The JSON-RPC envelope: one borrowed pass over a scanned text, ids kept as they came.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::lex;
use crate::raw::{raw_value, unescape};
use crate::text::{RootKind, Text};

/// A legal request id. `1` and `"1"` are different ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// An integer.
    Int(i64),
    /// A string.
    Str(Box<str>),
}

impl From<i64> for Id {
    fn from(id: i64) -> Self {
        Self::Int(id)
    }
}

impl From<&str> for Id {
    fn from(id: &str) -> Self {
        Self::Str(id.into())
    }
}

impl From<String> for Id {
    fn from(id: String) -> Self {
        Self::Str(id.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(id) => id.fmt(f),
            Self::Str(id) => fmt::Debug::fmt(id, f),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(id) => serializer.serialize_i64(*id),
            Self::Str(id) => serializer.serialize_str(id),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a 64-bit integer")
            }

            fn visit_i64<E: Error>(self, id: i64) -> Result<Id, E> {
                Ok(Id::Int(id))
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<Id, E> {
                i64::try_from(id).map(Id::Int).map_err(|_| E::custom("number out of range, expected a 64-bit integer"))
            }

            fn visit_str<E: Error>(self, id: &str) -> Result<Id, E> {
                Ok(Id::Str(id.into()))
            }

            fn visit_string<E: Error>(self, id: String) -> Result<Id, E> {
                Ok(Id::Str(id.into()))
            }
        }

        deserializer.deserialize_any(IdVisitor)
    }
}

/// The `id` member of an envelope, with its text as it came.
#[derive(Debug, Clone)]
pub enum IdField<'a> {
    /// There is no such member.
    Absent,
    /// The member is `null`.
    Null {
        /// Its text.
        raw: &'a RawValue,
    },
    /// An integer, written without fraction and exponent, that fits 64 bits.
    Int {
        /// The integer.
        value: i64,
        /// Its text.
        raw: &'a RawValue,
    },
    /// A string.
    Str {
        /// The string, unescaped.
        value: Cow<'a, str>,
        /// Its text.
        raw: &'a RawValue,
    },
    /// Anything else: a boolean, an array, an object, a number with a fraction or an exponent, an integer beyond 64 bits.
    /// (Driver RPC accepts some spellings of integers more: see [`parse_integer`](crate::parse_integer).)
    Illegal {
        /// Its text.
        raw: &'a RawValue,
    },
}

impl<'a> IdField<'a> {
    /// The text of the member, if there is one.
    pub fn raw(&self) -> Option<&'a RawValue> {
        match self {
            Self::Absent => None,
            Self::Null { raw } | Self::Int { raw, .. } | Self::Str { raw, .. } | Self::Illegal { raw } => Some(raw),
        }
    }

    /// The id, if it is legal.
    pub fn id(&self) -> Option<Id> {
        match self {
            Self::Int { value, .. } => Some(Id::Int(*value)),
            Self::Str { value, .. } => Some(Id::Str(value.as_ref().into())),
            Self::Absent | Self::Null { .. } | Self::Illegal { .. } => None,
        }
    }

    /// The id and its spelling, to be echoed, if it is legal.
    pub fn peer_id(&self) -> Option<PeerId> {
        let id = self.id()?;
        // The usual spelling need not be kept: it is made again from the value.
        let plain = match (&id, self.raw()) {
            (Id::Int(value), Some(raw)) => *value != 0 || raw.get() == "0",
            (Id::Str(value), Some(raw)) => raw.get().len() == value.len() + 2,
            (_, None) => true,
        };
        let spelling = if plain { None } else { self.raw().map(ToOwned::to_owned) };
        Some(PeerId { id, spelling })
    }

    /// Whether the member is there and legal.
    pub fn is_legal(&self) -> bool {
        matches!(self, Self::Int { .. } | Self::Str { .. })
    }

    /// Whether the member is there, legal or not.
    pub fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// `text` decodes; `raw` is how it was sent.
    fn read(text: &'a str, raw: &'a RawValue) -> Self {
        match text.as_bytes() {
            [b'"', ..] => Self::Str { value: unquote(text), raw },
            [b'n', ..] => Self::Null { raw },
            [b'-' | b'0'..=b'9', ..] => match text.parse() {
                Ok(value) => Self::Int { value, raw },
                Err(_) => Self::Illegal { raw },
            },
            _ => Self::Illegal { raw },
        }
    }
}

/// The id of a request that a peer sent: compares as an [`Id`], is echoed byte for byte as it was spelled.
#[derive(Debug, Clone)]
pub struct PeerId {
    id: Id,
    spelling: Option<Box<RawValue>>,
}

impl PeerId {
    /// The id.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Appends the id as it was spelled.
    pub fn write(&self, out: &mut Vec<u8>) {
        match (&self.spelling, &self.id) {
            (Some(raw), _) => out.extend_from_slice(raw.get().as_bytes()),
            (None, Id::Int(id)) => crate::canon::append_integer(*id, out),
            // Only a string that needed no escape has no spelling of its own, or one that is ours.
            (None, Id::Str(id)) => crate::canon::append_string(id, out),
        }
    }
}

impl From<Id> for PeerId {
    fn from(id: Id) -> Self {
        Self { id, spelling: None }
    }
}

impl PartialEq for PeerId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for PeerId {}

impl Serialize for PeerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.spelling {
            Some(raw) => raw.serialize(serializer),
            None => self.id.serialize(serializer),
        }
    }
}

/// The `jsonrpc` member of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionField {
    /// There is no such member.
    Absent,
    /// The string `2.0`.
    Two,
    /// Another string, or `null`.
    Other,
    /// Neither a string nor `null`.
    WrongType,
}

/// The members of a JSON-RPC object, borrowed from the text: each as it came, none of them judged.
///
/// A protocol that is closed (Driver RPC) looks at every field; [`kind`](Self::kind) classifies as ACP does.
#[derive(Debug, Clone)]
pub struct Envelope<'a> {
    /// `jsonrpc`.
    pub version: VersionField,
    /// `id`.
    pub id: IdField<'a>,
    /// `method`, when it is a string.
    pub method: Option<Cow<'a, str>>,
    /// `method`, whatever it is.
    pub method_raw: Option<&'a RawValue>,
    /// `params`.
    pub params: Option<&'a RawValue>,
    /// `result`.
    pub result: Option<&'a RawValue>,
    /// `error`.
    pub error: Option<&'a RawValue>,
    /// Number of other members.
    pub unknown_members: u32,
}

/// Why a text has no envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EnvelopeError {
    /// The root is an array: a batch.
    #[error("batches are not supported")]
    Batch,
    /// The root is a string, a number, a boolean or null.
    #[error("message is not an object")]
    Scalar,
}

impl<'a> Envelope<'a> {
    /// Reads the members of the root object. Names are compared after unescaping, case matters.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError`] when the root is not an object.
    pub fn parse(text: &'a Text<'_>) -> Result<Self, EnvelopeError> {
        match text.root() {
            RootKind::Object => Ok(Self::members(text)),
            RootKind::Array => Err(EnvelopeError::Batch),
            RootKind::String | RootKind::Number | RootKind::Bool | RootKind::Null => Err(EnvelopeError::Scalar),
        }
    }

    fn members(scanned: &'a Text<'_>) -> Self {
        // The same, but for the spelling of lone surrogates.
        let (text, sent) = (scanned.as_str(), scanned.raw_str());
        let mut envelope = Self {
            version: VersionField::Absent,
            id: IdField::Absent,
            method: None,
            method_raw: None,
            params: None,
            result: None,
            error: None,
            unknown_members: 0,
        };
        if let Some(members) = scanned.members().all() {
            for member in members {
                let name = text.get(member.name()).unwrap_or_default();
                let name = if member.is_escaped() { unescape(name) } else { Cow::Borrowed(name) };
                let value = member.value();
                envelope.member(
                    &name,
                    text.get(value.clone()).unwrap_or_default(),
                    sent.get(value).unwrap_or_default(),
                );
            }
            return envelope;
        }
        // More than any message has: read once more.
        let bytes = text.as_bytes();
        let mut at = lex::skip_space(bytes, lex::skip_space(bytes, 0) + 1);
        while bytes.get(at) == Some(&b'"') {
            let (name_end, escaped) = lex::skip_string(bytes, at);
            let name = text.get(at + 1..name_end.saturating_sub(1)).unwrap_or_default();
            let name = if escaped { unescape(name) } else { Cow::Borrowed(name) };
            let start = lex::skip_space(bytes, lex::skip_space(bytes, name_end) + 1);
            let end = lex::skip_value(bytes, start);
            envelope.member(&name, text.get(start..end).unwrap_or_default(), sent.get(start..end).unwrap_or_default());
            at = lex::skip_space(bytes, end);
            if bytes.get(at) == Some(&b',') {
                at = lex::skip_space(bytes, at + 1);
            }
        }
        envelope
    }

    fn member(&mut self, name: &str, value: &'a str, sent: &'a str) {
        let Some(raw) = raw_value(value) else { return };
        match name {
            "jsonrpc" => self.version = read_version(value),
            "id" => self.id = raw_value(sent).map_or(IdField::Absent, |sent| IdField::read(value, sent)),
            "method" => {
                self.method_raw = Some(raw);
                self.method = value.starts_with('"').then(|| unquote(value));
            }
            "params" => self.params = Some(raw),
            "result" => self.result = Some(raw),
            "error" => self.error = Some(raw),
            _ => self.unknown_members += 1,
        }
    }

    /// What the object is, as ACP tells requests, notifications and responses apart.
    ///
    /// An object with a method is a request or a notification, even if it has a result too; one with a result or an error and
    /// no method is a response. Unknown members do not matter.
    pub fn kind(&self, rule: VersionRule) -> Kind {
        let version_is_wrong = rule == VersionRule::Required && self.version != VersionField::Two;
        if self.method_raw.is_none() && (self.result.is_some() || self.error.is_some()) {
            // Answering a response could hit a request of the peer's that is in flight, so none is ever answered.
            return match self.id {
                IdField::Int { .. } | IdField::Str { .. } if version_is_wrong => {
                    Kind::Malformed(Malformed::ResponseVersion)
                }
                IdField::Int { .. } | IdField::Str { .. } => Kind::Response,
                IdField::Absent | IdField::Null { .. } | IdField::Illegal { .. } => {
                    Kind::Malformed(Malformed::ResponseId)
                }
            };
        }
        if let IdField::Null { .. } | IdField::Illegal { .. } = self.id {
            return Kind::Malformed(Malformed::Id);
        }
        match (&self.method, &self.id) {
            _ if version_is_wrong => Kind::Malformed(Malformed::Version),
            (None, _) if self.method_raw.is_some() => Kind::Malformed(Malformed::MethodNotString),
            (None, _) => Kind::Malformed(Malformed::NoMethod),
            (Some(_), IdField::Absent) => Kind::Notification,
            (Some(_), _) => Kind::Request,
        }
    }
}

/// Whether [`Envelope::kind`] insists on `"jsonrpc":"2.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VersionRule {
    /// It does.
    #[default]
    Required,
    /// Whatever stands there, or nothing, is taken for `2.0`.
    Ignored,
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A method and a legal id.
    Request,
    /// A method and no id.
    Notification,
    /// A result or an error, a legal id and no method.
    Response,
    /// None of these.
    Malformed(Malformed),
}

/// What is wrong with an object that is neither request nor notification nor response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// `jsonrpc` is missing or not `2.0`.
    #[error("jsonrpc is not \"2.0\"")]
    Version,
    /// `id` is null, a fraction, too large or of another type.
    #[error("id is neither a string nor a 64-bit integer")]
    Id,
    /// `method` is not a string.
    #[error("method is not a string")]
    MethodNotString,
    /// Neither a method nor a result nor an error.
    #[error("neither a request nor a response")]
    NoMethod,
    /// A response whose `jsonrpc` is missing or not `2.0`.
    #[error("jsonrpc of a response is not \"2.0\"")]
    ResponseVersion,
    /// A response without a legal id.
    #[error("response has no id that a request of ours could have")]
    ResponseId,
}

/// How a malformed object is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// With the object's own id when it is legal, else with id null.
    OwnId,
    /// With id null.
    NullId,
    /// Not at all: drop it and count it.
    Nothing,
}

impl Malformed {
    /// How to answer.
    pub const fn answer(self) -> Answer {
        match self {
            Self::Version | Self::MethodNotString | Self::NoMethod => Answer::OwnId,
            Self::Id => Answer::NullId,
            Self::ResponseVersion | Self::ResponseId => Answer::Nothing,
        }
    }
}

fn read_version(value: &str) -> VersionField {
    match value.as_bytes() {
        b"\"2.0\"" => VersionField::Two,
        [b'"', ..] if unquote(value) == "2.0" => VersionField::Two,
        [b'"' | b'n', ..] => VersionField::Other,
        _ => VersionField::WrongType,
    }
}

/// The characters of a string with its quotes.
fn unquote(text: &str) -> Cow<'_, str> {
    unescape(text.get(1..text.len().saturating_sub(1)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, ScanLimits, scan};

    fn with<R>(text: &str, look: impl FnOnce(Envelope<'_>) -> R) -> R {
        let text = scan(text.as_bytes(), Profile::Acp, ScanLimits::ACP).expect("strict");
        look(Envelope::parse(&text).expect("an object"))
    }

    fn check(text: &str, expected: Kind) {
        with(text, |envelope| assert_eq!(envelope.kind(VersionRule::Required), expected, "{text}"));
    }

    #[test]
    fn objects_are_classified_r032() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#, Kind::Request);
        check(r#"{"jsonrpc":"2.0","id":"","method":"m","result":1}"#, Kind::Request);
        check(r#"{"jsonrpc":"2.0","method":"m"}"#, Kind::Notification);
        check(r#"{"jsonrpc":"2.0","method":"m","result":1}"#, Kind::Notification);
        check(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Kind::Response);
        check(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, Kind::Response);
        check(r#"{"jsonrpc":"2.0","id":1,"error":null,"extra":1}"#, Kind::Response);
        check(r#" { "\u006dethod" : "m" , "jsonrpc" : "2\u002e0" } "#, Kind::Notification);
    }

    #[test]
    fn malformed_objects_are_answered_as_their_kind_wants_r034_r037_r038() {
        for (text, malformed, answer) in [
            (r#"{"jsonrpc":"2.0"}"#, Malformed::NoMethod, Answer::OwnId),
            (r#"{"jsonrpc":"2.0","id":77}"#, Malformed::NoMethod, Answer::OwnId),
            (r#"{"jsonrpc":"2.0","id":null}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, Malformed::Id, Answer::NullId),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, Malformed::MethodNotString, Answer::OwnId),
            (r#"{"jsonrpc":"2.0","id":1,"method":null,"result":1}"#, Malformed::MethodNotString, Answer::OwnId),
            (r#"{"id":1,"method":"m"}"#, Malformed::Version, Answer::OwnId),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, Malformed::Version, Answer::OwnId),
            (r#"{"jsonrpc":2.0,"method":"m"}"#, Malformed::Version, Answer::OwnId),
            (r#"{"id":1,"result":1}"#, Malformed::ResponseVersion, Answer::Nothing),
            (r#"{"jsonrpc":"2.0","result":1}"#, Malformed::ResponseId, Answer::Nothing),
            (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, Malformed::ResponseId, Answer::Nothing),
        ] {
            check(text, Kind::Malformed(malformed));
            assert_eq!(malformed.answer(), answer, "{text}");
        }
        with(r#"{"id":1,"method":"m"}"#, |envelope| assert_eq!(envelope.kind(VersionRule::Ignored), Kind::Request));
    }

    #[test]
    fn ids_are_echoed_byte_for_byte_r030_r031() {
        for raw in [
            "0",
            "-0",
            "-1",
            "-9007199254740991",
            "9223372036854775807",
            "-9223372036854775808",
            "\"\"",
            "\"c1|5\"",
            "\"\u{65e5}\u{672c}\u{8a9e}-\u{1f389}\"",
            r#""\u0041\/""#,
            r#""\ud800""#,
            r#""a\"b""#,
            "\"\u{7f}\"",
        ] {
            let mut out = Vec::new();
            let mut written = Vec::new();
            with(&format!(r#"{{"id": {raw} ,"method":"m"}}"#), |envelope| {
                let id = envelope.id.peer_id().expect("legal");
                id.write(&mut out);
                written = serde_json::to_vec(&id).expect("an id");
            });
            assert_eq!(String::from_utf8_lossy(&out), raw);
            assert_eq!(String::from_utf8_lossy(&written), raw);
        }
        assert_ne!(Id::from(1), Id::from("1"));
    }

    /// The scan notes where few members stand; more are looked for again. Neither may see another message.
    #[test]
    fn members_are_found_however_many_there_are() {
        for fillers in 0..9 {
            let filler: String = (0..fillers).map(|n| format!(r#""f{n}":{{"id":[{n},"}}"]}}, "#)).collect();
            let text = format!(
                r#" {{ {filler}"m\u0065thod" : "m", "id":"\ud800", "params" :[{{"a":[]}},{{}}] , "jsonrpc":"2.0"}} "#
            );
            with(&text, |envelope| {
                assert_eq!(envelope.method.as_deref(), Some("m"), "{text}");
                assert_eq!(envelope.params.map(RawValue::get), Some(r#"[{"a":[]},{}]"#), "{text}");
                assert_eq!(envelope.id.id(), Some(Id::from("\u{fffd}")), "{text}");
                assert_eq!(envelope.id.raw().map(RawValue::get), Some(r#""\ud800""#), "{text}");
                assert_eq!((envelope.version, envelope.unknown_members), (VersionField::Two, fillers), "{text}");
                assert!(envelope.result.is_none() && envelope.error.is_none(), "{text}");
            });
        }
        with("{}", |envelope| assert!(envelope.method.is_none() && !envelope.id.is_present()));
    }

    #[test]
    fn members_are_what_the_peer_wrote() {
        with(
            r#"{"params": {"a" : 1.0} ,"x":1,"id":"\u0061","error":[ ],"y":{"id":2},"jsonrpc":null,"result":null}"#,
            |envelope| {
                assert_eq!(envelope.params.map(RawValue::get), Some(r#"{"a" : 1.0}"#));
                assert_eq!(envelope.error.map(RawValue::get), Some("[ ]"));
                assert_eq!(envelope.result.map(RawValue::get), Some("null"));
                assert_eq!(envelope.id.id(), Some(Id::from("a")));
                assert_eq!(envelope.id.raw().map(RawValue::get), Some(r#""\u0061""#));
                assert_eq!((envelope.unknown_members, envelope.version), (2, VersionField::Other));
                assert!(envelope.method.is_none());
            },
        );
        with("{}", |envelope| assert!(!envelope.id.is_present()));
        with(r#"{"ID":1,"METHOD":"m"}"#, |envelope| assert_eq!(envelope.unknown_members, 2));
    }

    #[test]
    fn a_root_that_is_no_object_has_no_envelope_r035_r036() {
        for (text, error) in
            [("[{}]", EnvelopeError::Batch), ("42", EnvelopeError::Scalar), ("null", EnvelopeError::Scalar)]
        {
            let text = scan(text.as_bytes(), Profile::Acp, ScanLimits::ACP).expect("strict");
            assert_eq!(Envelope::parse(&text).expect_err("no object"), error);
        }
    }
}
