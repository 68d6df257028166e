//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod driver;
mod driver_classes;
mod driver_escape;
mod driver_fallback;
mod driver_input;
mod driver_isolation;
mod driver_many;
mod driver_schema;
mod kit;
mod pointer_processes;
mod process;
mod scenario;
mod supervised_processes;
mod terminals;
mod transcripts;
mod transport_child;
mod transport_stdio;
