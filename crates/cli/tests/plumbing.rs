//! `pintle driver explain`, `pintle json canon`, and what every command has in common: exit codes, closed pipes.
//! The real binary runs.

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use pintle_testkit::vectors::driver_vectors;
use serde_json::{Value, json};

fn pintle(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A command that fails early does not read it all.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer ends");
    output
}

fn rows(args: &[&str], input: &[u8]) -> Vec<Value> {
    let output = pintle(args, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

fn check_exit(args: &[&str], input: &[u8], code: i32, stderr: &str) {
    let output = pintle(args, input);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    assert!(text.contains(stderr), "{args:?}: {text}");
}

const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"h","method":"driver.hello","params":{"core_version_range":"#,
    r#"{"minimum":"1.0.0","maximum":"1.0.0"}}}"#
);

#[test]
fn explain_says_of_each_frame_what_it_is_or_why_not() {
    let input = format!("{HELLO}\r\n\n{{\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":[1e21]}}\n{{}}");
    let canonical = concat!(
        r#"{"id":"h","jsonrpc":"2.0","method":"driver.hello","params":{"core_version_range":"#,
        r#"{"maximum":"1.0.0","minimum":"1.0.0"}}}"#
    );
    let expected = [
        json!({"line":1,"ok":true,"kind":"request","method":"driver.hello","id":"h","canonical":canonical}),
        json!({"line":2,"ok":false,"class":"invalid_request","stage":"empty","message":"empty control frame"}),
        json!({"line":3,"ok":true,"kind":"response","id":1,"canonical":"{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":[1e+21]}"}),
        json!({"line":4,"ok":false,"class":"unsupported_rpc_version","stage":"version","message":"jsonrpc is not 2.0"}),
    ];
    assert_eq!(rows(&["driver", "explain"], input.as_bytes()), expected);
}

#[test]
fn explain_prints_members_in_the_documented_order() {
    let output = pintle(&["driver", "explain"], b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"driver.reset\"}\n");
    let expected = concat!(
        r#"{"line":1,"ok":true,"kind":"request","method":"driver.reset","id":7,"#,
        r#""canonical":"{\"id\":7,\"jsonrpc\":\"2.0\",\"method\":\"driver.reset\"}"}"#,
        "\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn explain_frame_takes_the_whole_input_as_one() {
    let two = format!("{HELLO}\n{HELLO}\n");
    let found = rows(&["driver", "explain", "--frame"], two.as_bytes());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["stage"], "line_break");
    let found = rows(&["driver", "explain", "--frame"], format!("{HELLO}\r\n").as_bytes());
    assert_eq!(found[0]["ok"], true);
}

#[test]
fn explain_machine_follows_the_lifecycle() {
    let reset = r#"{"jsonrpc":"2.0","id":1,"method":"driver.reset"}"#;
    let found = rows(&["driver", "explain", "--machine"], format!("{HELLO}\n{reset}\nnot json\n").as_bytes());
    let states: Vec<_> =
        found.iter().map(|row| (row["ok"].clone(), row["stage"].clone(), row["state"].clone())).collect();
    let hello = json!("HELLO");
    let expected = [
        (json!(true), Value::Null, hello.clone()),
        (json!(false), json!("machine"), hello.clone()),
        (json!(false), json!("json:syntax"), hello),
        (Value::Null, Value::Null, Value::Null),
    ];
    assert_eq!(states, expected);
    assert_eq!(found[1]["class"], "invalid_state");
    assert_eq!(found[3], json!({"active": null}));
}

#[test]
fn explain_machine_agrees_with_the_machine_vectors() {
    for vector in driver_vectors("machine").iter().filter(|vector| vector.family != "machine_step") {
        let frames = vector.input.as_array().expect("frames");
        let stream: String = frames.iter().map(|frame| format!("{}\n", frame.as_str().expect("a frame"))).collect();
        let found = rows(&["driver", "explain", "--machine"], stream.as_bytes());
        let (last, found) = found.split_last().expect("a last row");
        let steps = vector.expect["steps"].as_array().expect("steps");
        assert_eq!(found.len(), steps.len(), "{}", vector.id);
        for (row, step) in found.iter().zip(steps) {
            for member in ["ok", "class", "state"] {
                assert_eq!(row[member], step[member], "{}: {member}", vector.id);
            }
        }
        assert_eq!(last["active"], vector.expect["active"], "{}", vector.id);
    }
}

#[test]
fn explain_replaces_a_long_canonical_text_by_length_and_digest() {
    let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{}\"}}", "x".repeat(100_000));
    let found = rows(&["driver", "explain"], frame.as_bytes());
    let canonical = format!("{{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":\"{}\"}}", "x".repeat(100_000));
    assert_eq!(found[0]["canonical"], Value::Null);
    assert_eq!(found[0]["canonical_len"], canonical.len());
    assert_eq!(found[0]["canonical_sha256"], pintle_wire::Digest::of(canonical.as_bytes()).hex());
    // A frame whose canonical form is over the bound is still a good frame.
    let grown = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{}1]}}", "1e20,".repeat(200_000));
    let found = rows(&["driver", "explain"], grown.as_bytes());
    assert_eq!((&found[0]["ok"], &found[0]["canonical_error"]["class"]), (&json!(true), &json!("budget_exceeded")));
}

#[test]
fn explain_shows_rows_while_the_stream_is_open() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(["driver", "explain"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    writeln!(stdin, "{HELLO}").expect("it reads");
    let mut first = [0; 10];
    stdout.read_exact(&mut first).expect("a row comes before the end of input");
    assert_eq!(&first, b"{\"line\":1,");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn canon_prints_the_rfc_8785_form_without_a_newline() {
    let output = pintle(&["json", "canon"], b" {\"b\": [1.0, \"\\u00e9\"], \"a\": 1E2}\n");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"a\":100,\"b\":[1,\"\u{e9}\"]}");
}

#[test]
fn canon_agrees_with_the_vectors() {
    for vector in driver_vectors("canonicalize").iter().filter(|vector| vector.quirk.is_none()).step_by(5) {
        let output = pintle(&["json", "canon"], &vector.bytes());
        assert_eq!(output.status.code(), Some(i32::from(!vector.ok())), "{}", vector.id);
        if vector.ok() {
            vector.assert_canonical(&output.stdout);
        } else {
            assert!(output.stdout.is_empty(), "{}", vector.id);
        }
    }
}

#[test]
fn what_is_not_strict_json_is_exit_1_with_its_place() {
    check_exit(&["json", "canon"], b"{\"a\":1,\n\"a\":2}", 1, "line 2, column 1");
    check_exit(&["json", "canon"], b"", 1, "line 1, column 1");
}

#[test]
fn wrong_usage_is_exit_2_and_1_below_task() {
    check_exit(&[], b"", 2, "Usage");
    check_exit(&["driver"], b"", 2, "Usage");
    check_exit(&["driver", "explain", "--nope"], b"", 2, "--nope");
    check_exit(&["nope"], b"", 2, "nope");
    for command in [&["check"][..], &["prompt", "hi"], &["trace"], &["driver", "check"]] {
        let meant = format!("`--`: pintle {} -- node agent.mjs", command.join(" "));
        check_exit(&[command, &["node", "agent.mjs"]].concat(), b"", 2, &meant);
    }
    check_exit(&["task", "--nope"], b"", 1, "");
    check_exit(&["pointer", "nope", "nope"], b"", 1, "");
    assert_eq!(pintle(&["--version"], b"").status.code(), Some(0));
    assert_eq!(pintle(&["driver", "explain", "--help"], b"").status.code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_is_a_success() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(["driver", "explain"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("piped");
    // More rows than a pipe and the buffers hold.
    for _ in 0..10_000 {
        if writeln!(stdin, "{HELLO}").is_err() {
            break;
        }
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
}

/// Shells and `man` learn the command line from where the help has it.
#[test]
fn completions_and_manual_pages_know_every_command() {
    let text = |args: &[&str]| {
        let output = pintle(args, b"");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let commands =
        ["check", "judge", "prompt", "evidence", "driver", "json", "mock", "trace", "task", "completions", "man"];
    let page = text(&["man"]);
    assert!(page.starts_with(".ie") && page.contains(".TH pintle 1"), "{page}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&["completions", shell]);
        for command in commands {
            assert!(script.contains(command) && page.contains(&format!("pintle\\-{command}(1)")), "{shell}: {command}");
        }
    }
    let page = text(&["man", "task", "install"]);
    assert!(page.contains("pintle\\-task\\-install") && page.contains("dry\\-run"), "{page}");
    check_exit(&["man", "task", "fly"], b"", 2, "find the command `fly` below `pintle task`");
    check_exit(&["man", "judge", "fly"], b"", 2, "it has no commands");
    check_exit(&["completions", "dash"], b"", 2, "dash");
}

/// A script reads the first line; who reports a fault needs the others.
#[test]
fn the_versions_are_told() {
    let text = |args: &[&str]| {
        let output = pintle(args, b"");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let short = concat!("pintle ", env!("CARGO_PKG_VERSION"), "\n");
    for command in [&[][..], &["check"], &["driver", "run"], &["task"], &["task", "install"], &["pointer", "set"]] {
        assert_eq!(text(&[command, &["-V"]].concat()), short, "{command:?}");
        let long = text(&[command, &["--version"]].concat());
        let names: Vec<&str> = long.lines().skip(1).filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(names, ["target", "pack", "ACP", "Driver RPC"], "{command:?}");
        assert!(long.starts_with(short) && long.contains("\npack: acp-v1 "), "{long}");
    }
}

#[test]
fn a_manual_page_has_its_program_and_what_options_take() {
    let output = pintle(&["man", "task", "install"], b"");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    let title = page.lines().find(|line| line.starts_with(".TH")).expect("a title");
    assert!(title.contains(concat!("\"pintle ", env!("CARGO_PKG_VERSION"))), "{title}");
    assert!(page.contains("[\\-\\-agent AGENT].. ") && page.contains("[\\-\\-dry\\-run]"), "{page}");
    let check = String::from_utf8(pintle(&["man", "check"], b"").stdout).expect("UTF-8");
    for word in ["[\\-\\-env NAME[=VALUE]]..", "[\\-\\-isolate\\-agent[=NETWORK]]", "[\\-\\- AGENT].."] {
        assert!(check.contains(word), "{word} is not in:\n{check}");
    }
}

/// What only prints fails when nothing can be written, and does not when nobody reads it.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_told_and_a_closed_reader_is_not() {
    for args in [
        &["help"][..],
        &["check", "--help"],
        &["--version"],
        &["task", "--help"],
        &["task", "-V"],
        &["man"],
        &["completions", "bash"],
        &["check", "--list"],
        &["check", "--list", "--format", "json"],
        &["driver", "check", "--list"],
        &["mock", "agent", "--list-faults"],
    ] {
        let run = |stdout: Stdio| {
            let output =
                Command::new(env!("CARGO_BIN_EXE_pintle")).args(args).stdin(Stdio::null()).stdout(stdout).output();
            let output = output.expect("the binary runs");
            (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
        };
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let (code, told) = run(full.into());
        assert!(code == Some(1) && told.contains("write the output: "), "{args:?}: {code:?} {told}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(run(writer.into()), (Some(0), String::new()), "{args:?}");
    }
}
