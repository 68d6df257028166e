//! A driver whose operations are its faults. `fake-driver [hang-hello | hang-prepare | hang-shutdown | old | no-cancel |
//! bad-permission | wide | many | long-streams | short-streams]`; `wide` asks for every permission that there is, `many` takes
//! four invocations at once, the last two set the limits of companion streams to the widest and to 1000 bytes a stream.

use std::fs::File;
use std::future::pending;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use pintle_sdk::driver::{
    Capabilities, Channels, DATA_FRAME_MAX_VARIABLE, DATA_STREAM_VARIABLE, Driver, DriverIdentity, ErrorClass,
    HelloResult, Invocation, InvokeParams, Permission, PrepareParams, RpcError, ServeConfig, StreamLimits,
    TerminalStatus, VersionRange, artifact_digest, serve_with, supported_versions,
};
use pintle_testkit::escapes;
use serde_json::json;

const OPERATIONS: [&str; 20] = [
    "echo",
    "flood",
    "stream",
    "half-stream",
    "wait",
    "stubborn",
    "panic",
    "die",
    "garbage",
    "environment",
    "escape",
    "input-never",
    "input-late",
    "input-half",
    "input-twice",
    "backwards",
    "flood-stderr",
    "flood-line",
    "flood-observations",
    "flood-data",
];

struct Fake {
    hello: HelloResult,
    /// Standard output itself, which a print does not reach any more once the driver is served.
    stdout: File,
    fault: String,
}

impl Driver for Fake {
    fn hello(&self) -> HelloResult {
        self.hello.clone()
    }

    fn accept(&self, params: &InvokeParams) -> Result<(), RpcError> {
        if *params.operation == *"garbage" {
            // Behind the session's back, as a driver without that guard does that prints to its standard output.
            let _ = (&self.stdout).write_all(b"debug: starting\n");
        }
        // Into standard error, where it breaks nothing.
        let _ = writeln!(std::io::stdout(), "stray print");
        if *params.operation == *"refuse" {
            return Err(RpcError::new(ErrorClass::CapabilityMismatch, "not today"));
        }
        Ok(())
    }

    async fn prepare(&self, plan: PrepareParams) -> Result<Vec<Permission>, RpcError> {
        if self.fault == "hang-prepare" {
            pending::<()>().await;
        }
        Ok(plan.approved_permissions)
    }

    async fn shutdown(&self) {
        if self.fault == "hang-shutdown" {
            pending::<()>().await;
        }
    }

    async fn invoke(&self, invocation: Invocation) -> TerminalStatus {
        if *invocation.params().operation == *"backwards" {
            // An observation of another invocation than the active one.
            let _ = (&self.stdout).write_all(STRANGE_OBSERVATION.as_bytes());
            pending::<()>().await;
        }
        run(&invocation, &self.stdout).await.unwrap_or(TerminalStatus::Errored)
    }
}

const STRANGE_OBSERVATION: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"driver.observation","params":{"attempt_id":"018bcfe5-6800-7fff-bfff-ffffffffffff","#,
    r#""invocation_id":"018bcfe5-6800-7fff-bfff-ffffffffffff","kind":"k","monotonic_ns":1,"sequence":0}}"#,
    "\n"
);

async fn run(
    invocation: &Invocation,
    stdout: &File,
) -> Result<TerminalStatus, Box<dyn std::error::Error + Send + Sync>> {
    match &*invocation.params().operation {
        "echo" => {
            let input = invocation.input().await?;
            let text = String::from_utf8_lossy(&input[..input.len().min(1000)]).into_owned();
            invocation.observe("echo", &json!({"bytes": input.len(), "text": text})).await?;
        }
        "flood" => {
            let count: u64 = String::from_utf8(invocation.input().await?)?.trim().parse()?;
            for index in 0..count {
                invocation.observe("delta", &json!({"type": "delta", "index": index, "text": "hello world"})).await?;
            }
        }
        "stream" => {
            let input = invocation.input().await?;
            let mut stream = invocation.observe_stream("body").await?;
            stream.write(&input).await?;
            stream.finish().await?;
        }
        "half-stream" => {
            let mut stream = invocation.observe_stream("body").await?;
            stream.write(b"half").await?;
        }
        "wait" => {
            invocation.observe("waiting", &()).await?;
            let (reason, _) = invocation.cancelled().await;
            invocation.observe("cancelled", &reason).await?;
            return Ok(TerminalStatus::Cancelled);
        }
        "stubborn" => {
            invocation.observe("waiting", &std::process::id()).await?;
            pending::<()>().await;
        }
        "panic" => panic!("the fake driver panics when told to"),
        "die" => {
            invocation.observe("dying", &()).await?;
            let _ = writeln!(std::io::stderr(), "the fake driver dies now");
            std::process::abort();
        }
        "environment" => {
            let names: Vec<_> = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
            let here = std::env::current_dir()?;
            let fixtures = std::fs::read_dir(here.join("fixtures"))?.count();
            invocation.observe("environment", &json!({"names": names, "cwd": here, "fixtures": fixtures})).await?;
        }
        "escape" => {
            let attempts: Vec<(String, String)> = serde_json::from_slice(&invocation.input().await?)?;
            for (name, about) in attempts {
                let (ok, error) = match escapes::attempt(&name, &about) {
                    Ok(got) => (Some(got), None),
                    Err(error) => (None, Some(error)),
                };
                invocation.observe("attempt", &json!({"name": name, "ok": ok, "error": error})).await?;
            }
        }
        // These write until they are ended; 10 GB take none of them to its end.
        "flood-stderr" | "flood-line" => {
            let chunk = vec![b'x'; 64 << 10];
            let to_stderr = &*invocation.params().operation == "flood-stderr";
            let stdout = stdout.try_clone()?;
            // Core has seen the answer to the invocation by then, so that it does not end the line.
            invocation.observe("about to flood", &()).await?;
            while !std::path::Path::new("tmp/go").exists() {
                tokio::task::yield_now().await;
            }
            tokio::task::spawn_blocking(move || {
                for _ in 0..(10_u64 << 30) / chunk.len() as u64 {
                    if to_stderr {
                        std::io::stderr().write_all(&chunk)?;
                        continue;
                    }
                    // Standard output does not block, since the driver is served on it.
                    while let Err(error) = (&stdout).write(&chunk) {
                        if error.kind() != std::io::ErrorKind::WouldBlock {
                            return Err(error);
                        }
                        std::thread::yield_now();
                    }
                }
                Ok::<(), std::io::Error>(())
            })
            .await??;
        }
        "flood-observations" => {
            let text = "x".repeat(60_000);
            for _ in 0..(10_u64 << 30) / 60_000 {
                invocation.observe("flood", &text).await?;
            }
        }
        "flood-data" => {
            let chunk = vec![b'x'; 200_000];
            // As many bytes as the input says, or more than anybody takes.
            let wanted = std::str::from_utf8(&invocation.input().await?).ok().and_then(|text| text.parse().ok());
            let mut stream = invocation.observe_stream("body").await?;
            for _ in 0..wanted.unwrap_or(10_u64 << 30).div_ceil(200_000) {
                stream.write(&chunk).await?;
            }
            stream.finish().await?;
        }
        "input-never" => {
            invocation.observe("ignored", &()).await?;
        }
        "input-late" => {
            invocation.observe("not yet", &()).await?;
            while !std::path::Path::new("tmp/go").exists() {
                tokio::task::yield_now().await;
            }
            invocation.observe("bytes", &invocation.input().await?.len()).await?;
        }
        "input-half" => {
            let handle = &invocation.params().input;
            let path = handle.value.expose().to_owned();
            let half = tokio::task::spawn_blocking(move || read_some(&path, 10)).await??;
            invocation.observe("bytes", &half.len()).await?;
        }
        "input-twice" => {
            let first = invocation.input().await?.len();
            let again = invocation.input().await;
            let second = again.map(|bytes| bytes.len()).map_err(|error| error.to_string());
            invocation.observe("bytes", &json!({"first": first, "second": second.ok()})).await?;
        }
        _ => return Ok(TerminalStatus::Errored),
    }
    Ok(TerminalStatus::Completed)
}

/// The beginning of an input, whatever channel it comes by; then the channel is closed.
fn read_some(path: &str, bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut some = vec![0; bytes];
    match UnixStream::connect(path) {
        Ok(mut socket) => socket.read_exact(&mut some)?,
        Err(_) => File::open(path)?.read_exact(&mut some)?,
    }
    Ok(some)
}

fn hello(fault: &str) -> Result<HelloResult, std::io::Error> {
    let digest = artifact_digest(&std::env::current_exe()?)?;
    let few = ["ephemeral-input", Permission::COMPANION_STREAM, "x-fake"];
    let permissions = if fault == "wide" { Permission::KNOWN.to_vec() } else { few.to_vec() };
    Ok(HelloResult {
        driver_version_range: if fault == "old" { VersionRange::new("0.1.0", "0.9.0") } else { supported_versions() },
        identity: DriverIdentity {
            name: "fake".into(),
            version: "1.0.0".into(),
            sdk_name: None,
            sdk_version: None,
            client_name: None,
            client_version: None,
            runtime_name: "rust".into(),
            runtime_version: "1".into(),
            os: std::env::consts::OS.into(),
            architecture: std::env::consts::ARCH.into(),
            artifact_digest: digest,
            lockfile_digest: None,
        },
        capabilities: Capabilities {
            operations: OPERATIONS.into_iter().chain(["refuse"]).map(Into::into).collect(),
            cancellation: fault != "no-cancel",
            streaming: true,
            concurrency: fault == "many",
            max_concurrency: if fault == "many" { 4 } else { 1 },
            ..Capabilities::default()
        },
        requested_permissions: permissions
            .into_iter()
            .chain((fault == "bad-permission").then_some("everything"))
            .map(Permission::new)
            .collect(),
    })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let fault = words.first().cloned().unwrap_or_default();
    if fault == escapes::CHILD {
        escapes::child(&words[1..]);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let served = runtime.block_on(async {
        if fault == "hang-hello" {
            pending::<()>().await;
        }
        let data_stream = std::env::var(DATA_STREAM_VARIABLE).ok();
        let stdout = std::io::stdout().as_fd().try_clone_to_owned().expect("a descriptor");
        let channels = Channels::stdio(data_stream.as_deref())
            .and_then(|channels| channels.with_max_data_frame(std::env::var(DATA_FRAME_MAX_VARIABLE).ok().as_deref()))
            .expect("pipes");
        let stream_limits = match &*fault {
            "long-streams" => StreamLimits::MAX,
            "short-streams" => StreamLimits { max_stream_bytes: 1000, ..StreamLimits::default() },
            _ => StreamLimits::default(),
        };
        let config = ServeConfig { stream_limits, ..ServeConfig::default() };
        serve_with(Fake { hello: hello(&fault).expect("hello"), stdout: stdout.into(), fault }, channels, config).await
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
