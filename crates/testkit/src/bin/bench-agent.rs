//! The agent of the ACP workloads: sessions, pings, and turns of as many updates as the prompt says.
//!
//! The first text block of a prompt is `"<count> <burst|yield|lines>"`; `lines` is what agents really send: text with line
//! breaks and quotes, and now and then a tool call's progress or the usage. `_bench/ping {n}` answers `{n}`; `_bench/rss`
//! answers the peak memory and the CPU time of this process.
//!
//! With the argument `bare` it is no agent: it sends back what it reads, as it comes, through tokio's pipes.

use std::sync::atomic::{AtomicU64, Ordering};

use pintle_sdk::acp::types::{
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, Raw, ToolCallStatus, ToolCallUpdate,
};
use pintle_sdk::acp::{Agent, Ctx, Error, RawJson, Turn, serve};
use pintle_sdk::transport::stdio;

const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Text as models write it: line breaks, quotes, a character that is not ASCII.
const LINES: &str = "    println!(\"{name}\");\n}\n\nThat is all \u{2014} run \"cargo test\" now.\n";

#[derive(Default)]
struct Bench {
    sessions: AtomicU64,
}

impl Agent for Bench {
    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        let n = self.sessions.fetch_add(1, Ordering::Relaxed);
        Ok(NewSessionResponse::new(format!("sess-{n:08}")))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        let text = request.text();
        let (count, mode) = text.split_once(' ').unwrap_or((&text, "burst"));
        for n in 0..count.parse().unwrap_or(0) {
            match (mode, n % 16) {
                ("lines", 7) => {
                    let mut update = ToolCallUpdate::new("call_1");
                    update.status = Some(ToolCallStatus::InProgress);
                    turn.tool_call_update(update).await?;
                }
                ("lines", 15) => turn.usage(n, 200_000).await?,
                ("lines", _) => turn.agent_text(LINES).await?,
                _ => turn.agent_text(TEXT).await?,
            }
            if mode == "yield" {
                tokio::task::yield_now().await;
            }
        }
        Ok(PromptResponse::end_turn())
    }

    async fn ext_request(&self, method: &str, params: Option<RawJson>, _: &Ctx) -> Result<Raw, Error> {
        match method {
            "_bench/ping" => {
                let params = params.unwrap_or_else(RawJson::empty_object);
                Raw::parse(params.as_str()).map_err(|_| Error::internal_error())
            }
            "_bench/rss" => Ok(Raw::from(serde_json::json!({
                "hwm_kib": pintle_testkit::usage::peak_memory_kib(),
                "cpu_us": pintle_testkit::usage::cpu_us(),
            }))),
            _ => Err(Error::method_not_found(method)),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mode = std::env::args().nth(1);
    let mut builder = match mode.as_deref() {
        Some("mt") => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    // A turn at the processor fills a pipe of 64 KiB, where 61 polls, the default, fill a quarter of it.
    let runtime = builder.worker_threads(2).event_interval(256).enable_all().build()?;
    if mode.as_deref() == Some("bare") {
        return Ok(runtime.block_on(send_back())?);
    }
    runtime.block_on(serve(Bench::default(), stdio()))?;
    Ok(())
}

#[cfg(unix)]
async fn send_back() -> std::io::Result<()> {
    use std::os::fd::AsFd;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::unix::pipe::{Receiver, Sender};

    let mut reader = Receiver::from_owned_fd(std::io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut writer = Sender::from_owned_fd(std::io::stdout().as_fd().try_clone_to_owned()?)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(()),
            read => writer.write_all(&buffer[..read]).await?,
        }
    }
}

#[cfg(not(unix))]
async fn send_back() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
