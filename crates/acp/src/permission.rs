//! Permissions, from both sides: what an answer means to the agent that asked, and what a client answers by policy.
//!
//! The agent's side fails closed (I8): only an answer that selects an option which was offered, and whose kind allows, is a
//! yes. The client's side chooses by the kind of an option, never by its position or its name.

use std::fmt;

use crate::Outcome;
use crate::types::{
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, ToolKind, decode,
};

/// What a permission request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a permission that is not looked at is not a permission"]
pub enum Decision {
    /// An offered option that allows was selected.
    Allowed(Choice),
    /// An offered option that rejects was selected.
    Rejected(Choice),
    /// Nobody decided, or not in a way that counts: treat it as a rejection.
    Cancelled(NoDecision),
}

/// The option that was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its id.
    pub option_id: PermissionOptionId,
    /// True if it stands for later requests of the same sort too. Remembering it is the asker's part.
    pub always: bool,
}

/// Why there is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoDecision {
    /// The client answered "cancelled".
    ByClient,
    /// The turn was cancelled while the question was open.
    TurnCancelled,
    /// No answer came in time.
    TimedOut,
    /// The connection closed.
    Closed,
    /// The client answered with an error; a client that does not know the method, for one.
    Error,
    /// The answer is not one.
    Undecodable,
    /// The selected option was not offered (G-09).
    NotOffered,
    /// The selected option's kind is not known, so it cannot be read as a yes.
    UnknownKind,
    /// The question was not asked: no turn runs, or the connection did not take it.
    NotAsked,
}

impl Decision {
    /// True only for [`Decision::Allowed`].
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// Judges how a `session/request_permission` with these options ended.
    pub fn judge(offered: &[PermissionOption], outcome: &Outcome) -> Self {
        let result = match outcome {
            Outcome::Result(result) => result,
            Outcome::Error(_) => return Self::Cancelled(NoDecision::Error),
            Outcome::TimedOut => return Self::Cancelled(NoDecision::TimedOut),
            Outcome::TurnCancelled => return Self::Cancelled(NoDecision::TurnCancelled),
            Outcome::Closed => return Self::Cancelled(NoDecision::Closed),
        };
        let selected = match decode::<RequestPermissionResponse>(result.as_str()).map(|answer| answer.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => selected,
            Ok(RequestPermissionOutcome::Cancelled(_)) => return Self::Cancelled(NoDecision::ByClient),
            Ok(_) | Err(_) => return Self::Cancelled(NoDecision::Undecodable),
        };
        let Some(option) = offered.iter().find(|option| option.option_id == selected.option_id) else {
            return Self::Cancelled(NoDecision::NotOffered);
        };
        let choice = |always| Choice { option_id: selected.option_id.clone(), always };
        match option.kind {
            PermissionOptionKind::AllowOnce => Self::Allowed(choice(false)),
            PermissionOptionKind::AllowAlways => Self::Allowed(choice(true)),
            PermissionOptionKind::RejectOnce => Self::Rejected(choice(false)),
            PermissionOptionKind::RejectAlways => Self::Rejected(choice(true)),
            _ => Self::Cancelled(NoDecision::UnknownKind),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed(_) => "allowed",
            Self::Rejected(_) => "rejected",
            Self::Cancelled(why) => match why {
                NoDecision::ByClient => "cancelled by the client",
                NoDecision::TurnCancelled => "cancelled with the turn",
                NoDecision::TimedOut => "not answered in time",
                NoDecision::Closed => "not answered before the connection closed",
                NoDecision::Error => "answered with an error",
                NoDecision::Undecodable => "answered with something that is no decision",
                NoDecision::NotOffered => "answered with an option that was not offered",
                NoDecision::UnknownKind => "answered with an option of an unknown kind",
                NoDecision::NotAsked => "not asked",
            },
        })
    }
}

/// How a client answers permission requests without asking anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Approve {
    /// Rejects everything.
    None,
    /// Allows tool calls that only look (kinds read, search and think), rejects the rest.
    #[default]
    Reads,
    /// Allows everything, but for what offers no way to.
    All,
}

impl Approve {
    /// The answer to a request: an option of the wanted kind, once rather than always; "cancelled" if none is offered.
    pub fn answer(self, request: &RequestPermissionRequest) -> RequestPermissionResponse {
        let allow = match self {
            Self::None => false,
            Self::Reads => matches!(request.tool_call.kind, Some(ToolKind::Read | ToolKind::Search | ToolKind::Think)),
            Self::All => true,
        };
        let wanted = if allow {
            [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways]
        } else {
            [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways]
        };
        wanted
            .iter()
            .find_map(|kind| request.options.iter().find(|option| option.kind == *kind))
            .map_or_else(RequestPermissionResponse::cancelled, |option| {
                RequestPermissionResponse::selected(option.option_id.clone())
            })
    }
}
