//! JSON that has passed the strict scan and is not decoded yet.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON value, exactly as it was written, that has passed the strict scan of its frame.
///
/// It is a view into the received line: cloning it copies nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Bytes);

impl RawJson {
    /// Wraps text that the strict scan has accepted.
    pub(crate) fn from_scanned(text: Bytes) -> Self {
        Self(text)
    }

    /// Wraps a literal of ours.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self::from_static("{}")
    }

    /// `null`.
    pub fn null() -> Self {
        Self::from_static("null")
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, for a log or a file.
    pub fn as_str(&self) -> &str {
        // The scan has checked the encoding of the whole frame; the fallback cannot be reached.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// The value as serde_json's raw type.
    pub fn as_raw_value(&self) -> &RawValue {
        pintle_wire::raw_value(self.as_str()).unwrap_or(RawValue::NULL)
    }

    /// Decodes into any type; nothing if the value does not have its shape. For protocol types there is
    /// [`types::decode`](crate::types), which says what is wrong.
    pub fn decode_lax<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        let mut deserializer = serde_json::Deserializer::from_slice(&self.0);
        deserializer.disable_recursion_limit();
        let value = T::deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(value)
    }

    /// The string that an object has as its member `name`; nothing if this is no object or the member no string.
    pub fn string_member(&self, name: &str) -> Option<Cow<'_, str>> {
        pintle_wire::string_value(pintle_wire::member(self.as_str(), name)?)
    }

    /// The same text in memory of its own: a view keeps alive everything that was received with it.
    pub(crate) fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// A view of `part`, which must lie within this text; a copy otherwise.
    pub(crate) fn part(&self, part: &str) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(self.0.as_ptr() as usize);
        match start.checked_add(part.len()) {
            Some(end) if end <= self.0.len() => Self(self.0.slice(start..end)),
            _ => Self(Bytes::copy_from_slice(part.as_bytes())),
        }
    }
}

impl fmt::Debug for RawJson {
    /// Length only: the content belongs to the users at both ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}
