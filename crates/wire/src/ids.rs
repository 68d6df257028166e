//! Digests and instance ids, as Driver RPC and the evidence spell them.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::canon::{CanonError, canonicalize};
use crate::text::Text;

const DIGEST_PREFIX: &str = "sha256:";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Where the pairs of digits of an instance id begin.
const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The value of each lower-case hexadecimal digit, 0xff for every other byte.
const NIBBLES: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        table[HEX[value] as usize] = value as u8;
        value += 1;
    }
    table
};

/// A SHA-256 digest, spelled `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of the canonical form of a text.
    ///
    /// # Errors
    ///
    /// [`CanonError::LoneSurrogate`].
    pub fn of_json(text: &Text<'_>) -> Result<Self, CanonError> {
        if text.is_known_canonical() {
            return Ok(Self::of(text.raw()));
        }
        Ok(Self::of(&canonicalize(text)?))
    }

    /// The digest itself.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 64 hexadecimal digits without the prefix.
    pub fn hex(&self) -> String {
        let mut hex = String::with_capacity(64);
        push_hex(&self.0, &mut hex);
        hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(DIGEST_PREFIX.len() + 64);
        text.push_str(DIGEST_PREFIX);
        push_hex(&self.0, &mut text);
        f.pad(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix(DIGEST_PREFIX).ok_or(DigestError)?;
        let mut bytes = [0; 32];
        if hex.len() != 64 {
            return Err(DigestError);
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = hex_pair(pair).ok_or(DigestError)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parse::new("sha256: and 64 lower-case hexadecimal digits"))
    }
}

/// A text that is not a [`Digest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("digest is not \"sha256:\" and 64 lower-case hexadecimal digits")]
pub struct DigestError;

/// Computes a [`Digest`] of bytes that come in pieces.
#[derive(Clone, Default)]
pub struct DigestBuilder(Sha256);

impl DigestBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Debug for DigestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestBuilder")
    }
}

/// An instance id: a UUID of version 7, spelled in lower case with hyphens.
///
/// The order of the values is that of their time stamps, then of their random parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId([u8; 16]);

impl InstanceId {
    /// An id for a moment, from 16 random bytes (of which the first six are not used).
    ///
    /// # Errors
    ///
    /// [`InstanceIdError::TimeOutOfRange`] when `unix_millis` is negative or does not fit 48 bits.
    pub const fn new(unix_millis: i64, random: [u8; 16]) -> Result<Self, InstanceIdError> {
        if unix_millis < 0 || unix_millis >= 1 << 48 {
            return Err(InstanceIdError::TimeOutOfRange);
        }
        let [.., t0, t1, t2, t3, t4, t5] = unix_millis.to_be_bytes();
        let [_, _, _, _, _, _, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15] = random;
        let (version, variant) = (r6 & 0x0f | 0x70, r8 & 0x3f | 0x80);
        Ok(Self([t0, t1, t2, t3, t4, t5, version, r7, variant, r9, r10, r11, r12, r13, r14, r15]))
    }

    /// The 16 bytes of the UUID.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The time stamp, in milliseconds since the Unix epoch. An id that a peer made may carry any.
    pub const fn unix_millis(&self) -> i64 {
        let [t0, t1, t2, t3, t4, t5, ..] = self.0;
        i64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5])
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(36);
        let mut rest = &self.0[..];
        for bytes in [4, 2, 2, 2, 6] {
            if !text.is_empty() {
                text.push('-');
            }
            let (group, after) = rest.split_at(bytes);
            push_hex(group, &mut text);
            rest = after;
        }
        f.pad(&text)
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for InstanceId {
    type Err = InstanceIdError;

    fn from_str(text: &str) -> Result<Self, InstanceIdError> {
        if text.eq_ignore_ascii_case("latest") {
            return Err(InstanceIdError::Latest);
        }
        let Ok(text) = <&[u8; 36]>::try_from(text.as_bytes()) else { return Err(InstanceIdError::Malformed) };
        let mut bytes = [0; 16];
        // Every id of a frame comes through here, so the places are fixed and the faults are collected.
        let mut wrong = [8, 13, 18, 23].iter().any(|at| text[*at] != b'-');
        for (byte, at) in bytes.iter_mut().zip(PAIRS) {
            let (high, low) = (NIBBLES[usize::from(text[at])], NIBBLES[usize::from(text[at + 1])]);
            wrong |= (high | low) > 0x0f;
            *byte = high << 4 | low & 0x0f;
        }
        if wrong {
            return Err(InstanceIdError::Malformed);
        }
        if bytes[6] >> 4 != 7 || bytes[8] >> 6 != 2 {
            return Err(InstanceIdError::Malformed);
        }
        Ok(Self(bytes))
    }
}

impl Serialize for InstanceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InstanceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parse::new("a lower-case UUID of version 7"))
    }
}

/// Why there is no [`InstanceId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum InstanceIdError {
    /// The word `latest`, which names no instance.
    #[error("\"latest\" is not an instance id: name the instance")]
    Latest,
    /// Not a lower-case, hyphenated UUID of version 7.
    #[error("instance id is not a lower-case UUID of version 7")]
    Malformed,
    /// A time before 1970 or beyond 48 bits of milliseconds.
    #[error("time of the instance id does not fit 48 bits of milliseconds")]
    TimeOutOfRange,
}

/// Reads a string member by its `FromStr`, and says what was expected without quoting what came.
struct Parse<T> {
    expecting: &'static str,
    kind: std::marker::PhantomData<T>,
}

impl<T> Parse<T> {
    const fn new(expecting: &'static str) -> Self {
        Self { expecting, kind: std::marker::PhantomData }
    }
}

impl<T: FromStr> Visitor<'_> for Parse<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Other("text"), &self))
    }
}

fn push_hex(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_nothing_is_the_known_one() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(digest.hex().len(), 64);
        let mut builder = DigestBuilder::new();
        builder.update(b"a");
        builder.update(b"bc");
        assert_eq!(builder.finish(), Digest::of(b"abc"));
    }

    #[test]
    fn instance_ids_keep_their_time() {
        let id = InstanceId::new(1_700_000_000_123, [0xff; 16]).expect("in range");
        assert_eq!(id.unix_millis(), 1_700_000_000_123);
        assert_eq!(id.to_string(), "018bcfe5-687b-7fff-bfff-ffffffffffff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("Latest".parse::<InstanceId>(), Err(InstanceIdError::Latest));
    }

    #[test]
    fn members_decode_strictly() {
        let text = "\"018bcfe5-687b-7fff-bfff-ffffffffffff\"";
        let id: InstanceId = serde_json::from_str(text).expect("an id");
        assert_eq!(serde_json::to_string(&id).expect("a string"), text);
        let error = serde_json::from_str::<Digest>("\"sha256:hunter2\"").expect_err("not a digest");
        assert!(!error.to_string().contains("hunter2"));
    }
}
