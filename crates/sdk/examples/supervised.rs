//! Agents inside a host's own supervisor: connections come and go as its children, are found by name, and their ends are
//! told; a worker that fails is started again; all of it ends with the host.

#![expect(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error as StdError;
use std::io;

use pintle_sdk::acp::types::{NewSessionRequest, NewSessionResponse};
use pintle_sdk::acp::{Agent, Client, Ctx, Error, connect};
use pintle_sdk::supervisor::{ChildCx, ChildSpec, Event, Limits, Restart, Supervisor, connection};
use pintle_sdk::transport::memory;

struct Greeter {
    greeting: String,
}

impl Agent for Greeter {
    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        Ok(NewSessionResponse::new(self.greeting.as_str()))
    }
}

struct Editor;

impl Client for Editor {}

/// Fails once, then does its work.
async fn index(cx: ChildCx) -> Result<(), io::Error> {
    if cx.restarts() == 0 {
        return Err(io::ErrorKind::Other.into());
    }
    cx.stopping().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn StdError>> {
    let host = Supervisor::start(Limits::default(), [ChildSpec::worker("index", Restart::Permanent, index)]).await?;
    let mut events = host.events();

    // Two editors connect. Each has a subtree of its own.
    let mut editors = Vec::new();
    for number in 1..=2 {
        let (ours, theirs) = memory();
        let agent = ChildSpec::agent(|greeting| Greeter { greeting }, theirs)
            .handler_arg(format!("hello-{number}"))
            .id(format!("agent-{number}"))
            .name(format!("editor {number}"));
        host.add(agent).await?;
        let editor = connect(Editor, ours)?;
        editor.initialize().await?;
        println!("session: {}", editor.request(NewSessionRequest::new("/")).await?.session_id);
        editors.push(editor);
    }
    let first = host.find("editor 1").ok_or("it was just started")?;
    println!("initialized: {}", connection(&first).is_some_and(|connection| connection.is_initialized()));

    // One goes away. It is told, and nothing takes its place.
    editors.remove(0).shut_down().await?;
    println!("{} ended: {}", first.id(), first.ended().await);
    println!("still there: {}", host.find("editor 1").is_some());

    while let Some(event) = events.next().await {
        if let Event::Started { path, restarts: restarts @ 1.. } = event {
            println!("{path} is up again after {restarts} restart");
            break;
        }
    }
    println!("host: {}", host.shutdown().await);
    Ok(())
}
