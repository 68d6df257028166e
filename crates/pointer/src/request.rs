use pintle_wire::{DecodeError, JsonErrorClass, JsonReason, Profile, RootKind, ScanLimits};
use serde::Deserialize;
use thiserror::Error;

use crate::ids::{REVISION_MAX, SessionId, TaskId};
use crate::json::Object;
use crate::state::{Expectation, ExpectedGeneration, Observed, Pointer, State, Status, Task, nullable};
use crate::text::{PointerText, TextError};
use crate::{Code, IdError, wire_input};

/// The longest publish request, in bytes. A reader needs one byte more to know that a request is too long.
pub const REQUEST_MAX_BYTES: usize = 12_288;

const REQUEST_MAX_DEPTH: usize = 2;

/// A publish request of schema 3: what to store, and the pair that must be stored now for it to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishRequest {
    /// Whose pointer.
    pub session_id: SessionId,
    /// What the publisher saw when it decided to publish.
    pub expected: Expectation,
    /// Status and task to store.
    pub target: Pointer,
}

impl PublishRequest {
    /// Reads a request strictly: at most [`REQUEST_MAX_BYTES`], one byte order mark allowed (PowerShell pipes add it),
    /// UTF-8, one object, no duplicate name, exactly the seven names, integers spelled as integers.
    ///
    /// # Errors
    /// [`RequestError`], in the order size, encoding, grammar, duplicate names, schema, then field by field.
    pub fn decode(bytes: &[u8]) -> Result<Self, RequestError> {
        if bytes.len() > REQUEST_MAX_BYTES {
            return Err(RequestError::TooLarge);
        }
        let limits = ScanLimits { max_bytes: REQUEST_MAX_BYTES, max_depth: REQUEST_MAX_DEPTH };
        let text = pintle_wire::scan(wire_input::without_bom(bytes), Profile::DriverRpc, limits)
            .map_err(|error| RequestError::Json { class: error.class, line: error.line, reason: error.reason })?;
        if text.root() != RootKind::Object {
            return Err(RequestError::Schema("it is not an object"));
        }
        let fields: Fields = text.decode().map_err(RequestError::Shape)?;
        fields.check()
    }

    /// The one line of JSON that [`decode`](Self::decode) reads back, for another machine's or process's publisher.
    pub fn to_json(&self) -> String {
        let task = self.target.task();
        Object::new()
            .number("schema_version", 3)
            .string("session_id", self.session_id.as_str())
            .string("expected_generation", self.expected.generation.as_str())
            .number("expected_revision", self.expected.revision)
            .nullable("task_id", task.map(|task| task.id.as_str()))
            .string("target_status", self.target.status().as_str())
            .nullable("pointer_text", task.map(|task| task.text.as_str()))
            .finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    schema_version: u64,
    session_id: String,
    expected_generation: String,
    expected_revision: u64,
    #[serde(deserialize_with = "nullable")]
    task_id: Option<String>,
    target_status: String,
    #[serde(deserialize_with = "nullable")]
    pointer_text: Option<String>,
}

impl Fields {
    fn check(self) -> Result<PublishRequest, RequestError> {
        if self.schema_version != 3 {
            return Err(RequestError::Schema("schema_version is not 3"));
        }
        let generation = ExpectedGeneration::parse(&self.expected_generation)
            .ok_or(RequestError::Schema("expected_generation is neither g-.. nor ABSENT nor LEGACY_V2"))?;
        let legal_revision = match generation {
            ExpectedGeneration::Absent => self.expected_revision == 0,
            ExpectedGeneration::LegacyV2 | ExpectedGeneration::Current(_) => {
                (1..=REVISION_MAX).contains(&self.expected_revision)
            }
        };
        if !legal_revision {
            return Err(RequestError::Schema("expected_revision is not 0 beside ABSENT, or not from 1 beside another"));
        }
        let status = Status::parse(&self.target_status)
            .ok_or(RequestError::Schema("target_status is not CLEAN, DIRTY or CLEARED"))?;
        let session_id = self.session_id.parse().map_err(RequestError::Id)?;
        let task = match (self.task_id, self.pointer_text) {
            (None, None) => None,
            (Some(id), Some(text)) => Some(Task {
                id: id.parse::<TaskId>().map_err(RequestError::Id)?,
                text: PointerText::publish(&text).map_err(RequestError::Text)?,
            }),
            _ => return Err(RequestError::Schema("task_id and pointer_text must be null together")),
        };
        let target = Pointer::from_parts(status, task).ok_or(RequestError::Schema(
            "target_status CLEARED needs null task_id and pointer_text, any other needs both",
        ))?;
        Ok(PublishRequest {
            session_id,
            expected: Expectation { generation, revision: self.expected_revision },
            target,
        })
    }
}

/// Why bytes are not a publish request. Names rules and limits, never content.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Over [`REQUEST_MAX_BYTES`].
    #[error("request has more than {REQUEST_MAX_BYTES} bytes")]
    TooLarge,
    /// Not strict JSON.
    #[error("request is not strict JSON: {reason} (line {line})")]
    Json {
        /// What kind of rule was broken.
        class: JsonErrorClass,
        /// In which line, from 1.
        line: usize,
        /// Which rule.
        reason: JsonReason,
    },
    /// JSON of another shape.
    #[error("request does not match the schema: {0}")]
    Schema(&'static str),
    /// A member is missing, unknown or of the wrong type.
    #[error("request does not match the schema: {0}")]
    Shape(DecodeError),
    /// An identifier is malformed.
    #[error("request does not match the schema: {0}")]
    Id(IdError),
    /// The pointer text is not acceptable.
    #[error("request does not match the schema: {0}")]
    Text(TextError),
}

impl RequestError {
    /// The code of the receipt.
    pub const fn code(&self) -> Code {
        match self {
            Self::TooLarge => Code::RequestTooLarge,
            Self::Json { class, .. } => match class {
                JsonErrorClass::TooLarge => Code::RequestTooLarge,
                JsonErrorClass::Encoding => Code::RequestEncoding,
                JsonErrorClass::DuplicateName => Code::RequestDuplicateKey,
                JsonErrorClass::TooDeep => Code::RequestSchema,
                _ => Code::RequestJson,
            },
            Self::Schema(_) | Self::Shape(_) => Code::RequestSchema,
            Self::Id(IdError::SessionId) => Code::SessionIdInvalid,
            Self::Id(IdError::TaskId) => Code::TaskIdInvalid,
            Self::Id(IdError::Generation | IdError::Revision) => Code::RequestSchema,
            Self::Text(error) => error.code(),
        }
    }
}

/// The line that a successful publish prints, without its LF.
pub fn success_receipt(state: &State) -> String {
    Object::new()
        .boolean("ok", true)
        .string("session_id", state.session_id.as_str())
        .string("generation", state.generation.as_str())
        .number("revision", state.revision.get())
        .string("status", state.pointer.status().as_str())
        .nullable("task_id", state.pointer.task().map(|task| task.id.as_str()))
        .string("updated_at", &state.updated_at.to_string())
        .finish()
}

/// The line that a refused publish prints, without its LF. `current` is what a `STALE_*` refusal found, so that the
/// caller can decide again without another read; the pointer text is never in it.
pub fn failure_receipt(code: Code, message: &str, current: Option<&Observed>) -> String {
    let mut receipt = Object::new().boolean("ok", false).string("code", code.as_str()).string("message", message);
    if let Some((observed, expectation)) = current.and_then(|observed| Some((observed, observed.expectation()?))) {
        let pair = Object::new()
            .string("generation", expectation.generation.as_str())
            .number("revision", expectation.revision)
            .string("status", observed.status_word());
        receipt = receipt.object("current", pair);
    }
    receipt.finish()
}
