//! Build ACP agents and clients, and Driver RPC drivers, that cannot deadlock, flood or leak children.

pub mod acp;
#[cfg(unix)]
pub mod driver;
pub mod process;
pub mod shim;
#[cfg(target_os = "linux")]
mod sys;
pub mod transport;
