//! What a companion stream costs: 1 GiB through the framing, against a bare pipe; and with digest, redaction and store,
//! against SHA-256. Ratios count; absolute rates are this machine's.
//!
//! `cargo bench -p pintle-store --bench companion`. `PINTLE_BENCH_DIR` says where the objects go, so that the disk can be
//! left out of it with a directory in memory; `PINTLE_BENCH_MIB` sets another size.

#![expect(clippy::print_stdout, reason = "a benchmark reports to whoever runs it")]

use std::{
    io::{Read, Write},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use pintle_store::{EvidenceRun, Fs, RealFs, Sanitiser, evidence::Places};
use pintle_wire::{DataDecoder, DataEvent, DataFrameHeader, DigestBuilder, InstanceId, SafeU64, encode_data_header};

const FRAME_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 64 << 10;
const ROUNDS: usize = 3;

fn main() {
    let mib: usize = std::env::var("PINTLE_BENCH_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(1024);
    let frames = mib * (1 << 20) / FRAME_BYTES;
    let payload = payload();
    let rate = |what: &str, run: &mut dyn FnMut() -> u64| {
        let best = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                let bytes = run();
                bytes as f64 / start.elapsed().as_secs_f64() / 1e9
            })
            .fold(0.0, f64::max);
        println!("{what:44} {best:7.2} GB/s");
        best
    };
    println!("{mib} MiB in frames of {} KiB, best of {ROUNDS}", FRAME_BYTES >> 10);
    let pipe = rate("bare pipe", &mut || bare_pipe(&payload, frames));
    let framed = rate("pipe and framing", &mut || framed_pipe(&payload, frames, &mut |_| {}));
    let sha = rate("SHA-256", &mut || sha256(&payload, frames));
    let redacted = rate("redaction", &mut || redaction(&payload, frames));
    let stored = rate("pipe, framing, redaction, digest, store", &mut || stored(&payload, frames));
    println!("framing:     {:5.1} % of the bare pipe (target: 60)", 100.0 * framed / pipe);
    println!("whole path:  {:5.1} % of SHA-256 (target: 50)", 100.0 * stored / sha);
    println!("redaction:   {:5.1} % of SHA-256", 100.0 * redacted / sha);
}

/// Lines such as agents write.
fn payload() -> Bytes {
    let mut text = BytesMut::with_capacity(FRAME_BYTES + 256);
    let mut n = 0;
    while text.len() < FRAME_BYTES {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s-{n}\",\"update\":{{\
             \"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\"some words of a \
             model's answer, number {n}, as long as they mostly are\"}}}}}}}}\n"
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

fn stored(payload: &Bytes, frames: usize) -> u64 {
    let base = std::env::var_os("PINTLE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = tempfile::tempdir_in(base).expect("scratch directory");
    let places = Places::below(scratch.path());
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let sanitiser = sanitiser();
    let facts = sanitiser.value(&serde_json::json!({})).expect("canonical");
    let id = InstanceId::new(1_700_000_000_000, [9; 16]).expect("an id");
    let mut run = EvidenceRun::create(fs, &places, id, &facts).expect("a run");
    let mut object = run.begin_object().expect("an object");
    let mut stream = sanitiser.stream();
    let bytes = framed_pipe(payload, frames, &mut |piece| {
        let kept = stream.push(piece);
        run.write_object(&mut object, &kept).expect("written");
    });
    run.write_object(&mut object, &stream.finish()).expect("written");
    run.finish_object(object).expect("finished");
    run.finish().expect("finished");
    bytes
}
