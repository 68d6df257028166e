//! `pintle check` and `pintle judge` with the real binary, real drivers and real agents: every exit code, every way to get
//! it wrong, and that nothing is left running.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pintle_testkit::deaths::Watched;
use serde_json::{Value, json};

use crate::user::{MOCK, PINTLE, Run, User};

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(60);

/// A correct little agent in shell; `$1` and `$2` replace what it does at `initialize` and at `session/new`.
const SHELL_AGENT: &str = r#"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case "$line" in
    *'"initialize"'*) eval "$1" ;;
    *'"session/new"'*) eval "$2" ;;
    *'"id":'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"method not found\"}}" ;;
  esac
done
"#;
const HELLO: &str = r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{},\"authMethods\":[{\"id\":\"key\",\"name\":\"Key\"}]}}""#;
const AUTH_REQUIRED: &str =
    r#"echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}""#;

impl User {
    /// Checks the built-in agent with one scenario, as if the user had named it.
    fn check(&self, options: &[&str], agent: &[&str]) -> Run {
        let mut args = vec!["check"];
        args.extend(options);
        if !options.contains(&"--case") {
            args.extend(["--case", "basics"]);
        }
        args.push("--");
        args.extend(agent);
        self.run(&args)
    }

    fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("state/runs")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Nothing of a check is left in the directory for temporary files.
    fn assert_no_scratch(&self) {
        let left: Vec<_> = fs::read_dir(self.path("tmp")).expect("it is there").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn faulty(fault: &str) -> [&str; 5] {
    [PINTLE, "mock", "agent", "--fault", fault]
}

fn shell(script: &str) -> [&str; 3] {
    ["/bin/sh", "-c", script]
}

fn outcomes(report: &Value) -> Vec<(String, String)> {
    let items = report["requirements"].as_array().expect("requirements");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    items.iter().map(|item| (text(&item["id"]), text(&item["outcome"]))).collect()
}

#[test]
fn a_conformant_agent_is_0_and_its_evidence_is_judged_alike_again() {
    let user = User::new();
    let run = user.check(&[], &MOCK);
    run.assert(0, &["conformant", "evidence: "]);
    assert!(!run.stdout.contains('\x1b'), "no colour into a pipe");
    assert_eq!(run.stdout.lines().filter(|line| line.contains("FAIL")).count(), 0);
    user.assert_no_scratch();
    let stored = user.runs();
    let report: Value =
        serde_json::from_slice(&fs::read(stored[0].join("report.json")).expect("a report")).expect("JSON");
    let again = user.run(&["judge", "latest", "--format", "json"]);
    again.assert(0, &[]);
    assert_eq!(outcomes(&again.json()), outcomes(&report));
    assert!(outcomes(&report).iter().any(|(_, outcome)| outcome == "pass"));
}

#[test]
fn a_failed_must_is_1_with_the_frames_that_prove_it() {
    let user = User::new();
    user.check(&[], &faulty("version-wrong")).assert(1, &["nonconformant", "ACP-INIT-002", "protocolVersion"]);
}

#[test]
fn the_json_report_is_one_object_whatever_else_is_said() {
    let user = User::new();
    let run = user.check(&["--format", "json"], &MOCK);
    let report = run.json();
    assert_eq!(report["schema"], "pintle.report.v1");
    assert_eq!((&report["verdict"], &report["demo"]), (&Value::from("conformant"), &Value::from(false)));
    assert_eq!(report["agent"]["argv"][1], "mock");
    assert_eq!(user.runs()[0].file_name().and_then(|name| name.to_str()), report["run"].as_str());
}

#[test]
fn without_an_agent_the_built_in_one_is_checked_and_it_is_said() {
    let user = User::new();
    let run = user.run(&["check", "--case", "basics", "--format", "json"]);
    run.assert(0, &["no agent is named"]);
    assert_eq!(run.json()["demo"], true);
}

#[test]
fn wrong_usage_is_2_and_names_the_place() {
    let user = User::new();
    fs::write(user.path("bad.toml"), "schema = \"pintle.scenario.v1\"\nid = \"x\"\ntitle = \"x\"\nnope = 1\n")
        .expect("a file");
    fs::write(user.path("file"), "").expect("a file");
    let bad = user.path("bad.toml");
    let bad = bad.to_str().expect("UTF-8");
    let under_file = user.path("file/out");
    let under_file = under_file.to_str().expect("UTF-8");
    for (options, words) in [
        (&["check", "--"][..], &["nothing after `--`"][..]),
        (&["check", "--pack", "nope"], &["no pack `nope`", "acp-v1"]),
        (&["check", "--pack", "acp-v1@9"], &["not 9"]),
        (&["check", "--pack", bad], &["bad.toml:4"]),
        (&["check", "--case", "nope", "--", "x"], &["`nope`"]),
        (&["check", "--env", "PINTLE_TEST_UNSET", "--", "x"], &["`PINTLE_TEST_UNSET`", "not set"]),
        (&["check", "--cwd", "/nowhere", "--", "x"], &["/nowhere"]),
        (&["check", "--driver", "no-such-driver", "--", "x"], &["no-such-driver"]),
        (&["check", "--driver", "'open", "--", "x"], &["'open"]),
        (&["check", "--timeout", "0", "--", "x"], &["--timeout"]),
        (&["check", "--baseline", "/nowhere", "--", "x"], &["/nowhere"]),
        (&["check", "--out", under_file, "--case", "basics", "--", "/bin/true"], &[under_file]),
        (&["judge", "latest"], &["run"]),
        (&["judge", "/nowhere"], &["/nowhere"]),
    ] {
        let run = user.run(options);
        run.assert(2, words);
        assert_eq!(run.stdout, "", "{options:?}");
    }
    user.assert_no_scratch();
}

#[test]
fn an_error_is_one_json_line_when_json_is_asked_for() {
    let user = User::new();
    let run = user.run(&["check", "--format", "json", "--pack", "nope"]);
    let error: Value = serde_json::from_str(run.stderr.trim()).expect("one line of JSON");
    assert_eq!((error["error"]["class"].as_str(), error["error"]["exit"].as_u64()), (Some("unknown_pack"), Some(2)));
}

/// A CEL error has the line of the assertion.
#[test]
fn a_bad_assertion_is_2_with_file_and_line() {
    let user = User::new();
    let scenario = r#"schema = "pintle.scenario.v1"
id = "mine"
title = "Mine"
[[step]]
do = "initialize"
[[requirement]]
id = "MINE-X-001"
level = "must"
area = "mine"
title = "t"
spec = "-"
why = "w"
assert = ["steps.initialize.nonsense == 1"]
"#;
    fs::write(user.path("mine.toml"), scenario).expect("a file");
    let path = user.path("mine.toml");
    user.run(&["check", "--pack", path.to_str().expect("UTF-8"), "--", "x"]).assert(2, &["mine.toml:13"]);
}

#[test]
fn an_agent_that_wants_authentication_is_4() {
    let user = User::new();
    let agent = [&shell(SHELL_AGENT)[..], &["agent", HELLO, AUTH_REQUIRED]].concat();
    user.check(&[], &agent).assert(4, &["Authentication", "key"]);
}

#[test]
fn an_agent_that_does_not_start_is_5_with_its_last_words() {
    let user = User::new();
    user.check(&[], &["/nowhere/agent"]).assert(5, &["/nowhere/agent", "did not start"]);
    user.check(&[], &shell("echo boom >&2; exit 3")).assert(5, &["boom", "code 3"]);
    user.check(&["--startup-timeout", "0.2"], &shell("while read -r line; do :; done")).assert(5, &["200 ms"]);
}

/// A silent agent costs two start timeouts, not one for each scenario of the pack.
#[test]
fn a_silent_agent_is_given_up_soon() {
    let user = User::new();
    let run =
        user.run(&["check", "--startup-timeout", "0.1", "--format", "json", "--", "/bin/sh", "-c", "cat >/dev/null"]);
    run.assert(5, &[]);
    assert_eq!(run.json()["timing"]["scenarios"].as_array().map(Vec::len), Some(2));
}

/// One that writes, but answers nothing, costs a few of them.
#[test]
fn an_agent_that_answers_nothing_is_given_up_soon() {
    let user = User::new();
    let script = "echo hello; while read -r line; do echo \"got $line\"; done";
    let run = user.check(&["--startup-timeout", "0.3", "--format", "json"], &shell(script));
    run.assert(1, &[]);
    let report = run.json();
    let outcomes = outcomes(&report);
    assert!(outcomes.contains(&("ACP-INIT-001".to_owned(), "fail".to_owned())), "{outcomes:?}");
    let begun = report["timing"]["scenarios"].as_array().map_or(0, Vec::len);
    assert!((1..10).contains(&begun), "{begun} scenarios were begun");
}

/// What is found often has a rule that is itself called as a secret is.
#[test]
fn an_agent_that_shows_keys_gets_a_report_that_counts_them() {
    let user = User::new();
    let key = format!("sk-{}", "a1".repeat(14));
    let script =
        format!("echo {key} >&2; echo 'Authorization: Bearer {key}' >&2; echo password=hunter2hunter2 >&2; exit 3");
    let run = user.check(&["--format", "json"], &shell(&script));
    run.assert(5, &[]);
    let redactions = &run.json()["redactions"];
    assert!(
        redactions["service_token"].as_u64() > Some(0) && redactions["assignment"].as_u64() > Some(0),
        "{redactions}"
    );
    assert_no_file_contains(&user.path("state"), &key);
    let shown = user.check(&[], &shell(&script));
    shown.assert(5, &["password=[redacted:assignment]", "service_token"]);
    assert!(!shown.stdout.contains("assignment]]"), "replaced once");
}

#[test]
fn a_broken_driver_is_3_and_never_the_agents_failure() {
    let user = User::new();
    let run = user.check(&["--driver", "/bin/cat", "--format", "json"], &MOCK);
    run.assert(3, &[]);
    let report = run.json();
    assert_eq!(report["counts"]["fail"], 0);
    let items = report["requirements"].as_array().expect("requirements");
    assert!(items.iter().all(|item| item["outcome"] == "inconclusive" && item["reason"] == "driver"));
}

#[test]
fn evidence_that_cannot_be_kept_is_told_and_changes_no_outcome() {
    let user = User::new();
    fs::write(user.path("state"), "in the way").expect("a file");
    let run = user.check(&["--format", "json"], &MOCK);
    run.assert(0, &["warning: failed to record evidence"]);
    let report = run.json();
    assert_eq!((&report["verdict"], &report["run"]), (&Value::from("conformant"), &Value::from("")));
    assert_eq!(report["recording_faults"].as_array().map(Vec::len), Some(1));
}

#[test]
fn out_gets_every_format_and_the_evidence_and_no_secret() {
    let user = User::new();
    let out = user.path("results");
    let agent = r#"echo "{\"token_of_mine\":\"$KEY\"}"; echo "key is $KEY" >&2; exec "$0" mock agent"#;
    let agent = ["/bin/sh", "-c", agent, PINTLE];
    let options = ["--out", out.to_str().expect("UTF-8"), "--env", "KEY=correct-horse-battery"];
    let run = user.check(&options, &agent);
    run.assert(1, &["ACP-TRANSPORT-001"]);
    for name in
        ["report.json", "report.txt", "report.md", "report.html", "report.sarif", "junit.xml", "runs", "objects"]
    {
        assert!(out.join(name).exists() || name == "objects", "{name}");
    }
    assert!(user.runs().is_empty(), "nothing elsewhere");
    assert!(!run.stdout.contains("correct-horse"));
    assert_no_file_contains(&out, "correct-horse-battery");
}

fn assert_no_file_contains(dir: &Path, secret: &str) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            assert_no_file_contains(&path, secret);
        } else {
            let bytes = fs::read(&path).expect("a file");
            assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{}", path.display());
        }
    }
}

#[test]
fn a_baseline_forgives_what_it_knows() {
    let user = User::new();
    let before = user.check(&["--format", "json"], &faulty("version-wrong"));
    fs::write(user.path("baseline.json"), &before.stdout).expect("a file");
    let baseline = user.path("baseline.json");
    let options = ["--baseline", baseline.to_str().expect("UTF-8")];
    let last = |run: &Run| run.stdout.lines().rfind(|line| line.contains("conformant")).expect("a verdict").to_owned();
    let known = user.check(&options, &faulty("version-wrong"));
    known.assert(0, &[]);
    assert!(
        last(&known).starts_with("nonconformant: 1 must failed; baseline: 1 known, 0 worse  ("),
        "{}",
        last(&known)
    );
    let markdown = user.path("report.md");
    let to = ["--md", markdown.to_str().expect("UTF-8"), "--format", "json"];
    let worse = user.check(&[&options[..], &to].concat(), &faulty("stdout-noise"));
    worse.assert(1, &["worse than the baseline: ACP-TRANSPORT-001"]);
    let section = &worse.json()["baseline"];
    assert_eq!((&section["known"], &section["mended"]), (&Value::from(0), &Value::from(1)), "{section}");
    assert_eq!(section["worse"][0], json!({"id": "ACP-TRANSPORT-001", "before": "pass", "now": "fail"}));
    let markdown = fs::read_to_string(markdown).expect("a report");
    assert!(markdown.contains("Compared with a baseline: 0 known, 1 worse, 1 mended."), "{markdown}");
    user.run(&[&["judge", "latest"], &options[..]].concat()).assert(1, &["baseline: 0 known, 1 worse, 1 mended"]);
}

/// Whoever chose a login believes that what was checked was logged in.
#[test]
fn a_login_that_did_not_come_about_is_told() {
    let user = User::new();
    let checked = |method: &str| user.check(&["--case", "ACP-AUTH-002", "--auth", method], &MOCK);
    let refused = checked("nope");
    assert!(refused.stdout.contains("Note: the agent refused the login `nope`"), "{}", refused.stdout);
    assert!(refused.stdout.contains("it offers mock"), "{}", refused.stdout);
    user.run(&["judge", "--format", "json"]).assert(0, &["\"notes\":[\"the agent refused the login `nope`"]);
    let taken = checked("mock");
    assert!(!taken.stdout.contains("Note:"), "{}", taken.stdout);
}

#[test]
fn a_project_names_its_agent() {
    let user = User::new();
    fs::create_dir(user.path("cwd/.config")).expect("a directory");
    let config = format!("command = [{PINTLE:?}, \"mock\", \"agent\", \"--fault\", \"version-wrong\"]\n");
    fs::write(user.path("cwd/.config/pintle.toml"), config).expect("a file");
    let run = user.run(&["check", "--case", "basics", "--format", "json"]);
    run.assert(1, &[]);
    assert_eq!(run.json()["demo"], false);
    fs::write(user.path("cwd/.config/pintle.toml"), "\ncomand = []\n").expect("a file");
    user.run(&["check"]).assert(2, &["pintle.toml", "line 2", "comand"]);
}

/// An agent that says who it is over a FIFO and then waits for ever; the read returns once it runs.
struct Held {
    child: Child,
    agent: Watched,
    driver: Watched,
}

impl Held {
    fn start(user: &User) -> Self {
        let fifo = user.path("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
        assert!(made.success());
        let script = "echo $$ > \"$0\"; while read -r line; do :; done; while :; do sleep 1000; done";
        let fifo_text = fifo.to_str().expect("UTF-8");
        let args = ["check", "--case", "basics", "--", "/bin/sh", "-c", script, fifo_text];
        let child = user.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut pid = String::new();
        fs::File::open(&fifo).expect("the FIFO").read_to_string(&mut pid).expect("a pid");
        let agent: u32 = pid.trim().parse().expect("a pid");
        let driver = parent(parent(agent));
        Self { child, agent: Watched::new(agent), driver: Watched::new(driver) }
    }
}

fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let after_name = stat.rsplit_once(')').expect("a name in parentheses").1;
    after_name.split_whitespace().nth(1).and_then(|ppid| ppid.parse().ok()).expect("a parent")
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid");
    rustix::process::kill_process(pid, signal).expect("the signal is sent");
}

/// Inv-6.
#[test]
fn killed_in_the_middle_it_leaves_no_process() {
    let user = User::new();
    let mut held = Held::start(&user);
    assert!(held.agent.is_alive() && held.driver.is_alive());
    signal(&held.child, rustix::process::Signal::KILL);
    held.child.wait().expect("it is reaped");
    assert!(held.agent.ends_within(LIMIT), "agent {}", held.agent.pid());
    assert!(held.driver.ends_within(LIMIT), "driver {}", held.driver.pid());
}

#[test]
fn interrupted_it_closes_the_agent_and_keeps_what_was_seen() {
    let user = User::new();
    let held = Held::start(&user);
    signal(&held.child, rustix::process::Signal::INT);
    let run: Run = held.child.wait_with_output().expect("it ends").into();
    run.assert(3, &["stopping", "inconclusive"]);
    assert!(held.agent.ends_within(LIMIT));
    user.assert_no_scratch();
    let journal = fs::read_to_string(user.runs()[0].join("journal.ndjson")).expect("a journal");
    assert!(journal.contains(r#""end":"interrupted""#) && journal.contains(r#""kind":"acp.frame""#), "{journal}");
    user.run(&["judge", "latest"]).assert(3, &["interrupted"]);
}
