//! What every transport promises (R-220), and what a connection makes of the bytes that one hands up.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use pintle_sdk::acp::types::{NewSessionRequest, NewSessionResponse};
use pintle_sdk::acp::{Agent, Client, Closed, Ctx, Error, RequestError, SendError, connect, serve};
use pintle_sdk::transport::{MEMORY_PIPE_BYTES, Memory, Transport, TransportKind, memory, stream};
use serde_json::{Value, json};

/// Lines sent each way: many times what a pipe holds.
const LINES: usize = 20_000;

async fn write_all(transport: &mut impl Transport, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| transport.poll_write(cx, &[IoSlice::new(bytes)])).await.expect("the peer reads");
        bytes = &bytes[written..];
    }
    poll_fn(|cx| transport.poll_flush(cx)).await.expect("the peer reads");
}

async fn read_to_end(transport: &mut impl Transport) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = vec![0; 4096];
    loop {
        match poll_fn(|cx| transport.poll_read(cx, &mut chunk)).await.expect("no fault of the carrier") {
            0 => return all,
            read => all.extend_from_slice(&chunk[..read]),
        }
    }
}

fn numbered() -> Vec<u8> {
    (0..LINES).flat_map(|n| format!("{{\"n\":{n}}}\n").into_bytes()).collect()
}

/// Sends numbered lines from `from` to `to` and closes. `Err` names the first that came in another place.
async fn check_order(mut from: impl Transport, mut to: impl Transport) -> Result<(), String> {
    let sender = tokio::spawn(async move {
        write_all(&mut from, &numbered()).await;
        for _ in 0..2 {
            poll_fn(|cx| from.poll_close(cx)).await.expect("closing twice is closing once");
        }
        from
    });
    let got = read_to_end(&mut to).await;
    drop(sender.await.expect("sent"));
    let sent = numbered();
    match got.iter().zip(&sent).position(|(got, sent)| got != sent) {
        None if got.len() == sent.len() => Ok(()),
        at => Err(format!("{} of {} bytes, the first other one at {at:?}", got.len(), sent.len())),
    }
}

/// R-220: reliable and ordered in each direction, closing is idempotent and seen by the peer.
#[tokio::test]
async fn r_220_carriers_keep_the_order_in_both_directions() {
    let (left, right) = memory();
    check_order(left, right).await.expect("memory");
    let (left, right) = memory();
    check_order(right, left).await.expect("memory, the other way");
    let (left, right) = tokio::io::duplex(64);
    let ((left_reader, left_writer), (right_reader, right_writer)) = (tokio::io::split(left), tokio::io::split(right));
    check_order(stream(left_reader, left_writer), stream(right_reader, right_writer)).await.expect("a stream");
}

/// A carrier that hands up every other chunk first.
struct Shuffling(Memory, VecDeque<Vec<u8>>);

impl Transport for Shuffling {
    fn kind(&self) -> TransportKind {
        self.0.kind()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.1.len() < 2 {
            let mut chunk = vec![0; buf.len()];
            match self.0.poll_read(cx, &mut chunk) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(read) => {
                    chunk.truncate(read?);
                    self.1.push_back(chunk);
                }
            }
        }
        let Some(chunk) = self.1.pop_back() else { return Poll::Ready(Ok(0)) };
        buf[..chunk.len()].copy_from_slice(&chunk);
        Poll::Ready(Ok(chunk.len()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bufs)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }
}

/// R-220, F7: the check above sees a carrier that does not keep the order.
#[tokio::test]
async fn r_220_a_carrier_that_shuffles_is_found_out() {
    let (left, right) = memory();
    let found = check_order(left, Shuffling(right, VecDeque::new())).await;
    assert!(found.is_err_and(|what| what.contains("the first other one at Some")));
}

/// R-230: both ends of a pair may send more than it holds at the same time; closing one shows the other the end.
#[tokio::test]
async fn r_230_both_ends_may_send_at_once() {
    let (mut left, mut right) = memory();
    let bytes = vec![b'x'; 4 * MEMORY_PIPE_BYTES];
    let count = bytes.len();
    // One task for each end, each of which reads and writes by turns, as a connection does.
    let exchange = |end: &mut Memory| {
        let mut end = std::mem::replace(end, memory().0);
        let bytes = bytes.clone();
        tokio::spawn(async move {
            let (mut written, mut read, mut chunk) = (0, 0, vec![0; 4096]);
            poll_fn(|cx| {
                loop {
                    let mut progress = false;
                    if written < count
                        && let Poll::Ready(more) = end.poll_write(cx, &[IoSlice::new(&bytes[written..])])
                    {
                        written += more.expect("the peer reads");
                        progress = true;
                    }
                    if read < count
                        && let Poll::Ready(more) = end.poll_read(cx, &mut chunk)
                    {
                        read += more.expect("the peer writes");
                        progress = true;
                    }
                    if written == count && read == count {
                        return Poll::Ready(());
                    }
                    if !progress {
                        return Poll::Pending;
                    }
                }
            })
            .await;
            end
        })
    };
    let (one, other) = (exchange(&mut left), exchange(&mut right));
    drop(one.await.expect("all of it went through"));
    let mut other = other.await.expect("all of it went through");
    assert_eq!(read_to_end(&mut other).await, b"");
}

struct Sessions;

impl Agent for Sessions {
    async fn new_session(&self, _: NewSessionRequest, _: &Ctx) -> Result<NewSessionResponse, Error> {
        Ok(NewSessionResponse::new("a\nb"))
    }
}

struct Editor;

impl Client for Editor {}

/// What an agent answers to these bytes, which are all it ever gets.
async fn answers(bytes: &[u8]) -> Vec<Value> {
    let (mut ours, theirs) = memory();
    // Before anybody has adopted the other end (R-227).
    write_all(&mut ours, bytes).await;
    poll_fn(|cx| ours.poll_close(cx)).await.expect("closed");
    let served = tokio::spawn(serve(Sessions, theirs));
    let text = read_to_end(&mut ours).await;
    assert_eq!(served.await.expect("no panic").expect("a good end"), Closed::ByPeer);
    let text = String::from_utf8(text).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;

/// R-227: what comes before an end is adopted is kept, and answered in order. R-225: each answer is one line, whatever
/// stands in its strings.
#[tokio::test]
async fn r_227_frames_that_come_early_are_kept() {
    let new = json!({"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}});
    let got = answers(format!("{HELLO}\n{new}\n").as_bytes()).await;
    assert_eq!(got.iter().map(|answer| answer["id"].clone()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(got[1]["result"]["sessionId"], "a\nb");
}

/// R-223, as decided here: the last line counts without its LF, and one byte order mark at the start is no garbage.
#[tokio::test]
async fn r_223_the_last_line_counts_without_its_end() {
    for text in [HELLO.to_owned(), format!("\u{feff}{HELLO}\n"), format!("\n\r\n{HELLO}\r\n")] {
        let got = answers(text.as_bytes()).await;
        assert_eq!((got.len(), &got[0]["result"]["protocolVersion"]), (1, &json!(1)), "{text:?}");
    }
}

/// R-224: what is not JSON is answered -32700 with id null, nothing of it is repeated, and the connection lives.
#[tokio::test]
async fn r_224_garbage_is_answered_and_survived() {
    for garbage in [&b"Welcome!"[..], b"\xff\xfe", b"{\"a\":1,\"a\":2}", b"{"] {
        let mut bytes = garbage.to_vec();
        bytes.extend_from_slice(format!("\n{HELLO}\n").as_bytes());
        let got = answers(&bytes).await;
        assert_eq!((&got[0]["error"]["code"], &got[0]["id"]), (&json!(-32700), &Value::Null), "{garbage:?}");
        assert!(!got[0].to_string().contains("Welcome"), "{}", got[0]);
        assert_eq!(got[1]["result"]["protocolVersion"], 1);
    }
}

/// R-225: frames of many senders never interleave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_225_frames_of_many_senders_never_interleave() {
    const SENDERS: usize = 16;
    const EACH: usize = 50;
    let (mut ours, theirs) = memory();
    let client = connect(Editor, theirs).expect("memory opens");
    let initialized = tokio::spawn(async move {
        client.initialize().await.expect("answered");
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let link = pintle_sdk::acp::Connection::clone(&client);
                tokio::spawn(async move {
                    for n in 0..EACH {
                        let text = "x\n".repeat(n * 97);
                        link.ext_notify("_t/n", &json!({"sender": sender, "n": n, "text": text})).await.expect("sent");
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.expect("all sent");
        }
        client.shut_down().await.expect("closed");
    });
    let mut chunk = vec![0; 4096];
    let read = poll_fn(|cx| ours.poll_read(cx, &mut chunk)).await.expect("a request");
    let hello: Value = serde_json::from_slice(&chunk[..read]).expect("one frame");
    let answer = json!({"jsonrpc":"2.0","id":hello["id"],"result":{"protocolVersion":1}});
    write_all(&mut ours, format!("{answer}\n").as_bytes()).await;
    let text = String::from_utf8(read_to_end(&mut ours).await).expect("UTF-8");
    initialized.await.expect("no panic");
    let mut next = [0; SENDERS];
    for line in text.lines() {
        let frame: Value = serde_json::from_str(line).expect("a whole frame");
        let sender = usize::try_from(frame["params"]["sender"].as_u64().expect("a number")).expect("small");
        assert_eq!(frame["params"]["n"], next[sender], "in the order of its sender");
        next[sender] += 1;
    }
    assert_eq!(next, [EACH; SENDERS]);
}

/// R-229: sending on a closed connection fails at once.
#[tokio::test]
async fn r_229_sending_after_the_end_fails() {
    let (ours, theirs) = memory();
    let client = connect(Editor, ours).expect("memory opens");
    drop(theirs);
    assert_eq!(client.closed().await, Closed::ByPeer);
    let sent = client.ext_notify("_t/n", &()).await;
    assert!(matches!(sent, Err(RequestError::Send(SendError::Closed))), "{sent:?}");
    let asked = client.initialize().await.expect_err("closed");
    assert!(matches!(asked, RequestError::Send(SendError::Closed)), "{asked:?}");
}

/// G-20: the kind of a transport is what this program made, and not what a peer says.
#[tokio::test]
async fn the_kind_is_our_own_knowledge() {
    let (ours, theirs) = memory();
    let (reader, writer) = tokio::io::split(tokio::io::duplex(16).0);
    assert_eq!(stream(reader, writer).kind(), TransportKind::Stream);
    let served = tokio::spawn(serve(Sessions, theirs));
    let client = connect(Editor, ours).expect("memory opens");
    client.initialize().await.expect("answered");
    assert_eq!(client.transport_kind(), TransportKind::InProcess);
    assert!(client.transport_kind().is_local() && !TransportKind::Stream.is_local());
    client.shut_down().await.expect("closed");
    served.await.expect("no panic").expect("a good end");
}
