//! RFC 8785 for our own values: a serde serializer that writes the canonical form at once.

use std::cmp::Ordering;

use serde::Serialize;
use serde::ser::{self, Serializer};

use crate::canon::{CanonError, append_string, canonicalize_into, prefix_order, utf16_order, write_double};
use crate::canon_key::KeySerializer;
use crate::names::prefix;
use crate::number::MAX_EXACT_INTEGER;
use crate::scan::{Profile, ScanLimits, scan};

/// The name by which serde_json's `RawValue` makes itself known to a serializer.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The canonical form (RFC 8785) of a value of ours.
///
/// An integer beyond 2^53 in magnitude is refused instead of being rounded. A `RawValue` inside is free text that somebody
/// sent: it is scanned, and printed as [`canonicalize`](crate::canonicalize) prints it, numbers as doubles. Members may be
/// declared in any order; in canonical order they need no sorting.
///
/// # Errors
///
/// [`CanonError`].
pub fn to_canonical<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonError> {
    let mut out = Vec::with_capacity(256);
    append_canonical(value, &mut out)?;
    Ok(out)
}

/// Appends the canonical form of a value of ours to `out`; on an error `out` is as it was.
///
/// # Errors
///
/// [`CanonError`].
pub fn append_canonical<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CanonError> {
    let length = out.len();
    let mut writer = Writer { out, members: Vec::new(), keys: String::new(), scratch: Vec::new() };
    value.serialize(&mut writer).inspect_err(|_| writer.out.truncate(length))
}

/// The output, and the members of the objects that are open.
struct Writer<'w> {
    out: &'w mut Vec<u8>,
    members: Vec<Member>,
    /// Names of those members, one after another.
    keys: String,
    scratch: Vec<u8>,
}

/// A member that has been written.
#[derive(Clone, Copy)]
struct Member {
    /// Where its text is in the output, without a comma.
    start: usize,
    end: usize,
    /// The first bytes of its name.
    prefix: u64,
    /// Where its name is in the keys.
    key_start: usize,
    key_end: usize,
}

impl Writer<'_> {
    fn integer(&mut self, negative: bool, magnitude: u128) -> Result<(), CanonError> {
        if magnitude > u128::from(MAX_EXACT_INTEGER) {
            return Err(CanonError::UnsafeInteger);
        }
        if negative {
            self.out.push(b'-');
        }
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        let mut rest = magnitude as u64;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[at..]);
        Ok(())
    }

    fn key(&self, member: &Member) -> &str {
        self.keys.get(member.key_start..member.key_end).unwrap_or_default()
    }

    #[inline]
    fn order(&self, a: &Member, b: &Member) -> Ordering {
        prefix_order(a.prefix, b.prefix).unwrap_or_else(|| utf16_order(self.key(a), self.key(b)))
    }

    fn raw_value(&mut self, text: &str) -> Result<(), CanonError> {
        let text = scan(text.as_bytes(), Profile::DriverRpc, ScanLimits::DEPTH_ONLY)?;
        canonicalize_into(&text, self.out)
    }
}

/// An array, or an object, that is open.
struct Compound<'a, 'w> {
    writer: &'a mut Writer<'w>,
    kind: Kind,
    /// Members and keys that belong to enclosing objects.
    first_member: usize,
    first_key: usize,
    /// Whether the names ascend so far.
    sorted: bool,
    /// A name that waits for its value: where its text starts in the output, and its name in the keys.
    pending: Option<(usize, usize)>,
    empty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Object,
    /// An array or object that is the only member of an object, named after an enum variant.
    Variant {
        object: bool,
    },
    /// A `RawValue`.
    Raw,
}

impl<'a, 'w> Compound<'a, 'w> {
    fn open(writer: &'a mut Writer<'w>, kind: Kind) -> Self {
        match kind {
            Kind::Array | Kind::Variant { object: false } => writer.out.push(b'['),
            Kind::Object | Kind::Variant { object: true } => writer.out.push(b'{'),
            Kind::Raw => {}
        }
        let (first_member, first_key) = (writer.members.len(), writer.keys.len());
        Self { writer, kind, first_member, first_key, sorted: true, pending: None, empty: true }
    }

    fn variant(writer: &'a mut Writer<'w>, variant: &str, object: bool) -> Self {
        writer.out.push(b'{');
        append_string(variant, writer.out);
        writer.out.push(b':');
        Self::open(writer, Kind::Variant { object })
    }

    fn comma(&mut self) {
        if !self.empty {
            self.writer.out.push(b',');
        }
        self.empty = false;
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonError> {
        self.comma();
        value.serialize(&mut *self.writer)
    }

    /// A name; `write` appends it to the keys.
    fn name(&mut self, write: impl FnOnce(&mut String) -> Result<(), CanonError>) -> Result<(), CanonError> {
        self.comma();
        let Writer { out, keys, .. } = &mut *self.writer;
        let (start, key_start) = (out.len(), keys.len());
        write(keys)?;
        append_string(&keys[key_start..], out);
        out.push(b':');
        self.pending = Some((start, key_start));
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonError> {
        let Some((start, key_start)) = self.pending.take() else {
            return Err(CanonError::Refused { message: "map value without a key".into() });
        };
        let key_end = self.writer.keys.len();
        let prefix = prefix(self.writer.keys.as_bytes(), key_start, key_end - key_start);
        value.serialize(&mut *self.writer)?;
        let member = Member { start, end: self.writer.out.len(), prefix, key_start, key_end };
        if let Some(previous) = self.writer.members[self.first_member..].last() {
            match self.writer.order(previous, &member) {
                Ordering::Less => {}
                Ordering::Equal => return Err(CanonError::DuplicateKey),
                Ordering::Greater => self.sorted = false,
            }
        }
        self.writer.members.push(member);
        Ok(())
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), CanonError> {
        if self.kind == Kind::Raw {
            let mut text = String::new();
            value.serialize(KeySerializer(&mut text))?;
            return self.writer.raw_value(&text);
        }
        self.name(|keys| {
            keys.push_str(name);
            Ok(())
        })?;
        self.value(value)
    }

    fn close(mut self) -> Result<(), CanonError> {
        if !self.sorted {
            self.sort()?;
        }
        self.writer.members.truncate(self.first_member);
        self.writer.keys.truncate(self.first_key);
        match self.kind {
            Kind::Array => self.writer.out.push(b']'),
            Kind::Object => self.writer.out.push(b'}'),
            Kind::Variant { object: false } => self.writer.out.extend_from_slice(b"]}"),
            Kind::Variant { object: true } => self.writer.out.extend_from_slice(b"}}"),
            Kind::Raw => {}
        }
        Ok(())
    }

    /// Puts the members that stand in the output into canonical order.
    fn sort(&mut self) -> Result<(), CanonError> {
        let mut order = self.writer.members[self.first_member..].to_vec();
        let Some(first) = order.first().map(|member| member.start) else { return Ok(()) };
        order.sort_by(|a, b| self.writer.order(a, b));
        if order.windows(2).any(|pair| self.writer.key(&pair[0]) == self.writer.key(&pair[1])) {
            return Err(CanonError::DuplicateKey);
        }
        let Writer { out, scratch, .. } = &mut *self.writer;
        scratch.clear();
        for (index, member) in order.iter().enumerate() {
            if index > 0 {
                scratch.push(b',');
            }
            scratch.extend_from_slice(&out[member.start..member.end]);
        }
        out.truncate(first);
        out.extend_from_slice(scratch);
        Ok(())
    }
}

macro_rules! integers {
    ($negative:expr; $($method:ident: $int:ty),*) => {
        $(fn $method(self, value: $int) -> Result<(), CanonError> {
            self.integer($negative(value.into()), value.abs_diff(0).into())
        })*
    };
}

impl<'a, 'w> Serializer for &'a mut Writer<'w> {
    type Ok = ();
    type Error = CanonError;
    type SerializeSeq = Compound<'a, 'w>;
    type SerializeTuple = Compound<'a, 'w>;
    type SerializeTupleStruct = Compound<'a, 'w>;
    type SerializeTupleVariant = Compound<'a, 'w>;
    type SerializeMap = Compound<'a, 'w>;
    type SerializeStruct = Compound<'a, 'w>;
    type SerializeStructVariant = Compound<'a, 'w>;

    integers! {
        |value: i128| value < 0;
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128
    }
    integers! {
        |_: u128| false;
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128
    }

    fn serialize_bool(self, value: bool) -> Result<(), CanonError> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), CanonError> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), CanonError> {
        if !value.is_finite() {
            return Err(CanonError::NotFinite);
        }
        write_double(value, self.out);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), CanonError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), CanonError> {
        append_string(value, self.out);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), CanonError> {
        let mut array = Compound::open(self, Kind::Array);
        for byte in value {
            array.element(byte)?;
        }
        array.close()
    }

    fn serialize_none(self) -> Result<(), CanonError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), CanonError> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), CanonError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), CanonError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), CanonError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), CanonError> {
        let mut object = Compound::open(self, Kind::Object);
        object.name(|keys| {
            keys.push_str(variant);
            Ok(())
        })?;
        object.value(value)?;
        object.close()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, CanonError> {
        Ok(Compound::open(self, Kind::Array))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, CanonError> {
        Ok(Compound::open(self, Kind::Array))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleStruct, CanonError> {
        Ok(Compound::open(self, Kind::Array))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, CanonError> {
        Ok(Compound::variant(self, variant, false))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, CanonError> {
        Ok(Compound::open(self, Kind::Object))
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Self::SerializeStruct, CanonError> {
        Ok(Compound::open(self, if name == RAW_VALUE { Kind::Raw } else { Kind::Object }))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, CanonError> {
        Ok(Compound::variant(self, variant, true))
    }
}

macro_rules! arrays {
    ($($name:ident: $method:ident),*) => {
        $(impl ser::$name for Compound<'_, '_> {
            type Ok = ();
            type Error = CanonError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonError> {
                self.element(value)
            }

            fn end(self) -> Result<(), CanonError> {
                self.close()
            }
        })*
    };
}

arrays! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
}

macro_rules! objects {
    ($($name:ident),*) => {
        $(impl ser::$name for Compound<'_, '_> {
            type Ok = ();
            type Error = CanonError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), CanonError> {
                self.member(name, value)
            }

            fn end(self) -> Result<(), CanonError> {
                self.close()
            }
        })*
    };
}

objects! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = CanonError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonError> {
        self.name(|keys| key.serialize(KeySerializer(keys)))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonError> {
        self.value(value)
    }

    fn end(self) -> Result<(), CanonError> {
        self.close()
    }
}

impl ser::Error for CanonError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Refused { message: message.to_string().into() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;

    fn check<T: Serialize>(value: T, expected: Result<&str, CanonError>) {
        let canonical = to_canonical(&value).map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        assert_eq!(
            canonical.as_deref().map_err(Clone::clone),
            expected.as_ref().map(|text| *text).map_err(Clone::clone)
        );
    }

    #[derive(Serialize)]
    enum Shape {
        Unit,
        Newtype(u8),
        Tuple(u8, bool),
        Struct { z: Option<u8>, a: &'static str },
    }

    #[derive(Serialize)]
    struct Free<'a> {
        payload: &'a RawValue,
        kind: char,
    }

    #[test]
    fn shapes_are_those_of_serde_json_with_sorted_members() {
        check((Shape::Unit, Shape::Newtype(1)), Ok(r#"["Unit",{"Newtype":1}]"#));
        check(Shape::Tuple(2, true), Ok(r#"{"Tuple":[2,true]}"#));
        check(Shape::Struct { z: None, a: "\u{1}\"" }, Ok(r#"{"Struct":{"a":"\u0001\"","z":null}}"#));
        check(BTreeMap::from([(-1, 0.5), (10, -0.0)]), Ok(r#"{"-1":0.5,"10":0}"#));
        check(BTreeMap::from([("\u{fb33}", 1), ("\u{1f600}", 2)]), Ok("{\"\u{1f600}\":2,\"\u{fb33}\":1}"));
    }

    #[test]
    fn integers_that_a_double_would_change_are_refused() {
        check([i64::MIN, 0], Err(CanonError::UnsafeInteger));
        check(u64::MAX, Err(CanonError::UnsafeInteger));
        check(MAX_EXACT_INTEGER + 1, Err(CanonError::UnsafeInteger));
        check([-9_007_199_254_740_992_i64, 9_007_199_254_740_991], Ok("[-9007199254740992,9007199254740991]"));
        check(f64::NAN, Err(CanonError::NotFinite));
    }

    #[test]
    fn free_text_prints_numbers_as_doubles() {
        let payload = r#"{ "b":9007199254740993, "a":1.0 }"#;
        let payload: &RawValue = serde_json::from_str(payload).expect("JSON");
        check(Free { payload, kind: 'x' }, Ok(r#"{"kind":"x","payload":{"a":1,"b":9007199254740992}}"#));
        let twice: &RawValue = serde_json::from_str(r#"{"a":1,"a":2}"#).expect("serde_json takes it");
        assert!(matches!(to_canonical(twice), Err(CanonError::Json(_))));
    }

    #[test]
    fn an_error_leaves_the_output_alone() {
        let mut out = b"kept".to_vec();
        assert!(append_canonical(&(1, u64::MAX), &mut out).is_err());
        assert_eq!(out, b"kept");
    }
}
