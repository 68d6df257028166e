//! What a step of a scenario came to, as lines that people can read and compare. The clients print what their SDK's types
//! hold; here it is put into words, once for all of them.

use serde::Deserialize;
use serde_json::Value;

/// Longest text of a chunk that is shown as it is.
const TEXT_MAX_BYTES: usize = 200;
/// More chunks of one kind in a row than this are counted.
const RUN_MAX_CHUNKS: usize = 20;

/// One line of a client's output.
#[derive(Debug, Deserialize)]
pub struct Played {
    pub step: String,
    #[serde(default)]
    updates: Vec<Value>,
    #[serde(default)]
    calls: Vec<Call>,
    #[serde(default)]
    more: serde_json::Map<String, Value>,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    pub skipped: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Call {
    method: String,
    params: Value,
}

/// The step in words. `summary` counts the updates and calls, where each of them is the matter of another step.
pub fn lines(played: &Played, cwd: &str, summary: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if summary {
        lines.push(format!("{} updates, {} calls", played.updates.len(), played.calls.len()));
    } else {
        lines.extend(updates(&played.updates));
        lines.extend(played.calls.iter().map(|call| call_line(&call.method, &call.params, cwd)));
    }
    for (name, value) in &played.more {
        let came = value.get("error").map_or_else(|| result_line(&value["result"], cwd), error_line);
        lines.extend(came.into_iter().map(|line| format!("{name}: {line}")));
    }
    match (&played.result, &played.error) {
        (_, Some(error)) => lines.extend(error_line(error)),
        (result, None) => lines.extend(result_line(result.as_ref().unwrap_or(&Value::Null), cwd)),
    }
    lines
}

fn error_line(error: &Value) -> Vec<String> {
    vec![format!("error {}", error.as_str().map_or_else(|| error.to_string(), str::to_owned))]
}

fn updates(notifications: &[Value]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = notifications;
    while let Some(first) = rest.first() {
        let kind = text(&first["update"], "sessionUpdate");
        let run = rest.iter().take_while(|n| n["update"]["sessionUpdate"] == kind && kind.ends_with("_chunk")).count();
        if run > RUN_MAX_CHUNKS {
            let numbered = rest[..run]
                .iter()
                .enumerate()
                .all(|(number, n)| text(&n["update"]["content"], "text") == format!("{number}\n"));
            lines.push(format!("{kind} x{run}{}", if numbered { ", numbered" } else { "" }));
            rest = &rest[run..];
        } else {
            lines.push(format!("{kind}{}", update_detail(&first["update"], &kind)));
            rest = &rest[1..];
        }
    }
    lines
}

fn update_detail(update: &Value, kind: &str) -> String {
    let words = match kind {
        "user_message_chunk"
        | "agent_message_chunk"
        | "agent_thought_chunk"
        | "compaction_summary_chunk"
        | "session_message_chunk" => content(&update["content"]),
        "tool_call" => format!(
            "{} {} {}",
            text(update, "toolCallId"),
            text(update, "kind"),
            // Pending is what is meant where nothing is said.
            update["status"].as_str().unwrap_or("pending")
        ),
        "tool_call_update" => {
            let mut words = vec![text(update, "toolCallId")];
            words.extend(update["status"].as_str().map(str::to_owned));
            words.extend(update["content"].as_array().into_iter().flatten().map(|item| text(item, "type")));
            words.join(" ")
        }
        "plan" => format!("{} entries", length(&update["entries"])),
        "plan_update" => format!("{} {}", text(&update["plan"], "planId"), text(&update["plan"], "type")),
        "plan_removed" => text(update, "planId"),
        "available_commands_update" => names(&update["availableCommands"], "name"),
        "current_mode_update" => text(update, "currentModeId"),
        "config_option_update" => options(&update["configOptions"]),
        "session_info_update" => text(update, "title"),
        "usage_update" => {
            let cost = &update["cost"];
            format!("{} of {}, {} {}", update["used"], update["size"], cost["amount"], text(cost, "currency"))
        }
        "notice" => format!("{} {}", text(update, "severity"), text(update, "title")),
        "compaction_update" => text(update, "status"),
        "subagent_update" => text(&update["state"], "state"),
        "session_message" => update["content"].as_array().into_iter().flatten().map(content).collect(),
        _ => update.to_string(),
    };
    if words.is_empty() { words } else { format!(" {words}") }
}

fn content(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => {
            let text = text(block, "text");
            if text.len() > TEXT_MAX_BYTES { format!("{} bytes", text.len()) } else { text }
        }
        other => format!("<{}>", other.unwrap_or("?")),
    }
}

fn call_line(method: &str, params: &Value, cwd: &str) -> String {
    let words = match method {
        "session/request_permission" => {
            format!("{} {}", text(&params["toolCall"], "toolCallId"), names(&params["options"], "kind"))
        }
        "fs/write_text_file" | "fs/read_text_file" => text(params, "path").replace(cwd, "CWD"),
        "terminal/create" => {
            let args: Vec<String> =
                params["args"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            format!("{} {} in {}", text(params, "command"), args.join(" "), text(params, "cwd").replace(cwd, "CWD"))
        }
        "elicitation/create" if params["mode"] == "form" => {
            let fields = params["requestedSchema"]["properties"].as_object();
            let mut fields: Vec<&str> = fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            fields.sort_unstable();
            format!("form {}", fields.join(" "))
        }
        "elicitation/create" => format!("url {}", text(params, "elicitationId")),
        "elicitation/complete" => text(params, "elicitationId"),
        _ => String::new(),
    };
    format!("call {method} {words}").trim_end().to_owned()
}

/// By its members: a result has no name.
fn result_line(result: &Value, cwd: &str) -> Vec<String> {
    if let Some(reason) = result["stopReason"].as_str() {
        return vec![reason.to_owned()];
    }
    if result.get("protocolVersion").is_some() {
        return hello(result);
    }
    if let Some(sessions) = result["sessions"].as_array() {
        let first = sessions.first().map(|first| format!(", the first in {}", text(first, "cwd").replace(cwd, "CWD")));
        let more = if result["nextCursor"].is_string() { "more to come" } else { "no more" };
        return vec![format!("{} sessions{}, {more}", sessions.len(), first.unwrap_or_default())];
    }
    let session = result["sessionId"].as_str().map(|id| if id.is_empty() { "no session" } else { "session S" });
    let modes = &result["modes"];
    let mode = modes
        .is_object()
        .then(|| format!("mode {} of {}", text(modes, "currentModeId"), names(&modes["availableModes"], "id")));
    let options = result["configOptions"].is_array().then(|| format!("options {}", options(&result["configOptions"])));
    let parts: Vec<String> = [session.map(str::to_owned), mode, options].into_iter().flatten().collect();
    vec![if parts.is_empty() { "{}".to_owned() } else { parts.join(", ") }]
}

fn hello(result: &Value) -> Vec<String> {
    let mut can = Vec::new();
    advertised(&result["agentCapabilities"], "", &mut can);
    can.sort_unstable();
    let auth = names(&result["authMethods"], "id");
    let who = result["agentInfo"]["name"].as_str().unwrap_or("nameless");
    let auth = if auth.is_empty() { "no auth".to_owned() } else { format!("auth {auth}") };
    vec![format!("version {}, {who}, {auth}", result["protocolVersion"]), format!("can {}", can.join(" "))]
}

/// Paths of what is `true` or an empty object; `_meta` apart.
fn advertised(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Bool(true) => found.push(path.to_owned()),
        Value::Object(members) if members.is_empty() && path.contains('.') => found.push(path.to_owned()),
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| *name != "_meta") {
                advertised(value, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, found);
            }
        }
        _ => {}
    }
}

fn options(options: &Value) -> String {
    let each = options.as_array().into_iter().flatten();
    let words: Vec<String> = each
        .map(|option| {
            let value = &option["currentValue"];
            format!("{}={}", text(option, "id"), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    words.join(" ")
}

fn names(items: &Value, member: &str) -> String {
    items.as_array().into_iter().flatten().map(|item| text(item, member)).collect::<Vec<_>>().join(" ")
}

fn length(items: &Value) -> usize {
    items.as_array().map_or(0, Vec::len)
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let played: Played = serde_json::from_str(line).expect("a line of a client");
        assert_eq!(lines(&played, "/some/here", false), expected);
    }

    #[test]
    fn a_step_is_put_into_words() {
        check(
            r#"{"step":"x","updates":[{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}],
                "result":{"stopReason":"end_turn"}}"#,
            &["agent_message_chunk hi", "end_turn"],
        );
        check(r#"{"step":"x","error":-32602}"#, &["error -32602"]);
        check(r#"{"step":"x","error":"connection"}"#, &["error connection"]);
        check(
            r#"{"step":"x","calls":[{"method":"fs/read_text_file","params":{"path":"/some/here/a"}}],"result":null}"#,
            &["call fs/read_text_file CWD/a", "{}"],
        );
        check(
            r#"{"step":"x","more":{"close":{"result":{}}},"result":{"sessionId":"s","configOptions":[{"id":"a","currentValue":true}]}}"#,
            &["close: {}", "session S, options a=true"],
        );
    }

    #[test]
    fn a_flood_is_counted() {
        let chunk = |n: usize| {
            format!(
                r#"{{"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{n}\n"}}}}}}"#
            )
        };
        let flood: Vec<String> = (0..30).map(chunk).collect();
        let line = format!(r#"{{"step":"x","updates":[{}],"result":{{}}}}"#, flood.join(","));
        check(&line, &["agent_message_chunk x30, numbered", "{}"]);
    }
}
