//! What Core's end of a session uses.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::budget::{Amounts, BudgetError, BudgetPolicy, BudgetReport, Ledger, Purpose, Reservation, Resource, Usage};
use crate::method::Method;
use crate::session::event::RequestSeq;

/// The ledger of a session, and what its unanswered requests have reserved.
#[derive(Debug)]
pub(crate) struct Spending {
    pub(crate) ledger: Ledger,
    reserved: BTreeMap<RequestSeq, (Reservation, Amounts)>,
}

impl Spending {
    pub(crate) fn new(policy: BudgetPolicy) -> Self {
        Self { ledger: Ledger::new(policy), reserved: BTreeMap::new() }
    }

    /// Reserves for a request of so many bytes. The greeting pays for the driver's process; cancel and shutdown are paid by
    /// the account for cleaning up.
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        id: RequestSeq,
        method: Method,
        bytes: usize,
    ) -> Result<(), BudgetError> {
        let purpose = match method {
            Method::Cancel | Method::Shutdown => Purpose::Cleanup,
            _ => Purpose::Work,
        };
        let estimate = Amounts::of(Resource::Requests, 1)
            .with(Resource::BytesSent, bytes as u64)
            .with(Resource::Processes, u64::from(method == Method::Hello));
        let reservation = self.ledger.reserve(now, purpose, estimate)?;
        self.reserved.insert(id, (reservation, estimate));
        Ok(())
    }

    /// Closes the reservation of a request: with what was reserved, or as `usage` says.
    pub(crate) fn paid(&mut self, now: Instant, id: RequestSeq, usage: Option<Usage>) {
        if let Some((reservation, sent)) = self.reserved.remove(&id) {
            // It is this ledger's own, and open until here.
            let _receipt = self.ledger.commit(now, reservation, usage.unwrap_or(Usage::known(sent)));
        }
    }

    /// The session is over. What it has not heard an answer to is charged at its estimate.
    pub(crate) fn close(&mut self) {
        self.ledger.close();
        self.reserved.clear();
    }

    pub(crate) fn report(&self) -> BudgetReport {
        self.ledger.report()
    }
}
