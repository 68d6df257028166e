//! The built-in scenario driver against agents that misbehave, with real processes: what it reports, and that it ends.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pintle_check::driver::{AgentSpec, Ending, INPUT_SCHEMA, Input, Limits, REPORT_QUEUE, Report, carry_out};
use pintle_check::observation::{
    AcpFrame, AgentDescendants, AgentExit, AgentStart, Direction, ExitPhase, Observation, StartFailureReason,
    StepReport,
};
use pintle_check::pack::Timeouts;
use pintle_sdk::process::Shim;
use pintle_testkit::deaths::Watched;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const AGENT: &str = env!("CARGO_BIN_EXE_fake-agent");

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(60);

fn input(agent: &[&str], steps: Value) -> Input {
    let mut all = vec![json!({"do": "initialize"}), json!({"do": "new_session"})];
    all.extend(steps.as_array().expect("steps are an array").iter().cloned());
    let scenario = json!({
        "schema": "pintle.scenario.v1", "id": "test", "protocol_version": 1,
        "client_capabilities": {"fs": {"readTextFile": true}}, "callbacks": {"permission": "allow_once"}, "steps": all,
    });
    let mut argv = vec![AGENT.to_owned()];
    argv.extend(agent.iter().map(|arg| (*arg).to_owned()));
    Input {
        schema: INPUT_SCHEMA.to_owned(),
        scenario: serde_json::from_value(scenario).expect("the plan fits the model"),
        agent: AgentSpec { argv, cwd: "/".to_owned(), env: BTreeMap::new(), session_cwd: "/".to_owned() },
        limits: Limits::default(),
        timeouts_ms: Timeouts::default(),
    }
}

/// What an invocation reported.
struct Seen {
    ending: Ending,
    reports: Vec<Report>,
}

impl Seen {
    fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.reports.iter().filter_map(|report| match report {
            Report::Observation(observation) => Some(observation),
            Report::Stream { .. } => None,
        })
    }

    fn frames(&self, dir: Direction) -> Vec<&AcpFrame> {
        let frames = self.observations().filter_map(|observation| match observation {
            Observation::Frame(frame) if frame.dir == dir => Some(frame),
            _ => None,
        });
        frames.collect()
    }

    /// Of the plan's steps, without the closing that is reported behind them.
    fn statuses(&self) -> Vec<&'static str> {
        let steps = self.observations().filter_map(|observation| match observation {
            Observation::Step(step) => Some(step),
            _ => None,
        });
        let closing =
            |step: &&StepReport| step.detail.as_deref().is_some_and(|why| why.starts_with("the steps are over"));
        steps.filter(|step| !closing(step)).map(|step| step.status.as_str()).collect()
    }

    fn exit(&self) -> &AgentExit {
        let exit = self.observations().find_map(|observation| match observation {
            Observation::Exit(exit) => Some(exit),
            _ => None,
        });
        exit.expect("the exit is reported")
    }

    fn descendants(&self) -> &AgentDescendants {
        match self.observations().last() {
            Some(Observation::Descendants(descendants)) => descendants,
            other => panic!("the last report is {other:?}"),
        }
    }

    fn stderr(&self) -> String {
        let pieces = self.observations().filter_map(|observation| match observation {
            Observation::Stderr(stderr) => Some(stderr.text.as_str()),
            _ => None,
        });
        pieces.collect()
    }
}

fn run(input: Input) -> Seen {
    run_until(input, |_, _| {})
}

/// Carries out a scenario; `watch` sees each report as it comes and may cancel.
fn run_until(input: Input, mut watch: impl FnMut(&Report, &CancellationToken)) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let work = async {
        let (sender, mut receiver) = mpsc::channel(REPORT_QUEUE);
        let cancel = CancellationToken::new();
        let driving = carry_out(input, Shim::Path(KEEPER.into()), true, &cancel, sender);
        let collecting = async {
            let mut reports = Vec::new();
            while let Some(report) = receiver.recv().await {
                watch(&report, &cancel);
                reports.push(report);
            }
            reports
        };
        let (ending, reports) = tokio::join!(driving, collecting);
        Seen { ending: ending.expect("no fault of ours"), reports }
    };
    runtime.block_on(async { tokio::time::timeout(LIMIT, work).await.expect("in time") })
}

#[test]
fn a_correct_agent_leaves_a_whole_record() {
    let seen = run(input(&[], json!([{"do": "prompt", "text": "hi"}])));
    assert_eq!(seen.ending, Ending::Completed);
    assert_eq!(seen.statuses(), ["ok"; 3]);
    assert!(matches!(seen.observations().next(), Some(Observation::Start(AgentStart { failure: None, .. }))));
    assert_eq!(seen.frames(Direction::Out).iter().map(|frame| frame.line).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(seen.frames(Direction::In).iter().map(|frame| frame.step).collect::<Vec<_>>(), [0, 1, 2, 2].map(Some));
    assert_eq!((seen.exit().code, seen.exit().phase), (Some(0), ExitPhase::Closed));
    assert!(seen.exit().stdin_closed_t_ns.is_some());
    assert_eq!((seen.descendants().known, seen.descendants().count), (true, 0));
}

#[test]
fn an_agent_that_dies_inside_a_frame_leaves_its_bytes() {
    let seen = run(input(&["session/prompt=half"], json!([{"do": "prompt", "text": "hi"}])));
    assert_eq!(seen.statuses(), ["ok", "ok", "failed"]);
    let last = seen.frames(Direction::In).pop().cloned().expect("a frame");
    assert!(last.unterminated && last.text.as_deref().is_some_and(|text| text.starts_with('{')), "{last:?}");
    assert_eq!((seen.exit().code, seen.exit().phase), (Some(3), ExitPhase::Running));
}

#[test]
fn garbage_is_recorded_as_it_came() {
    let agent = ["session/prompt=print:hello world,raw:ff0a0a,reply"];
    let seen = run(input(&agent, json!([{"do": "prompt", "text": "hi"}])));
    assert_eq!(seen.statuses(), ["ok"; 3]);
    let frames = seen.frames(Direction::In);
    assert_eq!(frames[2].text.as_deref(), Some("hello world"));
    assert_eq!(frames[3].base64.as_deref(), Some("/w=="));
    assert_eq!(frames[4].text.as_deref(), Some(""));
}

#[test]
fn a_flood_is_summed_up_and_its_reply_is_found() {
    let seen = run(input(&["session/prompt=flood:50000,reply"], json!([{"do": "prompt", "text": "hi"}])));
    assert_eq!(seen.statuses(), ["ok"; 3]);
    let omitted: u64 = seen
        .observations()
        .filter_map(|observation| match observation {
            Observation::Omitted(omitted) => Some(omitted.count),
            _ => None,
        })
        .sum();
    let frames = seen.frames(Direction::In);
    assert_eq!(frames.len() as u64 + omitted, 50_004);
    assert!(seen.reports.len() < 10_000, "{} reports", seen.reports.len());
    assert!(frames.last().and_then(|frame| frame.text.as_deref()).is_some_and(|text| text.contains("end_turn")));
}

#[test]
fn a_long_line_travels_by_stream() {
    let seen = run(input(&["session/prompt=big:200000,reply"], json!([{"do": "prompt", "text": "hi"}])));
    let streams: Vec<_> = seen
        .reports
        .iter()
        .filter_map(|report| match report {
            Report::Stream { id, bytes } => Some((id.as_str(), bytes.len() > 200_000)),
            Report::Observation(_) => None,
        })
        .collect();
    assert_eq!(streams, [("frame-1", true)]);
    let named = seen.frames(Direction::In).iter().filter(|frame| frame.stream_id.as_deref() == Some("frame-1")).count();
    assert_eq!(named, 1);
}

#[test]
fn an_agent_that_ignores_everything_is_killed() {
    let mut input = input(&["term=ignore", "eof=stderr:still here,hang"], json!([]));
    input.timeouts_ms.close_grace = 200;
    input.timeouts_ms.term_grace = 200;
    let seen = run(input);
    assert_eq!((seen.exit().signal, seen.exit().phase), (Some(9), ExitPhase::Killed));
    assert!(seen.stderr().contains("still here"));
}

#[test]
fn a_descendant_that_stays_is_named_and_killed() {
    let mut pid = None;
    let input = input(&["start=grandchild"], json!([]));
    let seen = run_until(input, |report, _| {
        // The record is complete before the descendant could be looked for: watch it by what the agent said.
        if let Report::Observation(Observation::Descendants(descendants)) = report {
            pid = descendants.processes.first().map(|process| process.pid);
        }
    });
    let descendants = seen.descendants();
    assert_eq!((descendants.known, descendants.count), (true, 1));
    assert_eq!(descendants.processes[0].name, "fake-agent");
    let pid = pid.expect("it is named");
    assert_eq!(seen.stderr().trim(), format!("grandchild {pid}"));
    assert!(Watched::new(pid).ends_within(LIMIT));
}

#[test]
fn an_agent_that_never_answers_costs_its_timeout() {
    let mut input = input(&["session/new=none"], json!([{"do": "prompt", "text": "hi"}]));
    input.timeouts_ms.request = 100;
    let seen = run(input);
    assert_eq!(seen.statuses(), ["ok", "timeout", "skipped"]);
    assert_eq!(seen.exit().code, Some(0));
}

#[test]
fn a_program_that_is_not_there_is_the_agents_own_failure() {
    for (program, reason) in [
        ("/nowhere/agent", StartFailureReason::NotFound),
        ("no-such-agent", StartFailureReason::NotFound),
        (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), StartFailureReason::PermissionDenied),
    ] {
        let mut input = input(&[], json!([]));
        input.agent.argv = vec![program.to_owned()];
        let seen = run(input);
        let Some(Observation::Start(AgentStart { failure: Some(failure), .. })) = seen.observations().next() else {
            panic!("no failure for {program}");
        };
        assert_eq!(failure.reason, reason, "{program}");
        assert!(failure.message.contains(program), "{}", failure.message);
        assert_eq!(seen.statuses(), ["skipped", "skipped"]);
    }
}

#[test]
fn a_flood_on_standard_error_is_bounded_and_blocks_nobody() {
    let agent = ["session/prompt=flood-stderr:10000000,reply"];
    let seen = run(input(&agent, json!([{"do": "prompt", "text": "hi"}])));
    assert_eq!(seen.statuses(), ["ok"; 3]);
    let dropped: u64 = seen
        .observations()
        .filter_map(|observation| match observation {
            Observation::Stderr(stderr) => Some(stderr.dropped_bytes),
            _ => None,
        })
        .sum();
    assert_eq!(dropped + seen.stderr().len() as u64, 10_000_384);
    assert_eq!(seen.stderr().len(), 128 * 1024);
}

#[test]
fn callbacks_are_answered_by_policy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("note"), "a\nb\n").expect("a file");
    let check = |call: String, expected: &str| {
        let mut input = input(&[&format!("session/prompt=call:{call},reply")], json!([{"do": "prompt", "text": "hi"}]));
        input.agent.session_cwd = Path::to_str(dir.path()).expect("a UTF-8 path").to_owned();
        let seen = run(input);
        assert!(seen.stderr().contains(expected), "{call}: {}", seen.stderr());
    };
    check("session/request_permission".into(), r#""optionId":"yes""#);
    check("fs/read_text_file".into(), "-32602");
    check("terminal/create".into(), "-32601");
    check("_vendor/x".into(), "-32601");
    check(format!("fs/read_text_file:{}", dir.path().join("note").display()), r#""content":"a\nb\n""#);
}

#[test]
fn a_cancel_ends_the_scenario_and_the_agent() {
    let mut cancelled = false;
    let seen = run_until(input(&[], json!([{"do": "prompt", "text": "wait"}])), |report, cancel| {
        let is_update = matches!(report, Report::Observation(Observation::Frame(frame))
            if frame.dir == Direction::In && frame.text.as_deref().is_some_and(|text| text.contains("session/update")));
        if is_update {
            cancel.cancel();
            cancelled = true;
        }
    });
    assert!(cancelled);
    assert_eq!(seen.ending, Ending::Cancelled);
    assert_eq!(seen.statuses(), ["ok", "ok", "skipped"]);
    assert_eq!(seen.exit().phase, ExitPhase::Closed);
}

/// The pipe holds 64 KiB; the rest of the line waits in the driver while the clock runs.
#[test]
fn an_agent_that_does_not_read_holds_nobody_up() {
    let steps = json!([
        {"do": "prompt", "text": "hi", "wait": false},
        {"do": "raw", "repeat": {"unit": "x", "count": 4_000_000}},
        {"do": "request", "as": "r", "method": "_x", "timeout_ms": 100},
    ]);
    let mut input = input(&["session/prompt=hang"], steps);
    input.timeouts_ms.close_grace = 100;
    let seen = run(input);
    assert_eq!(seen.statuses(), ["ok", "ok", "ok", "ok", "timeout"]);
    assert_eq!((seen.exit().signal, seen.exit().phase), (Some(15), ExitPhase::Terminated));
}

#[test]
fn a_paused_reader_sees_everything_later() {
    let steps = json!([
        {"do": "pause_reading"},
        {"do": "prompt", "as": "turn", "text": "hi", "wait": false},
        {"do": "wait", "for": "quiet", "quiet_ms": 50},
        {"do": "resume_reading"},
        {"do": "wait", "for": "reply", "of": "turn"},
    ]);
    let seen = run(input(&["session/prompt=flood:3000,reply"], steps));
    assert_eq!(seen.statuses(), ["ok"; 7]);
    assert_eq!(seen.frames(Direction::In).len(), 3004);
}
