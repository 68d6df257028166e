//! The error object of JSON-RPC, with the codes that the protocol gives a meaning.

use std::fmt;

use serde::{Deserializer, Serializer};

use crate::types::declare::{object_with_meta, serde_by_shape};
use crate::types::{Fault, Raw, Read, Shape};

/// Most bytes of a name that a peer sent and that an error shows to it again: who asks with a megabyte gets no megabyte
/// back.
const MAX_ECHO_BYTES: usize = 256;

object_with_meta! {
    /// An error as it goes over the wire, and what handlers return.
    ///
    /// The named constructors put nothing into it that the peer did not send as a name: no content of
    /// messages, no detail of a failure inside.
    pub struct Error, "an error object", new(code: ErrorCode, message: String) {
        /// What kind of error it is.
        req code: ErrorCode = "code",
        /// One line for people.
        req message: String = "message",
        /// More, for programs.
        opt data: Raw = "data",
    }
}

impl Error {
    /// -32700: the line is not one JSON value.
    pub fn parse_error() -> Self {
        ErrorCode::ParseError.into()
    }

    /// -32600: the frame is not a request, or comes at the wrong time; `reason` says why.
    pub fn invalid_request(reason: &'static str) -> Self {
        Self::from(ErrorCode::InvalidRequest).data(serde_json::json!({ "reason": reason }))
    }

    /// -32600 for a method that came before `initialize` was answered.
    pub fn initialize_required(method: &str) -> Self {
        let data = serde_json::json!({ "method": echo(method), "reason": "initialize required" });
        Self::from(ErrorCode::InvalidRequest).data(data)
    }

    /// -32600 for a second prompt in a session that works on one.
    pub fn prompt_in_flight() -> Self {
        Self::invalid_request("prompt already in flight")
    }

    /// -32601: the method is not known here, or was not advertised.
    pub fn method_not_found(method: &str) -> Self {
        Self::from(ErrorCode::MethodNotFound).data(serde_json::Value::from(echo(method)))
    }

    /// -32602: a member of the params is missing or wrong.
    pub fn invalid_params(fault: &Fault) -> Self {
        let data = serde_json::json!({ "path": fault.path(), "reason": fault.reason().to_string() });
        Self::from(ErrorCode::InvalidParams).data(data)
    }

    /// -32603: something broke; nothing about what.
    pub fn internal_error() -> Self {
        ErrorCode::InternalError.into()
    }

    /// -32603 for a request over a limit; it may be tried again.
    pub fn server_busy(limit: usize) -> Self {
        let data = serde_json::json!({ "reason": "too many requests in flight", "limit": limit });
        Self::new(ErrorCode::InternalError, "Server busy").data(data)
    }

    /// -32000: the agent wants `authenticate` first.
    pub fn auth_required() -> Self {
        ErrorCode::AuthRequired.into()
    }

    /// -32002: a file or other resource is not there.
    pub fn resource_not_found(uri: &str) -> Self {
        Self::from(ErrorCode::ResourceNotFound).data(serde_json::json!({ "uri": uri }))
    }

    /// -32002: the session is not known or not open.
    pub fn session_not_found(session: impl AsRef<str>) -> Self {
        Self::from(ErrorCode::ResourceNotFound).data(serde_json::json!({ "sessionId": echo(session.as_ref()) }))
    }

    /// -32003: the session may not be attached to; the same for every reason.
    pub fn attach_denied() -> Self {
        ErrorCode::AttachDenied.into()
    }

    /// -32800: the sender gave the request up.
    pub fn request_cancelled() -> Self {
        ErrorCode::RequestCancelled.into()
    }
}

/// The beginning of a long name, cut between two characters.
fn echo(name: &str) -> &str {
    let mut end = name.len().min(MAX_ECHO_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, code.message())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.get())
    }
}

impl std::error::Error for Error {}

/// The code of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// -32700.
    ParseError,
    /// -32600.
    InvalidRequest,
    /// -32601.
    MethodNotFound,
    /// -32602.
    InvalidParams,
    /// -32603.
    InternalError,
    /// -32000.
    AuthRequired,
    /// -32002.
    ResourceNotFound,
    /// -32003; Pintle's own.
    AttachDenied,
    /// -32800.
    RequestCancelled,
    /// Any other.
    Other(i64),
}

impl ErrorCode {
    /// The number.
    pub const fn get(self) -> i64 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::InternalError => -32603,
            Self::AuthRequired => -32000,
            Self::ResourceNotFound => -32002,
            Self::AttachDenied => -32003,
            Self::RequestCancelled => -32800,
            Self::Other(code) => code,
        }
    }

    /// What the code says, where nobody says it better.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ParseError => "Parse error",
            Self::InvalidRequest => "Invalid request",
            Self::MethodNotFound => "Method not found",
            Self::InvalidParams => "Invalid params",
            Self::InternalError => "Internal error",
            Self::AuthRequired => "Authentication required",
            Self::ResourceNotFound => "Resource not found",
            Self::AttachDenied => "Attach denied",
            Self::RequestCancelled => "Request cancelled",
            Self::Other(_) => "Error",
        }
    }
}

impl From<i64> for ErrorCode {
    fn from(code: i64) -> Self {
        match code {
            -32700 => Self::ParseError,
            -32600 => Self::InvalidRequest,
            -32601 => Self::MethodNotFound,
            -32602 => Self::InvalidParams,
            -32603 => Self::InternalError,
            -32000 => Self::AuthRequired,
            -32002 => Self::ResourceNotFound,
            -32003 => Self::AttachDenied,
            -32800 => Self::RequestCancelled,
            other => Self::Other(other),
        }
    }
}

serde_by_shape!(ErrorCode);

impl Shape for ErrorCode {
    const EXPECTED: &'static str = i64::EXPECTED;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(i64::read(deserializer)?.map(Self::from))
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.get())
    }
}
