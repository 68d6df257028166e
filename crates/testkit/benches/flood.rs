//! What a driver costs Core that writes 10 GiB, by each way that there is: how much of it Core takes, for how long, with how
//! much memory, and what it says of the driver in the end.
//!
//! With the limits as they are Core ends the driver long before. So that the whole 10 GiB pass through it once, they are
//! lifted as well: for standard error and for a companion stream there is nothing wrong with it then, and the invocation
//! ends well; a line of 10 GiB is too long whatever the limits; observations are as many as the driver likes.
//!
//! `cargo bench -p pintle-testkit --bench flood`, or with a part of a name behind `--`. Each case is a process of its own, so
//! that its peak memory is its own. That of a case in which the driver writes nothing is taken off.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pintle_sdk::driver::{Core, CoreConfig, ErrorClass, Invoke, Observed, Permission, Resource};
use pintle_testkit::drivers::{Place, invoke, plan};
use pintle_testkit::usage::{cpu_us, peak_memory_kib};
use serde_json::{Value, json};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");

/// What Core's memory may grow by.
const FLAT_KIB: u64 = 24 << 10;
/// A flood that takes longer than this has no bound worth the name.
const PATIENCE: Duration = Duration::from_secs(900);
const FLOOD_BYTES: u64 = 10 << 30;

/// What the driver does, whether Core's limits hold, and what is to come of it.
const CASES: [(&str, bool, Option<ErrorClass>); 8] = [
    ("flood-stderr", true, Some(ErrorClass::BudgetExceeded)),
    ("flood-line", true, Some(ErrorClass::BudgetExceeded)),
    ("flood-observations", true, Some(ErrorClass::BudgetExceeded)),
    ("flood-data", true, Some(ErrorClass::BudgetExceeded)),
    ("flood-stderr", false, None),
    ("flood-line", false, Some(ErrorClass::BudgetExceeded)),
    ("flood-observations", false, None),
    ("flood-data", false, None),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [one, operation, limited] = words.as_slice()
        && one == "--one"
    {
        println!("{}", measure(operation, limited == "limited"));
        return ExitCode::SUCCESS;
    }
    let filter = words.first().map_or("", String::as_str);
    let Some(quiet) = run("input-never", true) else { return ExitCode::FAILURE };
    println!("10 GiB by each way; memory is what the peak grew by, over a driver that writes nothing");
    println!(
        "{:<20} {:<8} {:>10} {:>8} {:>8} {:>9}  what came of it",
        "way", "limits", "taken GiB", "time s", "CPU s", "grew MiB"
    );
    let mut right = true;
    for (operation, limited, class) in CASES.into_iter().filter(|(operation, ..)| operation.contains(filter)) {
        let limits = if limited { "usual" } else { "lifted" };
        let Some(sample) = run(operation, limited) else {
            println!("{operation:<20} {limits:<8} FAILED");
            right = false;
            continue;
        };
        let number = |name: &str| sample[name].as_f64().unwrap_or(f64::NAN);
        let kib = |sample: &Value| sample["peak_kib"].as_u64().unwrap_or(0);
        let grown = kib(&sample).saturating_sub(kib(&quiet));
        let is_right = grown <= FLAT_KIB && sample["class"].as_str() == class.map(ErrorClass::as_str);
        right &= is_right;
        println!(
            "{operation:<20} {limits:<8} {:>10.2} {:>8.1} {:>8.1} {:>9.1}  {}{}",
            number("bytes") / f64::from(1 << 30),
            number("seconds"),
            number("cpu_seconds"),
            grown as f64 / 1024.0,
            sample["end"].as_str().unwrap_or("?"),
            if is_right { "" } else { "  NOT AS IT SHOULD BE" },
        );
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(operation: &str, limited: bool) -> Option<Value> {
    let this = std::env::current_exe().ok()?;
    let limits = if limited { "limited" } else { "lifted" };
    let output = Command::new(this).args(["--one", operation, limits]).stderr(Stdio::inherit()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// One flood, to whatever end.
fn measure(operation: &str, limited: bool) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let place = Place::new(DRIVER, KEEPER);
        let mut launch = place.launch("long-streams");
        launch.session = CoreConfig::default();
        if !limited {
            launch.session.budget.work.bytes_received = u64::MAX;
            launch.session.budget.work.artifact_bytes = u64::MAX;
            launch.session.stream_limits.max_stream_bytes = u64::MAX;
            launch.session.stream_limits.max_invocation_bytes = u64::MAX;
        }
        let mut core = Core::start(launch).await.expect("the driver starts");
        core.prepare(plan(&["ephemeral-input", Permission::COMPANION_STREAM])).await.expect("the driver prepares");
        let go = core.work_dir().join("tmp/go");
        let input = FLOOD_BYTES.to_string();
        let (mut began, mut cpu) = (Instant::now(), cpu_us());
        let invoke = Invoke { deadline: PATIENCE, ..invoke(1, operation, input.as_bytes()) };
        let mut run = core.invoke(invoke).expect("an invocation");
        let ended = loop {
            match run.next().await {
                Ok(Some(Observed::Observation(seen))) if &*seen.kind == "about to flood" => {
                    (began, cpu) = (Instant::now(), cpu_us());
                    std::fs::write(&go, b"").expect("the driver may begin");
                }
                // Looked at and dropped, as an application does that keeps nothing.
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), (cpu_us() - cpu) as f64 / 1e6);
        let (class, end) = match &ended {
            Ok(()) => (None, "completed: it wrote all of it".to_owned()),
            Err(error) => (Some(error.class()), format!("{}: {error}", error.class())),
        };
        let ended = core.kill().await;
        let bytes = ended.budget.work.used.get(Resource::BytesReceived);
        json!({"bytes": bytes, "seconds": seconds, "cpu_seconds": cpu, "peak_kib": peak_memory_kib(),
            "class": class.map(ErrorClass::as_str), "end": end})
    })
}
