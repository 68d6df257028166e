//! The blocking example serves a whole session over real pipes.

#[path = "../examples/blocking_driver.rs"]
#[expect(unreachable_pub, dead_code, reason = "an example is a program of its own, with a main")]
mod blocking_driver;

use std::io::{Read, Write, pipe};
use std::time::Instant;

use pintle_driver::{
    CoreConfig, CoreEvent, CoreSession, Digest, ExactInputHandle, FixtureRefs, InputKind, InstanceId, InvokeParams,
    Output, PrepareParams, Secret,
};

#[test]
#[expect(clippy::disallowed_methods, reason = "the session takes the time as an argument")]
fn a_plain_loop_over_the_five_verbs_is_a_driver() {
    let input = std::env::temp_dir().join(format!("pintle-blocking-example-{}", std::process::id()));
    std::fs::write(&input, b"seven b").expect("a scratch file");
    let (driver_reads, mut core_writes) = pipe().expect("a pipe");
    let (mut core_reads, driver_writes) = pipe().expect("a pipe");
    let driver = std::thread::spawn(move || {
        blocking_driver::run(driver_reads, driver_writes).map_err(|error| error.to_string())
    });

    let now = Instant::now();
    let mut core = CoreSession::new(CoreConfig { verify_summary: true, ..CoreConfig::default() });
    core.hello(now).expect("hello");
    let mut observed = Vec::new();
    let mut buffer = [0; 4096];
    let closed = 'session: loop {
        while let Some(Output::Control(frames)) = core.poll_output() {
            core_writes.write_all(&frames).expect("the driver reads");
        }
        match core_reads.read(&mut buffer).expect("the driver writes") {
            0 => core.eof(now),
            count => core.feed(now, buffer[..count].to_vec()),
        }
        while let Some(event) = core.poll_event() {
            match event {
                CoreEvent::Hello { .. } => core.prepare(now, prepare()).map(|_| ()).expect("prepare"),
                CoreEvent::Prepared { .. } => {
                    core.invoke(now, invoke(&input.to_string_lossy())).map(|_| ()).expect("invoke");
                }
                CoreEvent::Observation(params) => observed.push(params.payload.expect("a payload").as_str().to_owned()),
                CoreEvent::Completed(_) => core.shutdown(now).map(|_| ()).expect("shutdown"),
                CoreEvent::InvokeAccepted { .. } | CoreEvent::Shutdown => {}
                event => break 'session event,
            }
        }
    };
    std::fs::remove_file(&input).expect("the scratch file goes");
    assert_eq!(closed, CoreEvent::Closed);
    assert_eq!(observed, ["7"]);
    assert_eq!(driver.join().expect("the driver ends"), Ok(()));
}

fn prepare() -> PrepareParams {
    PrepareParams {
        resolved_plan_digest: Digest::of(b"plan"),
        capability_token: Secret::new("token"),
        fixture_refs: FixtureRefs::Absent,
        approved_permissions: Vec::new(),
    }
}

fn invoke(input: &str) -> InvokeParams {
    let id = |random| InstanceId::new(1_700_000_000_000, [random; 16]).expect("an id");
    InvokeParams {
        invocation_id: id(1),
        attempt_id: id(2),
        operation: "echo.length".into(),
        input: ExactInputHandle { kind: InputKind::Pipe, value: Secret::new(input) },
    }
}
