//! The digest of an object that comes in pieces: beside the writing, once it is a long one. Hashing a piece takes about as
//! long as writing it, and neither waits for the other.

use std::{
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use pintle_wire::{Digest, DigestBuilder};

/// Pieces that wait to be hashed; whoever has more waits.
const MAX_WAITING_PIECES: usize = 4;

/// The digest of what came so far.
#[derive(Debug)]
pub(super) struct Hashing(Place);

#[derive(Debug)]
enum Place {
    Here(DigestBuilder),
    /// On a thread, which ends when nobody can send it a piece any more.
    Aside {
        pieces: SyncSender<Vec<u8>>,
        thread: JoinHandle<DigestBuilder>,
    },
}

impl Default for Hashing {
    fn default() -> Self {
        Self(Place::Here(DigestBuilder::new()))
    }
}

impl Hashing {
    /// What comes from here on is hashed on a thread, if there can be one.
    pub(super) fn move_aside(&mut self) {
        let Place::Here(digest) = &self.0 else { return };
        let mut digest = digest.clone();
        let (pieces, received) = sync_channel::<Vec<u8>>(MAX_WAITING_PIECES);
        let hash = move || {
            received.iter().for_each(|piece| digest.update(&piece));
            digest
        };
        if let Ok(thread) = thread::Builder::new().name("digest".to_owned()).spawn(hash) {
            self.0 = Place::Aside { pieces, thread };
        }
    }

    pub(super) fn update(&mut self, piece: Vec<u8>) {
        match &mut self.0 {
            Place::Here(digest) => digest.update(&piece),
            // It takes them until this end is dropped; if it has panicked, `finish` says so.
            Place::Aside { pieces, .. } => drop(pieces.send(piece)),
        }
    }

    pub(super) fn finish(self) -> Digest {
        match self.0 {
            Place::Here(digest) => digest.finish(),
            Place::Aside { pieces, thread } => {
                drop(pieces);
                match thread.join() {
                    Ok(digest) => digest.finish(),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_same_wherever_it_is_taken() {
        let text: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        for aside_from in [0, 1, 7, 100] {
            let mut hashing = Hashing::default();
            for (number, piece) in text.chunks(1_000).enumerate() {
                if number >= aside_from {
                    hashing.move_aside();
                }
                hashing.update(piece.to_vec());
            }
            assert_eq!(hashing.finish(), Digest::of(&text), "aside from piece {aside_from}");
        }
    }
}
