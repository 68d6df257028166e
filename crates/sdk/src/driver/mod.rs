//! Both sides of Driver RPC over processes: [`Core`] starts a driver and speaks to it, [`serve`] is what a driver runs.
//!
//! The rules are those of [`pintle_driver`], whose types are re-exported here; this module adds pipes, tasks and time.
//!
//! ```no_run
//! use pintle_sdk::driver::{Channels, Driver, HelloResult, Invocation, TerminalStatus, serve};
//!
//! struct Echo(HelloResult);
//!
//! impl Driver for Echo {
//!     fn hello(&self) -> HelloResult {
//!         self.0.clone()
//!     }
//!
//!     async fn invoke(&self, invocation: Invocation) -> TerminalStatus {
//!         let Ok(input) = invocation.input().await else { return TerminalStatus::Errored };
//!         match invocation.observe("echo.length", &input.len()).await {
//!             Ok(_) => TerminalStatus::Completed,
//!             Err(_) => TerminalStatus::Errored,
//!         }
//!     }
//! }
//!
//! # async fn run(hello: HelloResult) -> Result<(), Box<dyn std::error::Error>> {
//! let data_stream = std::env::var("PINTLE_DATA_STREAM").ok();
//! serve(Echo(hello), Channels::stdio(data_stream.as_deref())?).await?;
//! # Ok(())
//! # }
//! ```

mod artifact;
mod author;
mod channels;
mod clock;
mod describe;
mod error;
mod feed;
mod host;
mod input;
mod invocation;
mod invocations;
mod launch;
mod memory;
mod pump;
mod recorder;
mod rules;
mod run;
mod serve;

pub use artifact::{Artifact, artifact_digest};
pub use author::Driver;
pub use channels::{Channels, StdioReader, StdioWriter};
pub use clock::{FairClock, LONGEST_WAIT, Waiting};
pub use describe::describe;
pub use error::{CoreError, Ended, StartError};
pub use feed::InputTaken;
pub use host::{Core, Plan};
pub use input::{InputError, MAX_INPUT_BYTES};
pub use invocation::{Invocation, ObserveError, StreamWriter};
pub use invocations::{InvocationEnd, Progress};
pub use launch::{DriverLaunch, Fixture};
pub use memory::MAX_MEMORY_INPUTS;
pub use pintle_driver::*;
pub use recorder::{Exchange, RecorderConfig, Refusal};
pub use rules::DriverRules;
pub use run::{CancelCause, Invoke, Observed, Run};
pub use serve::{MAX_QUEUED_BYTES, ServeConfig, ServeError, serve, serve_with};

/// The environment variable that tells a driver where its companion data stream is, such as `fd:3`.
pub const DATA_STREAM_VARIABLE: &str = "PINTLE_DATA_STREAM";

/// The environment variable that lowers the bound of a data frame's payload, in bytes.
pub const DATA_FRAME_MAX_VARIABLE: &str = "PINTLE_DATA_FRAME_MAX_BYTES";

/// The environment variable that tells a driver where its recorder listens: the path of a Unix socket.
pub const RECORDER_VARIABLE: &str = "PINTLE_RECORDER";
