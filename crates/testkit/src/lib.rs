//! Fake peers, virtual-time pairs, a faulty file system and transcripts, for the tests of the other crates.

pub mod faulty;
pub mod vectors;
