//! The prompt turn: `session/prompt`, `session/cancel`.

use super::capabilities::PromptCapabilities;
use super::content::ContentBlock;
use super::declare::{object, words};
use super::ids::SessionId;
use super::shape::{Fault, FaultReason};

object! {
    /// Starts a turn. The request stays open until the turn is over.
    pub struct PromptRequest, "a session/prompt request", new(session_id: SessionId, prompt: Vec<ContentBlock>) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// What the user says.
        req prompt: Vec<ContentBlock> = "prompt",
    }
}

impl PromptRequest {
    /// Checks that every block is of a kind that the agent advertised.
    ///
    /// # Errors
    /// The first block that is not; the answer to the peer is -32602.
    pub fn require_advertised(&self, advertised: &PromptCapabilities) -> Result<(), Fault> {
        for (i, block) in self.prompt.iter().enumerate() {
            let missing = match block {
                ContentBlock::Text(_) | ContentBlock::ResourceLink(_) => continue,
                ContentBlock::Image(_) if advertised.image => continue,
                ContentBlock::Audio(_) if advertised.audio => continue,
                ContentBlock::Resource(_) if advertised.embedded_context => continue,
                ContentBlock::Image(_) => FaultReason::NotAdvertised("promptCapabilities.image"),
                ContentBlock::Audio(_) => FaultReason::NotAdvertised("promptCapabilities.audio"),
                ContentBlock::Resource(_) => FaultReason::NotAdvertised("promptCapabilities.embeddedContext"),
                ContentBlock::Unknown { .. } => FaultReason::Expected("a known kind of content"),
            };
            return Err(Fault::new(missing).at(i).inside("prompt"));
        }
        Ok(())
    }

    /// The text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.prompt.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n")
    }
}

object! {
    /// The turn is over.
    pub struct PromptResponse, "a session/prompt response", new(stop_reason: StopReason) {
        /// Why it is over.
        req stop_reason: StopReason = "stopReason",
    }
}

impl PromptResponse {
    /// The model is done.
    pub fn end_turn() -> Self {
        Self::new(StopReason::EndTurn)
    }

    /// The client cancelled the turn.
    pub fn cancelled() -> Self {
        Self::new(StopReason::Cancelled)
    }

    /// The agent refuses to go on.
    pub fn refusal() -> Self {
        Self::new(StopReason::Refusal)
    }

    /// The token limit was reached.
    pub fn max_tokens() -> Self {
        Self::new(StopReason::MaxTokens)
    }

    /// The limit of model requests in one turn was reached.
    pub fn max_turn_requests() -> Self {
        Self::new(StopReason::MaxTurnRequests)
    }
}

words! {
    /// Why a turn is over.
    pub enum StopReason, "a stop reason" {
        /// The model is done.
        EndTurn = "end_turn",
        /// The token limit was reached.
        MaxTokens = "max_tokens",
        /// The limit of model requests in one turn was reached.
        MaxTurnRequests = "max_turn_requests",
        /// The agent refuses to go on.
        Refusal = "refusal",
        /// The client cancelled the turn.
        Cancelled = "cancelled",
    }
}

object! {
    /// Cancels the turn that runs in a session; the turn's own reply tells the end.
    pub struct CancelNotification, "a session/cancel notification", new(session_id: SessionId) {
        /// The session.
        req session_id: SessionId = "sessionId",
    }
}
