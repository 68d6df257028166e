//! An agent whose client misbehaves.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pintle_sdk::acp::RequestError;
use serde_json::json;
use tokio::time::Instant;

use crate::raw::{PIPE_BYTES, Peer, Scripted, code, text};

/// Bytes of an update of "flood", at least.
const UPDATE_BYTES: usize = 1000;
/// What an agent may have handed over that nobody read: the queue, a pipe, and what is on its way between them.
const UNREAD_BYTES: usize = 128 * 1024 + PIPE_BYTES + 2 * 64 * 1024;

/// A client that does not read: the agent waits at its bound, and goes on when the client does (G-08).
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_makes_the_agent_wait() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "flood 5000").await;
    tokio::time::sleep(Duration::from_secs(3600)).await; // virtual time: nothing can go on
    let sent = agent.updates.load(Ordering::SeqCst);
    assert!(sent > 100 && sent * UPDATE_BYTES < UNREAD_BYTES, "{sent} updates are underway");
    let mut seen = 0;
    loop {
        let frame = peer.line().await;
        if frame["id"] == 1 {
            break;
        }
        seen += 1;
    }
    assert_eq!(seen, 5000, "nothing is lost");
}

/// A client that hangs up and leaves the pipe full: the agent does not wait for it for ever.
#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_without_reading_does_not_keep_the_agent() {
    let (mut peer, _agent, served) = Scripted::start().await;
    peer.prompt(1, "s1", "flood 5000").await;
    tokio::time::sleep(Duration::from_secs(1)).await; // virtual time
    peer.hang_up().await;
    let ended = tokio::time::timeout(Duration::from_secs(10), served).await.expect("ends by its graces");
    ended.expect("no panic").expect("the peer's going away is no fault of ours");
}

/// A request that cannot leave, because the client does not read, ends by its time.
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_leave_ends_by_its_time() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "flood 5000").await;
    tokio::time::sleep(Duration::from_secs(1)).await; // virtual time: the queue is full
    let start = Instant::now();
    let ask = pintle_sdk::acp::types::ReadTextFileRequest::new("s1", "/f");
    let answer = agent.connection().request_within(ask, Some(Duration::from_secs(5))).await;
    assert!(matches!(answer, Err(RequestError::TimedOut)), "{answer:?}");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

/// notifications whose handler never returns: a bounded number waits, the rest is dropped and counted, and a cancel
/// behind all of them still works.
#[tokio::test(start_paused = true)]
async fn a_flood_of_notifications_is_shed() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "wait").await;
    peer.notify("_t/block", json!({})).await;
    let note = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"_t/note\",\"params\":\"{}\"}}\n", "x".repeat(900));
    let notes: usize = 4000;
    for _ in 0..notes {
        peer.raw(note.as_bytes()).await;
    }
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    let shed = agent.connection().counters().shed_notification as usize;
    let kept = notes - shed;
    assert!(kept * 900 < 512 * 1024 + 2 * PIPE_BYTES, "{kept} notifications wait");
    assert!(kept > 100, "{kept}: not everything is dropped");
}

/// handlers that never return: the cap holds, one given up makes room for one.
#[tokio::test(start_paused = true)]
async fn a_flood_of_requests_is_refused_at_the_cap() {
    let (mut peer, agent, _served) = Scripted::start().await;
    for id in 0..1010 {
        peer.request(id, "_t/never", json!({})).await;
    }
    for id in 1000..1010 {
        let refused = peer.line().await;
        assert_eq!((&refused["id"], code(&refused)), (&json!(id), -32603));
        assert_eq!(refused["error"]["data"]["limit"], 1000);
    }
    assert_eq!(agent.connection().counters().shed_request, 10);
    peer.notify("$/cancel_request", json!({"requestId":5})).await;
    assert_eq!(code(&peer.line().await), -32800);
    peer.request(2000, "_t/echo", json!(1)).await;
    assert_eq!(peer.line().await["result"], 1);
}

/// claude-agent-acp#830: a permission that stays open in one session holds up no other, nor what is about none.
#[tokio::test(start_paused = true)]
async fn an_open_permission_holds_up_nobody_else() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "ask").await;
    let ask = peer.line().await;
    assert_eq!(ask["method"], "session/request_permission");
    peer.request(2, "session/new", json!({"cwd":"/","mcpServers":[]})).await;
    assert_eq!(peer.line().await["result"]["sessionId"], "s3");
    peer.line().await;
    peer.prompt(3, "s2", "hello").await;
    assert_eq!(text(&peer.line().await), "hello");
    assert_eq!(peer.line().await["id"], 3);
    peer.answer(&ask, json!({"outcome":{"outcome":"selected","optionId":"yes"}})).await;
    assert_eq!(text(&peer.line().await), "allowed");
}

/// hermes-agent#108488, qwen-code#4925: a client that never answers a callback: it is told that nobody waits, and the turn
/// goes on. R-053.
#[tokio::test(start_paused = true)]
async fn a_callback_that_is_never_answered_ends_by_its_time() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    let start = Instant::now();
    peer.prompt(1, "s1", "read").await;
    let read = peer.line().await;
    assert_eq!(read["method"], "fs/read_text_file");
    let cancel = peer.line().await;
    assert_eq!((&cancel["method"], &cancel["params"]["requestId"]), (&json!("$/cancel_request"), &read["id"]));
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert_eq!(text(&peer.line().await), "no answer within the time allowed");
    assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
    // The answer that comes after all is counted and nothing else.
    peer.answer(&read, json!({"content":"late"})).await;
    peer.prompt(2, "s1", "alive").await;
    assert_eq!(text(&peer.line().await), "alive");
}

/// Garbage in the middle of a turn is answered and disturbs nothing (Inv-15).
#[tokio::test(start_paused = true)]
async fn garbage_does_not_disturb_a_turn() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "ask").await;
    let ask = peer.line().await;
    for garbage in
        [&b"\xff\xfe\n"[..], b"[1,2]\n", b"{}\n", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\n", b"\n"]
    {
        peer.raw(garbage).await;
    }
    assert_eq!(
        [code(&peer.line().await), code(&peer.line().await), code(&peer.line().await)],
        [-32700, -32600, -32600]
    );
    // The id of the prompt, again: dropped, since an answer would hit the prompt.
    peer.answer(&ask, json!({"outcome":{"outcome":"cancelled"}})).await;
    assert_eq!(text(&peer.line().await), "cancelled by the client");
    assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
}

/// python-sdk#27: sixteen megabytes on one line, through the whole of it.
#[tokio::test(start_paused = true)]
async fn prompts_of_sixteen_and_forty_megabytes() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    for bytes in [16 << 20, 40 << 20] {
        peer.prompt(1, "s1", &format!("size {}", "x".repeat(bytes))).await;
        assert_eq!(text(&peer.line().await), bytes.to_string());
        assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
    }
}

/// a client that dies in the middle of a frame, with a turn running, a permission open and a request held.
#[tokio::test(start_paused = true)]
async fn a_client_that_dies_in_a_frame() {
    let (mut peer, agent, served) = Scripted::start().await;
    peer.prompt(1, "s1", "ask").await;
    peer.line().await;
    peer.prompt(2, "s2", "wait").await;
    peer.request(3, "_t/never", json!({})).await;
    peer.raw(b"{\"jsonrpc\":\"2.0\",\"id\":4,\"meth").await;
    drop(peer);
    let ended = tokio::time::timeout(Duration::from_secs(10), served).await.expect("ends by its graces");
    ended.expect("no panic").expect("a good end");
    let after = agent.connection().ext_request("_c/x", &json!({})).await;
    assert!(matches!(after, Err(RequestError::Send(pintle_sdk::acp::SendError::Closed))), "at once: {after:?}");
}

/// A batch, as old peers send it, is one refusal, and none of it is run.
#[tokio::test(start_paused = true)]
async fn a_batch_is_refused_as_a_whole() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    let one = json!({"jsonrpc":"2.0","id":1,"method":"_t/echo","params":1});
    peer.send(json!([one, one])).await;
    let answer = peer.line().await;
    assert_eq!((&answer["id"], code(&answer)), (&json!(null), -32600));
    assert!(peer.line_if_any().await.is_none());
}

/// A peer that says the end and goes on is not heard.
#[tokio::test(start_paused = true)]
async fn a_pipe_that_only_opens_and_closes() {
    let (mut peer, transport) = Peer::pair();
    let served = tokio::spawn(pintle_sdk::acp::serve(Scripted::default(), transport));
    peer.hang_up().await;
    served.await.expect("no panic").expect("a good end");
    assert!(peer.try_line().await.is_none(), "nothing was said");
}
