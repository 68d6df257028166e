//! `pintle task` where everything around it goes wrong: input, deaths, homes, disks, other versions.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};

use crate::world::{TEXT, World, request};

/// Every command with its least arguments. A test holds the list to the help text.
const COMMANDS: [&[&str]; 20] = [
    &["set", "x", "--session", "s-1"],
    &["done", "--session", "s-1"],
    &["clear", "--session", "s-1"],
    &["show", "s-1"],
    &["list"],
    &["history", "s-1"],
    &["watch", "--no-such-option"],
    &["adopt", "1"],
    &["send", ""],
    &["import"],
    &["gc", "--older-than", "30d"],
    &["publish"],
    &["install", "--agent", "claude"],
    &["uninstall", "--agent", "claude"],
    &["rollback", "--backup", "none"],
    &["doctor"],
    &["mcp"],
    &["hook", "--agent", "claude"],
    &["hook", "--agent", "copilot", "--on-error", "open"],
    &["hook", "--agent", "cursor", "--compat-exit2"],
];

#[test]
fn the_list_of_commands_is_whole() {
    let help = World::new().ok(&["task", "--help"], "");
    let (_, after) = help.split_once("Commands:\n").expect("a list of commands");
    // Names stand behind two blanks, and what a line goes on with behind more.
    let names = after.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    for name in names.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()) {
        assert!(name == "help" || COMMANDS.iter().any(|command| command[0] == name), "{name} is not in the list");
    }
}

/// A12: whatever stands on standard input, a command ends with 0, 1 or 2; 2 from a publish alone; with 1 standard output
/// is empty; a hook says at most one line, and none of the input.
#[test]
fn malformed_input_on_every_command() {
    let world = World::new();
    let inputs: [&[u8]; 12] = [
        b"",
        b"\0\0\0",
        b"{\"a\":",
        b"\xef\xbb\xbf",
        b"{\"session_id\":\"\xff\"}",
        b"[]",
        b"SECRET",
        &b"[".repeat(5000),
        &b"{\"a\":".repeat(3000),
        &b"x".repeat(1 << 20),
        b"{\"session_id\":\"a\",\"session_id\":\"b\",\"hook_event_name\":\"UserPromptSubmit\"}",
        b"{\"session_id\":\"a\",\"hook_event_name\":\"UserPromptSubmit\"}{}",
    ];
    for command in COMMANDS {
        let args = [&["task"], command].concat();
        for input in inputs {
            let mut child = world.spawn(&args);
            // What does not read is gone by now.
            let _ = child.stdin.take().expect("piped").write_all(input);
            let output = child.wait_with_output().expect("it ends");
            let shown = format!("{args:?} on {:?}", String::from_utf8_lossy(&input[..input.len().min(40)]));
            let code = output.status.code().unwrap_or_else(|| panic!("{shown}: a signal"));
            let stderr = String::from_utf8(output.stderr).expect("UTF-8");
            let refuses = matches!(command[0], "publish" | "done");
            assert!(code < 2 || (code == 2 && refuses), "{shown}: {code} {stderr}");
            assert!(code != 1 || output.stdout.is_empty() || command[0] == "doctor", "{shown}");
            assert!(!stderr.contains("panicked") && !stderr.contains("SECRET"), "{shown}: {stderr}");
            if command[0] == "hook" {
                assert!(code == 1 && stderr.lines().count() == 1 && stderr.len() < 300, "{shown}: {stderr}");
            }
        }
    }
}

/// Part 4: a panic of the hook, before it has written anything and after, is exit code 1, one line without a word of
/// the input, and no output; the record is whole, and the next prompt works.
#[test]
fn a_panic_of_the_hook_breaks_nothing() {
    let mut world = World::new();
    world.prompt("s-1");
    for (place, revision) in [("hook", 1), ("hook, written", 2)] {
        world.variables = vec![("PINTLE_TEST_PANIC", place.to_owned()), ("RUST_BACKTRACE", "full".to_owned())];
        for options in [&[][..], &["--on-error", "open"], &["--compat-exit2"]] {
            let args = [&["task", "hook", "--agent", "claude"], options].concat();
            let input = world.hook_input("s-1", "UserPromptSubmit");
            let (stdout, stderr) = world.fails(&args, &input, 1);
            assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{place}: {stderr}");
            assert!(stderr.starts_with("pintle: stopped by a fault of its own at "), "{stderr}");
            assert!(!stderr.contains("s-1") && !stderr.contains("asked for"), "{stderr}");
        }
        world.variables.clear();
        let revision = if revision == 1 { 1 } else { 4 };
        assert_eq!(world.state("s-1")["revision"], json!(revision), "{place}");
    }
    world.prompt("s-1");
    assert_eq!(world.state("s-1")["revision"], json!(5));
}

/// Item 31: a home that is reached through a link is a home.
#[cfg(unix)]
#[test]
fn a_home_behind_a_link() {
    let world = World::new();
    std::os::unix::fs::symlink(world.path("home"), world.path("link")).expect("links");
    let run = |args: &[&str], input: &str| {
        let mut command = world.command(&[&["task"], args].concat());
        command.env("HOME", world.path("link")).env_remove("XDG_STATE_HOME");
        let mut child = command.spawn().expect("starts");
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let context = run(&["hook", "--agent", "claude"], &world.hook_input("s-1", "UserPromptSubmit"));
    assert!(context.contains("TASK_POINTER_V2_BOOTSTRAP"), "{context}");
    run(&["set", TEXT, "--session", "s-1"], "");
    assert!(run(&["show", "s-1"], "").contains("Goal: x"));
    fs::create_dir(world.path("home/.claude")).expect("mkdir");
    run(&["install", "--agent", "claude", "--yes"], "");
    assert!(fs::read_to_string(world.path("home/.claude/settings.json")).expect("written").contains("task hook"));
    run(&["uninstall", "--agent", "claude", "--yes"], "");
    assert!(!world.path("home/.claude/settings.json").exists());
}

/// A writer without end gets an answer and a closed pipe, and costs no more memory than the limit.
#[test]
fn an_endless_stdin_ends() {
    let world = World::new();
    for (args, code) in
        [(&["task", "hook", "--agent", "claude"][..], 1), (&["task", "publish"], 2), (&["task", "import"], 1)]
    {
        let mut child = world.spawn(args);
        let mut stdin = child.stdin.take().expect("piped");
        while stdin.write_all(&[b'x'; 65536]).is_ok() {}
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A prompt of a megabyte is a prompt; 17 MiB are over the limit.
#[test]
fn long_prompts() {
    let world = World::new();
    let prompt = |bytes: usize| {
        json!({"session_id": "s-1", "hook_event_name": "UserPromptSubmit", "prompt": "y".repeat(bytes)}).to_string()
    };
    world.ok(&["task", "hook", "--agent", "claude"], &prompt(1 << 20));
    assert_eq!(world.state("s-1")["revision"], json!(1));
    world.fails(&["task", "hook", "--agent", "claude"], &prompt(17 << 20), 1);
    assert_eq!(world.state("s-1")["revision"], json!(1));
}

/// A process that is killed at any moment leaves the record whole, and what it leaves beside it is removed on request.
#[test]
fn killed_at_any_moment() {
    const ROUNDS: u64 = 90;
    let world = World::new();
    world.prompt("s-1");
    let mut last = 1;
    for round in 0..ROUNDS {
        let state = world.state("s-1");
        let (generation, revision) = (state["generation"].as_str().expect("text"), &state["revision"]);
        let revision = revision.as_u64().expect("a number");
        assert!(revision == last || revision == last + 1, "{last} became {revision}");
        last = revision;
        let (args, input): (&[&str], String) = match round % 3 {
            0 => (&["task", "hook", "--agent", "claude"], world.hook_input("s-1", "UserPromptSubmit")),
            1 => (&["task", "publish"], request("s-1", generation, revision, Some(TEXT))),
            _ => (&["task", "set", "Goal: set", "--session", "s-1"], String::new()),
        };
        let mut child = world.spawn(args);
        let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
        for _ in 0..(round * 7919) % 4000 {
            std::thread::yield_now();
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is dead");
    }
    world.run(&["task", "doctor", "--repair", "--session", "s-1"], "");
    let files = fs::read_dir(world.path("state/pintle/tasks/s-1")).expect("list");
    for file in files.map(|file| file.expect("entry").file_name().into_string().expect("UTF-8")) {
        assert!(["state.json", "lock", "meta.json", "history.ndjson"].contains(&file.as_str()), "{file}");
    }
    world.prompt("s-1");
}

/// Without a home, or with one that is none, every command says so with exit code 1, and a hook by its policy.
#[test]
fn homes_that_are_none() {
    for home in [None, Some("/dev/null")] {
        let world = World::new();
        let run = |args: &[&str], input: &str| {
            let mut command = world.command(&[&["task"], args].concat());
            command
                .env_remove("XDG_STATE_HOME")
                .env_remove("LOCALAPPDATA")
                .env_remove("HOME")
                .env_remove("USERPROFILE");
            command.envs(home.map(|home| ("HOME", home)));
            let mut child = command.spawn().expect("starts");
            let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
            child.wait_with_output().expect("ends")
        };
        for command in COMMANDS.iter().filter(|command| !matches!(command[0], "hook" | "mcp" | "publish")) {
            let output = run(command, "");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            // Where there is a home that is none, a publish is refused by the disk.
            let refused = home.is_some() && matches!(command[0], "set" | "done" | "clear");
            let expected = if refused { 2 } else { 1 };
            // Nothing is installed there, and nothing is to be taken out.
            let nothing = home.is_some() && command[0] == "uninstall";
            assert!(output.status.code() == Some(expected) || nothing, "{home:?} {command:?}: {stderr}");
            assert!(!stderr.contains("panicked"), "{command:?}: {stderr}");
        }
        let prompt = world.hook_input("s-1", "UserPromptSubmit");
        let blocked: Value =
            serde_json::from_slice(&run(&["hook", "--agent", "claude"], &prompt).stdout).expect("JSON");
        assert!(blocked["reason"].as_str().expect("text").starts_with("TASK_POINTER_V2:STATE_IO "), "{blocked}");
        let open = run(&["hook", "--agent", "claude", "--on-error", "open"], &prompt);
        let warned: Value = serde_json::from_slice(&open.stdout).expect("JSON");
        assert!(warned["systemMessage"].as_str().expect("text").contains("STATE_IO"), "{warned}");
    }
}

/// A record of a newer program is not read as damage without a word: the message says what to do, and it stays.
#[test]
fn a_record_of_a_newer_program() {
    let world = World::new();
    world.prompt("s-1");
    let path = world.path("state/pintle/tasks/s-1/state.json");
    let newer =
        fs::read_to_string(&path).expect("read").replace("\"schema_version\": 3", "\"schema_version\": 4, \"new\": {}");
    fs::write(&path, &newer).expect("write");
    let output = world.ok(&["task", "hook", "--agent", "claude"], &world.hook_input("s-1", "UserPromptSubmit"));
    let output: Value = serde_json::from_str(&output).expect("JSON");
    let reason = output["reason"].as_str().expect("blocked");
    assert!(reason.contains("schema_version 4 is that of a newer program"), "{reason}");
    assert_eq!(reason.matches("doctor --repair").count(), 1, "{reason}");
    let (receipt, _) = world.fails(&["task", "publish"], &request("s-1", "ABSENT", 0, Some(TEXT)), 2);
    assert!(receipt.contains("STATE_SCHEMA"), "{receipt}");
    assert_eq!(fs::read_to_string(&path).expect("read"), newer);
}

/// What stands where a file of ours belongs and is no file is never waited for.
#[cfg(unix)]
#[test]
fn pipes_in_place_of_files() {
    for name in ["state.json", "lock", "meta.json", "history.ndjson"] {
        let world = World::new();
        world.prompt("s-1");
        let path = world.path("state/pintle/tasks/s-1").join(name);
        let _ = fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        let output = world.ok(&["task", "hook", "--agent", "claude"], &world.hook_input("s-1", "UserPromptSubmit"));
        let blocks = output.contains("TASK_POINTER_V2:STATE_IO");
        assert_eq!(blocks, matches!(name, "state.json" | "lock"), "{name}: {output}");
        let set = world.run(&["task", "set", TEXT, "--session", "s-1"], "");
        assert_eq!(set.status.code(), Some(if blocks { 2 } else { 0 }), "{name}");
        world.run(&["task", "history", "s-1"], "");
        world.run(&["task", "doctor", "--session", "s-1"], "");
    }
}
