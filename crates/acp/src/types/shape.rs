//! How protocol types are read and written.
//!
//! Every type reads its JSON in one pass and never stops in the middle: what does not fit comes back as
//! [`Malformed`], with the reason and with the value put together again. The object above then decides: a
//! member it can do without goes to [`Extra`], one it needs makes the object itself malformed. So nothing
//! that a peer wrote is lost, nothing is scanned twice, and a reason names the member and never its value.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::raw::{Extra, Raw};

/// A type of the protocol: reads without failing, writes what it read, and tells what it did not like.
///
/// Implemented by every type of [`crate::types`]; there is no reason to implement it elsewhere.
pub trait Shape: Sized {
    /// What a value of this type is called in "expected ...".
    const EXPECTED: &'static str;

    /// Reads one value.
    ///
    /// # Errors
    /// Only the deserializer's own: broken JSON. A value of the wrong shape is an `Ok(Err(..))`.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error>;

    /// Writes the value as it goes over the wire.
    ///
    /// # Errors
    /// Only the serializer's own.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Adds to `out` what a strict reader would object to in this value. `at` is the way to it.
    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        let _ = (at, out);
    }
}

/// A value, or what came in its place.
pub type Read<T> = Result<T, Box<Malformed>>;

/// A value that is not of the expected shape: why, and the value itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Why the value was not taken.
    pub fault: Fault,
    /// The value.
    pub raw: Raw,
}

impl Malformed {
    pub(crate) fn new(fault: Fault, raw: Raw) -> Box<Self> {
        Box::new(Self { fault, raw })
    }
}

/// Why a value is not what the protocol asks for: the way to the member and what was expected there.
///
/// Never contains the value itself, so it may be logged and sent to the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{reason}", .path, if .path.is_empty() { "" } else { ": " })]
pub struct Fault {
    path: String,
    reason: FaultReason,
}

/// The kinds of [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultReason {
    /// A required member is not there.
    #[error("missing")]
    Missing,
    /// The value has another type or form.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The value is well-formed, but was not negotiated.
    #[error("needs the capability {0}, which was not advertised")]
    NotAdvertised(&'static str),
    /// The text is not JSON, or nests deeper than the decoder goes.
    #[error("not decodable JSON")]
    Undecodable,
}

impl Fault {
    /// A fault of the value itself; callers prepend the way with [`Fault::inside`].
    pub fn new(reason: FaultReason) -> Self {
        Self { path: String::new(), reason }
    }

    pub(crate) fn expected(what: &'static str) -> Self {
        Self::new(FaultReason::Expected(what))
    }

    pub(crate) fn missing(name: &str) -> Self {
        Self::new(FaultReason::Missing).inside(name)
    }

    /// The same fault, seen from the object that holds the value under `name`.
    #[must_use]
    pub fn inside(mut self, name: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }

    /// The same fault, seen from the list that holds the value at `index`.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        self.inside(&format!("[{index}]"))
    }

    /// The way to the value, such as `prompt[2].resource.uri`; empty for the value itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there.
    pub fn reason(&self) -> FaultReason {
        self.reason
    }
}

/// Something that a lenient reader passes over and a strict one reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A member that the protocol does not have. Custom data belongs into `_meta`.
    UnknownMember {
        /// The way to the member, with its name.
        path: String,
    },
    /// A tag or enum value that the protocol does not have.
    UnknownValue {
        /// The way to the value.
        path: String,
    },
    /// A member that was read as absent, or a list item that was passed over, because of its form.
    Malformed(Fault),
}

/// The way from the root to the value that is being inspected.
#[derive(Debug, Default)]
pub struct Trail(Vec<Step>);

#[derive(Debug)]
enum Step {
    Name(Cow<'static, str>),
    Index(usize),
}

impl Trail {
    pub(crate) fn name<T>(&mut self, name: &'static str, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(Step::Name(Cow::Borrowed(name)));
        let done = inner(self);
        self.0.pop();
        done
    }

    pub(crate) fn index<T>(&mut self, index: usize, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.0.push(Step::Index(index));
        let done = inner(self);
        self.0.pop();
        done
    }

    pub(crate) fn member(&self, name: &str) -> String {
        let here = self.to_string();
        if here.is_empty() { name.to_owned() } else { format!("{here}.{name}") }
    }

    pub(crate) fn fault(&self, fault: Fault) -> Fault {
        let here = self.to_string();
        if here.is_empty() { fault } else { fault.inside(&here) }
    }
}

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Name(name) if i == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Everything in `value` that a strict reader would object to: unknown members and values, members that
/// were read as absent because of their type, list items that were passed over.
pub fn inspect<T: Shape>(value: &T) -> Vec<Finding> {
    let mut out = Vec::new();
    value.inspect(&mut Trail::default(), &mut out);
    out
}

/// Decodes one value of the protocol from text that the strict scan has accepted.
///
/// # Errors
/// The first member that is missing or of the wrong form, by path; never with its content.
pub fn decode<T: Shape>(text: &str) -> Result<T, Fault> {
    match T::read(&mut serde_json::Deserializer::from_str(text)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(malformed)) => Err(malformed.fault),
        Err(_) => Err(Fault::new(FaultReason::Undecodable)),
    }
}

/// [`decode`] for the `params` or `result` of an envelope.
///
/// # Errors
/// As [`decode`].
pub fn decode_raw<T: Shape>(raw: &RawValue) -> Result<T, Fault> {
    decode(raw.get())
}

/// [`decode_raw`] for a result, where `null` stands for an object without members: older peers answer so
/// (`session/load`, `fs/write_text_file` and others).
///
/// # Errors
/// As [`decode`].
pub fn decode_result<T: Shape>(raw: &RawValue) -> Result<T, Fault> {
    decode_raw(raw).or_else(|fault| if raw.get() == "null" { decode("{}").map_err(|_| fault) } else { Err(fault) })
}

/// Writes a shape through serde.
pub(crate) struct Out<'a, T>(pub(crate) &'a T);

impl<T: Shape> Serialize for Out<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

/// Reads a shape through serde.
pub(crate) struct Seed<T>(PhantomData<T>);

impl<T> Seed<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Shape> DeserializeSeed<'de> for Seed<T> {
    type Value = Read<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        T::read(deserializer)
    }
}

/// Where a member's value is read from: the live deserializer, or text put aside until the tag was known.
pub(crate) trait Source<'de> {
    type Error: serde::de::Error;

    fn read<T: Shape>(self) -> Result<Read<T>, Self::Error>;
}

pub(crate) struct Live<'a, A>(pub(crate) &'a mut A);

impl<'de, A: MapAccess<'de>> Source<'de> for Live<'_, A> {
    type Error = A::Error;

    fn read<T: Shape>(self) -> Result<Read<T>, A::Error> {
        self.0.next_value_seed(Seed::new())
    }
}

pub(crate) struct Stored<E>(pub(crate) Raw, pub(crate) PhantomData<E>);

impl<'de, E: serde::de::Error> Source<'de> for Stored<E> {
    type Error = E;

    fn read<T: Shape>(self) -> Result<Read<T>, E> {
        T::read(&mut serde_json::Deserializer::from_str(self.0.get())).map_err(|_| E::custom(FaultReason::Undecodable))
    }
}

/// A member's name, borrowed from the input where it has no escape.
pub(crate) struct NameSeed;

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(v))
    }

    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(v))
    }
}

/// A value whose type is open: scalars are handed over, anything else is put into text.
pub(crate) enum Token<'de> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(Cow<'de, str>),
    Other(Raw),
}

impl<'de> Token<'de> {
    pub(crate) fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TokenVisitor)
    }

    pub(crate) fn into_raw(self) -> Raw {
        match self {
            Self::Null => Raw::null(),
            Self::Bool(v) => Value::from(v).into(),
            Self::Int(v) => Value::from(v).into(),
            Self::Uint(v) => Value::from(v).into(),
            Self::Float(v) => Value::from(v).into(),
            Self::Str(v) => Value::from(v).into(),
            Self::Other(raw) => raw,
        }
    }

    /// The token in place of an expected `what`.
    pub(crate) fn refuse<T>(self, what: &'static str) -> Read<T> {
        Err(Malformed::new(Fault::expected(what), self.into_raw()))
    }
}

pub(crate) struct TokenVisitor;

impl<'de> Visitor<'de> for TokenVisitor {
    type Value = Token<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Token::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
        Ok(Token::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
        Ok(Token::Int(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(v).map_or(Token::Uint(v), Token::Int))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
        Ok(Token::Float(v))
    }

    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(Token::Str(Cow::Borrowed(v)))
    }

    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(Token::Str(Cow::Owned(v.to_owned())))
    }

    fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
        Ok(Token::Str(Cow::Owned(v)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Raw>()? {
            items.push(item);
        }
        Raw::from_serialize(&items).map(Token::Other).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key_seed(NameSeed)? {
            members.push((name, map.next_value::<Raw>()?));
        }
        Ok(Token::Other(Raw::object(members.iter().map(|(name, raw)| (&**name, raw)))))
    }
}

/// What the members of an object that is being read have left besides its fields.
#[derive(Default)]
pub(crate) struct Rest {
    pub(crate) extra: Extra,
    pub(crate) fault: Option<Fault>,
}

impl Rest {
    /// A member that the type does not know.
    pub(crate) fn unknown<'de, S: Source<'de>>(&mut self, name: Cow<'de, str>, source: S) -> Result<(), S::Error> {
        if let Ok(raw) = source.read::<Raw>()? {
            self.extra.insert(name.into_owned(), raw);
        }
        Ok(())
    }

    /// Reads a member whose failure the object survives when `lenient`; `null` it always survives when
    /// `nullable`.
    pub(crate) fn member<'de, T: Shape, S: Source<'de>>(
        &mut self,
        name: &'static str,
        source: S,
        lenient: bool,
        nullable: bool,
    ) -> Result<Option<T>, S::Error> {
        match source.read::<T>()? {
            Ok(value) => Ok(Some(value)),
            Err(malformed) => {
                let Malformed { fault, raw } = *malformed;
                if !(lenient || (nullable && raw.is_null())) {
                    self.fault.get_or_insert(fault.inside(name));
                }
                self.extra.insert(name, raw);
                Ok(None)
            }
        }
    }

    /// Remembers that a default was spelled out, so that it is written again.
    pub(crate) fn spelled_default<T: Shape + Default + PartialEq>(&mut self, name: &'static str, value: &Option<T>) {
        if let Some(value) = value
            && *value == T::default()
        {
            self.extra.insert(name, Raw::of(value));
        }
    }

    pub(crate) fn missing(&mut self, name: &'static str) {
        self.fault.get_or_insert_with(|| Fault::missing(name));
    }
}

/// A member under a known name that was put into [`Extra`]: fine if `null` was allowed or if it is just a
/// default spelled out.
pub(crate) fn inspect_kept<T: Shape>(
    name: &'static str,
    raw: &Raw,
    nullable: bool,
    at: &Trail,
    out: &mut Vec<Finding>,
) {
    if nullable && raw.is_null() {
        return;
    }
    if let Err(fault) = decode::<T>(raw.get()) {
        out.push(Finding::Malformed(at.fault(fault.inside(name))));
    }
}
