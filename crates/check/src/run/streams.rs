//! Companion streams on their way into the evidence, in bounded memory.
//!
//! A stream that is one line of a peer is looked through as a whole, because only that shows which of its members are
//! sensitive. What is longer than any line of ACP can be goes through the redactor for text piece by piece and into the
//! object store; the trace does not have it.

use std::collections::BTreeMap;

use pintle_store::evidence::{EvidenceError, EvidenceRun, ObjectWriter};
use pintle_store::sanitise::{Redactions, StreamRedactor};
use pintle_store::{Sanitised, Sanitiser};
use pintle_wire::{Digest, MAX_ACP_LINE_BYTES};

/// The longest stream that is held as a whole, and how much a scenario holds for its trace in all, in bytes.
const MAX_HELD_BYTES: usize = MAX_ACP_LINE_BYTES;
/// What is held grows by so many bytes at a time, so that it is never copied as a whole.
const BLOCK_BYTES: usize = 1 << 20;

/// Where a stream is kept.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its object, where something is recorded.
    pub(super) object: Option<Result<Digest, EvidenceError>>,
    /// How long it was.
    pub(super) bytes: u64,
    /// The trace does not have it.
    pub(super) untraced: bool,
}

/// The streams of one scenario.
#[derive(Default)]
pub(super) struct Streams<'s> {
    unfinished: BTreeMap<Box<str>, Unfinished<'s>>,
    traced: BTreeMap<Box<str>, Vec<u8>>,
    held_bytes: usize,
}

enum Unfinished<'s> {
    /// Blocks that are full but for the last.
    Whole(Vec<Vec<u8>>),
    InPieces(Box<InPieces<'s>>),
}

struct InPieces<'s> {
    redactor: StreamRedactor<'s>,
    object: Option<Result<ObjectWriter, EvidenceError>>,
    bytes: u64,
}

impl<'s> Streams<'s> {
    /// Takes the next bytes of a stream. At its end, where it is kept.
    pub(super) fn take(
        &mut self,
        sanitiser: &'s Sanitiser,
        run: &mut Option<EvidenceRun>,
        redactions: &mut Redactions,
        stream_id: &str,
        bytes: &[u8],
        is_final: bool,
    ) -> Option<Kept> {
        let stream = self.unfinished.entry(stream_id.into()).or_insert_with(|| Unfinished::Whole(Vec::new()));
        if let Unfinished::Whole(blocks) = stream
            && self.held_bytes + bytes.len() > MAX_HELD_BYTES
        {
            let blocks = std::mem::take(blocks);
            self.held_bytes -= blocks.iter().map(Vec::len).sum::<usize>();
            let mut pieces = InPieces { redactor: sanitiser.stream(), object: None, bytes: 0 };
            pieces.object = run.as_mut().map(EvidenceRun::begin_object);
            for block in blocks {
                pieces.write(run, redactions, &block);
            }
            *stream = Unfinished::InPieces(Box::new(pieces));
        }
        match stream {
            Unfinished::Whole(blocks) => {
                self.held_bytes += bytes.len();
                hold(blocks, bytes);
            }
            Unfinished::InPieces(pieces) => pieces.write(run, redactions, bytes),
        }
        if !is_final {
            return None;
        }
        match self.unfinished.remove(stream_id)? {
            Unfinished::InPieces(pieces) => Some(pieces.finish(run, redactions)),
            Unfinished::Whole(blocks) => {
                let raw = blocks.concat();
                drop(blocks);
                let kept = sanitiser.line(&raw);
                redactions.add(kept.redactions());
                let object = run.as_mut().map(|run| run.put_object(&kept));
                let bytes = raw.len() as u64;
                self.held_bytes = self.held_bytes - raw.len() + kept.bytes().len();
                self.traced.insert(stream_id.into(), kept.into_bytes());
                Some(Kept { object, bytes, untraced: false })
            }
        }
    }

    /// A stream as the trace has it.
    pub(super) fn traced(&self, stream_id: &str) -> Option<Vec<u8>> {
        self.traced.get(stream_id).cloned()
    }
}

fn hold(blocks: &mut Vec<Vec<u8>>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        if blocks.last().is_none_or(|block| block.len() == BLOCK_BYTES) {
            blocks.push(Vec::new());
        }
        let Some(block) = blocks.last_mut() else { return };
        let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - block.len()));
        block.extend_from_slice(now);
        bytes = rest;
    }
}

impl InPieces<'_> {
    fn write(&mut self, run: &mut Option<EvidenceRun>, redactions: &mut Redactions, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let piece = self.redactor.push(bytes);
        keep(&mut self.object, run, redactions, piece);
    }

    fn finish(self, run: &mut Option<EvidenceRun>, redactions: &mut Redactions) -> Kept {
        let Self { redactor, mut object, bytes } = self;
        keep(&mut object, run, redactions, redactor.finish());
        let object = match (object, run) {
            (Some(Ok(writer)), Some(run)) => Some(run.finish_object(writer)),
            (Some(Err(error)), _) => Some(Err(error)),
            _ => None,
        };
        Kept { object, bytes, untraced: true }
    }
}

/// Writes a piece, unless writing has failed before.
fn keep(
    object: &mut Option<Result<ObjectWriter, EvidenceError>>,
    run: &mut Option<EvidenceRun>,
    redactions: &mut Redactions,
    piece: Sanitised,
) {
    redactions.add(piece.redactions());
    if let (Some(Ok(writer)), Some(run)) = (object.as_mut(), run.as_mut())
        && let Err(error) = run.write_object(writer, piece)
    {
        *object = Some(Err(error));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_store::RealFs;
    use pintle_store::evidence::Places;
    use pintle_wire::InstanceId;

    use super::*;

    const SECRET: &str = "s3cr3t-Canary-0123456789";

    fn run(dir: &std::path::Path, sanitiser: &Sanitiser) -> (Places, EvidenceRun) {
        let places = Places::below(dir);
        let facts = sanitiser.value(&serde_json::json!({"schema": "test"})).expect("facts");
        let id = InstanceId::new(1_700_000_000_000, [3; 16]).expect("an id");
        let run = EvidenceRun::create(Arc::new(RealFs), &places, id, &facts).expect("a run");
        (places, run)
    }

    /// Feeds a stream of so many pieces; what was kept, and its bytes.
    fn feed(piece: &[u8], count: usize) -> (Kept, Vec<u8>, bool) {
        let dir = tempfile::tempdir().expect("a directory");
        let sanitiser = Sanitiser::new([SECRET]);
        let (places, evidence) = run(dir.path(), &sanitiser);
        let (mut evidence, mut redactions, mut streams) = (Some(evidence), Redactions::default(), Streams::default());
        let mut kept = None;
        for at in 0..count {
            let is_final = at + 1 == count;
            kept = streams.take(&sanitiser, &mut evidence, &mut redactions, "s1", piece, is_final);
            assert_eq!(kept.is_some(), is_final);
        }
        let kept = kept.expect("it came to its end");
        let digest = *kept.object.as_ref().expect("recorded").as_ref().expect("kept");
        let path = pintle_store::evidence::Objects::new(places.objects).path(&digest);
        let traced = streams.traced("s1").is_some();
        (kept, std::fs::read(path).expect("an object"), traced)
    }

    #[test]
    fn a_line_is_looked_through_as_a_whole() {
        let (kept, bytes, traced) = feed(br#"{"password":"hunter2 is long"}"#, 1);
        assert_eq!((kept.untraced, traced), (false, true));
        assert_eq!(bytes, br#"{"password":"[redacted:member]"}"#);
    }

    #[test]
    fn what_is_longer_than_any_line_goes_through_in_pieces() {
        // A secret lies across the pieces, again and again.
        let mut piece = SECRET.as_bytes()[10..].to_vec();
        piece.resize(300_000, b'.');
        piece.extend_from_slice(&SECRET.as_bytes()[..10]);
        let count = MAX_HELD_BYTES / piece.len() + 20;
        let (kept, bytes, traced) = feed(&piece, count);
        assert_eq!((kept.untraced, traced, kept.bytes), (true, false, (piece.len() * count) as u64));
        assert!(memchr::memmem::find(&bytes, SECRET.as_bytes()).is_none());
        assert_eq!(memchr::memmem::find_iter(&bytes, b"[redacted:canary]").count(), count - 1);
    }

    #[test]
    fn many_streams_hold_no_more_than_one() {
        let sanitiser = Sanitiser::new([SECRET]);
        let (mut redactions, mut streams) = (Redactions::default(), Streams::default());
        let piece = vec![b'.'; MAX_HELD_BYTES / 4];
        for stream in 0..10 {
            streams.take(&sanitiser, &mut None, &mut redactions, &stream.to_string(), &piece, stream % 2 == 0);
            assert!(streams.held_bytes <= MAX_HELD_BYTES);
        }
    }
}
