//! Scan and canonical form over the frames of `testdata/driver`, with serde_json in the same run.
//!
//! `cargo bench -p pintle-wire` prints divan's table, then the ratios ours / serde_json from the fastest of interleaved rounds:
//! on a machine with other work only ratios mean anything.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::BytesCount;
use pintle_wire::{Envelope, Framer, Profile, ScanLimits, canonicalize, scan, to_canonical};
use serde::de::IgnoredAny;
use serde_json::Value;

const FRAMES: &str = include_str!("../../../testdata/driver/driver-frames.ndjson");

/// An ACP update of 204 bytes, as most of a session's lines are.
const UPDATE: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_0123456789abcdef","update":"#,
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Let me look at that file now."}}}}"#,
);

/// 1 MB, 100 000 members, names in canonical order.
static SORTED_KEYS: LazyLock<String> = LazyLock::new(|| keys(|index| index));
/// The same members in another order.
static SHUFFLED_KEYS: LazyLock<String> = LazyLock::new(|| keys(|index| index * 7919 % KEYS));

const KEYS: usize = 100_000;
const ROUNDS: u32 = 60;

#[expect(clippy::disallowed_methods, reason = "a bench is a program")]
fn main() {
    divan::main();
    // `cargo test --benches` runs every bench once and wants no more.
    if std::env::args().any(|argument| argument == "--bench") {
        let _ = std::io::stdout().write_all(ratios().as_bytes());
    }
}

fn keys(order: impl Fn(usize) -> usize) -> String {
    let members: Vec<String> = (0..KEYS).map(|index| format!("\"{:05}\":0", order(index))).collect();
    format!("{{{}}}", members.join(","))
}

/// What is compared: ours, serde_json's, and what they are.
type Pair = (&'static str, fn(), fn());

const PAIRS: &[Pair] = &[
    ("scan / serde_json validates (IgnoredAny), driver frames", scan_frames, ignore_frames),
    ("scan / serde_json builds a Value, driver frames", scan_frames, value_frames),
    ("scan + canonical / serde_json Value + compact, driver frames", canonicalize_frames, rewrite_frames),
    ("scan / serde_json validates, 200 B update", scan_update, ignore_update),
    ("scan + envelope / serde_json builds a Value, 200 B update", envelope_update, value_update),
    ("scan + canonical / serde_json Value + compact, 100 000 sorted keys", canonicalize_sorted, rewrite_sorted),
    ("scan + canonical / serde_json Value + compact, 100 000 shuffled keys", canonicalize_shuffled, rewrite_shuffled),
];

fn ratios() -> String {
    let mut table = String::from("\nratio ours / serde_json, fastest of interleaved rounds\n");
    for (what, ours, theirs) in PAIRS {
        let (mut our_best, mut their_best) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            our_best = our_best.min(time(*ours));
            their_best = their_best.min(time(*theirs));
        }
        let ratio = our_best.as_secs_f64() / their_best.as_secs_f64();
        let _ = writeln!(table, "{ratio:6.2}  {what}: {our_best:?} / {their_best:?}");
    }
    table
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn time(run: fn()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn scan_text(text: &str) -> pintle_wire::Text<'_> {
    scan(text.as_bytes(), Profile::DriverRpc, ScanLimits::CONTROL).expect("strict")
}

fn ignore(text: &str) {
    black_box(serde_json::from_str::<IgnoredAny>(text).expect("JSON"));
}

fn each_frame(run: impl Fn(&'static str)) {
    for frame in FRAMES.lines() {
        run(black_box(frame));
    }
}

fn scan_frames() {
    each_frame(|frame| drop(black_box(scan_text(frame))));
}

fn ignore_frames() {
    each_frame(ignore);
}

fn value_frames() {
    each_frame(|frame| drop(black_box(serde_json::from_str::<Value>(frame).expect("JSON"))));
}

fn canonicalize_frames() {
    each_frame(|frame| drop(black_box(canonicalize(&scan_text(frame)).expect("canonical"))));
}

fn rewrite_frames() {
    each_frame(rewrite);
}

fn rewrite(text: &str) {
    let value: Value = serde_json::from_str(text).expect("JSON");
    drop(black_box(serde_json::to_vec(&value).expect("JSON")));
}

/// Enough of one short frame that the clock does not matter.
fn often(run: impl Fn(&'static str)) {
    for _ in 0..1000 {
        run(black_box(UPDATE));
    }
}

fn scan_update() {
    often(|update| drop(black_box(scan_text(update))));
}

fn ignore_update() {
    often(ignore);
}

fn value_update() {
    often(|update| drop(black_box(serde_json::from_str::<Value>(update).expect("JSON"))));
}

fn envelope_update() {
    often(|update| {
        let text = scan_text(update);
        let envelope = Envelope::parse(&text).expect("an object");
        black_box(envelope.kind(pintle_wire::VersionRule::Required));
    });
}

fn canonicalize_sorted() {
    drop(black_box(canonicalize(&scan_text(&SORTED_KEYS)).expect("canonical")));
}

fn rewrite_sorted() {
    rewrite(&SORTED_KEYS);
}

fn canonicalize_shuffled() {
    drop(black_box(canonicalize(&scan_text(&SHUFFLED_KEYS)).expect("canonical")));
}

fn rewrite_shuffled() {
    rewrite(&SHUFFLED_KEYS);
}

#[divan::bench]
fn scan_driver_frames(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_str(FRAMES)).bench(scan_frames);
}

#[divan::bench]
fn serde_json_validate_driver_frames(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_str(FRAMES)).bench(ignore_frames);
}

#[divan::bench]
fn canonicalize_driver_frames(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_str(FRAMES)).bench(canonicalize_frames);
}

#[divan::bench]
fn to_canonical_driver_values(bencher: Bencher<'_, '_>) {
    let values: Vec<Value> = FRAMES.lines().map(|frame| serde_json::from_str(frame).expect("JSON")).collect();
    bencher.counter(BytesCount::of_str(FRAMES)).bench_local(|| {
        for value in &values {
            drop(black_box(to_canonical(value).expect("canonical")));
        }
    });
}

#[divan::bench]
fn frame_driver_frames(bencher: Bencher<'_, '_>) {
    let stream = bytes::Bytes::from_static(FRAMES.as_bytes());
    bencher.counter(BytesCount::of_str(FRAMES)).bench_local(|| {
        let mut framer = Framer::new(ScanLimits::CONTROL.max_bytes);
        let mut rest = stream.clone();
        while !rest.is_empty() {
            framer.feed(rest.split_to(rest.len().min(1 << 16)));
            while let Some(line) = framer.next() {
                black_box(line);
            }
        }
    });
}

#[divan::bench(sample_size = 100)]
fn scan_200_byte_update() {
    drop(black_box(scan_text(black_box(UPDATE))));
}

#[divan::bench(sample_size = 100)]
fn envelope_of_200_byte_update(bencher: Bencher<'_, '_>) {
    let text = scan_text(UPDATE);
    bencher.bench_local(|| drop(black_box(Envelope::parse(black_box(&text)))));
}

#[divan::bench]
fn scan_and_canonicalize_100_000_sorted_keys(bencher: Bencher<'_, '_>) {
    LazyLock::force(&SORTED_KEYS);
    bencher.bench(canonicalize_sorted);
}

#[divan::bench]
fn scan_and_canonicalize_100_000_shuffled_keys(bencher: Bencher<'_, '_>) {
    LazyLock::force(&SHUFFLED_KEYS);
    bencher.bench(canonicalize_shuffled);
}
