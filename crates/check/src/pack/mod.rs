//! Packs: scenarios and requirements as data. `docs/packs.md` describes the format for authors.

mod document;
mod embedded;
mod error;
mod load;
mod model;
mod steps;
#[cfg(test)]
mod tests;
mod validate;

pub use document::FILE_MAX_BYTES;
pub use error::{LoadError, LoadProblem};
#[cfg(test)]
pub(crate) use load::parse_scenario;
pub use load::{DEFAULT_PACK, Pack};
pub use model::{
    Callbacks, ElicitationPolicy, FsPolicy, Level, Manifest, PACK_SCHEMA, PermissionPolicy, Plan, Prompt, Requirement,
    SCENARIO_SCHEMA, Scenario, TerminalPolicy, TimeoutOverrides, Timeouts,
};
pub use steps::{
    AuthenticateStep, CancelRequestStep, CancelStep, CloseStdinStep, InitializeStep, NewSessionStep, NotifyStep,
    PauseReadingStep, PromptStep, RawStep, Repeat, RequestStep, RespondError, RespondOutcome, RespondStep,
    ResumeReadingStep, SignalName, SignalStep, Step, WaitFor, WaitStep,
};
pub use validate::{ASSERTIONS_MAX, RAW_MAX_BYTES, REQUIREMENTS_MAX, SCENARIOS_MAX, STEPS_MAX, WAIT_MAX_MS};
