//! Driver RPC v1: messages, the lifecycle machine and both ends as sessions that do no IO.
//!
//! A driver is a process that Core starts to carry out one operation and to observe it. Control messages are JSON-RPC 2.0
//! objects, one per line; large payloads travel on a companion data stream. A driver executes and observes, it never
//! judges.
//!
//! # One frame
//! [`decode_control_frame`] and [`encode_control_frame`] turn a line into a [`Message`] and back; [`Decoder`] and
//! [`Encoder`] do so for streams. Decoding is strict and in one order of checks; each error has one of ten classes
//! ([`ErrorClass`]). Encoding is canonical (RFC 8785).
//!
//! # The lifecycle
//! [`Machine`] follows one serial session: hello, prepare, invoke, observations, completed, shutdown. [`Dispatcher`] follows
//! one with several invocations at once, with one machine for each.
//!
//! # The two ends
//! [`CoreSession`] and [`DriverSession`] put it together: requests with deadlines, version negotiation, the permission
//! chain, companion streams. Each is a value with five verbs (`feed`/`eof`, `poll_event`, `poll_output`, `poll_timeout`,
//! `handle_timeout`) and typed commands. `pintle_sdk::driver` runs them over processes.
//!
//! # What it may cost
//! [`Ledger`] keeps what an attempt may use and has used, with an account of its own for cleaning up. [`CoreSession`] has
//! one for each driver ([`CoreConfig::budget`]).

mod book;
mod budget;
mod class;
mod codec;
mod contract;
mod cursor;
mod dispatcher;
mod envelope;
mod error;
mod header;
mod machine;
mod message;
mod method;
mod objects;
mod params;
mod permission;
mod results;
mod secret;
mod session;
mod stream;
mod summary;
mod value;
mod version;
mod writer;

pub use book::{StreamFault, StreamLimits};
pub use budget::{
    AccountReport, Amounts, BudgetError, BudgetPolicy, BudgetReport, Ledger, Limits, MAX_OPEN_RESERVATIONS, Purpose,
    Receipt, Reservation, Resource, Usage,
};
pub use class::{ErrorClass, UnknownErrorClass};
pub use codec::{
    DEFAULT_MAX_DATA_FRAME_BYTES, MAX_CONTROL_FRAME_BYTES, decode_control_frame, encode_control_frame,
    validate_control_frame_size, validate_data_frame_size,
};
pub use contract::{Contract, decode_free_value, decode_params_strict, encode_contract};
pub use dispatcher::{Dispatcher, MAX_CONCURRENT_INVOCATIONS};
pub use envelope::JSONRPC_VERSION;
pub use error::{ContractError, Problem, ProtocolError};
pub use machine::{ActiveInvocation, Event, MAX_INVOCATIONS_PER_SESSION, Machine, State};
pub use message::{
    Call, ErrorData, ErrorParts, Message, MessageKind, MessageParts, Notification, Outcome, Request, Response, RpcError,
};
pub use method::{Method, MethodInfo, UnknownMethod};
pub use objects::{
    CompanionStreamRef, ExactInputHandle, FixtureRefs, InputKind, ObjectRef, Permission, TerminalStatus, VersionRange,
};
pub use params::{
    CancelParams, CapabilitiesParams, CompletedParams, HelloParams, InvokeParams, ObservationParams, PrepareParams,
    ResetParams, ShutdownParams,
};
pub use permission::{PermissionError, check_accepted, check_approved, check_requested};
pub use pintle_wire::{DataFrameHeader, Digest, Id, InstanceId};
pub use results::{
    CancelResult, Capabilities, CapabilitiesResult, DriverIdentity, HelloResult, PrepareResult, ResetResult,
    ShutdownResult,
};
pub use secret::Secret;
pub use session::{
    CommandError, CoreConfig, CoreEvent, CoreSession, DriverConfig, DriverEvent, DriverSession, Fault, Life,
    MAX_DETAILS_BYTES, ObservationBody, Output, RequestSeq,
};
pub use stream::{Decoder, Encoder};
pub use summary::SummaryDigest;
pub use value::FreeValue;
pub use version::{NegotiationError, PROTOCOL_VERSION, negotiate, supported_versions};
