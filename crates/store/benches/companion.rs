//! What a companion stream costs: 1 GiB through the framing, against a bare pipe; and with digest, redaction and store,
//! against SHA-256. Ratios count; absolute rates are this machine's.
//!
//! Each round runs everything once, one after the other, so that what else the machine does hits all of it; a ratio is that
//! of one round. Medians are printed, with the least and the most. CPU time is that of this process, user and system, both
//! ends of the pipe included: on a busy machine it says more than the rates.
//!
//! The whole path is as in a check: one thread takes the stream apart, another one redacts, hashes and stores it.
//!
//! `cargo bench -p pintle-store --bench companion`. `PINTLE_BENCH_DIR` says where the objects go, so that the disk can be
//! left out of it with a directory in memory; `PINTLE_BENCH_MIB` and `PINTLE_BENCH_ROUNDS` set another size and count.

#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use pintle_store::{EvidenceRun, Fs, RealFs, Sanitiser, evidence::Places};
use pintle_testkit::usage::cpu_us;
use pintle_wire::{DataDecoder, DataEvent, DataFrameHeader, DigestBuilder, InstanceId, SafeU64, encode_data_header};

const FRAME_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 64 << 10;
/// Pieces that wait for the thread that stores them; a check has as many events.
const QUEUE: usize = 64;

/// What is measured, in the order of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Pipe,
    Framed,
    Sha,
    Redaction,
    Whole,
    WholeEscaped,
}

impl What {
    const ALL: [Self; 6] = [Self::Pipe, Self::Framed, Self::Sha, Self::Redaction, Self::Whole, Self::WholeEscaped];

    const fn name(self) -> &'static str {
        match self {
            Self::Pipe => "bare pipe",
            Self::Framed => "pipe and framing",
            Self::Sha => "SHA-256",
            Self::Redaction => "redaction",
            Self::Whole => "whole path: framing, redaction, digest, store",
            Self::WholeEscaped => "the same, with line breaks and quotes in texts",
        }
    }
}

/// One run of one thing.
#[derive(Debug, Clone, Copy)]
struct Sample {
    bytes_per_ns: f64,
    cpu_ns_per_byte: f64,
}

fn main() {
    let setting = |name: &str, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (mib, rounds) = (setting("PINTLE_BENCH_MIB", 1024_usize), setting("PINTLE_BENCH_ROUNDS", 7_usize).max(1));
    let frames = (mib * (1 << 20) / FRAME_BYTES).max(1);
    let (plain, escaped) = (payload("some words of a model's answer"), payload(r#"a line\nand \"quoted\" words"#));
    println!(
        "{mib} MiB in frames of {} KiB, {rounds} rounds in turns, {} logical processors: median [least .. most]",
        FRAME_BYTES >> 10,
        thread::available_parallelism().map_or(0, usize::from)
    );
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); What::ALL.len()];
    for _ in 0..rounds {
        for (what, samples) in What::ALL.into_iter().zip(&mut samples) {
            let base = std::env::var_os("PINTLE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
            // Made before and removed after what is measured.
            let scratch = tempfile::tempdir_in(base).expect("scratch directory");
            let (began, cpu) = (Instant::now(), cpu_us());
            let bytes = run(what, &plain, &escaped, frames, scratch.path()) as f64;
            let (ns, cpu_ns) = (began.elapsed().as_nanos() as f64, (cpu_us() - cpu) as f64 * 1e3);
            drop(scratch);
            samples.push(Sample { bytes_per_ns: bytes / ns, cpu_ns_per_byte: cpu_ns / bytes });
        }
    }
    for (what, samples) in What::ALL.into_iter().zip(&samples) {
        let (rate, cpu) = (samples.iter().map(|sample| sample.bytes_per_ns), samples.iter().map(|s| s.cpu_ns_per_byte));
        println!("{:48} {} GB/s, CPU {} ns/byte", what.name(), spread(rate, 2), spread(cpu, 2));
    }
    let ratio = |what: What, to: What, target: Option<u32>| {
        let of = |what: What| samples[what as usize].iter();
        let wall = of(what).zip(of(to)).map(|(a, b)| 100.0 * a.bytes_per_ns / b.bytes_per_ns);
        let cpu = of(what).zip(of(to)).map(|(a, b)| 100.0 * b.cpu_ns_per_byte / a.cpu_ns_per_byte);
        let target = target.map(|percent| format!(" (target: {percent} %)")).unwrap_or_default();
        println!("{:48} {} % of {}{target}; by CPU {} %", what.name(), spread(wall, 0), to.name(), spread(cpu, 0));
    };
    ratio(What::Framed, What::Pipe, Some(60));
    ratio(What::Redaction, What::Sha, None);
    ratio(What::Whole, What::Sha, Some(50));
    ratio(What::WholeEscaped, What::Sha, None);
}

fn spread(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return String::new() };
    format!("{:.digits$} [{least:.digits$} .. {most:.digits$}]", values[values.len() / 2])
}

fn run(what: What, plain: &Bytes, escaped: &Bytes, frames: usize, scratch: &Path) -> u64 {
    match what {
        What::Pipe => bare_pipe(plain, frames),
        What::Framed => framed_pipe(plain, frames, &mut |_| {}),
        What::Sha => sha256(plain, frames),
        What::Redaction => redaction(plain, frames),
        What::Whole => stored(plain, frames, scratch),
        What::WholeEscaped => stored(escaped, frames, scratch),
    }
}

/// Lines such as agents write, with these words in their texts.
fn payload(words: &str) -> Bytes {
    let mut text = BytesMut::with_capacity(FRAME_BYTES + 256);
    let mut n = 0;
    while text.len() < FRAME_BYTES {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s-{n}\",\"update\":{{\
             \"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"{words}, \
             number {n}, as long as they mostly are\"}}}}}}}}\n"
        );
        text.extend_from_slice(line.as_bytes());
        n += 1;
    }
    text.truncate(FRAME_BYTES);
    text.freeze()
}

fn bare_pipe(payload: &Bytes, frames: usize) -> u64 {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let payload = payload.clone();
    let sending = thread::spawn(move || (0..frames).for_each(|_| writer.write_all(&payload).expect("write")));
    let mut buffer = vec![0; READ_BYTES];
    let mut sum = 0;
    loop {
        match reader.read(&mut buffer).expect("read") {
            0 => break,
            got => sum += got as u64,
        }
    }
    sending.join().expect("sent");
    sum
}

/// The same bytes with a header for each frame, taken apart again; `sink` gets every piece of payload.
fn framed_pipe(payload: &Bytes, frames: usize, sink: &mut dyn FnMut(&Bytes)) -> u64 {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let payload = payload.clone();
    let id = |n| InstanceId::new(1_700_000_000_000, [n; 16]).expect("an id");
    let sending = thread::spawn(move || {
        let mut head = Vec::new();
        for sequence in 0..frames {
            let header = DataFrameHeader {
                attempt_id: id(1),
                is_final: sequence + 1 == frames,
                invocation_id: id(2),
                length: payload.len() as u32,
                sequence: SafeU64::new(sequence as u64).expect("a sequence"),
                stream_id: "s0".to_owned(),
            };
            head.clear();
            encode_data_header(&header, FRAME_BYTES, &mut head).expect("a header");
            writer.write_all(&head).expect("write");
            writer.write_all(&payload).expect("write");
        }
    });
    let mut decoder = DataDecoder::default();
    let mut buffer = BytesMut::new();
    let mut sum = 0;
    loop {
        buffer.resize(READ_BYTES, 0);
        let got = reader.read(&mut buffer).expect("read");
        if got == 0 {
            break;
        }
        decoder.feed(buffer.split_to(got).freeze());
        while let Some(event) = decoder.next().expect("a frame") {
            if let DataEvent::Payload { bytes, .. } = event {
                sum += bytes.len() as u64;
                sink(&bytes);
            }
        }
    }
    sending.join().expect("sent");
    sum
}

fn sha256(payload: &Bytes, frames: usize) -> u64 {
    let mut digest = DigestBuilder::new();
    (0..frames).for_each(|_| digest.update(payload));
    std::hint::black_box(digest.finish());
    (frames * payload.len()) as u64
}

fn sanitiser() -> Sanitiser {
    Sanitiser::new(["hunter2-correct-horse", "sk-another-secret-1"])
}

fn redaction(payload: &Bytes, frames: usize) -> u64 {
    let sanitiser = sanitiser();
    let mut stream = sanitiser.stream();
    let mut sum = 0;
    for _ in 0..frames {
        sum += stream.push(payload).bytes().len() as u64;
    }
    sum + stream.finish().bytes().len() as u64
}

fn stored(payload: &Bytes, frames: usize, scratch: &Path) -> u64 {
    let places = Places::below(scratch);
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let sanitiser = sanitiser();
    let facts = sanitiser.value(&serde_json::json!({})).expect("canonical");
    let id = InstanceId::new(1_700_000_000_000, [9; 16]).expect("an id");
    let mut run = EvidenceRun::create(fs, &places, id, &facts).expect("a run");
    let mut object = run.begin_object().expect("an object");
    let (pieces, received) = mpsc::sync_channel::<Bytes>(QUEUE);
    let bytes = thread::scope(|threads| {
        let storing = threads.spawn(|| {
            let mut stream = sanitiser.stream();
            for piece in received {
                run.write_object(&mut object, stream.push(&piece)).expect("written");
            }
            run.write_object(&mut object, stream.finish()).expect("written");
            run.finish_object(object).expect("finished");
        });
        let bytes = framed_pipe(payload, frames, &mut |piece| pieces.send(piece.clone()).expect("taken"));
        drop(pieces);
        storing.join().expect("stored");
        bytes
    });
    run.finish().expect("finished");
    bytes
}
