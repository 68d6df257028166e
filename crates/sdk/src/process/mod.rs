//! Child processes that do not outlive their owner.
//!
//! [`Process::spawn`] starts a program through the keeper ([`crate::shim`]): whatever it starts in turn, however detached,
//! is gone when the [`Process`] is dropped, when this process panics, exits or is killed. Its standard streams are
//! true asynchronous pipes, its standard error is drained and bounded, its environment is exactly what is passed.
//!
//! ```no_run
//! use pintle_sdk::process::{Environment, Ladder, Launch, Process, Program, Shim};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::var_os("PATH");
//! let base = std::env::current_dir()?;
//! let mut launch = Launch::new(Program::find("my-agent", path.as_deref(), &base)?);
//! launch.args = vec!["--acp".into()];
//! launch.env = Environment::agent_allowlist(std::env::vars_os());
//! launch.shim = Shim::find(None, path.as_deref(), &base);
//! let mut agent = Process::spawn(launch).await?;
//! let (stdin, stdout) = (agent.take_stdin(), agent.take_stdout());
//! // ... speak ...
//! # let _ = (stdin, stdout);
//! let outcome = agent.shut_down(Ladder::default()).await;
//! println!("{:?}", outcome.exit);
//! # Ok(())
//! # }
//! ```
//!
//! What the keeper cannot promise is in [`Isolation`]; what it costs is one more exec, 0.5 to 1 ms, whatever the size of
//! this process: nothing here forks it.

pub(crate) mod applied;
#[cfg(unix)]
mod bare;
mod child;
mod environment;
mod error;
#[cfg(windows)]
mod job;
#[cfg(target_os = "linux")]
mod kept;
mod launch;
#[cfg(unix)]
pub(crate) mod named_pipe;
pub(crate) mod outcome;
mod private_dir;
mod program;
mod progress;
#[cfg(target_os = "linux")]
pub(crate) mod protocol;
pub(crate) mod sandbox;
mod signal;
mod stderr;
mod streams;

pub use applied::{Applied, Aspect, Enforcement, Measure};
pub use child::Process;
pub use environment::Environment;
pub use error::SpawnError;
pub use launch::{Ladder, Launch, Shim, Stderr};
#[cfg(unix)]
pub use named_pipe::NamedPipe;
pub use outcome::{Descendants, Exit, Found, Isolation, NoIsolation, Outcome};
pub use private_dir::PrivateDir;
pub use program::{Program, ProgramError};
pub use sandbox::{Exceeded, Network, Paths, ResourceLimits, Sandbox};
pub use signal::Signal;
pub use stderr::{Captured, STDERR_HEAD_BYTES, STDERR_TAIL_BYTES, StderrCapture};
#[cfg(all(test, unix))]
pub(crate) use streams::of_pipes;
pub use streams::{ChildStderr, ChildStdin, ChildStdout};
