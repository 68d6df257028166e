//! `transport::child`: bytes go both ways, closing reaches the child, dropping kills it (Inv-6).

#![cfg(target_os = "linux")]

use std::{future::poll_fn, io::IoSlice, time::Duration};

use pintle_sdk::{
    process::{Exit, Ladder, Launch, Program, Shim},
    transport::{Transport, TransportKind, child},
};
use pintle_testkit::deaths::Watched;

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(30);

fn launch(script: &str) -> Launch {
    let mut launch = Launch::new(Program::at(env!("CARGO_BIN_EXE_fake-child")).expect("the fake child"));
    launch.args = script.split_whitespace().map(Into::into).collect();
    launch.shim = Shim::Path(env!("CARGO_BIN_EXE_fake-keeper").into());
    launch
}

fn test<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, body).await.expect("in time") })
}

async fn read(transport: &mut impl Transport, buf: &mut [u8]) -> usize {
    poll_fn(|cx| transport.poll_read(cx, buf)).await.expect("read")
}

#[test]
fn bytes_go_both_ways_and_closing_reaches_the_child() {
    test(async {
        let mut transport = child(launch("copy 1 exit 3")).await.expect("spawn");
        assert_eq!(transport.kind(), TransportKind::Child);
        let mut process = transport.take_process().expect("not taken before");
        assert!(transport.process().is_none());
        let bufs = [IoSlice::new(b"{}"), IoSlice::new(b"\n")];
        assert_eq!(poll_fn(|cx| transport.poll_write(cx, &bufs)).await.expect("write"), 3);
        let mut buf = [0; 16];
        assert_eq!(read(&mut transport, &mut buf).await, 3);
        assert_eq!(&buf[..3], b"{}\n");
        for _ in 0..2 {
            poll_fn(|cx| transport.poll_close(cx)).await.expect("close");
        }
        assert_eq!(read(&mut transport, &mut buf).await, 0);
        assert_eq!(process.shut_down(Ladder::default()).await.exit, Some(Exit::Code(3)));
    });
}

#[test]
fn inv_6_dropping_the_transport_kills_the_child_that_it_owns() {
    test(async {
        let transport = child(launch("ignore-term hold")).await.expect("spawn");
        let watched = Watched::new(transport.process().expect("owned").id());
        drop(transport);
        assert!(watched.ends_within(LIMIT));
    });
}

struct Editor;

impl pintle_sdk::acp::Client for Editor {}

/// five megabytes in one frame go through a real child and come back as they were.
#[test]
fn r_232_a_large_frame_survives_the_way_through_a_child() {
    test(async {
        let mut launch = launch("");
        launch.program = Program::at(env!("CARGO_BIN_EXE_bench-agent")).expect("the agent");
        let connection = pintle_sdk::acp::connect(Editor, child(launch).await.expect("spawn")).expect("opens");
        connection.initialize().await.expect("answered");
        let image = "QUJD\n\u{e9}".repeat(5_000_000 / 7);
        let sent = serde_json::json!({ "image": image });
        let back = connection.ext_request("_bench/ping", &sent).await.expect("answered");
        assert!(serde_json::from_str::<serde_json::Value>(back.as_str()).expect("JSON") == sent, "another value");
        connection.shut_down().await.expect("closed");
    });
}

/// a program that is not there is an error value that says what was looked for; no child, no panic.
#[test]
fn r_226_an_unknown_program_is_an_error() {
    let error = Program::find("no-such-agent", Some("/nowhere:/neither".as_ref()), std::path::Path::new("/"));
    let error = error.expect_err("not there").to_string();
    assert!(error.contains("no-such-agent") && error.contains("2 directories"), "{error}");
}

/// the end of a child is the end of the stream, and how it ended is known, with the last of its standard error.
#[test]
fn r_226_the_exit_of_a_child_is_told_with_its_stderr() {
    test(async {
        let mut transport = child(launch("flood-stderr 300000 say x exit 4")).await.expect("spawn");
        let mut watch = transport.watch();
        let mut buf = [0; 16];
        assert_eq!(read(&mut transport, &mut buf).await, 2);
        assert_eq!(read(&mut transport, &mut buf).await, 0);
        poll_fn(|cx| transport.poll_close(cx)).await.expect("close");
        let outcome = watch.gone().await.expect("seen");
        assert_eq!(outcome.exit, Some(Exit::Code(4)));
        // Drained to the end, so the child was never stuck, and kept within its bound.
        let stderr = watch.stderr();
        assert!(stderr.is_truncated(), "{stderr:?}");
    });
}
