//! `session/request_permission`: the agent asks before it acts.

use super::declare::{object, tagged, words};
use super::ids::{PermissionOptionId, SessionId};
use super::shape::Fault;
use super::tool::ToolCallUpdate;

object! {
    /// Asks the user.
    pub struct RequestPermissionRequest, "a session/request_permission request",
        new(session_id: SessionId, tool_call: ToolCallUpdate, options: Vec<PermissionOption>) {
        /// The session.
        req session_id: SessionId = "sessionId",
        /// What the agent wants to do.
        req tool_call: ToolCallUpdate = "toolCall",
        /// The choices.
        req options: Vec<PermissionOption> = "options",
    }
}

impl RequestPermissionRequest {
    /// The option with this id, if it was offered.
    pub fn option(&self, id: &PermissionOptionId) -> Option<&PermissionOption> {
        self.options.iter().find(|option| option.option_id == *id)
    }

    /// What an answer means: allowed only if it selects an option that was offered and whose kind allows.
    /// Everything else is a denial.
    pub fn allows(&self, outcome: &RequestPermissionOutcome) -> bool {
        let RequestPermissionOutcome::Selected(selected) = outcome else { return false };
        self.option(&selected.option_id).is_some_and(|option| option.kind.is_allow())
    }

    /// Checks that no two options share an id, for then an answer would say nothing.
    ///
    /// # Errors
    /// The first option whose id came before.
    pub fn validate(&self) -> Result<(), Fault> {
        for (i, option) in self.options.iter().enumerate() {
            if self.options[..i].iter().any(|earlier| earlier.option_id == option.option_id) {
                return Err(Fault::expected("an id of its own").inside("optionId").at(i).inside("options"));
            }
        }
        Ok(())
    }
}

object! {
    /// A choice.
    pub struct PermissionOption, "a permission option",
        new(option_id: PermissionOptionId, name: String, kind: PermissionOptionKind) {
        /// Its id.
        req option_id: PermissionOptionId = "optionId",
        /// What to show.
        req name: String = "name",
        /// What it means; clients choose by this and not by position.
        req kind: PermissionOptionKind = "kind",
    }
}

words! {
    /// What a choice means.
    pub enum PermissionOptionKind, "a permission option kind" {
        /// Yes, this time.
        AllowOnce = "allow_once",
        /// Yes, from now on.
        AllowAlways = "allow_always",
        /// No, this time.
        RejectOnce = "reject_once",
        /// No, from now on.
        RejectAlways = "reject_always",
    }
}

impl PermissionOptionKind {
    /// Whether the choice allows. A kind that is not known does not.
    pub fn is_allow(&self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }

    /// Whether the choice rejects. A kind that is not known does not say so.
    pub fn is_reject(&self) -> bool {
        matches!(self, Self::RejectOnce | Self::RejectAlways)
    }
}

object! {
    /// The answer.
    pub struct RequestPermissionResponse, "a session/request_permission response",
        new(outcome: RequestPermissionOutcome) {
        /// What the user chose.
        req outcome: RequestPermissionOutcome = "outcome",
    }
}

impl RequestPermissionResponse {
    /// The user chose `option`.
    pub fn selected(option: impl Into<PermissionOptionId>) -> Self {
        Self::new(RequestPermissionOutcome::selected(option))
    }

    /// The turn was cancelled, or nobody answered.
    pub fn cancelled() -> Self {
        Self::new(RequestPermissionOutcome::cancelled())
    }
}

tagged! {
    /// What the user chose.
    pub enum RequestPermissionOutcome, "a permission outcome", "outcome" {
        /// Nothing: the turn was cancelled.
        Cancelled(CancelledPermissionOutcome) = "cancelled",
        /// One of the options.
        Selected(SelectedPermissionOutcome) = "selected",
    }
}

impl RequestPermissionOutcome {
    /// One of the options.
    pub fn selected(option: impl Into<PermissionOptionId>) -> Self {
        Self::Selected(SelectedPermissionOutcome::new(option))
    }

    /// Nothing.
    pub fn cancelled() -> Self {
        Self::Cancelled(CancelledPermissionOutcome::new())
    }
}

object! {
    /// Nothing was chosen.
    #[derive(Default)]
    pub struct CancelledPermissionOutcome, "a cancelled outcome", new() {}
}

object! {
    /// An option was chosen.
    pub struct SelectedPermissionOutcome, "a selected outcome", new(option_id: PermissionOptionId) {
        /// Its id.
        req option_id: PermissionOptionId = "optionId",
    }
}
