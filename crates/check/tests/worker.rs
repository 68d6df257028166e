//! Expressions that would harm the judge, in the worker: a harness of its own, because the test binary is the worker too.

#![expect(clippy::print_stdout, reason = "a harness of its own prints its results")]

use std::sync::Arc;

use pintle_check::cel::{Answer, EvalError, Evaluator, Want, Worker, WorkerConfig, serve};
use pintle_check::pack::{Plan, Timeouts};
use pintle_check::trace::{Trace, TraceBuilder};

const CHILD: &str = "__cel";
const DYING_CHILD: &str = "__dies";
const ASK_DEADLINE_MS: u64 = 1_500;

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(CHILD) => {
            serve(std::io::BufReader::new(std::io::stdin()), std::io::stdout()).expect("the judge is there");
        }
        Some(DYING_CHILD) => {}
        // What test runners ask for before they run anything.
        Some("--list") => print!("{}", TESTS.iter().map(|(name, _)| format!("{name}: test\n")).collect::<String>()),
        filter => {
            let wanted = filter.filter(|filter| !filter.starts_with('-')).unwrap_or_default();
            for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(wanted)) {
                test();
                println!("test {name} ... ok");
            }
        }
    }
}

const TESTS: &[(&str, fn())] = &[
    ("answers_like_the_evaluator_in_this_process", answers_like_the_evaluator_in_this_process),
    ("a_slow_expression_ends_at_the_deadline_and_the_next_one_is_answered", slow),
    ("an_expression_that_eats_memory_ends_the_child_only", memory),
    ("a_child_that_dies_again_and_again_is_given_up", given_up),
    ("a_program_that_does_not_exist_is_told", missing),
    ("a_message_as_deep_as_a_message_may_be_is_judged", deep),
];

fn trace() -> Arc<Trace> {
    traced(None)
}

fn traced(line: Option<String>) -> Arc<Trace> {
    let plan = Plan {
        schema: "pintle.scenario.v1".to_owned(),
        id: "none".to_owned(),
        protocol_version: 1,
        client_capabilities: serde_json::Map::new(),
        callbacks: Default::default(),
        steps: Vec::new(),
    };
    let mut builder = TraceBuilder::new(&plan, Timeouts::default());
    if let Some(text) = line {
        let payload = serde_json::json!({"dir": "in", "line": 1, "t_ns": 1, "text": text}).to_string();
        builder.push_stored("acp.frame", &payload, &mut |_| None);
    }
    Arc::new(builder.finish())
}

fn worker() -> Worker {
    let this = std::env::current_exe().expect("a path");
    let mut config = WorkerConfig::new(vec![this.into(), CHILD.into()]);
    config.ask_deadline_ms = ASK_DEADLINE_MS;
    let mut worker = Worker::new(config);
    worker.load(&trace()).expect("the child takes the trace");
    worker
}

fn answers_like_the_evaluator_in_this_process() {
    let mut worker = worker();
    assert_eq!(worker.ask("trace.size() == 0 && !exit.known", Want::Bool), Ok(Answer::Bool(true)));
    assert_eq!(worker.ask("'a' + string(timeouts.prompt)", Want::Text), Ok(Answer::Text("a60000".to_owned())));
    assert_eq!(worker.ask("frames('in', '*')", Want::Entries), Ok(Answer::Entries(Vec::new())));
    assert_eq!(
        worker.ask("init.x == 1", Want::Bool),
        Err(EvalError::Runtime("`_._` cannot be applied to (null_type, string)".to_owned()))
    );
    assert_eq!(worker.ask("1 + 1", Want::Bool), Err(EvalError::WrongType { found: "int".to_owned() }));
    assert_eq!(worker.ask("true", Want::Bool), Ok(Answer::Bool(true)), "an error is not the end");
}

/// A list of `10^depth` items, looked through: within every bound of an expression, and slow.
fn heavy(depth: usize) -> String {
    let list = "[1,2,3,4,5,6,7,8,9,0]";
    let inner = "true".to_owned();
    (0..depth).fold(inner, |inner, n| format!("{list}.all(x{n}, {inner})"))
}

fn slow() {
    let mut worker = worker();
    assert_eq!(worker.ask(&heavy(11), Want::Bool), Err(EvalError::Deadline { deadline_ms: ASK_DEADLINE_MS }));
    assert_eq!(worker.ask("true", Want::Bool), Ok(Answer::Bool(true)), "a new child has the trace");
}

fn memory() {
    let mut worker = worker();
    let doubled = (0..34).fold("['0123456789abcdef']".to_owned(), |list, n| format!("{list}.map(x{n}, x{n} + x{n})"));
    let error = worker.ask(&doubled, Want::Text).expect_err("2^34 times 16 bytes fit nowhere");
    assert!(matches!(error, EvalError::Crashed | EvalError::Deadline { .. }), "{error}");
    assert_eq!(worker.ask("true", Want::Bool), Ok(Answer::Bool(true)));
}

fn given_up() {
    let this = std::env::current_exe().expect("a path");
    let mut config = WorkerConfig::new(vec![this.into(), DYING_CHILD.into()]);
    config.ask_deadline_ms = ASK_DEADLINE_MS;
    let mut worker = Worker::new(config);
    let errors: Vec<_> = (0..12).filter_map(|_| worker.load(&trace()).err()).collect();
    assert_eq!(errors.len(), 12);
    assert_eq!(errors.first(), Some(&EvalError::Crashed));
    assert_eq!(errors.last(), Some(&EvalError::Unavailable("it died 8 times".to_owned())));
}

fn missing() {
    let mut worker = Worker::new(WorkerConfig::new(vec!["/pintle/no/such/program".into()]));
    assert!(matches!(worker.load(&trace()), Err(EvalError::Unavailable(_))));
}

/// The scan lets 256 levels pass, serde_json alone 127: what lies between must not take the judgement of a scenario away.
fn deep() {
    let nested = ["[".repeat(250), "]".repeat(250)].concat();
    let mut worker = worker();
    worker.load(&traced(Some(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{nested}}}"#)))).expect("the child takes it");
    let inner = "get(frames('in', '*')[0].json, 'result.0.0.0') != null";
    assert_eq!(worker.ask("frames('in', '*')[0].valid", Want::Bool), Ok(Answer::Bool(true)));
    assert_eq!(worker.ask(inner, Want::Bool), Ok(Answer::Bool(true)));
}
