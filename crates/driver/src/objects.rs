//! The small documents that params and results are made of.

use std::fmt;

use pintle_wire::{Digest, InstanceId};
use serde::{Serialize, Serializer};

use crate::contract::{
    Codec, Contract, Source, Target, digest, instance_id, not_empty, object, required, string, text, unknown,
};
use crate::error::{ContractError, Problem, ProtocolError};
use crate::secret::Secret;

/// An inclusive range of Driver RPC versions.
///
/// The codec takes any non-empty texts, as published; the sessions parse them as SemVer and negotiate
/// ([`negotiate`](crate::negotiate)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionRange {
    /// The lowest version.
    pub minimum: Box<str>,
    /// The highest version.
    pub maximum: Box<str>,
}

impl VersionRange {
    /// A range of the two given versions.
    pub fn new(minimum: impl Into<Box<str>>, maximum: impl Into<Box<str>>) -> Self {
        Self { minimum: minimum.into(), maximum: maximum.into() }
    }
}

impl Codec for VersionRange {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut minimum, mut maximum) = (None, None);
        for member in object(source.0, "version range")? {
            match &*member.name() {
                "minimum" => minimum = Some(text(member.value, "minimum")?),
                "maximum" => maximum = Some(text(member.value, "maximum")?),
                _ => return Err(unknown(&member, "version range")),
            }
        }
        Ok(Self { minimum: required(minimum, "minimum")?, maximum: required(maximum, "maximum")? })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"maximum\":");
        target.0.string(&self.maximum);
        target.0.raw(",\"minimum\":");
        target.0.string(&self.minimum);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for VersionRange {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(&self.minimum, "minimum")?;
        not_empty(&self.maximum, "maximum")
    }
}

/// A name of a capability-scoped sandbox permission.
///
/// The codec takes any text; the sessions take known names and `x-` ones ([`is_known`](Self::is_known)) and hold the
/// chain requested, approved, accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Permission(Box<str>);

impl Permission {
    /// A private HOME that is removed at the end.
    pub const TEMPORARY_HOME: &str = "temporary-home";
    /// A private git repository.
    pub const TEMPORARY_GIT_REPO: &str = "temporary-git-repo";
    /// The socket of Core's recorder.
    pub const RECORDER_SOCKET: &str = "recorder-socket";
    /// Exact input by pipe, socket or memfd.
    pub const EPHEMERAL_INPUT: &str = "ephemeral-input";
    /// Standard error, captured up to a bound.
    pub const BOUNDED_STDERR: &str = "bounded-stderr";
    /// Network to the target alone.
    pub const TARGET_ONLY_NETWORK: &str = "target-only-network";
    /// The companion data stream.
    pub const COMPANION_STREAM: &str = "companion-stream";
    /// Environment variables for the target.
    pub const TARGET_ENVIRONMENT: &str = "target-environment";
    /// The user's HOME for the target.
    pub const TARGET_HOME: &str = "target-home";
    /// Starting the target as a process.
    pub const TARGET_EXEC: &str = "target-exec";

    /// The known names.
    pub const KNOWN: [&str; 10] = [
        Self::TEMPORARY_HOME,
        Self::TEMPORARY_GIT_REPO,
        Self::RECORDER_SOCKET,
        Self::EPHEMERAL_INPUT,
        Self::BOUNDED_STDERR,
        Self::TARGET_ONLY_NETWORK,
        Self::COMPANION_STREAM,
        Self::TARGET_ENVIRONMENT,
        Self::TARGET_HOME,
        Self::TARGET_EXEC,
    ];

    /// A permission of the given name.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name is a known one or an extension (`x-` and at least one more character).
    pub fn is_known(&self) -> bool {
        Self::KNOWN.contains(&self.as_str()) || self.0.strip_prefix("x-").is_some_and(|rest| !rest.is_empty())
    }
}

impl From<Box<str>> for Permission {
    fn from(name: Box<str>) -> Self {
        Self(name)
    }
}

impl From<&str> for Permission {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reference to an object by its digest, such as a fixture.
///
/// Fixtures named by `driver.prepare` lie in the work directory as `fixtures/<sha256>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// What the object is: a capital ASCII letter and 1 to 63 more ASCII letters and digits.
    pub kind: Box<str>,
    /// The instance that the object belongs to.
    pub instance_id: Option<InstanceId>,
    /// The digest of its content.
    pub content_digest: Digest,
}

impl Codec for ObjectRef {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut kind, mut instance, mut content) = (None, None, None);
        for member in object(source.0, "object reference")? {
            match &*member.name() {
                "kind" => kind = Some(text(member.value, "kind")?),
                "instance_id" => instance = Some(instance_id(member.value, "instance_id")?),
                "content_digest" => content = Some(digest(member.value, "content_digest")?),
                _ => return Err(unknown(&member, "object reference")),
            }
        }
        Ok(Self {
            kind: required(kind, "kind")?,
            instance_id: instance,
            content_digest: required(content, "content_digest")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"content_digest\":");
        target.0.digest(self.content_digest);
        if let Some(instance) = &self.instance_id {
            target.0.raw(",\"instance_id\":");
            target.0.instance_id(*instance);
        }
        target.0.raw(",\"kind\":");
        target.0.string(&self.kind);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for ObjectRef {
    fn validate(&self) -> Result<(), ContractError> {
        let bytes = self.kind.as_bytes();
        let shaped = (2..=64).contains(&bytes.len())
            && bytes[0].is_ascii_uppercase()
            && bytes.iter().all(u8::is_ascii_alphanumeric);
        if shaped {
            return Ok(());
        }
        Err(ContractError::new("kind", Problem::Invalid("a capital letter and 1 to 63 letters or digits")))
    }
}

/// Fixtures of `driver.prepare`. Absent, null and a list are told apart, so that a frame can be written as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FixtureRefs {
    /// The member is absent.
    #[default]
    Absent,
    /// The member is null, which the published behaviour takes as no fixtures.
    Null,
    /// The fixtures.
    List(Vec<ObjectRef>),
}

impl FixtureRefs {
    /// The fixtures; none if absent or null.
    pub fn as_slice(&self) -> &[ObjectRef] {
        if let Self::List(list) = self { list } else { &[] }
    }
}

/// How an exact input reaches the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// A named pipe below the work directory; the driver opens it for reading.
    Pipe,
    /// A Unix socket that the driver connects to.
    Socket,
    /// A sealed memory file that the driver inherits.
    Memfd,
}

impl InputKind {
    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Memfd => "memfd",
        }
    }
}

/// An invocation-scoped input channel. The value is operational state: it is not evidence and prints `[redacted]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactInputHandle {
    /// The channel.
    pub kind: InputKind,
    /// Where it is: a path, or a file below `/proc/self/fd`.
    pub value: Secret,
}

impl Codec for ExactInputHandle {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut kind, mut value) = (None, None);
        for member in object(source.0, "ephemeral_exact_input_handle")? {
            match &*member.name() {
                "kind" => kind = Some(input_kind(&string(member.value, "kind")?)?),
                "value" => value = Some(Secret::new(text(member.value, "value")?)),
                _ => return Err(unknown(&member, "ephemeral_exact_input_handle")),
            }
        }
        Ok(Self { kind: required(kind, "kind")?, value: required(value, "value")? })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"kind\":");
        target.0.string(self.kind.as_str());
        target.0.raw(",\"value\":");
        target.0.string(self.value.expose());
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for ExactInputHandle {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(self.value.expose(), "value")
    }
}

fn input_kind(name: &str) -> Result<InputKind, ContractError> {
    [InputKind::Pipe, InputKind::Socket, InputKind::Memfd]
        .into_iter()
        .find(|kind| kind.as_str() == name)
        .ok_or(ContractError::new("kind", Problem::Invalid("pipe, socket or memfd")))
}

/// The name of a companion stream that carries an observation's payload. It is no reference into Core's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionStreamRef {
    /// The stream; not empty. The sessions take at most 256 bytes.
    pub stream_id: Box<str>,
}

impl Codec for CompanionStreamRef {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let mut stream_id = None;
        for member in object(source.0, "data_stream")? {
            match &*member.name() {
                "stream_id" => stream_id = Some(text(member.value, "stream_id")?),
                _ => return Err(unknown(&member, "data_stream")),
            }
        }
        Ok(Self { stream_id: required(stream_id, "stream_id")? })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"stream_id\":");
        target.0.string(&self.stream_id);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for CompanionStreamRef {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(&self.stream_id, "stream_id")
    }
}

/// How an invocation ended. A driver sends it exactly once per invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TerminalStatus {
    /// The operation ran to its end.
    Completed,
    /// The operation was ended early.
    Cancelled,
    /// The operation failed inside of the driver.
    Errored,
}

impl TerminalStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Cancelled, Self::Errored];

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Errored => "errored",
        }
    }
}

impl fmt::Display for TerminalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for TerminalStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
