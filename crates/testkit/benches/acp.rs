//! The ACP workloads: updates streamed by a child, pings, many sessions, a client that stalls. Each run checks that nothing
//! was lost and that the answer came last. `cargo bench -p pintle-testkit --bench acp [-- FILTER]`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pintle_sdk::acp::types::{
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionNotification, SessionUpdate,
    StopReason,
};
use pintle_sdk::acp::{Agent, Client, ClientConnection, Ctx, Error, Turn, connect, serve};
use pintle_sdk::process::{Environment, Launch, Program, Shim};
use pintle_sdk::transport::{child, memory};
use serde_json::{Value, json};

const UPDATES: u64 = 100_000;
const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Counts the updates that it is shown, decoded.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Client for Count {
    async fn session_update(&self, notification: SessionNotification, _: &Ctx) {
        if matches!(notification.update, SessionUpdate::AgentMessageChunk(_)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The bench agent, in this process.
#[derive(Default)]
struct InProcess(AtomicU64);

impl Agent for InProcess {
    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        Ok(NewSessionResponse::new(format!("sess-{:08}", self.0.fetch_add(1, Ordering::Relaxed))))
    }

    async fn prompt(&self, request: PromptRequest, turn: &Turn) -> Result<PromptResponse, Error> {
        for _ in 0..request.text().split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0) {
            turn.agent_text(TEXT).await?;
        }
        Ok(PromptResponse::end_turn())
    }
}

async fn spawned(count: &Count, mode: &str) -> ClientConnection {
    let program = Program::at(env!("CARGO_BIN_EXE_bench-agent")).expect("built");
    let mut launch = Launch::new(program);
    launch.args = vec![mode.into()];
    launch.env = Environment::empty();
    launch.shim = Shim::None;
    let transport = child(launch).await.expect("starts");
    let connection = connect(count.clone(), transport).expect("opens");
    connection.initialize().await.expect("answers");
    connection
}

async fn session(connection: &ClientConnection) -> NewSessionResponse {
    connection.request(NewSessionRequest::new("/")).await.expect("a session")
}

async fn turn(connection: &ClientConnection, session: &NewSessionResponse, text: &str) {
    let prompt = PromptRequest::new(session.session_id.clone(), vec![text.into()]);
    let response = connection.request(prompt).await.expect("an answer");
    assert_eq!(response.stop_reason, StopReason::EndTurn);
}

fn report(name: &str, unit: &str, count: u64, elapsed: Duration, extra: &str) {
    println!(
        "{name:<44} {:>10.0} {unit}/s  {:>8.1} ms  {extra}",
        count as f64 / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e3
    );
}

async fn usage(connection: &ClientConnection) -> String {
    let answer = connection.ext_request("_bench/rss", &json!({})).await.expect("an answer");
    let agent: Value = serde_json::from_str(answer.as_str()).expect("JSON");
    format!(
        "peak agent {} KiB, client {} KiB; CPU agent {} ms, client {} ms",
        agent["hwm_kib"],
        pintle_testkit::usage::peak_memory_kib(),
        agent["cpu_ms"],
        pintle_testkit::usage::cpu_ms()
    )
}

async fn updates_stdio(mode: &str, text: &str) {
    let count = Count::default();
    let connection = spawned(&count, mode).await;
    let open = session(&connection).await;
    let start = Instant::now();
    turn(&connection, &open, &format!("{UPDATES} {text}")).await;
    let elapsed = start.elapsed();
    assert_eq!(count.0.load(Ordering::Relaxed), UPDATES, "lossless, and before the answer");
    report(&format!("updates, stdio, agent {mode}, {text}"), "upd", UPDATES, elapsed, &usage(&connection).await);
}

async fn updates_stream() {
    let connection = spawned(&Count::default(), "ct").await;
    let open = session(&connection).await;
    let start = Instant::now();
    let prompt = PromptRequest::new(open.session_id.clone(), vec![format!("{UPDATES} burst").as_str().into()]);
    let mut stream = connection.prompt_stream(prompt).await.expect("sent");
    let mut count = 0;
    while let Some(update) = stream.next().await {
        count += u64::from(matches!(update.update, SessionUpdate::AgentMessageChunk(_)));
    }
    stream.finish().await.expect("a good end");
    assert_eq!(count, UPDATES);
    report("updates, stdio, as a stream", "upd", UPDATES, start.elapsed(), &usage(&connection).await);
}

async fn updates_memory() {
    let count = Count::default();
    let (ours, theirs) = memory();
    let served = tokio::spawn(serve(InProcess::default(), theirs));
    let connection = connect(count.clone(), ours).expect("opens");
    connection.initialize().await.expect("answers");
    let open = session(&connection).await;
    let start = Instant::now();
    turn(&connection, &open, &format!("{UPDATES} burst")).await;
    assert_eq!(count.0.load(Ordering::Relaxed), UPDATES);
    report("updates, in memory", "upd", UPDATES, start.elapsed(), "");
    drop(connection);
    served.await.expect("no panic").expect("a good end");
}

async fn ping(window: u64, total: u64) {
    let connection = Arc::new(spawned(&Count::default(), "ct").await);
    let start = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..window {
        let connection = connection.clone();
        workers.push(tokio::spawn(async move {
            for n in 0..total / window {
                let answer = connection.ext_request("_bench/ping", &json!({ "n": n })).await.expect("an answer");
                assert_eq!(answer.as_str(), format!("{{\"n\":{n}}}"));
            }
        }));
    }
    for worker in workers {
        worker.await.expect("no panic");
    }
    report(&format!("ping, stdio, {window} in flight"), "ping", total, start.elapsed(), "");
}

async fn sessions() {
    const SESSIONS: u64 = 1000;
    const EACH: u64 = 100;
    let count = Count::default();
    let connection = Arc::new(spawned(&count, "ct").await);
    let start = Instant::now();
    let opening: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { session(&connection).await })
        })
        .collect();
    let mut open = Vec::new();
    for session in opening {
        open.push(session.await.expect("no panic"));
    }
    let turns: Vec<_> = open
        .into_iter()
        .map(|open| {
            let connection = connection.clone();
            tokio::spawn(async move { turn(&connection, &open, &format!("{EACH} yield")).await })
        })
        .collect();
    for turn in turns {
        turn.await.expect("no panic");
    }
    assert_eq!(count.0.load(Ordering::Relaxed), SESSIONS * EACH);
    let usage = usage(&connection).await;
    report("1000 sessions x 100 updates, stdio", "upd", SESSIONS * EACH, start.elapsed(), &usage);
}

/// A client that takes nothing for a while: the agent waits, nobody's memory grows.
async fn stall(seconds: u64) {
    let connection = spawned(&Count::default(), "ct").await;
    let open = session(&connection).await;
    let prompt = PromptRequest::new(open.session_id.clone(), vec![format!("{UPDATES} burst").as_str().into()]);
    let mut stream = connection.prompt_stream(prompt).await.expect("sent");
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let start = Instant::now();
    while stream.next_raw().await.is_some() {}
    assert_eq!(stream.delivered(), UPDATES);
    stream.finish().await.expect("a good end");
    report(
        &format!("updates after a stall of {seconds} s"),
        "upd",
        UPDATES,
        start.elapsed(),
        &usage(&connection).await,
    );
}

async fn start_up() {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let connection = spawned(&Count::default(), "ct").await;
        times.push(start.elapsed());
        drop(connection);
    }
    times.sort();
    println!(
        "{:<44} {:>10.2} ms median, {:.2} best",
        "spawn to initialize answered",
        times[10].as_secs_f64() * 1e3,
        times[0].as_secs_f64() * 1e3
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let run = |name: &str, threads: usize, work: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        if name.contains(&filter) {
            let mut builder = if threads > 1 {
                tokio::runtime::Builder::new_multi_thread()
            } else {
                tokio::runtime::Builder::new_current_thread()
            };
            print!("[{}] ", if threads > 1 { "2 threads" } else { "1 thread " });
            builder.worker_threads(threads).enable_all().build().expect("a runtime").block_on(work);
        }
    };
    for threads in [1, 2] {
        run("stdio", threads, Box::pin(updates_stdio("ct", "burst")));
        run("stdio", threads, Box::pin(updates_stdio("ct", "yield")));
        run("stdio", threads, Box::pin(updates_stdio("mt", "burst")));
        run("stream", threads, Box::pin(updates_stream()));
        run("memory", threads, Box::pin(updates_memory()));
        run("ping", threads, Box::pin(ping(1, 5000)));
        run("ping", threads, Box::pin(ping(64, 64 * 1000)));
        run("sessions", threads, Box::pin(sessions()));
    }
    run("stall", 1, Box::pin(stall(5)));
    run("start", 1, Box::pin(start_up()));
}
