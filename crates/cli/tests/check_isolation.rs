//! What `pintle check` keeps driver and agent from, with the real binary: the flags, the evidence, the refusals.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::user::{MOCK, PINTLE, User};

/// Checks `agent` with the smallest scenario.
fn check(user: &User, options: &[&str], agent: &[&str]) -> Output {
    let head = ["check", "--case", "basics", "--format", "json"];
    let words: Vec<&str> = head.iter().chain(options).chain(&["--"]).chain(agent).copied().collect();
    user.command(&words).output().expect("the binary runs")
}

/// The values of the records of this kind in the journal of the one run.
fn records(user: &User, kind: &str) -> Vec<Value> {
    let runs = fs::read_dir(user.path("state/runs")).into_iter().flatten().flatten();
    let run: PathBuf = runs.map(|entry| entry.path()).find(|path| path.is_dir()).expect("a run");
    let journal = fs::read_to_string(run.join("journal.ndjson")).expect("a journal");
    let records = journal.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    records.filter(|record| record["kind"] == kind).map(|record| record["value"].clone()).collect()
}

fn state(driver: &Value, aspect: &str) -> (String, String) {
    let measures = driver["isolation"]["measures"].as_array().expect("measures").clone();
    let measure = measures.into_iter().find(|measure| measure["aspect"] == aspect).expect("the aspect");
    let text = |name: &str| measure[name].as_str().expect("text").to_owned();
    (text("state"), text("how"))
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn an_agent_that_is_free_makes_its_driver_free_and_the_evidence_says_so() {
    let user = User::new();
    let output = check(&user, &[], &MOCK);
    assert_eq!(code(&output), Some(0), "{}", text(&output));
    let driver = records(&user, "driver").remove(0);
    for list in ["requested", "approved", "permissions"] {
        let names = driver[list].to_string();
        for name in ["target-exec", "target-home", "target-environment"] {
            assert!(names.contains(name), "{list}: {names}");
        }
    }
    assert!(!driver["approved"].to_string().contains("target-only-network"));
    assert_eq!(state(&driver, "lifetime").0, "enforced");
    for aspect in ["paths", "network", "namespaces", "memory"] {
        let (state, how) = state(&driver, aspect);
        assert_eq!(state, "not_wanted", "{aspect}");
        assert!(how.contains("target-exec"), "{aspect}: {how}");
    }
}

#[test]
fn a_sandbox_that_is_required_is_not_there_for_a_free_agent() {
    let user = User::new();
    let output = check(&user, &["--require-sandbox"], &MOCK);
    assert_eq!(code(&output), Some(3), "{}", text(&output));
    assert!(text(&output).contains("failed to isolate the driver as required"), "{}", text(&output));
    assert!(text(&output).contains("target-exec"), "{}", text(&output));
}

#[test]
fn an_isolated_agent_is_checked_as_a_free_one() {
    let user = User::new();
    let output = check(&user, &["--isolate-agent"], &MOCK);
    assert_eq!(code(&output), Some(0), "{}", text(&output));
    let driver = records(&user, "driver").remove(0);
    let approved = driver["approved"].to_string();
    assert!(approved.contains("target-exec") && !approved.contains("target-home"), "{approved}");
    let mut lacking = Vec::new();
    for aspect in ["lifetime", "namespaces", "memory", "processes", "folder", "paths", "network", "outside"] {
        let (state, how) = state(&driver, aspect);
        assert_ne!(state, "not_wanted", "{aspect}: {how}");
        if state == "not_enforced" {
            println!("NOT ENFORCED HERE: {aspect}: {how}");
            lacking.push(aspect);
        }
    }
    let again = User::new();
    let required = check(&again, &["--isolate-agent", "--require-sandbox"], &MOCK);
    let expected = if lacking.is_empty() { 0 } else { 3 };
    assert_eq!(code(&required), Some(expected), "{}", text(&required));
}

/// An agent in shell that tells in its name what it found of its user's.
const CURIOUS: &str = r#"
found=none
cat "$SECRET_FILE" >/dev/null 2>&1 && found=secret
case "$HOME" in */home) [ -d "$HOME" ] && [ "$HOME" != "$REAL_HOME" ] || found=home ;; *) found="odd-home" ;; esac
echo x >"$TMPDIR/mine" || found=tmp
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"agentInfo\":{\"name\":\"$found\",\"version\":\"1\"}}}"
done
"#;

#[test]
fn an_isolated_agent_sees_nothing_of_its_user() {
    let user = User::new();
    let secret = user.path("home/secret");
    fs::write(&secret, "a secret").expect("a file");
    let real_home = format!("REAL_HOME={}", user.path("home").display());
    let secret_file = format!("SECRET_FILE={}", secret.display());
    let agent = ["/bin/sh", "-c", CURIOUS];
    for (options, expected) in [
        (vec!["--env", real_home.as_str(), "--env", secret_file.as_str()], "secret"),
        (vec!["--env", real_home.as_str(), "--env", secret_file.as_str(), "--isolate-agent"], "none"),
    ] {
        let output = check(&user, &options, &agent);
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let found = report["agent"]["info"]["name"].as_str().unwrap_or_default().to_owned();
        if expected == "none" {
            assert_eq!(found, expected, "{}", text(&output));
        } else {
            assert_ne!(found, "none", "{}", text(&output));
        }
    }
}

#[test]
fn a_driver_that_is_not_the_file_that_it_should_be_is_not_used() {
    let user = User::new();
    let driver = format!("{PINTLE} driver acp");
    let other = Path::new("/bin/true").to_str().expect("UTF-8");
    let output = check(&user, &["--driver", &driver, "--driver-artifact", other], &MOCK);
    assert_eq!(code(&output), Some(3), "{}", text(&output));
    assert!(text(&output).contains("declares another artifact digest"), "{}", text(&output));
    let user = User::new();
    let output = check(&user, &["--driver", &driver, "--driver-artifact", PINTLE], &MOCK);
    assert_eq!(code(&output), Some(0), "{}", text(&output));
}

/// What the agent of [`the_recorder_is_an_isolated_agents_only_way_out`] says of itself is this test's own doing: it runs
/// again, as a child of the driver, and answers `initialize` with what it found. The last argument is where to connect to.
#[test]
fn agent_that_tries_to_get_out() {
    use std::io::{BufRead, Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    let Some(socket) = std::env::var_os("PINTLE_RECORDER") else { return };
    let to = std::env::args().next_back().expect("where to");
    let connect = |to: &str| {
        let mut stream = UnixStream::connect(&socket).expect("the recorder");
        write!(stream, "CONNECT {to} HTTP/1.1\r\n\r\n").expect("a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        (stream, String::from_utf8(head).expect("text")[9..12].to_owned())
    };
    let direct = if TcpStream::connect(&to).is_ok() { "open" } else { "closed" };
    let (mut stream, listed) = connect(&to);
    stream.write_all(SAID.as_bytes()).expect("text");
    stream.shutdown(std::net::Shutdown::Write).expect("an end");
    let mut echo = String::new();
    stream.read_to_string(&mut echo).expect("text");
    let echo = if echo == SAID { "echoed" } else { "lost" };
    let (_, other) = connect("example.com:443");
    let found = format!("{direct} {listed} {echo} {other}");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).expect("JSON");
        let result = serde_json::json!({"protocolVersion": 1, "agentInfo": {"name": found, "version": "1"}});
        let reply = serde_json::json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        writeln!(std::io::stdout(), "\n{reply}").expect("stdout");
    }
}

const SAID: &str = "hello with sk-a-secret-of-this-test-1234";

/// Section 4, network `recorder`: no network but Core's proxy, which connects to what is listed and keeps what was said,
/// without secrets.
#[test]
fn the_recorder_is_an_isolated_agents_only_way_out() {
    use std::io::{Read, Write};

    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a server");
    let to = server.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stream.read_to_end(&mut text).and_then(|_| stream.write_all(&text));
            });
        }
    });
    let user = User::new();
    let this = std::env::current_exe().expect("this test");
    let this = this.to_str().expect("UTF-8");
    let agent = [this, "--nocapture", "--exact", "check_isolation::agent_that_tries_to_get_out", to.as_str()];
    let isolate = format!("--isolate-agent=recorder:{to}");
    let output = check(&user, &[&isolate, "--secret", "KEY=sk-a-secret-of-this-test-1234"], &agent);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["agent"]["info"]["name"], "closed 200 echoed 403", "{}", text(&output));

    let driver = records(&user, "driver").remove(0);
    assert!(driver["permissions"].to_string().contains("recorder-socket"), "{driver}");
    let network = records(&user, "network");
    let went = |record: &Value| record["to"] == to.as_str() && record["sent_bytes"] == SAID.len();
    let went = network.iter().find(|record| went(record)).expect("the exchange is kept");
    assert_eq!(went["received_bytes"], SAID.len());
    assert!(went["sent"]["text"].as_str().is_some_and(|text| text.starts_with("hello with ")), "{went}");
    assert!(!serde_json::to_string(&network).expect("JSON").contains("sk-a-secret"), "{network:?}");
    assert!(network.iter().any(|record| record["to"] == "example.com:443" && record["refused"] == "not_allowed"));
}
