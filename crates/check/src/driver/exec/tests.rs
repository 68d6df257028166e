//! The machine in virtual time. What a check may conclude rests on these sequences.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A machine with everything it has done so far.
struct Rig {
    exec: Executor,
    now: Duration,
    frames: Vec<Frame>,
    steps: Vec<StepReport>,
    /// Frames and steps that were reported before the closing at the end, once there was one.
    closed_behind: Option<(usize, usize)>,
    other: Vec<String>,
    finished: bool,
}

impl Rig {
    fn new(callbacks: Value, steps: Value) -> Self {
        let plan = serde_json::from_value(json!({
            "schema": "pintle.scenario.v1", "id": "test", "protocol_version": 1,
            "client_capabilities": {"fs": {"readTextFile": true}},
            "callbacks": callbacks, "steps": steps,
        }))
        .expect("the plan fits the model");
        let settings =
            Settings { session_cwd: "/w".to_owned(), timeouts: Timeouts::default(), max_line_bytes: 1 << 20 };
        let mut rig = Self {
            exec: Executor::new(plan, settings),
            now: Duration::ZERO,
            frames: Vec::new(),
            steps: Vec::new(),
            closed_behind: None,
            other: Vec::new(),
            finished: false,
        };
        rig.exec.start(rig.now);
        rig.drain();
        rig
    }

    fn drain(&mut self) {
        while let Some(action) = self.exec.poll_action() {
            assert!(!self.finished, "{action:?} after the end");
            match action {
                Action::Frame(frame) => self.frames.push(frame),
                Action::Step(step) if step.index as usize == self.exec.plan.steps.len() => {
                    assert_eq!((self.closed_behind, step.status), (None, StepStatus::Ok));
                    self.closed_behind = Some((self.frames.len(), self.steps.len()));
                }
                Action::Step(step) => self.steps.push(step),
                Action::Finish => self.finished = true,
                Action::Write(_) => {}
                other => self.other.push(format!("{other:?}")),
            }
        }
    }

    fn agent(&mut self, line: &str) -> &mut Self {
        self.exec.line(self.now, Content::Whole(Bytes::copy_from_slice(line.as_bytes())), false);
        self.drain();
        self
    }

    fn result(&mut self, id: u32, result: Value) -> &mut Self {
        self.agent(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
    }

    /// Jumps to the next deadline.
    fn timeout(&mut self) -> &mut Self {
        self.now = self.exec.poll_timeout().expect("a deadline is set");
        self.exec.handle_timeout(self.now);
        self.drain();
        self
    }

    fn exit(&mut self) -> &mut Self {
        self.exec.exited(self.now);
        self.exec.stdout_ended(self.now);
        self.drain();
        self
    }

    fn started(callbacks: Value, steps: Value) -> Self {
        let mut all = vec![json!({"do": "initialize"}), json!({"do": "new_session"})];
        all.extend(steps.as_array().expect("steps are an array").iter().cloned());
        let mut rig = Self::new(callbacks, Value::from(all));
        rig.result(1, json!({"protocolVersion": 1})).result(2, json!({"sessionId": "s"}));
        rig
    }

    fn sent(&self) -> Vec<String> {
        let out = self.frames.iter().filter(|frame| frame.dir == Direction::Out);
        out.map(|frame| match &frame.content {
            Content::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Content::OverLong(_) => "too long".to_owned(),
        })
        .collect()
    }

    fn last_sent(&self) -> Value {
        serde_json::from_str(self.sent().last().expect("something was sent")).expect("it is JSON")
    }

    fn statuses(&self) -> Vec<&'static str> {
        self.steps.iter().map(|step| step.status.as_str()).collect()
    }
}

fn permission(id: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
        "sessionId": "s", "options": [{"optionId": "no", "kind": "reject_once"}, {"optionId": "yes", "kind": "allow_once"}]
    }})
    .to_string()
}

fn update(kind: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": kind}}})
        .to_string()
}

fn prompt() -> Value {
    json!({"do": "prompt", "as": "turn", "text": "hi", "wait": false})
}

#[test]
fn a_whole_turn_ends_in_a_closed_input_and_an_exit() {
    let mut rig = Rig::started(json!({}), json!([{"do": "prompt", "text": "hi"}]));
    assert_eq!(rig.last_sent()["params"], json!({"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}));
    rig.result(3, json!({"stopReason": "end_turn"}));
    assert_eq!(rig.statuses(), ["ok", "ok", "ok"]);
    assert_eq!(rig.other, ["CloseStdin"]);
    assert_eq!(rig.exec.exit_phase(), ExitPhase::Closed);
    rig.agent(&update("plan"));
    assert_eq!(rig.closed_behind, Some((6, 3)), "the closing stands between the frames before it and those behind it");
    rig.exit();
    assert!(rig.finished);
}

#[test]
fn a_silent_agent_costs_one_timeout_and_then_the_ladder() {
    let mut rig = Rig::new(json!({}), json!([{"do": "initialize"}, {"do": "new_session"}]));
    rig.timeout();
    assert_eq!(rig.now, Duration::from_secs(10));
    assert_eq!(rig.statuses(), ["timeout", "skipped"]);
    rig.timeout().timeout();
    assert_eq!(rig.now, Duration::from_secs(15));
    assert_eq!(rig.other, ["CloseStdin", "Signal(Term)", "Kill"]);
    assert_eq!(rig.exec.exit_phase(), ExitPhase::Killed);
    rig.timeout();
    assert!(rig.finished, "an agent that cannot be reaped does not hold the check for ever");
}

#[test]
fn an_optional_timeout_goes_on() {
    let mut rig = Rig::new(
        json!({}),
        json!([{"do": "initialize", "optional": true, "timeout_ms": 5}, {"do": "request", "method": "x", "timeout_ms": 5}]),
    );
    rig.timeout().timeout();
    assert_eq!(rig.statuses(), ["timeout", "timeout"]);
    assert_eq!(rig.sent().len(), 2);
}

#[test]
fn an_error_reply_is_a_reply_but_not_a_session() {
    let mut rig = Rig::new(json!({}), json!([{"do": "initialize"}, {"do": "new_session"}, prompt()]));
    rig.agent(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#);
    assert_eq!(rig.statuses(), ["ok"]);
    rig.agent(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"auth"}}"#);
    assert_eq!(rig.statuses(), ["ok", "failed", "skipped"]);
}

/// An id of another type is no echo: the agent is still waited for.
#[test]
fn a_reply_must_echo_the_id() {
    let mut rig = Rig::new(json!({}), json!([{"do": "initialize"}]));
    rig.agent(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#).agent(r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#);
    assert_eq!(rig.steps.len(), 0);
    rig.agent(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(rig.statuses(), ["ok"]);
}

#[test]
fn a_held_permission_is_cancelled_with_its_turn_and_so_is_a_later_one() {
    let mut rig = Rig::started(
        json!({"permission": "hold"}),
        json!([
            prompt(),
            {"do": "wait", "for": "call", "method": "session/request_permission", "of": "turn"},
            {"do": "cancel"},
            {"do": "wait", "for": "reply", "of": "turn"},
        ]),
    );
    rig.agent(&permission("p1"));
    let sent = rig.sent();
    assert!(sent[sent.len() - 2].contains("session/cancel"), "{sent:?}");
    let cancelled = |id: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}});
    assert_eq!(rig.last_sent(), cancelled("p1"));
    rig.agent(&permission("p2"));
    assert_eq!(rig.last_sent(), cancelled("p2"));
    rig.result(3, json!({"stopReason": "cancelled"}));
    assert_eq!(rig.statuses(), ["ok"; 6]);
    assert_eq!(rig.steps[3].frame_line, Some(3), "the step names the line that ended the wait");
}

#[test]
fn a_respond_step_answers_the_oldest_held_request() {
    let mut rig = Rig::started(
        json!({"permission": "hold"}),
        json!([
            prompt(),
            {"do": "wait", "for": "call", "of": "turn"},
            {"do": "respond", "as": "answer", "method": "session/request_permission", "outcome": "allow_once"},
            {"do": "respond", "method": "session/request_permission", "outcome": "cancelled", "optional": true},
        ]),
    );
    rig.agent(&permission("p1"));
    assert_eq!(rig.last_sent()["result"]["outcome"], json!({"outcome": "selected", "optionId": "yes"}));
    assert_eq!(rig.statuses(), ["ok", "ok", "ok", "ok", "ok", "skipped"]);
    let answer = rig.frames.iter().rfind(|frame| frame.dir == Direction::Out).expect("it was sent");
    assert_eq!((answer.name.as_deref(), answer.step), (Some("answer"), Some(4)));
}

/// An agent may ask more than once in a turn; a second question that nobody answers would look like a turn that hangs.
#[test]
fn a_respond_step_may_answer_what_is_asked_later_too() {
    let mut rig = Rig::started(
        json!({"permission": "hold"}),
        json!([
            prompt(),
            {"do": "wait", "for": "call", "of": "turn"},
            {"do": "respond", "method": "session/request_permission", "outcome": "reject_once", "later": true},
            {"do": "wait", "for": "reply", "of": "turn"},
            {"do": "prompt", "as": "turn2", "text": "hi", "wait": false},
            {"do": "wait", "for": "reply", "of": "turn2"},
        ]),
    );
    let rejected = |id: &str| {
        let outcome = json!({"outcome": "selected", "optionId": "no"});
        json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})
    };
    for id in ["p1", "p2", "p3"] {
        rig.agent(&permission(id));
        assert_eq!(rig.last_sent(), rejected(id));
    }
    rig.result(3, json!({"stopReason": "end_turn"}));
    let sent = rig.sent().len();
    rig.agent(&permission("p4"));
    assert_eq!(rig.sent().len(), sent, "the next prompt's questions are held again");
}

#[test]
fn a_question_that_comes_after_the_answer_was_given_is_answered() {
    let mut rig = Rig::started(
        json!({"permission": "hold"}),
        json!([
            prompt(),
            {"do": "respond", "method": "session/request_permission", "outcome": "allow_once", "later": true, "optional": true},
            {"do": "wait", "for": "reply", "of": "turn"},
        ]),
    );
    assert_eq!(rig.statuses()[3], "skipped");
    rig.agent(&permission("p1"));
    assert_eq!(rig.last_sent()["result"]["outcome"]["optionId"], "yes");
}

#[test]
fn every_terminal_has_a_name_of_its_own() {
    let plan = json!([prompt(), {"do": "wait", "for": "reply", "of": "turn"}]);
    let mut rig = Rig::started(json!({}), plan);
    rig.exec.plan.client_capabilities.insert("terminal".to_owned(), json!(true));
    for n in 1..=2 {
        rig.agent(&json!({"jsonrpc": "2.0", "id": n, "method": "terminal/create", "params": {}}).to_string());
        assert_eq!(rig.last_sent()["result"]["terminalId"], format!("pintle-terminal-{n}"));
    }
}

#[test]
fn a_turn_that_ends_first_ends_the_wait_for_its_update() {
    let steps =
        json!([prompt(), {"do": "wait", "for": "update", "update": "tool_call", "of": "turn", "optional": true}]);
    let mut rig = Rig::started(json!({}), steps);
    rig.agent(&update("plan")).result(3, json!({"stopReason": "end_turn"}));
    assert_eq!(rig.statuses()[3], "timeout");
    assert_eq!(rig.now, Duration::ZERO, "without waiting for the deadline");
}

#[test]
fn a_wait_sees_what_came_before_it_began_but_not_before_the_request() {
    let steps =
        json!([prompt(), {"do": "wait", "for": "quiet"}, {"do": "wait", "for": "update", "of": "turn", "as": "u"}]);
    let mut rig = Rig::new(json!({}), {
        let mut all = vec![json!({"do": "initialize"}), json!({"do": "new_session"})];
        all.extend(steps.as_array().expect("an array").clone());
        Value::from(all)
    });
    rig.result(1, json!({})).agent(&update("early"));
    rig.result(2, json!({"sessionId": "s"})).agent(&update("plan"));
    rig.timeout();
    assert_eq!(rig.statuses(), ["ok"; 5]);
    assert_eq!(rig.steps[4].frame_line, Some(4), "line 2 came before the prompt");
}

#[test]
fn quiet_is_counted_from_the_last_line() {
    let mut rig = Rig::started(json!({}), json!([{"do": "wait", "for": "quiet", "quiet_ms": 300}]));
    rig.now = Duration::from_millis(200);
    rig.agent(&update("plan")).timeout();
    assert_eq!(rig.now, Duration::from_millis(500));
    assert_eq!(rig.statuses()[2], "ok");
}

#[test]
fn an_agent_that_dies_ends_the_scenario_once_its_output_is_read() {
    let mut rig = Rig::started(json!({}), json!([prompt(), {"do": "wait", "for": "reply", "of": "turn"}, prompt()]));
    rig.exec.exited(rig.now);
    rig.drain();
    assert_eq!(rig.steps.len(), 3, "its last words may still be on their way");
    assert_eq!(rig.exec.exit_phase(), ExitPhase::Running);
    rig.exec.stdout_ended(rig.now);
    rig.drain();
    assert_eq!(rig.statuses()[3..], ["failed", "skipped"]);
    assert!(rig.finished);
}

#[test]
fn a_descendant_that_holds_the_output_costs_a_second() {
    let mut rig = Rig::started(json!({}), json!([{"do": "wait", "for": "frame", "timeout_ms": 60_000}]));
    rig.exec.exited(rig.now);
    rig.drain();
    rig.timeout();
    assert_eq!(rig.now, ladder::STREAM_GRACE);
    assert!(rig.finished);
}

#[test]
fn a_wait_for_the_exit_outlives_the_end_of_output() {
    let mut rig = Rig::started(json!({}), json!([{"do": "close_stdin"}, {"do": "wait", "for": "exit"}]));
    rig.exec.stdout_ended(rig.now);
    rig.drain();
    assert_eq!(rig.steps.len(), 3);
    rig.exit();
    assert_eq!(rig.statuses(), ["ok"; 4]);
}

#[test]
fn an_agent_that_only_closes_its_output_is_given_up_after_a_second() {
    let mut rig = Rig::started(json!({}), json!([prompt(), {"do": "wait", "for": "reply", "of": "turn"}]));
    rig.exec.stdout_ended(rig.now);
    rig.drain();
    assert_eq!(rig.steps.len(), 3, "its exit may be about to be seen");
    rig.timeout();
    assert_eq!(rig.now, ladder::STREAM_GRACE);
    assert_eq!(rig.steps[3].detail.as_deref(), Some("the agent has closed its standard output"));
}

#[test]
fn nothing_can_be_sent_into_a_closed_input() {
    let mut rig = Rig::started(json!({}), json!([{"do": "close_stdin"}, prompt()]));
    assert_eq!(rig.statuses()[3], "failed");
    assert_eq!(rig.steps[3].detail.as_deref(), Some("the agent's standard input is closed"));
    rig.exit();
    assert!(rig.finished);
}

#[test]
fn cancelling_a_request_names_its_id_whatever_its_type() {
    let mut rig = Rig::started(
        json!({}),
        json!([
            {"do": "request", "as": "r", "method": "_x", "id": "\"a-1\"", "wait": false},
            {"do": "cancel_request", "of": "r"},
            {"do": "notify", "method": "_y", "params": {"of": "${id:r}", "in": "${session}"}},
        ]),
    );
    let sent = rig.sent();
    assert_eq!(sent[3], r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a-1"}}"#);
    assert_eq!(sent[4], r#"{"jsonrpc":"2.0","method":"_y","params":{"in":"s","of":"a-1"}}"#);
    rig.exit();
}

#[test]
fn a_raw_step_finds_the_next_reply_with_its_id() {
    let mut rig = Rig::new(
        json!({}),
        json!([{"do": "raw", "as": "g", "text": "garbage", "id": "null"}, {"do": "wait", "for": "reply", "of": "g"}]),
    );
    rig.agent(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#);
    assert_eq!(rig.statuses(), ["ok", "ok"]);
    assert_eq!(rig.sent(), ["garbage"]);
}

#[test]
fn an_unfinished_raw_line_is_recorded_as_such_and_several_lines_each() {
    let mut rig = Rig::new(
        json!({}),
        json!([{"do": "raw", "text": "a\nb\n", "newline": false}, {"do": "raw", "text": "c", "newline": false}]),
    );
    let lines: Vec<_> = rig.frames.iter().map(|frame| (frame.line, frame.unterminated)).collect();
    assert_eq!(lines, [(1, false), (2, false), (3, true)]);
    rig.exit();
}

#[test]
fn files_are_asked_for_only_when_they_were_offered() {
    let mut rig = Rig::started(json!({}), json!([prompt(), {"do": "wait", "for": "reply", "of": "turn"}]));
    rig.agent(r#"{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"path":"/w/a","content":""}}"#);
    assert_eq!(rig.last_sent()["error"]["code"], -32601);
    rig.agent(r#"{"jsonrpc":"2.0","id":8,"method":"fs/read_text_file","params":{"path":"/w/a"}}"#);
    assert_eq!(rig.other.len(), 1, "{:?}", rig.other);
    rig.exec.file_done(rig.now, "8", Ok(json!({"content": "x"})));
    rig.drain();
    assert_eq!(rig.last_sent(), json!({"jsonrpc": "2.0", "id": 8, "result": {"content": "x"}}));
}

#[test]
fn a_withdrawn_request_is_answered_as_cancelled() {
    let mut rig =
        Rig::started(json!({"permission": "hold"}), json!([prompt(), {"do": "wait", "for": "reply", "of": "turn"}]));
    rig.agent(&permission("p1"));
    rig.agent(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p1"}}"#);
    assert_eq!(rig.last_sent()["error"]["code"], -32800);
}

#[test]
fn a_cancel_from_core_skips_what_is_left_and_closes() {
    let mut rig = Rig::started(json!({}), json!([prompt(), {"do": "wait", "for": "reply", "of": "turn"}, prompt()]));
    rig.exec.cancel(rig.now);
    rig.drain();
    assert_eq!(rig.statuses()[3..], ["skipped", "skipped"]);
    assert!(rig.exec.was_cancelled());
    rig.exit();
    assert!(rig.finished);
}

#[test]
fn reading_resumes_for_the_end() {
    let mut rig =
        Rig::started(json!({}), json!([{"do": "pause_reading"}, {"do": "wait", "for": "quiet", "quiet_ms": 50}]));
    rig.timeout();
    assert_eq!(rig.now, Duration::from_millis(50));
    assert_eq!(rig.other, ["Read(false)", "Read(true)", "CloseStdin"]);
}

#[test]
fn a_placeholder_without_a_value_fails_the_step() {
    let rig = Rig::new(json!({}), json!([{"do": "notify", "method": "x", "params": {"a": "${nope}"}}]));
    assert_eq!(rig.statuses(), ["failed"]);
    assert_eq!(rig.steps[0].detail.as_deref(), Some("the placeholder nope has no value"));
}

/// Whatever an agent does and whenever it does it, every step is reported once and in order, and the scenario ends.
#[derive(Debug, Clone)]
enum Move {
    Line(String),
    Time,
    Eof,
    Exit,
    Break,
    Cancel,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => (0..6i64).prop_map(|id| Move::Line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessionId":"s"}}}}"#))),
        2 => Just(Move::Line(permission("p"))),
        2 => Just(Move::Line(update("plan"))),
        1 => "\\PC{0,12}".prop_map(Move::Line),
        3 => Just(Move::Time),
        1 => Just(Move::Eof),
        1 => Just(Move::Exit),
        1 => Just(Move::Break),
        1 => Just(Move::Cancel),
    ]
}

proptest! {
    #[test]
    fn every_scenario_ends_and_reports_each_step_once(moves in prop::collection::vec(moves(), 0..40), hold in any::<bool>()) {
        let policy = if hold { "hold" } else { "allow_once" };
        let mut rig = Rig::new(json!({"permission": policy}), json!([
            {"do": "initialize"}, {"do": "new_session"}, prompt(),
            {"do": "wait", "for": "call", "of": "turn", "optional": true},
            {"do": "respond", "method": "session/request_permission", "outcome": "allow_once", "optional": true},
            {"do": "cancel"}, {"do": "pause_reading"}, {"do": "wait", "for": "quiet"}, {"do": "resume_reading"},
            {"do": "wait", "for": "reply", "of": "turn"}, {"do": "signal", "signal": "INT"}, {"do": "wait", "for": "exit"},
        ]));
        for next in moves {
            if rig.finished { break; }
            match next {
                Move::Line(line) => { rig.agent(&line); }
                Move::Time => { rig.timeout(); }
                Move::Eof => rig.exec.stdout_ended(rig.now),
                Move::Exit => rig.exec.exited(rig.now),
                Move::Break => rig.exec.stdin_broken(),
                Move::Cancel => rig.exec.cancel(rig.now),
            }
            rig.drain();
        }
        let mut rounds = 0;
        while !rig.finished {
            rig.timeout();
            rounds += 1;
            prop_assert!(rounds < 64, "no end in sight");
        }
        let indexes: Vec<u32> = rig.steps.iter().map(|step| step.index).collect();
        prop_assert_eq!(indexes, (0..12).collect::<Vec<_>>());
        prop_assert_eq!(rig.closed_behind.map(|(_, steps)| steps), Some(12), "the closing is reported once, last");
        let lines: Vec<u64> = rig.frames.iter().filter(|f| f.dir == Direction::Out).map(|f| f.line).collect();
        prop_assert_eq!(&lines, &(1..=lines.len() as u64).collect::<Vec<_>>());
    }
}
