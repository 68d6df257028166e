//! The pipes of a session: reads and writes that wait for a pipe that is there, and the exact input on its way.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pintle_sdk::process::{ChildStdin, NamedPipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

/// How soon after a failed open of an input the next one is tried.
const OPEN_RETRY: Duration = Duration::from_millis(5);

/// An exact input on its way.
pub(super) struct Feed {
    channel: Channel,
    bytes: Bytes,
}

enum Channel {
    /// The driver has not opened it.
    Waiting(NamedPipe),
    Open(pipe::Sender),
    Closed,
}

impl Feed {
    pub(super) fn new(pipe: NamedPipe, bytes: Bytes) -> Self {
        Self { channel: Channel::Waiting(pipe), bytes }
    }

    pub(super) const fn is_done(&self) -> bool {
        matches!(self.channel, Channel::Closed)
    }
}

pub(super) async fn read(source: &mut Option<impl AsyncReadExt + Unpin>, buffer: &mut BytesMut) -> io::Result<usize> {
    match source {
        Some(source) => source.read_buf(buffer).await,
        None => pending().await,
    }
}

pub(super) async fn write(target: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match target {
        Some(target) => target.write(bytes).await,
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Hands every input over when the driver opens it. Waits without end; cancel safe. What goes wrong shows in the invocation.
pub(super) async fn feed(feeds: &mut [Feed]) {
    let mut feeds: Vec<Pin<Box<_>>> =
        feeds.iter_mut().filter(|feed| !feed.is_done()).map(|feed| Box::pin(one(feed))).collect();
    poll_fn(|cx| {
        feeds.retain_mut(|feed| feed.as_mut().poll(cx).is_pending());
        Poll::<()>::Pending
    })
    .await;
}

async fn one(feed: &mut Feed) {
    hand_over(feed).await;
    // The driver reads to the end that this makes.
    feed.channel = Channel::Closed;
}

async fn hand_over(feed: &mut Feed) {
    loop {
        match &feed.channel {
            Channel::Closed => return,
            // With its name gone, a second opening finds nothing.
            Channel::Waiting(pipe) => match pipe.sender() {
                Ok(Some(sender)) => feed.channel = Channel::Open(sender),
                Ok(None) => tokio::time::sleep(OPEN_RETRY).await,
                Err(_) => return,
            },
            Channel::Open(sender) => {
                if feed.bytes.is_empty() || sender.writable().await.is_err() {
                    return;
                }
                match sender.try_write(&feed.bytes) {
                    Ok(count) => feed.bytes.advance(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    }
}

/// Whether a secret stands in a line.
pub(super) fn contains(line: &[u8], secret: &[u8]) -> bool {
    line.len() >= secret.len() && line.windows(secret.len()).any(|window| window == secret)
}
