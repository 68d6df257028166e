//! The hidden `__exec`, as a keeper and typed by hand.

#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use pintle_sdk::process::{Exit, Isolation, Launch, Process, Program, Shim};

const PINTLE: &str = env!("CARGO_BIN_EXE_pintle");

#[test]
fn the_binary_is_a_keeper() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let mut launch = Launch::new(Program::at("/bin/sh").expect("a shell"));
        launch.args = vec!["-c".into(), "exit 7".into()];
        launch.shim = Shim::Path(PINTLE.into());
        let mut process = Process::spawn(launch).await.expect("spawn");
        let outcome = process.gone().await;
        assert_eq!((outcome.exit, outcome.isolation), (Some(Exit::Code(7)), Isolation::Keeper));
    });
}

#[test]
fn typed_by_hand_it_says_what_it_is_for() {
    let output = Command::new(PINTLE).arg("__exec").stdin(Stdio::null()).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: failed to run the keeper"));
}
