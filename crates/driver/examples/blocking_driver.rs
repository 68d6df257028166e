//! A driver as one plain blocking loop over the five verbs: no runtime, no thread.
//!
//! It takes the operation `echo.length`, reads the exact input and reports how long it is. `pintle_sdk::driver::serve` is the
//! comfortable way; this is what it does at heart, and what a port to another language looks like.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::time::Instant;

use pintle_driver::{
    Capabilities, Digest, DriverConfig, DriverEvent, DriverIdentity, DriverSession, FreeValue, HelloResult, Life,
    ObservationBody, Output, Permission, TerminalStatus, supported_versions,
};

#[expect(clippy::disallowed_methods, reason = "an example is a program, and this is its IO")]
fn main() -> Result<(), Box<dyn Error>> {
    run(std::io::stdin().lock(), std::io::stdout().lock())
}

/// Serves one session.
#[expect(
    clippy::disallowed_methods,
    reason = "the session takes the time as an argument, and this is who reads the clock"
)]
pub fn run(mut input: impl Read, mut output: impl Write) -> Result<(), Box<dyn Error>> {
    let mut session = DriverSession::new(DriverConfig::new(hello()))?;
    let start = Instant::now();
    let mut buffer = vec![0; 64 << 10];
    while *session.life() == Life::Alive {
        match input.read(&mut buffer)? {
            0 => session.eof(Instant::now()),
            count => session.feed(Instant::now(), buffer[..count].to_vec()),
        }
        while let Some(event) = session.poll_event() {
            match event {
                DriverEvent::Prepare(plan) => session.accept_prepare(plan.approved_permissions)?,
                DriverEvent::Invoke(params) => {
                    let id = params.invocation_id;
                    session.accept_invoke(id)?;
                    // Core writes the input once the pipe is open, so the answer has to be on its way by then.
                    write(&mut session, &mut output)?;
                    let length = fs::read(params.input.value.expose())?.len();
                    let payload = ObservationBody::Payload(FreeValue::from_serialize(&length)?);
                    let monotonic_ns = start.elapsed().as_nanos().try_into()?;
                    session.observe(id, "echo.length", monotonic_ns, &payload)?;
                    session.complete(id, TerminalStatus::Completed)?;
                }
                DriverEvent::Reset => session.accept_reset()?,
                DriverEvent::Shutdown => session.accept_shutdown()?,
                DriverEvent::Closed => return Err("core went away".into()),
                // One invocation runs to its end before the next frame is read, so a cancel always comes too late here.
                _ => {}
            }
        }
        write(&mut session, &mut output)?;
    }
    Ok(())
}

fn write(session: &mut DriverSession, output: &mut impl Write) -> Result<(), Box<dyn Error>> {
    while let Some(Output::Control(frames)) = session.poll_output() {
        output.write_all(&frames)?;
    }
    output.flush()?;
    Ok(())
}

fn hello() -> HelloResult {
    HelloResult {
        driver_version_range: supported_versions(),
        identity: DriverIdentity {
            name: "blocking".into(),
            version: "1.0.0".into(),
            sdk_name: None,
            sdk_version: None,
            client_name: None,
            client_version: None,
            runtime_name: "rust".into(),
            runtime_version: "1".into(),
            os: std::env::consts::OS.into(),
            architecture: std::env::consts::ARCH.into(),
            // A real driver takes the digest of its own program.
            artifact_digest: Digest::of(b"blocking driver"),
            lockfile_digest: None,
        },
        capabilities: Capabilities { operations: vec!["echo.length".into()], ..Capabilities::default() },
        requested_permissions: vec![Permission::new(Permission::EPHEMERAL_INPUT)],
    }
}
