//! What is measured.

use std::pin::Pin;
use std::process::ExitCode;
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
use pintle_testkit::usage;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

const UPDATES: u64 = 100_000;
const SESSIONS: u64 = 1000;
const PINGS: u64 = 5000;
const PINGS_IN_FLIGHT: u64 = 64;
const STARTS: u64 = 20;
const TEXT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// One thing that is measured.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The program on the SDK can do it too.
    pub(crate) on_the_sdk: bool,
    threads: usize,
    run: fn() -> Running,
    target: Target,
}

type Running = Pin<Box<dyn Future<Output = Value>>>;

/// What is wanted of it.
enum Target {
    Rate(f64),
    /// Of what a bare pipe does in the same process.
    Bare(f64),
    /// A rate, and peak memory of both ends together.
    RateWithin(f64, f64),
    /// Peak memory of both ends together, in MiB.
    Within(f64),
    /// At most so many milliseconds each.
    Millis(f64),
    None,
}

/// Everything that is measured; the targets are those of the project.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "updates-stdio",
        on_the_sdk: true,
        threads: 1,
        run: || Box::pin(updates_stdio("ct", "burst")),
        target: Target::RateWithin(500_000.0, 12.0),
    },
    Workload {
        name: "updates-stdio-yield",
        on_the_sdk: true,
        threads: 1,
        run: || Box::pin(updates_stdio("ct", "yield")),
        target: Target::Rate(500_000.0),
    },
    Workload {
        name: "updates-stdio-lines",
        on_the_sdk: false,
        threads: 1,
        run: || Box::pin(updates_stdio("ct", "lines")),
        target: Target::Rate(500_000.0),
    },
    Workload {
        name: "updates-stdio-mt",
        on_the_sdk: true,
        threads: 2,
        run: || Box::pin(updates_stdio("mt", "burst")),
        target: Target::Rate(500_000.0),
    },
    Workload {
        name: "updates-stream",
        on_the_sdk: false,
        threads: 1,
        run: || Box::pin(updates_stream()),
        target: Target::Rate(500_000.0),
    },
    Workload {
        name: "updates-memory",
        on_the_sdk: false,
        threads: 2,
        run: || Box::pin(updates_memory()),
        target: Target::Rate(800_000.0),
    },
    Workload {
        name: "updates-memory-1",
        on_the_sdk: false,
        threads: 1,
        run: || Box::pin(updates_memory()),
        target: Target::None,
    },
    Workload {
        name: "sessions",
        on_the_sdk: true,
        threads: 1,
        run: || Box::pin(sessions()),
        target: Target::RateWithin(350_000.0, 32.0),
    },
    Workload { name: "stall", on_the_sdk: false, threads: 1, run: || Box::pin(stall()), target: Target::Within(12.0) },
    Workload { name: "ping", on_the_sdk: true, threads: 1, run: || Box::pin(ping(1)), target: Target::Bare(0.8) },
    Workload {
        name: "ping-64",
        on_the_sdk: true,
        threads: 1,
        run: || Box::pin(ping(PINGS_IN_FLIGHT)),
        target: Target::Rate(150_000.0),
    },
    Workload { name: "start", on_the_sdk: true, threads: 1, run: || Box::pin(start_up()), target: Target::Millis(1.5) },
];

impl Workload {
    /// What to say of the target.
    pub(crate) fn judge(&self, per_second: f64, bare: Option<f64>, kib: f64) -> Vec<String> {
        let met = |met: bool| if met { "met" } else { "MISSED" };
        let mib = kib / 1024.0;
        let rate = |target: f64| format!("target {target:.0}/s: {}", met(per_second >= target));
        let within = |target: f64| format!("target {target:.0} MiB together: {mib:.1}, {}", met(mib <= target));
        let mut lines = match self.target {
            Target::Rate(target) => vec![rate(target)],
            Target::RateWithin(target, most) => vec![rate(target), within(most)],
            Target::Within(most) => vec![within(most)],
            Target::Millis(most) => {
                let millis = 1e3 / per_second;
                vec![format!("target {most} ms: {millis:.2} ms, {}", met(millis <= most))]
            }
            Target::Bare(_) | Target::None => Vec::new(),
        };
        if let Some(bare) = bare {
            let ratio = per_second / bare;
            let told = if let Target::Bare(target) = self.target { met(ratio >= target) } else { "" };
            lines.push(format!("{ratio:.2} of a bare pipe, {bare:.0}/s: {told}"));
        }
        lines
    }
}

/// Runs one workload here and prints what came of it.
pub(crate) fn one(name: &str) -> ExitCode {
    let Some(workload) = WORKLOADS.iter().find(|workload| workload.name == name) else { return ExitCode::FAILURE };
    let mut builder = if workload.threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.worker_threads(workload.threads).enable_all().build().expect("a runtime");
    println!("{}", runtime.block_on((workload.run)()));
    ExitCode::SUCCESS
}

/// Counts the updates that it is shown, decoded.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Client for Count {
    async fn session_update(&self, notification: SessionNotification, _: &Ctx) {
        if matches!(
            notification.update,
            SessionUpdate::AgentMessageChunk(_) | SessionUpdate::ToolCallUpdate(_) | SessionUpdate::UsageUpdate(_)
        ) {
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

fn launch(mode: &str) -> Launch {
    let mut launch = Launch::new(Program::at(env!("CARGO_BIN_EXE_bench-agent")).expect("built"));
    launch.args = vec![mode.into()];
    launch.env = Environment::empty();
    launch.shim = Shim::None;
    launch
}

async fn spawned(count: &Count, mode: &str) -> ClientConnection {
    let transport = child(launch(mode)).await.expect("starts");
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

/// What both processes used up to now.
async fn used(connection: &ClientConnection) -> (u64, u64, u64, u64) {
    let client_cpu = usage::cpu_us();
    let answer = connection.ext_request("_bench/rss", &json!({})).await.expect("an answer");
    let agent: Value = serde_json::from_str(answer.as_str()).expect("JSON");
    let number = |name: &str| agent[name].as_u64().unwrap_or(0);
    (client_cpu, number("cpu_us"), usage::peak_memory_kib(), number("hwm_kib"))
}

/// Times `work`, which is so many of `unit`, and what it costs at both ends.
async fn measured(connection: &ClientConnection, unit: &str, count: u64, work: impl Future<Output = ()>) -> Value {
    let before = used(connection).await;
    let start = Instant::now();
    work.await;
    let elapsed = start.elapsed();
    let after = used(connection).await;
    json!({
        "unit": unit, "count": count, "seconds": elapsed.as_secs_f64(),
        "client_cpu_us": after.0 - before.0, "agent_cpu_us": after.1 - before.1,
        "client_kib": after.2, "agent_kib": after.3,
    })
}

async fn updates_stdio(mode: &str, text: &str) -> Value {
    let count = Count::default();
    let connection = spawned(&count, mode).await;
    let open = session(&connection).await;
    let text = format!("{UPDATES} {text}");
    let value = measured(&connection, "upd", UPDATES, turn(&connection, &open, &text)).await;
    assert_eq!(count.0.load(Ordering::Relaxed), UPDATES, "lossless, and before the answer");
    value
}

async fn updates_stream() -> Value {
    let connection = spawned(&Count::default(), "ct").await;
    let open = session(&connection).await;
    measured(&connection, "upd", UPDATES, async {
        let prompt = PromptRequest::new(open.session_id.clone(), vec![format!("{UPDATES} burst").as_str().into()]);
        let mut stream = connection.prompt_stream(prompt).await.expect("sent");
        let mut count = 0;
        while let Some(update) = stream.next().await {
            count += u64::from(matches!(update.update, SessionUpdate::AgentMessageChunk(_)));
        }
        stream.finish().await.expect("a good end");
        assert_eq!(count, UPDATES);
    })
    .await
}

async fn updates_memory() -> Value {
    let count = Count::default();
    let (ours, theirs) = memory();
    let served = tokio::spawn(serve(InProcess::default(), theirs));
    let connection = connect(count.clone(), ours).expect("opens");
    connection.initialize().await.expect("answers");
    let open = session(&connection).await;
    let (cpu, start) = (usage::cpu_us(), Instant::now());
    turn(&connection, &open, &format!("{UPDATES} burst")).await;
    let elapsed = start.elapsed();
    assert_eq!(count.0.load(Ordering::Relaxed), UPDATES);
    let cpu = usage::cpu_us() - cpu;
    drop(connection);
    served.await.expect("no panic").expect("a good end");
    // Both ends are one process: its CPU time stands under "client".
    json!({
        "unit": "upd", "count": UPDATES, "seconds": elapsed.as_secs_f64(),
        "client_cpu_us": cpu, "agent_cpu_us": 0, "client_kib": usage::peak_memory_kib(), "agent_kib": 0,
    })
}

async fn sessions() -> Value {
    const EACH: u64 = 100;
    let count = Count::default();
    let connection = Arc::new(spawned(&count, "ct").await);
    let value = measured(&connection, "upd", SESSIONS * EACH, async {
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
    })
    .await;
    assert_eq!(count.0.load(Ordering::Relaxed), SESSIONS * EACH);
    value
}

/// A client that takes nothing for five seconds: the agent waits, nobody's memory grows. The time is that of the rest.
async fn stall() -> Value {
    let connection = spawned(&Count::default(), "ct").await;
    let open = session(&connection).await;
    let prompt = PromptRequest::new(open.session_id.clone(), vec![format!("{UPDATES} burst").as_str().into()]);
    let mut stream = connection.prompt_stream(prompt).await.expect("sent");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let value = measured(&connection, "upd", UPDATES, async {
        while stream.next_raw().await.is_some() {}
        assert_eq!(stream.delivered(), UPDATES);
    })
    .await;
    stream.finish().await.expect("a good end");
    value
}

async fn ping(window: u64) -> Value {
    let connection = Arc::new(spawned(&Count::default(), "ct").await);
    let total = PINGS * window.min(20);
    let mut value = measured(&connection, "ping", total / window * window, async {
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
    })
    .await;
    value["bare_seconds"] = json!(bare_ping(window, total).await.as_secs_f64());
    value
}

/// The same over pipes that tokio reads and writes, with a child that sends lines back as they come.
async fn bare_ping(window: u64, total: u64) -> Duration {
    let mut echo = std::process::Command::new(env!("CARGO_BIN_EXE_bench-agent"))
        .arg("bare")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let stdin = std::os::fd::OwnedFd::from(echo.stdin.take().expect("piped"));
    let stdout = std::os::fd::OwnedFd::from(echo.stdout.take().expect("piped"));
    let mut writer = tokio::net::unix::pipe::Sender::from_owned_fd(stdin).expect("a pipe");
    let mut reader = BufReader::new(tokio::net::unix::pipe::Receiver::from_owned_fd(stdout).expect("a pipe"));
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"_bench/ping\",\"params\":{\"n\":1}}\n";
    let mut answer = Vec::new();
    writer.write_all(line).await.expect("written");
    reader.read_until(b'\n', &mut answer).await.expect("an answer");
    let start = Instant::now();
    for _ in 0..total / window {
        for _ in 0..window {
            writer.write_all(line).await.expect("written");
        }
        for _ in 0..window {
            answer.clear();
            reader.read_until(b'\n', &mut answer).await.expect("an answer");
            assert_eq!(answer.len(), line.len());
        }
    }
    let elapsed = start.elapsed();
    drop(writer);
    reader.read_to_end(&mut answer).await.expect("the end");
    echo.wait().expect("ends");
    elapsed
}

/// From before the spawn to the answer to `initialize`; and the same with a child that only sends a line back.
async fn start_up() -> Value {
    let mut seconds = 0.0;
    let (mut agent_cpu, mut agent_kib) = (0, 0);
    let cpu = usage::cpu_us();
    for _ in 0..STARTS {
        let start = Instant::now();
        let connection = spawned(&Count::default(), "ct").await;
        seconds += start.elapsed().as_secs_f64();
        let used = used(&connection).await;
        (agent_cpu, agent_kib) = (agent_cpu + used.1, agent_kib.max(used.3));
        // The end of one is no part of the start of the next, here as below.
        connection.shut_down().await.expect("a good end");
    }
    let cpu = usage::cpu_us() - cpu;
    let mut bare = Duration::ZERO;
    for _ in 0..STARTS {
        let start = Instant::now();
        let mut echo = std::process::Command::new(env!("CARGO_BIN_EXE_bench-agent"))
            .arg("bare")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        std::io::Write::write_all(echo.stdin.as_mut().expect("piped"), b"{}\n").expect("written");
        let mut answer = [0; 3];
        std::io::Read::read_exact(echo.stdout.as_mut().expect("piped"), &mut answer).expect("an answer");
        bare += start.elapsed();
        drop(echo.stdin.take());
        echo.wait().expect("ends");
    }
    json!({
        "unit": "start", "count": STARTS, "seconds": seconds, "bare_seconds": bare.as_secs_f64(),
        "client_cpu_us": cpu, "agent_cpu_us": agent_cpu, "client_kib": usage::peak_memory_kib(), "agent_kib": agent_kib,
    })
}
