//! Parts of a scanned text as `RawValue`, without reading them again.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use crate::lex;
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

/// The value of the member `name` of an object in scanned text, as it stands there. `None` if the text is no object or has
/// no such member; the scan has seen to it that there is at most one.
///
/// Reads no further than that member and copies nothing.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let bytes = object.as_bytes();
    let mut at = lex::skip_space(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    at = lex::skip_space(bytes, at + 1);
    while bytes.get(at) == Some(&b'"') {
        let (name_end, escaped) = lex::skip_string(bytes, at);
        let spelled = object.get(at + 1..name_end.checked_sub(1)?)?;
        let start = lex::skip_space(bytes, lex::skip_space(bytes, name_end) + 1);
        let end = lex::skip_value(bytes, start);
        if spelled == name || escaped && unescape(spelled) == name {
            return object.get(start..end);
        }
        at = lex::skip_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = lex::skip_space(bytes, at + 1);
        }
    }
    None
}

/// The characters of a string value of scanned text, which stands there with its quotes. `None` for a value of another type.
pub fn string_value(value: &str) -> Option<Cow<'_, str>> {
    value.strip_prefix('"')?.strip_suffix('"').map(unescape)
}

/// The characters of a string without its quotes.
pub(crate) fn unescape(body: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', body.as_bytes()).is_none() {
        return Cow::Borrowed(body);
    }
    let mut unescaped = String::with_capacity(body.len());
    lex::unescape_into(body, &mut unescaped);
    Cow::Owned(unescaped)
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

    #[test]
    fn a_member_is_found_as_it_stands() {
        fn check(text: &str, name: &str, expected: Option<&str>) {
            assert_eq!(member(text, name), expected, "{name} in {text}");
        }
        let text = r#" { "x" : {"a":1} , "\u0061" : "s\"}" ,"b":[1, {"c":2}],"c" : -1.5e3 } "#;
        check(text, "x", Some(r#"{"a":1}"#));
        check(text, "a", Some(r#""s\"}""#));
        check(text, "b", Some(r#"[1, {"c":2}]"#));
        check(text, "c", Some("-1.5e3"));
        check(text, "d", None);
        for text in ["{}", "[]", "1", "null", "\"a\"", ""] {
            check(text, "a", None);
        }
    }

    #[test]
    fn a_string_is_read_without_its_quotes() {
        assert_eq!(string_value(r#""a\u0062\/""#).as_deref(), Some("ab/"));
        assert!(matches!(string_value(r#""plain""#), Some(Cow::Borrowed("plain"))));
        for other in ["1", "null", "[\"a\"]", "{}", ""] {
            assert_eq!(string_value(other), None, "{other}");
        }
    }
}
