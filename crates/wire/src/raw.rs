//! Parts of a scanned text as `RawValue`, without reading them again.

use std::fmt;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use crate::text::{DecodeError, decode_str};

/// Decodes a part of a scanned text, such as the `params` of an [`Envelope`](crate::Envelope).
///
/// Unlike `serde_json::from_str` it has no depth bound of its own: the scan had one. Give it only values that came out of a
/// [`Text`](crate::Text).
///
/// # Errors
///
/// [`DecodeError`] when the value does not have the shape of `T`; its place is relative to the part.
pub fn decode_raw<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, DecodeError> {
    decode_str(raw.get())
}

/// `text`, which is exactly one value of a scanned text, as a `RawValue`. `None` if it is not one value after all.
///
/// serde_json makes a borrowed `RawValue` only by reading the text once more. But a `RawValue` asks whatever deserializer it
/// is given for a newtype of a name of its own, and takes a map with that name as the only key: so a deserializer that holds
/// the text can answer at once.
pub fn raw_value(text: &str) -> Option<&RawValue> {
    <&RawValue>::deserialize(Held { text }).or_else(|_| serde_json::from_str(text)).ok()
}

struct Held<'a> {
    text: &'a str,
}

impl<'de> Deserializer<'de> for Held<'de> {
    type Error = NotRaw;

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, NotRaw> {
        let entry = (BorrowedStrDeserializer::new(name), BorrowedStrDeserializer::new(self.text));
        visitor.visit_map(MapDeserializer::new(std::iter::once(entry)))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, NotRaw> {
        Err(NotRaw)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// `RawValue` asked for something else than it does today.
#[derive(Debug)]
struct NotRaw;

impl fmt::Display for NotRaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a raw value")
    }
}

impl std::error::Error for NotRaw {}

impl Error for NotRaw {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_works_with_this_serde_json() {
        let text = r#"{"a":[1,2]}"#;
        let raw = <&RawValue>::deserialize(Held { text }).expect("RawValue takes what it asks for");
        assert!(std::ptr::eq(raw.get(), text));
        assert!(raw_value(text).is_some());
    }
}
