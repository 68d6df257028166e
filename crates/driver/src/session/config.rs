//! What the two ends are told at the start.

use std::time::Duration;

use pintle_wire::{DEFAULT_MAX_DATA_FRAME_BYTES, Digest};

use crate::book::StreamLimits;
use crate::budget::BudgetPolicy;
use crate::dispatcher::MAX_CONCURRENT_INVOCATIONS;
use crate::objects::VersionRange;
use crate::results::HelloResult;
use crate::version::supported_versions;

/// The bound of `error.data.details` in bytes, in both directions.
pub const MAX_DETAILS_BYTES: usize = 16 << 10;

/// How Core's end behaves.
#[derive(Debug, Clone)]
pub struct CoreConfig {
    /// The versions that Core offers.
    pub version_range: VersionRange,
    /// How long a request may stay unanswered.
    pub request_timeout: Duration,
    /// How long after `driver.completed`, and then after each piece of data, the next piece of a companion stream may take. In
    /// all, the streams have until [`CoreSession::limit_streams`](crate::CoreSession::limit_streams) says, and of a cancelled
    /// invocation until this long after the cancel's deadline; they have as many bytes as `stream_limits` and `budget` leave.
    pub stream_grace: Duration,
    /// How many requests may be unanswered at a time.
    pub max_pending_requests: usize,
    /// How many invocations may be active at a time, if the driver declares as many; at most
    /// [`MAX_CONCURRENT_INVOCATIONS`](crate::MAX_CONCURRENT_INVOCATIONS) counts.
    pub max_concurrency: usize,
    /// The bounds of an invocation's companion streams; at most [`StreamLimits::MAX`] counts.
    pub stream_limits: StreamLimits,
    /// The bound of a data frame's payload in bytes; at most [`DEFAULT_MAX_DATA_FRAME_BYTES`] counts.
    pub max_data_frame_bytes: usize,
    /// The digest that the driver must declare as its artifact's, if Core knows it.
    pub expected_artifact: Option<Digest>,
    /// Recompute `summary_digest` and take a difference as a malformed observation.
    pub verify_summary: bool,
    /// What the session may use. A driver that uses more is a fault with the class `budget_exceeded`; a command that would
    /// use more is refused with it.
    pub budget: BudgetPolicy,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            version_range: supported_versions(),
            request_timeout: Duration::from_secs(10),
            stream_grace: Duration::from_secs(1),
            max_pending_requests: 2 * MAX_CONCURRENT_INVOCATIONS,
            max_concurrency: MAX_CONCURRENT_INVOCATIONS,
            stream_limits: StreamLimits::default(),
            max_data_frame_bytes: DEFAULT_MAX_DATA_FRAME_BYTES,
            expected_artifact: None,
            verify_summary: false,
            budget: BudgetPolicy::default(),
        }
    }
}

/// How the driver's end behaves.
#[derive(Debug, Clone)]
pub struct DriverConfig {
    /// The answer to `driver.hello`: versions, identity, capabilities, permissions.
    pub hello: HelloResult,
    /// Bytes of control and data frames that may wait to be written before `observe` and `send_data` refuse.
    pub max_queued_bytes: usize,
    /// The bound of a data frame's payload in bytes; at most [`DEFAULT_MAX_DATA_FRAME_BYTES`] counts.
    pub max_data_frame_bytes: usize,
    /// The bounds of an invocation's companion streams; at most [`StreamLimits::MAX`] counts.
    pub stream_limits: StreamLimits,
}

impl DriverConfig {
    /// The defaults for a driver that answers `hello` so: 4 MiB of queued output.
    pub fn new(hello: HelloResult) -> Self {
        Self {
            hello,
            max_queued_bytes: 4 << 20,
            max_data_frame_bytes: DEFAULT_MAX_DATA_FRAME_BYTES,
            stream_limits: StreamLimits::default(),
        }
    }
}
