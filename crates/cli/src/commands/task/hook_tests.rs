//! The hook's work on a faulty disk: what it costs, what it tells the host, what it leaves.

use std::io;
use std::time::Duration;

use pintle_pointer::Code;
use pintle_store::Fs;
use pintle_testkit::faulty::{FaultyFs, Loss};

use super::*;

const ROOT: &str = "/home/tasks";

fn parsed(agent: Agent, event: &str, more: &str) -> HookInput {
    let stdin = format!(r#"{{"session_id":"s-1","cwd":"/p","hook_event_name":"{event}"{more}}}"#);
    HookInput::parse(agent, stdin.as_bytes(), None, HookSurroundings::default()).expect("valid input")
}

fn call(fs: &FaultyFs, agent: Agent, input: &HookInput, policy: Policy) -> HookOutcome {
    let store = PointerStore::new(fs, ROOT);
    Call { agent, input, policy, store: &store, mcp: true, program: OsStr::new("/bin/pintle") }.outcome()
}

fn prompt(fs: &FaultyFs, text: &str, policy: Policy) -> HookOutcome {
    let input = parsed(Agent::Claude, "UserPromptSubmit", &format!(r#","prompt":"{text}""#));
    call(fs, Agent::Claude, &input, policy)
}

fn start(fs: &FaultyFs, source: &str) -> HookOutcome {
    let input = parsed(Agent::Claude, "SessionStart", &format!(r#","source":"{source}""#));
    call(fs, Agent::Claude, &input, Policy::default())
}

fn set(fs: &FaultyFs, text: &str) {
    let store = PointerStore::new(fs, ROOT);
    let session: SessionId = "s-1".parse().expect("legal id");
    let mut locked = store.lock(&session, Duration::ZERO).expect("lock");
    let task = pintle_pointer::Task {
        id: pintle_pointer::TaskId::from_random([1; 16]),
        text: pintle_pointer::PointerText::publish(text).expect("legal"),
    };
    let expected = locked.observed().expectation().expect("readable");
    let target = pintle_pointer::Pointer::Clean(task);
    let request = pintle_pointer::PublishRequest { session_id: session, expected, target };
    locked.apply(Event::Publish(&request), fresh().expect("random")).expect("published");
}

fn text(outcome: &HookOutcome) -> &str {
    match outcome {
        HookOutcome::Context { text, .. } => text,
        other => panic!("a context: {other:?}"),
    }
}

fn open() -> Policy {
    Policy { on_error: OnError::Open, compat_exit2: false }
}

/// Part 9: an ordinary prompt does these file operations and no other.
#[test]
fn a_prompt_costs_these_operations() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    prompt(&fs, "b", Policy::default());
    let before = fs.trace().len();
    prompt(&fs, "c", Policy::default());
    let trace = fs.trace();
    let names: Vec<&str> = trace[before..].iter().map(|op| op.name).collect();
    let lock = ["open", "lock"];
    let read = ["open", "read", "read"];
    let write = ["create", "write", "sync", "open", "read", "read", "rename", "sync_dir"];
    let sidecar = ["open", "read", "read", "create", "write", "rename"];
    assert_eq!(names, [&lock[..], &read, &write, &sidecar].concat());
}

/// Asks 39 and 49: before a compaction no file is touched, not even looked at.
#[test]
fn a_compaction_costs_nothing() {
    let fs = FaultyFs::new();
    for _ in 0..4 {
        let outcome = call(&fs, Agent::Claude, &parsed(Agent::Claude, "PreCompact", ""), Policy::default());
        assert_eq!(outcome, HookOutcome::Silent);
    }
    assert_eq!(fs.ops(), 0);
}

/// Item 24: a session start creates nothing.
#[test]
fn a_session_start_creates_nothing() {
    let fs = FaultyFs::new();
    for source in ["startup", "resume", "fork", "new", "compact", "whatever"] {
        assert!(text(&start(&fs, source)).starts_with("TASK_POINTER_V2_BOOTSTRAP\nstatus: ABSENT\n"));
    }
    assert!(fs.read_dir(Path::new("/")).expect("list").is_empty());
}

/// Ask 1, 4: after a compaction, with no prompt in between, the exact text comes back, in full, at the stored revision.
#[test]
fn a_compaction_brings_the_text_back() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    set(&fs, "Goal: x\nNext: y");
    let outcome = start(&fs, "compact");
    let block = text(&outcome);
    assert!(block.contains("\nrevision: 2\n") && block.contains("\n| Goal: x\n| Next: y\n"), "{block}");
    assert!(block.contains("\nrecovery: CONTINUE\n"));
}

/// Ask 2: after a prompt the newest message outranks the pointer. A4: the second time the block is short.
#[test]
fn prompts_mark_dirty_and_get_short() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    set(&fs, "Goal: x");
    let first = prompt(&fs, "b", Policy::default());
    assert!(text(&first).contains("\nrecovery: MERGE_FIRST\n") && text(&first).contains("| Goal: x"), "{first:?}");
    let second = prompt(&fs, "c", Policy::default());
    assert!(
        text(&second).contains("\nrevision: 4\n") && text(&second).contains("\ntext: unchanged since revision 3\n")
    );
    assert!(text(&second).len() <= context::SHORT_MAX_BYTES);
}

/// A4, part 8: what 40 prompts cost, in bytes of context.
#[test]
fn forty_prompts_are_cheap() {
    let check = |agent: Agent, event: &str, most: usize| {
        let fs = FaultyFs::new();
        let input = parsed(agent, event, r#","prompt":"x""#);
        call(&fs, agent, &input, Policy::default());
        set(&fs, &"a line of forty characters or thereabout\n".repeat(190));
        let cost: usize = (0..40).map(|_| text(&call(&fs, agent, &input, Policy::default())).len()).sum();
        assert!(cost < most, "{agent}: {cost}");
    };
    check(Agent::Codex, "UserPromptSubmit", 60_000);
    check(Agent::Gemini, "BeforeAgent", 160_000);
}

/// Asks 29, 30: another session in the same directory knows nothing of it.
#[test]
fn sessions_do_not_see_each_other() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    set(&fs, "secret");
    let stdin = r#"{"session_id":"s-2","cwd":"/p","hook_event_name":"UserPromptSubmit","prompt":"x"}"#;
    let input = HookInput::parse(Agent::Claude, stdin.as_bytes(), None, HookSurroundings::default()).expect("valid");
    let outcome = call(&fs, Agent::Claude, &input, Policy::default());
    assert!(text(&outcome).starts_with("TASK_POINTER_V2_BOOTSTRAP\n") && !text(&outcome).contains("secret"));
}

/// Items 21 and 22: neither a subagent nor a machine moves the revision.
#[test]
fn only_the_user_moves_the_revision() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    set(&fs, "Goal");
    let revision = || {
        let store = PointerStore::new(&fs, ROOT);
        store.observe(&"s-1".parse().expect("id")).expect("readable").expectation().expect("readable").revision
    };
    let machine = parsed(Agent::Claude, "UserPromptSubmit", r#","prompt":"x","source":"loop_wakeup""#);
    assert!(text(&call(&fs, Agent::Claude, &machine, Policy::default())).starts_with("TASK_POINTER_V2\n"));
    let subagent = parsed(Agent::Claude, "UserPromptSubmit", r#","prompt":"x","agent_id":"a1""#);
    assert_eq!(call(&fs, Agent::Claude, &subagent, Policy::default()), HookOutcome::Silent);
    assert_eq!(revision(), 2);
}

/// Section 7 and A6: every failure of the disk during a prompt blocks by default and warns under the open policy; never
/// does it pass in silence.
#[test]
fn disk_failures_block_or_warn() {
    let healthy = || {
        let fs = FaultyFs::new();
        prompt(&fs, "a", Policy::default());
        set(&fs, "Goal");
        fs.reboot(Loss::Nothing)
    };
    let whole = healthy();
    prompt(&whole, "b", Policy::default());
    let (mut blocked, mut warned) = (0, 0);
    for count in 1..=whole.ops() {
        for policy in [Policy::default(), open()] {
            let fs = healthy();
            fs.fail_at(count, io::ErrorKind::StorageFull);
            match prompt(&fs, "b", policy) {
                HookOutcome::Block { code, reason } => {
                    assert_eq!(policy.on_error, OnError::Block);
                    assert!(code == Code::StateIo && reason.starts_with("TASK_POINTER_V2:STATE_IO "), "{reason}");
                    blocked += 1;
                }
                HookOutcome::Context { text, warning } if text.starts_with("UNKNOWN_RECOVERY:STATE_IO\n") => {
                    assert!(policy.on_error == OnError::Open && warning.is_some());
                    warned += 1;
                }
                // The sidecar's failures cost nothing.
                other => assert!(text_is_block(&other), "fault {count}: {other:?}"),
            }
        }
    }
    assert!(blocked >= 10 && blocked == warned, "{blocked} {warned}");
}

fn text_is_block(outcome: &HookOutcome) -> bool {
    matches!(outcome, HookOutcome::Context { text, .. } if text.starts_with("TASK_POINTER_V2\n"))
}

fn corrupt() -> FaultyFs {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    fs.corrupt(Path::new("/home/tasks/s-1/state.json"), 0);
    fs
}

/// A6: under the open policy a corrupt state blocks each prompt text once; by default it blocks until it is repaired.
#[test]
fn corrupt_states_block_once_per_prompt() {
    let is_block = |outcome: &HookOutcome| matches!(outcome, HookOutcome::Block { code: Code::StateCorrupt, .. });
    let fs = corrupt();
    assert!(is_block(&prompt(&fs, "b", open())));
    let HookOutcome::Context { text, warning } = prompt(&fs, "b", open()) else { panic!("the repeated prompt passes") };
    assert!(text.starts_with("UNKNOWN_RECOVERY:STATE_") && warning.is_some());
    assert!(is_block(&prompt(&fs, "another", open())));
    for _ in 0..2 {
        assert!(is_block(&prompt(&fs, "c", Policy::default())));
    }
    let HookOutcome::Context { text, .. } = start(&fs, "startup") else { panic!("a start goes on") };
    assert!(text.starts_with("UNKNOWN_RECOVERY:STATE_"));
    assert!(matches!(start(&fs, "compact"), HookOutcome::Stop { .. }));
    // The user asked to forget: that repairs, and the next prompt passes.
    assert!(matches!(start(&fs, "clear"), HookOutcome::Context { .. }));
    assert!(matches!(prompt(&fs, "d", Policy::default()), HookOutcome::Context { .. }));
}

/// Where the block cannot be remembered it is not made twice: the prompt passes.
#[test]
fn a_block_that_cannot_be_remembered_is_not_made() {
    let fs = corrupt();
    fs.set_capacity_bytes(0);
    assert!(matches!(prompt(&fs, "b", open()), HookOutcome::Context { .. }));
}

/// A3: one reminder per session, only after some prompts, never where something was published or a hook went on before.
#[test]
fn one_nudge_per_session() {
    let fs = FaultyFs::new();
    let stop = |active: bool| parsed(Agent::Claude, "Stop", &format!(r#","stop_hook_active":{active}"#));
    let nudge = |fs: &FaultyFs, active| call(fs, Agent::Claude, &stop(active), Policy::default());
    assert_eq!(nudge(&fs, false), HookOutcome::Silent, "nothing is stored");
    for text in ["a", "b"] {
        prompt(&fs, text, Policy::default());
        assert_eq!(nudge(&fs, false), HookOutcome::Silent, "too early");
    }
    prompt(&fs, "c", Policy::default());
    assert_eq!(nudge(&fs, true), HookOutcome::Silent, "a hook has made the turn go on already");
    let HookOutcome::Nudge { reason } = nudge(&fs, false) else { panic!("a reminder") };
    assert!(reason.contains("\nrevision: 3\n"), "{reason}");
    assert_eq!(nudge(&fs, false), HookOutcome::Silent, "once");
}

/// Item 16: a lock that is held for the whole wait is a lock time-out, and a start does not wait for it at all.
#[test]
fn held_locks() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    let store = PointerStore::new(&fs, ROOT);
    let _held = store.lock(&"s-1".parse().expect("id"), Duration::ZERO).expect("lock");
    assert!(text(&start(&fs, "resume")).starts_with("TASK_POINTER_V2_BOOTSTRAP\nstatus: CLEARED\n"));
}

/// Item 17: where the file system has no locks, the user is told, once per session.
#[test]
fn a_file_system_without_locks_is_told_once() {
    let fs = FaultyFs::new();
    prompt(&fs, "a", Policy::default());
    let told = ["b", "c", "d"].map(|text| {
        // A prompt opens the lock file first, then locks it.
        fs.fail_at(fs.ops() + 2, io::ErrorKind::Unsupported);
        match prompt(&fs, text, open()) {
            HookOutcome::Context { warning, .. } => warning.is_some_and(|warning| warning.contains("has no locks")),
            other => panic!("a context: {other:?}"),
        }
    });
    assert_eq!(told, [true, false, false]);
}

/// Gemini puts a start's context in front of the user's words and then forgets both on resume: it gets none there, and
/// the prompt brings it in full.
#[test]
fn gemini_gets_its_context_with_the_prompt_only() {
    let fs = FaultyFs::new();
    let start = |source: &str| {
        call(&fs, Agent::Gemini, &parsed(Agent::Gemini, "SessionStart", &format!(r#","source":"{source}""#)), open())
    };
    let prompt = || call(&fs, Agent::Gemini, &parsed(Agent::Gemini, "BeforeAgent", r#","prompt":"x""#), open());
    assert_eq!(start("startup"), HookOutcome::Silent);
    prompt();
    set(&fs, &format!("Goal: {}", "x".repeat(2000)));
    for source in ["startup", "resume", "whatever"] {
        assert_eq!(start(source), HookOutcome::Silent);
    }
    assert!(text(&prompt()).contains("\npointer:\n| Goal: x"), "what no start delivered, the prompt does");
    let before = PointerStore::new(&fs, ROOT).observe(&"s-1".parse().expect("id")).expect("readable");
    assert_eq!(start("clear"), HookOutcome::Silent);
    let after = PointerStore::new(&fs, ROOT).observe(&"s-1".parse().expect("id")).expect("readable");
    assert_ne!(before.expectation().expect("pair").generation, after.expectation().expect("pair").generation);
    assert!(after.task().is_none());
}
