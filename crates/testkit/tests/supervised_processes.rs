//! Inv-6 below a supervisor: no process outlives its owner, however the owner ends; a connection's child goes with its
//! subtree. With real processes.

#![cfg(target_os = "linux")]

use std::time::Duration;

use pintle_sdk::acp::types::{InitializeRequest, ProtocolVersion};
use pintle_sdk::acp::{Client, Closed};
use pintle_sdk::process::{Launch, Program, Shim};
use pintle_sdk::supervisor::{ChildSpec, Ended, Limits, Supervisor, connection};
use pintle_sdk::transport::child;
use pintle_testkit::deaths::Watched;
use pintle_testkit::family;

/// So that a failing test ends.
const LIMIT: Duration = Duration::from_secs(30);

fn owner_ends(end: &str, kill: bool) {
    let (keeper, child) = (env!("CARGO_BIN_EXE_fake-keeper"), env!("CARGO_BIN_EXE_fake-child"));
    family::owner_ends(env!("CARGO_BIN_EXE_fake-owner"), keeper, child, end, kill);
}

#[test]
fn inv_6_nothing_survives_a_killed_supervisor() {
    owner_ends("supervised-hold", true);
}

#[test]
fn inv_6_nothing_survives_a_supervisor_that_panics_or_exits() {
    owner_ends("supervised-panic", false);
    owner_ends("supervised-exit", false);
}

#[test]
fn inv_6_nothing_survives_a_dropped_supervisor_or_a_dead_runtime() {
    owner_ends("supervised-drop", false);
    owner_ends("supervised-return", false);
}

struct Editor;

impl Client for Editor {}

fn test<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, body).await.expect("in time") })
}

fn launch(program: &str, script: &str) -> Launch {
    let mut launch = Launch::new(Program::at(program).expect("the program"));
    launch.args = script.split_whitespace().map(Into::into).collect();
    launch.shim = Shim::Path(env!("CARGO_BIN_EXE_fake-keeper").into());
    launch
}

/// R-240, IC-8: the agent's process belongs to the subtree of its connection, and ends with it.
#[test]
fn r_240_the_agents_process_ends_with_its_subtree() {
    test(async {
        let transport = child(launch(env!("CARGO_BIN_EXE_bench-agent"), "")).await.expect("spawn");
        let mut watch = transport.watch();
        let process = Watched::new(watch.id());
        let host = Supervisor::start(Limits::default(), [ChildSpec::client(|()| Editor, transport)]).await.expect("up");
        let subtree = host.subtree("client").expect("started");
        let link = connection(&subtree).expect("a connection");
        link.request(InitializeRequest::new(ProtocolVersion::LATEST)).await.expect("answered");
        assert!(process.is_alive());
        assert!(matches!(host.stop_child("client").await, Ok(Ended::Stopped)));
        assert!(watch.gone().await.is_some_and(|outcome| outcome.survivors.is_empty()));
        assert!(!process.is_alive());
    });
}

/// an agent that dies is told of, and no other process takes its place.
#[test]
fn r_240_a_dead_agent_is_told_and_not_replaced() {
    test(async {
        let transport = child(launch(env!("CARGO_BIN_EXE_fake-child"), "abort")).await.expect("spawn");
        let host = Supervisor::start(Limits::default(), [ChildSpec::client(|()| Editor, transport)]).await.expect("up");
        if let Some(subtree) = host.subtree("client") {
            let ended = subtree.ended().await;
            assert!(matches!(ended, Ended::Connection(Closed::ByPeer | Closed::Lost)), "{ended}");
        }
        assert!(host.root().children().is_empty());
    });
}

/// Inv-6: a supervisor that is dropped kills the process at once.
#[test]
fn inv_6_dropping_the_supervisor_kills_the_agent() {
    test(async {
        let transport = child(launch(env!("CARGO_BIN_EXE_fake-child"), "ignore-term hold")).await.expect("spawn");
        let process = Watched::new(transport.watch().id());
        let host = Supervisor::start(Limits::default(), [ChildSpec::client(|()| Editor, transport)]).await.expect("up");
        drop(host);
        tokio::task::yield_now().await;
        assert!(process.ends_within(LIMIT));
    });
}
