use std::fmt;

use pintle_wire::{JsonErrorClass, Profile, RootKind, ScanLimits};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::ids::{Generation, Revision, SessionId, TaskId};
use crate::text::PointerText;
use crate::time::Timestamp;
use crate::{ABSENT, Code, LEGACY_V2, json};

/// The largest state file that is read. The largest legal one has 8192 escaped control characters and about 600 other
/// bytes.
pub const STATE_MAX_BYTES: usize = 64 * 1024;

/// The schema that is written, and the newest one that is read.
const SCHEMA_VERSION: u64 = 3;

/// A state is one flat object; one more level is allowed so that nesting is named by the schema and not by the scanner.
const STATE_MAX_DEPTH: usize = 2;

/// How far the session is with its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The text says what the user last asked for.
    Clean,
    /// A prompt came after the text was published; the newest user message is not in it yet.
    Dirty,
    /// No task.
    Cleared,
}

impl Status {
    /// The status as it stands in files and contexts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "CLEAN",
            Self::Dirty => "DIRTY",
            Self::Cleared => "CLEARED",
        }
    }

    /// The status of that spelling.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "CLEAN" => Some(Self::Clean),
            "DIRTY" => Some(Self::Dirty),
            "CLEARED" => Some(Self::Cleared),
            _ => None,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A task: its id and what its publisher wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The id, which survives an adoption by another session.
    pub id: TaskId,
    /// Goal and next step.
    pub text: PointerText,
}

/// Status together with the task that it requires: a cleared pointer has none, the other two have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// [`Status::Clean`].
    Clean(Task),
    /// [`Status::Dirty`].
    Dirty(Task),
    /// [`Status::Cleared`].
    Cleared,
}

impl Pointer {
    /// The status alone.
    pub const fn status(&self) -> Status {
        match self {
            Self::Clean(_) => Status::Clean,
            Self::Dirty(_) => Status::Dirty,
            Self::Cleared => Status::Cleared,
        }
    }

    /// The task, unless cleared.
    pub const fn task(&self) -> Option<&Task> {
        match self {
            Self::Clean(task) | Self::Dirty(task) => Some(task),
            Self::Cleared => None,
        }
    }

    /// The pointer after a prompt: the same task, not yet merged with what the user just said.
    #[must_use]
    pub fn dirtied(&self) -> Self {
        match self {
            Self::Clean(task) | Self::Dirty(task) => Self::Dirty(task.clone()),
            Self::Cleared => Self::Cleared,
        }
    }

    /// From the three fields of a file or request, if they agree.
    pub(crate) fn from_parts(status: Status, task: Option<Task>) -> Option<Self> {
        match (status, task) {
            (Status::Clean, Some(task)) => Some(Self::Clean(task)),
            (Status::Dirty, Some(task)) => Some(Self::Dirty(task)),
            (Status::Cleared, None) => Some(Self::Cleared),
            _ => None,
        }
    }
}

/// A state of schema 3: the one record of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The session that it belongs to.
    pub session_id: SessionId,
    /// The fence that a publish must name.
    pub generation: Generation,
    /// The count that a publish must name.
    pub revision: Revision,
    /// Status and task.
    pub pointer: Pointer,
    /// When it was written, by a clock that is never trusted for order.
    pub updated_at: Timestamp,
}

impl State {
    /// The one byte sequence of this state: keys in the protocol's order, two spaces, LF, a final LF, nothing escaped
    /// that RFC 8259 does not require.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = String::with_capacity(640 + self.pointer.task().map_or(0, |task| task.text.as_str().len() * 2));
        out.push_str("{\n  \"schema_version\": 3,\n  \"session_id\": ");
        json::push_string(&mut out, self.session_id.as_str());
        out.push_str(",\n  \"generation\": ");
        json::push_string(&mut out, self.generation.as_str());
        out.push_str(",\n  \"revision\": ");
        out.push_str(&self.revision.to_string());
        out.push_str(",\n  \"status\": ");
        json::push_string(&mut out, self.pointer.status().as_str());
        out.push_str(",\n  \"task_id\": ");
        json::push_nullable(&mut out, self.pointer.task().map(|task| task.id.as_str()));
        out.push_str(",\n  \"pointer_text\": ");
        json::push_nullable(&mut out, self.pointer.task().map(|task| task.text.as_str()));
        out.push_str(",\n  \"updated_at\": ");
        json::push_string(&mut out, &self.updated_at.to_string());
        out.push_str("\n}\n");
        out.into_bytes()
    }
}

/// A state of schema 2: the same record without a generation. It is read in place and never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyState {
    /// The session that it belongs to.
    pub session_id: SessionId,
    /// Its count, which the upgrade continues.
    pub revision: Revision,
    /// Status and task.
    pub pointer: Pointer,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// What was found where a session's state belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// No file.
    Absent,
    /// A valid state of schema 2.
    Legacy(LegacyState),
    /// A valid state of schema 3.
    Current(State),
    /// A file that cannot be trusted, also an empty one: after a power loss it may hide any revision (item 10).
    Corrupt(StateFault),
}

impl Observed {
    /// Judges the content of the state file of `session`.
    ///
    /// Any key order and white space is read; duplicate or unknown names, a byte order mark, fractions and lone
    /// surrogates are not.
    pub fn decode(bytes: &[u8], session: &SessionId) -> Self {
        match decode(bytes, session) {
            Ok(observed) => observed,
            Err(fault) => Self::Corrupt(fault),
        }
    }

    /// A file longer than [`STATE_MAX_BYTES`], which is not read.
    pub const fn too_large() -> Self {
        Self::Corrupt(StateFault { code: Code::StateTooLarge, place: None })
    }

    /// Status and task, unless absent or corrupt.
    pub const fn pointer(&self) -> Option<&Pointer> {
        match self {
            Self::Legacy(state) => Some(&state.pointer),
            Self::Current(state) => Some(&state.pointer),
            Self::Absent | Self::Corrupt(_) => None,
        }
    }

    /// The task that is alive here, if any.
    pub fn task(&self) -> Option<&Task> {
        self.pointer().and_then(Pointer::task)
    }

    /// The pair that a publish has to name, and the status beside it.
    pub fn expectation(&self) -> Option<Expectation> {
        match self {
            Self::Absent => Some(Expectation { generation: ExpectedGeneration::Absent, revision: 0 }),
            Self::Legacy(state) => {
                Some(Expectation { generation: ExpectedGeneration::LegacyV2, revision: state.revision.get() })
            }
            Self::Current(state) => Some(Expectation {
                generation: ExpectedGeneration::Current(state.generation.clone()),
                revision: state.revision.get(),
            }),
            Self::Corrupt(_) => None,
        }
    }

    /// The word for the status in receipts and contexts: that of the state, or `ABSENT`.
    pub fn status_word(&self) -> &'static str {
        self.pointer().map_or(ABSENT, |pointer| pointer.status().as_str())
    }
}

/// The pair that a publish names and that must be stored at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expectation {
    /// The fence.
    pub generation: ExpectedGeneration,
    /// The count; 0 beside `ABSENT`, from 1 beside anything else.
    pub revision: u64,
}

/// The three kinds of generation that a request can name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExpectedGeneration {
    /// `ABSENT`: no state was seen.
    Absent,
    /// `LEGACY_V2`: a state of schema 2 was seen.
    LegacyV2,
    /// `g-..`.
    Current(Generation),
}

impl ExpectedGeneration {
    /// The word in a request.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Absent => ABSENT,
            Self::LegacyV2 => LEGACY_V2,
            Self::Current(generation) => generation.as_str(),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            ABSENT => Some(Self::Absent),
            LEGACY_V2 => Some(Self::LegacyV2),
            other => other.parse().ok().map(Self::Current),
        }
    }
}

/// Why a state file cannot be trusted: the code and, where JSON broke, the place. Never a byte of its content.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct StateFault {
    /// A code of which [`Code::is_corruption`] holds.
    pub code: Code,
    /// Line, column and rule that was broken.
    pub place: Option<Box<str>>,
}

impl fmt::Display for StateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "state file is invalid: {place}"),
            None => write!(f, "state file is invalid ({})", self.code),
        }
    }
}

fn decode(bytes: &[u8], session: &SessionId) -> Result<Observed, StateFault> {
    let limits = ScanLimits { max_bytes: STATE_MAX_BYTES, max_depth: STATE_MAX_DEPTH };
    let text = pintle_wire::scan(bytes, Profile::DriverRpc, limits).map_err(|error| StateFault {
        code: match error.class {
            JsonErrorClass::TooLarge => Code::StateTooLarge,
            JsonErrorClass::Encoding => Code::StateEncoding,
            JsonErrorClass::TooDeep => Code::StateSchema,
            _ => Code::StateJson,
        },
        place: Some(error.to_string().into()),
    })?;
    if text.root() != RootKind::Object {
        return Err(schema("it is not an object"));
    }
    let version: Version = text.decode().map_err(|error| schema(&error.to_string()))?;
    if version.schema_version > SCHEMA_VERSION {
        let newer = version.schema_version;
        return Err(schema(&format!("schema_version {newer} is that of a newer program; update this one")));
    }
    let fields: Fields = text.decode().map_err(|error| schema(&error.to_string()))?;
    let session_id: SessionId = fields.session_id.parse().map_err(|_| schema("session_id"))?;
    if session_id != *session {
        return Err(StateFault { code: Code::StateSessionMismatch, place: None });
    }
    let revision = Revision::new(fields.revision).map_err(|_| schema("revision"))?;
    let status = Status::parse(&fields.status).ok_or_else(|| schema("status"))?;
    let task = match (fields.task_id, fields.pointer_text) {
        (None, None) => None,
        (Some(id), Some(text)) => Some(Task {
            id: id.parse().map_err(|_| schema("task_id"))?,
            text: PointerText::stored(&text).map_err(|_| schema("pointer_text"))?,
        }),
        _ => return Err(schema("task_id and pointer_text must be null together")),
    };
    let pointer = Pointer::from_parts(status, task).ok_or_else(|| schema("status and task_id disagree"))?;
    let updated_at = fields.updated_at.parse().map_err(|_| schema("updated_at"))?;
    match (fields.schema_version, fields.generation) {
        (3, Some(generation)) => {
            let generation = generation.parse().map_err(|_| schema("generation"))?;
            Ok(Observed::Current(State { session_id, generation, revision, pointer, updated_at }))
        }
        (2, None) => Ok(Observed::Legacy(LegacyState { session_id, revision, pointer, updated_at })),
        _ => Err(schema("schema_version and generation disagree")),
    }
}

fn schema(what: &str) -> StateFault {
    StateFault { code: Code::StateSchema, place: Some(what.into()) }
}

/// The session id that a state file of any schema names, without a judgement on the rest: to find out whose a folder
/// with a mapped name is.
pub fn session_in(bytes: &[u8]) -> Option<SessionId> {
    #[derive(Deserialize)]
    struct Owner {
        session_id: String,
    }
    let limits = ScanLimits { max_bytes: STATE_MAX_BYTES, max_depth: STATE_MAX_DEPTH };
    let text = pintle_wire::scan(bytes, Profile::DriverRpc, limits).ok()?;
    text.decode::<Owner>().ok()?.session_id.parse().ok()
}

/// What every schema has, whatever else it may have.
#[derive(Deserialize)]
struct Version {
    schema_version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    schema_version: u64,
    session_id: String,
    #[serde(default, deserialize_with = "present")]
    generation: Option<String>,
    revision: u64,
    status: String,
    #[serde(deserialize_with = "nullable")]
    task_id: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pointer_text: Option<String>,
    updated_at: String,
}

/// A member that may be null but not missing: with a function of its own, serde no longer fills in `None`.
pub(crate) fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(deserializer)
}

/// A member that may be missing but not null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}
