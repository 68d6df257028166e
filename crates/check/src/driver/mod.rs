//! The built-in driver `pintle driver acp`: carries out a scenario as an ACP client at the level of frames.
//!
//! It executes and observes; it never judges. [`Input`] is what it reads, the types of
//! [`observation`](crate::observation) are what it reports.

mod agent;
mod callbacks;
mod exec;
mod files;
mod inbound;
mod input;
mod placeholder;
mod recorder;
mod service;

pub use agent::{AgentError, Ending, REPORT_QUEUE, carry_out};
pub use input::{AgentSpec, INPUT_MAX_BYTES, INPUT_SCHEMA, Input, Limits, PublicInput};
pub use recorder::Report;
pub use service::{AcpDriver, ERROR_KIND, SCENARIO_OPERATION, STEP_OPERATION_PREFIX, STREAM_KIND};
