//! `pintle evidence` with the real binary: list, show, verify, export, gc, and what `judge` makes of an exported run; and
//! that no secret stands in any sink, in whatever form an agent writes it.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::user::Run;

const PINTLE: &str = env!("CARGO_BIN_EXE_pintle");

struct User {
    dir: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for name in ["cwd/.git", "tmp"] {
            fs::create_dir_all(dir.path().join(name)).expect("directories");
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(PINTLE);
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HELD_BACK", SECRET);
        command.env("PINTLE_HOME", self.path("state")).env("TMPDIR", self.path("tmp"));
        command.current_dir(self.path("cwd")).stdin(Stdio::null()).output().expect("the binary runs")
    }

    /// One scenario against the reference agent.
    fn check(&self) -> String {
        let out = self.run(&["check", "--case", "basics", "--format", "json", "--", PINTLE, "mock", "agent"]);
        let report: Value = serde_json::from_slice(&out.stdout).expect("a report");
        report["run"].as_str().expect("a run").to_owned()
    }

    fn evidence(&self, args: &[&str], code: i32) -> String {
        let all: Vec<&str> = std::iter::once("evidence").chain(args.iter().copied()).collect();
        let out = self.run(&all);
        let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(code), "{args:?}\n{stdout}\n{stderr}");
        stdout + &stderr
    }

    fn json(&self, args: &[&str], code: i32) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--format", "json"]).collect();
        serde_json::from_str(&self.evidence(&args, code)).expect("one JSON object")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A value that is looked for in what is kept.
const SECRET: &str = "hunter2-correct-horse";

/// Design section 3: `pintle evidence list / show / verify / gc`, and the exit codes 0, 1, 2.
#[test]
fn a_run_is_listed_shown_verified_sent_on_and_judged_again() {
    let user = User::new();
    assert!(user.evidence(&["list"], 0).starts_with("no runs in "));
    assert!(user.evidence(&["verify"], 2).contains("there are none"));
    let id = user.check();

    let list = user.evidence(&["list"], 0);
    assert!(list.contains(&id) && list.contains("conformant") && list.contains("1 run\n"), "{list}");
    let rows = user.json(&["list"], 0);
    assert_eq!((&rows["runs"][0]["id"], &rows["runs"][0]["state"]), (&Value::from(id.as_str()), &"finished".into()));

    let shown = user.evidence(&["show", &id[..8]], 0);
    assert!(shown.lines().any(|line| line.ends_with("[step] ok initialize")), "{shown}");
    assert!(shown.starts_with("== basics\n"), "{shown}");
    let at = |what: &str| shown.find(what).unwrap_or_else(|| panic!("no {what} in {shown}"));
    assert!(at("> ") < at("\"method\":\"initialize\"") && at("\"initialize\"") < at("\"protocolVersion\""));
    let one = user.json(&["show", "--requirement", "ACP-INIT-001"], 0);
    let entries = one["scenarios"][0]["entries"].as_array().expect("entries");
    assert!(entries.iter().any(|entry| entry["proves"] == true), "{one}");
    assert!(user.evidence(&["show", "--requirement", "NO-SUCH-1"], 2).contains("NO-SUCH-1"));
    assert!(user.evidence(&["show", "--records"], 0).lines().all(|line| line.starts_with("{\"kind\":")));

    let whole = user.evidence(&["verify", "latest"], 0);
    assert!(whole.contains("as it was written"), "{whole}");
    let zip = user.path("run.zip");
    let zip = zip.to_str().expect("UTF-8");
    user.evidence(&["export", "latest", "--out", zip], 0);
    let first = fs::read(zip).expect("an archive");
    user.evidence(&["export", &id, "--out", zip], 0);
    assert!(first == fs::read(zip).expect("an archive"), "equal runs give equal files");
    user.evidence(&["verify", zip], 0);
    assert!(user.evidence(&["show", zip], 0).starts_with("== basics\n"));
    let again = user.run(&["judge", zip, "--format", "json"]);
    let report: Value = serde_json::from_slice(&again.stdout).expect("a report");
    assert_eq!((again.status.code(), &report["verdict"]), (Some(0), &Value::from("conformant")));
    assert!(fs::read_dir(user.path("tmp")).expect("a directory").next().is_none(), "the archive's copy is gone");
}

/// What `--out` was given names its latest run; nothing at all names the latest of all.
#[test]
fn the_latest_run_is_meant_where_none_is_named() {
    let user = User::new();
    let run = |args: &[&str]| Run::from(user.run(args));
    let out = user.path("out");
    let out = out.to_str().expect("UTF-8");
    run(&["judge"]).assert_told(2, &["there are none"]);
    run(&["check", "--case", "basics", "--out", out, "--", PINTLE, "mock", "agent"]).assert(0, &[]);
    run(&["judge", out]).assert(0, &["conformant"]);
    assert!(user.evidence(&["show", out], 0).starts_with("== basics\n"));
    user.evidence(&["verify", out], 0);
    run(&["judge", "../out"]).assert(0, &["conformant"]);
    run(&["judge"]).assert_told(2, &["there are none"]);
    user.check();
    run(&["judge"]).assert(0, &["conformant"]);
    let empty = user.path("tmp");
    run(&["judge", empty.to_str().expect("UTF-8")]).assert_told(2, &["no run at that path"]);
}

#[test]
fn what_was_changed_is_told_with_file_and_line() {
    let user = User::new();
    let id = user.check();
    let run = user.path("state/runs").join(&id);
    let change = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(run.join(name)).expect("a file");
        assert!(text.contains(from), "{name}");
        fs::write(run.join(name), text.replacen(from, to, 1)).expect("a file");
    };
    change("journal.ndjson", "\"seq\":3,\"value\":{", "\"seq\":3,\"value\":{\"a\":1,");
    change("report.json", "conformant", "nonconformant");
    let told = user.evidence(&["verify"], 1);
    assert!(told.contains("NOT whole"), "{told}");
    assert!(told.contains("journal.ndjson: line 3 is not as it was written"), "{told}");
    assert!(told.contains("report.json: its content is not what the manifest says"), "{told}");
    let json = user.json(&["verify", "--all"], 1);
    assert_eq!(json["runs"][0]["problems"].as_array().map(Vec::len), Some(2));
    // What was changed is not judged.
    assert_eq!(user.run(&["judge", "latest"]).status.code(), Some(2));
    fs::write(run.join("manifest.json"), "{").expect("a file");
    assert!(user.evidence(&["verify", &id], 1).contains("manifest"));
    assert!(user.evidence(&["list"], 0).contains("(damaged)"));
    for nothing in ["ffffffff", "/no/such/run.zip"] {
        user.evidence(&["verify", nothing], 2);
    }
    fs::write(user.path("bad.zip"), "PK, but no archive").expect("a file");
    user.evidence(&["verify", user.path("bad.zip").to_str().expect("UTF-8")], 1);
}

/// One run of which nothing can be said is no reason to say nothing of the others.
#[test]
fn a_run_that_cannot_be_read_hides_no_other() {
    let user = User::new();
    let (odd, good) = (user.check(), user.check());
    let journal = user.path("state/runs").join(&odd).join("journal.ndjson");
    fs::remove_file(&journal).expect("a file");
    fs::create_dir(&journal).expect("a directory");
    let told = user.evidence(&["verify", "--all"], 1);
    assert!(told.contains(&format!("{odd}: NOT readable")), "{told}");
    assert!(told.contains(&format!("{good}: as it was written")), "{told}");
}

#[test]
fn old_runs_go_and_a_dry_run_only_says_so() {
    let user = User::new();
    let ids = [user.check(), user.check(), user.check()];
    let plan = user.evidence(&["gc", "--runs", "1", "--dry-run"], 0);
    assert!(plan.contains(&format!("would remove {}", ids[0])) && plan.contains("1 kept"), "{plan}");
    assert!(user.evidence(&["list"], 0).contains("3 runs"));
    let done = user.json(&["gc", "--runs", "1"], 0);
    assert_eq!(done["removed_runs"], serde_json::json!([ids[0], ids[1]]));
    let list = user.evidence(&["list"], 0);
    assert!(list.contains(&ids[2]) && list.contains("1 run\n"), "{list}");
    user.evidence(&["verify"], 0);
}

/// Item 6 through the binary: an agent that writes a secret in every form, on stdout and on stderr, in frames, in garbage
/// and cut apart by its writes. No file, no report format, no stream and no archive has it.
#[test]
fn no_form_of_a_secret_reaches_a_sink() {
    let user = User::new();
    let out = user.path("results");
    let agent = r#"
hex=$(printf %s "$KEY" | od -An -v -tx1 | tr -d ' \n')
percent=$(printf %s "$hex" | sed 's/../%&/g')
unicode=$(printf %s "$hex" | sed 's/../\\u00&/g')
b64=$(printf %s "$KEY" | base64)
for form in "$KEY" "$HELD" "$hex" "$percent" "$b64" "$(printf 'x%s' "$KEY" | base64)" "$(printf 'xy%s' "$KEY" | base64)"; do
  echo "garbage <$form>"
  echo "{\"$form\":\"<$form>\",\"nested\":\"{\\\"a\\\":\\\"$form\\\"}\"}"
  echo "stderr <$form>" >&2
done
echo "{\"escaped\":\"<$unicode>\"}"
printf 'bytes \377 <%s>\n' "$KEY"
printf '{"api_key":"never-told-1","cut'; echo
# Too long for a frame: it travels as a companion stream.
long=$(head -c 100000 /dev/zero | tr '\0' x)
echo "{\"long\":\"$long\",\"end\":\"<$KEY>\"}"
echo "$long <$KEY>"
# In pieces, none of which is the secret.
first=${KEY%-battery}
printf %s "pieces <$first" >&2
for piece in "chunks <$first" "-battery>"; do
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$piece"'"}}}}'
done
echo "-battery>" >&2
exec "$0" mock agent
"#;
    let held = format!("HELD={SECRET}");
    let args = [
        "check",
        "--case",
        "basics",
        "--out",
        out.to_str().expect("UTF-8"),
        "--env",
        "KEY=Tr0ub4dor&3-battery",
        "--secret",
        "HELD_BACK",
        "--env",
        &held,
        "--env",
        "DEBUG=1",
        "--",
        "/bin/sh",
        "-c",
        agent,
        PINTLE,
    ];
    let run = user.run(&args);
    let report: Value = serde_json::from_slice(&fs::read(out.join("report.json")).expect("a report")).expect("JSON");
    assert!(report["redactions"]["canary"].as_u64() > Some(10), "{}", report["redactions"]);
    assert_eq!(report["host"]["os"], "linux", "a short value shreds nothing");
    let zip = user.path("run.zip");
    user.evidence(&["export", "--from", out.to_str().expect("UTF-8"), "--out", zip.to_str().expect("UTF-8")], 0);
    let unpacked = user.path("unpacked");
    fs::create_dir(&unpacked).expect("a directory");
    pintle_store::evidence::unpack(&pintle_store::RealFs, &zip, &unpacked, Default::default()).expect("unpack");

    let mut sinks = vec![("stdout".to_owned(), run.stdout), ("stderr".to_owned(), run.stderr)];
    for dir in [&out, &unpacked] {
        files(dir, &mut sinks);
    }
    assert!(sinks.len() > 12, "{}", sinks.len());
    for (name, bytes) in &sinks {
        let lower = text(bytes).to_ascii_lowercase();
        // The first half stands for the secret that came in pieces.
        for secret in ["Tr0ub4dor&3-battery", "Tr0ub4dor&3", SECRET, "never-told-1"] {
            for form in forms(secret) {
                assert!(!lower.contains(&form.to_ascii_lowercase()), "{form} in {name}");
            }
        }
    }
    let journal = sinks.iter().find(|(name, _)| name.ends_with("journal.ndjson")).expect("a journal");
    assert!(text(&journal.1).contains("garbage <[redacted:canary]>"), "the garbage that proves a failure survives");
    assert!(text(&journal.1).contains("chunks <[redacted:canary]"), "the message's first chunk says so");
    assert!(text(&journal.1).contains("pieces <[redacted:canary]"), "and so does standard error");
    let of_stream = |(name, bytes): &&(String, Vec<u8>)| name.contains("objects") && bytes.len() > 65_536;
    assert!(sinks.iter().filter(of_stream).count() >= 2, "the long line is kept, in the run and in the archive");
    assert!(sinks.iter().any(|(name, _)| name.ends_with("input/plan.json")));
}

fn files(dir: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read(&path).expect("a file")));
        }
    }
}

/// As it is; escaped for HTML; hexadecimal; percent; `\u`; base64 at every alignment, without its ends.
fn forms(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let each = |before: &str| secret.bytes().map(|byte| format!("{before}{byte:02x}")).collect::<String>();
    let mut forms = vec![secret.to_owned(), secret.replace('&', "&amp;"), hex, each("%"), each("\\u00")];
    for pad in ["", "x", "xy"] {
        forms.push(base64_core(format!("{pad}{secret}").as_bytes(), pad.len()));
    }
    forms
}

/// The base64 digits of whole groups behind the padding.
fn base64_core(bytes: &[u8], pad: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let skip = usize::from(pad > 0);
    bytes
        .chunks_exact(3)
        .skip(skip)
        .flat_map(|group| {
            let bits = u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
            [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift & 63) as usize]))
        })
        .collect()
}

#[test]
fn a_secret_that_cannot_be_protected_is_refused_and_never_printed() {
    let user = User::new();
    let out = user.run(&["check", "--secret", "PIN=1234", "--", PINTLE, "mock", "agent"]);
    assert_eq!(out.status.code(), Some(2));
    let stderr = text(&out.stderr);
    assert!(stderr.contains("keep PIN out of the evidence: it is too short") && !stderr.contains("1234"), "{stderr}");
    let out = user.run(&["check", "--secret", "NOT_SET", "--", PINTLE, "mock", "agent"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--secret NOT_SET=VALUE"));
}

/// Issue item 7: a run that is being recorded puts the collection off, and one whose recorder was killed does not. Nothing
/// of it stays behind.
#[test]
fn a_recorder_that_was_killed_does_not_put_the_collection_off() {
    let user = User::new();
    let fifo = user.path("up");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let agent = format!("echo $$ > '{}'; exec sleep 600", fifo.display());
    let mut check = Command::new(PINTLE);
    check.args(["check", "--case", "basics", "--startup-timeout", "500", "--", "/bin/sh", "-c", &agent]).env_clear();
    check.env("PATH", "/usr/bin:/bin").env("PINTLE_HOME", user.path("state")).env("TMPDIR", user.path("tmp"));
    check.current_dir(user.path("cwd")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut check = check.spawn().expect("the binary runs");
    // The agent has it open once the run is under way.
    let agent = fs::read_to_string(&fifo).expect("the agent is up");
    assert_eq!(user.json(&["gc"], 0)["skipped"], true, "a run is being recorded");
    check.kill().expect("it is killed");
    check.wait().expect("it is gone");
    let agent = pintle_testkit::deaths::Watched::new(agent.trim().parse().expect("a process id"));
    assert!(agent.ends_within(std::time::Duration::from_secs(60)), "the agent goes with it");
    assert_eq!(user.json(&["gc"], 0)["skipped"], false);
    assert_eq!(user.json(&["list"], 0)["runs"][0]["state"], "open");
    // The next run does it on its own, with what the killed one left.
    user.check();
    assert_eq!(user.json(&["list"], 0)["runs"].as_array().map(Vec::len), Some(2));
}
