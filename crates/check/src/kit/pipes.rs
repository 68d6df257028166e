//! The pipes of a session: reads and writes that wait for a pipe that is there, and the exact input on its way.

use std::future::{pending, poll_fn};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pintle_sdk::process::ChildStdin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

/// How soon after a failed open of an input the next one is tried.
const OPEN_RETRY: Duration = Duration::from_millis(5);

/// An exact input on its way.
pub(super) struct Feed {
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
    pub(super) sender: Option<pipe::Sender>,
    pub(super) done: bool,
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
        feeds.iter_mut().filter(|feed| !feed.done).map(|feed| Box::pin(one(feed))).collect();
    poll_fn(|cx| {
        feeds.retain_mut(|feed| feed.as_mut().poll(cx).is_pending());
        Poll::<()>::Pending
    })
    .await;
}

async fn one(feed: &mut Feed) {
    hand_over(feed).await;
    feed.done = true;
    // The driver reads to the end that this makes.
    feed.sender = None;
}

async fn hand_over(feed: &mut Feed) {
    loop {
        let Some(sender) = &feed.sender else {
            match pipe::OpenOptions::new().open_sender(&feed.path) {
                Ok(sender) => feed.sender = Some(sender),
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                    tokio::time::sleep(OPEN_RETRY).await;
                }
                Err(_) => return,
            }
            continue;
        };
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

/// Whether a secret stands in a line.
pub(super) fn contains(line: &[u8], secret: &[u8]) -> bool {
    line.len() >= secret.len() && line.windows(secret.len()).any(|window| window == secret)
}
