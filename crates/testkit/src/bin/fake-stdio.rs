//! An agent on its own standard streams, in a program that prints where it should not.
//!
//! `fake-stdio` prints a stray line before it serves. Its extension requests: `_t/print` prints from another thread and
//! from a child of its own; `_t/threads` counts threads; `_t/exit` leaves at once, without dropping anything.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use pintle_sdk::acp::types::Raw;
use pintle_sdk::acp::{Agent, Ctx, Error, RawJson, serve};
use pintle_sdk::transport::stdio;

struct Careless;

impl Agent for Careless {
    async fn ext_request(&self, method: &str, _: Option<RawJson>, _: &Ctx) -> Result<Raw, Error> {
        match method {
            "_t/print" => {
                let thread = std::thread::spawn(|| {
                    println!("stray from a thread");
                    print!("stray without an end");
                });
                thread.join().expect("it only prints");
                let child = std::process::Command::new("sh").args(["-c", "cat; echo stray from a child"]).status();
                Ok(Raw::parse(child.is_ok_and(|status| status.success()).to_string()).expect("JSON"))
            }
            "_t/threads" => {
                let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
                Ok(Raw::parse(threads.to_string()).expect("JSON"))
            }
            "_t/exit" => std::process::exit(3),
            _ => Err(Error::method_not_found(method)),
        }
    }
}

fn main() {
    print!("printed before ");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(Careless, stdio())).expect("served");
    println!("printed after");
}
