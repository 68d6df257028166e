//! `pintle trace`: bytes pass unchanged whatever they are and whatever becomes of the recording; the recording says what
//! passed and what was wrong with it. With real processes.

#![cfg(target_os = "linux")]

use std::fs::Permissions;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use pintle_testkit::deaths::Watched;
use serde_json::{Value, json};

const PINTLE: &str = env!("CARGO_BIN_EXE_pintle");

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(30);

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("t.ndjson")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PINTLE);
        command.args(args).env("PINTLE_HOME", self.0.path()).env("NO_COLOR", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// An agent that is traced, into [`Scratch::file`].
    fn trace(&self, agent: &[&str]) -> Traced {
        let file = self.file();
        let mut args = vec!["trace", "--out", file.to_str().expect("UTF-8"), "--"];
        args.extend(agent);
        Traced::new(self.command(&args).spawn().expect("spawn"))
    }

    fn show(&self, args: &[&str]) -> String {
        let file = self.file();
        let mut all = vec!["trace", "show", file.to_str().expect("UTF-8")];
        all.extend(args);
        let output = self.command(&all).output().expect("runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn rows(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.file()).expect("a recording");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
    }

    fn frames(&self) -> Vec<Value> {
        self.rows().into_iter().filter(|row| row["type"] == "frame").collect()
    }
}

struct Traced {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Traced {
    fn new(mut child: Child) -> Self {
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, stdin, stdout }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stdin.as_mut().expect("open").write_all(bytes.as_ref()).expect("it reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it writes");
        line
    }

    fn ask(&mut self, frame: &Value) -> Value {
        self.send(format!("{frame}\n"));
        serde_json::from_str(&self.line()).expect("a frame")
    }

    /// Closes its input: what it still writes, and its exit code.
    fn end(mut self) -> (Vec<u8>, Option<i32>, String) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).expect("it ends");
        let mut stderr = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
        (rest, self.child.wait().expect("it ends").code(), stderr)
    }
}

fn every_byte(count: usize) -> Vec<u8> {
    (0..count).map(|i| u8::try_from((i * 7 + i / 251) % 256).expect("a byte")).collect()
}

/// Any bytes in any pieces come out as they went in, and no piece waits for the next.
#[test]
fn bytes_pass_unchanged_and_at_once() {
    let scratch = Scratch::new();
    let mut traced = scratch.trace(&["cat"]);
    for piece in [&b"half a li"[..], b"ne\r\n\n", b"\xff\xfe\x00", b"{\"jsonrpc\""] {
        traced.send(piece);
        let mut back = vec![0; piece.len()];
        traced.stdout.read_exact(&mut back).expect("at once");
        assert_eq!(back, piece);
    }
    let all = every_byte(3 << 20);
    let mut stdin = traced.stdin.take().expect("open");
    let sent = all.clone();
    let writer = thread::spawn(move || stdin.write_all(&sent).expect("it reads"));
    let (rest, code, _) = traced.end();
    writer.join().expect("written");
    assert!(rest == all, "{} of {} bytes came back", rest.len(), all.len());
    assert_eq!(code, Some(0));
}

fn check_exit(agent: &[&str], expected: i32) {
    let scratch = Scratch::new();
    let (_, code, stderr) = scratch.trace(agent).end();
    assert_eq!(code, Some(expected), "{agent:?}: {stderr}");
}

/// Design section 3: the exit code is the agent's, 128 and the signal's number where it died of one.
#[test]
fn the_exit_code_is_the_agents() {
    check_exit(&["true"], 0);
    check_exit(&["sh", "-c", "exit 7"], 7);
    check_exit(&["sh", "-c", "kill -9 $$"], 137);
    check_exit(&["sh", "-c", "kill -TERM $$"], 143);
    check_exit(&["no-such-agent-anywhere"], 127);
    check_exit(&["/etc/passwd"], 126);
}

#[test]
fn nothing_behind_the_dashes_is_wrong_usage() {
    let scratch = Scratch::new();
    for args in [&["trace"][..], &["trace", "--"], &["trace", "cat"]] {
        assert_eq!(scratch.command(args).output().expect("runs").status.code(), Some(2), "{args:?}");
    }
}

/// Half-close: the agent sees the end of its input and may still answer; the client sees the end of the agent's output
/// while the agent lives on.
#[test]
fn each_direction_ends_by_itself() {
    let scratch = Scratch::new();
    let (rest, code, _) = scratch.trace(&["sh", "-c", "cat >/dev/null; echo after"]).end();
    assert_eq!((rest.as_slice(), code), (&b"after\n"[..], Some(0)));

    let mut traced = scratch.trace(&["sh", "-c", "echo first; exec >&-; read x; exit 3"]);
    let mut all = String::new();
    traced.stdout.read_to_string(&mut all).expect("it ends while the agent lives");
    assert_eq!(all, "first\n");
    traced.send("x\n");
    assert_eq!(traced.end().1, Some(3));
}

/// An agent that does not read any more is seen by the client as it would be without us.
#[test]
fn a_closed_input_reaches_the_writer() {
    let scratch = Scratch::new();
    let mut traced = scratch.trace(&["sh", "-c", "exec <&-; echo ready; exec sleep 1000"]);
    assert_eq!(traced.line(), "ready\n");
    let stdin = traced.stdin.as_mut().expect("open");
    let error = loop {
        if let Err(error) = stdin.write_all(b"x\n") {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    traced.child.kill().expect("kill");
    traced.child.wait().expect("wait");
}

/// Signals that a client sends are the agent's to handle.
#[test]
fn signals_are_passed_on() {
    let scratch = Scratch::new();
    let mut traced = scratch.trace(&["sh", "-c", "trap 'echo got it; exit 9' TERM; echo ready; read x; read y"]);
    assert_eq!(traced.line(), "ready\n");
    let pid = traced.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    assert_eq!(traced.line(), "got it\n");
    assert_eq!(traced.end().1, Some(9));
}

/// Inv-6: nothing that the agent started outlives a tee that is killed.
#[test]
fn inv_6_nothing_survives_a_killed_tee() {
    let scratch = Scratch::new();
    let mut traced = scratch.trace(&["sh", "-c", "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; echo $$; wait"]);
    let family: Vec<Watched> =
        (0..3).map(|_| Watched::new(traced.line().trim().parse().expect("a process id"))).collect();
    assert!(family.iter().all(Watched::is_alive));
    traced.child.kill().expect("kill");
    traced.child.wait().expect("wait");
    for process in &family {
        assert!(process.ends_within(LIMIT), "{} lives on", process.pid());
    }
}

/// R-222, invariant 5: lines of any length pass, in memory that does not grow with them.
#[test]
fn r_222_long_lines_pass_in_bounded_memory() {
    const LINE: usize = 64 << 20;
    let scratch = Scratch::new();
    let mut traced = scratch.trace(&["sh", "-c", "cat; read x"]);
    let mut stdin = traced.stdin.take().expect("open");
    let writer = thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..3 {
            for _ in 0..LINE / piece.len() {
                stdin.write_all(&piece).expect("it reads");
            }
            stdin.write_all(b"\n").expect("it reads");
        }
        stdin
    });
    let mut total = 0;
    let mut chunk = vec![0; 1 << 20];
    while total < 3 * (LINE + 1) {
        let read = traced.stdout.read(&mut chunk).expect("it writes");
        assert!(read > 0, "ended after {total} bytes");
        total += read;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", traced.child.id())).expect("alive");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak_kib: usize = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak_kib < 160 << 10, "{peak_kib} KiB for lines of {LINE} bytes");
    drop(writer.join().expect("written"));
    traced.end();
    let frames = scratch.frames();
    assert!(frames.iter().all(|frame| frame["cut"] == true), "recorded as their beginning");
}

/// Of a line that is too long to be kept its beginning is recorded. A secret that begins in it is gone as a whole, wherever
/// it would be cut.
#[test]
fn of_a_secret_that_the_end_of_the_recorded_beginning_cuts_nothing_is_recorded() {
    const HEAD: usize = 4096;
    const SECRET: &str = "kR7wQz2LmN9xTb4VcP6s";
    let starts = [HEAD - SECRET.len() - 1, HEAD - SECRET.len(), HEAD - SECRET.len() / 2, HEAD - 1, HEAD, HEAD + 1];
    let filler = ". ".repeat(4 << 20);
    // A run for each, since more than one such line may be more than is waited for on a slow machine.
    for start in starts {
        let scratch = Scratch::new();
        let file = scratch.file();
        let mut command =
            scratch.command(&["trace", "--out", file.to_str().expect("UTF-8"), "--", "sh", "-c", "cat >&2"]);
        // Standard error is not recorded, so what is in the file came by standard input.
        let mut traced = Traced::new(command.env("TEST_API_KEY", SECRET).stderr(Stdio::null()).spawn().expect("spawn"));
        traced.send(&filler[..start]);
        traced.send(SECRET);
        traced.send(&filler);
        traced.send("\n");
        drop(traced.stdin.take());
        assert_eq!(traced.child.wait().expect("it ends").code(), Some(0));
        let frames = scratch.frames();
        assert_eq!(frames.len(), 1, "a secret at {start}");
        let frame = &frames[0];
        assert_eq!(frame["cut"], true, "a secret at {start}");
        let text = frame["text"].as_str().expect("text");
        assert!(text.starts_with(&filler[..start.min(HEAD)]), "a secret at {start}: {text}");
        let part = (0..=SECRET.len() - 4).find(|at| text.contains(&SECRET[*at..at + 4]));
        assert_eq!(part, None, "a secret at {start}: {text}");
        assert_eq!(frame["redactions"].as_object().is_some_and(|rules| !rules.is_empty()), start < HEAD, "{frame}");
    }
}

/// What cannot be recorded is told on standard error, and passes all the same.
#[test]
fn without_a_place_to_record_the_bytes_pass() {
    let scratch = Scratch::new();
    for (place, named) in [("/dev/full", "/dev/full"), ("/dev/null/below", "/dev/null")] {
        let child = scratch.command(&["trace", "--out", place, "--", "cat"]).spawn().expect("spawn");
        let mut traced = Traced::new(child);
        traced.send("through\n");
        assert_eq!(traced.line(), "through\n");
        let (_, code, stderr) = traced.end();
        assert_eq!(code, Some(0));
        assert!(stderr.contains("failed to record, and goes on without") && stderr.contains(named), "{stderr}");
    }
}

/// A session with the built-in agent, with one thing that the protocol does not allow and one secret.
fn session(scratch: &Scratch) {
    let mut traced = scratch.trace(&[PINTLE, "mock", "agent"]);
    let hello = json!({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"_meta":{"apiKey":"hunter2hunter2"}}});
    assert_eq!(traced.ask(&hello)["result"]["protocolVersion"], 1);
    let new = json!({"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}});
    let session = traced.ask(&new)["result"]["sessionId"].as_str().expect("a session").to_owned();
    let fly = json!({"jsonrpc":"2.0","id":3,"method":"session/fly"});
    traced.send(format!("{fly}\n"));
    while serde_json::from_str::<Value>(&traced.line()).expect("a frame")["id"] != 3 {}
    let prompt = json!({"jsonrpc":"2.0","id":4,"method":"session/prompt",
        "params":{"sessionId":session,"prompt":[{"type":"text","text":"echo hello \u{1b}[31mred"}]}});
    traced.send(format!("{prompt}\n"));
    while serde_json::from_str::<Value>(&traced.line()).expect("a frame")["id"] != 4 {}
    assert_eq!(traced.end().1, Some(0));
}

fn codes(frame: &Value) -> Vec<&str> {
    frame["faults"]
        .as_array()
        .map(|faults| faults.iter().filter_map(|f| f["code"].as_str()).collect())
        .unwrap_or_default()
}

/// The recording: whole, in order, private, without secrets, with the fault beside its frame.
#[test]
fn both_directions_are_recorded_with_their_faults() {
    let scratch = Scratch::new();
    session(&scratch);
    let mode = std::fs::metadata(scratch.file()).expect("a recording").permissions();
    assert_eq!(mode.mode() & 0o777, Permissions::from_mode(0o600).mode());
    let rows = scratch.rows();
    assert_eq!((&rows[0]["type"], &rows[0]["schema"]), (&json!("start"), &json!("pintle.trace.v1")));
    assert_eq!(rows[0]["argv"][1], "mock");
    assert_eq!(rows.last().expect("rows")["type"], "end");
    assert!(rows.iter().any(|row| row["type"] == "exit" && row["code"] == 0));

    let frames = scratch.frames();
    let methods: Vec<_> = frames
        .iter()
        .filter(|frame| frame["dir"] == "to_agent")
        .map(|frame| serde_json::from_str::<Value>(frame["text"].as_str().expect("text")).expect("JSON"))
        .map(|message| message["method"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(methods, ["initialize", "session/new", "session/fly", "session/prompt"]);
    let faulty: Vec<_> = frames.iter().filter(|frame| frame.get("faults").is_some()).collect();
    assert_eq!(faulty.len(), 1, "{faulty:?}");
    assert_eq!(codes(faulty[0]), ["unknown_method"]);
    assert!(frames.iter().all(|frame| frame["t_ns"].is_u64()));
    let raw = std::fs::read_to_string(scratch.file()).expect("a recording");
    assert!(!raw.contains("hunter2"), "a secret");
    assert_eq!(frames[0]["redactions"]["member"], 1);
}

/// What is written is what the published schema says.
#[test]
fn rows_meet_their_schema() {
    let scratch = Scratch::new();
    session(&scratch);
    // Not UTF-8, no end of its line, a signal.
    let (rest, code, _) = scratch.trace(&["sh", "-c", "printf 'caf\\351\\nno end'; kill -9 $$"]).end();
    assert_eq!((rest.as_slice(), code), (&b"caf\xe9\nno end"[..], Some(137)));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/pintle.trace.v1.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).expect("published")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let rows = scratch.rows();
    for row in &rows {
        assert!(validator.is_valid(row), "{row}");
    }
    let kinds: std::collections::BTreeSet<_> = rows.iter().filter_map(|row| row["type"].as_str()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["end", "eof", "exit", "frame", "start"]);
    assert!(rows.iter().any(|row| row["base64"] == "Y2Fm6Q==") && rows.iter().any(|row| row["signal"] == 9));
    let wrong = json!({"type":"frame","t_ns":1,"dir":"sideways","line":1,"len":0});
    assert!(!validator.is_valid(&wrong));
}

/// For people: a line for each frame, faults below it, nothing that a terminal obeys.
#[test]
fn a_recording_can_be_read() {
    let scratch = Scratch::new();
    session(&scratch);
    let text = scratch.show(&[]);
    for expected in [
        "-> initialize #1",
        "<- initialize #1 = ",
        "-> session/fly #3",
        "unknown_method: `session/fly` is not in the protocol",
        "<- session/fly #3 failed: ",
        "agent_message_chunk",
        "the agent exited with 0",
        "unknown_method: 1 frame\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "an escape of the peer's");

    let faults = scratch.show(&["--faults"]);
    assert_eq!(faults.matches("->").count() + faults.matches("<-").count(), 1, "{faults}");
    let rows = scratch.show(&["--faults", "--format", "json"]);
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.iter().filter(|row| row["type"] == "frame").count(), 1);
    assert_eq!(scratch.show(&["--format", "json"]), std::fs::read_to_string(scratch.file()).expect("a recording"));
}

/// `--follow` shows what passes while it passes, and ends with the agent.
#[test]
fn a_recording_can_be_followed() {
    let scratch = Scratch::new();
    let mut traced = scratch.trace(&["cat"]);
    traced.send("{\"jsonrpc\":\"2.0\",\"method\":\"_a/first\"}\n");
    traced.line();
    let file = scratch.file();
    let show = scratch.command(&["trace", "show", file.to_str().expect("UTF-8"), "--follow"]).spawn().expect("spawn");
    let mut show = Traced::new(show);
    while !show.line().contains("_a/first") {}
    traced.send("{\"jsonrpc\":\"2.0\",\"method\":\"_a/second\"}\n");
    while !show.line().contains("_a/second") {}
    traced.end();
    let (rest, code, _) = show.end();
    assert!(String::from_utf8_lossy(&rest).contains("the agent exited with 0"));
    assert_eq!(code, Some(0));
}

/// Without `--out` each trace has a file of its own below the state directory, and `latest` is the newest.
#[test]
fn recordings_have_a_place() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        let child = scratch.command(&["trace", "--", "true"]).spawn().expect("spawn");
        assert_eq!(Traced::new(child).end().1, Some(0));
    }
    let dir = scratch.0.path().join("traces");
    assert_eq!(std::fs::read_dir(&dir).expect("made").count(), 2);
    assert_eq!(std::fs::metadata(&dir).expect("made").permissions().mode() & 0o777, 0o700);
    let output = scratch.command(&["trace", "show", "latest"]).output().expect("runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("trace of true"), "{output:?}");
    let missing = Scratch::new().command(&["trace", "show", "latest"]).output().expect("runs");
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("hint: `pintle trace -- AGENT` makes one"));
}

fn shown(path: &Path, bytes: &[u8]) -> Output {
    std::fs::write(path, bytes).expect("written");
    Command::new(PINTLE).args(["trace", "show"]).arg(path).env("NO_COLOR", "1").output().expect("runs")
}

/// A file that is no trace, or not a whole one, is shown as far as it goes, and says so.
#[test]
fn what_is_not_whole_is_said() {
    let scratch = Scratch::new();
    let output = shown(&scratch.file(), b"nonsense\n{\"type\":\"unwritten\",\"rows\":3}\n{\"type\":\"fr");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success());
    for expected in
        ["row 1 is not a row of a trace", "3 rows could not be written", "the last row is not whole", "no end"]
    {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}
