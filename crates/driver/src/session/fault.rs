//! Who did what wrong in a session, each with its class.

use pintle_wire::TableError;

use crate::book::StreamFault;
use crate::budget::BudgetError;
use crate::class::ErrorClass;
use crate::error::ProtocolError;
use crate::message::MessageKind;
use crate::method::Method;
use crate::objects::Permission;
use crate::permission::PermissionError;
use crate::session::config::MAX_DETAILS_BYTES;
use crate::version::NegotiationError;

/// What a driver did wrong. Core's session is dead after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A frame, an observation or an end that the protocol does not allow.
    #[error("driver sent an invalid frame: {0}")]
    Frame(#[source] ProtocolError),
    /// A result that breaks its contract.
    #[error("driver sent an invalid {method} result: {error}")]
    Result {
        /// Of which request.
        method: Method,
        /// What is wrong.
        #[source]
        error: ProtocolError,
    },
    /// A request, which only Core sends.
    #[error("driver sent a {}, which only Core may", .0.as_str())]
    Direction(MessageKind),
    /// A response to an id that Core never used.
    #[error("driver answered a request that was never made")]
    UnknownResponse,
    /// A second response to one request.
    #[error("driver answered one request twice")]
    DuplicateResponse,
    /// A response after its request had timed out.
    #[error("driver answered {method} after its deadline")]
    LateResponse {
        /// The request.
        method: Method,
    },
    /// Version ranges that do not meet.
    #[error("no common protocol version: {0}")]
    Version(#[source] NegotiationError),
    /// A break of the permission chain.
    #[error("permissions: {0}")]
    Permission(#[source] PermissionError),
    /// Another artifact than the declared one.
    #[error("driver declares another artifact digest than expected")]
    Artifact,
    /// Details of an error that are over their bound.
    #[error("error details have {bytes} bytes, the limit is {MAX_DETAILS_BYTES}")]
    Details {
        /// Their size.
        bytes: usize,
    },
    /// A break of the data plane's rules.
    #[error("companion stream: {0}")]
    Stream(#[source] StreamFault),
    /// A `summary_digest` that does not fit the observations.
    #[error("summary_digest does not match the observations")]
    Summary,
    /// The invocation did not end within its cancellation deadline.
    #[error("invocation did not end within its cancellation deadline")]
    CancellationTimeout,
    /// More was used than the session may.
    #[error("{0}")]
    Budget(#[source] BudgetError),
    /// An invocation that was observed or completed, and then refused.
    #[error("driver refused an invocation that it had begun")]
    RefusedLate,
    /// The driver closed its output before shutdown.
    #[error("driver closed its output before shutdown")]
    Closed,
}

impl Fault {
    /// The stable class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Frame(error) | Self::Result { error, .. } => error.class(),
            Self::Direction(_)
            | Self::UnknownResponse
            | Self::DuplicateResponse
            | Self::LateResponse { .. }
            | Self::RefusedLate
            | Self::Closed => ErrorClass::DriverInternal,
            Self::Version(_) => ErrorClass::UnsupportedRpcVersion,
            Self::Permission(_) => ErrorClass::PermissionDenied,
            Self::Artifact => ErrorClass::ArtifactMismatch,
            Self::Details { .. } | Self::Budget(_) => ErrorClass::BudgetExceeded,
            Self::Stream(fault) => fault.class(),
            Self::Summary => ErrorClass::MalformedObservation,
            Self::CancellationTimeout => ErrorClass::CancellationTimeout,
        }
    }
}

/// Why a command was not carried out. The session is as before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The lifecycle or a contract does not allow it.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    /// The permission chain does not allow it.
    #[error("permissions: {0}")]
    Permission(#[from] PermissionError),
    /// The driver did not declare this operation.
    #[error("driver does not declare the operation")]
    Operation,
    /// The driver did not declare that it can cancel.
    #[error("driver does not declare cancellation")]
    Cancellation,
    /// The request table is full or the id is taken.
    #[error("{0}")]
    Table(#[from] TableError),
    /// An answer to the same method is still awaited, or the streams of the last invocation are still coming in.
    #[error("{0} is not possible yet: {1}")]
    Busy(Method, &'static str),
    /// There is nothing to answer.
    #[error("no {0} request waits for an answer")]
    NothingPending(Method),
    /// Details over their bound.
    #[error("error details have {bytes} bytes, the limit is {MAX_DETAILS_BYTES}")]
    Details {
        /// Their size.
        bytes: usize,
    },
    /// The output queue is full; write, then try again.
    #[error("output queue is full: {limit} bytes wait to be written")]
    QueueFull {
        /// The bound.
        limit: usize,
    },
    /// It would use more than the session may.
    #[error("{0}")]
    Budget(#[from] BudgetError),
    /// A break of the data plane's rules by our own side.
    #[error("companion stream: {0}")]
    Stream(#[from] StreamFault),
    /// The session is closed, dead or killed.
    #[error("session is over")]
    Over,
}

impl CommandError {
    /// The stable class.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Protocol(error) => error.class(),
            Self::Permission(_) => ErrorClass::PermissionDenied,
            Self::Operation | Self::Cancellation => ErrorClass::CapabilityMismatch,
            Self::Table(_) | Self::QueueFull { .. } | Self::Details { .. } | Self::Budget(_) => {
                ErrorClass::BudgetExceeded
            }
            Self::Busy(..) | Self::NothingPending(_) | Self::Over => ErrorClass::InvalidState,
            Self::Stream(fault) => fault.class(),
        }
    }

    pub(crate) const fn companion_stream_needed() -> Self {
        Self::Permission(PermissionError::Needed(Permission::COMPANION_STREAM))
    }
}
