//! Conformance packs, scenarios, the judge and its reports, the built-in driver and the mock agent.

pub mod cel;
pub mod driver;
mod json;
pub mod judge;
pub mod mock;
pub mod observation;
pub mod pack;
pub mod report;
pub mod run;
pub mod trace;

#[cfg(test)]
mod schema;
