//! A driver that would write 10 GiB, by each way that there is: it is ended long before, with its class, and Core's memory
//! stays flat meanwhile. The limit is scaled down; what counts is that it is the limit that ends it.

#![cfg(target_os = "linux")]

use pintle_sdk::driver::{Core, CoreError, ErrorClass, Observed, Permission, Resource};
use pintle_testkit::drivers::{Place, invoke, plan, test};
use pintle_testkit::usage::peak_memory_kib;

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");

/// What a session may receive, in bytes.
const LIMIT_BYTES: u64 = 96 << 20;
/// What Core's memory may grow by meanwhile, in KiB.
const FLAT_KIB: u64 = 24 << 10;

async fn flood(operation: &str) -> (CoreError, u64, u64) {
    let place = Place::new(DRIVER, KEEPER);
    let mut launch = place.launch("");
    launch.session.budget.work.bytes_received = LIMIT_BYTES;
    launch.session.stream_limits.max_stream_bytes = u64::MAX;
    launch.session.stream_limits.max_invocation_bytes = u64::MAX;
    let mut core = Core::start(launch).await.expect("the driver starts");
    core.prepare(plan(&["ephemeral-input", Permission::COMPANION_STREAM])).await.expect("the driver prepares");
    let go = core.work_dir().join("tmp/go");
    let mut run = core.invoke(invoke(1, operation, b"")).expect("an invocation");
    let error = loop {
        // What comes is looked at and dropped, as an application that keeps nothing does it.
        match run.next().await {
            Ok(Some(Observed::Observation(seen))) if &*seen.kind == "about to flood" => {
                std::fs::write(&go, b"").expect("the driver may begin");
            }
            Ok(Some(_)) => {}
            Ok(None) => panic!("{operation}: it wrote all of it"),
            Err(error) => break error,
        }
    };
    let ended = core.kill().await;
    let received = ended.budget.work.used.get(Resource::BytesReceived);
    (error, received, ended.stderr.total_bytes)
}

#[test]
fn a_flood_is_ended_by_its_limit_and_memory_stays_flat() {
    // What the runtime takes once is not a flood's.
    let _ = test(flood("flood-line"));
    for operation in ["flood-stderr", "flood-line", "flood-observations", "flood-data"] {
        let before = peak_memory_kib();
        let (error, received, stderr) = test(flood(operation));
        assert_eq!(error.class(), ErrorClass::BudgetExceeded, "{operation}: {error}");
        assert!(received > LIMIT_BYTES, "{operation}: {received} bytes");
        // What it writes until the kill has reached it depends on the machine.
        assert!(received.max(stderr) < 4 << 30, "{operation}: {received} bytes, {stderr} of standard error");
        let grown = peak_memory_kib().saturating_sub(before);
        assert!(grown <= FLAT_KIB, "{operation}: memory grew by {grown} KiB");
    }
}
