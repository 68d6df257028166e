//! What a child wrote to its standard error: all of it read, the head and the tail kept.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
};

/// How much of the beginning is kept.
pub const STDERR_HEAD_BYTES: usize = 64 * 1024;

/// How much of the end is kept.
pub const STDERR_TAIL_BYTES: usize = 64 * 1024;

/// A child's standard error, drained in the background so that the child never blocks on it, whatever it writes.
///
/// Clones look at the same capture.
#[derive(Debug, Clone)]
pub struct StderrCapture {
    shared: Arc<Mutex<Captured>>,
    closed: watch::Receiver<bool>,
    total: watch::Receiver<u64>,
}

/// What is kept of a standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes, at most [`STDERR_HEAD_BYTES`].
    pub head: Vec<u8>,
    /// The last bytes behind the head, at most [`STDERR_TAIL_BYTES`].
    pub tail: VecDeque<u8>,
    /// How many bytes the child wrote.
    pub total_bytes: u64,
}

impl Captured {
    /// How many bytes between head and tail are gone.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// Whether anything is missing.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.omitted_bytes() > 0
    }

    /// Head and tail as text, with a line in between that says how much is missing. What is not UTF-8 is replaced.
    #[must_use]
    pub fn to_text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.is_truncated() {
            let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
            format!("{head}\n[{} bytes omitted]\n{tail}", self.omitted_bytes())
        } else {
            String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned()
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let room = STDERR_HEAD_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        bytes = &rest[rest.len().saturating_sub(STDERR_TAIL_BYTES)..];
        let over = (self.tail.len() + bytes.len()).saturating_sub(STDERR_TAIL_BYTES);
        self.tail.drain(..over);
        self.tail.extend(bytes);
    }
}

impl StderrCapture {
    /// Starts to drain `source`, in a task of the current runtime that ends at its end of file.
    pub(crate) fn start(source: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let shared = Arc::<Mutex<Captured>>::default();
        let (done, closed) = watch::channel(false);
        let (counted, total) = watch::channel(0);
        tokio::spawn(drain(source, Arc::clone(&shared), done, counted));
        Self { shared, closed, total }
    }

    /// A copy of what is kept so far.
    #[must_use]
    pub fn snapshot(&self) -> Captured {
        lock(&self.shared).clone()
    }

    /// How many bytes the child wrote so far.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        *self.total.borrow()
    }

    /// Waits until the child has written more than `bytes` in all; without end if it never does. Cancel safe.
    pub async fn more_than(&mut self, bytes: u64) {
        if self.total.wait_for(|total| *total > bytes).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until nobody has the other end any more, and returns what is kept. Cancel safe.
    pub async fn closed(&mut self) -> Captured {
        // An error means that the draining task is gone with its runtime: there will be no more.
        let _ = self.closed.wait_for(|closed| *closed).await;
        self.snapshot()
    }
}

async fn drain(
    mut source: impl AsyncRead + Unpin,
    shared: Arc<Mutex<Captured>>,
    done: watch::Sender<bool>,
    counted: watch::Sender<u64>,
) {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        match source.read(&mut chunk).await {
            Ok(0) => break,
            Ok(count) => {
                let total = {
                    let mut captured = lock(&shared);
                    captured.push(&chunk[..count]);
                    captured.total_bytes
                };
                counted.send_replace(total);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done.send_replace(true);
}

fn lock(shared: &Mutex<Captured>) -> MutexGuard<'_, Captured> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn head_and_tail_are_those_of_the_whole(chunks in prop::collection::vec(0_usize..90_000, 0..6)) {
            let whole: Vec<u8> = (0..chunks.iter().sum::<usize>()).map(|i| (i % 251) as u8).collect();
            let mut captured = Captured::default();
            let mut rest = whole.as_slice();
            for chunk in chunks {
                let (now, later) = rest.split_at(chunk);
                captured.push(now);
                rest = later;
            }
            let head = whole.len().min(STDERR_HEAD_BYTES);
            let tail = (whole.len() - head).min(STDERR_TAIL_BYTES);
            prop_assert_eq!(&captured.head, &whole[..head]);
            prop_assert_eq!(captured.tail.iter().copied().collect::<Vec<_>>(), whole[whole.len() - tail..].to_vec());
            prop_assert_eq!(captured.omitted_bytes() as usize, whole.len() - head - tail);
        }
    }
}
