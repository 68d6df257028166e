//! Strict JSON, RFC 8785, NDJSON framing, data frames and the JSON-RPC envelope: the one door by which a peer's bytes enter.
//!
//! Nothing here does IO or reads a clock. Bytes are arguments, time is an argument, the next deadline is a return value.
//!
//! The way of a frame in: [`Framer`] cuts the byte stream into lines, [`scan`] proves that a line is strict JSON and hands
//! out a [`Text`], and only a [`Text`] can be decoded ([`Text::decode`], [`Envelope::parse`]). The way out: [`to_canonical`]
//! writes our own values in canonical form (RFC 8785), [`canonicalize`] does the same for text that a peer sent.
//!
//! ```
//! use pintle_wire::{Digest, Envelope, Framer, Kind, Line, Profile, ScanLimits, VersionRule, scan};
//!
//! let mut framer = Framer::new(ScanLimits::ACP.max_bytes);
//! framer.feed_slice(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth");
//! assert_eq!(framer.next(), None);
//! framer.feed_slice(b"od\":\"session/new\"}\r\n");
//! let Some(Line::Complete(line)) = framer.next() else { panic!("a line is complete") };
//!
//! let text = scan(&line, Profile::Acp, ScanLimits::ACP)?;
//! let envelope = Envelope::parse(&text)?;
//! assert_eq!(envelope.kind(VersionRule::Required), Kind::Request);
//! assert_eq!(envelope.method.as_deref(), Some("session/new"));
//!
//! let digest = Digest::of_json(&text)?;
//! assert_eq!(digest, Digest::of(br#"{"id":1,"jsonrpc":"2.0","method":"session/new"}"#));
//!
//! let twice = scan(br#"{"a":{"b":1,"\u0062":2}}"#, Profile::Acp, ScanLimits::ACP).unwrap_err();
//! assert_eq!(twice.to_string(), "duplicate member name at byte 12 (line 1, column 13)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod canon;
mod canon_key;
mod canon_ser;
mod data;
mod error;
mod form;
mod frame;
mod ids;
mod lex;
mod line;
mod members;
mod names;
mod number;
mod raw;
mod rpc;
mod scan;
mod table;
mod text;

pub use canon::{CanonError, append_integer, append_string, canonicalize, canonicalize_bytes, canonicalize_into};
pub use canon_ser::{append_canonical, to_canonical};
pub use data::{
    DATA_HEADER_MAX_BYTES, DataDecoder, DataError, DataEvent, DataFrameHeader, STREAM_ID_MAX_BYTES, encode_data_frame,
    encode_data_header,
};
pub use error::{JsonError, JsonErrorClass, JsonReason};
pub use form::scan_form;
pub use frame::{Framer, Line};
pub use ids::{Digest, DigestBuilder, DigestError, InstanceId, InstanceIdError};
pub use line::{LineError, strip_bom, strip_line_ending};
pub use number::{IntegerError, MAX_EXACT_INTEGER, MAX_SAFE_INTEGER, SafeI64, SafeU64, parse_integer};
pub use raw::{decode_raw, member, raw_value, string_value};
pub use rpc::{Answer, Envelope, EnvelopeError, Id, IdField, Kind, Malformed, PeerId, VersionField, VersionRule};
pub use scan::{
    DEFAULT_MAX_DATA_FRAME_BYTES, MAX_ACP_LINE_BYTES, MAX_CONTROL_FRAME_BYTES, MAX_DEPTH, Profile, ScanLimits, scan,
};
pub use table::{RequestTable, TableError};
pub use text::{DecodeError, DecodeReason, RootKind, Text};
