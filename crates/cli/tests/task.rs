//! `pintle task ..` as people and agents run it: the real binary, a home of its own, nothing of this machine's.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::world::{TEXT, World, line_of, request};

/// The whole round: a prompt gives the pair, the pair publishes, the next prompt makes it stale.
#[test]
fn prompt_publish_prompt() {
    let world = World::new();
    let block = world.prompt("s-1");
    assert!(block.starts_with("TASK_POINTER_V2_BOOTSTRAP\nstatus: CLEARED\n"), "{block}");
    let generation = line_of(&block, "generation");
    let publisher = line_of(&block, "publisher");
    assert!(publisher.contains(" task publish --root ") && publisher.ends_with(" --agent claude"), "{publisher}");

    let receipt = world.ok(&["task", "publish"], &request("s-1", &generation, 1, Some(TEXT)));
    let receipt: Value = serde_json::from_str(&receipt).expect("one line of JSON");
    assert_eq!((&receipt["ok"], &receipt["revision"], &receipt["status"]), (&json!(true), &json!(2), &json!("CLEAN")));
    assert_eq!(receipt["generation"], json!(generation));

    let block = world.prompt("s-1");
    assert!(block.contains("\nrecovery: MERGE_FIRST\n") && block.contains("\n| Goal: x\n| Next: y\n"), "{block}");
    let before = world.state("s-1");
    let (stdout, stderr) = world.fails(&["pointer", "publish"], &request("s-1", &generation, 2, Some("stale")), 2);
    let refusal: Value = serde_json::from_str(&stdout).expect("one line of JSON");
    assert_eq!((&refusal["ok"], &refusal["code"]), (&json!(false), &json!("STALE_REVISION")));
    assert_eq!(refusal["current"], json!({"generation": generation, "revision": 3, "status": "DIRTY"}));
    assert_eq!((stdout.lines().count(), stderr.as_str()), (1, ""));
    assert_eq!(world.state("s-1"), before, "a refusal changes nothing");
}

/// The `publisher:` line of a block works as it stands.
#[cfg(unix)]
#[test]
fn the_publisher_line_runs_in_a_shell() {
    let world = World::new();
    let block = world.prompt("s-1");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &line_of(&block, "publisher")]).env_clear().current_dir("/");
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
    let request = request("s-1", &line_of(&block, "generation"), 1, Some(TEXT));
    child.stdin.take().expect("piped").write_all(request.as_bytes()).expect("written");
    assert!(child.wait_with_output().expect("ends").status.success());
    assert_eq!(world.state("s-1")["pointer_text"], json!(TEXT));
}

/// A12: 0, 1 and 2 only; 2 for a refused publish and for a block in the published form, never for a wrong command line.
#[test]
fn exit_codes() {
    let world = World::new();
    for args in [
        &["task"][..],
        &["task", "bogus"],
        &["task", "hook", "--nope"],
        &["task", "hook", "--agent", "nobody"],
        &["task", "hook", "--agent"],
        &["task", "publish", "--root"],
        &["task", "set"],
        &["task", "gc"],
        &["task", "gc", "--older-than", "soon"],
        &["pointer", "show", "--session"],
        &["task", "show", "not/an/id"],
        &["task", "show", "unknown"],
        &["task", "set", "text"],
        &["task", "import", "--from-json", "nowhere.json"],
    ] {
        let (stdout, stderr) = world.fails(args, "", 1);
        assert!(stdout.is_empty() && !stderr.is_empty(), "{args:?}: {stdout} {stderr}");
    }
    for args in [&["task", "--help"][..], &["task", "hook", "--help"], &["task", "--version"], &["help", "task"]] {
        assert!(!world.ok(args, "").is_empty());
    }
    for stdin in ["", "{", "[]", "{\"session_id\":\"s\"}"] {
        let (stdout, stderr) = world.fails(&["task", "hook", "--agent", "codex"], stdin, 1);
        assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{stdin}: {stderr}");
    }
    for stdin in ["", "{", "[]", &"x".repeat(20_000), &request("no/id", "ABSENT", 0, None)] {
        let (stdout, _) = world.fails(&["task", "publish"], stdin, 2);
        assert!(stdout.starts_with("{\"ok\":false,\"code\":\"") && stdout.lines().count() == 1, "{stdout}");
    }
    let unknown = json!({"session_id": "s", "hook_event_name": "Brandnew"}).to_string();
    let output = world.run(&["task", "hook", "--agent", "codex"], &unknown);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
}

/// Section 7: with a state root that is a file, every prompt blocks in the form that was asked for, and none is lost in
/// silence.
#[test]
fn an_unusable_root_blocks_or_warns() {
    let world = World::new();
    fs::write(world.path("root"), "a file").expect("write");
    let root = world.path("root");
    let root = root.to_str().expect("UTF-8");
    let input = world.hook_input("s-1", "UserPromptSubmit");
    let hook = ["task", "hook", "--agent", "codex", "--root", root];
    let output = world.run(&hook, &input);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["decision"], "block");
    assert!(value["reason"].as_str().expect("reason").starts_with("TASK_POINTER_V2:STATE_IO "), "{value}");
    let (stdout, stderr) = world.fails(&[&hook[..], &["--compat-exit2"]].concat(), &input, 2);
    assert_eq!((stdout, stderr.trim_end()), (value.to_string(), "TASK_POINTER_V2:STATE_IO"));
    let output = world.ok(&[&hook[..], &["--on-error", "open"]].concat(), &input);
    let value: Value = serde_json::from_str(&output).expect("JSON");
    assert!(value["systemMessage"].is_string());
    let text = value["hookSpecificOutput"]["additionalContext"].as_str().expect("context");
    assert!(text.starts_with("UNKNOWN_RECOVERY:STATE_IO\n"));
    let compaction = world.run(&hook, &world.hook_input("s-1", "PreCompact"));
    assert_eq!((compaction.status.code(), compaction.stdout.len(), compaction.stderr.len()), (Some(0), 0, 0));
}

/// A host that never closes the pipe gets its answer all the same, and one that writes nothing gets an end.
#[cfg(unix)]
#[test]
fn a_hanging_stdin_ends() {
    let world = World::new();
    let mut child = world.spawn(&["task", "hook", "--agent", "claude"]);
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(world.hook_input("s-1", "UserPromptSubmit").as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends although the pipe is open");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("TASK_POINTER_V2_BOOTSTRAP"));
    drop(stdin);

    let mut child = world.spawn(&["task", "hook", "--agent", "claude"]);
    let stdin = child.stdin.take();
    let output = child.wait_with_output().expect("ends although nothing came");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    drop(stdin);
}

/// Item 28: a reader that is gone changes no exit code, and the fence stands.
#[test]
fn a_closed_stdout_is_no_failure() {
    let world = World::new();
    let mut child = world.spawn(&["task", "hook", "--agent", "claude"]);
    drop(child.stdout.take());
    drop(child.stderr.take());
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(world.hook_input("s-1", "UserPromptSubmit").as_bytes())
        .expect("written");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert_eq!(world.state("s-1")["revision"], json!(1));
}

/// Invariant 7: while it waits for its input the hook has one thread.
#[cfg(target_os = "linux")]
#[test]
fn the_hook_has_one_thread() {
    let world = World::new();
    let mut child = world.spawn(&["task", "hook", "--agent", "claude"]);
    let stdin = child.stdin.take();
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let sleeps = |line: &str| line.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'));
    while !sleeps(&fs::read_to_string(process.join("stat")).expect("it waits for its input")) {
        std::thread::yield_now();
    }
    assert_eq!(fs::read_dir(process.join("task")).expect("list").count(), 1);
    drop(stdin);
    child.wait().expect("ends");
}

/// A7 and item 23: a forked session cannot publish with its parent's pair, and only the named agent's variable counts.
#[test]
fn session_variables() {
    let mut world = World::new();
    let generation = line_of(&world.prompt("parent"), "generation");
    world.variables = vec![("CLAUDE_CODE_SESSION_ID", "child".to_owned())];
    let request = request("parent", &generation, 1, Some(TEXT));
    let (stdout, _) = world.fails(&["task", "publish", "--agent", "claude"], &request, 2);
    assert!(stdout.contains("\"code\":\"SESSION_ENV_MISMATCH\""), "{stdout}");
    world.ok(&["task", "publish", "--agent", "codex"], &request);
}

#[test]
fn people_set_show_and_finish() {
    let world = World::new();
    world.prompt("s-1");
    assert_eq!(world.ok(&["task", "set", TEXT], ""), "recorded: session s-1, revision 2\n");
    let shown = world.ok(&["task", "show"], "");
    assert!(shown.contains("status    CLEAN") && shown.ends_with("\nGoal: x\nNext: y\n"), "{shown}");
    let id = world.state("s-1")["task_id"].clone();
    world.ok(&["task", "set", "Goal: x, step 2", "--session", "s-1"], "");
    assert_eq!(world.state("s-1")["task_id"], id, "the task stays the same");
    world.ok(&["task", "set", "another", "--new-task"], "");
    assert_ne!(world.state("s-1")["task_id"], id);

    let history = world.ok(&["task", "history"], "");
    assert_eq!(history.matches("  CLEAN").count(), 3, "{history}");
    assert!(world.ok(&["task", "done"], "").starts_with("done: session s-1, revision 5"));
    assert!(world.prompt("s-1").starts_with("TASK_POINTER_V2_BOOTSTRAP\n"), "a finished task does not come back");
    let (_, stderr) = world.fails(&["task", "done"], "", 2);
    assert!(stderr.contains("no task is recorded"), "{stderr}");
    let (stdout, _) = world.fails(&["task", "set", " ", "--session", "s-1", "--format", "json"], "", 2);
    assert!(stdout.contains("POINTER_EMPTY"));
    let receipt = world.ok(&["task", "clear", "--format", "json"], "");
    assert!(receipt.starts_with("{\"ok\":true,\"session_id\":\"s-1\""), "{receipt}");
}

/// What a person recorded in a directory is found there by the next command, also where no agent ever was.
#[test]
fn a_persons_session_is_found_in_its_directory() {
    let world = World::new();
    world.ok(&["task", "set", "Goal: x", "--session", "mine"], "");
    assert!(world.ok(&["task", "show"], "").contains("Goal: x"));
    world.ok(&["task", "adopt", "1", "--session", "other"], "");
    assert!(world.ok(&["task", "list"], "").contains("project"));
    world.ok(&["task", "done", "--session", "mine"], "");
    let (_, stderr) = world.fails(&["task", "adopt", "9"], "", 1);
    assert!(stderr.contains("`pintle task list` shows them"), "{stderr}");
}

#[test]
fn lists_show_project_agent_and_first_line() {
    let world = World::new();
    assert_eq!(world.ok(&["task", "list"], ""), "no tasks\n");
    for session in ["s-1", "s-2", "s-3"] {
        world.prompt(session);
    }
    world.ok(&["task", "set", TEXT, "--session", "s-2"], "");
    let list = world.ok(&["task", "list"], "");
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "only what is alive: {list}");
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["1", "project", "claude", "CLEAN", "now", "s-2", "Goal:", "x"]
    );
    assert_eq!(world.ok(&["task", "list", "--all"], "").lines().count(), 4);
    let rows = world.ok(&["task", "list", "--format", "json"], "");
    let row: Value = serde_json::from_str(rows.trim_end()).expect("one row");
    assert_eq!(
        (&row["session_id"], &row["first_line"], &row["agent"]),
        (&json!("s-2"), &json!("Goal: x"), &json!("claude"))
    );
}

/// Text from a model cannot take the terminal over.
#[test]
fn control_characters_are_not_printed() {
    let world = World::new();
    world.prompt("s-1");
    let path = world.path("state/pintle/tasks/s-1/state.json");
    let path = if path.exists() { path } else { panic!("{}", path.display()) };
    world.ok(&["task", "set", "Goal"], "");
    let hostile = fs::read_to_string(&path).expect("read").replace("\"Goal\"", "\"a\\u001b[2J\\nb\"");
    fs::write(&path, hostile).expect("write");
    for args in [&["task", "show"][..], &["task", "list"], &["task", "show", "--context"]] {
        let text = world.ok(args, "");
        assert!(!text.contains('\u{1b}'), "{args:?}: {text:?}");
    }
}

/// A9: adoption copies text and id by an ordinary publish; a move clears what it left.
#[test]
fn tasks_are_adopted() {
    let world = World::new();
    world.prompt("old");
    world.ok(&["task", "set", TEXT, "--session", "old"], "");
    world.prompt("new");
    world.ok(&["task", "adopt", "old", "--session", "new"], "");
    let (old, new) = (world.state("old"), world.state("new"));
    assert_eq!((&new["task_id"], &new["pointer_text"]), (&old["task_id"], &json!(TEXT)));
    assert_eq!((&old["status"], &new["revision"]), (&json!("CLEAN"), &json!(2)));
    world.prompt("third");
    let list = world.ok(&["task", "list"], "");
    let number = list.lines().position(|line| line.contains(" old ")).expect("listed").to_string();
    world.ok(&["task", "adopt", &number, "--session", "third", "--move"], "");
    assert_eq!(world.state("third")["pointer_text"], json!(TEXT));
    let left = world.state("old");
    assert_eq!(left["status"], json!("CLEARED"));
    assert_ne!(left["generation"], old["generation"]);
    for args in
        [&["task", "adopt", "third", "--session", "third"][..], &["task", "adopt", "old"], &["task", "adopt", "99"]]
    {
        world.fails(args, "", 1);
    }
}

/// A9: `send` is one ssh command, and the other side never overwrites what is alive there.
#[cfg(unix)]
#[test]
fn tasks_travel() {
    use std::os::unix::fs::PermissionsExt;
    let (here, there) = (World::new(), World::new());
    let ssh = here.path("ssh");
    // `ssh -- HOST COMMAND`: the other machine is another home.
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = \"-- desk\" ] || exit 9\nexport XDG_STATE_HOME='{}'\nexec {} $3\n",
        there.path("state").display(),
        env!("CARGO_BIN_EXE_pintle"),
    );
    fs::write(&ssh, script).expect("write");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("chmod");
    let ssh = ssh.to_str().expect("UTF-8").to_owned();
    here.prompt("s-1");
    here.ok(&["task", "set", TEXT], "");
    let send = ["task", "send", "desk", "s-1", "--ssh", &ssh, "--remote", "task import"];
    here.ok(&send, "");
    let arrived = there.state("s-1");
    assert_eq!((&arrived["pointer_text"], &arrived["task_id"]), (&json!(TEXT), &here.state("s-1")["task_id"]));
    here.ok(&send, "");
    assert_eq!(there.state("s-1"), arrived, "the same again changes nothing");
    here.ok(&["task", "set", "further"], "");
    here.ok(&send, "");
    assert_eq!(
        there.state("s-1")["pointer_text"],
        json!("further"),
        "nobody took it up yet: the newer one replaces it"
    );
    there.prompt("local");
    there.ok(&["task", "adopt", "s-1", "--session", "local"], "");
    there.prompt("s-1");
    here.ok(&["task", "set", "much further"], "");
    let (stdout, _) = here.fails(&send, "", 2);
    assert!(stdout.contains("\"code\":\"SESSION_LIVE\""), "{stdout}");
    here.fails(&["task", "send", "-oProxyCommand=x", "s-1"], "", 1);
}

/// Section 9: another program's file is read by an explicit map, and nothing is written without `--apply`.
#[test]
fn foreign_files_are_imported_by_a_map() {
    let world = World::new();
    let file = world.path("v1.json");
    fs::write(&file, json!({"envelope": {"sid": "v1-session", "items": [{"note": TEXT}]}}).to_string()).expect("write");
    let args = [
        "task",
        "import",
        "--from-json",
        file.to_str().expect("UTF-8"),
        "--map",
        "session_id=envelope.sid",
        "--map",
        "pointer_text=envelope.items.0.note",
    ];
    let said = world.ok(&args, "");
    assert!(said.contains("would store in session v1-session") && said.contains("--apply"), "{said}");
    world.fails(&["task", "show", "v1-session"], "", 1);
    let receipt = world.ok(&[&args[..], &["--apply"]].concat(), "");
    assert!(receipt.starts_with("{\"ok\":true"));
    assert_eq!(world.state("v1-session")["pointer_text"], json!(TEXT));
    let (stdout, _) = world.fails(&[&args[..], &["--apply"]].concat(), "", 2);
    assert!(stdout.contains("SESSION_LIVE"), "another task id is another task: {stdout}");
    world.fails(
        &["task", "import", "--from-json", file.to_str().expect("UTF-8"), "--map", "pointer_text=nowhere"],
        "",
        1,
    );
}

/// A1: the tasks of a root of another layout are offered, shown, and taken in on request; that root is never written.
#[test]
fn a_foreign_root_is_offered_and_taken_in() {
    let world = World::new();
    let root = world.path("home/.codex/state/task-pointers/v2");
    let record = |session: &str, revision: u64, text: &str| {
        json!({"schema_version": 2, "session_id": session, "revision": revision, "status": "CLEAN",
            "task_id": "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6", "pointer_text": text,
            "updated_at": "2025-01-01T00:00:00Z"})
        .to_string()
    };
    for (name, text) in [
        ("by-hash/0a1b/state.json", record("s-1", 4, "Goal: one")),
        ("by-hash/0a1b/backup.json", record("s-1", 3, "Goal: older")),
        ("by-hash/0c2d/state.json", record("s-2", 1, "Goal: two")),
        ("settings.json", "{\"a\":1}".to_owned()),
    ] {
        fs::create_dir_all(root.join(name).parent().expect("below the root")).expect("mkdir");
        fs::write(root.join(name), text).expect("write");
    }
    let stderr = |args: &[&str]| String::from_utf8(world.run(args, "").stderr).expect("UTF-8");
    let offer = stderr(&["task", "list"]);
    assert!(offer.contains("task import --agent codex --from-root"), "{offer}");

    let from = root.to_str().expect("UTF-8");
    let import = ["task", "import", "--agent", "codex", "--from-root", from];
    let said = world.ok(&import, "");
    assert!(said.contains("session s-1") && said.contains("Goal: one") && said.contains("session s-2"), "{said}");
    assert!(!said.contains("older") && stderr(&import).contains("--apply"), "{said}");
    world.fails(&["task", "show", "s-1"], "", 1);

    world.ok(&["task", "publish"], &request("s-2", "ABSENT", 0, Some("mine")));
    let (receipts, _) = world.fails(&[&import[..], &["--apply"]].concat(), "", 2);
    assert_eq!(receipts.lines().count(), 2, "{receipts}");
    assert!(receipts.contains("\"ok\":true") && receipts.contains("SESSION_LIVE"), "{receipts}");
    assert_eq!(world.state("s-1")["pointer_text"], json!("Goal: one"));
    assert_eq!(world.state("s-2")["pointer_text"], json!("mine"), "a live task stays");
    assert_eq!(fs::read_dir(&root).expect("list").count(), 2, "the foreign root is not written");
    assert_eq!(fs::read_dir(root.join("by-hash/0a1b")).expect("list").count(), 2);
}

/// Item 23: a fork begins without a task and takes its parent's when it is asked to.
#[test]
fn a_fork_imports_the_task_of_its_parent() {
    let world = World::new();
    world.prompt("parent");
    world.ok(&["task", "set", TEXT, "--session", "parent"], "");
    assert!(world.prompt("child").starts_with("TASK_POINTER_V2_BOOTSTRAP\n"));
    world.ok(&["task", "import", "--from", "parent", "--session", "child"], "");
    assert_eq!(world.state("child")["pointer_text"], json!(TEXT));
    assert_eq!(world.state("child")["task_id"], world.state("parent")["task_id"]);
    world.fails(&["task", "import", "--from", "parent", "--session", "parent"], "", 1);
    world.fails(&["task", "import", "--from", "parent", "--from-root", "/"], "", 1);
}

/// Section 9: schema 2 is read in place and upgraded by the first write.
#[test]
fn schema_two_is_upgraded_by_the_first_write() {
    let world = World::new();
    let dir = world.path("state/pintle/tasks/s-1");
    fs::create_dir_all(&dir).expect("mkdir");
    let v2 = json!({"schema_version": 2, "session_id": "s-1", "revision": 4, "status": "CLEAN",
        "task_id": "6f1c2a9e-3b4d-4c5e-8f60-718293a4b5c6", "pointer_text": TEXT, "updated_at": "2025-01-01T00:00:00Z"});
    fs::write(dir.join("state.json"), v2.to_string()).expect("write");
    let start = world.ok(&["task", "hook", "--agent", "claude"], &world.hook_input("s-1", "SessionStart"));
    assert!(start.contains("generation: LEGACY_V2\\nrevision: 4\\n") && start.contains("| Goal: x"), "{start}");
    assert_eq!(fs::read_to_string(dir.join("state.json")).expect("read"), v2.to_string(), "reading changes nothing");
    world.ok(&["task", "publish"], &request("s-1", "LEGACY_V2", 4, Some("new")));
    let state = world.state("s-1");
    assert_eq!((&state["schema_version"], &state["revision"]), (&json!(3), &json!(5)));
}

#[test]
fn old_sessions_are_collected_on_request() {
    let world = World::new();
    world.prompt("s-1");
    assert_eq!(world.ok(&["task", "gc", "--older-than", "1d"], ""), "nothing is that old\n");
    assert_eq!(world.ok(&["task", "gc", "--older-than", "1d", "--format", "json"], ""), "");
    let path = world.path("state/pintle/tasks/s-1");
    for file in ["meta.json", "state.json"] {
        let text = fs::read_to_string(path.join(file)).expect("read");
        let year: String = text.split("\"updated_at\": \"").nth(1).map(|rest| rest[..4].to_owned()).unwrap_or_default();
        let old = text.replace(&format!("\"updated_at\": \"{year}"), "\"updated_at\": \"2020");
        fs::write(path.join(file), if file == "meta.json" { "{}".to_owned() } else { old }).expect("write");
    }
    assert_eq!(world.ok(&["task", "gc", "--older-than", "1d", "--dry-run"], ""), "would remove s-1\n");
    let line = world.ok(&["task", "gc", "--older-than", "1d", "--dry-run", "--format", "json"], "");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&line["session_id"], &line["action"]), (&json!("s-1"), &json!("would_remove")));
    assert!(path.exists());
    assert_eq!(world.ok(&["task", "gc", "--older-than", "1d"], ""), "removed s-1\n");
    assert!(!path.exists());
}

/// A1: the named root, then the variable, then the protocol's own root of Codex where it follows our layout, then ours.
#[test]
fn roots_in_their_order() {
    let mut world = World::new();
    let codex = world.path("home/.codex/state/task-pointers/v2");
    let hook = ["task", "hook", "--agent", "codex"];
    let prompt = world.hook_input("s-1", "UserPromptSubmit");
    world.ok(&hook, &prompt);
    assert!(world.path("state/pintle/tasks/s-1/state.json").exists());

    // An empty root of the protocol's own install is used for Codex; the session is now in both, which is said.
    fs::create_dir_all(&codex).expect("mkdir");
    world.ok(&hook, &prompt);
    assert!(codex.join("s-1/state.json").exists());
    let (_, stderr) = world.fails(&["task", "show", "s-1"], "", 1);
    assert!(stderr.contains(".codex") && stderr.contains("pintle"), "{stderr}");
    world.ok(&["task", "show", "s-1", "--agent", "codex", "--format", "json"], "");

    // A session on its way to its first record does not make it another root.
    fs::create_dir(codex.join("s-3")).expect("mkdir");
    fs::write(codex.join("s-3/lock"), "").expect("write");
    world.ok(&hook, &world.hook_input("s-4", "UserPromptSubmit"));
    assert!(codex.join("s-4/state.json").exists());

    // A root of another layout is left alone.
    fs::create_dir(codex.join("somebody-elses")).expect("mkdir");
    fs::write(codex.join("somebody-elses/pointer.json"), "{}").expect("write");
    world.ok(&hook, &world.hook_input("s-2", "UserPromptSubmit"));
    assert!(!codex.join("s-2").exists() && world.path("state/pintle/tasks/s-2").exists());

    world.variables = vec![("PINTLE_POINTER_HOME", world.path("variable").display().to_string())];
    world.ok(&hook, &prompt);
    assert!(world.path("variable/s-1/state.json").exists());
    let named = world.path("named").display().to_string();
    world.ok(&[&hook[..], &["--root", &named]].concat(), &prompt);
    assert!(world.path("named/s-1/state.json").exists());
}

/// Copilot names no event in its camelCase payloads, and wants the flat form.
#[test]
fn copilot_camel_case() {
    let world = World::new();
    let input = json!({"sessionId": "s-1", "timestamp": 1, "cwd": "/p", "prompt": "x"}).to_string();
    for args in [
        &["task", "hook", "--agent", "copilot"][..],
        &["task", "hook", "--agent", "copilot", "--event", "userPromptSubmitted"],
    ] {
        let output: Value = serde_json::from_str(&world.ok(args, &input)).expect("JSON");
        assert!(output["additionalContext"].as_str().expect("context").starts_with("TASK_POINTER_V2_BOOTSTRAP\n"));
    }
}

#[test]
fn watch_follows_changes() {
    let world = World::new();
    world.prompt("s-1");
    world.ok(&["task", "set", "first"], "");
    let mut child = world.spawn(&["task", "watch", "--format", "json"]);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert!(next().contains("\"first_line\":\"first\""));
    world.ok(&["task", "set", "second"], "");
    assert!(next().contains("\"first_line\":\"second\""));
    drop(lines);
    if cfg!(not(unix)) {
        // There, that nobody reads shows at the next change only.
        world.ok(&["task", "set", "third"], "");
    }
    let mut stderr = String::new();
    assert_eq!(child.wait().expect("it ends when nobody reads").code(), Some(0));
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("UTF-8");
    assert_eq!(stderr, "");
}

/// Item 16: parallel hooks of one session and a publisher that keeps trying; nothing is lost, all answers differ.
#[test]
fn parallel_hooks_and_a_publisher() {
    const HOOKS: usize = 12;
    let world = World::new();
    world.prompt("s-1");
    let input = world.hook_input("s-1", "UserPromptSubmit");
    let mut children: Vec<Child> = (0..HOOKS).map(|_| world.spawn(&["task", "hook", "--agent", "claude"])).collect();
    for child in &mut children {
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    }
    world.ok(&["task", "set", TEXT, "--session", "s-1"], "");
    let mut revisions: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("ends");
            let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            line_of(value["hookSpecificOutput"]["additionalContext"].as_str().expect("context"), "revision")
        })
        .collect();
    revisions.sort();
    revisions.dedup();
    assert_eq!(revisions.len(), HOOKS, "each prompt has a revision of its own");
    let state = world.state("s-1");
    assert_eq!(state["revision"], json!(HOOKS + 2));
    assert_eq!(state["pointer_text"], json!(TEXT), "no update is lost");
}
