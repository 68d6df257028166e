//! A second reading of JSON: serde_json, made strict by a visitor of its own.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Deeper values than any bound of ours, and shallow enough for the stack.
const MAX_DEPTH: usize = 1000;

/// A tree whose objects have no name twice.
#[derive(Debug)]
pub(crate) struct Strict(pub(crate) Value);

/// What serde_json reads; `None` when it refuses the text, or an object has a name twice.
pub(crate) fn strict(text: &[u8]) -> Option<Value> {
    from_slice::<Strict>(text).map(|tree| tree.0)
}

/// What serde_json reads, the last of two members with one name winning.
pub(crate) fn lenient(text: &[u8]) -> Option<Value> {
    from_slice(text)
}

fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Option<T> {
    // The stack is the only bound once serde_json's own is off.
    if nesting(text) > MAX_DEPTH {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    Some(value)
}

/// No fewer than the levels of nesting: opening brackets anywhere, strings included, closing ones ignored.
fn nesting(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b'[' | b'{')).count()
}

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name twice"));
            }
        }
        Ok(object.into())
    }
}
