//! A process that owns a child, and comes to its own end in the way that it is told.
//!
//! `fake-owner END KEEPER CHILD SCRIPT..`: starts the child, passes on what it prints, and at end of its own standard
//! input ends by END: `panic`, `exit`, `return`, `forget` (the child is leaked, then the runtime is dropped), or, with
//! `hold`, not at all.

use std::{
    io::{Read, Write},
    path::PathBuf,
    time::Duration,
};

use pintle_sdk::process::{Environment, Launch, Process, Program, Shim};
use tokio::io::AsyncReadExt;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [end, keeper, child, script @ ..] = args.as_slice() else { panic!("usage") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let process = runtime.block_on(start(keeper.into(), child.into(), script));
    match end.as_str() {
        "panic" => panic!("as told"),
        "exit" => std::process::exit(0),
        "forget" => std::mem::forget(process),
        "return" => {}
        _ => loop {
            std::thread::park();
        },
    }
    runtime.shutdown_timeout(Duration::ZERO);
}

async fn start(keeper: PathBuf, child: PathBuf, script: &[String]) -> Process {
    let mut launch = Launch::new(Program::at(child).expect("the child"));
    launch.args = script.iter().map(Into::into).collect();
    launch.env = Environment::empty();
    launch.shim = Shim::Path(keeper);
    let mut process = Process::spawn(launch).await.expect("spawn");
    let mut stdout = process.take_stdout().expect("stdout");
    tokio::spawn(async move {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
            std::io::stdout().write_all(&chunk[..count]).expect("stdout");
            std::io::stdout().flush().expect("stdout");
        }
    });
    tokio::task::spawn_blocking(|| std::io::stdin().lock().read_to_end(&mut Vec::new()))
        .await
        .expect("no panic")
        .expect("stdin");
    process
}
