//! What counts as an answer: the order of the observations decides, not their times.

use pintle_check::observation::{AcpFrame, Direction, Observation, StepReport, StepStatus};
use pintle_check::pack::{Plan, Timeouts};
use pintle_check::trace::{Trace, TraceBuilder};
use serde_json::{Value, json};

/// What the driver reports, in order. Every time is the same, so that none can decide anything.
enum Seen {
    /// The request of a step was written.
    Asked(u32),
    /// It was answered.
    Answered(u32),
    /// A step is over.
    Over(u32, StepStatus),
}
use Seen::{Answered, Asked, Over};
use StepStatus::{Failed, Ok as Done, Skipped, Timeout};

fn request() -> Value {
    json!({"do": "request", "as": "asked", "method": "_x", "id": "7"})
}

fn unawaited() -> Value {
    json!({"do": "request", "as": "asked", "method": "_x", "id": "7", "wait": false})
}

fn reply() -> Value {
    json!({"do": "wait", "for": "reply", "of": "asked", "optional": true})
}

fn plan(steps: Value) -> Plan {
    let plan = json!({"schema": "pintle.scenario.v1", "id": "late", "protocol_version": 1, "client_capabilities": {}, "callbacks": {}, "steps": steps});
    serde_json::from_value(plan).expect("a plan")
}

fn frame(dir: Direction, line: u64, step: Option<u32>, text: &str) -> Observation {
    Observation::Frame(AcpFrame {
        dir,
        line,
        t_ns: 1,
        text: Some(text.to_owned()),
        base64: None,
        stream_id: None,
        over_long_bytes: None,
        unterminated: false,
        step,
        name: step.map(|_| "asked".to_owned()),
    })
}

fn trace(steps: &Value, seen: &[Seen]) -> Trace {
    let plan = plan(steps.clone());
    let mut builder = TraceBuilder::new(&plan, Timeouts::default());
    let mut line = 0;
    for seen in seen {
        line += 1;
        let observation = match seen {
            Asked(step) => frame(Direction::Out, line, Some(*step), r#"{"jsonrpc":"2.0","id":7,"method":"_x"}"#),
            Answered(id) => {
                let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":1}}}}"#);
                frame(Direction::In, line, None, &text)
            }
            Over(index, status) => Observation::Step(StepReport {
                index: *index,
                status: *status,
                name: plan.steps.get(*index as usize).and_then(|step| step.name()).map(str::to_owned),
                t_ns: 1,
                start_t_ns: (*status != Skipped).then_some(1),
                frame_line: None,
                detail: None,
            }),
        };
        builder.push(&observation, &mut |_| None);
    }
    builder.finish()
}

/// `expected`: the answer to the step `asked` counts. It is matched and counted in any case.
fn check(what: &str, steps: Value, seen: &[Seen], expected: bool) {
    let trace = trace(&steps, seen);
    let asked = &trace.steps["asked"];
    assert_eq!(asked.reply.is_some(), expected, "{what}");
    assert_eq!(asked.replies, 1, "{what}");
}

#[test]
fn an_answer_that_only_the_closing_brings_is_none() {
    check("its own wait", json!([request()]), &[Asked(0), Over(0, Timeout), Over(1, Done), Answered(7)], false);
    check(
        "a wait of its own step",
        json!([unawaited(), reply()]),
        &[Asked(0), Over(0, Done), Over(1, Timeout), Over(2, Done), Answered(7)],
        false,
    );
    check(
        "a raw line",
        json!([{"do": "raw", "as": "asked", "text": "x", "id": "7"}, reply()]),
        &[Asked(0), Over(0, Done), Over(1, Timeout), Over(2, Done), Answered(7)],
        false,
    );
    check(
        "closed by a step",
        json!([request(), {"do": "close_stdin"}, {"do": "wait", "for": "exit"}]),
        &[Asked(0), Over(0, Timeout), Over(1, Done), Answered(7), Over(2, Done), Over(3, Done)],
        false,
    );
}

#[test]
fn an_answer_counts_however_late_it_is_while_the_input_is_open() {
    check("in time", json!([request()]), &[Asked(0), Answered(7), Over(0, Done), Over(1, Done)], true);
    check(
        "after its wait",
        json!([request(), {"do": "wait", "for": "quiet"}]),
        &[Asked(0), Over(0, Timeout), Answered(7), Over(1, Done), Over(2, Done)],
        true,
    );
}

#[test]
fn an_answer_that_nobody_waited_for_counts_behind_the_closing() {
    check("no wait", json!([unawaited()]), &[Asked(0), Over(0, Done), Over(1, Done), Answered(7)], true);
    check(
        "a wait that an earlier step took away",
        json!([unawaited(), {"do": "wait", "for": "frame"}, reply()]),
        &[Asked(0), Over(0, Done), Over(1, Timeout), Over(2, Skipped), Over(3, Done), Answered(7)],
        true,
    );
    check(
        "a wait for something else",
        json!([unawaited(), {"do": "wait", "for": "update", "of": "asked", "optional": true}]),
        &[Asked(0), Over(0, Done), Over(1, Timeout), Over(2, Done), Answered(7)],
        true,
    );
}

#[test]
fn a_scenario_may_want_the_answer_behind_its_own_closing() {
    let steps = json!([request(), {"do": "close_stdin"}, reply()]);
    let seen = [Asked(0), Over(0, Timeout), Over(1, Done), Answered(7), Over(2, Done), Over(3, Done)];
    check("the last wait counts", steps.clone(), &seen, true);
    let seen = [Asked(0), Over(0, Timeout), Over(1, Done), Over(2, Timeout), Over(3, Done), Answered(7)];
    check("unless it was in vain", steps.clone(), &seen, false);
    let seen = [Asked(0), Over(0, Timeout), Over(1, Failed), Answered(7), Over(2, Done), Over(3, Done)];
    check("a closing that could not be done is none", steps, &seen, true);
}

/// Runs of drivers that do not report the closing, and those of earlier versions, are judged as they were.
#[test]
fn evidence_without_the_closing_takes_every_answer() {
    check("no mark", json!([request()]), &[Asked(0), Over(0, Timeout), Answered(7)], true);
}

#[test]
fn a_late_initialize_advertises_nothing() {
    let steps = json!([{"do": "initialize", "as": "asked"}]);
    let ask = |trace: &mut TraceBuilder<'_>| {
        let text = r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#;
        trace.push(&frame(Direction::Out, 1, Some(0), text), &mut |_| None);
    };
    let over = |index, status| {
        let (name, frame_line, detail) = (None, None, None);
        Observation::Step(StepReport { index, status, name, t_ns: 1, start_t_ns: Some(1), frame_line, detail })
    };
    let answer = frame(Direction::In, 1, None, r#"{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":1}}"#);
    for (late, expected) in [(true, Value::Null), (false, json!({"protocolVersion": 1}))] {
        let plan = plan(steps.clone());
        let mut builder = TraceBuilder::new(&plan, Timeouts::default());
        ask(&mut builder);
        let rest = if late {
            [over(0, Timeout), over(1, Done), answer.clone()]
        } else {
            [answer.clone(), over(0, Done), over(1, Done)]
        };
        for observation in &rest {
            builder.push(observation, &mut |_| None);
        }
        assert_eq!(builder.finish().init, expected);
    }
}
