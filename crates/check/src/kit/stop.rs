//! How a case ends when its requirement was not met, or could not be tried.

use pintle_sdk::driver::{Fault, Method, ProtocolError, State};

use super::catalog::id;

/// Why a case did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The requirement of this case is not met.
    Unmet(String),
    /// Another requirement is not met, so this one could not be tried.
    Breaks {
        /// Which.
        id: &'static str,
        /// How.
        detail: String,
    },
    /// The driver does not say that it can.
    NotAdvertised,
    /// The kit has nothing to bring the driver to it with.
    NotExercised(&'static str),
    /// This machine gave up.
    Environment(String),
    /// There is no driver to speak of: the very first process could not be started.
    NotStarted(String),
}

/// What an operation of a case gives.
pub(super) type Step<T> = Result<T, Stop>;

impl Stop {
    pub(super) fn unmet(detail: impl Into<String>) -> Self {
        Self::Unmet(detail.into())
    }

    pub(super) fn breaks(id: &'static str, detail: impl Into<String>) -> Self {
        Self::Breaks { id, detail: detail.into() }
    }

    /// A fault as Core sees it. `state` is where the session was.
    pub(super) fn fault(fault: &Fault, state: State) -> Self {
        let id = match fault {
            Fault::Frame(error) => frame(error),
            Fault::Result { method: Method::Hello, .. } | Fault::Version(_) => id::HELLO,
            Fault::Result { .. } => id::CONTRACT,
            Fault::Direction(_) => id::DIRECTION,
            Fault::UnknownResponse | Fault::DuplicateResponse => id::RESPONSES,
            Fault::LateResponse { .. } => id::ANSWERS,
            Fault::Permission(_) if state == State::New => id::REQUESTED,
            // During an invocation only a companion stream needs a permission.
            Fault::Permission(_) if state == State::Invoking => id::STREAMS,
            Fault::Permission(_) => id::ACCEPTED,
            Fault::Artifact => id::ARTIFACT,
            Fault::Details { .. } => id::DETAILS,
            Fault::Stream(_) => id::STREAMS,
            Fault::Summary => id::SUMMARY,
            Fault::CancellationTimeout => id::CANCEL,
            Fault::Closed => id::STAYS,
            _ => id::CONTRACT,
        };
        Self::breaks(id, fault.to_string())
    }

    /// A request that was not answered in time.
    pub(super) fn silent(what: &str) -> Self {
        Self::breaks(id::ANSWERS, format!("driver did not answer {what} in time"))
    }
}

/// Which requirement a refused frame breaks.
fn frame(error: &ProtocolError) -> &'static str {
    match error.stage() {
        "empty" | "line_break" | "not_object" => id::ONLY_FRAMES,
        stage if stage.starts_with("json:") => id::ONLY_FRAMES,
        "too_large" => id::FRAME_SIZE,
        "state" => id::OUTSIDE,
        "identity" => id::IDENTITY,
        "sequence" => match error {
            ProtocolError::LastSequence => id::LAST_SEQUENCE,
            _ => id::SEQUENCE,
        },
        _ => id::CONTRACT,
    }
}
