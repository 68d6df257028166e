//! The Agent Client Protocol: method table, lossless types, connection, session and turn, without IO.
//!
//! This is the protocol as values. Nothing here reads, writes, waits, spawns or looks at a clock: bytes and the time are
//! arguments, and what is to be done comes back. `pintle-sdk` puts these values on a runtime and a transport; use that to
//! build an agent or a client, and this to build something else (another runtime, a proxy, a test of every race).
//!
//! | part | what it is |
//! | --- | --- |
//! | [`METHODS`] | one table: wire name, side, kind, types, capability; dispatch, gates and documentation follow from it |
//! | [`types`] | every message of version 1; what is not known is kept, and comes out as it went in |
//! | [`AgentEnd`], [`ClientEnd`] | the two ends of a connection |
//! | [`TurnMachine`] | one session's turn, which the agent's end drives |
//! | [`permission`] | what an answer to a permission request means |
//!
//! # The five verbs
//!
//! `feed` and `eof` say what arrived, `poll_output` what to write, `poll_event` what the application must see,
//! `poll_timeout` when to come back, and `handle_timeout` that it is time. After any call: drain the output, then the events,
//! then look at the timeout.
//!
//! ```
//! use pintle_acp::{AgentEnd, AgentEvent, Call, ClientEnd, ClientEvent, Config, Outcome, Output, Reply};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = std::time::Instant::now();
//! let mut client = ClientEnd::new(Config::default());
//! let mut agent = AgentEnd::<()>::new(Config::default());
//!
//! // The client asks; "hello" is whatever its owner wants back with the outcome.
//! let call = Call::new("initialize", &json!({ "protocolVersion": 1 }))?;
//! client.request(&call, None, "hello").map_err(|(error, _)| error)?;
//! while let Some(Output::Bytes(bytes)) = client.poll_output() {
//!     client.wrote(bytes.len());
//!     agent.feed(now, &bytes);
//! }
//!
//! // The agent's application sees a request, and owes one answer.
//! let Some(AgentEvent::Request { request, .. }) = agent.poll_event() else { panic!("a request") };
//! assert_eq!(request.method, "initialize");
//! agent.reply(now, request.token, &Reply::ok(&json!({ "protocolVersion": 1 }))?);
//! while let Some(Output::Bytes(bytes)) = agent.poll_output() {
//!     agent.wrote(bytes.len());
//!     client.feed(now, &bytes);
//! }
//!
//! let Some(ClientEvent::Outcome { waiter, outcome: Outcome::Result(result), .. }) = client.poll_event() else {
//!     panic!("an outcome")
//! };
//! assert_eq!((waiter, result.as_str()), ("hello", r#"{"protocolVersion":1}"#));
//! assert!(client.is_initialized() && agent.is_initialized());
//! # Ok(())
//! # }
//! ```
//!
//! # Ordering
//!
//! All that depends on order is decided where a frame is read, in the order of the wire. Each frame gets a number there
//! ([`RxSeq`]); a prompt occupies its session there, so that a `session/cancel` behind it finds the turn however late its
//! task starts, and one ahead of it changes nothing. Frames leave in the order in which they were handed over. Updates of a
//! turn are accepted until its answer is, and never after; on the client's side each has its ordinal ([`Delivery`]), and the
//! outcome says how many there were.
//!
//! # Exactly one answer
//!
//! The obligation to answer is a value, [`ReplyToken`] or [`TurnToken`]. Giving it back answers; it cannot be given back
//! twice; dropping it anywhere, at any time, answers -32603. In the other direction each accepted request of ours comes back
//! once, with its waiter: a result, an error, timed out, its turn cancelled, or closed. What was given up with
//! `cancel_request` does not come back.
//!
//! # Cancellation
//!
//! `session/cancel`, and `$/cancel_request` for the prompt, raise [`AgentEvent::TurnCancelled`] once, and withdraw the
//! permission requests of the turn. The prompt is answered `cancelled` when every task that joined the turn has left it,
//! whatever they returned, or when [`Config::cancel_backstop`] is over ([`AgentEvent::TurnKilled`]). Any other request that
//! the peer gives up raises [`AgentEvent::RequestCancelled`] and is still owed one answer.
//!
//! # Backpressure
//!
//! What waits to be written counts until `wrote` says that it was. Above [`Config::max_call_backlog_bytes`] the next call is
//! refused with [`SendError::Full`]; above [`Config::max_reply_backlog_bytes`] `wants_input` is false, and the owner reads
//! no further from a peer that does not read its answers. Everything else that can grow has its bound in [`Config`], and
//! what is over it is answered "server busy", or dropped and counted ([`Counters`]); a connection does not end for it.
//!
//! # Permissions
//!
//! [`permission::Decision::judge`] says yes only to an outcome that selects an option which was offered and whose kind
//! allows. All else is a no, with its reason.
//!
//! # The end
//!
//! `eof` lets an agent answer what it owes within a short grace, `close` does the same from this side, `lost` ends at once.
//! After the last event, `Closed`, nothing is owed, nothing is open, and nothing that is fed is read. An end is never used
//! again.

mod conn;
mod error;
mod keys;
mod methods;
pub mod permission;
mod session;
pub mod types;

pub use conn::{
    AgentEnd, AgentEvent, Call, ClientEnd, ClientEvent, Closed, Config, CounterClass, Counters, Delivery, EncodeError,
    OutId, Outcome, Output, PeerNotification, PeerRequest, RawJson, Reply, ReplyToken, RequestKey, SendError,
    TextUpdate, TurnToken, UpdateError, timeouts,
};
pub use error::{Error, ErrorCode};
pub use methods::{
    Callback, Gate, Kind, Layer, METHODS, Method, MethodId, Notification, NotificationToAgent, NotificationToClient,
    Request, RequestToAgent, RequestToClient, Side, callbacks,
};
pub use session::{Begin, Effect, Ending, RxSeq, TurnKey, TurnMachine, TurnOver};
