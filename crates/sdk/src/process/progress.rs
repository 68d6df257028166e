//! What a supervisor tells of its child.

use tokio::sync::watch;

use super::{
    applied::Applied,
    outcome::{Descendants, Exit, Found},
    sandbox::Exceeded,
};

/// What is known of a child so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    pub(super) exit: Option<Exit>,
    /// Why it was killed by its keeper, if it was for that.
    pub(super) exceeded: Option<Exceeded>,
    /// Set when all is over; `exit` is set before, if it is known at all.
    pub(super) gone: Option<Gone>,
}

/// The end of everything.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub(super) descendants: Descendants,
    pub(super) survivors: Vec<Found>,
}

/// A started child, as its supervisor hands it over.
#[derive(Debug)]
pub(super) struct Started<H> {
    pub(super) pid: u32,
    pub(super) applied: Applied,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) handle: H,
}
