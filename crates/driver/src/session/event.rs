//! What the two ends tell their application and their transport.

use bytes::Bytes;
use pintle_wire::InstanceId;
use semver::Version;

use crate::error::ProtocolError;
use crate::message::RpcError;
use crate::method::Method;
use crate::objects::Permission;
use crate::params::{CancelParams, CompletedParams, InvokeParams, ObservationParams, PrepareParams};
use crate::results::{Capabilities, HelloResult};
use crate::session::fault::Fault;
use crate::value::FreeValue;

/// The number of one of Core's requests, which is its id on the wire.
pub type RequestSeq = i64;

/// Whether a session still takes part in the protocol.
///
/// The five published states are those of [`Machine`](crate::Machine); this is the state beside them that a host needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Alive,
    /// It ended as it should: after shutdown.
    Closed,
    /// The peer broke the protocol or went away; what it still sends is ignored.
    Dead(Fault),
    /// The host killed the peer; what it still sends is ignored.
    Killed,
}

/// What must happen on the transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write these bytes to the control stream.
    Control(Bytes),
    /// Write these bytes to the companion data stream.
    Data(Bytes),
    /// Close the control stream after what was written.
    Close,
}

/// What Core's application must see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoreEvent {
    /// The handshake succeeded.
    Hello {
        /// The highest common version.
        version: Version,
        /// What the driver said of itself.
        result: Box<HelloResult>,
    },
    /// Plan and permissions are agreed.
    Prepared {
        /// The permissions that the driver took.
        accepted: Vec<Permission>,
    },
    /// The answer to a capability query.
    Capabilities(Capabilities),
    /// The driver took the invocation.
    InvokeAccepted {
        /// The invocation.
        invocation_id: InstanceId,
        /// The result; the protocol does not define it.
        result: FreeValue,
    },
    /// The driver answered the cancel. This is a receipt, not the end.
    CancelAcknowledged {
        /// The invocation.
        invocation_id: InstanceId,
        /// What it said.
        acknowledged: bool,
    },
    /// The driver forgot its prepared data.
    Reset,
    /// The driver took the shutdown; its end of file comes next.
    Shutdown,
    /// The driver refused a request.
    Refused {
        /// Which.
        method: Method,
        /// Of an invoke or a cancel: which invocation it was about.
        invocation_id: Option<InstanceId>,
        /// Why.
        error: RpcError,
    },
    /// A request stayed unanswered. A response that comes later is a fault.
    TimedOut {
        /// Which.
        method: Method,
        /// Of an invoke or a cancel: which invocation it was about.
        invocation_id: Option<InstanceId>,
    },
    /// An observation of an active invocation.
    Observation(ObservationParams),
    /// Bytes of a companion stream.
    Data {
        /// The invocation.
        invocation_id: InstanceId,
        /// The stream.
        stream_id: Box<str>,
        /// The next bytes; empty only for a frame without payload.
        bytes: Bytes,
        /// The stream ends here.
        is_final: bool,
    },
    /// An invocation ended and all its streams are in.
    Completed(CompletedParams),
    /// The driver broke the protocol, hung or went away. The session is dead.
    Fault(Fault),
    /// The driver closed its output after shutdown.
    Closed,
}

/// What a driver's application must see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverEvent {
    /// The handshake succeeded; the session has answered it.
    Hello {
        /// The highest common version.
        version: Version,
    },
    /// Core proposes a plan. Answer with [`accept_prepare`](crate::DriverSession::accept_prepare) or
    /// [`refuse`](crate::DriverSession::refuse).
    Prepare(PrepareParams),
    /// Core starts an invocation. Answer with [`accept_invoke`](crate::DriverSession::accept_invoke) or
    /// [`refuse_invoke`](crate::DriverSession::refuse_invoke), then observe and complete.
    Invoke(InvokeParams),
    /// Core wants one invocation to end within the deadline; the session has acknowledged it.
    Cancel(CancelParams),
    /// Core wants prepared data to be forgotten. Answer with [`accept_reset`](crate::DriverSession::accept_reset) or
    /// [`refuse`](crate::DriverSession::refuse).
    Reset,
    /// Core ends the session. Answer with [`accept_shutdown`](crate::DriverSession::accept_shutdown) or
    /// [`refuse`](crate::DriverSession::refuse).
    Shutdown,
    /// A frame that could not be taken for a request. Where it had a usable id, it was answered.
    Malformed(ProtocolError),
    /// Core sent what only a driver sends. It is dropped.
    Unexpected,
    /// Core closed its output. Stop everything.
    Closed,
}
