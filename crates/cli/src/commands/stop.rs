//! How a user stops what runs.

use std::time::Duration;

#[cfg(unix)]
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::check::Signals;
use crate::error::CommandError;
use crate::exit::Exit;

/// How long the program may take to end when it was told twice.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// How a user stops what runs: the first time asks, the second does not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    pub(crate) cancel: CancellationToken,
    pub(crate) kill: CancellationToken,
}

impl Stop {
    /// Hears of signals. It belongs on a thread apart from the work, which may be stuck in a reader of our output that does
    /// not read.
    pub(crate) async fn watch(self) {
        let Some(mut signals) = Signals::new() else { return };
        signals.next().await;
        self.cancel.cancel();
        signals.next().await;
        self.kill.cancel();
        tokio::time::sleep(LAST_GRACE).await;
        give_up()
    }
}

/// A runtime for work on this thread, and signals heard of on another one.
#[cfg(unix)]
pub(crate) fn runtime() -> Result<(Runtime, Stop), CommandError> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CommandError::caused(Exit::Inconclusive, "runtime", &error))?;
    let stop = Stop::default();
    runtime.spawn(stop.clone().watch());
    Ok((runtime, stop))
}

/// The keepers kill all that was started when this process is gone.
#[expect(clippy::exit, reason = "the thread that should return from main is stuck in a write that nobody reads")]
fn give_up() {
    std::process::exit(i32::from(Exit::Failed as u8));
}

/// What is told of work that was stopped; `what` completes "failed to".
pub(crate) fn interrupted(exit: Exit, what: &str) -> CommandError {
    CommandError::new(exit, "interrupted", format!("{what}: it was interrupted"))
}
