//! The digest that ends an invocation.

use pintle_wire::{Digest, DigestBuilder};

use crate::codec::append_frame;
use crate::error::ProtocolError;
use crate::message::{Message, Notification};
use crate::params::ObservationParams;

/// Computes `summary_digest`: SHA-256 over the canonical frames of an invocation's observations, each with its LF, in
/// order. Both ends can compute it, so Core can check what a driver claims.
#[derive(Debug, Clone, Default)]
pub struct SummaryDigest {
    digest: DigestBuilder,
    frame: Vec<u8>,
}

impl SummaryDigest {
    /// Of no observation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one observation.
    ///
    /// # Errors
    /// When the observation has no canonical frame.
    pub fn observe(&mut self, params: &ObservationParams) -> Result<(), ProtocolError> {
        self.frame.clear();
        let message = Message::Notification(Notification::Observation(params.clone()));
        append_frame(&message, &mut self.frame)?;
        self.digest.update(&self.frame);
        Ok(())
    }

    /// Adds the bytes of an observation's frame that was encoded already, LF included.
    pub(crate) fn frame(&mut self, frame: &[u8]) {
        self.digest.update(frame);
    }

    /// The digest of what was added so far.
    pub fn finish(&self) -> Digest {
        self.digest.clone().finish()
    }
}
