//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod blocking_example;
mod budget_model;
mod codec_properties;
mod machine_model;
mod vectors;
