//! How far a check has come.

/// One step forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A scenario was given to a driver.
    Started {
        /// Its id.
        scenario: String,
    },
    /// A scenario is over.
    Ended {
        /// Its id.
        scenario: String,
        /// Scenarios that are over.
        done: usize,
        /// Scenarios in all.
        of: usize,
    },
    /// All scenarios are over; the judge is at work.
    Judging,
}
