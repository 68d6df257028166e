//! `transport::stdio`: what else a program prints cannot reach the peer, no thread helps, and the streams are given back as
//! they were. With a real program.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};

/// The program between two pipes, of which we keep its ends too: a mode belongs to the pipe, whoever set it.
struct Careless {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<std::fs::File>,
    its_stdout: OwnedFd,
}

impl Careless {
    fn start() -> Self {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let its_stdout = theirs.try_clone().expect("another descriptor");
        let mut child = Command::new(env!("CARGO_BIN_EXE_fake-stdio"))
            .stdin(Stdio::piped())
            .stdout(Stdio::from(theirs))
            .stderr(Stdio::piped())
            .spawn()
            .expect("spawn");
        let stdin = child.stdin.take();
        Self { child, stdin, stdout: BufReader::new(std::fs::File::from(ours)), its_stdout }
    }

    fn send(&mut self, frame: &Value) {
        writeln!(self.stdin.as_mut().expect("open"), "{frame}").expect("it reads");
    }

    fn ask(&mut self, id: u64, method: &str) -> Value {
        self.send(&json!({"jsonrpc":"2.0","id":id,"method":method,"params":{"protocolVersion":1}}));
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?} is no frame: {e}"));
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    fn is_blocking(&self) -> bool {
        !fcntl_getfl(&self.its_stdout).expect("open").contains(OFlags::NONBLOCK)
    }

    /// Its end, what its standard output had left, and all of its standard error.
    fn end(mut self) -> (ExitStatus, String, String, bool) {
        drop(self.stdin.take());
        let mut stderr = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
        let status = self.child.wait().expect("it ends");
        let blocking = self.is_blocking();
        drop(self.its_stdout);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("UTF-8");
        (status, rest, stderr, blocking)
    }
}

/// stray prints of any thread, and of children, go to standard error; the peer sees frames and nothing else.
#[test]
fn r_228_stray_prints_do_not_reach_the_peer() {
    let mut agent = Careless::start();
    let mut before = [0; 15];
    agent.stdout.read_exact(&mut before).expect("what was printed before the streams were taken goes out first");
    assert_eq!(&before, b"printed before ");
    assert_eq!(agent.ask(0, "initialize")["protocolVersion"], 1);
    for id in 1..=20 {
        assert_eq!(agent.ask(id, "_t/print"), true);
    }
    let (status, rest, stderr, _) = agent.end();
    assert!(status.success());
    assert_eq!(rest, "");
    assert_eq!(stderr.matches("stray from a thread").count(), 20, "{stderr}");
    assert_eq!(stderr.matches("stray from a child").count(), 20, "{stderr}");
    assert!(stderr.contains("printed after"), "{stderr}");
}

/// the streams are read and written under readiness: one thread, whatever is open.
#[test]
fn r_226_no_thread_stands_behind_the_streams() {
    let mut agent = Careless::start();
    agent.stdout.read_exact(&mut [0; 15]).expect("printed before");
    agent.ask(0, "initialize");
    assert_eq!(agent.ask(1, "_t/threads"), 1);
}

/// blocking mode comes back at the end of input, and also when the program leaves without dropping anything.
#[test]
fn r_226_the_streams_are_blocking_again_at_exit() {
    let mut agent = Careless::start();
    agent.stdout.read_exact(&mut [0; 15]).expect("printed before");
    agent.ask(0, "initialize");
    assert!(!agent.is_blocking());
    let (status, _, _, blocking) = agent.end();
    assert!(status.success() && blocking);

    let mut agent = Careless::start();
    agent.stdout.read_exact(&mut [0; 15]).expect("printed before");
    agent.ask(0, "initialize");
    agent.send(&json!({"jsonrpc":"2.0","id":1,"method":"_t/exit"}));
    let (status, _, _, blocking) = agent.end();
    assert_eq!((status.code(), blocking), (Some(3), true));
}

/// The streams can be taken once: a second taker is told, and nothing of the first is disturbed.
#[test]
fn the_streams_cannot_be_taken_twice() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // The test's own standard output is shared with others, so it is not taken for long.
        let own = rustix::io::dup(rustix::stdio::stdout()).expect("a copy");
        let input = rustix::io::dup(rustix::stdio::stdin()).expect("a copy");
        let first = pintle_sdk::transport::take_stdio();
        let second = pintle_sdk::transport::take_stdio();
        rustix::stdio::dup2_stdout(&own).expect("given back");
        rustix::stdio::dup2_stdin(&input).expect("given back");
        assert!(first.is_ok());
        assert_eq!(second.expect_err("taken").kind(), std::io::ErrorKind::ResourceBusy);
    });
}
