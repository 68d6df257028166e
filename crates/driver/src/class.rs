//! The ten stable error classes.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::ProtocolError;
use crate::session::{CommandError, Fault};

/// The stable, machine-readable taxonomy of failures (spec section 1).
///
/// It is separate from the numeric JSON-RPC code: codes are free, the class in `error.data.class` is the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// No common version of Driver RPC, or a wrong JSON-RPC version.
    UnsupportedRpcVersion,
    /// A legal message in a state that does not allow it.
    InvalidState,
    /// A message that breaks the contract of its method.
    InvalidRequest,
    /// A permission outside what was requested, approved or accepted.
    PermissionDenied,
    /// A size, a count or a budget was exceeded.
    BudgetExceeded,
    /// An operation that the driver did not declare.
    CapabilityMismatch,
    /// The driver crashed, hung or broke the protocol.
    DriverInternal,
    /// An invocation that was cancelled did not end within its deadline.
    CancellationTimeout,
    /// An observation, a terminal notification or a companion stream that breaks its rules.
    MalformedObservation,
    /// The driver is not the artifact that was declared.
    ArtifactMismatch,
}

impl ErrorClass {
    /// All classes, in the order of the specification.
    pub const ALL: [Self; 10] = [
        Self::UnsupportedRpcVersion,
        Self::InvalidState,
        Self::InvalidRequest,
        Self::PermissionDenied,
        Self::BudgetExceeded,
        Self::CapabilityMismatch,
        Self::DriverInternal,
        Self::CancellationTimeout,
        Self::MalformedObservation,
        Self::ArtifactMismatch,
    ];

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnsupportedRpcVersion => "unsupported_rpc_version",
            Self::InvalidState => "invalid_state",
            Self::InvalidRequest => "invalid_request",
            Self::PermissionDenied => "permission_denied",
            Self::BudgetExceeded => "budget_exceeded",
            Self::CapabilityMismatch => "capability_mismatch",
            Self::DriverInternal => "driver_internal",
            Self::CancellationTimeout => "cancellation_timeout",
            Self::MalformedObservation => "malformed_observation",
            Self::ArtifactMismatch => "artifact_mismatch",
        }
    }

    /// The JSON-RPC code that this implementation puts beside the class: -32000 down to -32009.
    ///
    /// A peer may send any other code; nothing here reads it.
    pub const fn rpc_code(self) -> i64 {
        -32_000 - self as i64
    }

    /// The class of the first error in `error`'s source chain that has one.
    ///
    /// Every error of this crate has a class; an error of another crate has one when an error of ours is its source.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<ProtocolError>() {
                return Some(error.class());
            }
            if let Some(fault) = error.downcast_ref::<Fault>() {
                return Some(fault.class());
            }
            if let Some(error) = error.downcast_ref::<CommandError>() {
                return Some(error.class());
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A text that names none of the ten classes. Names are case-sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one of the ten error classes")]
pub struct UnknownErrorClass;

impl FromStr for ErrorClass {
    type Err = UnknownErrorClass;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.as_str() == text).ok_or(UnknownErrorClass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_reads_back_and_has_its_own_code() {
        let mut codes: Vec<_> = ErrorClass::ALL.iter().map(|class| class.rpc_code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), 10);
        for class in ErrorClass::ALL {
            assert_eq!(class.as_str().parse(), Ok(class));
        }
        assert!("Invalid_State".parse::<ErrorClass>().is_err());
    }

    #[test]
    fn the_class_is_found_below_a_foreign_error() {
        let inner = ProtocolError::Version;
        let outer = std::io::Error::other(inner);
        // io::Error hides its payload behind `source` of the payload, so look at the payload itself.
        let payload = outer.get_ref().map(|e| e as &(dyn Error + 'static));
        assert_eq!(payload.and_then(ErrorClass::of), Some(ErrorClass::UnsupportedRpcVersion));
        assert_eq!(ErrorClass::of(&fmt::Error), None);
    }
}
