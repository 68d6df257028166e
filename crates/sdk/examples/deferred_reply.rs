//! A reply that is given somewhere else, later: the handler hands the obligation to a queue and returns at once. Whoever
//! drops it instead of answering answers "internal error", so no request is ever forgotten.

#![expect(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error as StdError;

use pintle_sdk::acp::types::Raw;
use pintle_sdk::acp::{Agent, Client, Ctx, DelegatedReply, Error, RawJson, connect, serve};
use pintle_sdk::transport::memory;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A piece of work, with the answer that is owed for it.
struct Job {
    params: Option<RawJson>,
    reply: DelegatedReply<Value>,
}

struct Queueing {
    jobs: mpsc::Sender<Job>,
}

impl Agent for Queueing {
    async fn ext_request(&self, method: &str, params: Option<RawJson>, cx: &Ctx) -> Result<Raw, Error> {
        if method != "_example/work" {
            return Err(Error::method_not_found(method));
        }
        let reply = cx.delegate_reply().ok_or_else(Error::internal_error)?;
        // A full queue drops the job, and with it answers the request.
        let _ = self.jobs.try_send(Job { params, reply });
        cx.deferred()
    }
}

/// Takes one job after the other; the third is forgotten on purpose.
async fn work(mut jobs: mpsc::Receiver<Job>) {
    let mut done = 0;
    while let Some(job) = jobs.recv().await {
        done += 1;
        if done == 3 {
            drop(job);
            continue;
        }
        let bytes = job.params.map_or(0, |params| params.as_bytes().len());
        job.reply.send(Ok(json!({ "job": done, "bytes": bytes })));
    }
}

struct Editor;

impl Client for Editor {}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn StdError>> {
    let (sender, jobs) = mpsc::channel(8);
    tokio::spawn(work(jobs));
    let (ours, theirs) = memory();
    tokio::spawn(serve(Queueing { jobs: sender }, theirs));

    let connection = connect(Editor, ours)?;
    connection.initialize().await?;
    for _ in 0..3 {
        match connection.ext_request("_example/work", &json!({ "text": "abc" })).await {
            Ok(answer) => println!("answer: {}", answer.as_str()),
            Err(error) => println!("no answer: {error}"),
        }
    }
    connection.shut_down().await?;
    Ok(())
}
