//! What is passed over, what is told about it, and what is never told.

use pintle_acp::types::*;
use pintle_acp::{Error, ErrorCode};
use serde_json::json;

fn findings<T: Shape>(json: &serde_json::Value) -> Vec<String> {
    let value: T = decode(&json.to_string()).expect("lenient");
    inspect(&value)
        .into_iter()
        .map(|finding| match finding {
            Finding::UnknownMember { path } => format!("unknown member {path}"),
            Finding::UnknownValue { path } => format!("unknown value {path}"),
            Finding::Malformed(fault) => fault.to_string(),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// A capability of the wrong type is a type error of that member, told, and never a yes.
#[test]
fn r_122_wrong_capabilities_are_told() {
    let json = json!({
        "fs": {"readTextFile": "yes", "writeTextFile": true},
        "terminal": 1,
        "session": {"notices": true, "compaction": null},
        "fileSystem": {"readTextFile": true},
    });
    let capabilities: ClientCapabilities = decode(&json.to_string()).expect("lenient");
    assert!(!capabilities.fs.read_text_file && capabilities.fs.write_text_file && !capabilities.terminal);
    let session = capabilities.session.as_ref().expect("an object");
    assert!(session.notices.is_none() && session.compaction.is_none());
    assert_eq!(
        findings::<ClientCapabilities>(&json),
        [
            "fs.readTextFile: expected true or false",
            "session.notices: expected an object",
            "unknown member fileSystem",
            "terminal: expected true or false",
        ]
    );
}

/// G-01: the key is `fs`; `fileSystem` advertises nothing.
#[test]
fn g_01_file_system_key() {
    let capabilities: ClientCapabilities =
        decode(r#"{"fileSystem":{"readTextFile":true,"writeTextFile":true}}"#).expect("lenient");
    assert_eq!(capabilities.fs, FileSystemCapabilities::new());
    let ours = ClientCapabilities::new().fs(FileSystemCapabilities::new().read_text_file(true));
    assert_eq!(serde_json::to_value(ours).expect("writable"), json!({"fs": {"readTextFile": true}}));
}

/// R-211: items that are broken are passed over and told, with their place in the list as it came.
#[test]
fn r_211_passed_over_items() {
    let json = json!({"entries": [
        {"content": "a", "priority": "high", "status": "pending"},
        {"content": "b"},
        {"content": "c", "priority": "urgent", "status": "pending"},
        7,
    ]});
    let plan: Plan = decode(&json.to_string()).expect("lenient");
    assert_eq!(plan.entries.len(), 2);
    assert_eq!(plan.entries.skipped().map(|(at, _)| at).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(
        findings::<Plan>(&json),
        ["unknown value entries[2].priority", "entries[1].priority: missing", "entries[3]: expected a plan entry",]
    );
}

/// What a strict reader has nothing against: absent, `null` where it is allowed, defaults spelled out.
#[test]
fn nothing_to_tell() {
    let json =
        json!({"toolCallId": "t", "title": "T", "kind": "other", "status": "pending", "content": [], "rawInput": null});
    assert_eq!(findings::<ToolCall>(&json), Vec::<String>::new());
    let json = json!({"toolCallId": "t", "title": null, "kind": null, "content": null, "_meta": null});
    assert_eq!(findings::<ToolCallUpdate>(&json), Vec::<String>::new());
}

/// What was kept gives way to what is set afterwards, and a member never comes twice.
#[test]
fn set_wins_over_kept() {
    let call: ToolCall = decode(r#"{"toolCallId":"t","title":"T","kind":5,"content":"x","more":1}"#).expect("lenient");
    let call = call.kind(ToolKind::Edit).content([ToolCallContent::from("done")]);
    assert_eq!(
        serde_json::to_value(&call).expect("writable"),
        json!({"toolCallId": "t", "title": "T", "kind": "edit", "more": 1,
               "content": [{"type": "content", "content": {"type": "text", "text": "done"}}]})
    );
    let mut plan: Plan = decode(r#"{"entries":[{"content":"a"},null]}"#).expect("lenient");
    plan.entries.push(PlanEntry::new("b", PlanEntryPriority::Low, PlanEntryStatus::Pending));
    assert_eq!(
        serde_json::to_value(&plan).expect("writable")["entries"],
        json!([{"content": "a"}, null, {"content": "b", "priority": "low", "status": "pending"}])
    );
}

/// G-16, R-075: a fault names the member and what was expected, and never what was there.
#[test]
fn g_16_faults_do_not_echo() {
    let check = |json: &str, expected: &str| {
        let fault = decode::<PromptRequest>(json).expect_err("refused");
        assert_eq!(fault.to_string(), expected);
        let error = Error::invalid_params(&fault);
        assert_eq!(error.code, ErrorCode::InvalidParams);
        let text = serde_json::to_string(&error).expect("writable");
        assert!(!text.contains("hunter2"), "{text}");
    };
    check(r#"{"sessionId":"s","prompt":"hunter2"}"#, "prompt: expected a list");
    check(r#"{"sessionId":["hunter2"],"prompt":[]}"#, "sessionId: expected a string");
    check(r#"{"sessionId":"s","prompt":[{"type":"text","text":{"hunter2":1}}]}"#, "prompt[0].text: expected a string");
    check(r#"{"sessionId":"s","prompt":[{"hunter2":1}]}"#, "prompt[0].type: missing");
    check(
        r#"{"sessionId":"s","prompt":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"hunter2"}}]}"#,
        "prompt[1].resource: expected resource contents with text or blob",
    );
    check(r#"{"sessionId":"s"}"#, "prompt: missing");
    check(r#""hunter2""#, "expected a session/prompt request");
}

/// R-039: an error needs an integer code and a string message; the rest is kept.
#[test]
fn r_039_error_objects() {
    let text = r#"{"code":-32050,"message":"m","data":{"a":1},"trace":"t"}"#;
    let error: Error = decode(text).expect("an error");
    assert_eq!(error.code, ErrorCode::Other(-32050));
    assert_eq!(serde_json::to_string(&error).expect("writable"), text);
    assert!(decode::<Error>(r#"{"code":"oops"}"#).is_err());
    assert!(decode::<Error>(r#"{"code":1.5,"message":"m"}"#).is_err());
    assert!(decode::<Error>(r#"{"code":1}"#).is_err());
}

/// The codes of the protocol, and the one of ours (G-15).
#[test]
fn g_15_error_codes() {
    let codes = [
        (Error::parse_error(), -32700),
        (Error::invalid_request("x"), -32600),
        (Error::prompt_in_flight(), -32600),
        (Error::initialize_required("m"), -32600),
        (Error::method_not_found("m"), -32601),
        (Error::internal_error(), -32603),
        (Error::server_busy(1000), -32603),
        (Error::auth_required(), -32000),
        (Error::resource_not_found("file:///x"), -32002),
        (Error::session_not_found(SessionId::new("s")), -32002),
        (Error::attach_denied(), -32003),
        (Error::request_cancelled(), -32800),
    ];
    for (error, code) in codes {
        assert_eq!(error.code.get(), code);
        assert_eq!(ErrorCode::from(code), error.code);
        assert!(!error.message.is_empty());
        assert_eq!(decode::<Error>(&serde_json::to_string(&error).expect("writable")).expect("an error"), error);
    }
}

/// R-215 as the protocol has it: `mcpServers` is required where a session is made or loaded, and may be left out where one is
/// resumed. R-214: an entry without a type is a command, and may say so.
#[test]
fn r_215_where_mcp_servers_may_be_left_out() {
    let servers = |json: &str| decode::<NewSessionRequest>(json).map(|request| request.mcp_servers.to_vec());
    assert!(servers(r#"{"cwd":"/w"}"#).is_err());
    assert!(decode::<LoadSessionRequest>(r#"{"sessionId":"s","cwd":"/w"}"#).is_err());
    let resume: ResumeSessionRequest = decode(r#"{"sessionId":"s","cwd":"/w"}"#).expect("lenient");
    assert!(resume.mcp_servers.is_empty());
    for entry in [
        r#"{"name":"n","command":"c","args":[],"env":[]}"#,
        r#"{"type":"stdio","name":"n","command":"c","args":[],"env":[]}"#,
    ] {
        let found = servers(&format!(r#"{{"cwd":"/w","mcpServers":[{entry}]}}"#)).expect("lenient");
        assert!(matches!(&found[..], [McpServer::Stdio(server)] if server.command == "c"), "{entry}");
    }
    assert!(servers(r#"{"cwd":"/w","mcpServers":{}}"#).is_err());
    assert!(servers(r#"{"cwd":"/w","mcpServers":[{"name":"n"}]}"#).is_err());
}

/// R-216: what is not set is not written, and neither is a capability object that grants nothing.
#[test]
fn r_216_what_is_not_set_is_not_written() {
    let written = |value: serde_json::Value, expected| assert_eq!(value, expected);
    written(serde_json::to_value(AgentCapabilities::new()).expect("writable"), json!({}));
    written(serde_json::to_value(ClientCapabilities::new()).expect("writable"), json!({}));
    written(serde_json::to_value(ToolCallUpdate::new("t")).expect("writable"), json!({"toolCallId": "t"}));
}

/// Older peers answer `null` where there is nothing to tell.
#[test]
fn null_results() {
    let null = Raw::parse("null").expect("JSON");
    assert!(decode_result::<LoadSessionResponse>(null.as_raw_value()).is_ok());
    assert!(decode_result::<WriteTextFileResponse>(null.as_raw_value()).is_ok());
    assert!(decode_result::<NewSessionResponse>(null.as_raw_value()).is_err());
    assert_eq!(
        decode_result::<PromptResponse>(null.as_raw_value()).expect_err("refused").to_string(),
        "expected a session/prompt response"
    );
}

/// G-20: what was not advertised is refused by name.
#[test]
fn g_20_content_and_transports_are_checked() {
    let check = |blocks: Vec<ContentBlock>, capabilities: &PromptCapabilities, expected: Option<&str>| {
        let fault = PromptRequest::new("s", blocks).require_advertised(capabilities).err();
        assert_eq!(fault.map(|fault| fault.to_string()).as_deref(), expected);
    };
    let none = PromptCapabilities::new();
    let image = || ContentBlock::from(ImageContent::new("AA==", "image/png"));
    check(vec!["a".into(), ResourceLink::new("n", "u").into()], &none, None);
    check(
        vec!["a".into(), image()],
        &none,
        Some("prompt[1]: needs the capability promptCapabilities.image, which was not advertised"),
    );
    check(vec![image()], &PromptCapabilities::new().image(true), None);

    let servers = |server: &str| -> NewSessionRequest {
        decode(&format!(r#"{{"cwd":"/w","mcpServers":[{server}]}}"#)).expect("well-formed")
    };
    let agent = AgentCapabilities::new().mcp_capabilities(McpCapabilities::new().http(true));
    assert!(servers(r#"{"type":"http","name":"n","url":"u","headers":[]}"#).require_advertised(&agent).is_ok());
    assert_eq!(
        servers(r#"{"type":"sse","name":"n","url":"u","headers":[]}"#)
            .require_advertised(&agent)
            .expect_err("refused")
            .to_string(),
        "mcpServers[0].type: needs the capability mcpCapabilities.sse, which was not advertised"
    );
    // R-214, G-19: an unknown transport is never started as a command.
    assert_eq!(
        servers(r#"{"type":"pigeon","name":"n","command":"c","args":[],"env":[]}"#)
            .require_advertised(&agent)
            .expect_err("refused")
            .to_string(),
        "mcpServers[0].type: expected a known transport"
    );
}
