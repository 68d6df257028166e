//! The reference agent (`pintle mock agent`): every stable method and update of ACP v1, chosen by the text of the prompt,
//! and every way of getting a requirement wrong, chosen by name.
//!
//! Its right behaviour is an ordinary [`Agent`](pintle_sdk::acp::Agent). A [`Fault`] sits between that agent and its
//! standard output and spoils what passes, so that a fault is one named departure from an agent that is right.

mod agent;
mod command;
mod ears;
mod fault;
mod last_words;
mod scenes;
mod settings;
mod spoil;

use std::fmt;
use std::sync::Arc;

use pintle_sdk::acp::{Closed, ServeError, serve};
use pintle_sdk::transport::{Transport, intercept};

use crate::pack::Manifest;

pub use command::{BIG_MAX_BYTES, Command, FLOOD_MAX_UPDATES, HELP, SLEEP_MAX_MS};
pub use fault::{FAULTS, Fault, FaultInfo};

/// How the mock agent behaves.
#[derive(Clone)]
pub struct MockOptions {
    /// The one thing that it does wrong.
    pub fault: Option<Fault>,
    /// Ends the process at once, for `crash` and for faults: only the binary may do that.
    pub die: Arc<dyn Fn() + Send + Sync>,
    /// The pack whose prompts it knows: they are written for real agents, and say beside it what this one does.
    pub pack: Option<Arc<Manifest>>,
}

impl MockOptions {
    fn command_of(&self, text: &str) -> Option<&str> {
        self.pack.as_ref()?.command_for(text)
    }
}

impl fmt::Debug for MockOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockOptions").field("fault", &self.fault).finish_non_exhaustive()
    }
}

/// Serves the mock agent until its client goes away.
///
/// # Errors
/// The transport could not be used.
pub async fn serve_mock(options: MockOptions, transport: impl Transport) -> Result<Closed, ServeError> {
    let fault = options.fault;
    let die = options.die.clone();
    let agent = agent::MockAgent::new(options);
    match fault {
        None => serve(agent, transport).await,
        Some(Fault::LastLineTorn) => serve(agent, last_words::LastWords::new(transport)).await,
        Some(fault) => {
            let mut spoiler = spoil::Spoiler::new(fault, die);
            serve(agent, intercept(transport, move |direction, line| spoiler.judge(direction, line))).await
        }
    }
}
