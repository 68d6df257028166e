use crate::Code;
use crate::context;
use crate::decide::{Refusal, Start};
use crate::hook::HookEvent;
use crate::ids::SessionId;

/// What happens to a prompt whose fence could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The prompt is blocked: the published protocol's own policy.
    #[default]
    Block,
    /// The user is warned and goes on typing; only a corrupt state blocks, once per prompt text (A6).
    Open,
}

/// The choices that an installation makes for the failures of its hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Block or warn.
    pub on_error: OnError,
    /// Block in the published form: JSON, standard error and exit code 2.
    pub compat_exit2: bool,
}

/// A failure of an event: the code and what happened, in words that complete "failed to ..".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The message; paths may be in it, pointer text never is.
    pub message: String,
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        // What repairs a corrupt record is said per session, by the outcome.
        let message = match refusal {
            Refusal::Corrupt(fault) => fault.to_string(),
            other => other.to_string(),
        };
        Self { code: refusal.code(), message }
    }
}

/// What the host is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    /// Nothing.
    Silent,
    /// A text for the model, and perhaps one for the user.
    Context {
        /// For the model.
        text: String,
        /// For the user.
        warning: Option<String>,
    },
    /// The prompt must not reach the model.
    Block {
        /// The code, on standard error too.
        code: Code,
        /// For the user.
        reason: String,
    },
    /// The turn should end here; hosts that cannot stop still get the text.
    Stop {
        /// The code, on standard error too.
        code: Code,
        /// For the model.
        text: String,
    },
    /// The turn goes on once more, so that the model can publish.
    Nudge {
        /// For the model.
        reason: String,
    },
}

impl Policy {
    /// What a failure of `event` means for the host (section 7, A6). `repeated` says that this very prompt was blocked
    /// for the same reason before.
    pub fn outcome(self, event: HookEvent, session: &SessionId, failure: &Failure, repeated: bool) -> HookOutcome {
        let Failure { code, message } = failure;
        let with_repair = format!("{message}; repair it with: pintle task doctor --repair --session {session}");
        let message = if code.is_corruption() { &with_repair } else { message };
        let unknown = || context::unknown_recovery(session, *code, message);
        let warned = || HookOutcome::Context {
            text: unknown(),
            warning: Some(format!("task pointer: {code}: {}", context::one_line(message))),
        };
        match event {
            HookEvent::Prompt if code.is_corruption() => {
                if self.on_error == OnError::Open && repeated {
                    return warned();
                }
                block(Code::StateCorrupt, message)
            }
            HookEvent::Prompt if self.on_error == OnError::Block => block(*code, message),
            HookEvent::Prompt => warned(),
            HookEvent::SessionStart(Start::Clear | Start::Compact) if self.on_error == OnError::Block => {
                HookOutcome::Stop { code: *code, text: context::recovery_required(session, *code, message) }
            }
            HookEvent::SessionStart(Start::Clear | Start::Compact) => HookOutcome::Context {
                text: context::recovery_required(session, *code, message),
                warning: Some(format!("task pointer: {code}: {}", context::one_line(message))),
            },
            HookEvent::SessionStart(Start::Read) | HookEvent::MachinePrompt => {
                HookOutcome::Context { text: unknown(), warning: None }
            }
            HookEvent::Stop { .. } | HookEvent::PreCompact | HookEvent::Quiet => HookOutcome::Silent,
        }
    }
}

fn block(code: Code, message: &str) -> HookOutcome {
    HookOutcome::Block { code, reason: format!("{}:{code} {}", context::MARKER, context::one_line(message)) }
}
