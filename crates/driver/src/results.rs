//! Results of the methods (spec section 6).
//!
//! Where a member may be absent or null, the published behaviour reads it as false, zero or the empty list, which is
//! always the safe side: nothing declared, nothing accepted.

use pintle_wire::Digest;
use serde::Serialize;

use crate::contract::{
    Codec, Contract, Source, Target, boolean, digest, list_or_null, not_empty, object, required, text, unknown,
    unsigned_32,
};
use crate::cursor::Value;
use crate::error::{ContractError, Problem, ProtocolError};
use crate::objects::{Permission, VersionRange};

/// Every executable and client input that matters to an observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverIdentity {
    /// The driver's name; not blank, as are all required texts here.
    pub name: Box<str>,
    /// The driver's version.
    pub version: Box<str>,
    /// The SDK that the driver is built on; with `sdk_version` or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_name: Option<Box<str>>,
    /// The SDK's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_version: Option<Box<str>>,
    /// The client that the driver drives; with `client_version` or not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_name: Option<Box<str>>,
    /// The client's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<Box<str>>,
    /// The language runtime.
    pub runtime_name: Box<str>,
    /// The runtime's version.
    pub runtime_version: Box<str>,
    /// The operating system.
    pub os: Box<str>,
    /// The processor architecture.
    pub architecture: Box<str>,
    /// The digest of the driver's artifact.
    pub artifact_digest: Digest,
    /// The digest of its lock file, if it has one. An empty text counts as absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lockfile_digest: Option<Digest>,
}

impl Codec for DriverIdentity {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut name, mut version, mut runtime_name, mut runtime_version) = (None, None, None, None);
        let (mut sdk_name, mut sdk_version, mut client_name, mut client_version) = (None, None, None, None);
        let (mut os, mut architecture, mut artifact, mut lockfile) = (None, None, None, None);
        for member in object(source.0, "identity")? {
            let value = member.value;
            match &*member.name() {
                "name" => name = Some(text(value, "name")?),
                "version" => version = Some(text(value, "version")?),
                "sdk_name" => sdk_name = Some(text(value, "sdk_name")?),
                "sdk_version" => sdk_version = Some(text(value, "sdk_version")?),
                "client_name" => client_name = Some(text(value, "client_name")?),
                "client_version" => client_version = Some(text(value, "client_version")?),
                "runtime_name" => runtime_name = Some(text(value, "runtime_name")?),
                "runtime_version" => runtime_version = Some(text(value, "runtime_version")?),
                "os" => os = Some(text(value, "os")?),
                "architecture" => architecture = Some(text(value, "architecture")?),
                "artifact_digest" => artifact = Some(digest(value, "artifact_digest")?),
                "lockfile_digest" if value.text() == "\"\"" => {}
                "lockfile_digest" => lockfile = Some(digest(value, "lockfile_digest")?),
                _ => return Err(unknown(&member, "identity")),
            }
        }
        let present = |text: Option<Box<str>>| text.filter(|text| !text.is_empty());
        Ok(Self {
            name: required(name, "name")?,
            version: required(version, "version")?,
            sdk_name: present(sdk_name),
            sdk_version: present(sdk_version),
            client_name: present(client_name),
            client_version: present(client_version),
            runtime_name: required(runtime_name, "runtime_name")?,
            runtime_version: required(runtime_version, "runtime_version")?,
            os: required(os, "os")?,
            architecture: required(architecture, "architecture")?,
            artifact_digest: required(artifact, "artifact_digest")?,
            lockfile_digest: lockfile,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        let out = target.0;
        let digests = (self.artifact_digest.to_string(), self.lockfile_digest.map(|digest| digest.to_string()));
        let members = [
            ("{\"architecture\":", Some(&*self.architecture)),
            (",\"artifact_digest\":", Some(&*digests.0)),
            (",\"client_name\":", self.client_name.as_deref()),
            (",\"client_version\":", self.client_version.as_deref()),
            (",\"lockfile_digest\":", digests.1.as_deref()),
            (",\"name\":", Some(&*self.name)),
            (",\"os\":", Some(&*self.os)),
            (",\"runtime_name\":", Some(&*self.runtime_name)),
            (",\"runtime_version\":", Some(&*self.runtime_version)),
            (",\"sdk_name\":", self.sdk_name.as_deref()),
            (",\"sdk_version\":", self.sdk_version.as_deref()),
            (",\"version\":", Some(&*self.version)),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                out.raw(name);
                out.string(value);
            }
        }
        out.raw("}");
        Ok(())
    }
}

impl Contract for DriverIdentity {
    fn validate(&self) -> Result<(), ContractError> {
        let required = [
            ("name", &self.name),
            ("version", &self.version),
            ("runtime_name", &self.runtime_name),
            ("runtime_version", &self.runtime_version),
            ("os", &self.os),
            ("architecture", &self.architecture),
        ];
        for (member, text) in required {
            not_empty(text.trim(), member)?;
        }
        both_or_neither(&self.sdk_name, &self.sdk_version, "sdk_name and sdk_version go together")?;
        both_or_neither(&self.client_name, &self.client_version, "client_name and client_version go together")
    }
}

fn both_or_neither(
    left: &Option<Box<str>>,
    right: &Option<Box<str>>,
    problem: &'static str,
) -> Result<(), ContractError> {
    let present = |text: &Option<Box<str>>| text.as_ref().is_some_and(|text| !text.is_empty());
    if present(left) == present(right) {
        return Ok(());
    }
    Err(ContractError::new("", Problem::Combination(problem)))
}

/// What the driver can carry out. It says nothing about the target behind it.
///
/// Every member may be absent; lists may be null.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Capabilities {
    /// The protocols that the driver speaks to targets.
    pub protocols: Vec<Box<str>>,
    /// The operations that `driver.invoke` may name, and other names that both sides agree on.
    pub operations: Vec<Box<str>>,
    /// The driver observes streams as they come.
    pub streaming: bool,
    /// The driver ends an invocation early when asked.
    pub cancellation: bool,
    /// The driver reports retries that it saw.
    pub retry_observed: bool,
    /// The driver runs more than one invocation at a time.
    pub concurrency: bool,
    /// How many; 0 with `concurrency` counts as one.
    pub max_concurrency: u32,
}

impl Capabilities {
    /// How many invocations can be active at a time: `max_concurrency` where `concurrency` is declared, but at least one and
    /// at most [`MAX_CONCURRENT_INVOCATIONS`](crate::MAX_CONCURRENT_INVOCATIONS).
    pub fn max_active_invocations(&self) -> usize {
        let declared = if self.concurrency { usize::try_from(self.max_concurrency).unwrap_or(usize::MAX) } else { 1 };
        declared.clamp(1, crate::dispatcher::MAX_CONCURRENT_INVOCATIONS)
    }
}

impl Codec for Capabilities {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let mut out = Self::default();
        for member in object(source.0, "capabilities")? {
            let value = member.value;
            match &*member.name() {
                "protocols" => out.protocols = list_or_null(value, "protocols")?,
                "operations" => out.operations = list_or_null(value, "operations")?,
                "streaming" => out.streaming = boolean(value, "streaming")?,
                "cancellation" => out.cancellation = boolean(value, "cancellation")?,
                "retry_observed" => out.retry_observed = boolean(value, "retry_observed")?,
                "concurrency" => out.concurrency = boolean(value, "concurrency")?,
                "max_concurrency" => out.max_concurrency = unsigned_32(value, "max_concurrency")?,
                _ => return Err(unknown(&member, "capabilities")),
            }
        }
        Ok(out)
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        let out = target.0;
        out.raw("{\"cancellation\":");
        out.boolean(self.cancellation);
        out.raw(",\"concurrency\":");
        out.boolean(self.concurrency);
        out.raw(",\"max_concurrency\":");
        out.unsigned(self.max_concurrency.into());
        out.raw(",\"operations\":");
        out.strings(self.operations.iter().map(AsRef::as_ref));
        out.raw(",\"protocols\":");
        out.strings(self.protocols.iter().map(AsRef::as_ref));
        out.raw(",\"retry_observed\":");
        out.boolean(self.retry_observed);
        out.raw(",\"streaming\":");
        out.boolean(self.streaming);
        out.raw("}");
        Ok(())
    }
}

impl Contract for Capabilities {
    fn validate(&self) -> Result<(), ContractError> {
        Ok(())
    }
}

/// Result of `driver.hello`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HelloResult {
    /// The versions that the driver speaks.
    pub driver_version_range: VersionRange,
    /// Who the driver is.
    pub identity: DriverIdentity,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it needs. Null is the empty list.
    pub requested_permissions: Vec<Permission>,
}

impl Codec for HelloResult {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let (mut range, mut identity, mut capabilities, mut requested) = (None, None, None, None);
        for member in object(source.0, "hello result")? {
            let value = member.value;
            match &*member.name() {
                "driver_version_range" => range = Some(VersionRange::read(Source(value))?),
                "identity" => identity = Some(DriverIdentity::read(Source(value))?),
                "capabilities" => capabilities = Some(Capabilities::read(Source(value))?),
                "requested_permissions" => requested = Some(list_or_null(value, "requested_permissions")?),
                _ => return Err(unknown(&member, "hello result")),
            }
        }
        Ok(Self {
            driver_version_range: required(range, "driver_version_range")?,
            identity: required(identity, "identity")?,
            capabilities: required(capabilities, "capabilities")?,
            requested_permissions: required(requested, "requested_permissions")?,
        })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"capabilities\":");
        self.capabilities.write(Target(target.0))?;
        target.0.raw(",\"driver_version_range\":");
        self.driver_version_range.write(Target(target.0))?;
        target.0.raw(",\"identity\":");
        self.identity.write(Target(target.0))?;
        target.0.raw(",\"requested_permissions\":");
        target.0.strings(self.requested_permissions.iter().map(Permission::as_str));
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for HelloResult {
    fn validate(&self) -> Result<(), ContractError> {
        self.driver_version_range.validate()?;
        self.identity.validate()?;
        self.capabilities.validate()
    }
}

/// Result of `driver.prepare`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrepareResult {
    /// The permissions that the driver takes: some of those approved. Absent or null is the empty list.
    pub accepted_permissions: Vec<Permission>,
}

impl Codec for PrepareResult {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let mut out = Self::default();
        for member in object(source.0, "prepare result")? {
            match &*member.name() {
                "accepted_permissions" => {
                    out.accepted_permissions = list_or_null(member.value, "accepted_permissions")?;
                }
                _ => return Err(unknown(&member, "prepare result")),
            }
        }
        Ok(out)
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"accepted_permissions\":");
        target.0.strings(self.accepted_permissions.iter().map(Permission::as_str));
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for PrepareResult {
    fn validate(&self) -> Result<(), ContractError> {
        Ok(())
    }
}

/// Result of `driver.capabilities`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapabilitiesResult {
    /// What the prepared driver can do.
    pub capabilities: Capabilities,
}

impl Codec for CapabilitiesResult {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let mut capabilities = None;
        for member in object(source.0, "capabilities result")? {
            match &*member.name() {
                "capabilities" => capabilities = Some(Capabilities::read(Source(member.value))?),
                _ => return Err(unknown(&member, "capabilities result")),
            }
        }
        Ok(Self { capabilities: required(capabilities, "capabilities")? })
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"capabilities\":");
        self.capabilities.write(Target(target.0))?;
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for CapabilitiesResult {
    fn validate(&self) -> Result<(), ContractError> {
        self.capabilities.validate()
    }
}

/// Result of `driver.cancel`. It acknowledges the receipt only; the end is `driver.completed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CancelResult {
    /// The driver has begun to cancel. Absent, and a result that is null as a whole, is false.
    pub acknowledged: bool,
}

impl Codec for CancelResult {
    fn read(source: Source<'_>) -> Result<Self, ContractError> {
        let mut out = Self::default();
        if source.0.is_null() {
            return Ok(out);
        }
        for member in object(source.0, "cancel result")? {
            match &*member.name() {
                "acknowledged" => out.acknowledged = boolean(member.value, "acknowledged")?,
                _ => return Err(unknown(&member, "cancel result")),
            }
        }
        Ok(out)
    }

    fn write(&self, target: Target<'_, '_>) -> Result<(), ProtocolError> {
        target.0.raw("{\"acknowledged\":");
        target.0.boolean(self.acknowledged);
        target.0.raw("}");
        Ok(())
    }
}

impl Contract for CancelResult {
    fn validate(&self) -> Result<(), ContractError> {
        Ok(())
    }
}

/// A result without members; null as a whole counts as empty.
macro_rules! empty_result {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl Codec for $name {
            fn read(source: Source<'_>) -> Result<Self, ContractError> {
                read_empty(source.0).map(|()| Self)
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

empty_result! {
    /// Result of `driver.reset`: none.
    ResetResult;
    /// Result of `driver.shutdown`: none.
    ShutdownResult;
}

fn read_empty(value: Value<'_>) -> Result<(), ContractError> {
    if value.is_null() {
        return Ok(());
    }
    match object(value, "result")?.next() {
        Some(member) => Err(unknown(&member, "result")),
        None => Ok(()),
    }
}
