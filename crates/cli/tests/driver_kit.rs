//! `pintle driver check` and `pintle driver run`, through the binary.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use pintle_testkit::deaths::Watched;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const PINTLE: &str = env!("CARGO_BIN_EXE_pintle");

fn pintle(args: &[&str]) -> Output {
    Command::new(PINTLE).arg("driver").args(args).output().expect("it starts")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Issue part 10: the kit passes our drivers. This one takes one invocation at a time and says so, which leaves what is
/// about several at once, and what the kit asks of it needs no companion stream.
#[test]
fn the_built_in_driver_passes_the_kit() {
    let output = pintle(&["check", "--format", "json", "--timeout", "60", "--invocation-timeout", "120"]);
    let report = report(&output);
    let text = |item: &Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
    let open: Vec<(String, String)> = report["requirements"]
        .as_array()
        .expect("requirements")
        .iter()
        .filter(|item| item["outcome"] != "pass")
        .map(|item| (text(item, "id"), text(item, "reason")))
        .collect();
    let several_at_once = (2..=7).map(|number| (format!("DRV-CONC-00{number}"), "not_advertised".to_owned()));
    let streams = ("DRV-OBS-006".to_owned(), "not_exercised".to_owned());
    assert_eq!(open, several_at_once.chain([streams]).collect::<Vec<_>>());
    assert_eq!((report["verdict"].as_str(), output.status.code()), (Some("conformant"), Some(0)));
    assert_eq!(report["schema"], "pintle.driver-report.v1");
}

#[test]
fn a_program_that_is_no_driver_fails_the_kit_and_the_table_shows_why() {
    let output = pintle(&["check", "--", "/bin/echo", "hello"]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("FAIL  DRV-OUT-001") && table.contains("<-    2 hello"), "{table}");
    assert!(table.contains("blocked_by"), "{table}");
}

#[test]
fn wrong_usage_is_told_from_a_driver_that_does_not_start() {
    for (args, code, words) in [
        (&["check", "--case", "DRV-NONE-001"][..], 2, "there is none of that name"),
        (&["check", "--", "no-such-driver-anywhere"], 2, "no-such-driver-anywhere"),
        (&["check", "--input", "x"], 2, "--operation"),
        (&["check", "--operation", "x", "--input", "no-such-file"], 2, "no-such-file"),
        (&["run", "--operation", "x"], 2, "--driver"),
        (&["run", "--driver", "", "--operation", "x"], 2, "its command line is empty"),
        (&["run", "--driver", "'open", "--operation", "x"], 2, "split the driver's command line"),
        (&["run", "--driver", "/bin/true", "--operation", "x"], 3, "closed its output"),
        (
            &["run", "--driver", "/bin/true", "--operation", "x", "--approve", "everything"],
            2,
            "`everything`: it is not known",
        ),
    ] {
        let output = pintle(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
}

#[test]
fn a_file_that_is_no_program_is_told_with_its_reason() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let junk = directory.path().join("junk");
    std::fs::write(&junk, "no program").expect("it can be written");
    std::fs::set_permissions(&junk, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    let junk = junk.to_str().expect("UTF-8");
    let output = pintle(&["check", "--", junk]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("Exec format error"), "{stderr}");
}

fn scenario(directory: &Path, prompt: &str) -> std::path::PathBuf {
    let input = json!({
        "schema": "pintle.input.v1",
        "scenario": {
            "schema": "pintle.scenario.v1", "id": "by-hand", "protocol_version": 1, "client_capabilities": {},
            "callbacks": {},
            "steps": [{"do": "initialize"}, {"do": "new_session"}, {"do": "prompt", "as": "turn", "text": prompt}],
        },
        "agent": {"argv": [PINTLE, "mock", "agent"], "cwd": directory, "env": {}, "session_cwd": directory},
        "timeouts_ms": {"start": 60_000, "request": 60_000, "prompt": 60_000},
    });
    let path = directory.join("input.json");
    std::fs::write(&path, input.to_string()).expect("it can be written");
    path
}

/// Design section 3: `driver run` prints the observations as NDJSON.
#[test]
fn one_operation_is_run_and_its_observations_are_printed() {
    let directory = tempfile::tempdir().expect("a scratch directory");
    let input = scenario(directory.path(), "echo by hand");
    let driver = format!("{PINTLE} driver acp");
    let input = input.to_str().expect("UTF-8");
    let output =
        pintle(&["run", "--driver", &driver, "--operation", "acp.scenario.v1", "--input", input, "--approve", "all"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let rows: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row is JSON"))
        .collect();
    let (last, rows) = rows.split_last().expect("rows");
    assert_eq!(last["completed"]["status"], "completed");
    assert_eq!(last["completed"]["last_sequence"], rows.last().expect("an observation")["sequence"]);
    let said = |row: &Value| row["payload"]["text"].as_str().is_some_and(|text| text.contains("by hand"));
    assert!(rows.iter().any(|row| row["kind"] == "acp.frame" && said(row)), "{rows:#?}");
}

#[test]
fn an_operation_that_the_driver_does_not_have_is_refused() {
    let driver = format!("{PINTLE} driver acp");
    let output = pintle(&["run", "--driver", &driver, "--operation", "x.none", "--approve", "all"]);
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    let error: Value = serde_json::from_str(line.lines().next().expect("an error")).expect("one JSON line");
    assert_eq!(error["error"]["class"], "capability_mismatch");
}

/// All that is missing is said at once, and how to give it.
#[test]
fn what_is_to_be_approved_is_named_at_once() {
    let driver = format!("{PINTLE} driver acp");
    let refused = |more: &[&str]| {
        let output = pintle(&[&["run", "--driver", &driver, "--operation", "acp.scenario.v1"], more].concat());
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let error: Value = serde_json::from_str(line.lines().next().expect("an error")).expect("one JSON line");
        error["error"].clone()
    };
    let error = refused(&[]);
    let message = error["message"].as_str().expect("text");
    assert!(message.ends_with("without target-exec and target-environment (permission_denied)"), "{message}");
    assert_eq!(error["hints"], json!(["add --approve target-exec --approve target-environment"]));
    let error = refused(&["--approve", "target-exec"]);
    assert_eq!(error["hints"], json!(["add --approve target-environment"]));
}

fn spawn(args: &[&str], scratch: &Path) -> Child {
    let mut command = Command::new(PINTLE);
    command.arg("driver").args(args).env("TMPDIR", scratch).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("the signal is sent");
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("a directory").next().is_none()
}

/// A user who has seen enough: the driver is cancelled and says its last, nothing is left.
#[test]
fn a_signal_cancels_the_operation_and_leaves_nothing() {
    for stop in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (directory, scratch) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("another"));
        let input = scenario(directory.path(), "wait_for_cancel");
        let driver = format!("{PINTLE} driver acp");
        let input = input.to_str().expect("UTF-8");
        let args = ["run", "--driver", &driver, "--operation", "acp.scenario.v1", "--input", input, "--approve", "all"];
        let mut child = spawn(&[&args[..], &["--cancel-timeout", "60"]].concat(), scratch.path());
        let rows = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut last = Value::Null;
        for row in rows {
            last = serde_json::from_str(&row.expect("a row")).expect("a row is JSON");
            if last["payload"]["text"].as_str().is_some_and(|text| text.contains("session/prompt")) {
                signal(&child, stop);
            }
        }
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(last["completed"]["status"], "cancelled", "{stop:?}: {last}");
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(is_empty(scratch.path()), "{stop:?}");
    }
}

/// Inv-6, for the kit: stopped or killed, it leaves no driver; stopped, no directory, and killed, none that stays.
#[test]
fn a_stopped_kit_leaves_no_driver() {
    let (directory, scratch) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("another"));
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    let script = "trap '' TERM; echo $$ > \"$0\"; while :; do sleep 1000; done";
    let fifo_text = fifo.to_str().expect("UTF-8");
    for stop in [Signal::INT, Signal::KILL] {
        let child = spawn(&["check", "--timeout", "600", "--", "/bin/sh", "-c", script, fifo_text], scratch.path());
        let mut pid = String::new();
        std::fs::File::open(&fifo).expect("the FIFO").read_to_string(&mut pid).expect("a pid");
        let driver = Watched::new(pid.trim().parse().expect("a pid"));
        signal(&child, stop);
        let output = child.wait_with_output().expect("it ends");
        assert!(driver.ends_within(std::time::Duration::from_secs(60)), "{stop:?}");
        if stop == Signal::INT {
            let line = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{line}");
            assert!(line.contains("it was interrupted"), "{line}");
        }
        let other = spawn(&["check", "--case", "DRV-HELLO-001", "--", "/bin/true"], scratch.path());
        other.wait_with_output().expect("it ends");
        assert!(is_empty(scratch.path()), "{stop:?}");
    }
}
