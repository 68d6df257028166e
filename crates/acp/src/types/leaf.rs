//! Shapes of plain values: strings, numbers, booleans, lists, three-state members.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::raw::Raw;
use super::shape::{Fault, Finding, Malformed, NameSeed, Out, Read, Seed, Shape, Token, Trail, decode};

macro_rules! leaf {
    ($ty:ty, $expected:literal, |$token:ident| $read:expr, |$value:ident| $write:expr) => {
        impl Shape for $ty {
            const EXPECTED: &'static str = $expected;

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
                let $token = Token::read(deserializer)?;
                let taken: Result<Self, Token<'de>> = $read;
                Ok(taken.or_else(|token| token.refuse(Self::EXPECTED)))
            }

            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $value = self;
                Serialize::serialize(&$write, serializer)
            }
        }
    };
}

leaf!(
    String,
    "a string",
    |token| match token {
        Token::Str(text) => Ok(text.into_owned()),
        other => Err(other),
    },
    |value| **value
);
leaf!(
    Arc<str>,
    "a string",
    |token| match token {
        Token::Str(text) => Ok(Self::from(&*text)),
        other => Err(other),
    },
    |value| **value
);
leaf!(
    bool,
    "true or false",
    |token| match token {
        Token::Bool(v) => Ok(v),
        other => Err(other),
    },
    |value| *value
);
leaf!(
    u16,
    "an integer from 0 to 65535",
    |token| match token {
        Token::Int(v) => Self::try_from(v).map_err(|_| token),
        other => Err(other),
    },
    |value| *value
);
leaf!(
    u32,
    "an integer from 0 to 4294967295",
    |token| match token {
        Token::Int(v) => Self::try_from(v).map_err(|_| token),
        other => Err(other),
    },
    |value| *value
);
leaf!(
    i32,
    "a 32-bit integer",
    |token| match token {
        Token::Int(v) => Self::try_from(v).map_err(|_| token),
        other => Err(other),
    },
    |value| *value
);
leaf!(
    u64,
    "a non-negative integer",
    |token| match token {
        Token::Int(v) => Self::try_from(v).map_err(|_| token),
        Token::Uint(v) => Ok(v),
        other => Err(other),
    },
    |value| *value
);
leaf!(
    i64,
    "an integer",
    |token| match token {
        Token::Int(v) => Ok(v),
        other => Err(other),
    },
    |value| *value
);

impl<T: Shape> Shape for Box<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(T::read(deserializer)?.map(Self::new))
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).write(serializer)
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        (**self).inspect(at, out);
    }
}

/// Integers from here on are not all exact as doubles.
const EXACT_INTEGERS_BELOW: f64 = 9_007_199_254_740_992.0;

impl Shape for f64 {
    const EXPECTED: &'static str = "a number";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        let token = Token::read(deserializer)?;
        Ok(match token {
            Token::Float(v) => Ok(v),
            #[expect(clippy::cast_precision_loss, reason = "only magnitudes that a double holds exactly get here")]
            Token::Int(v) if v.unsigned_abs() <= 1 << 53 => Ok(v as Self),
            other => other.refuse(Self::EXPECTED),
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.fract() == 0.0 && self.abs() < EXACT_INTEGERS_BELOW && !(*self == 0.0 && self.is_sign_negative()) {
            #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
            serializer.serialize_i64(*self as i64)
        } else {
            serializer.serialize_f64(*self)
        }
    }
}

/// A list whose broken items do not break it: they are passed over and written back at their place.
///
/// Use it as a `Vec`; build it with `into()` or `collect()`.
#[derive(Clone, PartialEq, Eq)]
pub struct List<T> {
    items: Vec<T>,
    #[expect(clippy::box_collection, reason = "nearly always empty, and there are many lists")]
    skipped: Option<Box<Vec<(usize, Raw)>>>,
}

impl<T> List<T> {
    /// The items that could not be read, with their positions in the list as it came.
    pub fn skipped(&self) -> impl Iterator<Item = (usize, &Raw)> {
        self.skipped.iter().flat_map(|skipped| skipped.iter()).map(|(at, raw)| (*at, raw))
    }

    /// The readable items.
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new(), skipped: None }
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).entries(self.skipped().map(|(_, raw)| raw)).finish()
    }
}

impl<T> Deref for List<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl<T, U: Into<T>> From<Vec<U>> for List<T> {
    fn from(items: Vec<U>) -> Self {
        items.into_iter().collect()
    }
}

impl<T, U: Into<T>, const N: usize> From<[U; N]> for List<T> {
    fn from(items: [U; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T, U: Into<T>> FromIterator<U> for List<T> {
    fn from_iter<I: IntoIterator<Item = U>>(items: I) -> Self {
        Self { items: items.into_iter().map(Into::into).collect(), skipped: None }
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<T: Shape> Shape for List<T> {
    const EXPECTED: &'static str = "a list";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        let mut list = Self::default();
        let outcome = read_items::<T, D>(deserializer, |at, item| match item {
            Ok(item) => list.items.push(item),
            Err(malformed) => list.skipped.get_or_insert_default().push((at, malformed.raw)),
        })?;
        Ok(outcome.map(|()| list))
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.items.len() + self.skipped().count()))?;
        let mut skipped = self.skipped().peekable();
        let mut at = 0;
        for item in &self.items {
            while let Some((_, raw)) = skipped.next_if(|(place, _)| *place <= at) {
                seq.serialize_element(raw)?;
                at += 1;
            }
            seq.serialize_element(&Out(item))?;
            at += 1;
        }
        for (_, raw) in skipped {
            seq.serialize_element(raw)?;
        }
        seq.end()
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        for (i, item) in self.items.iter().enumerate() {
            // With skipped items before it, an item stood later in the list as it came.
            let place = self.skipped().fold(i, |place, (skipped, _)| if skipped <= place { place + 1 } else { place });
            at.index(place, |at| item.inspect(at, out));
        }
        for (place, raw) in self.skipped() {
            if let Err(fault) = decode::<T>(raw.get()) {
                out.push(Finding::Malformed(at.fault(fault.at(place))));
            }
        }
    }
}

/// A list that is as good as its worst item.
impl<T: Shape> Shape for Vec<T> {
    const EXPECTED: &'static str = "a list";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        let mut items = Self::new();
        let mut broken: Option<(Fault, Vec<Raw>)> = None;
        let outcome = read_items::<T, D>(deserializer, |at, item| match (item, &mut broken) {
            (Ok(item), None) => items.push(item),
            (Ok(item), Some((_, raws))) => raws.push(Raw::of(&item)),
            (Err(malformed), None) => {
                let mut raws: Vec<Raw> = items.iter().map(Raw::of).collect();
                raws.push(malformed.raw);
                broken = Some((malformed.fault.at(at), raws));
            }
            (Err(malformed), Some((_, raws))) => raws.push(malformed.raw),
        })?;
        Ok(match (outcome, broken) {
            (Err(malformed), _) => Err(malformed),
            (Ok(()), None) => Ok(items),
            (Ok(()), Some((fault, raws))) => {
                Err(Malformed::new(fault, Raw::from_serialize(&raws).unwrap_or_else(|_| Raw::null())))
            }
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Out))
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        for (i, item) in self.iter().enumerate() {
            at.index(i, |at| item.inspect(at, out));
        }
    }
}

/// Reads a sequence item by item; anything else in its place is refused.
fn read_items<'de, T: Shape, D: Deserializer<'de>>(
    deserializer: D,
    each: impl FnMut(usize, Read<T>),
) -> Result<Read<()>, D::Error> {
    struct Items<T, F>(F, std::marker::PhantomData<T>);

    impl<'de, T: Shape, F: FnMut(usize, Read<T>)> Visitor<'de> for Items<T, F> {
        type Value = Read<()>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut at = 0;
            while let Some(item) = seq.next_element_seed(Seed::<T>::new())? {
                (self.0)(at, item);
                at += 1;
            }
            Ok(Ok(()))
        }

        super::declare::refuse_all_but_seq!("a list");
    }

    deserializer.deserialize_any(Items(each, std::marker::PhantomData))
}

/// String keys to values, in key order; the key order of the wire carries no meaning.
impl<T: Shape> Shape for BTreeMap<String, T> {
    const EXPECTED: &'static str = "an object";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);

        impl<'de, T: Shape> Visitor<'de> for Entries<T> {
            type Value = Read<BTreeMap<String, T>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                let mut fault = None;
                let mut raws: Vec<(Cow<'de, str>, Raw)> = Vec::new();
                while let Some(name) = map.next_key_seed(NameSeed)? {
                    match map.next_value_seed(Seed::<T>::new())? {
                        Ok(value) => {
                            entries.insert(name.into_owned(), value);
                        }
                        Err(malformed) => {
                            fault.get_or_insert(malformed.fault);
                            raws.push((name, malformed.raw));
                        }
                    }
                }
                let Some(fault) = fault else { return Ok(Ok(entries)) };
                raws.extend(entries.iter().map(|(name, value)| (Cow::Owned(name.clone()), Raw::of(value))));
                Ok(Err(Malformed::new(fault, Raw::object(raws.iter().map(|(name, raw)| (&**name, raw))))))
            }

            super::declare::refuse_all_but_map!("an object");
        }

        deserializer.deserialize_any(Entries(std::marker::PhantomData))
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self {
            map.serialize_entry(name, &Out(value))?;
        }
        map.end()
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        for value in self.values() {
            value.inspect(at, out);
        }
    }
}

/// A member with three states: not there (keep what you have), `null` (clear it), a value (set it).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The member is not there: what is known stays.
    #[default]
    Keep,
    /// The member is `null`: what is known is cleared.
    Clear,
    /// The member has a value: it replaces what is known.
    Set(T),
}

impl<T> Patch<T> {
    /// The new value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }

    /// Applies the patch to what is known.
    pub fn apply(self, known: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *known = None,
            Self::Set(value) => *known = Some(value),
        }
    }
}

impl<T> From<T> for Patch<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

impl From<&str> for Patch<String> {
    fn from(value: &str) -> Self {
        Self::Set(value.to_owned())
    }
}

impl<T: Shape> Shape for Patch<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(match T::read(deserializer)? {
            Ok(value) => Ok(Self::Set(value)),
            Err(malformed) if malformed.raw.is_null() => Ok(Self::Clear),
            Err(malformed) => Err(malformed),
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Clear => serializer.serialize_unit(),
            Self::Set(value) => value.write(serializer),
        }
    }

    fn inspect(&self, at: &mut Trail, out: &mut Vec<Finding>) {
        if let Self::Set(value) = self {
            value.inspect(at, out);
        }
    }
}
