//! What an attempt may use: a ledger of reservations, commitments and what went over.
//!
//! Work is paid for in two steps. Before it begins its estimate is reserved, which is refused if it could lead over a limit;
//! when it is over the reservation is committed with what was really used, or released if nothing was. What has happened
//! already, such as bytes that arrived, is spent at once. Cleaning up has limits of its own, so that finalizers run when
//! everything else is exhausted.
//!
//! * A [`Reservation`] is neither `Clone` nor `Copy` and is closed by value: it is closed once, or not at all.
//! * What is used beyond a limit is charged and told as overshoot; it is never cut to fit.
//! * Usage that nobody knows is charged at its estimate and told as unknown, never as zero. So is a reservation that is
//!   still open when the ledger is closed.
//!
//! The ledger reads no clock: `now` is an argument, and the duration counts from the first call of each account.

mod amounts;
mod ledger;

pub use amounts::{Amounts, BudgetPolicy, Limits, Purpose, Resource};
pub use ledger::{
    AccountReport, BudgetError, BudgetReport, Ledger, MAX_OPEN_RESERVATIONS, Receipt, Reservation, Usage,
};
