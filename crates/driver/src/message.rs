//! One control frame as a value.

use pintle_wire::{Id, MAX_EXACT_INTEGER, Profile, scan};

use crate::class::ErrorClass;
use crate::contract::{Contract, Target, encode_contract};
use crate::cursor::Value;
use crate::envelope::{ErrorFields, Fields, Params};
use crate::error::{ContractError, Problem, ProtocolError};
use crate::method::Method;
use crate::params::{
    CancelParams, CapabilitiesParams, CompletedParams, HelloParams, InvokeParams, ObservationParams, PrepareParams,
    ResetParams, ShutdownParams,
};
use crate::value::{FreeValue, LIMITS};
use crate::writer::Writer;

/// A control frame that has passed every check: envelope, method, id and params.
///
/// A message that exists is a request, a notification or a response; there is no invalid kind. What is assembled from
/// loose texts becomes one through [`MessageParts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Core asks; it wants one response.
    Request(Request),
    /// The driver tells.
    Notification(Notification),
    /// The driver answers.
    Response(Response),
}

/// The kinds of JSON-RPC messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// With a method and an id.
    Request,
    /// With a method and no id.
    Notification,
    /// Without a method.
    Response,
}

impl MessageKind {
    /// `request`, `notification` or `response`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Notification => "notification",
            Self::Response => "response",
        }
    }
}

/// A request: its id and what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Echoed by the response. `1` and `"1"` are different ids.
    pub id: Id,
    /// The method with its params.
    pub call: Call,
}

/// A request's method and params. Where params may be absent, absent and `{}` are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `driver.hello`.
    Hello(HelloParams),
    /// `driver.prepare`.
    Prepare(PrepareParams),
    /// `driver.capabilities`.
    Capabilities(Option<CapabilitiesParams>),
    /// `driver.invoke`.
    Invoke(InvokeParams),
    /// `driver.cancel`.
    Cancel(CancelParams),
    /// `driver.reset`.
    Reset(Option<ResetParams>),
    /// `driver.shutdown`.
    Shutdown(Option<ShutdownParams>),
}

impl Call {
    /// The method.
    pub const fn method(&self) -> Method {
        match self {
            Self::Hello(_) => Method::Hello,
            Self::Prepare(_) => Method::Prepare,
            Self::Capabilities(_) => Method::Capabilities,
            Self::Invoke(_) => Method::Invoke,
            Self::Cancel(_) => Method::Cancel,
            Self::Reset(_) => Method::Reset,
            Self::Shutdown(_) => Method::Shutdown,
        }
    }
}

/// What a driver tells on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// `driver.observation`.
    Observation(ObservationParams),
    /// `driver.completed`.
    Completed(CompletedParams),
}

impl Notification {
    /// The method.
    pub const fn method(&self) -> Method {
        match self {
            Self::Observation(_) => Method::Observation,
            Self::Completed(_) => Method::Completed,
        }
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The id of the request.
    pub id: Id,
    /// What came of it.
    pub outcome: Outcome,
}

/// A response's result or error. Typed results are read with [`decode_free_value`](crate::decode_free_value).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The result; null is one.
    Result(FreeValue),
    /// The refusal.
    Error(RpcError),
}

/// The error object of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// Free; see [`ErrorClass::rpc_code`].
    pub code: i64,
    /// For people; not empty.
    pub message: Box<str>,
    /// For machines.
    pub data: ErrorData,
}

/// The data of an error object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorData {
    /// The stable class.
    pub class: ErrorClass,
    /// Details of the application. The sessions take at most 16 KiB.
    pub details: Option<FreeValue>,
}

impl RpcError {
    /// An error of a class, with that class' code and no details.
    pub fn new(class: ErrorClass, message: impl Into<Box<str>>) -> Self {
        Self { code: class.rpc_code(), message: message.into(), data: ErrorData { class, details: None } }
    }

    /// Checks the values of an error that was put together in code.
    ///
    /// # Errors
    /// An empty message, or a code beyond 2^53.
    pub fn validate(&self) -> Result<(), ContractError> {
        if self.message.is_empty() {
            return Err(ContractError::new("message", Problem::Empty));
        }
        if self.code.unsigned_abs() > MAX_EXACT_INTEGER {
            return Err(ContractError::new("code", Problem::OverLimit { limit: MAX_EXACT_INTEGER }));
        }
        Ok(())
    }
}

impl Message {
    /// The kind.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Request(_) => MessageKind::Request,
            Self::Notification(_) => MessageKind::Notification,
            Self::Response(_) => MessageKind::Response,
        }
    }

    /// The method; a response has none.
    pub const fn method(&self) -> Option<Method> {
        match self {
            Self::Request(request) => Some(request.call.method()),
            Self::Notification(notification) => Some(notification.method()),
            Self::Response(_) => None,
        }
    }

    /// The id; a notification has none.
    pub const fn id(&self) -> Option<&Id> {
        match self {
            Self::Request(request) => Some(&request.id),
            Self::Response(response) => Some(&response.id),
            Self::Notification(_) => None,
        }
    }

    /// A request.
    pub const fn request(id: Id, call: Call) -> Self {
        Self::Request(Request { id, call })
    }

    /// A response with a typed result.
    ///
    /// # Errors
    /// When the result does not validate.
    pub fn result<T: Contract>(id: Id, result: &T) -> Result<Self, ProtocolError> {
        let value = FreeValue::from_canonical(encode_contract(result)?)?;
        Ok(Self::Response(Response { id, outcome: Outcome::Result(value) }))
    }

    /// A response with an error.
    pub const fn error(id: Id, error: RpcError) -> Self {
        Self::Response(Response { id, outcome: Outcome::Error(error) })
    }

    /// Writes the canonical frame, without its line ending.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let mut writer = Writer::new(out);
        match self {
            Self::Request(request) => {
                writer.raw("{\"id\":");
                write_id(&mut writer, &request.id)?;
                writer.raw(",\"jsonrpc\":\"2.0\",\"method\":\"");
                writer.raw(request.call.method().as_str());
                writer.raw("\"");
                write_call(&mut writer, &request.call)?;
            }
            Self::Notification(notification) => {
                writer.raw("{\"jsonrpc\":\"2.0\",\"method\":\"");
                writer.raw(notification.method().as_str());
                writer.raw("\"");
                match notification {
                    Notification::Observation(params) => write_params(&mut writer, Method::Observation, params)?,
                    Notification::Completed(params) => write_params(&mut writer, Method::Completed, params)?,
                }
            }
            Self::Response(response) => write_response(&mut writer, response)?,
        }
        writer.raw("}");
        Ok(())
    }
}

fn write_call(writer: &mut Writer<'_>, call: &Call) -> Result<(), ProtocolError> {
    let method = call.method();
    match call {
        Call::Hello(params) => write_params(writer, method, params),
        Call::Prepare(params) => write_params(writer, method, params),
        Call::Invoke(params) => write_params(writer, method, params),
        Call::Cancel(params) => write_params(writer, method, params),
        Call::Capabilities(Some(params)) => write_params(writer, method, params),
        Call::Reset(Some(params)) => write_params(writer, method, params),
        Call::Shutdown(Some(params)) => write_params(writer, method, params),
        Call::Capabilities(None) | Call::Reset(None) | Call::Shutdown(None) => Ok(()),
    }
}

fn write_params<T: Contract>(writer: &mut Writer<'_>, method: Method, params: &T) -> Result<(), ProtocolError> {
    params.validate().map_err(|error| ProtocolError::Params { method, error })?;
    writer.raw(",\"params\":");
    params.write(Target(writer))
}

fn write_response(writer: &mut Writer<'_>, response: &Response) -> Result<(), ProtocolError> {
    match &response.outcome {
        Outcome::Error(error) => {
            error.validate().map_err(ProtocolError::ErrorObject)?;
            writer.raw("{\"error\":{\"code\":");
            writer.integer(error.code);
            writer.raw(",\"data\":{\"class\":\"");
            writer.raw(error.data.class.as_str());
            writer.raw("\"");
            if let Some(details) = &error.data.details {
                writer.raw(",\"details\":");
                writer.value(details)?;
            }
            writer.raw("},\"message\":");
            writer.string(&error.message);
            writer.raw("},\"id\":");
            write_id(writer, &response.id)?;
            writer.raw(",\"jsonrpc\":\"2.0\"");
        }
        Outcome::Result(result) => {
            writer.raw("{\"id\":");
            write_id(writer, &response.id)?;
            writer.raw(",\"jsonrpc\":\"2.0\",\"result\":");
            writer.value(result)?;
        }
    }
    Ok(())
}

fn write_id(writer: &mut Writer<'_>, id: &Id) -> Result<(), ProtocolError> {
    match id {
        Id::Int(number) if number.unsigned_abs() > MAX_EXACT_INTEGER => {
            return Err(ProtocolError::Id("is beyond 2^53"));
        }
        Id::Int(number) => writer.integer(*number),
        Id::Str(text) => writer.string(text),
    }
    Ok(())
}

/// A message in loose texts, as a proxy or a test assembles one: every member is raw JSON text or absent.
#[derive(Debug, Clone, Default)]
pub struct MessageParts<'a> {
    /// The envelope version, unquoted.
    pub jsonrpc: &'a str,
    /// The id, raw JSON without surrounding space.
    pub id: Option<&'a str>,
    /// The method's name, unquoted.
    pub method: Option<&'a str>,
    /// The params, raw JSON.
    pub params: Option<&'a str>,
    /// The result, raw JSON.
    pub result: Option<&'a str>,
    /// The error.
    pub error: Option<ErrorParts<'a>>,
}

/// The error of a [`MessageParts`].
#[derive(Debug, Clone, Default)]
pub struct ErrorParts<'a> {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: &'a str,
    /// The class, unless data is absent.
    pub class: Option<&'a str>,
    /// The details, raw JSON.
    pub details: Option<&'a str>,
}

impl MessageParts<'_> {
    /// Checks the parts in the order in which a frame is checked.
    ///
    /// # Errors
    /// As [`decode_control_frame`](crate::decode_control_frame), from the envelope on.
    pub fn into_message(self) -> Result<Message, ProtocolError> {
        let (params, result) = (self.params.map(scanned).transpose()?, self.result.map(scanned).transpose()?);
        let id = self.id.map(|text| scanned(text).map_err(|_| ProtocolError::Id("is not JSON"))).transpose()?;
        if self.id.is_some_and(|text| text.trim_ascii() != text) {
            return Err(ProtocolError::Id("has space around it"));
        }
        let error = match &self.error {
            None => None,
            Some(error) => Some(ErrorFields {
                code: Some(error.code),
                message: Some(error.message.into()),
                data: error.class.is_some() || error.details.is_some(),
                class: error.class.map(Into::into),
                details: error.details.map(scanned).transpose()?.map(Value::root),
            }),
        };
        let fields = Fields {
            jsonrpc: Some(self.jsonrpc.into()),
            id: id.map(Value::root),
            method: self.method.map(Into::into),
            params: params.map(Value::root).map(Params::Text),
            result: result.map(Value::root),
            error,
        };
        fields.into_message()
    }
}

/// Scans and hands back the same text.
fn scanned(text: &str) -> Result<&str, ProtocolError> {
    scan(text.as_bytes(), Profile::DriverRpc, LIMITS).map_err(ProtocolError::json)?;
    Ok(text)
}
