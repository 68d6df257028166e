//! A line, read: which kind of message it is, with its parts as views into it.

use std::borrow::Cow;

use bytes::Bytes;
use pintle_wire::{
    Answer, Envelope, EnvelopeError, Id, IdField, Kind, PeerId, Profile, ScanLimits, VersionRule, decode_raw, scan,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::usual::TextUpdate;
use super::{Config, RawJson};
use crate::Error;
use crate::methods::MethodId;

const UPDATE: &str = MethodId::SessionUpdate.wire();

/// The name of a method; those of the table are not copied.
pub(crate) type MethodName = Cow<'static, str>;

/// What one line is.
#[derive(Debug)]
pub(crate) enum Inbound {
    Request {
        id: PeerId,
        method: MethodName,
        params: Option<RawJson>,
    },
    Notification {
        method: MethodName,
        params: Option<RawJson>,
    },
    Response {
        id: Id,
        answer: Result<RawJson, Error>,
    },
    /// Not strict JSON, or a root that can be no message: -32700.
    Unreadable,
    /// JSON, but no message: -32600, with the id if there is a legal one.
    Invalid {
        id: Option<PeerId>,
    },
    /// Looks like a response and cannot be read as one. Never answered: the answer could hit a request of the peer's own
    ///
    MalformedResponse,
}

/// Reads a line. Also says how many halves of surrogate pairs it had.
pub(crate) fn read(line: &Bytes, config: &Config) -> (Inbound, u32) {
    if let Some(params) = text_update(line, config) {
        return (Inbound::Notification { method: Cow::Borrowed(UPDATE), params: Some(params) }, 0);
    }
    let limits = ScanLimits { max_bytes: config.max_line_bytes, ..ScanLimits::ACP };
    let Ok(text) = scan(line, Profile::Acp, limits) else { return (Inbound::Unreadable, 0) };
    let lone_surrogates = text.lone_surrogates();
    let envelope = match Envelope::parse(&text) {
        Ok(envelope) => envelope,
        Err(EnvelopeError::Batch) => return (Inbound::Invalid { id: None }, lone_surrogates),
        Err(EnvelopeError::Scalar) => return (Inbound::Unreadable, lone_surrogates),
    };
    // Views are taken of the text that is decoded; the line itself is that text, but for lone surrogates.
    let base = if lone_surrogates == 0 { line.clone() } else { Bytes::copy_from_slice(text.as_str().as_bytes()) };
    let view = |raw: &RawValue| view(&base, text.as_str(), raw.get());
    let rule = if config.require_jsonrpc { VersionRule::Required } else { VersionRule::Ignored };
    let frame = match envelope.kind(rule) {
        Kind::Request => match (peer_id(&envelope.id, config), envelope.method) {
            (Some(id), Some(method)) => {
                Inbound::Request { id, method: name(method), params: envelope.params.map(view) }
            }
            _ => Inbound::Invalid { id: None },
        },
        Kind::Notification => match envelope.method {
            Some(method) => Inbound::Notification { method: name(method), params: envelope.params.map(view) },
            None => Inbound::Invalid { id: None },
        },
        Kind::Response => response(&envelope, view),
        Kind::Malformed(malformed) => match malformed.answer() {
            Answer::OwnId => Inbound::Invalid { id: peer_id(&envelope.id, config) },
            Answer::NullId => Inbound::Invalid { id: None },
            Answer::Nothing => Inbound::MalformedResponse,
        },
    };
    (frame, lone_surrogates)
}

/// The params of a piece of text in its usual form: read in one go.
fn text_update(line: &Bytes, config: &Config) -> Option<RawJson> {
    if line.len() > config.max_line_bytes {
        return None;
    }
    let params = TextUpdate::scan(line)?.params();
    Some(RawJson::from_scanned(line.slice(params)))
}

/// The id of a request, if it is legal and no longer than one that is kept.
fn peer_id(field: &IdField<'_>, config: &Config) -> Option<PeerId> {
    field.raw().is_some_and(|raw| raw.get().len() <= config.max_id_bytes).then(|| field.peer_id()).flatten()
}

fn name(method: Cow<'_, str>) -> MethodName {
    if method == UPDATE {
        return Cow::Borrowed(UPDATE);
    }
    match MethodId::from_wire(&method) {
        // An alias is kept as it was spelled: it is answered alike, but in its own spelling.
        Some(id) if id.wire() == method => Cow::Borrowed(id.wire()),
        _ => Cow::Owned(method.into_owned()),
    }
}

/// A response that has both an error and a result is an error (G-05): nobody may take it for a yes. Some peers write the one
/// that they do not mean as null.
fn response(envelope: &Envelope<'_>, view: impl Fn(&RawValue) -> RawJson) -> Inbound {
    let Some(id) = envelope.id.id() else { return Inbound::MalformedResponse };
    let error = envelope.error.filter(|error| envelope.result.is_none() || error.get() != "null");
    let answer = match (envelope.result, error) {
        (_, Some(error)) => match decode_raw::<Error>(error) {
            Ok(error) => Err(error),
            Err(_) => return Inbound::MalformedResponse,
        },
        (Some(result), None) => Ok(view(result)),
        (None, None) => return Inbound::MalformedResponse,
    };
    Inbound::Response { id, answer }
}

/// `part` lies within `text`, and `base` holds the same bytes.
fn view(base: &Bytes, text: &str, part: &str) -> RawJson {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    match start.checked_add(part.len()) {
        Some(end) if end <= base.len() => RawJson::from_scanned(base.slice(start..end)),
        _ => RawJson::from_scanned(Bytes::copy_from_slice(part.as_bytes())),
    }
}

/// The id that `$/cancel_request` names, if it is a legal one.
pub(crate) fn cancelled_id(params: &RawJson) -> Option<Id> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "requestId")]
        request_id: Id,
    }
    params.decode_lax::<Params>().map(|params| params.request_id)
}

#[cfg(test)]
mod tests {
    use super::super::usual::{BEFORE, END, END_BEHIND_MESSAGE};
    use super::*;

    fn params(line: &str) -> RawJson {
        let line = Bytes::copy_from_slice(line.as_bytes());
        match read(&line, &Config::default()) {
            (Inbound::Notification { method, params: Some(params) }, 0) if method == UPDATE => params,
            (other, _) => panic!("{other:?}"),
        }
    }

    /// a piece of text is the same notification whether its line has the usual form or another.
    #[test]
    fn the_usual_form_is_read_as_any_other() {
        for (session, kind, text) in [
            ("s1", "agent_message_chunk", "hello"),
            ("", "", ""),
            ("s\u{e9}", "plan", "\u{1f389}}}}}"),
            ("s1", "agent_message_chunk", "a\\nb\\u00e9"),
            ("s1", "agent_message_chunk", "a\\\\"),
            ("s1", "agent_message_chunk", "a\"},\"messageId\":\"m\\n1"),
            ("s1", "agent_message_chunk", "\"},\"messageId\":\""),
        ] {
            let end = if text.contains("messageId") { END_BEHIND_MESSAGE } else { END };
            let usual = format!("{}{session}\"{}{kind}\"{}{text}\"{end}", BEFORE[0], BEFORE[1], BEFORE[2]);
            assert!(text_update(&Bytes::copy_from_slice(usual.as_bytes()), &Config::default()).is_some(), "{usual}");
            let wide = format!("{} ", usual.replacen(':', ": ", 2));
            assert_eq!(params(&usual), params(&wide), "{usual}");
        }
    }

    /// The line limit holds for it too.
    #[test]
    fn the_usual_form_is_no_way_around_the_limit() {
        let line = format!("{}s\"{}k\"{}text\"{END}", BEFORE[0], BEFORE[1], BEFORE[2]);
        let line = Bytes::from(line);
        let config = |max_line_bytes| Config { max_line_bytes, ..Config::default() };
        assert!(matches!(read(&line, &config(line.len())), (Inbound::Notification { .. }, 0)));
        assert!(matches!(read(&line, &config(line.len() - 1)), (Inbound::Unreadable, 0)));
    }
}
