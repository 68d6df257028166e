//! Evaluation in a child process: a stack overflow, an endless loop or a flood of memory ends the child, not the judge.
//!
//! Both sides speak one JSON object per line. The parent sends a request and waits for one line until the deadline;
//! after it, or when the child dies, the child is killed, reaped and started again for the next expression.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::evaluate::{Answer, EvalError, Evaluator, InProcess, Want};
use crate::json::read_own;
use crate::trace::Trace;

/// Longest request that the child reads, in bytes.
const MAX_REQUEST_BYTES: u64 = 512 << 20;
/// Longest answer that the parent reads, in bytes.
const MAX_ANSWER_BYTES: u64 = 4 << 20;
/// How often a child is started again before evaluation is given up.
const MAX_RESTARTS: u32 = 8;
/// Stack of the thread that evaluates, in bytes.
const STACK_BYTES: usize = 16 << 20;
/// Address space of the child, in bytes.
#[cfg(unix)]
const ADDRESS_SPACE_BYTES: u64 = 4 << 30;

/// How to start the child, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Program and arguments; the program must call [`serve`] on its stdin and stdout.
    pub argv: Vec<std::ffi::OsString>,
    /// Longest evaluation of one expression, in milliseconds.
    pub ask_deadline_ms: u64,
    /// Longest transfer of a trace, in milliseconds.
    pub load_deadline_ms: u64,
}

impl WorkerConfig {
    /// The default deadlines: 5 s for an expression, 60 s for a trace.
    pub fn new(argv: Vec<std::ffi::OsString>) -> Self {
        Self { argv, ask_deadline_ms: 5_000, load_deadline_ms: 60_000 }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Load { trace: Box<Trace>, deadline_ms: u64 },
    Ask { expression: String, want: Want, deadline_ms: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Loaded,
    Answer(Answer),
    Runtime(String),
    WrongType(String),
}

/// Evaluates in a child process. See the module's documentation.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    running: Option<Running>,
    trace: Option<Arc<Trace>>,
    starts: u32,
}

#[derive(Debug)]
struct Running {
    child: Child,
    requests: Sender<Vec<u8>>,
    answers: Receiver<std::io::Result<Vec<u8>>>,
    loaded: bool,
}

impl Worker {
    /// A worker that starts its child at the first use.
    pub fn new(config: WorkerConfig) -> Self {
        Self { config, running: None, trace: None, starts: 0 }
    }

    fn start(&mut self) -> Result<&mut Running, EvalError> {
        if self.running.is_none() {
            if self.starts > MAX_RESTARTS {
                return Err(EvalError::Unavailable(format!("it died {MAX_RESTARTS} times")));
            }
            self.starts += 1;
            self.running = Some(Running::start(&self.config)?);
        }
        self.running.as_mut().ok_or(EvalError::Crashed)
    }

    fn exchange(&mut self, line: Vec<u8>, deadline_ms: u64) -> Result<Response, EvalError> {
        let running = self.start()?;
        let result = running.exchange(line, Duration::from_millis(deadline_ms));
        match result {
            Ok(response) => Ok(response),
            Err(error) => {
                if let Some(running) = self.running.take() {
                    running.kill();
                }
                Err(match error {
                    EvalError::Deadline { .. } => EvalError::Deadline { deadline_ms },
                    other => other,
                })
            }
        }
    }

    /// Hands the trace to a child that does not have it yet.
    fn ensure_loaded(&mut self) -> Result<(), EvalError> {
        if self.running.as_ref().is_some_and(|running| running.loaded) {
            return Ok(());
        }
        let Some(trace) = self.trace.clone() else {
            return Err(EvalError::Unavailable("no trace is loaded".to_owned()));
        };
        let deadline_ms = self.config.load_deadline_ms;
        let line = load_line(&trace, deadline_ms)?;
        match self.exchange(line, deadline_ms)? {
            Response::Loaded => {
                if let Some(running) = &mut self.running {
                    running.loaded = true;
                }
                Ok(())
            }
            _ => Err(EvalError::Crashed),
        }
    }
}

impl Evaluator for Worker {
    fn load(&mut self, trace: &Arc<Trace>) -> Result<(), EvalError> {
        self.trace = Some(Arc::clone(trace));
        if let Some(running) = &mut self.running {
            running.loaded = false;
        }
        self.ensure_loaded()
    }

    fn ask(&mut self, expression: &str, want: Want) -> Result<Answer, EvalError> {
        self.ensure_loaded()?;
        let deadline_ms = self.config.ask_deadline_ms;
        let request = Request::Ask { expression: expression.to_owned(), want, deadline_ms };
        match self.exchange(to_line(&request)?, deadline_ms)? {
            Response::Answer(answer) => Ok(answer),
            Response::Runtime(message) => Err(EvalError::Runtime(message)),
            Response::WrongType(found) => Err(EvalError::WrongType { found }),
            Response::Loaded => Err(EvalError::Crashed),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }
}

impl Running {
    fn start(config: &WorkerConfig) -> Result<Self, EvalError> {
        let unavailable = |error: std::io::Error| EvalError::Unavailable(error.to_string());
        let Some((program, arguments)) = config.argv.split_first() else {
            return Err(EvalError::Unavailable("no program is configured".to_owned()));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(unavailable)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(EvalError::Unavailable("it has no pipes".to_owned()));
        };
        let (requests, next_request) = channel();
        let (answer, answers) = channel();
        let spawned = std::thread::Builder::new()
            .name("cel-worker-io".to_owned())
            .spawn(move || carry(stdin, stdout, &next_request, &answer));
        let running = Self { child, requests, answers, loaded: false };
        match spawned {
            Ok(_) => Ok(running),
            Err(error) => {
                running.kill();
                Err(unavailable(error))
            }
        }
    }

    fn exchange(&mut self, line: Vec<u8>, deadline: Duration) -> Result<Response, EvalError> {
        self.requests.send(line).map_err(|_| EvalError::Crashed)?;
        match self.answers.recv_timeout(deadline) {
            Ok(Ok(line)) => serde_json::from_slice(&line).map_err(|_| EvalError::Crashed),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Err(EvalError::Crashed),
            Err(RecvTimeoutError::Timeout) => Err(EvalError::Deadline { deadline_ms: 0 }),
        }
    }

    /// Kills and reaps. The thread that carries lines ends with the pipes.
    fn kill(mut self) {
        // A child that has exited by itself cannot be killed; either way it is reaped below.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes requests and reads answers, so that neither can hold the judge beyond its deadline.
fn carry(
    mut stdin: ChildStdin,
    stdout: ChildStdout,
    requests: &Receiver<Vec<u8>>,
    answers: &Sender<std::io::Result<Vec<u8>>>,
) {
    let mut stdout = BufReader::new(stdout);
    while let Ok(line) = requests.recv() {
        let result = stdin.write_all(&line).and_then(|()| stdin.flush()).and_then(|()| {
            let mut answer = Vec::new();
            stdout.by_ref().take(MAX_ANSWER_BYTES).read_until(b'\n', &mut answer)?;
            if answer.last() == Some(&b'\n') { Ok(answer) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
        });
        let failed = result.is_err();
        if answers.send(result).is_err() || failed {
            return;
        }
    }
}

fn to_line<T: Serialize>(value: &T) -> Result<Vec<u8>, EvalError> {
    let mut line = serde_json::to_vec(value).map_err(|error| EvalError::Unavailable(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

/// A load request, written around the borrowed trace.
fn load_line(trace: &Trace, deadline_ms: u64) -> Result<Vec<u8>, EvalError> {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Borrowed<'a> {
        Load { trace: &'a Trace, deadline_ms: u64 },
    }
    to_line(&Borrowed::Load { trace, deadline_ms })
}

/// Why the child's loop ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Stdin or stdout failed.
    #[error("failed to talk to the judge")]
    Io(#[from] std::io::Error),
    /// A request was not understood.
    #[error("failed to read a request of the judge")]
    Request(#[source] serde_json::Error),
    /// The evaluating thread could not be started, or died.
    #[error("failed to run the evaluating thread")]
    Thread,
}

/// The child's side: answers requests until end of input. The body of `pintle __cel`.
///
/// Limits its own address space, and aborts the process when an evaluation passes its deadline, so that it does not
/// outlive a judge that was killed.
///
/// # Errors
/// [`ServeError`]. A child that ends is started again by the judge.
pub fn serve(input: impl BufRead + Send, output: impl Write + Send) -> Result<(), ServeError> {
    limit_memory();
    let clock = Instant::now();
    // Milliseconds on `clock` at which the running evaluation must be over; 0 when none runs.
    let deadline = Arc::new(AtomicU64::new(0));
    let watched = Arc::clone(&deadline);
    std::thread::Builder::new()
        .name("cel-watchdog".to_owned())
        .spawn(move || {
            loop {
                std::thread::park_timeout(Duration::from_millis(250));
                let at = watched.load(Ordering::Acquire);
                if at != 0 && elapsed_ms(clock) > at {
                    std::process::abort();
                }
            }
        })
        .map_err(|_| ServeError::Thread)?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || answer_all(input, output, clock, &deadline))
            .map_err(|_| ServeError::Thread)?;
        thread.join().unwrap_or(Err(ServeError::Thread))
    })
}

fn answer_all(
    mut input: impl BufRead,
    mut output: impl Write,
    clock: Instant,
    deadline: &AtomicU64,
) -> Result<(), ServeError> {
    let mut evaluator = InProcess::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_REQUEST_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let request: Request = read_own(&line).map_err(ServeError::Request)?;
        let (Request::Load { deadline_ms, .. } | Request::Ask { deadline_ms, .. }) = &request;
        // Twice the parent's deadline: the parent acts first, this is for when there is none any more.
        deadline.store(elapsed_ms(clock).saturating_add(2 * deadline_ms).max(1), Ordering::Release);
        let response = match request {
            Request::Load { trace, .. } => match evaluator.load(&Arc::new(*trace)) {
                Ok(()) => Response::Loaded,
                Err(error) => Response::Runtime(error.to_string()),
            },
            Request::Ask { expression, want, .. } => match evaluator.ask(&expression, want) {
                Ok(answer) => Response::Answer(answer),
                Err(EvalError::WrongType { found }) => Response::WrongType(found),
                Err(EvalError::Runtime(message)) => Response::Runtime(message),
                Err(other) => Response::Runtime(other.to_string()),
            },
        };
        deadline.store(0, Ordering::Release);
        serde_json::to_writer(&mut output, &response).map_err(|error| ServeError::Io(error.into()))?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

fn elapsed_ms(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(unix)]
fn limit_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // A limit that cannot be set leaves the parent's deadline, which is the bound that matters.
    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let _ = setrlimit(Resource::As, limit(ADDRESS_SPACE_BYTES));
    let _ = setrlimit(Resource::Core, limit(0));
}

#[cfg(not(unix))]
fn limit_memory() {}
