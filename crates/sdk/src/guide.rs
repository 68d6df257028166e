//! How things work, in chapters: what a connection promises, and what it asks of those who use it.
//!
//! | chapter | question |
//! | --- | --- |
//! | [`ordering`] | what happens before what? |
//! | [`cancellation`] | how does work end that nobody wants any more? |
//! | [`backpressure`] | what if one side is faster than the other? |
//! | [`permissions`] | when is a yes a yes? |
//! | [`supervision`] | who ends what, and who is told? |
//!
//! Programs that can be copied stand in `examples/`: `minimal_agent`, `minimal_client`, `deferred_reply`, `blocking_loop` (no
//! runtime, just the five verbs) and `supervised`.

#[doc = include_str!("guide/ordering.md")]
pub mod ordering {}

#[doc = include_str!("guide/cancellation.md")]
pub mod cancellation {}

#[doc = include_str!("guide/backpressure.md")]
pub mod backpressure {}

#[doc = include_str!("guide/permissions.md")]
pub mod permissions {}

#[doc = include_str!("guide/supervision.md")]
pub mod supervision {}
