//! The ACP workloads on the official Rust SDK, for `cargo bench -p pintle-testkit --bench acp` to run in turns with ours.
//!
//! `sdk-bench --one WORKLOAD` runs one, with itself as the agent in a child process, and prints one JSON object of the shape
//! that the bench reads. `sdk-bench agent` is that agent. Counters and assertions are those of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, ContentBlock, ContentChunk, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, SessionId, SessionNotification, SessionUpdate, StopReason,
    TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client, JsonRpcRequest, JsonRpcResponse, Result, Stdio};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const UPDATES: u64 = 100_000;
const SESSIONS: u64 = 1000;
const EACH: u64 = 100;
const PINGS: u64 = 5000;
const PINGS_IN_FLIGHT: u64 = 64;
const STARTS: u64 = 20;
const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcRequest)]
#[request(method = "_bench/ping", response = Pong)]
struct Ping {
    n: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcResponse)]
struct Pong {
    n: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcRequest)]
#[request(method = "_bench/rss", response = Used)]
struct Use {}

/// What a process used.
#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcResponse)]
struct Used {
    hwm_kib: u64,
    cpu_us: u64,
}

impl Used {
    fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let hwm = status.lines().find(|line| line.starts_with("VmHWM:"));
        let stat = read("/proc/self/stat");
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: u64 =
            after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
        Self {
            hwm_kib: hwm.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse().ok()).unwrap_or(0),
            // Hundredths of a second.
            cpu_us: ticks * 10_000,
        }
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = |threads: bool| {
        let mut builder = if threads {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            tokio::runtime::Builder::new_current_thread()
        };
        builder.worker_threads(2).enable_all().build().expect("a runtime")
    };
    match words.first().map(String::as_str) {
        Some("agent") => runtime(words.get(1).is_some_and(|mode| mode == "mt")).block_on(agent()),
        Some("--one") => {
            let name = words.get(1).map_or("", String::as_str);
            println!("{}", runtime(name.ends_with("-mt")).block_on(one(name))?);
            Ok(())
        }
        _ => panic!("sdk-bench agent | sdk-bench --one WORKLOAD"),
    }
}

async fn agent() -> Result<()> {
    let sessions = AtomicU64::new(0);
    Agent
        .v1()
        .name("sdk-bench")
        .on_receive_request(
            async move |_: InitializeRequest, responder, _| {
                responder
                    .respond(InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(AgentCapabilities::new()))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                let n = sessions.fetch_add(1, Ordering::Relaxed);
                responder.respond(NewSessionResponse::new(SessionId::new(format!("sess-{n:08}"))))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection: ConnectionTo<Client>| {
                let task = turn(request, responder, connection.clone());
                connection.spawn(task)
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |ping: Ping, responder, _| responder.respond(Pong { n: ping.n }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: Use, responder, _| responder.respond(Used::now()),
            agent_client_protocol::on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}

async fn turn(
    request: PromptRequest,
    responder: Responder<PromptResponse>,
    connection: ConnectionTo<Client>,
) -> Result<()> {
    let text = match request.prompt.first() {
        Some(ContentBlock::Text(text)) => text.text.clone(),
        _ => String::new(),
    };
    let (count, mode) = text.split_once(' ').unwrap_or((&text, "burst"));
    for _ in 0..count.parse().unwrap_or(0) {
        let chunk = ContentChunk::new(ContentBlock::from(TEXT.to_owned()));
        let update = SessionUpdate::AgentMessageChunk(chunk);
        connection.send_notification(SessionNotification::new(request.session_id.clone(), update))?;
        if mode == "yield" {
            tokio::task::yield_now().await;
        }
    }
    responder.respond(PromptResponse::new(StopReason::EndTurn))
}

async fn one(name: &str) -> Result<Value> {
    if name == "start" {
        return start_up().await;
    }
    let mode = if name.ends_with("-mt") { "mt" } else { "ct" };
    let name = name.to_owned();
    with_agent(mode, async move |connection, count| {
        initialize(&connection).await?;
        match name.as_str() {
            "updates-stdio" | "updates-stdio-mt" => updates(&connection, &count, "burst").await,
            "updates-stdio-yield" => updates(&connection, &count, "yield").await,
            "sessions" => sessions(&connection, &count).await,
            "ping" => pings(&connection, 1).await,
            "ping-64" => pings(&connection, PINGS_IN_FLIGHT).await,
            _ => Err(agent_client_protocol::Error::internal_error()),
        }
    })
    .await
}

/// Runs `work` on a connection to an agent of our own kind, with a counter of the updates that came.
async fn with_agent<R>(
    mode: &str,
    work: impl AsyncFnOnce(ConnectionTo<Agent>, Arc<AtomicU64>) -> Result<R>,
) -> Result<R> {
    let program = std::env::current_exe().expect("this program");
    let agent = AcpAgent::new(AcpAgentConfig::new(program).arg("agent").arg(mode));
    let count = Arc::new(AtomicU64::new(0));
    let counting = count.clone();
    Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                if matches!(notification.update, SessionUpdate::AgentMessageChunk(_)) {
                    counting.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(agent, async move |connection: ConnectionTo<Agent>| work(connection, count).await)
        .await
}

async fn initialize(connection: &ConnectionTo<Agent>) -> Result<()> {
    connection.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
    Ok(())
}

async fn session(connection: &ConnectionTo<Agent>) -> Result<SessionId> {
    Ok(connection.send_request(NewSessionRequest::new("/")).block_task().await?.session_id)
}

async fn prompt(connection: &ConnectionTo<Agent>, session: SessionId, text: String) -> Result<()> {
    let request = PromptRequest::new(session, vec![ContentBlock::Text(TextContent::new(text))]);
    let response = connection.send_request(request).block_task().await?;
    assert!(matches!(response.stop_reason, StopReason::EndTurn));
    Ok(())
}

async fn measured(
    connection: &ConnectionTo<Agent>,
    unit: &str,
    count: u64,
    work: impl Future<Output = Result<()>>,
) -> Result<Value> {
    let agent_before = connection.send_request(Use {}).block_task().await?;
    let before = Used::now();
    let start = Instant::now();
    work.await?;
    let elapsed = start.elapsed();
    let after = Used::now();
    let agent_after = connection.send_request(Use {}).block_task().await?;
    Ok(json!({
        "unit": unit, "count": count, "seconds": elapsed.as_secs_f64(),
        "client_cpu_us": after.cpu_us - before.cpu_us, "agent_cpu_us": agent_after.cpu_us - agent_before.cpu_us,
        "client_kib": after.hwm_kib, "agent_kib": agent_after.hwm_kib,
    }))
}

async fn updates(connection: &ConnectionTo<Agent>, count: &AtomicU64, mode: &str) -> Result<Value> {
    let open = session(connection).await?;
    let value = measured(connection, "upd", UPDATES, prompt(connection, open, format!("{UPDATES} {mode}"))).await?;
    assert_eq!(count.load(Ordering::Relaxed), UPDATES, "lossless, and before the answer");
    Ok(value)
}

async fn sessions(connection: &ConnectionTo<Agent>, count: &AtomicU64) -> Result<Value> {
    let value = measured(connection, "upd", SESSIONS * EACH, async {
        let mut opening = Vec::new();
        for _ in 0..SESSIONS {
            let connection = connection.clone();
            opening.push(tokio::spawn(async move { session(&connection).await }));
        }
        let mut turns = Vec::new();
        for open in opening {
            let open = open.await.expect("no panic")?;
            let connection = connection.clone();
            turns.push(tokio::spawn(async move { prompt(&connection, open, format!("{EACH} yield")).await }));
        }
        for turn in turns {
            turn.await.expect("no panic")?;
        }
        Ok(())
    })
    .await?;
    assert_eq!(count.load(Ordering::Relaxed), SESSIONS * EACH);
    Ok(value)
}

async fn pings(connection: &ConnectionTo<Agent>, window: u64) -> Result<Value> {
    let each = PINGS * window.min(20) / window;
    measured(connection, "ping", each * window, async {
        let mut workers = Vec::new();
        for _ in 0..window {
            let connection = connection.clone();
            workers.push(tokio::spawn(async move {
                for n in 0..each {
                    assert_eq!(connection.send_request(Ping { n }).block_task().await?.n, n);
                }
                Ok::<_, agent_client_protocol::Error>(())
            }));
        }
        for worker in workers {
            worker.await.expect("no panic")?;
        }
        Ok(())
    })
    .await
}

async fn start_up() -> Result<Value> {
    let mut elapsed = Duration::ZERO;
    let (mut agent_cpu, mut agent_kib) = (0, 0);
    let cpu = Used::now().cpu_us;
    for _ in 0..STARTS {
        let start = Instant::now();
        let (took, used) = with_agent("ct", async move |connection, _| {
            initialize(&connection).await?;
            let took = start.elapsed();
            Ok((took, connection.send_request(Use {}).block_task().await?))
        })
        .await?;
        elapsed += took;
        (agent_cpu, agent_kib) = (agent_cpu + used.cpu_us, agent_kib.max(used.hwm_kib));
    }
    let client = Used::now();
    Ok(json!({
        "unit": "start", "count": STARTS, "seconds": elapsed.as_secs_f64(),
        "client_cpu_us": client.cpu_us - cpu, "agent_cpu_us": agent_cpu,
        "client_kib": client.hwm_kib, "agent_kib": agent_kib,
    }))
}
