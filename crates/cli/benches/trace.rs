//! What `pintle trace` costs beside a bare relay of the same kind: a stream of updates out of an agent, and questions one
//! after the other. Runs alternate; medians and their ratios are printed. Target: 1.5. How long the processes take to start is
//! no part of it: each answers a first question, and is at rest before it is timed.
//!
//! `cargo bench -p pintle --bench trace [-- FILTER]`

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Updates of one stream.
const UPDATES: u64 = 100_000;
/// Questions, one after the other.
const QUESTIONS: u64 = 5_000;
/// Runs of each, of which the median counts.
const RUNS: usize = 7;
const TARGET: f64 = 1.5;
/// How long everybody is at rest before a stream.
const REST: Duration = Duration::from_millis(100);
/// What a relay reads at a time.
const READ_BYTES: usize = 64 * 1024;

const ANSWER: &[u8] = b"yes\n";
const UPDATE: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"0123456789abcdef0123456789abcdef\"}}}}\n";

fn main() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match args.first().and_then(|arg| arg.to_str()) {
        Some("agent-stream") => stream(),
        Some("agent-echo") => echo(),
        Some("relay") => relay(&args[1..]),
        _ => measure(args.iter().find_map(|arg| arg.to_str().filter(|arg| !arg.starts_with('-'))).unwrap_or("")),
    }
}

fn measure(filter: &str) {
    for (name, run) in [("stream", timed_stream as fn(Command) -> Duration), ("questions", timed_questions)] {
        if !name.contains(filter) {
            continue;
        }
        let agent = if name == "stream" { "agent-stream" } else { "agent-echo" };
        let (mut bare, mut traced) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            bare.push(run(through_bare_relay(agent)));
            traced.push(run(through_trace(agent)));
        }
        let (bare, traced) = (median(bare), median(traced));
        let ratio = traced.as_secs_f64() / bare.as_secs_f64();
        let verdict = if ratio <= TARGET { "within" } else { "over" };
        println!("{name:10} bare {bare:>10.2?}  trace {traced:>10.2?}  ratio {ratio:.2}  ({verdict} {TARGET})");
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn itself() -> OsString {
    std::env::current_exe().expect("own path").into_os_string()
}

fn through_bare_relay(agent: &str) -> Command {
    let mut command = Command::new(itself());
    command.arg("relay").arg(itself()).arg(agent);
    command
}

fn through_trace(agent: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pintle"));
    let out = std::env::temp_dir().join(format!("pintle-bench-{}.ndjson", std::process::id()));
    // It is appended to, so each run begins with none.
    let _ = std::fs::remove_file(&out);
    command.args(["trace", "--out"]).arg(out).arg("--").arg(itself()).arg(agent);
    command
}

fn started(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("starts")
}

/// From the question to the last byte of the answer.
fn timed_stream(command: Command) -> Duration {
    let mut child = started(command);
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let expected = usize::try_from(UPDATES).expect("small") * UPDATE.len();
    let (mut chunk, mut total) = (vec![0; READ_BYTES], 0);
    stdin.write_all(b"are you there?\n").expect("it reads");
    stdout.read_exact(&mut [0; ANSWER.len()]).expect("it answers");
    thread::sleep(REST);
    stdin.write_all(b"go\n").expect("it reads");
    let start = Instant::now();
    while total < expected {
        let read = stdout.read(&mut chunk).expect("it writes");
        assert!(read > 0, "ended after {total} of {expected} bytes");
        total += read;
    }
    let took = start.elapsed();
    drop(stdin);
    child.wait().expect("ends");
    took
}

fn timed_questions(command: Command) -> Duration {
    let mut child = started(command);
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    let mut ask = |n: u64| {
        line.clear();
        writeln!(stdin, "{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"_bench/ping\"}}").expect("it reads");
        stdout.read_line(&mut line).expect("it answers");
        assert!(line.ends_with("}\n"), "{line}");
    };
    ask(0);
    let start = Instant::now();
    for n in 1..=QUESTIONS {
        ask(n);
    }
    let took = start.elapsed();
    drop(stdin);
    child.wait().expect("ends");
    took
}

/// An agent that answers one line, and the next with many.
fn stream() {
    let mut line = String::new();
    let mut out = std::io::BufWriter::with_capacity(READ_BYTES / 2, std::io::stdout().lock());
    std::io::stdin().lock().read_line(&mut line).expect("asked");
    out.write_all(ANSWER).and_then(|()| out.flush()).expect("read");
    std::io::stdin().lock().read_line(&mut line).expect("asked");
    for _ in 0..UPDATES {
        out.write_all(UPDATE.as_bytes()).expect("read");
    }
    out.flush().expect("read");
    // It ends when its input does.
    let _ = std::io::stdin().lock().read_line(&mut line);
}

/// An agent that answers each line with itself.
fn echo() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        out.write_all(format!("{line}\n").as_bytes()).expect("read");
        out.flush().expect("read");
    }
}

/// The least that a relay can do: two threads that read and write.
fn relay(command: &[OsString]) {
    let (program, args) = command.split_first().expect("a command");
    let mut child =
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    thread::spawn(move || pass(&mut std::io::stdin().lock(), &mut stdin));
    pass(&mut stdout, &mut std::io::stdout().lock());
    child.wait().expect("ends");
}

fn pass(from: &mut dyn Read, to: &mut dyn Write) {
    let mut chunk = vec![0; READ_BYTES];
    while let Ok(read @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..read]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}
