//! Every program of `examples/` is run, with its real standard streams, and must say what it is expected to say.
//!
//! This test has a `main` of its own: it starts itself again as the example that `PINTLE_EXAMPLE` names.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "it reports as the test harness would")]

#[path = "../examples/blocking_loop.rs"]
mod blocking_loop;
#[path = "../examples/core.rs"]
mod core_host;
#[path = "../examples/deferred_reply.rs"]
mod deferred_reply;
#[path = "../examples/driver.rs"]
mod driver;
#[path = "../examples/minimal_agent.rs"]
mod minimal_agent;
#[path = "../examples/minimal_client.rs"]
mod minimal_client;
#[path = "../examples/supervised.rs"]
mod supervised;

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

/// Says which example this process is to be.
const EXAMPLE: &str = "PINTLE_EXAMPLE";
/// The example that a started `minimal_client` starts in turn.
const AGENT: &str = "PINTLE_EXAMPLE_AGENT";

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(EXAMPLE) {
        return run_example(&name);
    }
    // A filter, as the harness has it, so that one of them can be run alone.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let tests: [(&str, fn()); 8] = [
        ("every_example_is_run_here", every_example_is_run_here),
        ("a_driver_and_its_core_are_short", a_driver_and_its_core_are_short),
        ("the_minimal_client_speaks_to_the_minimal_agent", the_minimal_client_speaks_to_the_minimal_agent),
        ("the_minimal_client_speaks_to_the_blocking_loop", the_minimal_client_speaks_to_the_blocking_loop),
        ("deferred_replies_are_given_or_answered", deferred_replies_are_given_or_answered),
        ("a_supervised_host_tells_every_end", a_supervised_host_tells_every_end),
        ("the_blocking_loop_answers_garbage_and_ends", the_blocking_loop_answers_garbage_and_ends),
        ("a_core_of_thirty_lines_runs_a_driver_of_forty", a_core_of_thirty_lines_runs_a_driver_of_forty),
    ];
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&filter)) {
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

fn run_example(name: &str) -> ExitCode {
    // What the example starts is the other one.
    let agent = std::env::var(AGENT).ok();
    let done = match (name, agent.as_deref()) {
        ("minimal_client", Some(_)) => minimal_client::main(),
        ("minimal_agent", _) => minimal_agent::main().map_err(Into::into),
        ("blocking_loop", _) => blocking_loop::main(),
        ("core", Some(_)) => core_host::main(),
        ("driver", _) => driver::main(),
        ("deferred_reply", _) => deferred_reply::main(),
        ("supervised", _) => supervised::main(),
        (other, _) => panic!("no example {other}"),
    };
    done.expect("the example ends well");
    ExitCode::SUCCESS
}

fn itself(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.env(EXAMPLE, name).env("NO_COLOR", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn check(name: &str, expected: &str) {
    let output = itself(name).stdin(Stdio::null()).output().expect("runs");
    assert!(output.status.success(), "{name}: {output:?}");
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), expected, "{name}");
}

fn every_example_is_run_here() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .expect("examples")
        .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["blocking_loop", "core", "deferred_reply", "driver", "minimal_agent", "minimal_client", "supervised",]
    );
}

/// A complete driver takes 40 lines, Core in another program 30; what is said about them is not counted.
fn a_driver_and_its_core_are_short() {
    for (source, most) in [(include_str!("../examples/driver.rs"), 40), (include_str!("../examples/core.rs"), 30)] {
        let is_code = |line: &&str| !matches!(line.trim_start().get(..2), None | Some("//" | "#!"));
        let lines = source.lines().filter(is_code).count();
        assert!(lines <= most, "{lines} lines of code, {most} are the bound");
    }
}

/// The client starts the program that is this one again, as `agent`: `env` is the shortest way to say so.
fn client_with(agent: &str) {
    let own = std::env::current_exe().expect("own path");
    let mut client = itself("minimal_client");
    client.env(AGENT, agent).arg("env").arg(format!("{EXAMPLE}={agent}")).arg(own).stdin(Stdio::null());
    let output = client.output().expect("runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(said, "agent: hello\nstopped: end_turn\nagent gone: true\n");
}

fn the_minimal_client_speaks_to_the_minimal_agent() {
    client_with("minimal_agent");
}

fn the_minimal_client_speaks_to_the_blocking_loop() {
    client_with("blocking_loop");
}

fn deferred_replies_are_given_or_answered() {
    let expected = "answer: {\"bytes\":14,\"job\":1}\n\
                    answer: {\"bytes\":14,\"job\":2}\n\
                    no answer: the peer answered: Internal error (-32603)\n";
    check("deferred_reply", expected);
}

fn a_supervised_host_tells_every_end() {
    let expected = "session: hello-1\n\
                    session: hello-2\n\
                    initialized: true\n\
                    agent-1 ended: closed by the peer\n\
                    still there: false\n\
                    index is up again after 1 restart\n\
                    host: stopped\n";
    check("supervised", expected);
}

fn the_blocking_loop_answers_garbage_and_ends() {
    let mut agent = itself("blocking_loop").spawn().expect("spawn");
    let mut stdin = agent.stdin.take().expect("piped");
    let frames =
        "garbage\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n";
    stdin.write_all(frames.as_bytes()).expect("it reads");
    drop(stdin);
    let output = agent.wait_with_output().expect("ends");
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("-32700") && lines[1].contains("\"protocolVersion\":1"), "{said}");
}

fn a_core_of_thirty_lines_runs_a_driver_of_forty() {
    let own = std::env::current_exe().expect("own path");
    let mut core = itself("core");
    core.env(AGENT, "driver").arg("env").arg(format!("{EXAMPLE}=driver")).arg(own).stdin(Stdio::null());
    let output = core.output().expect("runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), "text.lines 3\n");
}
