//! The judge: a pack and evidence in, one outcome per requirement out.
//!
//! Judging is pure. The same pack and traces give the same judgement, in whatever order the scenarios stand, today or on
//! stored evidence next year. A fault of the driver, the harness or the environment is never a failure of the agent.

mod evidence;
mod local;
mod login;
mod outcome;
mod resolve;

pub use evidence::{EVIDENCE_MAX, Evidence};
pub use login::login_note;
pub use outcome::{Counts, FailOn, Fault, Judgement, Outcome, Problem, RequirementResult, SkipReason, Verdict};
pub use resolve::{ScenarioEvidence, ScenarioRun, judge};
