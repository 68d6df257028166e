//! Packs: scenarios and requirements as data. `docs/packs.md` describes the format for authors.

mod model;
mod steps;

pub use model::{
    Callbacks, ElicitationPolicy, FsPolicy, Level, Manifest, PACK_SCHEMA, PermissionPolicy, Plan, Prompt, Requirement,
    SCENARIO_SCHEMA, Scenario, TerminalPolicy, TimeoutOverrides, Timeouts,
};
pub use steps::{
    AuthenticateStep, CancelRequestStep, CancelStep, CloseStdinStep, InitializeStep, NewSessionStep, NotifyStep,
    PauseReadingStep, PromptStep, RawStep, Repeat, RequestStep, RespondError, RespondOutcome, RespondStep,
    ResumeReadingStep, SignalName, SignalStep, Step, WaitFor, WaitStep,
};
