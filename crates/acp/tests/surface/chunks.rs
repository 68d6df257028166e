//! The short way for pieces of text, held against the long one.

use std::sync::Arc;
use std::time::Instant;

use pintle_acp::types::{SessionNotification, SessionUpdate, decode, decode_update};
use pintle_acp::{AgentEnd, Call, Config, Output};
use proptest::prelude::*;
use serde_json::json;

fn check(text: &str) {
    let known: Arc<str> = "s1".into();
    let (short, long) = (decode_update(text, &known), decode::<SessionNotification>(text));
    assert_eq!(short, long, "{text}");
    if let Ok(notification) = short {
        let mut again = serde_json::to_string(&notification).expect("an update");
        assert_eq!(decode_update(&again, &known), Ok(notification.clone()), "{again}");
        again.retain(|character| !character.is_whitespace());
        assert_eq!(decode_update(&again, &known), decode::<SessionNotification>(&again), "{again}");
    }
}

/// R-153, design section 4 ("ACP"): whatever form an update has, it reads the same.
#[test]
fn the_plain_form_and_its_neighbours_read_alike() {
    for text in [
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}"#,
        r#"{"sessionId":"s2","update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":""}}}"#,
        r#"{"sessionId":"","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"\n\u00e9\\\""}}}"#,
        r#"{"sessionId":"s\u0031","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\\"}}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m1"}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m\u0031"}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":null}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m","x":1}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"_meta":{"k":1}}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","_meta":{}}},"_meta":{}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}},"x":"}}}"}"#,
        r#"{"sessionId":"s1","update":{"content":{"type":"text","text":"a"},"sessionUpdate":"agent_message_chunk"}}"#,
        r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"text":"a","type":"text"}},"sessionId":"s1"}"#,
        r#"{ "sessionId":"s1", "update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":7}}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]}}"#,
        r#"{"sessionId":"s1","update":{"sessionUpdate":"_mine","content":{"type":"text","text":"a"}}}"#,
        r#"{"sessionId":1,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}"#,
        "{}",
    ] {
        check(text);
    }
}

#[test]
fn the_text_of_a_known_session_id_is_shared() {
    let known: Arc<str> = "s1".into();
    let text =
        r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}"#;
    let read = decode_update(text, &known).expect("an update");
    assert_eq!(read.session_id.as_str().as_ptr(), known.as_ptr());
}

#[expect(clippy::disallowed_methods, reason = "the one look at a clock: a time to count from")]
fn epoch() -> Instant {
    Instant::now()
}

/// Sends `call` as an agent does and returns the frame.
fn sent(call: &Call) -> String {
    let now = epoch();
    let mut end = AgentEnd::<()>::new(Config::default());
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
    end.feed(now, format!("{hello}\n").as_bytes());
    let Some(pintle_acp::AgentEvent::Request { request, .. }) = end.poll_event() else { panic!("no request") };
    let answer = pintle_acp::Reply::ok(&json!({ "protocolVersion": 1 })).expect("JSON");
    end.reply(now, request.token, &answer);
    while end.poll_output().is_some() {}
    end.notify(call).expect("sent");
    let Some(Output::Bytes(frame)) = end.poll_output() else { panic!("nothing to write") };
    String::from_utf8(frame.to_vec()).expect("UTF-8")
}

fn check_written(notification: &SessionNotification) {
    let short = sent(&Call::update(notification).expect("JSON"));
    assert_eq!(short, sent(&Call::new("session/update", notification).expect("JSON")));
    let chunk = match &notification.update {
        SessionUpdate::AgentMessageChunk(chunk) => Some((false, chunk)),
        SessionUpdate::AgentThoughtChunk(chunk) => Some((true, chunk)),
        _ => None,
    };
    if let Some((thought, chunk)) = chunk
        && let (None, Some(text)) = (&chunk.message_id, chunk.content.as_text())
        && notification.meta.is_none()
    {
        assert_eq!(sent(&Call::text(&notification.session_id, thought, text)), short);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Design section 4 ("ACP"): our own frames are the same by either way, whatever the text.
    #[test]
    fn the_plain_form_is_written_and_read_alike(session in ".{0,12}", text in any::<String>(), message in proptest::option::of(".{0,8}"), kind in 0..3) {
        let mut update = match kind {
            0 => SessionUpdate::agent_text(text),
            1 => SessionUpdate::agent_thought(text),
            _ => SessionUpdate::user_text(text),
        };
        if let (SessionUpdate::AgentMessageChunk(chunk) | SessionUpdate::UserMessageChunk(chunk), Some(id)) = (&mut update, message) {
            chunk.message_id = Some(id.as_str().into());
        }
        let notification = SessionNotification::new(session, update);
        check_written(&notification);
        check(&serde_json::to_string(&notification).expect("an update"));
    }
}
