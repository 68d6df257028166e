//! Decoding `session/update`, ours against an internally tagged serde enum of the same shape, in one run.
//!
//! `cargo bench -p pintle-acp`. The frames are the params: 208 B a chunk of text, 2 KiB a tool call update with
//! 1.5 KiB of escaped text. Targets (design section 6 and limits (a)): at least 500,000 small updates per
//! second and core, and no slower than the derived type although ours keeps what it does not know.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use pintle_acp::types::{SessionNotification, decode};

fn main() {
    divan::main();
}

/// The forms of a frame that matter: how long it is, and where its tag stands.
#[derive(Debug, Clone, Copy)]
enum Frame {
    Chunk,
    ChunkTagLast,
    ToolCallUpdate,
    Unknown,
}

const FRAMES: [Frame; 4] = [Frame::Chunk, Frame::ChunkTagLast, Frame::ToolCallUpdate, Frame::Unknown];

impl Frame {
    fn text(self) -> String {
        let text = "The quick brown fox jumps over the lazy dog, and then once more.";
        match self {
            Self::Chunk => format!(
                r#"{{"sessionId":"sess-00000001","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}},"messageId":"msg-0000000000000001"}}}}"#
            ),
            Self::ChunkTagLast => format!(
                r#"{{"sessionId":"sess-00000001","update":{{"content":{{"text":"{text}","type":"text"}},"messageId":"msg-0000000000000001","sessionUpdate":"agent_message_chunk"}}}}"#
            ),
            Self::ToolCallUpdate => {
                let long = r#"fn main() {\n\tprintln!(\"hello\");\n}\n"#.repeat(40);
                format!(
                    r#"{{"sessionId":"sess-00000001","update":{{"sessionUpdate":"tool_call_update","toolCallId":"call_0000000001","status":"completed","content":[{{"type":"content","content":{{"type":"text","text":"{long}"}}}}],"locations":[{{"path":"/home/u/project/src/main.rs","line":12}}],"rawOutput":{{"exitCode":0,"lines":128}}}}}}"#
                )
            }
            Self::Unknown => format!(
                r#"{{"sessionId":"sess-00000001","update":{{"sessionUpdate":"_vendor_telemetry","sample":{{"text":"{text}"}},"count":17}}}}"#
            ),
        }
    }
}

#[divan::bench(args = FRAMES)]
fn pintle(bencher: Bencher<'_, '_>, frame: Frame) {
    let text = frame.text();
    bencher
        .counter(ItemsCount::new(1u32))
        .counter(BytesCount::of_str(&text))
        .bench_local(|| decode::<SessionNotification>(divan::black_box(&text)).expect("decodes"));
}

#[divan::bench(args = [Frame::Chunk, Frame::ChunkTagLast, Frame::ToolCallUpdate])]
fn serde_derive(bencher: Bencher<'_, '_>, frame: Frame) {
    let text = frame.text();
    bencher
        .counter(ItemsCount::new(1u32))
        .counter(BytesCount::of_str(&text))
        .bench_local(|| serde_json::from_str::<derived::Notification>(divan::black_box(&text)).expect("decodes"));
}

/// The least that decoding can cost: the text is checked and nothing is made of it.
#[divan::bench(args = FRAMES)]
fn validate_only(bencher: Bencher<'_, '_>, frame: Frame) {
    let text = frame.text();
    bencher
        .counter(ItemsCount::new(1u32))
        .counter(BytesCount::of_str(&text))
        .bench_local(|| serde_json::from_str::<serde::de::IgnoredAny>(divan::black_box(&text)).expect("decodes"));
}

#[divan::bench(args = FRAMES)]
fn pintle_encode(bencher: Bencher<'_, '_>, frame: Frame) {
    let text = frame.text();
    let value = decode::<SessionNotification>(&text).expect("decodes");
    let mut out = Vec::with_capacity(4096);
    bencher.counter(ItemsCount::new(1u32)).counter(BytesCount::of_str(&text)).bench_local(|| {
        out.clear();
        serde_json::to_writer(&mut out, divan::black_box(&value)).expect("writable");
        out.len()
    });
}

/// The same types as most people would derive them.
mod derived {
    #![expect(dead_code, reason = "decoded and dropped")]

    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Notification {
        session_id: String,
        update: Update,
        #[serde(rename = "_meta")]
        meta: Option<serde_json::Value>,
    }

    #[derive(Deserialize)]
    #[serde(tag = "sessionUpdate", rename_all = "snake_case")]
    enum Update {
        UserMessageChunk(Chunk),
        AgentMessageChunk(Chunk),
        AgentThoughtChunk(Chunk),
        ToolCallUpdate(ToolCallUpdate),
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chunk {
        content: Block,
        message_id: Option<String>,
        #[serde(rename = "_meta")]
        meta: Option<serde_json::Value>,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Block {
        Text {
            text: String,
            #[serde(rename = "_meta")]
            meta: Option<serde_json::Value>,
        },
        Image {
            data: String,
        },
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolCallUpdate {
        tool_call_id: String,
        title: Option<String>,
        status: Option<String>,
        kind: Option<String>,
        content: Option<Vec<Content>>,
        locations: Option<Vec<Location>>,
        raw_input: Option<serde_json::Value>,
        raw_output: Option<serde_json::Value>,
        #[serde(rename = "_meta")]
        meta: Option<serde_json::Value>,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Content {
        Content { content: Block },
        Terminal { terminal_id: String },
    }

    #[derive(Deserialize)]
    struct Location {
        path: String,
        line: Option<u32>,
    }
}
