//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod common;
mod context_props;
mod decide_model;
mod decide_table;
mod hook_fixtures;
mod literals;
mod schema;
mod settings_props;
