//! JSON that is carried and not understood: one value, a bag of members, `_meta`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use pintle_wire::{Profile, ScanLimits, scan};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::shape::{Fault, Malformed, Read, Shape};

/// One JSON value as text, exactly as the peer wrote it.
///
/// The only change ever made is that a line break *between* tokens becomes a space, so that a value taken
/// from a pretty-printed file cannot break the one-message-per-line framing when it is sent on.
///
/// Two values are equal when their texts are.
#[derive(Clone)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Takes over a value that serde_json has already found to be well-formed.
    pub fn new(value: Box<RawValue>) -> Self {
        if memchr::memchr2(b'\n', b'\r', value.get().as_bytes()).is_none() {
            return Self(value);
        }
        let flat = value.get().replace(['\n', '\r'], " ");
        Self(RawValue::from_string(flat).unwrap_or(value))
    }

    /// Parses one JSON value.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self::new)
    }

    /// Serialises `value`.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON (a map whose keys are not strings, a failing `Serialize`).
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The value as serde_json's raw type.
    pub fn as_raw_value(&self) -> &RawValue {
        &self.0
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }

    /// Decodes the value as `T`.
    ///
    /// # Errors
    /// When the value is not a `T`.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(self.get());
        // A message may be twice as deep as serde_json likes; what is no part of one keeps serde_json's bound.
        if scan(self.get().as_bytes(), Profile::Acp, ScanLimits::DEPTH_ONLY).is_ok() {
            deserializer.disable_recursion_limit();
        }
        let value = T::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    }

    pub(crate) fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// What `value` looks like on the wire. Protocol types always have a JSON form.
    pub(crate) fn of<T: Shape>(value: &T) -> Self {
        Self::from_serialize(&super::shape::Out(value)).unwrap_or_else(|_| Self::null())
    }

    /// The members of an object in the order they stand; none if this is not an object.
    pub(crate) fn members(&self) -> Vec<(Cow<'_, str>, &RawValue)> {
        serde_json::from_str::<Borrowed<'_>>(self.get()).map_or_else(|_| Vec::new(), |members| members.0)
    }

    /// An object from members in order, for putting a broken object back together.
    pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a Self)>) -> Self {
        struct Members<I>(std::cell::RefCell<Option<I>>);
        impl<'a, I: Iterator<Item = (&'a str, &'a Raw)>> Serialize for Members<I> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.borrow_mut().take().into_iter().flatten())
            }
        }
        Self::from_serialize(&Members(std::cell::RefCell::new(Some(members.into_iter()))))
            .unwrap_or_else(|_| Self::null())
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::new)
    }
}

impl Shape for Raw {
    const EXPECTED: &'static str = "a JSON value";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Self::deserialize(deserializer).map(Ok)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

impl From<serde_json::Value> for Raw {
    fn from(value: serde_json::Value) -> Self {
        Self::from_serialize(&value).unwrap_or_else(|_| Self::null())
    }
}

/// Members of an object that its type does not hold: names it does not know, and known names whose value
/// it could not take (wrong type, `null`, an explicit default). They are written back when the object is.
///
/// Empty costs one pointer.
#[derive(Clone, Default, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "nearly always empty, and every object has one")]
pub struct Extra(Option<Box<Vec<Member>>>);

type Member = (Cow<'static, str>, Raw);

impl Extra {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The member called `name`.
    pub fn get(&self, name: &str) -> Option<&Raw> {
        self.iter().find(|(n, _)| *n == name).map(|(_, raw)| raw)
    }

    /// All members in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Raw)> {
        self.0.iter().flat_map(|members| members.iter()).map(|(name, raw)| (&**name, raw))
    }

    /// Sets a member that the type does not know. The protocol reserves all root names: put what is yours
    /// into `_meta`, and use this to pass on or to test.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: Raw) {
        let name = name.into();
        let members = self.0.get_or_insert_default();
        match members.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => members.push((name, value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Raw> {
        let members = self.0.as_mut()?;
        let at = members.iter().position(|(n, _)| n == name)?;
        let raw = members.remove(at).1;
        if members.is_empty() {
            self.0 = None;
        }
        Some(raw)
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The `_meta` member: free data beside any object of the protocol, kept as text.
///
/// Root keys `traceparent`, `tracestate` and `baggage` are reserved for W3C trace context.
#[derive(Clone, PartialEq, Eq)]
pub struct Meta(Raw);

impl Meta {
    /// An object with the one member `key`.
    pub fn with(key: &str, value: &Raw) -> Self {
        Self(Raw::object([(key, value)]))
    }

    /// Takes `raw` if it is an object.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        raw.get().trim_start().starts_with('{').then_some(Self(raw))
    }

    /// The member called `key`, decoded from the text at each call.
    pub fn get(&self, key: &str) -> Option<Raw> {
        self.members().remove(key).map(|raw| Raw::new(raw.to_owned()))
    }

    /// The same object with `key` set.
    #[must_use]
    pub fn set(self, key: &str, value: &Raw) -> Self {
        let mut members = self.members();
        members.insert(Cow::Borrowed(key), value.as_raw_value());
        match Raw::from_serialize(&members) {
            Ok(raw) => Self(raw),
            Err(_) => self,
        }
    }

    /// The whole object as JSON text.
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    fn members(&self) -> BTreeMap<Cow<'_, str>, &RawValue> {
        self.0.members().into_iter().collect()
    }
}

/// `BTreeMap<Cow<str>, _>` always copies its keys; this does not where there is no escape.
struct Borrowed<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Borrowed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = Borrowed<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = map.next_key_seed(super::shape::NameSeed)? {
                    members.push((name, map.next_value()?));
                }
                Ok(Borrowed(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Meta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)?.map_err(|m| D::Error::custom(m.fault))
    }
}

impl Shape for Meta {
    const EXPECTED: &'static str = "an object";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        Ok(if raw.get().starts_with('{') {
            Ok(Self(raw))
        } else {
            Err(Malformed::new(Fault::expected(Self::EXPECTED), raw))
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
