//! Values whose shape the protocol leaves to the application.

use std::fmt;

use pintle_wire::{Profile, ScanLimits, canonicalize_into, scan, to_canonical};
use serde::{Deserialize, Serialize};

use crate::error::ProtocolError;

/// The limits of every strict scan in this crate.
pub(crate) const LIMITS: ScanLimits = ScanLimits::CONTROL;

/// A strict JSON value of the application: a payload, a result, the details of an error.
///
/// The received text is kept, so nothing is silently changed: a number beyond 2^53 or a long fraction still reads as it
/// was sent. The canonical form (RFC 8785, numbers as doubles) is made on demand; it is what goes on the wire and what
/// digests are taken over. Two values are equal when their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct FreeValue {
    text: Box<str>,
    /// The text is its own canonical form, because we wrote it.
    canonical: bool,
}

impl FreeValue {
    /// Scans `bytes` as one strict JSON value of at most
    /// [`MAX_CONTROL_FRAME_BYTES`](crate::MAX_CONTROL_FRAME_BYTES).
    ///
    /// # Errors
    /// What the strict scan refuses, as class `invalid_request` (`budget_exceeded` for the size).
    pub fn parse(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let text = scan(bytes, Profile::DriverRpc, LIMITS).map_err(ProtocolError::json)?;
        Ok(Self::from_scanned(text.as_str().trim_ascii()))
    }

    /// Serialises a value into its canonical form.
    ///
    /// # Errors
    /// When the value has no JSON form, a number that no double holds, or a map with a key twice.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, ProtocolError> {
        Self::from_canonical(to_canonical(value).map_err(ProtocolError::Canonical)?)
    }

    /// Takes bytes that our own writer made.
    pub(crate) fn from_canonical(bytes: Vec<u8>) -> Result<Self, ProtocolError> {
        let text = String::from_utf8(bytes).map_err(|_| ProtocolError::NotText)?;
        Ok(Self { text: text.into(), canonical: true })
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self { text: "{}".into(), canonical: true }
    }

    /// A part of a text that a scan has accepted.
    pub(crate) fn from_scanned(text: &str) -> Self {
        Self { text: text.into(), canonical: false }
    }

    /// The text as it was received.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads the value into a type of the application.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`, as class `invalid_request`.
    pub fn decode<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ProtocolError> {
        serde_json::from_str(&self.text)
            .map_err(|error| ProtocolError::FreeValueShape { line: error.line(), column: error.column() })
    }

    /// The RFC 8785 form.
    ///
    /// # Errors
    /// Only for values that no double can hold, which the scan has refused already.
    pub fn canonical(&self) -> Result<Vec<u8>, ProtocolError> {
        let mut out = Vec::with_capacity(self.text.len());
        self.write_canonical(&mut out)?;
        Ok(out)
    }

    pub(crate) fn write_canonical(&self, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        if self.canonical {
            out.extend_from_slice(self.text.as_bytes());
            return Ok(());
        }
        let text = scan(self.text.as_bytes(), Profile::DriverRpc, LIMITS).map_err(ProtocolError::json)?;
        canonicalize_into(&text, out).map_err(ProtocolError::Canonical)
    }
}

/// Prints the length only: a free value may hold what must not reach a log.
impl fmt::Debug for FreeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreeValue({} bytes)", self.text.len())
    }
}
