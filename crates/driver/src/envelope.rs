//! From the members of a frame to a message (spec section 2, steps 6 to 10).

use std::borrow::Cow;

use pintle_wire::{Id, Profile, scan};

use crate::class::ErrorClass;
use crate::contract::{object, read, string, unknown, wrong_type};
use crate::cursor::Value;
use crate::error::{ContractError, Problem, ProtocolError};
use crate::message::{Call, ErrorData, Message, Notification, Outcome, Request, Response, RpcError};
use crate::method::Method;
use crate::value::{FreeValue, LIMITS};

/// The only envelope version of v1.
pub const JSONRPC_VERSION: &str = "2.0";

/// The members of an envelope, typed but not yet checked against each other.
#[derive(Default)]
pub(crate) struct Fields<'a> {
    pub(crate) jsonrpc: Option<Cow<'a, str>>,
    pub(crate) id: Option<Value<'a>>,
    pub(crate) method: Option<Cow<'a, str>>,
    pub(crate) params: Option<Params<'a>>,
    pub(crate) result: Option<Value<'a>>,
    pub(crate) error: Option<ErrorFields<'a>>,
}

/// The params of an envelope.
pub(crate) enum Params<'a> {
    /// Not read yet: their method was not known when they came, or they are no object.
    Text(Value<'a>),
    /// Read as those of the envelope's method. What was found counts once the earlier steps have passed.
    Read(Result<Body, ContractError>),
}

/// A method with its params.
pub(crate) enum Body {
    Call(Call),
    Notification(Notification),
}

/// The members of an error object. `data` says whether there was a data object at all.
#[derive(Default)]
pub(crate) struct ErrorFields<'a> {
    pub(crate) code: Option<i64>,
    pub(crate) message: Option<Cow<'a, str>>,
    pub(crate) data: bool,
    pub(crate) class: Option<Cow<'a, str>>,
    pub(crate) details: Option<Value<'a>>,
}

impl<'a> Fields<'a> {
    /// Step 7: known members of the right JSON types.
    ///
    /// `jsonrpc`, `error.message` and `error.data` may be null here, because the later step that misses them decides the
    /// class.
    pub(crate) fn read(root: Value<'a>) -> Result<Self, ContractError> {
        let mut fields = Self::default();
        let mut members = object(root, "frame")?;
        while let Some(name) = members.next_name() {
            let text = name.text();
            if text == "params"
                && let Some(method) = fields.method.as_deref().and_then(|method| method.parse().ok())
                && let Some(read) = members.open_object(&name, |params| Body::read(method, params))
            {
                fields.params = Some(Params::Read(read));
                continue;
            }
            let Some(member) = members.member(&name) else { break };
            let value = member.value;
            match &*text {
                "jsonrpc" => fields.jsonrpc = nullable_string(value, "jsonrpc")?,
                "id" => fields.id = Some(value),
                "method" => fields.method = Some(string(value, "method")?),
                "params" => fields.params = Some(Params::Text(value)),
                "result" => fields.result = Some(value),
                "error" => fields.error = Some(ErrorFields::read(value)?),
                _ => return Err(unknown(&member, "frame")),
            }
        }
        Ok(fields)
    }

    /// Steps 8 to 10.
    pub(crate) fn into_message(self) -> Result<Message, ProtocolError> {
        if self.jsonrpc.as_deref() != Some(JSONRPC_VERSION) {
            return Err(ProtocolError::Version);
        }
        match &self.method {
            Some(name) => {
                let method = name.parse().map_err(|_| ProtocolError::UnknownMethod)?;
                self.into_call(method)
            }
            None => self.into_response(),
        }
    }

    fn into_call(self, method: Method) -> Result<Message, ProtocolError> {
        if self.result.is_some() || self.error.is_some() {
            return Err(ProtocolError::Members("a method together with a result or an error"));
        }
        if matches!(&self.params, Some(Params::Text(params)) if !(params.is_object() || params.is_array())) {
            return Err(ProtocolError::ParamsContainer);
        }
        let id = match (method.is_notification(), self.id) {
            (true, Some(_)) => return Err(ProtocolError::Id("is not allowed in a notification")),
            (true, None) => None,
            (false, Some(id)) => Some(read_id(id)?),
            (false, None) => return Err(ProtocolError::Id("is missing")),
        };
        let body = match self.params {
            Some(Params::Read(read)) => read,
            Some(Params::Text(params)) => Body::read(method, params),
            None => Body::without_params(method),
        };
        match (body.map_err(|error| ProtocolError::Params { method, error })?, id) {
            (Body::Call(call), Some(id)) => Ok(Message::Request(Request { id, call })),
            (Body::Notification(notification), None) => Ok(Message::Notification(notification)),
            // A body is read for its method, and the method decides about the id.
            (Body::Call(_), None) | (Body::Notification(_), Some(_)) => Err(ProtocolError::UnknownMethod),
        }
    }

    fn into_response(self) -> Result<Message, ProtocolError> {
        if self.params.is_some() {
            return Err(ProtocolError::Members("params without a method"));
        }
        let Some(id) = self.id else { return Err(ProtocolError::Members("neither method nor id")) };
        let (id, outcome) = match (self.result, self.error) {
            (Some(result), None) => (read_id(id)?, Outcome::Result(FreeValue::from_scanned(result.text()))),
            (None, Some(error)) => (read_id(id)?, Outcome::Error(error.into_error()?)),
            (Some(_), Some(_)) => return Err(ProtocolError::Members("both result and error")),
            (None, None) => return Err(ProtocolError::Members("neither method, result nor error")),
        };
        Ok(Message::Response(Response { id, outcome }))
    }
}

impl Body {
    /// Step 10.
    fn read(method: Method, params: Value<'_>) -> Result<Self, ContractError> {
        Ok(match method {
            Method::Hello => Self::Call(Call::Hello(read(params)?)),
            Method::Prepare => Self::Call(Call::Prepare(read(params)?)),
            Method::Invoke => Self::Call(Call::Invoke(read(params)?)),
            Method::Cancel => Self::Call(Call::Cancel(read(params)?)),
            Method::Capabilities => Self::Call(Call::Capabilities(Some(read(params)?))),
            Method::Reset => Self::Call(Call::Reset(Some(read(params)?))),
            Method::Shutdown => Self::Call(Call::Shutdown(Some(read(params)?))),
            Method::Observation => Self::Notification(Notification::Observation(read(params)?)),
            Method::Completed => Self::Notification(Notification::Completed(read(params)?)),
        })
    }

    fn without_params(method: Method) -> Result<Self, ContractError> {
        match method {
            Method::Capabilities => Ok(Self::Call(Call::Capabilities(None))),
            Method::Reset => Ok(Self::Call(Call::Reset(None))),
            Method::Shutdown => Ok(Self::Call(Call::Shutdown(None))),
            _ => Err(ContractError::new("", Problem::Missing)),
        }
    }
}

impl<'a> ErrorFields<'a> {
    fn read(value: Value<'a>) -> Result<Self, ContractError> {
        let mut fields = Self::default();
        for member in object(value, "error")? {
            let value = member.value;
            match &*member.name() {
                "code" => {
                    let code = value.integer().ok_or_else(|| wrong_type(value, "code", "an exact integer"));
                    fields.code = Some(code?);
                }
                "message" => fields.message = nullable_string(value, "message")?,
                "data" if value.is_null() => {}
                "data" => fields.read_data(value)?,
                _ => return Err(unknown(&member, "error")),
            }
        }
        Ok(fields)
    }

    fn read_data(&mut self, value: Value<'a>) -> Result<(), ContractError> {
        self.data = true;
        for member in object(value, "error.data")? {
            match &*member.name() {
                "class" => self.class = nullable_string(member.value, "class")?,
                "details" => self.details = Some(member.value),
                _ => return Err(unknown(&member, "error.data")),
            }
        }
        Ok(())
    }

    fn into_error(self) -> Result<RpcError, ProtocolError> {
        let missing = |member| ProtocolError::ErrorObject(ContractError::new(member, Problem::Missing));
        let error = RpcError {
            code: self.code.ok_or_else(|| missing("code"))?,
            message: self.message.ok_or_else(|| missing("message"))?.into(),
            data: ErrorData {
                class: self.data.then_some(()).ok_or_else(|| missing("data")).and_then(|()| known_class(self.class))?,
                details: self.details.map(|value| FreeValue::from_scanned(value.text())),
            },
        };
        error.validate().map_err(ProtocolError::ErrorObject)?;
        Ok(error)
    }
}

fn known_class(class: Option<Cow<'_, str>>) -> Result<ErrorClass, ProtocolError> {
    let wrong = |problem| ProtocolError::ErrorObject(ContractError::new("class", problem));
    let class = class.ok_or_else(|| wrong(Problem::Missing))?;
    class.parse().map_err(|_| wrong(Problem::Invalid("one of the ten classes")))
}

fn nullable_string<'a>(value: Value<'a>, at: &'static str) -> Result<Option<Cow<'a, str>>, ContractError> {
    if value.is_null() { Ok(None) } else { string(value, at).map(Some) }
}

/// The id of a frame that was refused, if the frame is strict JSON and its id is a good one: then it can be answered.
pub(crate) fn recover_id(line: &[u8]) -> Option<Id> {
    let text = scan(line, Profile::DriverRpc, LIMITS).ok()?;
    let root = Value::root(text.as_str());
    let request = root.members().any(|member| member.name() == "method");
    let id = root.members().find(|member| member.name() == "id").filter(|_| request)?;
    read_id(id.value).ok()
}

/// A string, or an integer that is exact within 2^53 (spec section 3).
fn read_id(value: Value<'_>) -> Result<Id, ProtocolError> {
    if let Some(text) = value.string() {
        return Ok(Id::Str(text.into()));
    }
    match value.integer() {
        Some(number) => Ok(Id::Int(number)),
        None if value.is_number() => Err(ProtocolError::Id("is not an exact integer within 2^53")),
        None => Err(ProtocolError::Id("is neither a string nor an integer")),
    }
}
