//! The exact input by each of its channels, taken well and badly, and kept out of everything that is written down.

#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_sdk::driver::{
    Core, CoreError, DriverLaunch, ErrorClass, InputKind, InputTaken, Invoke, Observed, TerminalStatus,
};
use pintle_testkit::drivers::{All, Place, invoke, prepared, test};
use serde_json::Value;
use tracing::field::{Field, Visit};

const KEEPER: &str = env!("CARGO_BIN_EXE_fake-keeper");
const DRIVER: &str = env!("CARGO_BIN_EXE_fake-driver");
const KINDS: [InputKind; 3] = [InputKind::Pipe, InputKind::Socket, InputKind::Memfd];

/// More than a pipe or a socket holds at once.
const LARGE: usize = 3_000_000;

fn place() -> Place {
    Place::new(DRIVER, KEEPER)
}

fn launch(place: &Place, kind: InputKind) -> DriverLaunch {
    let mut launch = place.launch("");
    launch.input = kind;
    launch
}

/// What the driver observed, and how much of the input it has taken.
async fn run(core: &mut Core, number: u8, operation: &str, input: &[u8]) -> (Vec<Value>, InputTaken) {
    let mut run = core.invoke(invoke(number, operation, input)).expect("an invocation");
    let all = All::of(&mut run).await.expect("it ends well");
    assert_eq!(run.completed().map(|completed| completed.status), Some(TerminalStatus::Completed));
    ((0..all.observations.len()).map(|index| all.payload(index)).collect(), run.input_taken())
}

#[test]
fn an_input_arrives_as_it_is_by_every_channel() {
    test(async {
        for kind in KINDS {
            let place = place();
            let mut core = prepared(launch(&place, kind), &["ephemeral-input"]).await;
            for (number, input) in [(1, "x".repeat(LARGE)), (2, String::new()), (3, "again".to_owned())] {
                let (seen, taken) = run(&mut core, number, "echo", input.as_bytes()).await;
                assert_eq!(seen[0]["bytes"], input.len(), "{kind:?}");
                assert_eq!(taken, InputTaken::Whole, "{kind:?}");
            }
            let left = std::fs::read_dir(core.work_dir()).expect("the work directory").flatten();
            let inputs = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("input")).count();
            assert_eq!(inputs, 0, "{kind:?}: the channel goes with the invocation");
        }
    });
}

#[test]
fn a_driver_that_never_opens_its_input_ends_as_it_likes() {
    test(async {
        for kind in KINDS {
            let place = place();
            let mut core = prepared(launch(&place, kind), &[]).await;
            let (_, taken) = run(&mut core, 1, "input-never", &[7; LARGE]).await;
            let expected = if kind == InputKind::Memfd { InputTaken::Whole } else { InputTaken::NotOpened };
            assert_eq!(taken, expected, "{kind:?}");
            // The next invocation's input is another one.
            let (seen, _) = run(&mut core, 2, "echo", b"next").await;
            assert_eq!(seen[0]["text"], "next", "{kind:?}");
        }
    });
}

/// One that waits for an input until its deadline holds nothing up beyond it.
#[test]
fn an_input_that_is_never_opened_does_not_outlive_the_deadline() {
    test(async {
        for kind in KINDS {
            let place = place();
            let mut core = prepared(launch(&place, kind), &[]).await;
            let deadline = Duration::from_millis(50);
            let mut run = core.invoke(Invoke { deadline, ..invoke(1, "wait", &[7; LARGE]) }).expect("an invocation");
            All::of(&mut run).await.expect("it ends when it is cancelled");
            assert_eq!(run.completed().map(|completed| completed.status), Some(TerminalStatus::Cancelled));
        }
    });
}

#[test]
fn a_driver_may_open_its_input_late() {
    test(async {
        for kind in KINDS {
            let place = place();
            let mut core = prepared(launch(&place, kind), &[]).await;
            let go = core.work_dir().join("tmp/go");
            let mut run = core.invoke(invoke(1, "input-late", &[7; LARGE])).expect("an invocation");
            let first = run.next().await.expect("it lives").expect("an observation");
            assert!(matches!(first, Observed::Observation(params) if &*params.kind == "not yet"));
            std::fs::write(go, "").expect("a file");
            let all = All::of(&mut run).await.expect("it ends well");
            assert_eq!(all.payload(0), LARGE, "{kind:?}");
        }
    });
}

#[test]
fn a_driver_may_leave_half_of_its_input() {
    test(async {
        for kind in KINDS {
            let place = place();
            let mut core = prepared(launch(&place, kind), &[]).await;
            let (seen, taken) = run(&mut core, 1, "input-half", &[7; LARGE]).await;
            assert_eq!(seen[0], 10, "{kind:?}");
            if kind == InputKind::Memfd {
                assert_eq!(taken, InputTaken::Whole);
            } else {
                assert!(matches!(taken, InputTaken::Bytes(10..2_999_999)), "{kind:?}: {taken:?}");
            }
            let (seen, _) = run(&mut core, 2, "echo", b"next").await;
            assert_eq!(seen[0]["text"], "next", "{kind:?}");
        }
    });
}

#[test]
fn an_input_is_given_once() {
    test(async {
        for kind in KINDS {
            let place = place();
            let mut core = prepared(launch(&place, kind), &[]).await;
            let (seen, _) = run(&mut core, 1, "input-twice", b"content").await;
            assert_eq!(seen[0]["first"], 7, "{kind:?}");
            // Memory that was given is the driver's to read as it likes; the other channels are gone.
            let second = if kind == InputKind::Memfd { Value::from(7) } else { Value::Null };
            assert_eq!(seen[0]["second"], second, "{kind:?}");
        }
    });
}

#[test]
fn inputs_in_memory_are_as_many_as_were_inherited() {
    test(async {
        let place = place();
        let mut launch = launch(&place, InputKind::Memfd);
        launch.memory_inputs = 1;
        let mut core = prepared(launch, &[]).await;
        let (seen, _) = run(&mut core, 1, "echo", b"one").await;
        assert_eq!(seen[0]["text"], "one");
        let error = core.invoke(invoke(2, "echo", b"two")).map(|_| ()).expect_err("there is no second");
        assert!(matches!(error, CoreError::NoMemoryInput));
        assert_eq!(error.class(), ErrorClass::BudgetExceeded);
    });
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_refused_without_naming_it() {
    test(async {
        let place = place();
        let mut launch = launch(&place, InputKind::Socket);
        launch.work_base = place.base.path().join("x".repeat(100));
        std::fs::create_dir(&launch.work_base).expect("a directory");
        let mut core = prepared(launch, &[]).await;
        let error =
            core.invoke(invoke(1, "echo", b"canary-content")).map(|_| ()).expect_err("a socket has no room for it");
        assert!(matches!(error, CoreError::Input { kind: InputKind::Socket, .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("input-1"), "{error:?}");
        // The invocation was not begun.
        assert!(core.invoke(invoke(1, "nope", b"")).is_err());
    });
}

/// Everything that is logged, as text.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut Fields(&mut self.0.lock().expect("one thread")));
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().expect("one thread")));
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Fields(&mut self.0.lock().expect("one thread")));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = writeln!(self.0, "{field}={value:?}");
    }
}

/// Inv-8 for the exact input: neither the handle nor the content is in anything that Core shows, logs, returns or reports,
/// whatever becomes of the invocation.
#[test]
fn neither_the_input_nor_its_handle_is_written_down_anywhere() {
    const CANARY: &str = "canary-5f1d7c";
    let log = Log::default();
    let sinks = log.clone();
    tracing::subscriber::with_default(log, || {
        test(async {
            let mut text = String::new();
            for kind in KINDS {
                for (number, operation) in
                    ["input-never", "input-half", "input-twice", "garbage", "die", "nope"].into_iter().enumerate()
                {
                    let place = place();
                    let mut core = prepared(launch(&place, kind), &["ephemeral-input"]).await;
                    let input = format!("{CANARY} {}", "x".repeat(LARGE));
                    let invoke = invoke(number as u8 + 1, operation, input.as_bytes());
                    let _ = write!(text, "{invoke:?}");
                    let error = match core.invoke(invoke) {
                        Ok(mut run) => {
                            let _ = write!(text, "{run:?}");
                            let all = All::of(&mut run).await;
                            let _ = write!(text, "{run:?} {all:?}");
                            all.err()
                        }
                        Err(error) => Some(error),
                    };
                    let _ = write!(text, "{core:?}");
                    if let Some(error) = error {
                        let _ = write!(text, "{error} {error:?}");
                    }
                    let applied = serde_json::to_string(core.applied()).expect("JSON");
                    let ended = core.shutdown().await;
                    let _ = write!(text, "{applied} {ended:?} {}", ended.stderr.to_text());
                }
            }
            text.push_str(&sinks.0.lock().expect("one thread"));
            assert!(text.len() > 10_000, "something was looked at");
            for secret in [CANARY, "input-1", "/proc/self/fd/4"] {
                assert!(!text.contains(secret), "{secret} is in: {}", excerpt(&text, secret));
            }
        });
    });
}

fn excerpt<'a>(text: &'a str, secret: &str) -> &'a str {
    let at = text.find(secret).unwrap_or(0);
    text.get(at.saturating_sub(200)..(at + 100).min(text.len())).unwrap_or_default()
}
