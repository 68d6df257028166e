//! Each variant once: built with the constructors, written as the protocol has it, read back the same.

use std::collections::BTreeSet;

use pintle_acp::types::*;
use serde_json::{Value, json};

fn check<T: Shape + PartialEq + std::fmt::Debug>(value: &T, expected: &Value) {
    let mut text = Vec::new();
    value.write(&mut serde_json::Serializer::new(&mut text)).expect("writable");
    let text = String::from_utf8(text).expect("UTF-8");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), *expected);
    assert_eq!(&decode::<T>(&text).expect("read back"), value);
    assert_eq!(inspect(value), []);
}

fn updates() -> Vec<(SessionUpdate, Value)> {
    let text = json!({"type": "text", "text": "t"});
    let entry = || PlanEntry::new("c", PlanEntryPriority::High, PlanEntryStatus::InProgress);
    let entry_json = json!({"content": "c", "priority": "high", "status": "in_progress"});
    vec![
        (SessionUpdate::user_text("t"), json!({"sessionUpdate": "user_message_chunk", "content": text})),
        (SessionUpdate::agent_text("t"), json!({"sessionUpdate": "agent_message_chunk", "content": text})),
        (
            SessionUpdate::AgentThoughtChunk(ContentChunk::new("t").message_id("m")),
            json!({"sessionUpdate": "agent_thought_chunk", "content": text, "messageId": "m"}),
        ),
        (
            ToolCall::new("t", "T").kind(ToolKind::Read).status(ToolCallStatus::Completed).into(),
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "read", "status": "completed"}),
        ),
        (
            ToolCallUpdate::new("t").content([ToolCallContent::from(Diff::new("/f", "new"))]).into(),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "t",
                   "content": [{"type": "diff", "path": "/f", "newText": "new"}]}),
        ),
        (Plan::new([entry()]).into(), json!({"sessionUpdate": "plan", "entries": [entry_json]})),
        (
            PlanUpdate::new(PlanItems::new("p", [entry()])).into(),
            json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [entry_json]}}),
        ),
        (PlanRemoved::new("p").into(), json!({"sessionUpdate": "plan_removed", "planId": "p"})),
        (
            AvailableCommandsUpdate::new([AvailableCommand::new("n", "d").input(AvailableCommandInput::new("h"))])
                .into(),
            json!({"sessionUpdate": "available_commands_update",
                   "availableCommands": [{"name": "n", "description": "d", "input": {"hint": "h"}}]}),
        ),
        (CurrentModeUpdate::new("m").into(), json!({"sessionUpdate": "current_mode_update", "currentModeId": "m"})),
        (
            ConfigOptionUpdate::new([SessionConfigOption::new("w", "Web", SessionConfigBoolean::new(true))]).into(),
            json!({"sessionUpdate": "config_option_update",
                   "configOptions": [{"id": "w", "name": "Web", "type": "boolean", "currentValue": true}]}),
        ),
        (
            SessionInfoUpdate::new().title("T").updated_at(Patch::Clear).into(),
            json!({"sessionUpdate": "session_info_update", "title": "T", "updatedAt": null}),
        ),
        (
            UsageUpdate::new(5u64, 10u64).cost(Cost::new(0.5, "USD")).into(),
            json!({"sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": {"amount": 0.5, "currency": "USD"}}),
        ),
        (
            Notice::new(NoticeSeverity::Warning, "t").into(),
            json!({"sessionUpdate": "notice", "severity": "warning", "title": "t"}),
        ),
        (
            CompactionUpdate::new("c", CompactionStatus::Completed).summary(List::from(["t"])).into(),
            json!({"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed", "summary": [text]}),
        ),
        (
            CompactionSummaryChunk::new("c", "t").into(),
            json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": text}),
        ),
        (
            SubagentUpdate::new("s2").state(StateUpdate::Idle(IdleState::new().stop_reason("end_turn"))).into(),
            json!({"sessionUpdate": "subagent_update", "sessionId": "s2",
                   "state": {"state": "idle", "stopReason": "end_turn"}}),
        ),
        (
            SessionMessage::new("m").content(List::from(["t"])).into(),
            json!({"sessionUpdate": "session_message", "messageId": "m", "content": [text]}),
        ),
        (
            SessionMessageChunk::new("m", "t").into(),
            json!({"sessionUpdate": "session_message_chunk", "messageId": "m", "content": text}),
        ),
    ]
}

/// R-212: every kind of update.
#[test]
fn r_212_each_update() {
    let mut seen = BTreeSet::new();
    for (update, json) in updates() {
        check(&update, &json);
        assert_eq!(update.tag(), json["sessionUpdate"]);
        seen.insert(update.tag().to_owned());
        check(&SessionNotification::new("s", update), &json!({"sessionId": "s", "update": json}));
    }
    assert_eq!(seen.len(), SessionUpdate::TAGS.len());
}

/// Markers that the client must have given.
#[test]
fn updates_that_need_a_capability() {
    let all = ClientCapabilities::new()
        .plan(Marker::new())
        .subagents(Marker::new())
        .session(ClientSessionCapabilities::new().notices(Marker::new()).compaction(Marker::new()));
    for (update, _) in updates() {
        assert!(update.is_understood_by(&all));
        assert_eq!(update.is_understood_by(&ClientCapabilities::new()), update.required_capability().is_none());
    }
}

#[test]
fn each_content_block() {
    let blocks: [(ContentBlock, Value); 6] = [
        ("t".into(), json!({"type": "text", "text": "t"})),
        (
            ImageContent::new("AA==", "image/png").uri("u").into(),
            json!({"type": "image", "data": "AA==", "mimeType": "image/png", "uri": "u"}),
        ),
        (
            AudioContent::new("AA==", "audio/wav").into(),
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
        ),
        (
            ResourceLink::new("n", "u").size(3i64).into(),
            json!({"type": "resource_link", "name": "n", "uri": "u", "size": 3}),
        ),
        (
            EmbeddedResource::new(TextResourceContents::new("u", "t")).into(),
            json!({"type": "resource", "resource": {"uri": "u", "text": "t"}}),
        ),
        (
            EmbeddedResource::new(BlobResourceContents::new("u", "AA==").mime_type("x/y"))
                .annotations(Annotations::new().audience([Role::User]).priority(1.0))
                .into(),
            json!({"type": "resource", "resource": {"uri": "u", "blob": "AA==", "mimeType": "x/y"},
                   "annotations": {"audience": ["user"], "priority": 1}}),
        ),
    ];
    for (block, json) in &blocks {
        check(block, json);
    }
}

#[test]
fn flattened_unions() {
    check(
        &SetSessionConfigOptionRequest::new("s", "c", true),
        &json!({"sessionId": "s", "configId": "c", "type": "boolean", "value": true}),
    );
    check(
        &SetSessionConfigOptionRequest::new("s", "c", "v"),
        &json!({"sessionId": "s", "configId": "c", "value": "v"}),
    );
    check(
        &CreateElicitationRequest::new("m", ElicitationUrl::new("e", "https://x/").session_id("s")),
        &json!({"message": "m", "mode": "url", "elicitationId": "e", "url": "https://x/", "sessionId": "s"}),
    );
    check(
        &CreateElicitationResponse::new(ElicitationAction::accept([(
            "a".to_owned(),
            ElicitationContentValue::Strings(vec!["x".into()]),
        )])),
        &json!({"action": "accept", "content": {"a": ["x"]}}),
    );
    check(&CreateElicitationResponse::new(ElicitationAction::decline()), &json!({"action": "decline"}));
    check(&CreateElicitationResponse::new(ElicitationAction::cancel()), &json!({"action": "cancel"}));
    check(&RequestPermissionResponse::cancelled(), &json!({"outcome": {"outcome": "cancelled"}}));
    check(&RequestPermissionResponse::selected("o"), &json!({"outcome": {"outcome": "selected", "optionId": "o"}}));
}

/// R-217.
#[test]
fn r_217_stop_reasons() {
    for response in [
        PromptResponse::end_turn(),
        PromptResponse::max_tokens(),
        PromptResponse::max_turn_requests(),
        PromptResponse::refusal(),
        PromptResponse::cancelled(),
    ] {
        check(&response, &json!({"stopReason": response.stop_reason.as_str()}));
    }
}

/// R-213: absent keeps, `null` clears, a value sets.
#[test]
fn r_213_three_states() {
    let read = |text: &str| decode::<SessionInfoUpdate>(text).expect("an update").title;
    let mut known = Some("old".to_owned());
    read("{}").apply(&mut known);
    assert_eq!(known.as_deref(), Some("old"));
    read(r#"{"title":"new"}"#).apply(&mut known);
    assert_eq!(known.as_deref(), Some("new"));
    read(r#"{"title":null}"#).apply(&mut known);
    assert_eq!(known, None);
    assert_eq!(read(r#"{"title":5}"#), Patch::Keep);
}

/// A tool call takes over what an update has, and keeps the rest.
#[test]
fn tool_call_updates_apply() {
    let mut call = ToolCall::new("t", "T").kind(ToolKind::Edit).content(["a"]);
    call.apply(ToolCallUpdate::new("t").status(ToolCallStatus::Completed).content(["b", "c"]));
    assert_eq!(
        call,
        ToolCall::new("t", "T").kind(ToolKind::Edit).status(ToolCallStatus::Completed).content(["b", "c"])
    );
}

#[test]
fn meta_members() {
    let meta = Meta::with("traceparent", &Raw::from(json!("00-1")));
    let meta = meta.set("pintle", &Raw::from(json!({"fromOffset": 7})));
    assert_eq!(meta.get("traceparent").expect("there").get(), r#""00-1""#);
    assert_eq!(meta.get("pintle").expect("there").get(), r#"{"fromOffset":7}"#);
    assert_eq!(meta.get("raxol.io"), None);
    check(
        &CancelNotification::new("s").meta(meta),
        &json!({"sessionId": "s", "_meta": {"pintle": {"fromOffset": 7}, "traceparent": "00-1"}}),
    );
    assert!(Meta::from_raw(Raw::from(json!([]))).is_none());
}

#[test]
fn absolute_paths() {
    for path in ["/", "/a/b", "C:\\a", "c:/a", "\\\\host\\share"] {
        assert!(AcpPath::from(path).is_absolute(), "{path}");
    }
    for path in ["", ".", "a/b", "C:", "C:a", "~", "1:/a", "\\a"] {
        assert!(!AcpPath::from(path).is_absolute(), "{path}");
    }
}
