//! Every recorded hook input is parsed to the event that it was, and every outcome is one that the recordings of
//! `behaviour-matrix.json` say the host acts on.

#![expect(clippy::disallowed_methods, reason = "the test reads the recordings; the crate does no IO")]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use pintle_pointer::hook::{
    Failure, HookError, HookEvent, HookExit, HookInput, HookOutcome, HookSurroundings, OnError, Policy, render,
    render_error,
};
use pintle_pointer::{Agent, Code, SessionId, Start};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hooks")
}

fn agent_of(recorded: &str) -> Agent {
    match recorded {
        "codex" => Agent::Codex,
        "claude-code" => Agent::Claude,
        "gemini-cli" => Agent::Gemini,
        "qwen-code" => Agent::Qwen,
        "copilot-cli" => Agent::Copilot,
        other => panic!("a recording of an unknown agent: {other}"),
    }
}

fn recordings() -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let mut folders = vec![fixtures()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("list") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(value) = serde_json::from_slice::<Value>(&fs::read(&path).expect("read"))
                && value.get("stdin").is_some()
            {
                found.push((path, value));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The bytes as the host sent them: one line, with or without its LF.
fn bytes_of(recording: &Value) -> Vec<u8> {
    let mut bytes = recording["stdin"].to_string().into_bytes();
    if recording["_meta"]["stdin_ends_with_newline"] == true {
        bytes.push(b'\n');
    }
    bytes
}

fn surroundings(recording: &Value) -> HookSurroundings {
    let names = recording["_meta"]["env_marker_names"].as_array().expect("names");
    let has = |name: &str| names.iter().any(|known| known == name);
    HookSurroundings { claude_code: has("CLAUDECODE"), cursor: has("CURSOR_VERSION"), copilot: has("COPILOT_CLI") }
}

fn expected_event(event: &str, stdin: &Value) -> HookEvent {
    match event.trim_start_matches("camel-") {
        "UserPromptSubmit" | "BeforeAgent" | "userPromptSubmitted" => HookEvent::Prompt,
        "PreCompact" | "PreCompress" => HookEvent::PreCompact,
        "SessionStart" | "sessionStart" => HookEvent::SessionStart(match stdin["source"].as_str() {
            Some("clear") => Start::Clear,
            Some("compact") => Start::Compact,
            Some("startup" | "resume" | "fork" | "new") => Start::Read,
            other => panic!("a source without an expectation: {other:?}"),
        }),
        "Stop" if stdin["hook_event_name"] == "Stop" && stdin.get("stop_reason").is_none() => {
            HookEvent::Stop { already_continued: stdin["stop_hook_active"] == true }
        }
        "Stop" | "AfterAgent" | "agentStop" | "PostCompact" | "SessionEnd" | "sessionEnd" | "userPromptTransformed" => {
            HookEvent::Quiet
        }
        other => panic!("an event without an expectation: {other}"),
    }
}

#[test]
fn every_recording_is_understood() {
    let recordings = recordings();
    assert!(recordings.len() > 100, "the recordings are there: {}", recordings.len());
    for (path, recording) in recordings {
        let stdin = &recording["stdin"];
        let agent = agent_of(recording["_meta"]["agent"].as_str().expect("agent"));
        let input = HookInput::parse(agent, &bytes_of(&recording), None, surroundings(&recording))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let event = recording["_meta"]["event"].as_str().expect("event");
        assert_eq!(input.event, expected_event(event, stdin), "{}", path.display());
        let id = stdin.get("session_id").or(stdin.get("sessionId")).and_then(Value::as_str).expect("id");
        assert_eq!(input.session_id.as_str(), id, "{}", path.display());
        assert_eq!(input.cwd.as_deref(), stdin["cwd"].as_str(), "{}", path.display());

        // A byte order mark, members of the future and other white space change nothing (asks 14, section 4).
        let mut later = stdin.clone();
        later["new_member_of_the_future"] = json!({"x": [1, 2, {"y": null}]});
        let mut bytes = b"\xef\xbb\xbf".to_vec();
        bytes.extend(serde_json::to_vec_pretty(&later).expect("JSON"));
        assert_eq!(HookInput::parse(agent, &bytes, None, surroundings(&recording)), Ok(input.clone()));

        // Inside a subagent the same event is none of ours (item 21).
        later["agent_id"] = json!("sub-1");
        later["agent_type"] = json!("explorer");
        let inside =
            HookInput::parse(agent, later.to_string().as_bytes(), None, surroundings(&recording)).expect("parsed");
        assert_eq!(inside.event, HookEvent::Quiet, "{}", path.display());
    }
}

/// opencode's plugin passes on its hooks and events with opencode's own names.
#[test]
fn opencode_plugin_calls_are_understood() {
    let recorded: Value =
        serde_json::from_slice(&fs::read(fixtures().join("opencode-1.18.33/plugin-calls.json")).expect("read"))
            .expect("JSON");
    let mut events = Vec::new();
    for call in recorded["calls"].as_array().expect("calls") {
        let hook = call["plugin_hook"].as_str().expect("hook");
        let (name, id) = match hook {
            "event" => (&call["input"]["type"], &call["input"]["properties"]["sessionID"]),
            "init" => continue,
            _ => (&call["plugin_hook"], &call["input"]["sessionID"]),
        };
        let stdin = json!({"hook_event_name": name, "sessionID": id, "cwd": "/p"}).to_string();
        let input = HookInput::parse(Agent::Opencode, stdin.as_bytes(), None, HookSurroundings::default()).expect(hook);
        assert!(input.session_id.as_str().starts_with("ses_"));
        events.push(input.event);
    }
    let prompts = events.iter().filter(|event| **event == HookEvent::Prompt).count();
    assert_eq!(prompts, 2);
    assert!(events.contains(&HookEvent::SessionStart(Start::Compact)), "session.compacted");
}

fn parse(agent: Agent, stdin: &Value) -> Result<HookInput, HookError> {
    HookInput::parse(agent, stdin.to_string().as_bytes(), None, HookSurroundings::default())
}

/// Section 7, Cursor [doc]: the id is the conversation's, whatever else is there.
#[test]
fn cursor_payloads() {
    let base = json!({"conversation_id": "c-1", "generation_id": "g", "session_id": "other", "hook_event_name": "beforeSubmitPrompt",
        "cursor_version": "2026.07", "workspace_roots": ["/p", "/q"], "prompt": "x"});
    let input = parse(Agent::Cursor, &base).expect("parsed");
    assert_eq!((input.session_id.as_str(), input.event, input.cwd.as_deref()), ("c-1", HookEvent::Prompt, Some("/p")));
    // The same prompt through Claude Code's registration is not counted again.
    let mut twin = base;
    twin["hook_event_name"] = json!("UserPromptSubmit");
    assert_eq!(parse(Agent::Claude, &twin).expect("parsed").event, HookEvent::Quiet);
    let plain = json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x"}).to_string();
    let check = |surroundings, expected| {
        let input = HookInput::parse(Agent::Claude, plain.as_bytes(), None, surroundings).expect("parsed");
        assert_eq!(input.event, expected, "{surroundings:?}");
    };
    let none = HookSurroundings::default();
    check(HookSurroundings { cursor: true, ..none }, HookEvent::Quiet);
    check(HookSurroundings { copilot: true, ..none }, HookEvent::Quiet);
    check(HookSurroundings { cursor: true, claude_code: true, ..none }, HookEvent::Prompt);
}

/// Item 22: a prompt that no user typed moves nothing; an unknown source counts as the user's.
#[test]
fn machine_made_prompts() {
    let check =
        |agent, stdin: Value, expected| assert_eq!(parse(agent, &stdin).expect("parsed").event, expected, "{stdin}");
    let prompt = |source: &str| json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x", "source": source});
    for source in ["system", "loop_wakeup", "schedule_wakeup", "poll_event"] {
        check(Agent::Claude, prompt(source), HookEvent::MachinePrompt);
    }
    for source in ["user", "sdk", "telepathy"] {
        check(Agent::Claude, prompt(source), HookEvent::Prompt);
    }
    let envelope =
        json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": " <task-notification>\n.."});
    check(Agent::Claude, envelope.clone(), HookEvent::MachinePrompt);
    check(Agent::Codex, envelope, HookEvent::Prompt);
    let empty = json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": ""});
    check(Agent::Qwen, empty.clone(), HookEvent::MachinePrompt);
    check(Agent::Codex, empty, HookEvent::Prompt);
}

/// Ask 51 and section 4: what is unknown is read only or skipped, never an error that a host would act on.
#[test]
fn unknown_things_are_harmless() {
    let start = json!({"session_id": "s", "hook_event_name": "SessionStart", "source": "teleport"});
    assert_eq!(parse(Agent::Codex, &start).expect("parsed").event, HookEvent::SessionStart(Start::Read));
    let odd = json!({"session_id": "s", "hook_event_name": "SessionStart", "source": {"kind": 1}, "cwd": 7, "agent_id": null});
    assert_eq!(parse(Agent::Codex, &odd).expect("parsed").event, HookEvent::SessionStart(Start::Read));
    let event = json!({"session_id": "s", "hook_event_name": "BrandNew\u{1b}[2J"});
    let error = parse(Agent::Codex, &event).expect_err("unknown");
    let output = render_error(&error);
    assert_eq!((output.exit, output.stdout.as_str()), (HookExit::Ok, ""));
    assert!(output.stderr.starts_with("pintle: HOOK_EVENT_UNSUPPORTED: ") && !output.stderr.contains("BrandNew"));
}

/// Ask 14: malformed input is exit 1, one bounded line, nothing of the payload.
#[test]
fn malformed_input_is_one_line() {
    for (bytes, code) in [
        (&b""[..], Code::HookInputJson),
        (b"secret", Code::HookInputJson),
        (b"{\"session_id\":\"secret\",\"session_id\":\"secret\"}", Code::HookInputJson),
        (b"\xff\xfe", Code::HookInputJson),
        (b"[\"secret\"]", Code::HookInputSchema),
        (b"{\"session_id\":\"secret\"}", Code::HookInputSchema),
        (b"{\"hook_event_name\":\"UserPromptSubmit\",\"prompt\":\"secret\"}", Code::HookInputSchema),
        (b"{\"hook_event_name\":\"UserPromptSubmit\",\"session_id\":\"\"}", Code::HookInputSchema),
    ] {
        let error = HookInput::parse(Agent::Claude, bytes, None, HookSurroundings::default()).expect_err("malformed");
        assert_eq!(error.code(), code);
        let output = render_error(&error);
        assert_eq!((output.exit, output.stdout.as_str()), (HookExit::Fault, ""));
        assert!(output.stderr.len() < 200 && !output.stderr.contains(['\n']) && !output.stderr.contains("secret"));
    }
}

/// A JavaScript host may cut a prompt between the halves of a pair; the prompt is still a prompt.
#[test]
fn lone_surrogates_in_prompts_are_tolerated() {
    let bytes = br#"{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"cut \ud83d"}"#;
    let input = HookInput::parse(Agent::Claude, bytes, None, HookSurroundings::default()).expect("parsed");
    assert_eq!(input.event, HookEvent::Prompt);
}

fn input(agent: Agent, event: HookEvent) -> HookInput {
    let name = match (agent, event) {
        (Agent::Gemini, HookEvent::Prompt) => "BeforeAgent",
        (_, HookEvent::Prompt) => "UserPromptSubmit",
        (_, HookEvent::Stop { .. }) => "Stop",
        (_, HookEvent::PreCompact) => "PreCompact",
        _ => "SessionStart",
    };
    HookInput { session_id: common::session(), event, event_name: name, cwd: None, prompt: None }
}

const START: HookEvent = HookEvent::SessionStart(Start::Read);
const COMPACT: HookEvent = HookEvent::SessionStart(Start::Compact);

fn stdout(agent: Agent, event: HookEvent, outcome: &HookOutcome) -> Value {
    let output = render(agent, &input(agent, event), outcome, Policy::default());
    assert_eq!(output.exit, HookExit::Ok);
    assert!(!output.stdout.starts_with('\u{feff}'), "Codex takes a marked object for text");
    assert!(!output.stdout.contains('\n'), "JSON followed by another line fails the hook on Codex");
    serde_json::from_str(&output.stdout).unwrap_or(Value::Null)
}

/// behaviour-matrix: how each host takes a context.
#[test]
fn contexts_by_host() {
    let outcome = HookOutcome::Context { text: "T".into(), warning: None };
    for agent in [Agent::Codex, Agent::Claude, Agent::Gemini, Agent::Qwen, Agent::Generic] {
        let prompt = if agent == Agent::Gemini { "BeforeAgent" } else { "UserPromptSubmit" };
        for (event, name) in [(START, "SessionStart"), (HookEvent::Prompt, prompt)] {
            if !agent.takes_start_context() && event == START {
                continue;
            }
            let expected = json!({"hookSpecificOutput": {"hookEventName": name, "additionalContext": "T"}});
            assert_eq!(stdout(agent, event, &outcome), expected, "{agent}");
        }
    }
    for event in [START, HookEvent::Prompt] {
        let expected = json!({"additionalContext": "T"});
        assert_eq!(stdout(Agent::Copilot, event, &outcome), expected, "Copilot ignores the nested form");
        assert_eq!(stdout(Agent::Opencode, event, &outcome), json!({"context": "T"}));
    }
    assert_eq!(stdout(Agent::Cursor, START, &outcome), json!({"additional_context": "T"}));
    assert_eq!(stdout(Agent::Cursor, HookEvent::Prompt, &outcome), json!({"continue": true}));
}

/// Gemini forgets, on resume, every message that begins with a hook's context, which is where it puts that of a start.
#[test]
fn gemini_starts_bring_warnings_only() {
    let context =
        |warning: Option<&str>| HookOutcome::Context { text: "T".into(), warning: warning.map(str::to_owned) };
    let silent = render(Agent::Gemini, &input(Agent::Gemini, START), &context(None), Policy::default());
    assert_eq!((silent.stdout.as_str(), silent.stderr.as_str()), ("", ""));
    assert_eq!(stdout(Agent::Gemini, START, &context(Some("W"))), json!({"systemMessage": "W"}));
    let stop = HookOutcome::Stop { code: Code::StateJson, text: "T\nU".into() };
    assert_eq!(stdout(Agent::Gemini, COMPACT, &stop), json!({"systemMessage": "T U"}));
}

/// Ask 9: Codex fails a hook that prints a key its event does not have.
#[test]
fn codex_gets_allowed_keys_only() {
    let allowed = |event: HookEvent| match event {
        HookEvent::Prompt => {
            vec![
                "continue",
                "stopReason",
                "suppressOutput",
                "systemMessage",
                "hookSpecificOutput",
                "decision",
                "reason",
            ]
        }
        HookEvent::Stop { .. } => {
            vec!["continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason"]
        }
        _ => vec!["continue", "stopReason", "suppressOutput", "systemMessage", "hookSpecificOutput"],
    };
    let failure = |code| Failure { code, message: "m".into() };
    for event in [START, COMPACT, HookEvent::Prompt, HookEvent::Stop { already_continued: false }] {
        let mut outcomes = vec![
            HookOutcome::Silent,
            HookOutcome::Context { text: "T".into(), warning: Some("W".into()) },
            HookOutcome::Nudge { reason: "R".into() },
        ];
        if event != HookEvent::Prompt {
            outcomes.retain(|outcome| !matches!(outcome, HookOutcome::Nudge { .. }));
        }
        if matches!(event, HookEvent::Stop { .. }) {
            outcomes = vec![HookOutcome::Silent, HookOutcome::Nudge { reason: "R".into() }];
        }
        for on_error in [OnError::Block, OnError::Open] {
            for code in [Code::StateIo, Code::StateJson, Code::LockTimeout] {
                let policy = Policy { on_error, compat_exit2: false };
                outcomes.push(policy.outcome(event, &common::session(), &failure(code), false));
            }
        }
        for outcome in outcomes {
            let value = stdout(Agent::Codex, event, &outcome);
            for key in value.as_object().into_iter().flat_map(|object| object.keys()) {
                assert!(allowed(event).contains(&key.as_str()), "{event:?} {key}");
            }
        }
    }
}

/// behaviour-matrix: what blocks a prompt on each host, in both forms.
#[test]
fn blocks_by_host() {
    let failure = Failure { code: Code::StateIo, message: "write `/d/state.json`: full".into() };
    let block = |agent, compat_exit2| {
        let policy = Policy { on_error: OnError::Block, compat_exit2 };
        let outcome = policy.outcome(HookEvent::Prompt, &common::session(), &failure, false);
        render(agent, &input(agent, HookEvent::Prompt), &outcome, policy)
    };
    for agent in Agent::ALL {
        let output = block(agent, false);
        assert_eq!(output.exit, HookExit::Ok, "{agent}: exit 2 is lost in PowerShell and ignored by Copilot");
        let value: Value = serde_json::from_str(&output.stdout).expect("JSON");
        let reason = "TASK_POINTER_V2:STATE_IO write `/d/state.json`: full";
        match agent {
            Agent::Cursor => assert_eq!(value, json!({"continue": false, "user_message": reason})),
            Agent::Opencode => assert_eq!(value, json!({"block": reason})),
            _ => assert_eq!(value, json!({"decision": "block", "reason": reason}), "{agent}"),
        }
        assert_eq!(output.stderr, "TASK_POINTER_V2:STATE_IO", "Codex takes it for the reason under exit 2");
        let compat = block(agent, true);
        assert_eq!(compat.stdout, output.stdout);
        let expected = if matches!(agent, Agent::Copilot | Agent::Opencode) { HookExit::Ok } else { HookExit::Blocked };
        assert_eq!(compat.exit, expected, "{agent}");
    }
}

/// Asks 45 to 47 and 49: before a compaction nothing is printed and nothing is blocked, whatever happens.
#[test]
fn compaction_is_never_disturbed() {
    let failure = Failure { code: Code::StateIo, message: "m".into() };
    for agent in Agent::ALL {
        for event in [HookEvent::PreCompact, HookEvent::Quiet] {
            for policy in [Policy::default(), Policy { on_error: OnError::Open, compat_exit2: true }] {
                let outcome = policy.outcome(event, &common::session(), &failure, false);
                assert_eq!(outcome, HookOutcome::Silent);
                let loud = HookOutcome::Block { code: Code::StateIo, reason: "x".into() };
                for outcome in [outcome, loud, HookOutcome::Context { text: "x".into(), warning: None }] {
                    let output = render(agent, &input(agent, event), &outcome, policy);
                    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.exit), ("", "", HookExit::Ok));
                }
            }
        }
    }
}

/// Section 7: a session start that cannot recover stops Codex's turn and tells every model.
#[test]
fn failed_starts() {
    let failure = Failure { code: Code::StateJson, message: "m".into() };
    let session: SessionId = common::session();
    let strict = Policy::default();
    let outcome = strict.outcome(COMPACT, &session, &failure, false);
    let value = stdout(Agent::Codex, COMPACT, &outcome);
    assert_eq!(value["continue"], false);
    assert!(value["stopReason"].as_str().expect("reason").starts_with("TASK_POINTER_RECOVERY_REQUIRED"));
    assert!(
        value["hookSpecificOutput"]["additionalContext"]
            .as_str()
            .expect("text")
            .starts_with("TASK_POINTER_RECOVERY_REQUIRED")
    );
    let value = stdout(Agent::Copilot, COMPACT, &outcome);
    assert!(value["additionalContext"].as_str().expect("text").starts_with("TASK_POINTER_RECOVERY_REQUIRED"));
    let open = Policy { on_error: OnError::Open, compat_exit2: false };
    let value = stdout(Agent::Codex, COMPACT, &open.outcome(COMPACT, &session, &failure, false));
    assert_eq!(value.get("continue"), None);
    assert!(value["systemMessage"].is_string());
    let value = stdout(Agent::Codex, START, &strict.outcome(START, &session, &failure, false));
    assert!(
        value["hookSpecificOutput"]["additionalContext"]
            .as_str()
            .expect("text")
            .starts_with("UNKNOWN_RECOVERY:STATE_JSON\n")
    );
}

/// A6: open warns and lets pass; a corrupt state blocks a prompt once, with the command that repairs it.
#[test]
fn open_policy() {
    let open = Policy { on_error: OnError::Open, compat_exit2: false };
    let session = common::session();
    for code in [Code::LockTimeout, Code::StatePermission, Code::StateIo] {
        let failure = Failure { code, message: "m".into() };
        let value =
            stdout(Agent::Claude, HookEvent::Prompt, &open.outcome(HookEvent::Prompt, &session, &failure, false));
        assert!(value["systemMessage"].as_str().expect("warning").contains(code.as_str()));
        let text = value["hookSpecificOutput"]["additionalContext"].as_str().expect("text");
        assert!(text.starts_with(&format!("UNKNOWN_RECOVERY:{code}\n")));
    }
    let failure = Failure { code: Code::StateJson, message: "m".into() };
    let HookOutcome::Block { code, reason } = open.outcome(HookEvent::Prompt, &session, &failure, false) else {
        panic!("the first time it blocks")
    };
    assert_eq!(code, Code::StateCorrupt);
    assert!(reason.contains("pintle task doctor --repair --session session-example"), "{reason}");
    assert!(matches!(open.outcome(HookEvent::Prompt, &session, &failure, true), HookOutcome::Context { .. }));
    let strict = Policy::default();
    assert!(matches!(strict.outcome(HookEvent::Prompt, &session, &failure, true), HookOutcome::Block { .. }));
}

/// A3: the reminder to publish reaches only hosts that go on with it.
#[test]
fn nudges_by_host() {
    let stop = HookEvent::Stop { already_continued: false };
    let outcome = HookOutcome::Nudge { reason: "R".into() };
    for agent in Agent::ALL {
        let value = stdout(agent, stop, &outcome);
        let expected = if matches!(agent, Agent::Codex | Agent::Claude) {
            json!({"decision": "block", "reason": "R"})
        } else {
            Value::Null
        };
        assert_eq!(value, expected, "{agent}");
    }
}
