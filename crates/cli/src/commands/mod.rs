//! One module per command group.

pub(crate) mod cel;
pub(crate) mod check;
pub(crate) mod driver;
pub(crate) mod evidence;
pub(crate) mod exec;
pub(crate) mod json;
pub(crate) mod manual;
pub(crate) mod mock;
pub(crate) mod prompt;
pub(crate) mod stop;
pub(crate) mod task;
pub(crate) mod trace;
