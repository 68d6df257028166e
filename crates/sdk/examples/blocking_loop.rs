//! An agent without a runtime: a plain blocking loop over the five verbs of `pintle_acp::AgentEnd`. It does what
//! `minimal_agent` does, and shows everything that a loop owes its end of the connection.

use std::error::Error as StdError;
use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use pintle_acp::types::{
    InitializeRequest, InitializeResponse, NewSessionResponse, PromptRequest, PromptResponse, SessionNotification,
    SessionUpdate, decode,
};
use pintle_acp::{AgentEnd, AgentEvent, Call, Config, Error, Output, PeerRequest, Reply};

/// Given to the end at a time.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks that wait to be fed: standard input is read no further ahead.
const CHUNKS_HELD: usize = 4;

pub(crate) fn main() -> Result<(), Box<dyn StdError>> {
    let mut end = AgentEnd::<()>::new(Config::default());
    let mut input = Some(read_stdin());
    let mut stdout = std::io::stdout().lock();
    let mut sessions = 0;
    loop {
        // What is to be written comes first: answers leave before anything new is looked at.
        while let Some(output) = end.poll_output() {
            match output {
                Output::Bytes(bytes) => {
                    stdout.write_all(&bytes)?;
                    stdout.flush()?;
                    // Until this the bytes count against the bound on what the peer has not taken.
                    end.wrote(bytes.len());
                }
                Output::Close => return Ok(()),
            }
        }
        if let Some(event) = end.poll_event() {
            if let AgentEvent::Closed(_) = event {
                return Ok(());
            }
            handle(&mut end, event, &mut sessions)?;
            continue;
        }
        // Nothing to do: wait for bytes, but no longer than until the next deadline.
        let deadline = end.poll_timeout();
        let Some(chunks) = &input else {
            thread::sleep(deadline.map_or_else(Default::default, |at| at.saturating_duration_since(Instant::now())));
            end.handle_timeout(Instant::now());
            continue;
        };
        let received = match deadline {
            Some(at) => chunks.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => chunks.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(chunk) => end.feed(Instant::now(), &chunk),
            Err(RecvTimeoutError::Timeout) => end.handle_timeout(Instant::now()),
            Err(RecvTimeoutError::Disconnected) => {
                end.eof(Instant::now());
                input = None;
            }
        }
    }
}

fn handle(end: &mut AgentEnd<()>, event: AgentEvent<()>, sessions: &mut u32) -> Result<(), Box<dyn StdError>> {
    match event {
        AgentEvent::Request { request, .. } => {
            let reply = answer(&request, sessions);
            end.reply(Instant::now(), request.token, &reply);
        }
        AgentEvent::Prompt { token, params, .. } => {
            let reply = match decode::<PromptRequest>(params.as_str()) {
                Ok(request) => {
                    let update = SessionUpdate::agent_text(request.text());
                    let update = SessionNotification::new(request.session_id, update);
                    end.turn_update(token.turn(), &Call::new("session/update", &update)?)?;
                    Reply::ok(&PromptResponse::end_turn())?
                }
                Err(fault) => Reply::error(&Error::invalid_params(&fault)),
            };
            end.end_turn(Instant::now(), token, reply);
        }
        // Turns end within `handle`, so there is nothing to cancel; and this agent asks nothing of its client.
        _ => {}
    }
    Ok(())
}

fn answer(request: &PeerRequest, sessions: &mut u32) -> Reply {
    let params = request.params.as_ref().map_or("{}", |params| params.as_str());
    let reply = match &*request.method {
        "initialize" => match decode::<InitializeRequest>(params) {
            Ok(request) => Reply::ok(&InitializeResponse::new(request.protocol_version.answer())),
            Err(fault) => return Reply::error(&Error::invalid_params(&fault)),
        },
        "session/new" => {
            *sessions += 1;
            Reply::ok(&NewSessionResponse::new(format!("session-{sessions}")))
        }
        other => return Reply::error(&Error::method_not_found(other)),
    };
    reply.unwrap_or_else(|_| Reply::error(&Error::internal_error()))
}

/// A thread that blocks on standard input, so that the loop can wait for bytes and for time at once.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(CHUNKS_HELD);
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = std::io::stdin().lock().read(&mut chunk) {
            if sender.send(chunk[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}
