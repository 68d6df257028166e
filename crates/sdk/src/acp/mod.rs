//! Agents and clients of the Agent Client Protocol.
//!
//! An agent implements [`Agent`] and is served with [`serve`]; a client implements [`Client`] and is connected with
//! [`connect`]. Both sit on the same connection, which is a pure machine of `pintle-acp` and one loop around it.
//!
//! # Order
//! Frames of one connection are taken and sent in the order of the wire. Handlers of one session start in that order and
//! then run side by side; sessions do not wait for each other. A turn's updates leave before the answer to its prompt, and
//! reach a client before that answer does.
//!
//! # Waiting
//! The loop waits for nobody. A handler may send requests on its own connection and wait for their answers. Senders wait
//! when the peer does not read, receivers are not read for when they do not take: memory does not grow with the length of
//! a conversation.
//!
//! # The end
//! When the peer goes away, every open request of ours ends with [`RequestError::Closed`], handlers are stopped, and
//! [`serve`] returns. A connection is never restarted in place.

mod agent;
mod client;
mod connection;
mod ctx;
mod end;
pub mod host;
mod lane;
mod link;
mod pace;
mod run;
mod serve;
mod service;
mod stream;
mod tool;
mod turn;

pub use agent::Agent;
pub use client::Client;
pub use connection::{Connection, PendingReply, RequestError};
pub use ctx::{Ctx, DelegatedReply};
pub(crate) use run::Run;
pub use serve::{ClientConnection, ServeError, connect, connect_with, serve, serve_with};
pub(crate) use serve::{TASKS_GRACE, agent_connection, client_connection};
pub use stream::{CollectedTurn, PromptError, TurnStream};
pub use tool::{ToolRun, TurnTerminal};
pub use turn::Turn;

pub use pintle_acp::permission::{self, Decision};
pub use pintle_acp::{
    Callback, Closed, Config, CounterClass, Counters, Error, ErrorCode, METHODS, Method, MethodId, RawJson, RxSeq,
    SendError, Side, TurnOver, UpdateError, callbacks, timeouts, types,
};
