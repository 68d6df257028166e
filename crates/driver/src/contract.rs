//! Strict reading of documents, and what every document type of the protocol has in common.

use std::borrow::Cow;

use pintle_wire::{Digest, InstanceId, MAX_EXACT_INTEGER, Profile, scan};

use crate::cursor::{Member, Members, Value};
use crate::error::{ContractError, Problem, ProtocolError};
use crate::value::{FreeValue, LIMITS};
use crate::writer::Writer;

/// A document type of the protocol: the params or the result of a method, or a part of one.
///
/// Reading is strict: unknown members (names are case-sensitive), members that appear twice, wrong types and missing
/// members are refused. Where the published behaviour takes an absent or null member as "none", the type's docs say so.
pub trait Contract: Codec {
    /// Checks the values of a document that was put together in code; a decoded one has passed already.
    ///
    /// # Errors
    /// The first member whose value the protocol does not allow.
    fn validate(&self) -> Result<(), ContractError>;
}

/// The part of [`Contract`] that only this crate implements.
pub trait Codec: Sized {
    #[doc(hidden)]
    fn read(source: Source<'_>) -> Result<Self, ContractError>;
    #[doc(hidden)]
    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError>;
}

/// Keeps the cursor out of the public signatures.
pub struct Source<'a>(pub(crate) Value<'a>);

/// Keeps the writer out of the public signatures.
pub struct Target<'t, 'o>(pub(crate) &'t mut Writer<'o>);

/// Decodes params or a result into its type: one strict JSON value, no unknown and no duplicate members.
///
/// # Errors
/// Class `invalid_request`, or `budget_exceeded` where a size is over its bound.
pub fn decode_params_strict<T: Contract>(bytes: &[u8]) -> Result<T, ProtocolError> {
    let text = scan(bytes, Profile::DriverRpc, LIMITS).map_err(ProtocolError::json)?;
    decode_value(Value::root(text.as_str()))
}

/// Decodes a free value, such as the result of a response, into its type.
///
/// # Errors
/// As [`decode_params_strict`].
pub fn decode_free_value<T: Contract>(value: &FreeValue) -> Result<T, ProtocolError> {
    decode_value(Value::root(value.as_str()))
}

/// The canonical text of a document.
///
/// # Errors
/// When the document does not validate, or a free value in it has no canonical form.
pub fn encode_contract<T: Contract>(document: &T) -> Result<Vec<u8>, ProtocolError> {
    document.validate().map_err(ProtocolError::Contract)?;
    let mut out = Vec::new();
    document.write(Target(&mut Writer::new(&mut out)))?;
    Ok(out)
}

fn decode_value<T: Contract>(value: Value<'_>) -> Result<T, ProtocolError> {
    read(value).map_err(ProtocolError::Contract)
}

/// Reads and validates.
pub(crate) fn read<T: Contract>(value: Value<'_>) -> Result<T, ContractError> {
    let document = T::read(Source(value))?;
    document.validate()?;
    Ok(document)
}

pub(crate) fn object<'a>(value: Value<'a>, at: &'static str) -> Result<Members<'a>, ContractError> {
    if value.is_object() { Ok(value.members()) } else { Err(wrong_type(value, at, "an object")) }
}

pub(crate) fn wrong_type(value: Value<'_>, at: &'static str, wanted: &'static str) -> ContractError {
    let problem = if value.is_null() { Problem::Null } else { Problem::Expected(wanted) };
    ContractError::new(at, problem)
}

pub(crate) fn unknown(member: &Member<'_>, at: &'static str) -> ContractError {
    ContractError::new(at, Problem::UnknownMember { offset: member.offset })
}

pub(crate) fn required<T>(value: Option<T>, at: &'static str) -> Result<T, ContractError> {
    value.ok_or(ContractError::new(at, Problem::Missing))
}

pub(crate) fn string<'a>(value: Value<'a>, at: &'static str) -> Result<Cow<'a, str>, ContractError> {
    value.string().ok_or_else(|| wrong_type(value, at, "a string"))
}

pub(crate) fn text(value: Value<'_>, at: &'static str) -> Result<Box<str>, ContractError> {
    Ok(string(value, at)?.into())
}

pub(crate) fn instance_id(value: Value<'_>, at: &'static str) -> Result<InstanceId, ContractError> {
    string(value, at)?.parse().map_err(|_| ContractError::new(at, Problem::Invalid("a lower-case UUIDv7")))
}

pub(crate) fn digest(value: Value<'_>, at: &'static str) -> Result<Digest, ContractError> {
    string(value, at)?.parse().map_err(|_| ContractError::new(at, Problem::Invalid("a sha256 digest")))
}

pub(crate) fn boolean(value: Value<'_>, at: &'static str) -> Result<bool, ContractError> {
    value.boolean().ok_or_else(|| wrong_type(value, at, "a boolean"))
}

pub(crate) fn unsigned(value: Value<'_>, at: &'static str) -> Result<u64, ContractError> {
    let wanted = "an exact integer from 0 to 2^53";
    value.integer().and_then(|number| u64::try_from(number).ok()).ok_or_else(|| wrong_type(value, at, wanted))
}

pub(crate) fn unsigned_32(value: Value<'_>, at: &'static str) -> Result<u32, ContractError> {
    let number = unsigned(value, at)?;
    u32::try_from(number).map_err(|_| ContractError::new(at, Problem::Expected("an integer of 32 bits")))
}

/// A list of strings; null is the empty list.
pub(crate) fn list_or_null<T: From<Box<str>>>(value: Value<'_>, at: &'static str) -> Result<Vec<T>, ContractError> {
    if value.is_null() { Ok(Vec::new()) } else { list(value, at) }
}

pub(crate) fn list<T: From<Box<str>>>(value: Value<'_>, at: &'static str) -> Result<Vec<T>, ContractError> {
    if !value.is_array() {
        return Err(wrong_type(value, at, "an array of strings"));
    }
    value.elements().map(|element| text(element, at).map(T::from)).collect()
}

pub(crate) fn not_empty(text: &str, at: &'static str) -> Result<(), ContractError> {
    if text.is_empty() { Err(ContractError::new(at, Problem::Empty)) } else { Ok(()) }
}

/// The bound that decoding puts on integers holds for what we write, too.
pub(crate) fn safe(number: u64, at: &'static str) -> Result<(), ContractError> {
    if number > MAX_EXACT_INTEGER {
        return Err(ContractError::new(at, Problem::OverLimit { limit: MAX_EXACT_INTEGER }));
    }
    Ok(())
}
