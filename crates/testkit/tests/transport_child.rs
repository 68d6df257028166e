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
