//! One module per command group.

pub(crate) mod exec;
pub(crate) mod json;
