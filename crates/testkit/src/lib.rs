//! Fake peers, virtual-time pairs, a faulty file system and transcripts, for the tests of the other crates.
//!
//! The fake peers are the binaries `fake-child`, `fake-owner` and `fake-keeper`; they come with the feature `peers`, which
//! is on by default and off for the crates that only want the library.

#[cfg(target_os = "linux")]
pub mod deaths;
#[cfg(all(target_os = "linux", feature = "peers"))]
pub mod drivers;
#[cfg(target_os = "linux")]
pub mod escapes;
#[cfg(target_os = "linux")]
pub mod family;
pub mod faulty;
#[cfg(unix)]
mod sys;
pub mod usage;
pub mod vectors;

#[cfg(unix)]
pub use sys::ignore_term;
