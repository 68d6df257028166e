//! Both ends of a session as values with five verbs and typed commands.
//!
//! ```text
//! feed(now, bytes) / eof(now)      bytes arrived
//! poll_event() -> Option<Event>    what the application must see
//! poll_output() -> Option<Output>  bytes to write, or close
//! poll_timeout() -> Option<Instant>
//! handle_timeout(now)
//! ```
//!
//! After each call drain the output, then the events, then look at the timeout. Time is an argument; nothing here reads a
//! clock or does IO. One call of `feed` makes at most as many events as its bytes hold frames, so who feeds bounded chunks
//! and drains in between holds bounded memory.

mod config;
mod core;
mod driver;
mod event;
mod fault;
mod running;
mod spending;

pub use config::{CoreConfig, DriverConfig, MAX_DETAILS_BYTES};
pub use core::CoreSession;
pub use driver::{DriverSession, ObservationBody};
pub use event::{CoreEvent, DriverEvent, Life, Output, RequestSeq};
pub use fault::{CommandError, Fault};
