//! The types of ACP version 1: the whole stable surface, both directions.
//!
//! They lose nothing. What a peer wrote and this version does not know is kept and written back: members in
//! `extra`, union values in `Unknown { tag, raw }`, enum values in `Unknown(..)`. Optional members of the
//! wrong type read as absent and are kept too. A message fails only when something that it needs is missing
//! or broken, and then the [`Fault`] names the member and never its content. What a strict reader would
//! object to is told by [`inspect`].
//!
//! ```
//! use pintle_acp::types::{PromptResponse, SessionUpdate, StopReason, decode};
//!
//! let update: SessionUpdate = decode(r#"{"sessionUpdate":"_mine","x":1}"#)?;
//! assert!(matches!(&update, SessionUpdate::Unknown { tag, .. } if tag == "_mine"));
//! assert_eq!(serde_json::to_string(&update)?, r#"{"sessionUpdate":"_mine","x":1}"#);
//!
//! assert_eq!(PromptResponse::end_turn().stop_reason, StopReason::EndTurn);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Objects are built with `new(..)`, which takes what the protocol requires, and with a setter per optional
//! member:
//!
//! ```
//! use pintle_acp::types::{ToolCall, ToolCallLocation, ToolKind};
//!
//! let call = ToolCall::new("call-1", "Read the manifest")
//!     .kind(ToolKind::Read)
//!     .locations([ToolCallLocation::new("/repo/Cargo.toml").line(3u32)]);
//! assert_eq!(
//!     serde_json::to_string(&call)?,
//!     r#"{"toolCallId":"call-1","title":"Read the manifest","kind":"read","locations":[{"path":"/repo/Cargo.toml","line":3}]}"#
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

mod cancel;
mod capabilities;
mod chunk;
mod config;
mod content;
pub(crate) mod declare;
mod elicitation;
mod fs;
mod ids;
mod initialize;
mod leaf;
mod mcp;
pub(crate) mod object;
mod path;
mod permission;
mod plan;
mod prompt;
mod raw;
mod session;
pub(crate) mod shape;
mod subagent;
mod terminal;
mod tool;
mod update;
mod vendor;

pub use cancel::*;
pub use capabilities::*;
pub use chunk::decode_update;
pub(crate) use chunk::{write_plain, write_text};
pub use config::*;
pub use content::*;
pub use elicitation::*;
pub use fs::*;
pub use ids::*;
pub use initialize::*;
pub use leaf::{List, Patch};
pub use mcp::*;
pub use path::AcpPath;
pub use permission::*;
pub use plan::*;
pub use prompt::*;
pub use raw::{Extra, Meta, Raw};
pub use session::*;
pub use shape::{
    Fault, FaultReason, Finding, Malformed, Read, Shape, Trail, decode, decode_raw, decode_result, inspect,
};
pub use subagent::*;
pub use terminal::*;
pub use tool::*;
pub use update::*;
pub use vendor::*;
