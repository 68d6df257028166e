//! What a fault makes an agent deaf to: a line that it should get over costs it the request behind it.

use serde_json::Value;

use super::fault::Fault;

/// Lines above this length are lost by [`Fault::LongLineLost`].
const LONG_LINE_BYTES: usize = 100_000;
/// Lines above this length are lost by [`Fault::HugeLineLost`].
const HUGE_LINE_BYTES: usize = 500_000;

/// What an agent with a fault hears.
#[derive(Debug)]
pub(super) struct Ears {
    fault: Fault,
    deaf: bool,
}

impl Ears {
    pub(super) fn new(fault: Fault) -> Self {
        Self { fault, deaf: false }
    }

    /// Whether it hears `line`, which is `message` if it is JSON. `expected` says whether a response is one to a call.
    pub(super) fn hear(&mut self, line: &[u8], message: Option<&Value>, expected: bool) -> bool {
        match self.fault {
            Fault::LongLineLost if line.len() > LONG_LINE_BYTES => return false,
            Fault::HugeLineLost if line.len() > HUGE_LINE_BYTES => return false,
            _ => {}
        }
        if message.is_some_and(is_request) {
            return !std::mem::take(&mut self.deaf);
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        self.deaf |= match (self.fault, message) {
            (Fault::Utf8Fatal, None) => std::str::from_utf8(line).is_err(),
            (Fault::BlankFatal, None) => blank,
            (Fault::GarbageFatal, None) => !blank && std::str::from_utf8(line).is_ok(),
            (Fault::BatchFatal, Some(message)) => message.is_array(),
            (Fault::StrayFatal, Some(message)) => is_response(message) && !expected,
            (Fault::EnvelopeFatal, Some(message)) => {
                message.is_object() && message.get("method").is_none() && !is_response(message)
            }
            (Fault::BadIdFatal, Some(message)) => message.get("method").is_some() && !is_notification(message),
            _ => false,
        };
        true
    }
}

/// One that must be answered as it stands.
fn is_request(message: &Value) -> bool {
    let id = message.get("id");
    let good_id = id.is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
    good_id && message.get("method").is_some_and(Value::is_string) && message.get("jsonrpc").is_some()
}

fn is_notification(message: &Value) -> bool {
    message.get("id").is_none() && message.get("jsonrpc").is_some()
}

fn is_response(message: &Value) -> bool {
    message.get("id").is_some() && (message.get("result").is_some() || message.get("error").is_some())
}
