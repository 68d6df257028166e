//! Core's bookkeeping of one invocation, from the request to its last stream.

use std::time::Instant;

use pintle_wire::InstanceId;

use crate::book::{StreamBook, StreamLimits};
use crate::method::Method;
use crate::params::{CompletedParams, InvokeParams};
use crate::summary::SummaryDigest;

/// A request of Core that is not answered yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) method: Method,
    /// Of an invoke or a cancel: which invocation it is about.
    pub(crate) invocation_id: Option<InstanceId>,
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) book: StreamBook,
    pub(crate) summary: Option<SummaryDigest>,
    /// Something was observed, so the driver has taken the invocation.
    pub(crate) observed: bool,
    /// When `driver.completed` must have come, once a cancel was sent.
    pub(crate) cancel_deadline: Option<Instant>,
    /// The end, while streams are still coming in, and until when they may.
    pub(crate) ending: Option<(CompletedParams, Instant)>,
}

impl Running {
    pub(crate) fn new(params: &InvokeParams, limits: StreamLimits, verify_summary: bool) -> Self {
        Self {
            book: StreamBook::new(params.invocation_id, params.attempt_id, limits),
            summary: verify_summary.then(SummaryDigest::new),
            observed: false,
            cancel_deadline: None,
            ending: None,
        }
    }

    /// The next moment at which something is overdue.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let ending = self.ending.as_ref().map(|(_, until)| *until);
        ending.or(self.cancel_deadline)
    }
}
