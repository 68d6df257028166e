//! A process that owns a child, and comes to its own end in the way that it is told.
//!
//! `fake-owner END KEEPER CHILD SCRIPT..`: starts the child, passes on what it prints, and at end of its own standard
//! input ends by END: `panic`, `exit`, `return`, `forget` (the child is leaked, then the runtime is dropped), or, with
//! `hold`, not at all. With `supervised-` before it, the child belongs to a worker below a supervisor instead.

use std::{
    io::{Read, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use pintle_sdk::process::{Environment, Launch, Process, Program, Shim};
use pintle_sdk::supervisor::{ChildSpec, Limits, Restart, Supervisor};
use tokio::{io::AsyncReadExt, sync::Notify};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [end, keeper, child, script @ ..] = args.as_slice() else { panic!("usage") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let (end, supervised) = end.strip_prefix("supervised-").map_or((end.as_str(), false), |end| (end, true));
    let owned: Box<dyn std::any::Any> = if supervised {
        Box::new(runtime.block_on(supervise(keeper.into(), child.into(), script.to_vec())))
    } else {
        Box::new(runtime.block_on(start(keeper.into(), child.into(), script)))
    };
    match end {
        "panic" => panic!("as told"),
        "exit" => std::process::exit(0),
        "forget" => std::mem::forget(owned),
        "return" => {}
        "drop" => {
            drop(owned);
            // The tasks are dropped when the runtime gets to it.
            runtime.block_on(std::future::pending())
        }
        _ => loop {
            std::thread::park();
        },
    }
    runtime.shutdown_timeout(Duration::ZERO);
}

/// The same below a supervisor. Returns at end of standard input.
async fn supervise(keeper: PathBuf, child: PathBuf, script: Vec<String>) -> Supervisor {
    let ended = Arc::new(Notify::new());
    let told = ended.clone();
    let worker = ChildSpec::worker("family", Restart::Temporary, move |_| {
        let (keeper, child, script, told) = (keeper.clone(), child.clone(), script.clone(), told.clone());
        async move {
            let _process = start(keeper, child, &script).await;
            told.notify_one();
            std::future::pending::<Result<(), std::io::Error>>().await
        }
    });
    let supervisor = Supervisor::start(Limits::default(), [worker]).await.expect("a worker is up at once");
    ended.notified().await;
    supervisor
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
