//! What the relay hands to the recorder: bounded, and never waited for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use pintle_sdk::process::Exit;

use super::blocks::READY_BYTES;
use super::row::Dir;

/// Bytes that may wait to be recorded. A disk that is slower than the peers for longer than this lasts costs records, and
/// never bytes of theirs.
pub(super) const QUEUE_BYTES: usize = 32 * 1024 * 1024;
/// What passes may gather for so long before the recorder looks at it. To wake it for every chunk would cost the relay more
/// than the chunk does.
const GATHER: Duration = Duration::from_millis(20);
/// While more than this comes in each such time, a flood passes: it is looked at when it is over, since what the recorder
/// does meanwhile, the peers wait for.
const FLOOD_BYTES: usize = 256 * 1024;
/// So many times the recorder waits for the end of a flood.
const FLOOD_GATHERS: usize = 10;
/// So much is looked at without waiting for more. All that memory is kept ready for may gather: on a machine of two processors
/// to look at a flood while it passes makes it take several times as long.
const GATHER_BYTES: usize = READY_BYTES;
/// What an item costs beside its bytes.
const ITEM_BYTES: usize = 64;

/// Something that happened on the wire, with its time since the start.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) t_ns: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// Bytes that were read, as they came.
    Bytes(Dir, Bytes),
    /// So many bytes passed for which there was no room.
    Lost(Dir, u64),
    /// The direction ended.
    Eof(Dir),
    /// Whoever was to read this direction does not.
    Refused(Dir),
    /// The agent's process ended.
    Exit(Option<Exit>),
}

/// The queue. One side never waits, the other does.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    closed: AtomicBool,
}

/// What the recorder is to be woken for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Waits {
    #[default]
    Not,
    ForAnything,
    ForMuch,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Seen>,
    bytes: usize,
    lost: [u64; 2],
    reader: Waits,
}

impl Queue {
    /// Hands bytes over, or counts them where there is no room.
    pub(super) fn push_bytes(&self, t_ns: u64, dir: Dir, bytes: Bytes) {
        let mut state = self.lock();
        if state.bytes + bytes.len() + ITEM_BYTES > QUEUE_BYTES {
            state.lost[dir as usize] += bytes.len() as u64;
            return;
        }
        state.bytes += bytes.len() + ITEM_BYTES;
        self.push(state, Seen { t_ns, what: What::Bytes(dir, bytes) });
    }

    /// Hands over what happens a few times in a trace, and is never left out.
    pub(super) fn push_rare(&self, t_ns: u64, what: What) {
        self.push(self.lock(), Seen { t_ns, what });
    }

    fn push(&self, mut state: MutexGuard<'_, State>, seen: Seen) {
        // What was lost was lost before this.
        for dir in Dir::BOTH {
            let bytes = std::mem::take(&mut state.lost[dir as usize]);
            if bytes > 0 {
                state.items.push_back(Seen { t_ns: seen.t_ns, what: What::Lost(dir, bytes) });
            }
        }
        state.items.push_back(seen);
        let wake = match state.reader {
            Waits::Not => false,
            Waits::ForAnything => true,
            Waits::ForMuch => state.bytes >= GATHER_BYTES,
        };
        if wake {
            state.reader = Waits::Not;
        }
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        let state = self.lock();
        self.closed.store(true, Ordering::Release);
        drop(state);
        self.filled.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Everything that is there, a moment after there is something; `None` once the queue is closed, whatever is left in it.
    pub(super) fn take(&self) -> Option<VecDeque<Seen>> {
        let mut state = self.lock();
        while state.items.is_empty() && !self.is_closed() {
            state.reader = Waits::ForAnything;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        for _ in 0..FLOOD_GATHERS {
            if state.bytes >= GATHER_BYTES || self.is_closed() {
                break;
            }
            let before = state.bytes;
            state.reader = Waits::ForMuch;
            state = self.filled.wait_timeout(state, GATHER).unwrap_or_else(PoisonError::into_inner).0;
            if state.bytes < before + FLOOD_BYTES {
                break;
            }
        }
        state.reader = Waits::Not;
        if self.is_closed() {
            return None;
        }
        state.bytes = 0;
        Some(std::mem::take(&mut state.items))
    }

    /// What is left in a queue that is closed.
    pub(super) fn rest(&self) -> VecDeque<Seen> {
        std::mem::take(&mut self.lock().items)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(queue: &Queue) -> Vec<String> {
        queue.close();
        assert!(queue.take().is_none(), "what is left is for whoever finishes");
        let items = queue.rest();
        items
            .into_iter()
            .map(|seen| match seen.what {
                What::Bytes(dir, bytes) => format!("{dir:?} {}", bytes.len()),
                What::Lost(dir, bytes) => format!("{dir:?} lost {bytes}"),
                other => format!("{other:?}"),
            })
            .collect()
    }

    /// Inv-10: a recorder that does not keep up costs records; nobody waits for it, and the loss is told in its place.
    #[test]
    fn what_has_no_room_is_counted() {
        let queue = Queue::default();
        let chunk = Bytes::from(vec![b'x'; QUEUE_BYTES / 2]);
        for _ in 0..4 {
            queue.push_bytes(0, Dir::FromAgent, chunk.clone());
        }
        queue.push_bytes(0, Dir::ToAgent, chunk);
        queue.push_rare(1, What::Eof(Dir::ToAgent));
        let half = QUEUE_BYTES / 2;
        assert_eq!(
            words(&queue),
            [
                format!("FromAgent {half}"),
                format!("ToAgent lost {half}"),
                format!("FromAgent lost {}", 3 * half),
                "Eof(ToAgent)".to_owned(),
            ]
        );
    }

    #[test]
    fn room_comes_back_when_items_are_taken() {
        let queue = Queue::default();
        queue.push_bytes(0, Dir::ToAgent, Bytes::from(vec![b'x'; QUEUE_BYTES - ITEM_BYTES]));
        queue.push_bytes(0, Dir::ToAgent, Bytes::from_static(b"no room"));
        assert_eq!(queue.take().expect("one").len(), 1);
        queue.push_bytes(0, Dir::ToAgent, Bytes::from_static(b"room"));
        assert_eq!(words(&queue), ["ToAgent lost 7", "ToAgent 4"]);
    }
}
