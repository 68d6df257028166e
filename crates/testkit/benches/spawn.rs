//! What the keeper costs, alone and with a driver's sandbox: spawn to reaped exit of `/bin/true`, in one run, from a small
//! parent and from one with 512 MiB resident. Ratios count; absolute times are this machine's.
//!
//! `cargo bench -p pintle-testkit --bench spawn`; the variable `PINTLE` names another binary to be the keeper, such as the
//! released one. Rounds end after [`PATIENCE`] as well, for machines that take longer.

#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use pintle_sdk::process::{Launch, Network, Paths, Process, Program, ResourceLimits, Sandbox, Shim, Stderr};

const MAX_ROUNDS: usize = 400;
/// As few say little of a p90.
const MIN_ROUNDS: usize = 20;
/// For each of the two parents.
const PATIENCE: Duration = Duration::from_secs(25);
const RESIDENT_BYTES: usize = 512 << 20;
/// No spawn takes as long.
const STUCK: Duration = Duration::from_secs(20);
const TARGET: &str = "/bin/true";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let keeper =
        std::env::var_os("PINTLE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_fake-keeper")), PathBuf::from);
    println!("p50 and p90 in microseconds; the keeper is `{}`", keeper.display());
    let small = measure(&runtime, &keeper, "small parent");
    let ballast = vec![1_u8; RESIDENT_BYTES];
    let big = measure(&runtime, &keeper, "512 MiB resident");
    drop(std::hint::black_box(ballast));
    for ((name, small), (_, big)) in small.into_iter().zip(big) {
        println!("{name}, big against small parent: {:.2}x", ratio(big, small));
    }
}

/// The ways to spawn, taken in turn so that they share the machine's moods. Returns the p50 of those with a keeper.
fn measure(runtime: &tokio::runtime::Runtime, keeper: &Path, parent: &str) -> [(&'static str, Duration); 2] {
    let shim = Shim::Path(keeper.to_owned());
    let (mut bare, mut group, mut started) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kept, mut confined) = (Vec::new(), Vec::new());
    let folder = tempfile::tempdir().expect("a directory");
    let began = Instant::now();
    while bare.len() < MAX_ROUNDS && (bare.len() < MIN_ROUNDS || began.elapsed() < PATIENCE) {
        bare.push(time(|| {
            let status = Command::new(TARGET).stdin(Stdio::null()).stdout(Stdio::null()).status().expect("spawn");
            assert!(status.success());
        }));
        group.push(time(|| runtime.block_on(spawn(Shim::None))));
        let start = Instant::now();
        runtime.block_on(async {
            let mut process = Process::spawn(launch(shim.clone())).await.expect("spawn");
            started.push(start.elapsed());
            gone(&mut process).await;
        });
        kept.push(start.elapsed());
        confined.push(time(|| runtime.block_on(run(confined_launch(shim.clone(), folder.path())))));
    }
    let rounds = bare.len();
    let [bare, group, started, kept, confined] = [bare, group, started, kept, confined].map(|mut times| {
        times.sort_unstable();
        (times[rounds / 2], times[rounds * 9 / 10])
    });
    println!("{parent}, {rounds} rounds");
    for (name, (p50, p90)) in [
        ("std, bare", bare),
        ("group only", group),
        ("keeper, until started", started),
        ("keeper, until gone", kept),
        ("with a sandbox", confined),
    ] {
        println!("  {name:22} {:6} {:6}  {:.2}x bare", p50.as_micros(), p90.as_micros(), ratio(p50, bare.0));
    }
    [("keeper", kept.0), ("keeper with a sandbox", confined.0)]
}

async fn spawn(shim: Shim) {
    run(launch(shim)).await;
}

async fn run(launch: Launch) {
    let mut process = Process::spawn(launch).await.expect("spawn");
    gone(&mut process).await;
}

/// A child that does not go ends the bench with a word, not with silence.
async fn gone(process: &mut Process) {
    tokio::time::timeout(STUCK, process.gone()).await.expect("the child and its keeper are gone in time");
}

/// What a driver without grants is started with.
fn confined_launch(shim: Shim, folder: &Path) -> Launch {
    let mut sandbox = Sandbox::default();
    sandbox.limits = ResourceLimits::driver();
    sandbox.paths = Paths::Listed { read: Vec::new(), write: Vec::new() };
    sandbox.network = Network::None;
    sandbox.private_namespaces = true;
    sandbox.folder = Some(folder.to_owned());
    let mut launch = launch(shim);
    launch.sandbox = Some(sandbox);
    launch
}

fn launch(shim: Shim) -> Launch {
    let mut launch = Launch::new(Program::at(TARGET).expect("it is there"));
    launch.shim = shim;
    launch.stderr = Stderr::Null;
    launch
}

fn time(body: impl FnOnce()) -> Duration {
    let start = Instant::now();
    body();
    start.elapsed()
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
