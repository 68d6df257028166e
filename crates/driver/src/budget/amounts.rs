//! Resources, amounts of them, and limits.

use std::fmt;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Requests to the driver.
    Requests,
    /// Bytes that Core wrote: frames, exact input, fixtures.
    BytesSent,
    /// Bytes that the driver wrote, on the control stream and on the data plane.
    BytesReceived,
    /// Companion streams.
    Artifacts,
    /// Payload bytes of companion streams.
    ArtifactBytes,
    /// Processes that were started.
    Processes,
    /// Milliseconds since the first use of the account.
    DurationMs,
    /// Tokens of a model, as the application learns of them.
    Tokens,
}

impl Resource {
    /// All, in order.
    pub const ALL: [Self; 8] = [
        Self::Requests,
        Self::BytesSent,
        Self::BytesReceived,
        Self::Artifacts,
        Self::ArtifactBytes,
        Self::Processes,
        Self::DurationMs,
        Self::Tokens,
    ];

    /// The name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::BytesSent => "bytes_sent",
            Self::BytesReceived => "bytes_received",
            Self::Artifacts => "artifacts",
            Self::ArtifactBytes => "artifact_bytes",
            Self::Processes => "processes",
            Self::DurationMs => "duration_ms",
            Self::Tokens => "tokens",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much of each resource. Serialised as an object without the zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts([u64; Resource::ALL.len()]);

impl Amounts {
    /// Nothing.
    pub const ZERO: Self = Self([0; Resource::ALL.len()]);

    /// So much of one resource.
    #[must_use]
    pub const fn of(resource: Resource, amount: u64) -> Self {
        Self::ZERO.with(resource, amount)
    }

    /// The same, with another amount of one resource.
    #[must_use]
    pub const fn with(mut self, resource: Resource, amount: u64) -> Self {
        self.0[resource as usize] = amount;
        self
    }

    /// How much of a resource.
    #[must_use]
    pub const fn get(&self, resource: Resource) -> u64 {
        self.0[resource as usize]
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// What there is some of.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, u64)> {
        let amounts = self.0;
        Resource::ALL.into_iter().map(move |resource| (resource, amounts[resource as usize])).filter(|(_, n)| *n > 0)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine = mine.saturating_add(more));
    }

    pub(super) fn take(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, less)| *mine = mine.saturating_sub(less));
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (resource, amount) in self.iter() {
            map.serialize_entry(resource.as_str(), &amount)?;
        }
        map.end()
    }
}

/// The limits of one account. A limit of 0 allows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests.
    pub requests: u64,
    /// Bytes that Core writes.
    pub bytes_sent: u64,
    /// Bytes that the driver writes.
    pub bytes_received: u64,
    /// Companion streams.
    pub artifacts: u64,
    /// Payload bytes of companion streams.
    pub artifact_bytes: u64,
    /// Processes.
    pub processes: u64,
    /// Time since the account's first use; `None` is no limit.
    pub duration: Option<Duration>,
    /// Tokens; `None` is no limit.
    pub tokens: Option<u64>,
}

impl Limits {
    /// What one session with a driver may use: 100,000 requests, 4 GiB each way, a million streams with 4 GiB together,
    /// 256 processes; no limit of time, since each invocation has its deadline, and none of tokens.
    pub const WORK: Self = Self {
        requests: 100_000,
        bytes_sent: 4 << 30,
        bytes_received: 4 << 30,
        artifacts: 1_000_000,
        artifact_bytes: 4 << 30,
        processes: 256,
        duration: None,
        tokens: None,
    };

    /// What ending it may use: 100,000 requests (a cancel for each invocation), 64 MiB each way, 16 processes.
    pub const CLEANUP: Self = Self {
        requests: 100_000,
        bytes_sent: 64 << 20,
        bytes_received: 64 << 20,
        artifacts: 0,
        artifact_bytes: 0,
        processes: 16,
        duration: None,
        tokens: Some(0),
    };

    /// The limit of a resource; `None` is none.
    #[must_use]
    pub fn get(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Requests => Some(self.requests),
            Resource::BytesSent => Some(self.bytes_sent),
            Resource::BytesReceived => Some(self.bytes_received),
            Resource::Artifacts => Some(self.artifacts),
            Resource::ArtifactBytes => Some(self.artifact_bytes),
            Resource::Processes => Some(self.processes),
            Resource::DurationMs => self.duration.map(millis),
            Resource::Tokens => self.tokens,
        }
    }
}

/// The limits of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetPolicy {
    /// For what was to be done.
    pub work: Limits,
    /// For ending it.
    pub cleanup: Limits,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self { work: Limits::WORK, cleanup: Limits::CLEANUP }
    }
}

/// Which account pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// What was to be done.
    Work,
    /// Ending it: cancel, shutdown, finalizers.
    Cleanup,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Work => "work",
            Self::Cleanup => "cleanup",
        })
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
