//! The ACP workloads, measured: updates streamed by a child and in memory, many sessions, a client that stalls, pings against
//! a bare pipe, start-up; and the same on the official Rust SDK, in turns, where its program is built.
//!
//! ```text
//! cargo bench -p pintle-testkit --bench acp                      everything, 5 runs each
//! cargo bench -p pintle-testkit --bench acp -- updates --runs 9  what has "updates" in its name
//! ```
//!
//! Each run is a process of its own, so that its peak memory and CPU time are its own. Each checks that nothing was lost and
//! that the answer came last. Medians are printed, with the least and the most; CPU time is user and system.
//!
//! The program on the SDK is `interop/sdk/target/release/sdk-bench`:
//! `cargo build --release --manifest-path interop/sdk/Cargo.toml --features bench --bin sdk-bench`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

#[path = "acp/work.rs"]
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use work::WORKLOADS;

const RUNS: usize = 5;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let after = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    if let Some(name) = after("--one") {
        return work::one(name);
    }
    let runs = after("--runs").and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let filter = words.first().filter(|word| !word.starts_with("--")).map_or("", String::as_str);
    let sdk = sdk_bench();
    match &sdk {
        Some(path) => println!("in turns with {}", path.display()),
        None => println!("the program on the official SDK is not built: ours alone (see the head of benches/acp.rs)"),
    }
    println!(
        "{} logical processors, {runs} runs each, medians\n",
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    let mut failed = false;
    for workload in WORKLOADS.iter().filter(|workload| workload.name.contains(filter)) {
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        // A/B/A/B: what else the machine does hits both.
        for _ in 0..runs {
            match run(std::env::current_exe().unwrap_or_default().as_path(), workload.name) {
                Ok(sample) => ours.push(sample),
                Err(why) => {
                    println!("{:<22} FAILED: {why}", workload.name);
                    failed = true;
                    break;
                }
            }
            if let Some(sdk) = sdk.as_ref().filter(|_| workload.on_the_sdk) {
                match run(sdk, workload.name) {
                    Ok(sample) => theirs.push(sample),
                    Err(why) => println!("{:<22} the SDK's program failed: {why}", workload.name),
                }
            }
        }
        let Some(ours) = Summary::of(ours) else { continue };
        println!("{:<22} {ours}", workload.name);
        if let Some(theirs) = Summary::of(theirs) {
            println!("{:<22} {theirs}", "  official SDK 5.2");
            println!("{:<22} {:.1} times as fast", "", ours.per_second / theirs.per_second);
        }
        for line in workload.judge(ours.per_second, ours.bare_per_second, ours.kib) {
            println!("{:<22} {line}", "");
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn sdk_bench() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/sdk/target/release/sdk-bench");
    path.canonicalize().ok()
}

/// Runs one workload in a process of its own; it prints one JSON object.
fn run(program: &Path, workload: &str) -> Result<Value, String> {
    let output = Command::new(program)
        .args(["--one", workload])
        .env("PINTLE_BENCH_AGENT", env!("CARGO_BIN_EXE_bench-agent"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
}

/// The medians of some runs.
struct Summary {
    unit: String,
    per_second: f64,
    least: f64,
    most: f64,
    /// The same work over a bare pipe, in the same process, where there is such a thing.
    bare_per_second: Option<f64>,
    client_cpu_us: f64,
    agent_cpu_us: f64,
    /// Peak memory of the client and the agent together.
    kib: f64,
    client_kib: f64,
    agent_kib: f64,
}

impl Summary {
    fn of(samples: Vec<Value>) -> Option<Self> {
        let median = |name: &str| middle(samples.iter().map(|sample| sample[name].as_f64().unwrap_or(0.0)).collect());
        let count = samples.first()?["count"].as_f64()?;
        let mut rates: Vec<f64> =
            samples.iter().filter_map(|sample| sample["seconds"].as_f64()).map(|seconds| count / seconds).collect();
        rates.sort_by(f64::total_cmp);
        let bare = median("bare_seconds");
        Some(Self {
            unit: samples.first()?["unit"].as_str()?.to_owned(),
            per_second: middle(rates.clone()),
            least: *rates.first()?,
            most: *rates.last()?,
            bare_per_second: (bare > 0.0).then(|| count / bare),
            client_cpu_us: median("client_cpu_us") / count,
            agent_cpu_us: median("agent_cpu_us") / count,
            kib: median("client_kib") + median("agent_kib"),
            client_kib: median("client_kib"),
            agent_kib: median("agent_kib"),
        })
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>9.0} {}/s [{:.0} .. {:.0}]  CPU per one: client {:.2} us, agent {:.2} us  peak: client {:.1} MiB, agent {:.1} MiB",
            self.per_second,
            self.unit,
            self.least,
            self.most,
            self.client_cpu_us,
            self.agent_cpu_us,
            self.client_kib / 1024.0,
            self.agent_kib / 1024.0
        )
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
