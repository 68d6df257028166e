//! The integration tests of this crate, in one program: each further one would be linked with all of the crate again.

mod acp_agent;
mod acp_host;
mod acp_runtime;
mod acp_surface;
mod acpx;
mod supervisor;
mod transport;
