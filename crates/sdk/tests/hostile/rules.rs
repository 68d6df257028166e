//! Behaviours of the runtime (R-numbers) that need handlers to show.

use serde_json::json;

use crate::raw::{Scripted, code, text};

/// whatever a notification's handler does, no frame comes of it.
#[tokio::test(start_paused = true)]
async fn what_a_notifications_handler_does_is_not_told_r101() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.sentinel.expect("handler_panic");
    peer.notify("_t/panic", json!({})).await;
    peer.notify("_t/unknown", json!({})).await;
    assert!(peer.line_if_any().await.is_none());
    assert_eq!(agent.connection().counters().handler_panic, 1);
    peer.request(1, "_t/echo", json!("alive")).await;
    assert_eq!(peer.line().await["result"], "alive");
}

/// `session/cancel` itself has no answer; the open prompt has one, `cancelled`.
#[tokio::test(start_paused = true)]
async fn a_cancel_is_answered_by_the_prompt_r104() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    assert!(peer.line_if_any().await.is_none());
    peer.prompt(1, "s1", "wait").await;
    assert!(peer.line_if_any().await.is_none());
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    let answer = peer.line().await;
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(1), &json!("cancelled")));
    assert!(peer.line_if_any().await.is_none());
}

/// G-03, J11: extensions with a row, with a hook, with neither; names, params and results as they are.
#[tokio::test(start_paused = true)]
async fn extensions_r130_r131_r132_r134() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    // a plain map is a result.
    peer.request(1, "_t/map", json!({})).await;
    assert_eq!(peer.line().await["result"], json!({"plain":{"map":[1]}}));
    // params go through undecoded.
    peer.raw(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"_t/echo\",\"params\":[1.50, {\"\\u0061\":1}]}\n").await;
    assert_eq!(peer.line().await["result"], json!([1.50, {"a":1}]));
    // Neither a row nor a hook.
    peer.request(3, "_t/other", json!({})).await;
    let answer = peer.line().await;
    assert_eq!((code(&answer), &answer["error"]["data"]), (-32601, &json!("_t/other")));
    // rows of the table, in both spellings, on an agent that does not override them.
    for method in ["_pintle/session.load", "_raxol/session.load"] {
        peer.request(4, method, json!({"sessionId":"s","cwd":"/","mcpServers":[]})).await;
        assert_eq!(code(&peer.line().await), -32601, "{method}");
    }
}

/// R-022, Inv-9: there is no call that must not be made from a handler. The loop runs no handler, so none can wait for it.
#[tokio::test(start_paused = true)]
async fn every_call_may_be_made_from_a_handler_r022() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.request(1, "_t/inside", json!({})).await;
    assert_eq!(peer.line().await["method"], "_t/note");
    assert_eq!(peer.line().await["result"], json!([true, false, true, true]));
    assert!(peer.try_line().await.is_none(), "it closed");
}

/// vendor data in `_meta` is nobody's business here: it changes nothing, and answers carry what the handler put there.
#[tokio::test(start_paused = true)]
async fn meta_passes_through_r135() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.sentinel.expect("zero_update_turn");
    let meta = json!({"raxol.io":{"fromOffset":1},"pintle":[],"traceparent":7});
    let prompt = json!({"sessionId":"s1","prompt":[{"type":"text","text":"meta","_meta":meta}],"_meta":meta});
    peer.request(1, "session/prompt", prompt).await;
    assert_eq!(peer.line().await["result"], json!({"stopReason":"end_turn","_meta":{"kept":true}}));
}

/// R-144, I12, codex and octos on second prompts: the new one is refused while the first runs and while it winds down.
#[tokio::test(start_paused = true)]
async fn a_second_prompt_is_refused_r144() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "ask").await;
    let ask = peer.line().await;
    peer.prompt(2, "s1", "hello").await;
    let refused = peer.line().await;
    assert_eq!((&refused["id"], code(&refused)), (&json!(2), -32600));
    assert_eq!(refused["error"]["data"]["reason"], "prompt already in flight");
    peer.prompt(3, "s2", "hello").await;
    assert_eq!(text(&peer.line().await), "hello", "another session is another matter");
    assert_eq!(peer.line().await["id"], 3);
    peer.answer(&ask, json!({"outcome":{"outcome":"selected","optionId":"yes"}})).await;
    assert_eq!(text(&peer.line().await), "allowed", "the first is untouched");
    assert_eq!(peer.line().await["id"], 1);
}

/// R-149 as G-10 has it: a cancel reaches the root and every subtask; the answer waits for them; a subtask's panic changes
/// nothing.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_every_task_of_the_turn_r149() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.sentinel.expect("handler_panic");
    peer.prompt(1, "s1", "group").await;
    assert_eq!(text(&peer.line().await), "all are at work");
    peer.notify("session/cancel", json!({"sessionId":"s1"})).await;
    let mut said = [text(&peer.line().await).to_owned(), text(&peer.line().await).to_owned()];
    said.sort();
    assert_eq!(said, ["a subtask was told", "the root was told"]);
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    assert_eq!(agent.connection().counters().handler_panic, 1);
}

/// R-150 as the design has it: a prompt that is given up is cancelled and answered once; its id and its session are free.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_given_up_is_cancelled_r150() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.prompt(1, "s1", "wait").await;
    peer.notify("$/cancel_request", json!({"requestId":1})).await;
    peer.notify("$/cancel_request", json!({"requestId":1})).await;
    assert_eq!(peer.line().await["result"]["stopReason"], "cancelled");
    assert!(peer.line_if_any().await.is_none());
    peer.prompt(1, "s1", "again").await;
    assert_eq!(text(&peer.line().await), "again");
    assert_eq!(peer.line().await["result"]["stopReason"], "end_turn");
}

/// R-152, G-11: what the root returns is the answer: a response with its `_meta`, an error with its data, a panic as -32603.
#[tokio::test(start_paused = true)]
async fn what_the_root_returns_is_the_answer_r152() {
    let (mut peer, _agent, _served) = Scripted::start().await;
    peer.sentinel.expect("handler_panic");
    peer.sentinel.expect("zero_update_turn");
    peer.prompt(1, "s1", "meta").await;
    assert_eq!(peer.line().await["result"]["_meta"], json!({"kept":true}));
    peer.prompt(2, "s1", "error").await;
    assert_eq!(peer.line().await["error"], json!({"code":-32099,"message":"mine","data":{"why":1}}));
    peer.prompt(3, "s1", "panic").await;
    assert_eq!(peer.line().await["error"], json!({"code":-32603,"message":"Internal error"}));
}

/// an empty chunk is refused and counted; R-155: a good turn without a word is counted, and nothing is made up.
#[tokio::test(start_paused = true)]
async fn empty_chunks_and_silent_turns_r154_r155() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.sentinel.expect("empty_chunk_rejected");
    peer.sentinel.expect("zero_update_turn");
    peer.prompt(1, "s1", "empty").await;
    assert_eq!(text(&peer.line().await), "empty chunk");
    assert_eq!(peer.line().await["id"], 1);
    assert_eq!(agent.connection().counters().empty_chunk_rejected, 1);
    assert_eq!(agent.connection().counters().zero_update_turn, 0);
    peer.prompt(2, "s1", "silent").await;
    assert_eq!(peer.line().await["result"], json!({"stopReason":"end_turn"}));
    assert_eq!(agent.connection().counters().zero_update_turn, 1);
}

/// Inv-8, Inv-19: an agent that waits for its client inside a handler, and one that forgets an answer it took away.
#[tokio::test(start_paused = true)]
async fn handlers_wait_and_forget_without_harm() {
    let (mut peer, agent, _served) = Scripted::start().await;
    peer.sentinel.expect("dropped_reply");
    peer.request(1, "_t/ask", json!({})).await;
    let ask = peer.line().await;
    peer.request(2, "_t/forget", json!({})).await;
    assert_eq!(code(&peer.line().await), -32603);
    peer.answer(&ask, json!("yes")).await;
    assert_eq!(peer.line().await["result"], "\"yes\"");
    assert_eq!(agent.connection().counters().dropped_reply, 1);
}

/// symposium-acp#112: what was handed over before a flush has been written when it returns, updates before their answer.
#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_the_writing() {
    let (mut peer, agent, _served) = Scripted::start().await;
    let flushing = agent.connection().clone();
    peer.prompt(1, "s1", "flood 300").await;
    tokio::task::yield_now().await;
    let flushed = tokio::spawn(async move { flushing.flush().await });
    let mut updates = 0;
    loop {
        let frame = peer.line().await;
        if frame["id"] == 1 {
            break;
        }
        updates += 1;
    }
    assert_eq!(updates, 300);
    flushed.await.expect("flushed");
}
