//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod properties;
mod vectors;
