//! How the driver answers what the agent asks, from the scenario's policy alone: no IO, no judgement.

use serde_json::{Map, Value, json};

use crate::pack::{Callbacks, ElicitationPolicy, FsPolicy, PermissionPolicy, TerminalPolicy};

/// JSON-RPC: the method does not exist or was not offered.
const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: the parameters do not fit.
const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: an internal error.
const INTERNAL: i64 = -32603;
/// What the made-up terminal has printed.
const TERMINAL_OUTPUT: &str = "pintle";

/// What happens with one request of the agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// Answer with this result.
    Result(Value),
    /// Answer with this error.
    Error { code: i64, message: String },
    /// Do not answer now; a later step, a cancel or nobody does.
    Hold,
    /// Never answer.
    Ignore,
    /// Read a file below the working directory.
    Read { path: String, line: Option<u64>, limit: Option<u64> },
    /// Write a file below the working directory.
    Write { path: String, content: String },
}

/// The answer to `method` under `policy`, for a client that offered `offered` (the `clientCapabilities` it sent).
pub(crate) fn answer(policy: &Callbacks, offered: &Map<String, Value>, method: &str, params: &Value) -> Answer {
    match method {
        "session/request_permission" => permission(policy.permission, params),
        "fs/read_text_file" if offers(offered, "fs", "readTextFile") => fs(policy.fs, params, read),
        "fs/write_text_file" if offers(offered, "fs", "writeTextFile") => fs(policy.fs, params, write),
        "elicitation/create" => elicitation(policy.elicitation, offered, params),
        _ => match method.strip_prefix("terminal/") {
            Some(call) if offered.get("terminal") == Some(&Value::Bool(true)) => terminal(policy.terminal, call),
            _ => Answer::Error { code: METHOD_NOT_FOUND, message: "method not found".into() },
        },
    }
}

/// The answer to a permission request that was held and is now given `choice`.
pub(crate) fn permission(choice: PermissionPolicy, params: &Value) -> Answer {
    let (wanted, fallback) = match choice {
        PermissionPolicy::AllowOnce => ("allow_once", "allow_always"),
        PermissionPolicy::AllowAlways => ("allow_always", "allow_once"),
        PermissionPolicy::RejectOnce => ("reject_once", "reject_always"),
        PermissionPolicy::RejectAlways => ("reject_always", "reject_once"),
        PermissionPolicy::Cancelled => return Answer::Result(cancelled()),
        PermissionPolicy::Hold => return Answer::Hold,
        PermissionPolicy::Ignore => return Answer::Ignore,
    };
    let option = option_of_kind(params, wanted).or_else(|| option_of_kind(params, fallback));
    // Nothing of the wanted polarity is offered: the honest answer of a user who cannot choose is to close the question.
    Answer::Result(option.map_or_else(cancelled, |id| json!({"outcome": {"outcome": "selected", "optionId": id}})))
}

/// The result that answers every open permission request once the turn was cancelled.
pub(crate) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn option_of_kind(params: &Value, kind: &str) -> Option<String> {
    params.get("options")?.as_array()?.iter().find_map(|option| {
        let matches = option.get("kind").and_then(Value::as_str) == Some(kind);
        matches.then(|| option.get("optionId").and_then(Value::as_str).map(str::to_owned)).flatten()
    })
}

fn fs(policy: FsPolicy, params: &Value, operation: fn(&Value) -> Option<Answer>) -> Answer {
    match policy {
        FsPolicy::Sandbox => operation(params)
            .unwrap_or_else(|| Answer::Error { code: INVALID_PARAMS, message: "invalid parameters".into() }),
        FsPolicy::Error => Answer::Error { code: INTERNAL, message: "the scenario refuses file access".into() },
        FsPolicy::Ignore => Answer::Ignore,
    }
}

fn read(params: &Value) -> Option<Answer> {
    let number = |name: &str| match params.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_u64().map(Some),
    };
    Some(Answer::Read { path: text(params, "path")?, line: number("line")?, limit: number("limit")? })
}

fn write(params: &Value) -> Option<Answer> {
    Some(Answer::Write { path: text(params, "path")?, content: text(params, "content")? })
}

/// The made-up terminal runs nothing: it hands out one id, a word of output and exit code 0, so that an agent can walk
/// the whole life of a terminal without a command touching the machine.
fn terminal(policy: TerminalPolicy, call: &str) -> Answer {
    match policy {
        TerminalPolicy::Error => {
            return Answer::Error { code: INTERNAL, message: "the scenario refuses terminals".into() };
        }
        TerminalPolicy::Ignore => return Answer::Ignore,
        TerminalPolicy::Fake => {}
    }
    match call {
        "create" => Answer::Result(json!({"terminalId": "pintle-terminal-1"})),
        "output" => Answer::Result(
            json!({"output": TERMINAL_OUTPUT, "truncated": false, "exitStatus": {"exitCode": 0, "signal": null}}),
        ),
        "wait_for_exit" => Answer::Result(json!({"exitCode": 0, "signal": null})),
        "kill" | "release" => Answer::Result(json!({})),
        _ => Answer::Error { code: METHOD_NOT_FOUND, message: "method not found".into() },
    }
}

fn elicitation(policy: ElicitationPolicy, offered: &Map<String, Value>, params: &Value) -> Answer {
    let Some(modes) = offered.get("elicitation").and_then(Value::as_object) else {
        return Answer::Error { code: METHOD_NOT_FOUND, message: "method not found".into() };
    };
    let mode = params.get("mode").and_then(Value::as_str).unwrap_or_default();
    if !modes.get(mode).is_some_and(Value::is_object) {
        return Answer::Error { code: INVALID_PARAMS, message: "the elicitation mode was not offered".into() };
    }
    match policy {
        ElicitationPolicy::Cancel => Answer::Result(json!({"action": "cancel"})),
        ElicitationPolicy::Decline => Answer::Result(json!({"action": "decline"})),
        ElicitationPolicy::Ignore => Answer::Ignore,
    }
}

fn offers(offered: &Map<String, Value>, outer: &str, inner: &str) -> bool {
    offered.get(outer).and_then(|group| group.get(inner)) == Some(&Value::Bool(true))
}

fn text(params: &Value, name: &str) -> Option<String> {
    params.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Map<String, Value> {
        let Value::Object(offered) = json!({
            "fs": {"readTextFile": true}, "terminal": true, "elicitation": {"form": {}}
        }) else {
            unreachable!("the literal is an object")
        };
        offered
    }

    fn check(method: &str, params: Value, expected: Answer) {
        let policy = Callbacks { permission: PermissionPolicy::AllowOnce, ..Callbacks::default() };
        assert_eq!(answer(&policy, &offered(), method, &params), expected, "{method} {params}");
    }

    fn not_found() -> Answer {
        Answer::Error { code: METHOD_NOT_FOUND, message: "method not found".into() }
    }

    fn selected(id: &str) -> Answer {
        Answer::Result(json!({"outcome": {"outcome": "selected", "optionId": id}}))
    }

    #[test]
    fn a_permission_is_chosen_by_kind_never_by_position() {
        let options = json!({"options": [
            {"optionId": "r", "kind": "reject_once"}, {"optionId": "A", "kind": "allow_always"},
            {"optionId": "a", "kind": "allow_once"}
        ]});
        check("session/request_permission", options.clone(), selected("a"));
        assert_eq!(permission(PermissionPolicy::RejectAlways, &options), selected("r"));
        assert_eq!(permission(PermissionPolicy::AllowAlways, &options), selected("A"));
    }

    #[test]
    fn without_an_option_of_the_polarity_the_question_is_cancelled() {
        for options in [json!({"options": [{"optionId": "r", "kind": "reject_once"}]}), json!({}), json!([1])] {
            check("session/request_permission", options, Answer::Result(cancelled()));
        }
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        check("fs/write_text_file", json!({"path": "/x", "content": ""}), not_found());
        check("_vendor/x", json!({}), not_found());
        check("terminal/unknown", json!({}), not_found());
        let policy = Callbacks::default();
        for method in ["terminal/create", "fs/read_text_file", "elicitation/create"] {
            assert_eq!(answer(&policy, &Map::new(), method, &json!({})), not_found(), "{method}");
        }
    }

    #[test]
    fn an_elicitation_needs_the_offered_mode() {
        check("elicitation/create", json!({"mode": "form"}), Answer::Result(json!({"action": "cancel"})));
        check(
            "elicitation/create",
            json!({"mode": "url"}),
            Answer::Error { code: INVALID_PARAMS, message: "the elicitation mode was not offered".into() },
        );
    }

    #[test]
    fn file_parameters_are_read_strictly() {
        check(
            "fs/read_text_file",
            json!({"path": "/w/a", "line": 2, "limit": null}),
            Answer::Read { path: "/w/a".into(), line: Some(2), limit: None },
        );
        check(
            "fs/read_text_file",
            json!({"path": "/w/a", "line": -1}),
            Answer::Error { code: INVALID_PARAMS, message: "invalid parameters".into() },
        );
    }
}
