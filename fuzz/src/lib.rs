//! Fuzz targets as plain functions over bytes; their corpora run as ordinary tests.
//!
//! A target takes any input and panics when an invariant does not hold. The files of `corpus/<target>/` and a bounded, seeded
//! loop of mutations of them run under `cargo test`; a coverage-guided fuzzer can call the same functions.

mod acp;
mod canon;
mod envelope;
mod framer;
mod mutate;
mod oracle;
mod scan;

pub use acp::{End, acp_agent, acp_client};
pub use canon::canon;
pub use envelope::envelope;
pub use framer::framer;
pub use mutate::Mutator;
pub use scan::scan;

/// A target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("scan", scan),
    ("canon", canon),
    ("framer", framer),
    ("envelope", envelope),
    ("acp_agent", acp_agent),
    ("acp_client", acp_client),
];
