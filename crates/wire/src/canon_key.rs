//! Map keys of our own values, as names.

use std::fmt::Write as _;

use serde::Serialize;
use serde::ser::{Impossible, Serializer};

use crate::canon::CanonError;

/// Appends the name that serde_json would give a map key.
pub(crate) struct KeySerializer<'k>(pub(crate) &'k mut String);

macro_rules! keys {
    ($($method:ident: $kind:ty),* $(,)?) => {
        $(fn $method(self, value: $kind) -> Result<(), CanonError> {
            write!(self.0, "{value}").map_err(|_| CanonError::KeyNotString)
        })*
    };
}

type NoCompound = Impossible<(), CanonError>;

impl Serializer for KeySerializer<'_> {
    type Ok = ();
    type Error = CanonError;
    type SerializeSeq = NoCompound;
    type SerializeTuple = NoCompound;
    type SerializeTupleStruct = NoCompound;
    type SerializeTupleVariant = NoCompound;
    type SerializeMap = NoCompound;
    type SerializeStruct = NoCompound;
    type SerializeStructVariant = NoCompound;

    keys! {
        serialize_bool: bool, serialize_char: char,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    fn serialize_str(self, value: &str) -> Result<(), CanonError> {
        self.0.push_str(value);
        Ok(())
    }

    fn serialize_f32(self, _value: f32) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_f64(self, _value: f64) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_none(self) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _value: &T) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_unit(self) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
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
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_tuple(self, _len: usize) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<NoCompound, CanonError> {
        Err(CanonError::KeyNotString)
    }
}
