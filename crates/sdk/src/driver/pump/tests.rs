//! What counts against a driver, with a clock that the tests move. The driver is a session on a thread.

use std::fs::File;
use std::io::{Read, Write};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pintle_driver::{
    Capabilities, CoreConfig, DriverConfig, DriverEvent, DriverIdentity, DriverSession, ExactInputHandle, FixtureRefs,
    InputKind, InvokeParams, ObservationBody, Permission, PrepareParams, Secret, TerminalStatus, supported_versions,
};
use pintle_driver::{Digest, HelloResult};

use super::*;
use crate::process::of_pipes;

const HOUR: Duration = Duration::from_secs(3600);

/// The driver's ends of the pipes, all of them blocking.
struct Ends {
    stdin: File,
    stdout: File,
    data: File,
}

fn pipes(config: CoreConfig) -> (Pump, Ends) {
    let (stdin, their_stdin) = pipe::pipe().expect("a pipe");
    let (their_stdout, stdout) = pipe::pipe().expect("a pipe");
    let (their_data, data) = pipe::pipe().expect("a pipe");
    let ends = Ends {
        stdin: their_stdin.into_blocking_fd().expect("a descriptor").into(),
        stdout: their_stdout.into_blocking_fd().expect("a descriptor").into(),
        data: their_data.into_blocking_fd().expect("a descriptor").into(),
    };
    let (stdin, stdout) = (of_pipes::stdin(stdin), of_pipes::stdout(stdout));
    (Pump::new(CoreSession::new(config), Some(stdin), Some(stdout), Some(data)), ends)
}

fn hello() -> HelloResult {
    let identity = DriverIdentity {
        name: "test".into(),
        version: "1".into(),
        sdk_name: None,
        sdk_version: None,
        client_name: None,
        client_version: None,
        runtime_name: "rust".into(),
        runtime_version: "1".into(),
        os: "any".into(),
        architecture: "any".into(),
        artifact_digest: Digest::of(b"artifact"),
        lockfile_digest: None,
    };
    HelloResult {
        driver_version_range: supported_versions(),
        identity,
        capabilities: Capabilities { operations: vec!["run".into()], cancellation: true, ..Capabilities::default() },
        requested_permissions: vec![Permission::from(Permission::COMPANION_STREAM)],
    }
}

fn id() -> InstanceId {
    InstanceId::new(1_700_000_000_000, [1; 16]).expect("an id")
}

/// A driver that answers what it is asked and leaves an invocation to `invoked`. It goes with Core.
fn driver(ends: Ends, invoked: impl FnOnce(&mut DriverSession, &mut Ends) + Send + 'static) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut ends = ends;
        let mut session = DriverSession::new(DriverConfig::new(hello())).expect("it validates");
        let mut buffer = vec![0; 4096];
        loop {
            let count = ends.stdin.read(&mut buffer).expect("Core writes");
            assert!(count > 0, "Core is there");
            session.feed(Instant::now(), Bytes::copy_from_slice(&buffer[..count]));
            while let Some(event) = session.poll_event() {
                match event {
                    DriverEvent::Prepare(params) => {
                        session.accept_prepare(params.approved_permissions).expect("it is to be answered");
                    }
                    DriverEvent::Invoke(_) => {
                        session.accept_invoke(id()).expect("it is to be answered");
                        invoked(&mut session, &mut ends);
                        let rest = ends.stdin.read_to_end(&mut buffer).expect("Core goes");
                        return assert_eq!(rest, 0, "it had one more thing to say");
                    }
                    _ => {}
                }
            }
            say(&mut session, &mut ends);
        }
    })
}

fn say(session: &mut DriverSession, ends: &mut Ends) {
    while let Some(frames) = session.poll_control() {
        ends.stdout.write_all(&frames).expect("Core reads");
    }
}

/// The handshake, a plan, an invocation.
async fn invoke(pump: &mut Pump) {
    let now = pump.clock.now();
    pump.session.hello(now).expect("it begins");
    assert!(matches!(pump.next(None).await, Some(CoreEvent::Hello { .. })));
    let params = PrepareParams {
        resolved_plan_digest: Digest::of(b"plan"),
        capability_token: Secret::new("token"),
        fixture_refs: FixtureRefs::Absent,
        approved_permissions: vec![Permission::from(Permission::COMPANION_STREAM)],
    };
    let now = pump.clock.now();
    pump.session.prepare(now, params).expect("it is prepared");
    assert!(matches!(pump.next(None).await, Some(CoreEvent::Prepared { .. })));
    let input = ExactInputHandle { kind: InputKind::Memfd, value: Secret::new("/proc/self/fd/9") };
    let params = InvokeParams { invocation_id: id(), attempt_id: id(), operation: "run".into(), input };
    let now = pump.clock.now();
    pump.session.invoke(now, params).expect("it is invoked");
}

/// More than a pipe holds, behind its end: it is read after `driver.completed`.
fn send_much(session: &mut DriverSession, ends: &mut Ends) {
    session.observe(id(), "body", 1, &ObservationBody::Stream("s".into())).expect("it is taken");
    for part in 0..16 {
        session.send_data(id(), "s", &[7; 64 << 10], part == 15).expect("it is taken");
    }
    session.complete(id(), TerminalStatus::Completed).expect("it is taken");
    say(session, ends);
    while let Some(frames) = session.poll_data() {
        ends.data.write_all(&frames).expect("Core reads");
    }
}

/// An application that takes an hour for each event, such as one that writes to a slow disk. Every deadline of the session is a
/// minute.
#[tokio::test]
async fn a_slow_application_makes_no_driver_late() {
    let minute = HOUR / 60;
    let config = CoreConfig { stream_grace: minute, request_timeout: minute, ..CoreConfig::default() };
    let (mut pump, ends) = pipes(config);
    let peer = driver(ends, send_much);
    invoke(&mut pump).await;
    let mut received = 0;
    loop {
        pump.clock.skip(HOUR);
        let until = pump.clock.now() + minute;
        match pump.next(Some(until)).await.expect("the invocation has not come to its deadline") {
            CoreEvent::Data { bytes, .. } => received += bytes.len(),
            CoreEvent::Completed(_) => break,
            CoreEvent::InvokeAccepted { .. } | CoreEvent::Observation(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, 1 << 20);
    drop(pump);
    peer.join().expect("the driver is content");
}

/// All that the driver says is in the pipes when its deadlines are over: for the stream there is no time at all.
#[tokio::test]
async fn what_is_there_to_be_read_is_in_time() {
    for _ in 0..20 {
        let (mut pump, ends) = pipes(CoreConfig { stream_grace: Duration::ZERO, ..CoreConfig::default() });
        let peer = driver(ends, |session, ends| {
            session.observe(id(), "body", 1, &ObservationBody::Stream("s".into())).expect("it is taken");
            session.send_data(id(), "s", &[7; 40_000], true).expect("it is taken");
            session.complete(id(), TerminalStatus::Completed).expect("it is taken");
            // A pipe holds it, so that nothing of it waits for Core.
            while let Some(frames) = session.poll_data() {
                ends.data.write_all(&frames).expect("the pipe has room");
            }
            say(session, ends);
        });
        invoke(&mut pump).await;
        let ended = loop {
            let event = pump.next(None).await;
            if let Some(event @ (CoreEvent::Completed(_) | CoreEvent::Fault(_))) = event {
                break event;
            }
        };
        assert!(matches!(ended, CoreEvent::Completed(_)), "{ended:?}");
        drop(pump);
        peer.join().expect("the driver is content");
    }
}

/// A driver that writes without a pause does not hold up a deadline.
#[tokio::test]
async fn a_flood_holds_up_no_deadline() {
    let (mut pump, ends) = pipes(CoreConfig::default());
    let peer = driver(ends, |session, ends| {
        loop {
            let body = ObservationBody::Payload(pintle_driver::FreeValue::from_serialize("x").expect("JSON"));
            session.observe(id(), "noise", 1, &body).expect("it is taken");
            while let Some(frames) = session.poll_control() {
                if ends.stdout.write_all(&frames).is_err() {
                    return;
                }
            }
        }
    });
    invoke(&mut pump).await;
    let until = pump.clock.now();
    while pump.next(Some(until)).await.is_some() {}
    assert_eq!(*pump.session.life(), pintle_driver::Life::Alive);
    drop(pump);
    peer.join().expect("it ends with its reader");
}
