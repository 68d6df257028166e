//! Elicitation: the agent asks the user for data, in a form or on a page. `elicitation/create`,
//! `elicitation/complete`.

use std::collections::BTreeMap;

use serde::{Deserializer, Serializer};

use super::capabilities::ElicitationCapabilities;
use super::declare::{object, object_with_meta, serde_by_shape, tagged, words};
use super::ids::{ElicitationId, RequestId, SessionId, ToolCallId};
use super::leaf::List;
use super::raw::Raw;
use super::shape::{Fault, FaultReason, Malformed, Read, Shape, Token, decode};

object! {
    /// Asks the user.
    pub struct CreateElicitationRequest, "an elicitation/create request", new(message: String, mode: ElicitationMode) {
        /// What is asked, for people.
        req message: String = "message",
    } flat {
        /// How it is asked. On the wire its members stand beside the others.
        mode: ElicitationMode,
    }
}

impl CreateElicitationRequest {
    /// Checks that the elicitation belongs to a session or to a request.
    ///
    /// # Errors
    /// When it names neither; the answer to the peer is -32602.
    pub fn validate(&self) -> Result<(), Fault> {
        match &self.mode {
            ElicitationMode::Form(form) => scope(form.session_id.as_ref(), form.request_id.as_ref()),
            ElicitationMode::Url(url) => scope(url.session_id.as_ref(), url.request_id.as_ref()),
            ElicitationMode::Unknown { .. } => Ok(()),
        }
    }

    /// Checks that the client advertised this mode. The answer to one that it did not is -32602.
    ///
    /// # Errors
    /// When it did not, or when the mode is not known.
    pub fn require_advertised(&self, advertised: Option<&ElicitationCapabilities>) -> Result<(), Fault> {
        let missing = match &self.mode {
            ElicitationMode::Form(_) if advertised.is_some_and(|a| a.form.is_some()) => return Ok(()),
            ElicitationMode::Url(_) if advertised.is_some_and(|a| a.url.is_some()) => return Ok(()),
            ElicitationMode::Form(_) => FaultReason::NotAdvertised("elicitation.form"),
            ElicitationMode::Url(_) => FaultReason::NotAdvertised("elicitation.url"),
            ElicitationMode::Unknown { .. } => FaultReason::Expected("a known mode"),
        };
        Err(Fault::new(missing).inside("mode"))
    }
}

fn scope(session: Option<&SessionId>, request: Option<&RequestId>) -> Result<(), Fault> {
    if session.is_some() || request.is_some() { Ok(()) } else { Err(Fault::missing("sessionId")) }
}

tagged! {
    /// How the user is asked.
    pub enum ElicitationMode, "an elicitation mode", "mode" {
        /// In a form; needs the client's `elicitation.form`.
        Form(ElicitationForm) = "form",
        /// On a page that the user opens; needs the client's `elicitation.url`.
        Url(ElicitationUrl) = "url",
    }
}

impl From<ElicitationForm> for ElicitationMode {
    fn from(form: ElicitationForm) -> Self {
        Self::Form(form)
    }
}

impl From<ElicitationUrl> for ElicitationMode {
    fn from(url: ElicitationUrl) -> Self {
        Self::Url(url)
    }
}

object_with_meta! {
    /// A form. It belongs to a session (and perhaps to a tool call of it), or to a request.
    pub struct ElicitationForm, "a form", new(requested_schema: ElicitationSchema) {
        /// What to fill in.
        req requested_schema: ElicitationSchema = "requestedSchema",
        /// The session that it belongs to.
        opt session_id: SessionId = "sessionId",
        /// The tool call that it belongs to.
        opt tool_call_id: ToolCallId = "toolCallId",
        /// The request that it belongs to, where there is no session.
        opt request_id: RequestId = "requestId",
    }
}

object_with_meta! {
    /// A page. It belongs to a session (and perhaps to a tool call of it), or to a request.
    pub struct ElicitationUrl, "a page", new(elicitation_id: ElicitationId, url: String) {
        /// What `elicitation/complete` will name.
        req elicitation_id: ElicitationId = "elicitationId",
        /// The page.
        req url: String = "url",
        /// The session that it belongs to.
        opt session_id: SessionId = "sessionId",
        /// The tool call that it belongs to.
        opt tool_call_id: ToolCallId = "toolCallId",
        /// The request that it belongs to, where there is no session.
        opt request_id: RequestId = "requestId",
    }
}

object! {
    /// The fields of a form, as a flat JSON Schema.
    #[derive(Default)]
    pub struct ElicitationSchema, "a form schema", new() {
        /// `object`, which is also the default.
        opt schema_type: String = "type",
        /// The title of the form.
        opt title: String = "title",
        /// What the form is about.
        opt description: String = "description",
        /// The fields, in key order.
        def_strict properties: BTreeMap<String, ElicitationPropertySchema> = "properties",
        /// Which fields must be filled in.
        opt_strict required: Vec<String> = "required",
    }
}

tagged! {
    /// A field of a form.
    pub enum ElicitationPropertySchema, "a property schema", "type" {
        /// A text, or one of several.
        String(StringPropertySchema) = "string",
        /// A number.
        Number(NumberPropertySchema) = "number",
        /// An integer.
        Integer(IntegerPropertySchema) = "integer",
        /// Yes or no.
        Boolean(BooleanPropertySchema) = "boolean",
        /// Several out of several.
        Array(MultiSelectPropertySchema) = "array",
    }
}

object! {
    /// A text, or one of several.
    #[derive(Default)]
    pub struct StringPropertySchema, "a string schema", new() {
        /// The label.
        opt title: String = "title",
        /// What it is for.
        opt description: String = "description",
        /// At least so many characters.
        opt_strict min_length: u32 = "minLength",
        /// At most so many characters.
        opt_strict max_length: u32 = "maxLength",
        /// A regular expression.
        opt_strict pattern: String = "pattern",
        /// What form the text has.
        opt_strict format: StringFormat = "format",
        /// What is there to begin with.
        opt default: String = "default",
        /// The choices, without titles.
        opt_strict choices: Vec<String> = "enum",
        /// The choices, with titles.
        opt_strict one_of: Vec<EnumOption> = "oneOf",
    }
}

words! {
    /// What form a text has.
    pub enum StringFormat, "a string format" {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date and a time.
        DateTime = "date-time",
    }
}

object! {
    /// A choice with a title.
    pub struct EnumOption, "a choice", new(value: String, title: String) {
        /// The value.
        req value: String = "const",
        /// What to show.
        req title: String = "title",
        /// What it means.
        opt description: String = "description",
    }
}

object! {
    /// A number.
    #[derive(Default)]
    pub struct NumberPropertySchema, "a number schema", new() {
        /// The label.
        opt title: String = "title",
        /// What it is for.
        opt description: String = "description",
        /// The least.
        opt_strict minimum: f64 = "minimum",
        /// The greatest.
        opt_strict maximum: f64 = "maximum",
        /// What is there to begin with.
        opt default: f64 = "default",
    }
}

object! {
    /// An integer.
    #[derive(Default)]
    pub struct IntegerPropertySchema, "an integer schema", new() {
        /// The label.
        opt title: String = "title",
        /// What it is for.
        opt description: String = "description",
        /// The least.
        opt_strict minimum: i64 = "minimum",
        /// The greatest.
        opt_strict maximum: i64 = "maximum",
        /// What is there to begin with.
        opt default: i64 = "default",
    }
}

object! {
    /// Yes or no.
    #[derive(Default)]
    pub struct BooleanPropertySchema, "a boolean schema", new() {
        /// The label.
        opt title: String = "title",
        /// What it is for.
        opt description: String = "description",
        /// What is there to begin with.
        opt default: bool = "default",
    }
}

object! {
    /// Several out of several.
    pub struct MultiSelectPropertySchema, "a multi-select schema", new(items: MultiSelectItems) {
        /// The label.
        opt title: String = "title",
        /// What it is for.
        opt description: String = "description",
        /// At least so many.
        opt_strict min_items: u64 = "minItems",
        /// At most so many.
        opt_strict max_items: u64 = "maxItems",
        /// The choices.
        req items: MultiSelectItems = "items",
        /// What is chosen to begin with.
        opt default: List<String> = "default",
    }
}

object! {
    /// The choices of a multi-select: `type` `string` with `enum`, or `anyOf` with titles.
    #[derive(Default)]
    pub struct MultiSelectItems, "multi-select items", new() {
        /// `string`, where the choices have no titles.
        opt_strict item_type: String = "type",
        /// The choices, without titles.
        opt_strict choices: Vec<String> = "enum",
        /// The choices, with titles.
        opt_strict any_of: Vec<EnumOption> = "anyOf",
    }
}

object! {
    /// What the user did.
    pub struct CreateElicitationResponse, "an elicitation/create response", new(action: ElicitationAction) {
    } flat {
        /// What it was. On the wire its members stand beside the others.
        action: ElicitationAction,
    }
}

tagged! {
    /// What the user did with an elicitation.
    pub enum ElicitationAction, "an elicitation action", "action" {
        /// Filled it in, or agreed to open the page.
        Accept(ElicitationAccept) = "accept",
        /// Said no.
        Decline(ElicitationDecline) = "decline",
        /// Closed it.
        Cancel(ElicitationCancel) = "cancel",
    }
}

impl ElicitationAction {
    /// Filled in.
    pub fn accept(content: impl IntoIterator<Item = (String, ElicitationContentValue)>) -> Self {
        Self::Accept(ElicitationAccept::new().content(content.into_iter().collect::<BTreeMap<_, _>>()))
    }

    /// Said no.
    pub fn decline() -> Self {
        Self::Decline(ElicitationDecline::new())
    }

    /// Closed it.
    pub fn cancel() -> Self {
        Self::Cancel(ElicitationCancel::new())
    }
}

object_with_meta! {
    /// See [`ElicitationAction::Accept`].
    #[derive(Default)]
    pub struct ElicitationAccept, "an accept action", new() {
        /// The fields by name; absent for a page.
        opt_strict content: BTreeMap<String, ElicitationContentValue> = "content",
    }
}

object_with_meta! {
    /// See [`ElicitationAction::Decline`].
    #[derive(Default)]
    pub struct ElicitationDecline, "a decline action", new() {}
}

object_with_meta! {
    /// See [`ElicitationAction::Cancel`].
    #[derive(Default)]
    pub struct ElicitationCancel, "a cancel action", new() {}
}

/// What the user filled in.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationContentValue {
    /// A text.
    String(String),
    /// An integer.
    Integer(i64),
    /// A number that is not an integer.
    Number(f64),
    /// Yes or no.
    Boolean(bool),
    /// Several texts.
    Strings(Vec<String>),
}

serde_by_shape!(ElicitationContentValue);

impl Shape for ElicitationContentValue {
    const EXPECTED: &'static str = "a string, a number, a boolean or a list of strings";

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Read<Self>, D::Error> {
        Ok(match Token::read(deserializer)? {
            Token::Str(text) => Ok(Self::String(text.into_owned())),
            Token::Int(v) => Ok(Self::Integer(v)),
            Token::Float(v) => Ok(Self::Number(v)),
            Token::Bool(v) => Ok(Self::Boolean(v)),
            Token::Other(raw) => strings(raw),
            other => other.refuse(Self::EXPECTED),
        })
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::String(v) => v.write(serializer),
            Self::Integer(v) => v.write(serializer),
            Self::Number(v) => v.write(serializer),
            Self::Boolean(v) => v.write(serializer),
            Self::Strings(v) => v.write(serializer),
        }
    }
}

fn strings(raw: Raw) -> Read<ElicitationContentValue> {
    match decode::<Vec<String>>(raw.get()) {
        Ok(strings) => Ok(ElicitationContentValue::Strings(strings)),
        Err(_) => Err(Malformed::new(Fault::expected(ElicitationContentValue::EXPECTED), raw)),
    }
}

object! {
    /// The user is done with the page. One that is not known is ignored.
    pub struct CompleteElicitationNotification, "an elicitation/complete notification",
        new(elicitation_id: ElicitationId) {
        /// Which elicitation.
        req elicitation_id: ElicitationId = "elicitationId",
    }
}
