//! The memory that what passes is read into.
//!
//! What waits to be recorded stays where it was read. A flood needs much of it at once, and to get fresh memory from the
//! system takes the relay longer than to pass on what is read into it. So there is some that has been touched before, and
//! what is recorded is used again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;

/// Memory is had and given back in such pieces.
const BLOCK_BYTES: usize = 1024 * 1024;
/// A block with less room than this is done with.
const LEAST_ROOM_BYTES: usize = 4 * 1024;
/// Kept ready, and kept of each direction behind a flood. A flood of a hundred thousand updates takes most of it.
pub(super) const READY_BYTES: usize = 24 * 1024 * 1024;
const READY_BLOCKS: usize = READY_BYTES / BLOCK_BYTES;

/// Blocks that nobody has used yet.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<BytesMut>>);

impl Spare {
    /// Makes the blocks, outside of the relay, as long as somebody may need them.
    pub(super) fn fill(&self, is_over: impl Fn() -> bool) {
        for _ in 0..READY_BLOCKS {
            if is_over() {
                return;
            }
            // Written to, so that the system has given all of it.
            let mut block = vec![u8::MAX; BLOCK_BYTES];
            block.clear();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(BytesMut::from(bytes::Bytes::from(block)));
        }
    }

    fn take(&self) -> Option<BytesMut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// The blocks of one direction.
#[derive(Debug)]
pub(super) struct Blocks {
    current: BytesMut,
    /// Those that are full, the oldest first: what was read into them may wait to be recorded.
    full: VecDeque<BytesMut>,
    spare: Arc<Spare>,
}

impl Blocks {
    pub(super) fn new(spare: Arc<Spare>) -> Self {
        Self { current: BytesMut::with_capacity(BLOCK_BYTES), full: VecDeque::new(), spare }
    }

    /// An empty block, or what is left of one, that has room.
    pub(super) fn with_room(&mut self) -> &mut BytesMut {
        if self.current.capacity() < LEAST_ROOM_BYTES && !self.current.try_reclaim(LEAST_ROOM_BYTES) {
            let next = self.next();
            let full = std::mem::replace(&mut self.current, next);
            // One more is given back when what is in it has been recorded.
            if self.full.len() < READY_BLOCKS {
                self.full.push_back(full);
            }
        }
        &mut self.current
    }

    fn next(&mut self) -> BytesMut {
        if self.full.front_mut().is_some_and(|oldest| oldest.try_reclaim(BLOCK_BYTES))
            && let Some(oldest) = self.full.pop_front()
        {
            return oldest;
        }
        self.spare.take().unwrap_or_else(|| BytesMut::with_capacity(BLOCK_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, Bytes};

    use super::*;

    /// Reads so many chunks of a quarter of a block.
    fn read(blocks: &mut Blocks, chunks: usize) -> Vec<Bytes> {
        (0..chunks)
            .map(|_| {
                let block = blocks.with_room();
                let bytes = block.capacity().min(BLOCK_BYTES / 4);
                block.put_bytes(b'x', bytes);
                block.split().freeze()
            })
            .collect()
    }

    fn places(chunks: &[Bytes]) -> Vec<*const u8> {
        let mut places: Vec<_> = chunks.iter().map(|chunk| chunk.as_ptr()).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn what_was_recorded_is_read_into_again() {
        let mut blocks = Blocks::new(Arc::default());
        let first = read(&mut blocks, 4);
        let held = read(&mut blocks, 4);
        assert!(places(&first).iter().all(|place| !places(&held).contains(place)), "what waits is left alone");
        let expected = places(&first);
        drop(first);
        assert_eq!(places(&read(&mut blocks, 4)), expected);
    }

    #[test]
    fn what_is_recorded_at_once_needs_one_block() {
        let mut blocks = Blocks::new(Arc::default());
        let expected = read(&mut blocks, 1)[0].as_ptr();
        for _ in 0..40 {
            drop(read(&mut blocks, 3));
            assert_eq!(read(&mut blocks, 1)[0].as_ptr(), expected);
        }
        assert!(blocks.full.is_empty());
    }

    #[test]
    fn a_trace_that_is_over_makes_no_more_memory() {
        let spare = Spare::default();
        spare.fill(|| true);
        assert!(spare.take().is_none());
    }

    #[test]
    fn a_flood_uses_what_is_ready_and_keeps_no_more_than_that() {
        let spare = Arc::new(Spare::default());
        spare.fill(|| false);
        let mut blocks = Blocks::new(spare.clone());
        let flood = read(&mut blocks, 4 * (1 + READY_BLOCKS));
        assert!(spare.take().is_none());
        let more = read(&mut blocks, 4 * READY_BLOCKS);
        assert_eq!(blocks.full.len(), READY_BLOCKS);
        drop((flood, more));
        let again = read(&mut blocks, 8 * READY_BLOCKS);
        assert_eq!(again.len(), 8 * READY_BLOCKS);
        assert!(blocks.full.len() <= READY_BLOCKS);
    }
}
