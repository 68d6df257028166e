//! Hook events and host adapters, as pure functions: standard input to event, outcome to standard output, standard error
//! and exit code.
//!
//! | step | function |
//! | --- | --- |
//! | bytes of the host | [`HookInput::parse`] |
//! | event and stored state | [`decide`](crate::decide()) |
//! | answer or failure, by the user's policy | [`Policy::outcome`] |
//! | bytes for the host | [`render`] |
//!
//! What each host does with an output was measured; the recordings are the tests of this module.

mod input;
mod names;
mod output;
mod policy;

pub use input::{HOOK_INPUT_MAX_BYTES, HookError, HookEvent, HookInput, HookSurroundings};
pub use output::{HookExit, HostOutput, render, render_error};
pub use policy::{Failure, HookOutcome, OnError, Policy};
