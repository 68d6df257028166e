//! Core's bookkeeping of one invocation, from the request to its last stream.

use std::time::{Duration, Instant};

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
    /// The end, while streams are still coming in.
    pub(crate) ending: Option<Ending>,
}

/// An invocation that is completed but for its streams.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) params: CompletedParams,
    /// Until when something must have come on the data plane. Whatever comes moves it.
    quiet_until: Instant,
    /// When the streams must be in, however much comes.
    until: Option<Instant>,
}

impl Ending {
    /// Something came on the data plane: the driver still writes, and has the whole grace for what is next.
    pub(crate) fn heard(&mut self, now: Instant, grace: Duration) {
        self.quiet_until = now + grace;
    }

    /// The streams must be in by then. The earliest moment holds.
    pub(crate) fn limit(&mut self, until: Instant) {
        self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.until.map_or(self.quiet_until, |until| until.min(self.quiet_until))
    }
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

    /// The driver has completed the invocation. Its streams may still come in for the grace after the last of their bytes; of
    /// one that was cancelled, for the grace after the cancel's deadline at most.
    pub(crate) fn complete(&mut self, now: Instant, params: CompletedParams, grace: Duration) {
        let until = self.cancel_deadline.map(|deadline| deadline + grace);
        self.ending = Some(Ending { params, quiet_until: now + grace, until });
    }

    /// The next moment at which something is overdue.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ending.as_ref().map(Ending::deadline).or(self.cancel_deadline)
    }
}
