//! The task pointer: state v3, the compare-and-swap decision, hook events and host adapters, without IO.
//!
//! A session of a coding agent has one small record, its pointer: goal and next step, written by the model, given back to
//! it after a compaction, a resume, a crash. Every write makes a new pair of generation and revision, and a publish must
//! name the pair that is stored, so that nothing prepared before the user's newest prompt can overwrite what came after.
//!
//! This crate decides and never touches: bytes, clock and randomness are arguments. `pintle-store` keeps the files,
//! `pintle` is the command.
//!
//! * the record: [`State`], [`Observed`], [`PublishRequest`] and their strict codecs;
//! * the rules: [`decide()`], total over [`Observed`] and [`Event`];
//! * the text for the model: [`context`], with its form chosen by [`deliver`];
//! * the hosts: [`hook`], and their settings: [`install`];
//! * beside the protocol: the sidecar [`Meta`], the history ring, the record of a transfer.

mod agent;
mod code;
pub mod context;
mod decide;
mod delivery;
mod history;
pub mod hook;
mod ids;
pub mod install;
mod json;
mod meta;
mod publisher;
mod request;
mod schema;
mod state;
mod text;
mod time;
mod transfer;
mod wire_input;

pub use agent::{Agent, Compaction, UnknownAgent};
pub use code::{Code, STALE_GENERATION, STALE_REVISION};
pub use decide::{Answer, Decision, Event, Fresh, Refusal, Start, Write, decide};
pub use delivery::{ALWAYS_FULL_MAX_BYTES, FULL_EVERY_PROMPTS, FULL_EVERY_PROMPTS_SILENT, Form, Moment, deliver};
pub use history::{
    HISTORY_MAX_BYTES, HISTORY_MAX_ENTRIES, HISTORY_REWRITE_BYTES, decode_history, history_entry, rewrite_history,
};
pub use ids::{
    ABSENT, Generation, IdError, LEGACY_V2, REVISION_MAX, Revision, SESSION_ID_MAX_CHARS, SessionId, TaskId,
};
pub use meta::{Delivered, META_MAX_BYTES, Meta, TERMINALS_MAX, Terminal, prompt_key, text_key};
pub use publisher::{CONTEXT_ROOM_FOR_PATHS_BYTES, PUBLISHER_MAX_BYTES, Publisher, PublisherCommand, Shell};
pub use request::{PublishRequest, REQUEST_MAX_BYTES, RequestError, failure_receipt, success_receipt};
pub use schema::{publish_request_schema, state_schema};
pub use state::{
    Expectation, ExpectedGeneration, LegacyState, Observed, Pointer, STATE_MAX_BYTES, State, StateFault, Status, Task,
    session_in,
};
pub use text::{PointerText, TEXT_MAX_BYTES, TextError};
pub use time::{Timestamp, TimestampError};
pub use transfer::{RECORD_MAX_BYTES, RECORD_SCHEMA, RecordError, TaskRecord};
