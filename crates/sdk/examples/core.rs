//! Core in a program of your own: starts the driver that is named, lets it count the lines of a text, ends it.
//!
//! `cargo run --example core -- target/debug/examples/driver`

#![expect(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::time::Duration;

use pintle_sdk::driver::{Core, Digest, DriverLaunch, InstanceId, Invoke, Observed, Plan};
use pintle_sdk::process::{Environment, Program, Shim};

const TEXT: &[u8] = b"one\ntwo\nthree";

/// Without a keeper (`Shim::find` looks for `pintle` on PATH) the driver runs too, and `Core::isolation` says so.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let (here, path) = (std::env::current_dir()?, std::env::var_os("PATH"));
    let mut command = std::env::args_os().skip(1);
    let program = Program::find(&command.next().ok_or("name a driver")?, path.as_deref(), &here)?;
    let shim = Shim::find(None, path.as_deref(), &here);
    let env = Environment::driver_allowlist(std::env::vars_os());
    let mut launch = DriverLaunch::new(program, env, shim, std::env::temp_dir());
    launch.args = command.collect();
    let mut core = Core::start(launch).await?;
    core.prepare(Plan { digest: Digest::of(TEXT), approved: Vec::new(), fixtures: Vec::new() }).await?;
    let id = InstanceId::new(1_700_000_000_000, [7; 16])?;
    let (deadline, cancel_grace) = (Duration::from_secs(10), Duration::from_secs(1));
    let operation = "text.count".into();
    let invoke = Invoke { invocation_id: id, attempt_id: id, operation, input: TEXT.to_vec(), deadline, cancel_grace };
    let mut run = core.invoke(invoke)?;
    while let Some(observed) = run.next().await? {
        if let Observed::Observation(seen) = observed {
            println!("{} {}", seen.kind, seen.payload.map(|payload| payload.as_str().to_owned()).unwrap_or_default());
        }
    }
    core.shutdown().await.error.map_or(Ok(()), |error| Err(error.into()))
}
