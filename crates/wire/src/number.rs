//! Integers of the protocol: exact, however they are spelled.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The largest integer such that it and its neighbours are exact as doubles: 2^53 - 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// The largest magnitude that an integer of ours or of a typed member may have: 2^53. Its text is exact as a double, though
/// its neighbour above is not; the published vectors accept it.
pub const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// Decimal digits of [`MAX_EXACT_INTEGER`].
const MAX_DIGITS: i64 = 16;

/// Why a number is not an integer of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum IntegerError {
    /// Not a JSON number at all.
    #[error("value is not a number")]
    NotANumber,
    /// A number with a fraction.
    #[error("number is not an integer")]
    Fraction,
    /// Beyond 2^53 in magnitude, where doubles skip integers.
    #[error("integer is beyond 2^53 in magnitude")]
    TooLarge,
    /// Outside the range of the type that is wanted.
    #[error("integer is out of range")]
    OutOfRange,
}

/// The integer that a JSON number means, however it is spelled (`1.0`, `1e2`, `-0`), if it is exact.
///
/// Nothing is rounded: `9007199254740993` and `1.5` are refused. The one exception is underflow: a number so small that RFC
/// 8785 prints it as `0`, such as `1e-400`, is 0.
///
/// # Errors
///
/// [`IntegerError`], never with [`IntegerError::OutOfRange`].
pub fn parse_integer(text: &str) -> Result<i64, IntegerError> {
    let bytes = text.as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let digits = &bytes[usize::from(negative)..];
    // The short way: an integer that is written as one.
    if !digits.is_empty() && digits.len() < MAX_DIGITS as usize && digits.iter().all(u8::is_ascii_digit) {
        let value = digits.iter().fold(0_i64, |value, digit| value * 10 + i64::from(digit - b'0'));
        return Ok(if negative { -value } else { value });
    }
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&digits[..at], parse_exponent(&digits[at + 1..])?),
        None => (digits, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(IntegerError::NotANumber);
    }
    let all = || whole.iter().chain(fraction).copied();
    let Some(last) = all().rposition_nonzero() else { return Ok(0) };
    let first = all().position(|digit| digit != b'0').unwrap_or(last);
    // The value is the digits `first..=last` times ten to the power of `shift`.
    let shift = (whole.len() as i64 - 1 - last as i64).saturating_add(exponent);
    if shift < 0 {
        let zero = text.parse::<f64>().is_ok_and(|value| value == 0.0);
        return if zero { Ok(0) } else { Err(IntegerError::Fraction) };
    }
    let count = (last - first + 1) as i64;
    if count.saturating_add(shift) > MAX_DIGITS {
        return Err(IntegerError::TooLarge);
    }
    let significant =
        all().skip(first).take(count as usize).fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    let magnitude = significant * 10_u64.pow(shift as u32);
    if magnitude > MAX_EXACT_INTEGER {
        return Err(IntegerError::TooLarge);
    }
    Ok(if negative { -(magnitude as i64) } else { magnitude as i64 })
}

/// The exponent after its `e`, clamped far outside what a frame can reach.
fn parse_exponent(text: &[u8]) -> Result<i64, IntegerError> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(IntegerError::NotANumber);
    }
    let magnitude = digits.iter().fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 48));
    Ok(if negative { -magnitude } else { magnitude })
}

/// Position of the last digit that is not zero.
trait LastNonZero {
    fn rposition_nonzero(self) -> Option<usize>;
}

impl<I: Iterator<Item = u8>> LastNonZero for I {
    fn rposition_nonzero(self) -> Option<usize> {
        self.enumerate().filter(|(_, digit)| *digit != b'0').map(|(at, _)| at).last()
    }
}

/// An unsigned integer member of the protocol, 0 to 2^53. Decodes every exact spelling, refuses everything else.
///
/// Decoding works from JSON text only (a [`Text`](crate::Text) or a part of one), because the spelling decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SafeU64(u64);

impl SafeU64 {
    /// The integer, if it is at most 2^53.
    ///
    /// # Errors
    ///
    /// [`IntegerError::TooLarge`].
    pub const fn new(value: u64) -> Result<Self, IntegerError> {
        if value > MAX_EXACT_INTEGER { Err(IntegerError::TooLarge) } else { Ok(Self(value)) }
    }

    /// The integer.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SafeU64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<SafeU64> for u64 {
    fn from(value: SafeU64) -> Self {
        value.0
    }
}

impl TryFrom<u64> for SafeU64 {
    type Error = IntegerError;

    fn try_from(value: u64) -> Result<Self, IntegerError> {
        Self::new(value)
    }
}

impl Serialize for SafeU64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for SafeU64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let value = parse_integer(raw.get()).map_err(|error| refused(error, "an integer from 0 to 2^53"))?;
        u64::try_from(value).map(Self).map_err(|_| refused(IntegerError::OutOfRange, "an integer from 0 to 2^53"))
    }
}

/// A signed integer member of the protocol, -2^53 to 2^53. Otherwise like [`SafeU64`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SafeI64(i64);

impl SafeI64 {
    /// The integer, if its magnitude is at most 2^53.
    ///
    /// # Errors
    ///
    /// [`IntegerError::TooLarge`].
    pub const fn new(value: i64) -> Result<Self, IntegerError> {
        if value.unsigned_abs() > MAX_EXACT_INTEGER { Err(IntegerError::TooLarge) } else { Ok(Self(value)) }
    }

    /// The integer.
    pub const fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for SafeI64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<SafeI64> for i64 {
    fn from(value: SafeI64) -> Self {
        value.0
    }
}

impl TryFrom<i64> for SafeI64 {
    type Error = IntegerError;

    fn try_from(value: i64) -> Result<Self, IntegerError> {
        Self::new(value)
    }
}

impl Serialize for SafeI64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for SafeI64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        parse_integer(raw.get()).map(Self).map_err(|error| refused(error, "an integer within 2^53 of zero"))
    }
}

/// An error in serde's own form, so that [`DecodeError`](crate::DecodeError) can name what was expected.
fn refused<E: Error>(error: IntegerError, expected: &'static str) -> E {
    E::custom(format_args!("{error}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<i64, IntegerError>) {
        assert_eq!(parse_integer(text), expected, "{text}");
    }

    #[test]
    fn exact_integers_pass_however_they_are_spelled() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("0e999", 0),
            ("1e-400", 0),
            ("1.0", 1),
            ("10e1", 100),
            ("100e-2", 1),
            ("2.50e1", 25),
            ("-12.5E+1", -125),
            ("0.00001e5", 1),
            ("9007199254740991", 9_007_199_254_740_991),
            ("9007199254740992", 9_007_199_254_740_992),
            ("-9007199254740992.000", -9_007_199_254_740_992),
            ("9.007199254740992e15", 9_007_199_254_740_992),
        ] {
            check(text, Ok(value));
        }
    }

    #[test]
    fn nothing_is_rounded() {
        for text in
            ["9007199254740993", "-9007199254740993", "18446744073709551615", "1e16", "1e99999999999999999999", "1e21"]
        {
            check(text, Err(IntegerError::TooLarge));
        }
        for text in ["1.5", "0.5", "9007199254740992.5", "1.0000000000000000000000001", "1e-1", "1e-300"] {
            check(text, Err(IntegerError::Fraction));
        }
        for text in ["", "-", "null", "\"1\"", "1e", "e1", ".5", "[]"] {
            check(text, Err(IntegerError::NotANumber));
        }
    }

    #[test]
    fn members_decode_by_their_text() {
        assert_eq!(serde_json::from_str::<SafeU64>("1e3").map(SafeU64::value).ok(), Some(1000));
        assert!(serde_json::from_str::<SafeU64>("-1").is_err());
        assert!(serde_json::from_str::<SafeU64>("9007199254740993").is_err());
        assert_eq!(serde_json::from_str::<SafeI64>("-2.0").map(SafeI64::value).ok(), Some(-2));
        assert!(SafeU64::new(MAX_EXACT_INTEGER + 1).is_err());
        assert!(SafeI64::new(i64::MIN).is_err());
    }
}
