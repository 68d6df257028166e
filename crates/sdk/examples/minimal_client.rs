//! The smallest client: starts the agent that its arguments name, opens a session, sends one prompt and prints what comes.
//!
//! ```console
//! $ cargo run --example minimal_client -- my-agent --acp
//! ```

#![expect(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;

use pintle_sdk::acp::types::{NewSessionRequest, PromptRequest, SessionUpdate};
use pintle_sdk::acp::{Client, connect};
use pintle_sdk::process::{Environment, Launch, Program, Shim};
use pintle_sdk::transport::child;

/// Advertises nothing, so the agent may ask nothing of it but permissions, which are denied.
struct Terminal;

impl Client for Terminal {}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let name = args.next().ok_or("name the agent's command line")?;
    let (path, base) = (std::env::var_os("PATH"), std::env::current_dir()?);
    let mut launch = Launch::new(Program::find(&name, path.as_deref(), &base)?);
    launch.args = args.collect();
    launch.env = Environment::from_iter(std::env::vars_os());
    // With a `pintle` on PATH nothing that the agent starts can outlive us, whatever becomes of us.
    launch.shim = Shim::find(None, path.as_deref(), &base);

    let transport = child(launch).await?;
    let mut agent = transport.watch();
    let connection = connect(Terminal, transport)?;
    connection.initialize().await?;
    let session = connection.request(NewSessionRequest::new(base.display().to_string())).await?.session_id;

    let mut turn = connection.prompt_stream(PromptRequest::new(session, vec!["hello".into()])).await?;
    while let Some(notification) = turn.next().await {
        if let SessionUpdate::AgentMessageChunk(chunk) = notification.update {
            println!("agent: {}", chunk.content.as_text().unwrap_or("(not text)"));
        }
    }
    println!("stopped: {}", turn.finish().await?.stop_reason.as_str());

    connection.shut_down().await?;
    let outcome = agent.gone().await;
    println!("agent gone: {}", outcome.is_some_and(|outcome| outcome.survivors.is_empty()));
    Ok(())
}
