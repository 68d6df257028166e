//! What the driver needs to know about a line from the agent in order to react to it.
//!
//! This is a peek, not a verdict: a line that is garbage, a batch, or a message with a wrong envelope is recorded byte
//! for byte by the caller whatever this module makes of it. Only what a careful client would act on counts as a
//! request or a response here.

use pintle_wire::{Profile, ScanLimits, decode_raw, scan};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Deepest nesting that a line may have before it is no message, as the ACP side of Pintle bounds it.
const MAX_DEPTH: usize = 256;

/// A line from the agent, as far as the driver acts on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Inbound {
    /// A request of the agent, with its id as it was spelled. An id that is neither a string nor an integer cannot be
    /// echoed, so such a line is no request here.
    Request { id: String, method: String, params: Value },
    /// A notification of the agent.
    Notification { method: String, params: Value },
    /// A response; `id` as [`normal_id`] spells it.
    Response { id: String, result: Option<Value> },
    /// Anything else: not JSON, not an object, or an object that is none of the three.
    Other,
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// `null` is a value here, not an absent member.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// Peeks at one line without its line ending.
pub(crate) fn peek(line: &[u8], max_bytes: usize) -> Inbound {
    let limits = ScanLimits { max_bytes, max_depth: MAX_DEPTH };
    let Ok(text) = scan(line, Profile::Acp, limits) else { return Inbound::Other };
    let Ok(peek) = serde_json::from_str::<Peek<'_>>(text.as_str()) else { return Inbound::Other };
    let params = || peek.params.and_then(value).unwrap_or(Value::Null);
    match (peek.method, peek.id) {
        (Some(method), id) => {
            let Ok(method) = serde_json::from_str::<String>(method.get()) else { return Inbound::Other };
            match id.map(RawValue::get) {
                None => Inbound::Notification { method, params: params() },
                Some(id) if can_echo(id) => Inbound::Request { id: id.to_owned(), method, params: params() },
                Some(_) => Inbound::Other,
            }
        }
        (None, Some(id)) => match (peek.result, peek.error) {
            (None, None) => Inbound::Other,
            (result, error) => Inbound::Response {
                id: normal_id(id.get()),
                result: if error.is_some() { None } else { result.and_then(value) },
            },
        },
        (None, None) => Inbound::Other,
    }
}

/// One spelling for all spellings of the same id, so that `"a"` and `"\u0061"` match. Numbers keep their text: an agent
/// that turns 1 into 1.0 has not echoed it.
pub(crate) fn normal_id(raw: &str) -> String {
    match serde_json::from_str::<String>(raw) {
        Ok(text) => Value::String(text).to_string(),
        Err(_) => raw.trim().to_owned(),
    }
}

fn value(raw: &RawValue) -> Option<Value> {
    decode_raw(raw).ok()
}

fn can_echo(raw: &str) -> bool {
    raw.starts_with('"') || raw.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(line: &str, expected: Inbound) {
        assert_eq!(peek(line.as_bytes(), 1 << 20), expected, "{line}");
    }

    #[test]
    fn messages_are_told_apart_by_their_members() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#,
            Inbound::Request { id: "7".into(), method: "m".into(), params: json!({"a": 1}) },
        );
        check(
            r#"{"jsonrpc":"2.0","id":"x","method":"m"}"#,
            Inbound::Request { id: "\"x\"".into(), method: "m".into(), params: Value::Null },
        );
        check(
            r#"{"jsonrpc":"2.0","method":"m","params":[]}"#,
            Inbound::Notification { method: "m".into(), params: json!([]) },
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            Inbound::Response { id: "1".into(), result: Some(Value::Null) },
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
            Inbound::Response { id: "null".into(), result: None },
        );
        check(r#"{"id":"\u0061","result":{}}"#, Inbound::Response { id: "\"a\"".into(), result: Some(json!({})) });
    }

    #[test]
    fn what_cannot_be_acted_on_is_other() {
        for line in [
            "",
            "hello",
            "[]",
            "1",
            "{",
            r#"{"id":1}"#,
            r#"{"id":1.5,"method":"m"}"#,
            r#"{"id":null,"method":"m"}"#,
            r#"{"a":1,"a":2,"id":1,"result":1}"#,
        ] {
            check(line, Inbound::Other);
        }
    }

    /// A value may sit at depth 256; serde_json alone reads 127.
    #[test]
    fn deep_parts_are_read() {
        let deep = ["[".repeat(250), "]".repeat(250)].concat();
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#);
        let Inbound::Response { result: Some(result), .. } = peek(line.as_bytes(), 1 << 20) else { panic!("{line}") };
        assert_eq!(result.to_string(), deep);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{deep}}}"#);
        let Inbound::Notification { params, .. } = peek(line.as_bytes(), 1 << 20) else { panic!("{line}") };
        assert_eq!(params.to_string(), deep);
    }

    #[test]
    fn a_line_over_the_limit_is_other() {
        assert_eq!(peek(br#"{"method":"m"}"#, 5), Inbound::Other);
    }
}
