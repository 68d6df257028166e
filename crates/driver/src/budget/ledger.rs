//! The ledger itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::amounts::{Amounts, BudgetPolicy, Limits, Purpose, Resource, millis};

/// Most reservations that are open at a time.
pub const MAX_OPEN_RESERVATIONS: usize = 4096;

/// Why something may not be used, or should not have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// It leads over a limit.
    #[error(
        "{purpose} budget exceeded: {wanted} more {resource}, {used} used, {reserved} reserved, the limit is {limit}"
    )]
    Exceeded {
        /// Which account.
        purpose: Purpose,
        /// What there is too little of.
        resource: Resource,
        /// Its limit.
        limit: u64,
        /// How much was used before.
        used: u64,
        /// How much is promised to others.
        reserved: u64,
        /// How much was asked for, or came.
        wanted: u64,
    },
    /// An estimate that has neither a request nor a process in it, so that it pays for no work.
    #[error("an estimate needs at least one request or one process")]
    NoWork,
    /// More than [`MAX_OPEN_RESERVATIONS`].
    #[error("more than {MAX_OPEN_RESERVATIONS} reservations are open")]
    TooManyOpen,
    /// The reservation is another ledger's, or the ledger was closed, which closed it.
    #[error("the reservation is not open in this ledger")]
    NotOpen,
    /// The ledger was closed.
    #[error("the ledger is closed")]
    Closed,
}

/// The right to use an estimate. Close it with [`Ledger::commit`] or [`Ledger::release`]; one that is dropped stays
/// reserved, and is charged at its estimate when the ledger is closed.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it stays reserved until it is committed or released"]
pub struct Reservation {
    ledger: u64,
    number: u64,
}

/// What was used, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    known: Amounts,
    unknown: [bool; Resource::ALL.len()],
}

impl Usage {
    /// All of it is known.
    #[must_use]
    pub const fn known(amounts: Amounts) -> Self {
        Self { known: amounts, unknown: [false; Resource::ALL.len()] }
    }

    /// Nothing of it is known: every resource is charged at its estimate.
    #[must_use]
    pub const fn all_unknown() -> Self {
        Self { known: Amounts::ZERO, unknown: [true; Resource::ALL.len()] }
    }

    /// The same, but for one resource, which nobody knows the use of.
    #[must_use]
    pub const fn unknown(mut self, resource: Resource) -> Self {
        self.unknown[resource as usize] = true;
        self
    }
}

/// What a commitment came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// What was charged.
    pub charged: Amounts,
    /// How much of it was charged at the estimate, since nobody knows.
    pub unknown: Amounts,
    /// How far the account is over its limits because of it.
    pub overshoot: Amounts,
}

/// The state of one account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AccountReport {
    /// What was used.
    pub used: Amounts,
    /// What is reserved.
    #[serde(skip_serializing_if = "Amounts::is_zero")]
    pub reserved: Amounts,
    /// How much of the use is an estimate.
    #[serde(skip_serializing_if = "Amounts::is_zero")]
    pub unknown: Amounts,
    /// How far the use is over the limits.
    #[serde(skip_serializing_if = "Amounts::is_zero")]
    pub overshoot: Amounts,
}

/// The state of a ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BudgetReport {
    /// What was to be done.
    pub work: AccountReport,
    /// Ending it.
    pub cleanup: AccountReport,
}

#[derive(Debug)]
struct Account {
    purpose: Purpose,
    limits: Limits,
    began: Option<Instant>,
    used: Amounts,
    reserved: Amounts,
    unknown: Amounts,
    last: Option<Instant>,
}

impl Account {
    const fn new(purpose: Purpose, limits: Limits) -> Self {
        Self {
            purpose,
            limits,
            began: None,
            used: Amounts::ZERO,
            reserved: Amounts::ZERO,
            unknown: Amounts::ZERO,
            last: None,
        }
    }

    /// Time does not go back, whatever a caller says.
    fn tick(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let last = self.last.map_or(now, |last| last.max(now));
        self.last = Some(last);
        self.used = self.used.with(Resource::DurationMs, millis(last.saturating_duration_since(began)));
    }

    /// The first limit that `wanted` leads over.
    fn check(&self, wanted: &Amounts) -> Result<(), BudgetError> {
        for resource in Resource::ALL {
            let Some(limit) = self.limits.get(resource) else { continue };
            let (used, reserved, wanted) = (self.used.get(resource), self.reserved.get(resource), wanted.get(resource));
            let over = used.saturating_add(reserved).saturating_add(wanted) > limit;
            // At the end of its time an account pays for nothing more, even if that takes none.
            let late = resource == Resource::DurationMs && used >= limit;
            if late || over && wanted > 0 {
                let purpose = self.purpose;
                return Err(BudgetError::Exceeded { purpose, resource, limit, used, reserved, wanted });
            }
        }
        Ok(())
    }

    fn overshoot(&self) -> Amounts {
        let mut over = Amounts::ZERO;
        for resource in Resource::ALL {
            if let Some(limit) = self.limits.get(resource) {
                over = over.with(resource, self.used.get(resource).saturating_sub(limit));
            }
        }
        over
    }

    fn charge(&mut self, amounts: Amounts, unknown: Amounts) -> Receipt {
        let before = self.overshoot();
        // Time passes by itself, see `tick`.
        let charged = amounts.with(Resource::DurationMs, 0);
        let unknown = unknown.with(Resource::DurationMs, 0);
        self.used.add(&charged);
        self.unknown.add(&unknown);
        let mut overshoot = self.overshoot();
        overshoot.take(&before);
        Receipt { charged, unknown, overshoot }
    }

    fn report(&self) -> AccountReport {
        AccountReport { used: self.used, reserved: self.reserved, unknown: self.unknown, overshoot: self.overshoot() }
    }
}

#[derive(Debug)]
struct Open {
    purpose: Purpose,
    estimate: Amounts,
}

/// The ledger of one attempt. See the module.
#[derive(Debug)]
pub struct Ledger {
    /// Tells the reservations of two ledgers apart.
    identity: u64,
    work: Account,
    cleanup: Account,
    open: BTreeMap<u64, Open>,
    next: u64,
    closed: bool,
}

impl Ledger {
    /// A ledger in which nothing was used.
    #[must_use]
    pub fn new(policy: BudgetPolicy) -> Self {
        static IDENTITIES: AtomicU64 = AtomicU64::new(0);
        Self {
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            work: Account::new(Purpose::Work, policy.work),
            cleanup: Account::new(Purpose::Cleanup, policy.cleanup),
            open: BTreeMap::new(),
            next: 0,
            closed: false,
        }
    }

    /// Reserves an estimate, which needs a request or a process in it.
    ///
    /// # Errors
    /// [`BudgetError`]; nothing was reserved then.
    pub fn reserve(&mut self, now: Instant, purpose: Purpose, estimate: Amounts) -> Result<Reservation, BudgetError> {
        if estimate.get(Resource::Requests) == 0 && estimate.get(Resource::Processes) == 0 {
            return Err(BudgetError::NoWork);
        }
        if self.open.len() >= MAX_OPEN_RESERVATIONS {
            return Err(BudgetError::TooManyOpen);
        }
        let account = self.account(now, purpose)?;
        account.check(&estimate)?;
        // Time is not handed out: it passes for everybody at once.
        let estimate = estimate.with(Resource::DurationMs, 0);
        account.reserved.add(&estimate);
        let number = self.next;
        self.next += 1;
        self.open.insert(number, Open { purpose, estimate });
        Ok(Reservation { ledger: self.identity, number })
    }

    /// Reserves more for the same work, when its estimate turns out too low.
    ///
    /// # Errors
    /// [`BudgetError`]; the reservation is as before then.
    pub fn extend(&mut self, now: Instant, reservation: &Reservation, more: Amounts) -> Result<(), BudgetError> {
        let purpose = self.find(reservation)?.purpose;
        let account = self.account(now, purpose)?;
        account.check(&more)?;
        let more = more.with(Resource::DurationMs, 0);
        account.reserved.add(&more);
        if let Some(open) = self.open.get_mut(&reservation.number) {
            open.estimate.add(&more);
        }
        Ok(())
    }

    /// Closes a reservation with what was used. What went over a limit is in the receipt, and in the report.
    ///
    /// # Errors
    /// [`BudgetError::NotOpen`].
    pub fn commit(&mut self, now: Instant, reservation: Reservation, usage: Usage) -> Result<Receipt, BudgetError> {
        self.find(&reservation)?;
        Ok(self.settle(Some(now), reservation.number, usage))
    }

    /// Closes a reservation of which nothing was used.
    ///
    /// # Errors
    /// [`BudgetError::NotOpen`].
    pub fn release(&mut self, now: Instant, reservation: Reservation) -> Result<(), BudgetError> {
        self.commit(now, reservation, Usage::known(Amounts::ZERO)).map(|_| ())
    }

    /// Uses something at once, if there is enough.
    ///
    /// # Errors
    /// [`BudgetError`]; nothing was charged then.
    pub fn take(&mut self, now: Instant, purpose: Purpose, amounts: Amounts) -> Result<(), BudgetError> {
        let account = self.account(now, purpose)?;
        account.check(&amounts)?;
        account.charge(amounts, Amounts::ZERO);
        Ok(())
    }

    /// Charges what has been used already. It is charged in any case.
    ///
    /// # Errors
    /// [`BudgetError::Exceeded`] if it was too much: the overshoot is in the report.
    pub fn spend(&mut self, now: Instant, purpose: Purpose, amounts: Amounts) -> Result<(), BudgetError> {
        let account = self.account_of(purpose);
        account.tick(now);
        let within = account.check(&amounts);
        account.charge(amounts, Amounts::ZERO);
        within
    }

    /// When the time of an account is over; not known before its first use.
    #[must_use]
    pub fn deadline(&self, purpose: Purpose) -> Option<Instant> {
        let account = match purpose {
            Purpose::Work => &self.work,
            Purpose::Cleanup => &self.cleanup,
        };
        account.began?.checked_add(account.limits.duration?)
    }

    /// Closes the ledger. Reservations that are still open are charged at their estimates. Closing again changes nothing.
    pub fn close(&mut self) -> BudgetReport {
        while let Some((&number, _)) = self.open.first_key_value() {
            self.settle(None, number, Usage::all_unknown());
        }
        self.closed = true;
        self.report()
    }

    /// How many reservations are open.
    #[must_use]
    pub fn open_reservations(&self) -> usize {
        self.open.len()
    }

    /// What was used, as of the last call with a time.
    #[must_use]
    pub fn report(&self) -> BudgetReport {
        BudgetReport { work: self.work.report(), cleanup: self.cleanup.report() }
    }

    fn settle(&mut self, now: Option<Instant>, number: u64, usage: Usage) -> Receipt {
        let Some(Open { purpose, estimate }) = self.open.remove(&number) else { return Receipt::default() };
        let (mut charged, mut unknown) = (usage.known, Amounts::ZERO);
        for resource in Resource::ALL {
            if usage.unknown[resource as usize] {
                charged = charged.with(resource, estimate.get(resource));
                unknown = unknown.with(resource, estimate.get(resource));
            }
        }
        let account = self.account_of(purpose);
        if let Some(now) = now {
            account.tick(now);
        }
        account.reserved.take(&estimate);
        account.charge(charged, unknown)
    }

    fn find(&self, reservation: &Reservation) -> Result<&Open, BudgetError> {
        let mine = reservation.ledger == self.identity;
        self.open.get(&reservation.number).filter(|_| mine).ok_or(BudgetError::NotOpen)
    }

    fn account(&mut self, now: Instant, purpose: Purpose) -> Result<&mut Account, BudgetError> {
        if self.closed {
            return Err(BudgetError::Closed);
        }
        let account = self.account_of(purpose);
        account.tick(now);
        Ok(account)
    }

    fn account_of(&mut self, purpose: Purpose) -> &mut Account {
        match purpose {
            Purpose::Work => &mut self.work,
            Purpose::Cleanup => &mut self.cleanup,
        }
    }
}
