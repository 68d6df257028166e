//! The trace: stored observations of one scenario as the facts that assertions are about.
//!
//! Building a trace is pure: the same plan, observations and stream bytes give the same trace. Frames pass the strict
//! scan of `pintle_wire` with its ACP profile; what fails it stays in the trace with the fault's name.

mod build;
mod message;
mod model;

pub use build::{FLOOD_RUN_MAX, JSON_MAX_BYTES, TRACE_MAX_ENTRIES, TraceBuilder};
pub use model::{
    DescendantFacts, EXCERPT_MAX_BYTES, Entry, EntryKind, ExitFacts, Flaw, Shape, StartFacts, StepFacts, Trace,
};
