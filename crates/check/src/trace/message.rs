//! Reads a line as a JSON-RPC message, and says what is wrong with it instead of refusing it.

use pintle_wire::{JsonReason, Profile, ScanLimits, scan};
use serde_json::Value;

use super::model::Shape;

/// A line as a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    pub(super) json: Value,
    pub(super) fault: &'static str,
    pub(super) detail: String,
    pub(super) shape: Shape,
    pub(super) lone_surrogates: u32,
}

impl Message {
    fn broken(fault: &'static str, detail: String) -> Self {
        Self { json: Value::Null, fault, detail, shape: Shape::Other, lone_surrogates: 0 }
    }
}

/// Reads one line. A message with a fault in its envelope still has its shape, so that one fault is one finding.
pub(super) fn read(line: &[u8]) -> Message {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Message::broken("blank", String::new());
    }
    let text = match scan(line, Profile::Acp, ScanLimits::ACP) {
        Ok(text) => text,
        Err(error) => {
            let is_list = line.trim_ascii_start().starts_with(b"[");
            let fault = match scan_fault(error.reason) {
                // Where our reading stops says nothing of the rest, but a list is no message whatever is in it.
                "too_deep" | "number_range" if is_list => "batch",
                fault => fault,
            };
            return Message::broken(fault, error.to_string());
        }
    };
    let lone_surrogates = text.lone_surrogates();
    match text.decode::<Value>() {
        Ok(json) => {
            let (shape, fault) = envelope(&json);
            Message { json, fault, detail: String::new(), shape, lone_surrogates }
        }
        Err(error) => Message::broken("syntax", error.to_string()),
    }
}

fn scan_fault(reason: JsonReason) -> &'static str {
    match reason {
        JsonReason::InvalidUtf8 => "invalid_utf8",
        JsonReason::TooLarge { .. } => "too_large",
        JsonReason::TooDeep { .. } => "too_deep",
        JsonReason::DuplicateName => "duplicate_name",
        JsonReason::NumberOutOfRange => "number_range",
        JsonReason::ByteOrderMark => "byte_order_mark",
        _ => "syntax",
    }
}

/// Shape of a message and the first fault of its envelope, or an empty string.
fn envelope(json: &Value) -> (Shape, &'static str) {
    let Value::Object(object) = json else {
        return (Shape::Other, if json.is_array() { "batch" } else { "not_object" });
    };
    let method = object.get("method");
    let id = object.get("id");
    let has_outcome = object.contains_key("result") || object.contains_key("error");
    let shape = match (method, id) {
        (Some(_), Some(_)) => Shape::Request,
        (Some(_), None) => Shape::Notification,
        (None, _) if has_outcome => Shape::Response,
        (None, _) => Shape::Other,
    };
    let id_fits = match (shape, id) {
        (_, Some(Value::String(_))) => true,
        // A response echoes what it was asked with, and v1 allows null.
        (Shape::Response, Some(Value::Number(_))) | (_, Some(Value::Null)) => true,
        (_, Some(Value::Number(number))) => number.is_i64() || number.is_u64(),
        (Shape::Notification, None) => true,
        _ => false,
    };
    let fault = if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        "jsonrpc"
    } else if shape == Shape::Other {
        "shape"
    } else if method.is_some_and(|method| !method.is_string()) {
        "method"
    } else if method.is_some() && has_outcome {
        "method_and_outcome"
    } else if object.contains_key("result") && object.contains_key("error") {
        "result_and_error"
    } else if !id_fits {
        "id"
    } else if object.get("params").is_some_and(|params| !(params.is_object() || params.is_array() || params.is_null()))
    {
        "params"
    } else if object.get("error").is_some_and(|error| !error_fits(error)) {
        "error_object"
    } else {
        ""
    };
    (shape, fault)
}

fn error_fits(error: &Value) -> bool {
    let code = error.get("code").is_some_and(|code| code.is_i64() || code.is_u64());
    code && error.get("message").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, shape: Shape, fault: &str) {
        let message = read(line.as_bytes());
        assert_eq!((message.shape, message.fault), (shape, fault), "{line}");
    }

    #[test]
    fn well_formed_messages_have_a_shape_and_no_fault() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#, Shape::Request, "");
        check(r#"{"jsonrpc":"2.0","id":"a","method":"m"}"#, Shape::Request, "");
        check(r#"{"jsonrpc":"2.0","method":"m","params":[]}"#, Shape::Notification, "");
        check(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Shape::Response, "");
        check(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Shape::Response, "");
        check(r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, Shape::Response, "");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"m","params":null}"#, Shape::Request, "");
        check(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#, Shape::Response, "");
    }

    #[test]
    fn each_envelope_fault_has_its_name() {
        check(r#"{"id":1,"result":{}}"#, Shape::Response, "jsonrpc");
        check(r#"{"jsonrpc":2.0,"id":1,"result":{}}"#, Shape::Response, "jsonrpc");
        check(r#"{"jsonrpc":"2.0"}"#, Shape::Other, "shape");
        check(r#"{"jsonrpc":"2.0","id":1}"#, Shape::Other, "shape");
        check(r#"{"jsonrpc":"2.0","method":1}"#, Shape::Notification, "method");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#, Shape::Request, "method_and_outcome");
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            Shape::Response,
            "result_and_error",
        );
        check(r#"{"jsonrpc":"2.0","result":{}}"#, Shape::Response, "id");
        check(r#"{"jsonrpc":"2.0","id":true,"result":{}}"#, Shape::Response, "id");
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, Shape::Request, "id");
        check(r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, Shape::Request, "id");
        check(r#"{"jsonrpc":"2.0","method":"m","params":3}"#, Shape::Notification, "params");
        check(r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#, Shape::Response, "error_object");
        check(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, Shape::Response, "error_object");
        check("[]", Shape::Other, "batch");
        check("7", Shape::Other, "not_object");
    }

    #[test]
    fn each_scan_fault_has_its_name() {
        check(" \t", Shape::Other, "blank");
        check("hello", Shape::Other, "syntax");
        check("{\"a\":1,\"a\":2}", Shape::Other, "duplicate_name");
        check("\u{feff}{}", Shape::Other, "byte_order_mark");
        check("1e999", Shape::Other, "number_range");
        check(&format!("{{\"a\":{}", "[".repeat(300)), Shape::Other, "too_deep");
        check(&"[".repeat(300), Shape::Other, "batch");
        check("[1e999]", Shape::Other, "batch");
        assert_eq!(read(b"{\"a\":\"\xff\"}").fault, "invalid_utf8");
    }

    #[test]
    fn lone_surrogates_are_counted_and_kept_readable() {
        let message = read(br#"{"jsonrpc":"2.0","method":"m","params":{"t":"\ud83d"}}"#);
        assert_eq!((message.fault, message.lone_surrogates), ("", 1));
        assert_eq!(message.json["params"]["t"], "\u{fffd}");
    }
}
