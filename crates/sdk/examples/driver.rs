//! A complete driver: `text.count` counts lines, `text.watch` goes on until it is cancelled.
//!
//! `pintle driver check --operation text.count --lasting-operation text.watch -- target/debug/examples/driver` tries it.

use std::error::Error;

use pintle_sdk::driver::{
    Channels, DATA_STREAM_VARIABLE, Driver, HelloResult, Invocation, TerminalStatus, describe, serve,
};

struct Counter(HelloResult);

impl Driver for Counter {
    fn hello(&self) -> HelloResult {
        self.0.clone()
    }

    async fn invoke(&self, invocation: Invocation) -> TerminalStatus {
        let Ok(input) = invocation.input().await else { return TerminalStatus::Errored };
        let lines = input.split(|byte| *byte == b'\n').count();
        if invocation.observe("text.lines", &lines).await.is_err() {
            return TerminalStatus::Errored;
        }
        if *invocation.params().operation == *"text.watch" {
            invocation.cancelled().await;
            return TerminalStatus::Cancelled;
        }
        TerminalStatus::Completed
    }
}

/// Serves until Core shuts it down.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let hello = describe("line-counter", "1.0.0", &["text.count", "text.watch"])?;
    let channels = Channels::stdio(std::env::var(DATA_STREAM_VARIABLE).ok().as_deref())?;
    Ok(serve(Counter(hello), channels).await?)
}
