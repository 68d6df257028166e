use std::fmt;

/// The stable code of a failure, as it stands in receipts, in block reasons and on standard error.
///
/// The names `STALE_GENERATION` and `STALE_REVISION` are those of the published protocol; the others name what was
/// wrong and whose it was: `REQUEST_*` and `HOOK_*` the caller's, `STATE_*`, `PATH_*` and `LOCK_TIMEOUT` the disk's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// The expected generation is not the stored one.
    StaleGeneration,
    /// The generation matches, the expected revision is not the stored one.
    StaleRevision,
    /// The request is longer than [`REQUEST_MAX_BYTES`](crate::REQUEST_MAX_BYTES).
    RequestTooLarge,
    /// The request is not UTF-8.
    RequestEncoding,
    /// The request is not one JSON text.
    RequestJson,
    /// The request repeats a member name.
    RequestDuplicateKey,
    /// The request is JSON, but not a publish request v3.
    RequestSchema,
    /// A session id outside the alphabet or longer than 128 characters.
    SessionIdInvalid,
    /// The session variable of the agent names another session than the request (A7).
    SessionEnvMismatch,
    /// A task is alive where an imported one was to be stored (A9).
    SessionLive,
    /// The pointer text exceeds [`TEXT_MAX_BYTES`](crate::TEXT_MAX_BYTES) after normalisation.
    PointerTooLarge,
    /// The pointer text holds nothing but white space.
    PointerEmpty,
    /// The task id is not a lower-case UUIDv4.
    TaskIdInvalid,
    /// The state file is present but cannot be trusted; the cause is one of the next five.
    StateCorrupt,
    /// The state file is not UTF-8.
    StateEncoding,
    /// The state file is not one JSON text.
    StateJson,
    /// The state file is JSON, but neither state v3 nor v2.
    StateSchema,
    /// The state file exceeds [`STATE_MAX_BYTES`](crate::STATE_MAX_BYTES).
    StateTooLarge,
    /// The state file belongs to another session.
    StateSessionMismatch,
    /// The disk refused access, or is read-only.
    StatePermission,
    /// Any other failure of the disk.
    StateIo,
    /// Another process held the session's lock for the whole wait.
    LockTimeout,
    /// A path would leave the state root.
    PathEscape,
    /// A symbolic link or reparse point below the state root.
    PathReparsePoint,
    /// The revision is at its maximum; only a clear goes on.
    RevisionOverflow,
    /// The context block would not fit; never returned by the renderer, which cuts instead.
    ContextTooLarge,
    /// Hook input is not JSON.
    HookInputJson,
    /// Hook input is JSON without what every hook input has.
    HookInputSchema,
    /// An event that the pointer does nothing for.
    HookEventUnsupported,
    /// The clock is outside the years that the state can name.
    ClockInvalid,
}

impl Code {
    /// Every code, for tables and exhaustive tests.
    pub const ALL: [Self; 30] = [
        Self::StaleGeneration,
        Self::StaleRevision,
        Self::RequestTooLarge,
        Self::RequestEncoding,
        Self::RequestJson,
        Self::RequestDuplicateKey,
        Self::RequestSchema,
        Self::SessionIdInvalid,
        Self::SessionEnvMismatch,
        Self::SessionLive,
        Self::PointerTooLarge,
        Self::PointerEmpty,
        Self::TaskIdInvalid,
        Self::StateCorrupt,
        Self::StateEncoding,
        Self::StateJson,
        Self::StateSchema,
        Self::StateTooLarge,
        Self::StateSessionMismatch,
        Self::StatePermission,
        Self::StateIo,
        Self::LockTimeout,
        Self::PathEscape,
        Self::PathReparsePoint,
        Self::RevisionOverflow,
        Self::ContextTooLarge,
        Self::HookInputJson,
        Self::HookInputSchema,
        Self::HookEventUnsupported,
        Self::ClockInvalid,
    ];

    /// The code as it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StaleGeneration => STALE_GENERATION,
            Self::StaleRevision => STALE_REVISION,
            Self::RequestTooLarge => "REQUEST_TOO_LARGE",
            Self::RequestEncoding => "REQUEST_ENCODING",
            Self::RequestJson => "REQUEST_JSON",
            Self::RequestDuplicateKey => "REQUEST_DUPLICATE_KEY",
            Self::RequestSchema => "REQUEST_SCHEMA",
            Self::SessionIdInvalid => "SESSION_ID_INVALID",
            Self::SessionEnvMismatch => "SESSION_ENV_MISMATCH",
            Self::SessionLive => "SESSION_LIVE",
            Self::PointerTooLarge => "POINTER_TOO_LARGE",
            Self::PointerEmpty => "POINTER_EMPTY",
            Self::TaskIdInvalid => "TASK_ID_INVALID",
            Self::StateCorrupt => "STATE_CORRUPT",
            Self::StateEncoding => "STATE_ENCODING",
            Self::StateJson => "STATE_JSON",
            Self::StateSchema => "STATE_SCHEMA",
            Self::StateTooLarge => "STATE_TOO_LARGE",
            Self::StateSessionMismatch => "STATE_SESSION_MISMATCH",
            Self::StatePermission => "STATE_PERMISSION",
            Self::StateIo => "STATE_IO",
            Self::LockTimeout => "LOCK_TIMEOUT",
            Self::PathEscape => "PATH_ESCAPE",
            Self::PathReparsePoint => "PATH_REPARSE_POINT",
            Self::RevisionOverflow => "REVISION_OVERFLOW",
            Self::ContextTooLarge => "CONTEXT_TOO_LARGE",
            Self::HookInputJson => "HOOK_INPUT_JSON",
            Self::HookInputSchema => "HOOK_INPUT_SCHEMA",
            Self::HookEventUnsupported => "HOOK_EVENT_UNSUPPORTED",
            Self::ClockInvalid => "CLOCK_INVALID",
        }
    }

    /// Whether the code says that the content of the state file cannot be trusted, so that only a repair or a clear
    /// helps (section 5, row CORRUPT). A disk that fails to answer is not corruption.
    pub const fn is_corruption(self) -> bool {
        matches!(
            self,
            Self::StateCorrupt
                | Self::StateEncoding
                | Self::StateJson
                | Self::StateSchema
                | Self::StateTooLarge
                | Self::StateSessionMismatch
        )
    }
}

/// The code of a publish that a clear, an upgrade or a repair overtook.
pub const STALE_GENERATION: &str = "STALE_GENERATION";
/// The code of a publish that a prompt or another publish overtook.
pub const STALE_REVISION: &str = "STALE_REVISION";

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_upper_snake_case() {
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::ALL {
            let text = code.as_str();
            assert!(text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'), "{text}");
            assert!(seen.insert(text), "{text} twice");
        }
        assert_eq!(seen.len(), Code::ALL.len());
    }
}
