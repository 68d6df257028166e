//! Params of the nine methods (spec section 6).

use pintle_wire::{Digest, InstanceId};

use crate::contract::{
    Codec, Contract, Source, Target, digest, instance_id, list, not_empty, object, read, required, safe, string, text,
    unknown, unsigned, wrong_type,
};
use crate::cursor::Value;
use crate::error::{ContractError, Problem, ProtocolError};
use crate::objects::{CompanionStreamRef, ExactInputHandle, FixtureRefs, Permission, TerminalStatus, VersionRange};
use crate::secret::Secret;
use crate::value::FreeValue;

/// Params of `driver.hello`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloParams {
    /// The versions that Core speaks.
    pub core_version_range: VersionRange,
}

impl Codec for HelloParams {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let mut range = None;
        for member in object(source.0, "params")? {
            match &*member.name() {
                "core_version_range" => range = Some(VersionRange::read(Source(member.value))?),
                _ => return Err(unknown(&member, "params")),
            }
        }
        Ok(Self { core_version_range: required(range, "core_version_range")? })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"core_version_range\":");
        self.core_version_range.write(Target(target.0))?;
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for HelloParams {
    fn validate(&self) -> Result<(), ContractError> {
        self.core_version_range.validate()
    }
}

/// Params of `driver.prepare`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareParams {
    /// The plan that was approved.
    pub resolved_plan_digest: Digest,
    /// A token for this session alone; it is never stored and prints `[redacted]`.
    pub capability_token: Secret,
    /// Objects that Core has put into the work directory as `fixtures/<sha256>`.
    pub fixture_refs: FixtureRefs,
    /// The permissions that Core approves: some of those requested.
    pub approved_permissions: Vec<Permission>,
}

impl Codec for PrepareParams {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut plan, mut token, mut fixtures, mut approved) = (None, None, FixtureRefs::Absent, None);
        for member in object(source.0, "params")? {
            match &*member.name() {
                "resolved_plan_digest" => plan = Some(digest(member.value, "resolved_plan_digest")?),
                "capability_token" => token = Some(Secret::new(text(member.value, "capability_token")?)),
                "fixture_refs" => fixtures = fixture_refs(member.value)?,
                "approved_permissions" => approved = Some(list(member.value, "approved_permissions")?),
                _ => return Err(unknown(&member, "params")),
            }
        }
        Ok(Self {
            resolved_plan_digest: required(plan, "resolved_plan_digest")?,
            capability_token: required(token, "capability_token")?,
            fixture_refs: fixtures,
            approved_permissions: required(approved, "approved_permissions")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"approved_permissions\":");
        target.0.strings(self.approved_permissions.iter().map(Permission::as_str));
        target.0.raw(",\"capability_token\":");
        target.0.string(self.capability_token.expose());
        match &self.fixture_refs {
            FixtureRefs::Absent => {}
            FixtureRefs::Null => target.0.raw(",\"fixture_refs\":null"),
            FixtureRefs::List(list) => {
                target.0.raw(",\"fixture_refs\":[");
                for (index, fixture) in list.iter().enumerate() {
                    target.0.raw(if index > 0 { "," } else { "" });
                    fixture.write(Target(target.0))?;
                }
                target.0.raw("]");
            }
        }
        target.0.raw(",\"resolved_plan_digest\":");
        target.0.digest(self.resolved_plan_digest);
        target.0.raw("}");
        Ok(())
    }
}

fn fixture_refs(value: Value<'_>) -> Result<FixtureRefs, ContractError> {
    if value.is_null() {
        return Ok(FixtureRefs::Null);
    }
    if !value.is_array() {
        return Err(wrong_type(value, "fixture_refs", "an array"));
    }
    value.elements().map(read).collect::<Result<_, _>>().map(FixtureRefs::List)
}

impl Contract for PrepareParams {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(self.capability_token.expose(), "capability_token")?;
        self.fixture_refs.as_slice().iter().try_for_each(Contract::validate)
    }
}

/// Params of `driver.invoke`.
///
/// One serial session runs one invocation at a time. A driver that declares concurrency is served by a dispatcher with
/// one [`Machine`](crate::Machine) per active invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvokeParams {
    /// Identifies the invocation; used once per session.
    pub invocation_id: InstanceId,
    /// Identifies this attempt at it.
    pub attempt_id: InstanceId,
    /// One of the driver's declared operations.
    pub operation: Box<str>,
    /// Where the exact input comes from (`ephemeral_exact_input_handle` on the wire).
    pub input: ExactInputHandle,
}

impl Codec for InvokeParams {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut invocation, mut attempt, mut operation, mut input) = (None, None, None, None);
        for member in object(source.0, "params")? {
            match &*member.name() {
                "invocation_id" => invocation = Some(instance_id(member.value, "invocation_id")?),
                "attempt_id" => attempt = Some(instance_id(member.value, "attempt_id")?),
                "operation" => operation = Some(text(member.value, "operation")?),
                "ephemeral_exact_input_handle" => input = Some(ExactInputHandle::read(Source(member.value))?),
                _ => return Err(unknown(&member, "params")),
            }
        }
        Ok(Self {
            invocation_id: required(invocation, "invocation_id")?,
            attempt_id: required(attempt, "attempt_id")?,
            operation: required(operation, "operation")?,
            input: required(input, "ephemeral_exact_input_handle")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"attempt_id\":");
        target.0.instance_id(self.attempt_id);
        target.0.raw(",\"ephemeral_exact_input_handle\":");
        self.input.write(Target(target.0))?;
        target.0.raw(",\"invocation_id\":");
        target.0.instance_id(self.invocation_id);
        target.0.raw(",\"operation\":");
        target.0.string(&self.operation);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for InvokeParams {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(&self.operation, "operation")?;
        self.input.validate()
    }
}

/// Params of `driver.cancel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelParams {
    /// The invocation to end.
    pub invocation_id: InstanceId,
    /// Why, for the driver's log.
    pub reason: Box<str>,
    /// The time from now within which `driver.completed` must come, in milliseconds, at least 1.
    pub deadline_millis: u64,
}

impl Codec for CancelParams {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut invocation, mut reason, mut deadline) = (None, None, None);
        for member in object(source.0, "params")? {
            match &*member.name() {
                "invocation_id" => invocation = Some(instance_id(member.value, "invocation_id")?),
                "reason" => reason = Some(text(member.value, "reason")?),
                "deadline_millis" => deadline = Some(unsigned(member.value, "deadline_millis")?),
                _ => return Err(unknown(&member, "params")),
            }
        }
        Ok(Self {
            invocation_id: required(invocation, "invocation_id")?,
            reason: required(reason, "reason")?,
            deadline_millis: required(deadline, "deadline_millis")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"deadline_millis\":");
        target.0.unsigned(self.deadline_millis);
        target.0.raw(",\"invocation_id\":");
        target.0.instance_id(self.invocation_id);
        target.0.raw(",\"reason\":");
        target.0.string(&self.reason);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for CancelParams {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(&self.reason, "reason")?;
        if self.deadline_millis == 0 {
            return Err(ContractError::new("deadline_millis", Problem::Invalid("greater than 0")));
        }
        safe(self.deadline_millis, "deadline_millis")
    }
}

/// Params of `driver.observation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationParams {
    /// The active invocation.
    pub invocation_id: InstanceId,
    /// The active attempt.
    pub attempt_id: InstanceId,
    /// Strictly greater than the one before; gaps are fine.
    pub sequence: u64,
    /// What was observed; not empty.
    pub kind: Box<str>,
    /// The driver's monotonic clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// The observation itself; excludes `data_stream`.
    pub payload: Option<FreeValue>,
    /// The companion stream that carries it; excludes `payload`.
    pub data_stream: Option<CompanionStreamRef>,
}

impl Codec for ObservationParams {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut invocation, mut attempt, mut sequence, mut kind) = (None, None, None, None);
        let (mut monotonic, mut payload, mut stream) = (None, None, None);
        for member in object(source.0, "params")? {
            match &*member.name() {
                "invocation_id" => invocation = Some(instance_id(member.value, "invocation_id")?),
                "attempt_id" => attempt = Some(instance_id(member.value, "attempt_id")?),
                "sequence" => sequence = Some(unsigned(member.value, "sequence")?),
                "kind" => kind = Some(text(member.value, "kind")?),
                "monotonic_ns" => monotonic = Some(unsigned(member.value, "monotonic_ns")?),
                "payload" => payload = Some(FreeValue::from_scanned(member.value.text())),
                "data_stream" => stream = Some(CompanionStreamRef::read(Source(member.value))?),
                _ => return Err(unknown(&member, "params")),
            }
        }
        Ok(Self {
            invocation_id: required(invocation, "invocation_id")?,
            attempt_id: required(attempt, "attempt_id")?,
            sequence: required(sequence, "sequence")?,
            kind: required(kind, "kind")?,
            monotonic_ns: required(monotonic, "monotonic_ns")?,
            payload,
            data_stream: stream,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"attempt_id\":");
        target.0.instance_id(self.attempt_id);
        if let Some(stream) = &self.data_stream {
            target.0.raw(",\"data_stream\":");
            stream.write(Target(target.0))?;
        }
        target.0.raw(",\"invocation_id\":");
        target.0.instance_id(self.invocation_id);
        target.0.raw(",\"kind\":");
        target.0.string(&self.kind);
        target.0.raw(",\"monotonic_ns\":");
        target.0.unsigned(self.monotonic_ns);
        if let Some(payload) = &self.payload {
            target.0.raw(",\"payload\":");
            target.0.value(payload)?;
        }
        target.0.raw(",\"sequence\":");
        target.0.unsigned(self.sequence);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for ObservationParams {
    fn validate(&self) -> Result<(), ContractError> {
        not_empty(&self.kind, "kind")?;
        safe(self.sequence, "sequence")?;
        safe(self.monotonic_ns, "monotonic_ns")?;
        let Some(stream) = &self.data_stream else { return Ok(()) };
        stream.validate()?;
        if self.payload.is_some() {
            return Err(ContractError::new("", Problem::Combination("payload and data_stream exclude each other")));
        }
        Ok(())
    }
}

/// Params of `driver.completed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedParams {
    /// The active invocation.
    pub invocation_id: InstanceId,
    /// The active attempt.
    pub attempt_id: InstanceId,
    /// How it ended.
    pub status: TerminalStatus,
    /// The sequence of the last observation; absent if there was none.
    pub last_sequence: Option<u64>,
    /// A digest over the invocation's observations ([`SummaryDigest`](crate::SummaryDigest)).
    pub summary_digest: Digest,
}

impl Codec for CompletedParams {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut invocation, mut attempt, mut status, mut last, mut summary) = (None, None, None, None, None);
        for member in object(source.0, "params")? {
            match &*member.name() {
                "invocation_id" => invocation = Some(instance_id(member.value, "invocation_id")?),
                "attempt_id" => attempt = Some(instance_id(member.value, "attempt_id")?),
                "status" => status = Some(terminal_status(&string(member.value, "status")?)?),
                "last_sequence" => last = Some(unsigned(member.value, "last_sequence")?),
                "summary_digest" => summary = Some(digest(member.value, "summary_digest")?),
                _ => return Err(unknown(&member, "params")),
            }
        }
        Ok(Self {
            invocation_id: required(invocation, "invocation_id")?,
            attempt_id: required(attempt, "attempt_id")?,
            status: required(status, "status")?,
            last_sequence: last,
            summary_digest: required(summary, "summary_digest")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"attempt_id\":");
        target.0.instance_id(self.attempt_id);
        target.0.raw(",\"invocation_id\":");
        target.0.instance_id(self.invocation_id);
        if let Some(last) = self.last_sequence {
            target.0.raw(",\"last_sequence\":");
            target.0.unsigned(last);
        }
        target.0.raw(",\"status\":");
        target.0.string(self.status.as_str());
        target.0.raw(",\"summary_digest\":");
        target.0.digest(self.summary_digest);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for CompletedParams {
    fn validate(&self) -> Result<(), ContractError> {
        self.last_sequence.map_or(Ok(()), |last| safe(last, "last_sequence"))
    }
}

fn terminal_status(name: &str) -> Result<TerminalStatus, ContractError> {
    TerminalStatus::ALL
        .into_iter()
        .find(|status| status.as_str() == name)
        .ok_or(ContractError::new("status", Problem::Invalid("completed, cancelled or errored")))
}

/// A document without members: the params of `capabilities`, `reset` and `shutdown`.
macro_rules! empty_params {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl Codec for $name {
            fn read(source: Source<'_>) -> Result<Self, ContractError> {
                match object(source.0, "params")?.next() {
                    Some(member) => Err(unknown(&member, "params")),
                    None => Ok(Self),
                }
            }

            fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
                target.0.raw("{}");
                Ok(())
            }
        }

        impl Contract for $name {
            fn validate(&self) -> Result<(), ContractError> {
                Ok(())
            }
        }
    )*};
}

empty_params! {
    /// Params of `driver.capabilities`: none. A later version adds members through a new contract, not by taking typos.
    CapabilitiesParams;
    /// Params of `driver.reset`: none.
    ResetParams;
    /// Params of `driver.shutdown`: none.
    ShutdownParams;
}
