//! The envelope against a map of raw values that serde_json makes.

use std::collections::BTreeMap;

use pintle_wire::{
    Answer, Envelope, EnvelopeError, Id, IdField, Kind, Profile, RootKind, ScanLimits, VersionRule, scan,
};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members are those that serde_json finds, with the same text; the id is echoed byte for byte; classification is total
/// and only a message with a method or without a result can be answered.
pub fn envelope(input: &[u8]) {
    let Ok(text) = scan(input, Profile::Acp, ScanLimits::CONTROL) else { return };
    let envelope = match Envelope::parse(&text) {
        Ok(envelope) => envelope,
        Err(error) => {
            let expected = if text.root() == RootKind::Array { EnvelopeError::Batch } else { EnvelopeError::Scalar };
            assert_eq!(error, expected);
            assert_ne!(text.root(), RootKind::Object);
            return;
        }
    };
    let members: BTreeMap<String, &RawValue> = text.decode().expect("an object");
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    assert_eq!(
        envelope.unknown_members as usize,
        members.keys().filter(|name| !known.contains(&name.as_str())).count()
    );
    let raw = |name: &str| members.get(name).map(|raw| raw.get());
    assert_eq!(envelope.params.map(RawValue::get), raw("params"));
    assert_eq!(envelope.result.map(RawValue::get), raw("result"));
    assert_eq!(envelope.error.map(RawValue::get), raw("error"));
    assert_eq!(envelope.method_raw.map(RawValue::get), raw("method"));
    let method = raw("method").and_then(|raw| serde_json::from_str::<String>(raw).ok());
    assert_eq!(envelope.method.as_deref(), method.as_deref());

    let sent = envelope.id.raw().map(RawValue::get);
    assert_eq!(sent.map(str::len), raw("id").map(str::len));
    if text.lone_surrogates() == 0 {
        assert_eq!(sent, raw("id"));
    }
    let value = raw("id").map(|raw| serde_json::from_str::<Value>(raw).unwrap_or(Value::Bool(false)));
    let expected = match &value {
        Some(Value::String(id)) => Some(Id::from(id.as_str())),
        // serde_json reads `-0` as a double.
        Some(Value::Number(_)) => raw("id").and_then(|raw| raw.parse().ok()).map(Id::Int),
        _ => None,
    };
    assert_eq!(envelope.id.id(), expected);
    assert_eq!(matches!(envelope.id, IdField::Null { .. }), value == Some(Value::Null));
    if let Some(peer) = envelope.id.peer_id() {
        let mut echo = Vec::new();
        peer.write(&mut echo);
        assert_eq!(Some(String::from_utf8_lossy(&echo).as_ref()), sent);
        assert_eq!(serde_json::to_string(&peer).ok().as_deref(), sent);
    }

    for rule in [VersionRule::Required, VersionRule::Ignored] {
        let has_method = members.contains_key("method");
        let has_outcome = members.contains_key("result") || members.contains_key("error");
        match envelope.kind(rule) {
            Kind::Request => assert!(method.is_some() && envelope.id.is_legal()),
            Kind::Notification => assert!(method.is_some() && !envelope.id.is_present()),
            Kind::Response => assert!(!has_method && has_outcome && envelope.id.is_legal()),
            Kind::Malformed(malformed) => {
                assert_eq!(malformed.answer() == Answer::Nothing, !has_method && has_outcome);
            }
        }
    }
}
