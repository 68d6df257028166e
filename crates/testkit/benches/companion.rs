//! What Core takes for a companion stream: peak memory and CPU time while a driver sends 1 GiB, which is redacted, hashed
//! and stored as it comes. Memory before the driver starts and for 64 MiB stand beside it: it must not grow with the stream.
//! The object must have the digest of what the driver sent.
//!
//! `cargo bench -p pintle-testkit --bench companion`. `PINTLE_BENCH_DIR` says where the objects go, such as a directory in
//! memory; `PINTLE_BENCH_MIB` sets another size.

#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_sdk::driver::{Core, InstanceId, Invoke, Observed, Permission};
use pintle_store::evidence::Places;
use pintle_store::{EvidenceRun, Fs, RealFs, Sanitiser};
use pintle_testkit::drivers::{Place, invoke, plan};
use pintle_testkit::usage::{cpu_us, peak_memory_kib};
use pintle_wire::{Digest, DigestBuilder};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");
const SMALL_MIB: u64 = 64;

/// How long the driver may take. What redaction and the disk take does not count.
const PATIENCE: Duration = Duration::from_secs(900);
/// What memory may grow by, from before the driver starts, in KiB.
const FLAT_KIB: u64 = 24 << 10;

fn main() -> ExitCode {
    let mib = std::env::var("PINTLE_BENCH_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(1024);
    let base = std::env::var_os("PINTLE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let before = peak_memory_kib();
    let mut right = true;
    for mib in [SMALL_MIB, mib] {
        let (began, cpu) = (Instant::now(), cpu_us());
        let (bytes, digest) = runtime.block_on(receive(mib << 20, &base));
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), (cpu_us() - cpu) as f64 / 1e6);
        let (peak, grown) = (peak_memory_kib(), peak_memory_kib().saturating_sub(before));
        let (whole, flat) = (bytes >= mib << 20 && digest == digest_of_x(bytes), grown <= FLAT_KIB);
        right &= whole && flat;
        println!(
            "{mib:5} MiB: digest {}, peak memory {:.1} MiB, grew {:.1} MiB (bound: 24, {}), {seconds:.2} s, CPU of Core {cpu:.2} s",
            if whole { "right" } else { "WRONG" },
            peak as f64 / 1024.0,
            grown as f64 / 1024.0,
            if flat { "kept" } else { "BROKEN" },
        );
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Of so many `x`, which is what the driver sends.
fn digest_of_x(bytes: u64) -> Digest {
    let piece = [b'x'; 64 << 10];
    let mut digest = DigestBuilder::new();
    let mut rest = bytes;
    while rest > 0 {
        let now = rest.min(piece.len() as u64);
        digest.update(&piece[..now as usize]);
        rest -= now;
    }
    digest.finish()
}

/// One invocation, whose stream is kept as one object.
async fn receive(bytes: u64, base: &Path) -> (u64, Digest) {
    let place = Place::new(DRIVER, KEEPER);
    let scratch = tempfile::tempdir_in(base).expect("a scratch directory");
    let mut launch = place.launch("long-streams");
    launch.session.budget.work.bytes_received = u64::MAX;
    launch.session.stream_limits.max_stream_bytes = u64::MAX;
    launch.session.stream_limits.max_invocation_bytes = u64::MAX;
    let mut core = Core::start(launch).await.expect("the driver starts");
    core.prepare(plan(&["ephemeral-input", Permission::COMPANION_STREAM])).await.expect("the driver prepares");

    let sanitiser = Sanitiser::new(["hunter2-correct-horse", "sk-another-secret-1"]);
    let facts = sanitiser.value(&serde_json::json!({})).expect("canonical");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let id = InstanceId::new(1_700_000_000_000, [9; 16]).expect("an id");
    let mut evidence = EvidenceRun::create(fs, &Places::below(scratch.path()), id, &facts).expect("a run");
    let mut object = evidence.begin_object().expect("an object");
    let mut stream = sanitiser.stream();

    let mut received = 0;
    let invoke = Invoke { deadline: PATIENCE, ..invoke(1, "flood-data", bytes.to_string().as_bytes()) };
    let mut run = core.invoke(invoke).expect("an invocation");
    while let Some(observed) = run.next().await.expect("the driver is right") {
        if let Observed::Data { bytes, .. } = observed {
            received += bytes.len() as u64;
            evidence.write_object(&mut object, stream.push(&bytes)).expect("written");
        }
    }
    evidence.write_object(&mut object, stream.finish()).expect("written");
    let digest = evidence.finish_object(object).expect("finished");
    evidence.finish().expect("finished");
    core.shutdown().await;
    (received, digest)
}
