//! Build ACP agents and clients, and Driver RPC drivers, that cannot deadlock, flood or leak children.

pub mod acp;
#[cfg(unix)]
pub mod driver;
pub mod guide;
pub mod process;
pub mod shim;
pub mod supervisor;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_vendor = "apple")]
#[path = "sys/apple.rs"]
mod sys;
#[cfg(windows)]
#[path = "sys/windows.rs"]
mod sys;
pub mod transport;
