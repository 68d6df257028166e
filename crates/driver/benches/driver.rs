//! The workloads that the Go package was measured with, over the same frames (`testdata/driver/driver-frames.ndjson`).
//!
//! `cargo bench -p pintle-driver` prints divan's table, then each workload's rate and its ratio to the recorded baseline.
//! The baselines are the best CPU times of 15 repetitions of the Go package (commit 006b2e9, Go 1.26.5) on a shared machine
//! with two AMD EPYC cores; ours are the best processor times of many rounds in this run.

use std::hint::black_box;
use std::io::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use pintle_driver::{
    Call, CancelParams, Capabilities, CompletedParams, CoreConfig, CoreEvent, CoreSession, Decoder, Digest,
    DriverConfig, DriverEvent, DriverIdentity, DriverSession, Encoder, ExactInputHandle, FixtureRefs, FreeValue,
    HelloParams, HelloResult, Id, InputKind, InstanceId, InvokeParams, Machine, Message, Notification, ObservationBody,
    ObservationParams, Output, PrepareParams, PrepareResult, Secret, ShutdownResult, State, TerminalStatus,
    decode_control_frame, supported_versions,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const FRAMES: &str = include_str!("../../../testdata/driver/driver-frames.ndjson");

const OBSERVATIONS: u64 = 1000;
const KEYS: usize = 100_000;
const ROUNDS: u32 = 40;

/// A workload with its unit of work, the recorded rate of the Go package, and what we aim at.
struct Workload {
    name: &'static str,
    unit: &'static str,
    /// Units of work in one call.
    units: u64,
    /// Units per second of the Go package, one core.
    baseline: f64,
    target: Option<f64>,
    run: fn(),
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "decode + validate, mixed frames",
        unit: "frames",
        units: 1500,
        baseline: 10_500.0,
        target: Some(60.0),
        run: decode_mix,
    },
    Workload {
        name: "stream decode, mixed frames",
        unit: "frames",
        units: 1500,
        baseline: 6_140.0,
        target: None,
        run: stream_decode_mix,
    },
    Workload {
        name: "encode, mixed messages",
        unit: "frames",
        units: 1500,
        baseline: 10_700.0,
        target: None,
        run: encode_mix,
    },
    Workload {
        name: "lifecycle, both ends, codec and machine",
        unit: "observations",
        units: OBSERVATIONS,
        baseline: 7_745.0,
        target: Some(60.0),
        run: lifecycle,
    },
    Workload {
        name: "lifecycle, both ends as sessions",
        unit: "observations",
        units: OBSERVATIONS,
        baseline: 7_745.0,
        target: None,
        run: lifecycle_sessions,
    },
    Workload {
        name: "machine.observe",
        unit: "observations",
        units: OBSERVATIONS,
        // 5.6 us each.
        baseline: 178_571.0,
        target: None,
        run: machine_observe,
    },
    Workload {
        name: "object with 100 000 sorted keys, decode + canonical",
        unit: "objects",
        units: 1,
        // 250 s each; 20 ms are aimed at.
        baseline: 0.004,
        target: Some(12_500.0),
        run: sorted_keys,
    },
];

#[expect(clippy::disallowed_methods, reason = "a bench is a program")]
fn main() {
    divan::main();
    // `cargo test --benches` runs every bench once and wants no more.
    if std::env::args().any(|argument| argument == "--bench") {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "\nratio to the Go package, best of {ROUNDS} rounds:");
        for workload in WORKLOADS {
            let rate = workload.units as f64 / best(workload.run).as_secs_f64();
            let ratio = rate / workload.baseline;
            let target = workload.target.map_or_else(String::new, |target| format!(" (target {target}x)"));
            let Workload { name, unit, .. } = workload;
            let _ = writeln!(out, "  {name}: {rate:.0} {unit}/s, {ratio:.0}x{target}");
        }
    }
}

/// The least processor time of this thread for one run: other work on the machine counts less than on a wall clock.
fn best(run: fn()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    };
    let timed = |_| {
        let start = now();
        run();
        now() - start
    };
    (0..ROUNDS).map(timed).min().unwrap_or_default()
}

static MESSAGES: LazyLock<Vec<Message>> =
    LazyLock::new(|| lines().map(|line| decode_control_frame(line.as_bytes()).expect("a good frame")).collect());

fn lines() -> impl Iterator<Item = &'static str> {
    FRAMES.split_inclusive('\n')
}

fn decode_mix() {
    for line in lines() {
        let message = decode_control_frame(line.as_bytes());
        assert!(black_box(message).is_ok());
    }
}

fn stream_decode_mix() {
    let mut decoder = Decoder::new();
    let mut decoded = 0;
    for chunk in FRAMES.as_bytes().chunks(64 << 10) {
        decoder.feed(chunk.to_vec());
        while let Some(message) = decoder.decode() {
            decoded += usize::from(black_box(message).is_ok());
        }
    }
    assert!(decoder.finish().is_none());
    assert_eq!(decoded, 1500);
}

fn encode_mix() {
    let mut encoder = Encoder::new();
    for message in MESSAGES.iter() {
        encoder.clear();
        encoder.encode(message).expect("it validates");
        black_box(encoder.as_bytes());
    }
}

fn id(number: u8) -> InstanceId {
    InstanceId::new(1_700_000_000_000, [number; 16]).expect("an id")
}

fn hello_result() -> HelloResult {
    HelloResult {
        driver_version_range: supported_versions(),
        identity: DriverIdentity {
            name: "bench".into(),
            version: "1".into(),
            sdk_name: None,
            sdk_version: None,
            client_name: None,
            client_version: None,
            runtime_name: "rust".into(),
            runtime_version: "1".into(),
            os: "linux".into(),
            architecture: "x86_64".into(),
            artifact_digest: Digest::of(b"bench"),
            lockfile_digest: None,
        },
        capabilities: Capabilities { operations: vec!["run".into()], cancellation: true, ..Capabilities::default() },
        requested_permissions: Vec::new(),
    }
}

fn prepare_params() -> PrepareParams {
    PrepareParams {
        resolved_plan_digest: Digest::of(b"plan"),
        capability_token: Secret::new("token"),
        fixture_refs: FixtureRefs::Absent,
        approved_permissions: Vec::new(),
    }
}

fn invoke_params() -> InvokeParams {
    InvokeParams {
        invocation_id: id(1),
        attempt_id: id(2),
        operation: "run".into(),
        input: ExactInputHandle { kind: InputKind::Pipe, value: Secret::new("input") },
    }
}

fn payload(index: u64) -> FreeValue {
    FreeValue::from_serialize(&Delta { index, text: "hello world", kind: "delta" }).expect("a payload")
}

#[derive(serde::Serialize)]
struct Delta {
    index: u64,
    text: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
}

/// One direction of the in-memory pipe of the lifecycle.
#[derive(Default)]
struct Wire {
    encoder: Encoder,
    decoder: Decoder,
}

impl Wire {
    /// Encodes on one side, decodes on the other.
    fn send(&mut self, message: &Message) -> Message {
        self.encoder.encode(message).expect("it validates");
        self.decoder.feed(self.encoder.take());
        self.decoder.decode().expect("a whole frame").expect("a good frame")
    }
}

/// Core asks and applies its own request; the driver decodes it and answers.
fn exchange(machine: &mut Machine, to_driver: &mut Wire, to_core: &mut Wire, call: Call, answer: &Message) {
    let request = Message::request(Id::Int(1), call);
    machine.apply(&request).expect("in order");
    black_box(to_driver.send(&request));
    black_box(to_core.send(answer));
}

fn lifecycle() {
    let mut machine = Machine::new();
    let (mut to_driver, mut to_core) = (Wire::default(), Wire::default());
    let id_1 = Id::Int(1);
    let answer = Message::result(id_1.clone(), &hello_result()).expect("it validates");
    let call = Call::Hello(HelloParams { core_version_range: supported_versions() });
    exchange(&mut machine, &mut to_driver, &mut to_core, call, &answer);
    let answer = Message::result(id_1.clone(), &PrepareResult::default()).expect("it validates");
    exchange(&mut machine, &mut to_driver, &mut to_core, Call::Prepare(prepare_params()), &answer);
    let answer = Message::result(id_1.clone(), &ShutdownResult).expect("it validates");
    exchange(&mut machine, &mut to_driver, &mut to_core, Call::Invoke(invoke_params()), &answer);
    for sequence in 0..OBSERVATIONS {
        let observation = Message::Notification(Notification::Observation(ObservationParams {
            invocation_id: id(1),
            attempt_id: id(2),
            sequence,
            kind: "delta".into(),
            monotonic_ns: sequence * 100,
            payload: Some(payload(sequence)),
            data_stream: None,
        }));
        machine.apply(&to_core.send(&observation)).expect("in order");
    }
    let completed = Message::Notification(Notification::Completed(CompletedParams {
        invocation_id: id(1),
        attempt_id: id(2),
        status: TerminalStatus::Completed,
        last_sequence: Some(OBSERVATIONS - 1),
        summary_digest: Digest::of(b"summary"),
    }));
    machine.apply(&to_core.send(&completed)).expect("in order");
    exchange(&mut machine, &mut to_driver, &mut to_core, Call::Shutdown(None), &answer);
    assert_eq!(machine.state(), State::Shutdown);
}

/// The same through the sessions, which also keep a request table, a summary digest and an event queue.
#[expect(clippy::disallowed_methods, reason = "sessions take the time as an argument")]
fn lifecycle_sessions() {
    let now = Instant::now();
    let mut core = CoreSession::new(CoreConfig::default());
    let mut driver = DriverSession::new(DriverConfig::new(hello_result())).expect("it validates");
    core.hello(now).expect("hello");
    pump(now, &mut core, &mut driver);
    core.prepare(now, prepare_params()).expect("prepare");
    pump(now, &mut core, &mut driver);
    core.invoke(now, invoke_params()).expect("invoke");
    pump(now, &mut core, &mut driver);
    for index in 0..OBSERVATIONS {
        driver.observe(id(1), "delta", index * 100, &ObservationBody::Payload(payload(index))).expect("observe");
        pump(now, &mut core, &mut driver);
    }
    driver.complete(id(1), TerminalStatus::Completed).expect("complete");
    pump(now, &mut core, &mut driver);
    core.shutdown(now).expect("shutdown");
    pump(now, &mut core, &mut driver);
    assert_eq!(core.state(), State::Shutdown);
}

fn pump(now: Instant, core: &mut CoreSession, driver: &mut DriverSession) {
    loop {
        let mut moved = false;
        while let Some(Output::Control(bytes)) = core.poll_output() {
            driver.feed(now, bytes);
            moved = true;
        }
        while let Some(event) = driver.poll_event() {
            match event {
                DriverEvent::Prepare(_) => driver.accept_prepare(Vec::new()).expect("accept"),
                DriverEvent::Invoke(params) => driver.accept_invoke(params.invocation_id).expect("accept"),
                DriverEvent::Shutdown => driver.accept_shutdown().expect("accept"),
                _ => {}
            }
        }
        while let Some(Output::Control(bytes)) = driver.poll_output() {
            core.feed(now, bytes);
            moved = true;
        }
        while let Some(event) = core.poll_event() {
            assert!(!matches!(black_box(event), CoreEvent::Fault(_)));
        }
        if !moved {
            return;
        }
    }
}

static OBSERVED: LazyLock<Vec<ObservationParams>> = LazyLock::new(|| {
    let observation = |sequence| ObservationParams {
        invocation_id: id(1),
        attempt_id: id(2),
        sequence,
        kind: "delta".into(),
        monotonic_ns: 0,
        payload: Some(payload(sequence)),
        data_stream: None,
    };
    (0..OBSERVATIONS).map(observation).collect()
});

fn machine_observe() {
    let mut machine = Machine::new();
    machine.accept_hello().expect("in order");
    machine.accept_prepare().expect("in order");
    machine.begin_invocation(&invoke_params()).expect("in order");
    for params in OBSERVED.iter() {
        machine.observe(black_box(params)).expect("in order");
    }
    let cancel = CancelParams { invocation_id: id(1), reason: "end".into(), deadline_millis: 1 };
    machine.request_cancel(&cancel).expect("in order");
}

static SORTED_KEYS: LazyLock<String> = LazyLock::new(|| {
    let members: Vec<String> = (0..KEYS).map(|key| format!("\"{key:05}\":0")).collect();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{{}}}}}\n", members.join(","))
});

fn sorted_keys() {
    let message = decode_control_frame(SORTED_KEYS.as_bytes()).expect("a good frame");
    black_box(pintle_driver::encode_control_frame(&message).expect("it validates"));
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_str(FRAMES)).bench(decode_mix);
}

#[divan::bench]
fn stream_decode(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_str(FRAMES)).bench(stream_decode_mix);
}

#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(1500_usize)).bench(encode_mix);
}

#[divan::bench]
fn lifecycle_1000(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(OBSERVATIONS)).bench(lifecycle);
}

#[divan::bench]
fn lifecycle_1000_sessions(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(OBSERVATIONS)).bench(lifecycle_sessions);
}

#[divan::bench]
fn observe_1000(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(OBSERVATIONS)).bench(machine_observe);
}

#[divan::bench]
fn object_100_000_keys(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_str(&**SORTED_KEYS)).bench(sorted_keys);
}

/// The frame that each of the lifecycle's observations is, on its own.
#[divan::bench]
fn decode_one_observation(bencher: Bencher<'_, '_>) {
    let frame = json!({"jsonrpc":"2.0","method":"driver.observation","params":{"invocation_id":id(1),"attempt_id":id(2),
        "sequence":7,"kind":"delta","monotonic_ns":700,"payload":{"type":"delta","index":7,"text":"hello world"}}});
    let frame = frame.to_string();
    bencher.bench(|| decode_control_frame(black_box(frame.as_bytes())));
}
