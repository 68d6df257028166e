//! The smallest agent: one handler that opens sessions, one that answers prompts. An editor starts it and speaks to its
//! standard input and output.

use std::sync::atomic::{AtomicU64, Ordering};

use pintle_sdk::acp::types::{NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse};
use pintle_sdk::acp::{Agent, Ctx, Error, ServeError, Turn, serve};
use pintle_sdk::transport::stdio;

#[derive(Default)]
struct Echo {
    sessions: AtomicU64,
}

impl Agent for Echo {
    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(NewSessionResponse::new(format!("session-{number}")))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        turn.agent_text(request.text()).await?;
        Ok(PromptResponse::end_turn())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), ServeError> {
    serve(Echo::default(), stdio()).await?;
    Ok(())
}
