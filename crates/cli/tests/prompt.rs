//! `pintle prompt` with the real binary, the built-in agent and broken agents: what is shown where, every exit code, and
//! that nothing is left running.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::user::{MOCK, PINTLE, Run, User};

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(60);

/// A little agent in shell; what it answers to requests beside `initialize` is the caller's.
const SHELL_AGENT: &str = r#"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":true},\"authMethods\":[{\"id\":\"key\",\"name\":\"Key\"}]}}" ;;
    *) eval "$1" ;;
  esac
done
"#;
const AUTH_REQUIRED: &str =
    r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}""#;
/// Loads any session with a replay, and ends every turn at once for a reason of the test's.
const LOADS: &str = r#"case "$line" in
  *'"session/load"'*)
    echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"from before"}}}}'
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":null}" ;;
  *'"session/prompt"'*)
    echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"old","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"now"}}}}'
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"$REASON\"}}" ;;
esac"#;

/// Asks whether it may read something and says which option was chosen.
const ASKS_TO_READ: &str = r#"case "$line" in
  *'"session/new"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s\"}}" ;;
  *'"session/prompt"'*)
    echo '{"jsonrpc":"2.0","id":900,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","kind":"read","title":"Read it"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}'
    read -r answer
    case "$answer" in *'"optionId":"yes"'*) said=read ;; *) said="read nothing" ;; esac
    echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"I $said\"}}}}"
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\"}}" ;;
esac"#;

impl User {
    fn cwd(&self) -> PathBuf {
        self.path("cwd").canonicalize().expect("it is there")
    }

    fn mark(&self) -> String {
        format!("PROMPT_TEST={}", self.path("").display())
    }

    /// `pintle prompt` with an agent whose processes can be told from all others.
    fn prompting(&self, options: &[&str], agent: &[&str]) -> Command {
        let mut args = [&["prompt"], options].concat();
        let mark = self.mark();
        if !agent.is_empty() {
            args.extend(["--env", &mark, "--"]);
            args.extend(agent);
        }
        let mut command = self.command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Prompts the built-in agent.
    fn prompt(&self, options: &[&str]) -> Run {
        self.said(options, &MOCK)
    }

    fn said(&self, options: &[&str], agent: &[&str]) -> Run {
        let run: Run = self.prompting(options, agent).output().expect("the binary runs").into();
        self.assert_nothing_runs();
        run
    }

    fn shell(&self, options: &[&str], answers: &str) -> Run {
        self.said(options, &["/bin/sh", "-c", SHELL_AGENT, "sh", answers])
    }

    fn start(&self, options: &[&str], agent: &[&str]) -> Running {
        Running::new(self.prompting(options, agent).spawn().expect("the binary runs"))
    }

    /// The same in a terminal of its own, of which what is written comes back as standard output.
    fn start_in_terminal(&self, options: &[&str], agent: &[&str]) -> Running {
        let wanted = self.prompting(options, agent);
        let words = std::iter::once(wanted.get_program()).chain(wanted.get_args());
        let quoted: Vec<String> =
            words.map(|word| format!("'{}'", word.to_str().expect("UTF-8").replace('\'', "'\\''"))).collect();
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command"]).arg(format!("exec {}", quoted.join(" ")));
        command.arg("/dev/null").env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm");
        command.current_dir(self.cwd()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::new(command.spawn().expect("`script` of util-linux runs"))
    }

    /// No process has the mark in its environment. A keeper that is still at it is waited for.
    fn assert_nothing_runs(&self) {
        let mark = self.mark().into_bytes();
        let until = Instant::now() + LIMIT;
        loop {
            let left: Vec<String> = fs::read_dir("/proc")
                .expect("proc")
                .filter_map(|entry| {
                    let path = entry.ok()?.path();
                    let environ = fs::read(path.join("environ")).ok()?;
                    let marked = environ.split(|byte| *byte == 0).any(|variable| variable == mark);
                    marked.then(|| fs::read_to_string(path.join("cmdline")).unwrap_or_default())
                })
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "still running: {left:?}");
            std::thread::yield_now();
        }
    }
}

/// A `pintle prompt` that is under way.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    err: BufReader<std::process::ChildStderr>,
    seen: String,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, out, err, seen: String::new() }
    }

    /// Types on its terminal.
    fn types(&mut self, keys: &[u8]) {
        self.child.stdin.as_mut().expect("a pipe").write_all(keys).expect("it reads");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it runs");
    }

    /// Reads standard output up to and with `text`.
    fn until_out(&mut self, text: &str) {
        let mut byte = [0];
        while !self.seen.contains(text) {
            assert_eq!(self.out.read(&mut byte).expect("readable"), 1, "no `{text}` in: {}", self.seen);
            self.seen.push(char::from(byte[0]));
        }
    }

    fn until_err(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.err.read_line(&mut line).expect("readable"), 0, "no `{text}`");
        }
    }

    fn end(mut self) -> Run {
        let mut err = String::new();
        self.err.read_to_string(&mut err).expect("UTF-8");
        self.out.read_to_string(&mut self.seen).expect("UTF-8");
        let status = self.child.wait().expect("it ends");
        Run { code: status.code(), stdout: self.seen, stderr: err }
    }
}

#[test]
fn the_answer_is_on_standard_output_and_nothing_else_is() {
    let run = User::new().prompt(&["echo hello"]);
    run.assert_told(0, &["session: mock-"]);
    assert_eq!(run.stdout, "hello\n");
    let run = User::new().prompt(&["tool_calls"]);
    run.assert_told(
        0,
        &["[x] edit    Edit a file", "[!] edit    Edit a file", "pintle-out.txt (new) +1 -0", "+pintle"],
    );
    assert_eq!(run.stdout, "");
    let run = User::new().prompt(&["session_updates"]);
    run.assert_told(0, &["plan", "[>] Change", "context: "]);
    assert!(!run.stderr.contains('\x1b'), "no colour where there is no terminal: {}", run.stderr);
}

#[test]
fn the_prompt_may_come_from_standard_input() {
    let user = User::new();
    let mut child = user.prompting(&["-"], &MOCK).stdin(Stdio::piped()).spawn().expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(b"echo from a pipe\n").expect("it reads");
    let run: Run = child.wait_with_output().expect("it ends").into();
    run.assert_told(0, &[]);
    assert_eq!(run.stdout, "from a pipe\n");
}

#[test]
fn what_a_terminal_would_obey_is_spelled_out() {
    let run = User::new().prompt(&["echo \u{1b}]0;title\u{7}\u{1b}[2J\u{202e}x"]);
    run.assert_told(0, &[]);
    assert_eq!(run.stdout, "\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{202e}x\n");
}

/// Default is none, since standard output is no terminal here. `reads` knows that the tool call edits although the
/// permission request does not say so.
#[test]
fn nothing_is_done_that_is_not_approved() {
    for options in [&["callbacks"][..], &["--approve", "none", "callbacks"], &["--approve", "reads", "callbacks"]] {
        let user = User::new();
        let run = user.prompt(options);
        run.assert_told(0, &["[?] rejected: Write pintle-check.txt", "[!] edit"]);
        assert_eq!(run.stdout, "not allowed, so not done\n");
        assert!(!user.cwd().join("pintle-check.txt").exists(), "{options:?}");
    }
}

#[test]
fn what_is_approved_is_done_in_the_working_directory() {
    let user = User::new();
    let elsewhere = user.path("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    let run = user.prompt(&["--approve", "all", "--cwd", elsewhere.to_str().expect("UTF-8"), "callbacks"]);
    run.assert_told(0, &["[?] allowed: Write pintle-check.txt", "write: ok, read: ok, terminal: ok"]);
    assert_eq!(run.stdout, "done as allowed\n");
    assert_eq!(fs::read_to_string(elsewhere.join("pintle-check.txt")).expect("it was written"), "pintle\n");
}

#[test]
fn a_program_gets_one_object_a_line() {
    let run = User::new().prompt(&["--format", "json", "--approve", "all", "callbacks"]);
    run.assert_told(0, &[]);
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!((types[0], types[types.len() - 1]), ("session", "end"), "{types:?}");
    assert_eq!(lines[0]["agent"]["name"], "pintle-mock-agent");
    let session = &lines[0]["session_id"];
    let updates: Vec<&Value> = lines.iter().filter(|line| line["type"] == "update").collect();
    assert!(updates.len() > 3 && updates.iter().all(|line| line["params"]["sessionId"] == *session), "{updates:?}");
    let permissions: Vec<&Value> = lines.iter().filter(|line| line["type"] == "permission").collect();
    assert_eq!(permissions.len(), 1);
    assert_eq!(permissions[0]["outcome"], "allowed");
    assert_eq!(lines[lines.len() - 1]["stop_reason"], "end_turn");

    let run = User::new().said(&["--format", "json", "x"], &["/nowhere/agent"]);
    run.assert_told(5, &[]);
    let error: Value = serde_json::from_str(&run.stderr).expect("one object");
    assert_eq!(error["error"]["class"], "not_found");
}

/// In a terminal reading is approved when nobody says otherwise, and editing is not; elsewhere nothing is.
#[test]
fn in_a_terminal_reads_are_approved() {
    let agent = ["/bin/sh", "-c", SHELL_AGENT, "sh", ASKS_TO_READ];
    let user = User::new();
    let run = user.start_in_terminal(&["x"], &agent).end();
    run.assert_told(0, &[]);
    for words in ["I read\r\n", "allowed:", "Read it"] {
        assert!(run.stdout.contains(words), "{words} is not in:\n{}", run.stdout);
    }
    user.assert_nothing_runs();
    let run = user.shell(&["x"], ASKS_TO_READ);
    run.assert_told(0, &["rejected: Read it"]);
    assert_eq!(run.stdout, "I read nothing\n");
    let run = user.start_in_terminal(&["--approve", "none", "x"], &agent).end();
    assert!(run.stdout.contains("I read nothing\r\n"), "{}", run.stdout);
    let run = user.start_in_terminal(&["callbacks"], &MOCK).end();
    run.assert_told(0, &[]);
    assert!(run.stdout.contains("not allowed, so not done"), "{}", run.stdout);
    assert!(!user.cwd().join("pintle-check.txt").exists());
    user.assert_nothing_runs();
}

/// Ctrl-C goes to everybody in the foreground. The agent is not there: it has a group of its own, and ends its turn.
#[test]
fn ctrl_c_in_a_terminal_cancels_the_turn() {
    let user = User::new();
    let mut running = user.start_in_terminal(&["wait_for_cancel"], &MOCK);
    running.until_out("waiting for a cancel");
    running.types(b"\x03");
    running.until_out("the turn ended early: cancelled");
    running.end().assert_told(1, &[]);
    user.assert_nothing_runs();

    let agent = [PINTLE, "mock", "agent", "--fault", "cancel-ignored"];
    let mut running = user.start_in_terminal(&["wait_for_cancel"], &agent);
    running.until_out("waiting for a cancel");
    running.types(b"\x03");
    running.until_out("cancelling the turn");
    running.types(b"\x03");
    running.until_out("it was interrupted");
    running.end().assert_told(1, &[]);
    user.assert_nothing_runs();
}

#[test]
fn an_interrupt_cancels_the_turn() {
    for signal in [Signal::INT, Signal::TERM] {
        let user = User::new();
        let mut running = user.start(&["wait_for_cancel"], &MOCK);
        running.until_out("waiting for a cancel");
        running.signal(signal);
        running.until_err("cancelling the turn");
        let run = running.end();
        run.assert_told(1, &["the turn ended early: cancelled"]);
        user.assert_nothing_runs();
    }
}

#[test]
fn a_second_interrupt_kills_the_agent() {
    let user = User::new();
    let agent = [PINTLE, "mock", "agent", "--fault", "cancel-ignored"];
    let mut running = user.start(&["wait_for_cancel"], &agent);
    running.until_out("waiting for a cancel");
    running.signal(Signal::INT);
    running.until_err("cancelling the turn");
    running.signal(Signal::INT);
    running.end().assert_told(1, &["it was interrupted"]);
    user.assert_nothing_runs();
}

/// Nobody reads what is written, so the main thread is stuck; the second interrupt ends the program all the same.
#[test]
fn an_interrupt_is_heard_by_a_program_that_nobody_reads_from() {
    let user = User::new();
    let mut running = user.start(&["flood 1000000"], &MOCK);
    running.until_out("1\n");
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    let status = running.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1));
    user.assert_nothing_runs();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let user = User::new();
    let mut running = user.start(&["flood 1000000"], &MOCK);
    running.until_out("1\n");
    let Running { mut child, out, mut err, .. } = running;
    drop(out);
    let mut said = String::new();
    err.read_to_string(&mut said).expect("UTF-8");
    assert_eq!((child.wait().expect("it ends").code(), said.as_str()), (Some(0), ""));
    user.assert_nothing_runs();
}

#[test]
fn a_turn_over_its_time_is_cancelled() {
    let run = User::new().prompt(&["--timeout", "0.3", "wait_for_cancel"]);
    run.assert_told(1, &["the time of the turn is over", "the turn ended early: cancelled"]);
}

#[test]
fn an_agent_that_does_not_start_is_told_with_what_it_said() {
    let user = User::new();
    user.said(&["x"], &["no-such-agent"]).assert_told(5, &["no-such-agent", "PATH"]);
    let broken = user.said(&["x"], &["/bin/sh", "-c", "echo out of luck >&2; exit 3"]);
    broken.assert_told(5, &["went away before it had answered `initialize`", "exit code 3", "out of luck"]);
    let silent = user.said(&["--startup-timeout", "0.3", "x"], &["/bin/sh", "-c", "sleep 600"]);
    silent.assert_told(5, &["did not answer `initialize` within 0.3 s"]);
    user.said(&["x"], &["/bin/sh", "-c", "cat >/dev/null; echo noise"]).assert_told(5, &[]);
    let refuses = user.said(&["x"], &[PINTLE, "mock", "agent", "--fault", "init-error"]);
    refuses.assert_told(5, &["`initialize` failed"]);
}

/// What is shown of an agent that failed may be copied into a report of its fault.
#[test]
fn what_an_agent_says_of_its_failure_has_no_secret() {
    let user = User::new();
    let secret = "kR7wQz2LmN9xTb4VcP6s";
    let key = format!("MY_KEY={secret}");
    let says = |script: &str| {
        let run = user.said(&["--env", &key, "x"], &["/bin/sh", "-c", script]);
        run.assert_told(5, &[]);
        assert!(!run.stderr.contains(secret) && !run.stderr.contains("sk-ant-"), "{}", run.stderr);
        run.stderr
    };
    let said = says("echo \"no access with $MY_KEY\" >&2; echo API_KEY=sk-ant-REDACTED >&2; exit 3");
    assert!(said.contains("no access with ") && said.contains("API_KEY="), "{said}");
    says(r#"read -r l; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"bad key '"$MY_KEY"'"}}'"#);
    says("echo \"using $MY_KEY\"; exit 1");
}

#[test]
fn an_agent_that_writes_no_json_rpc_is_told_its_first_line() {
    let user = User::new();
    let noisy = ["/bin/sh", "-c", "echo Welcome to my agent; exec sleep 600"];
    let run = user.said(&["--startup-timeout", "1", "x"], &noisy);
    run.assert_told(5, &["is no JSON-RPC", "within 1 s", "Welcome to my agent"]);
    assert!(!run.stderr.contains("more time"), "{}", run.stderr);
    let gone = user.said(&["x"], &["/bin/sh", "-c", "read -r line; echo usage: my-agent --acp"]);
    gone.assert_told(5, &["went away", "no JSON-RPC: usage: my-agent --acp"]);
}

#[test]
fn an_agent_that_dies_in_the_turn_is_told() {
    let run = User::new().prompt(&["crash"]);
    run.assert_told(1, &["the agent went away", "the agent ended with signal 6"]);
}

#[test]
fn what_an_agent_leaves_behind_is_killed() {
    User::new().said(&["echo x"], &[PINTLE, "mock", "agent", "--fault", "leaves-child"]).assert_told(0, &[]);
    User::new()
        .said(&["echo x"], &["/bin/sh", "-c", "setsid sleep 600 & exec \"$0\" mock agent", PINTLE])
        .assert_told(0, &[]);
}

#[test]
fn an_agent_that_wants_a_login_is_told_how() {
    let run = User::new().shell(&["x"], AUTH_REQUIRED);
    run.assert_told(4, &["wants authentication first", "--auth key", "--env NAME"]);
    let run = User::new().prompt(&["--auth", "mock", "echo in"]);
    run.assert_told(0, &[]);
    assert_eq!(run.stdout, "in\n");
}

/// A loaded session replays what was said before, which is not part of the answer.
#[test]
fn a_session_goes_on() {
    for (reason, code) in [("end_turn", 0), ("refusal", 1), ("max_tokens", 1), ("of_its_own", 1)] {
        let reason = format!("REASON={reason}");
        let run = User::new().shell(&["--session", "old", "--env", &reason, "x"], LOADS);
        run.assert_told(code, &[]);
        assert_eq!(run.stdout, "now\n");
    }
    let run = User::new().prompt(&["--session", "no-such-session", "x"]);
    run.assert_told(1, &["open the session again", "-32002"]);
}

#[test]
fn a_wrong_command_line_is_told() {
    let user = User::new();
    let check = |options: &[&str], words: &str| user.said(options, &[]).assert_told(2, &[words]);
    check(&[], "TEXT");
    check(&["x", "--"], "nothing after `--`");
    check(&["x"], "none is named");
    check(&["x", "node", "my agent.mjs"], "pintle prompt x -- node 'my agent.mjs'");
    check(&["--approve", "writes", "x"], "approve");
    check(&["--timeout", "0", "x"], "timeout");
    user.said(&[""], &["agent"]).assert_told(5, &["agent"]);
    user.prompt(&["  "]).assert_told(2, &["the prompt is empty"]);
    user.prompt(&["--cwd", "/nowhere", "x"]).assert_told(2, &["working directory"]);
    user.prompt(&["--env", "NOT_SET_ANYWHERE", "x"]).assert_told(2, &["NOT_SET_ANYWHERE"]);
}

#[test]
fn the_agent_of_the_project_is_the_default() {
    let user = User::new();
    fs::create_dir(user.cwd().join(".config")).expect("a directory");
    let command = format!("command = [{PINTLE:?}, \"mock\", \"agent\"]\n");
    fs::write(user.cwd().join(".config/pintle.toml"), command).expect("a file");
    let run = user.said(&["echo mine"], &[]);
    run.assert_told(0, &[]);
    assert_eq!(run.stdout, "mine\n");
}
