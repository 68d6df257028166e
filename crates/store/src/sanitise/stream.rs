//! Text in chunks: what may be the beginning of a secret is held back until it shows.

use super::{
    Edit, Redactions, Rule, Run, Sanitised, Sanitiser, Shape,
    text::{self, CONTEXT_BYTES, LOOKAHEAD_BYTES},
};

/// The least that is held back: a token that only its end makes one, such as a JWT, is found up to this length.
pub(super) const MIN_HELD_BYTES: usize = 16 * 1024;
/// Chunks are looked at when there are so many more bytes. What is held back is looked at again each time, so a step is long
/// beside it.
const STEP_BYTES: usize = 256 * 1024;
/// A secret that is longer than this is dropped as it comes.
pub(super) const MAX_SECRET_BYTES: usize = 256 * 1024;

const _: () = assert!(MIN_HELD_BYTES >= LOOKAHEAD_BYTES);

/// Replaces secrets in text that comes in chunks, wherever it is cut. Made by [`Sanitiser::stream`].
///
/// It holds back 16 KiB, or 36 times the longest canary (of which 4 KiB count), and while a secret goes on up to 256 KiB
/// more. A secret that is longer, such as a private key without an end, is dropped as it comes. What only strict JSON as a
/// whole shows is not seen here; members with sensitive names are.
#[derive(Debug)]
pub struct StreamRedactor<'a> {
    sanitiser: &'a Sanitiser,
    /// Raw bytes: first what was let go and still tells what the next ones are, then what is held back.
    buffer: Vec<u8>,
    /// Where the part begins that is held back.
    held: usize,
    hold_back: usize,
    /// Inside a secret whose marker was written already.
    inside: Run,
    /// What was replaced since the last piece.
    redactions: Redactions,
}

/// Edits that touch each other.
pub(super) struct Group {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The first of them, whose marker is written.
    pub(super) first: usize,
    pub(super) edits: std::ops::Range<usize>,
}

impl<'a> StreamRedactor<'a> {
    pub(super) fn new(sanitiser: &'a Sanitiser) -> Self {
        Self {
            sanitiser,
            buffer: Vec::new(),
            held: 0,
            hold_back: sanitiser.hold_back_bytes(),
            inside: Run::None,
            redactions: Redactions::default(),
        }
    }

    /// Takes the next chunk and gives back what is certain by now, often nothing.
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> Sanitised {
        self.take(chunk);
        let mut out = Vec::new();
        if self.buffer.len() - self.held >= self.hold_back + STEP_BYTES {
            self.let_go(&mut out, false);
        }
        self.piece(out)
    }

    /// The end of the text: gives back the rest.
    #[must_use]
    pub fn finish(mut self) -> Sanitised {
        let mut out = Vec::new();
        if self.inside == Run::None {
            self.let_go(&mut out, true);
        }
        self.piece(out)
    }

    /// How many bytes wait to be judged, with those that tell what the next ones are.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn take(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
        if self.inside == Run::None {
            return;
        }
        // The buffer holds nothing but the last bytes of the secret.
        match self.inside.find_end(&self.buffer, 0) {
            Some(end) => {
                self.buffer.drain(..end);
                self.inside = Run::None;
            }
            None => self.keep_overlap(),
        }
    }

    fn keep_overlap(&mut self) {
        let overlap = self.inside.overlap_bytes(&self.buffer);
        self.buffer.drain(..self.buffer.len() - overlap);
        self.held = 0;
    }

    fn let_go(&mut self, out: &mut Vec<u8>, is_last: bool) {
        let mut edits = text::find(&self.sanitiser.canaries, &self.buffer);
        edits.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
        edits.retain(|edit| edit.end > self.held);
        let len = self.buffer.len();
        let limit = if is_last { len } else { len - self.hold_back };
        let (mut at, mut cut) = (self.held, limit);
        for group in groups(&edits) {
            let start = group.start.max(self.held);
            if start >= limit {
                break;
            }
            // What reaches into the part that is held back is held back whole, unless it is too long for that.
            let is_open = !is_last && group.end > limit;
            if is_open && len - start <= self.hold_back + MAX_SECRET_BYTES {
                cut = start;
                break;
            }
            out.extend_from_slice(&self.buffer[at..start]);
            out.extend_from_slice(&edits[group.first].with);
            edits[group.edits.clone()].iter().for_each(|edit| self.redactions.count(edit.rule));
            at = group.end;
            cut = limit.max(at);
            if is_open && group.end == len {
                let open = edits[group.edits].iter().find(|edit| edit.end == len && edit.run != Run::None);
                self.inside = open.map_or(Run::None, |edit| edit.run);
            }
        }
        out.extend_from_slice(&self.buffer[at..cut.max(at)]);
        let cut = cut.max(at);
        if self.inside != Run::None {
            self.keep_overlap();
            return;
        }
        self.held = cut.min(CONTEXT_BYTES);
        self.buffer.drain(..cut - self.held);
    }

    /// What was replaced may have put a secret together: then nothing of the piece is kept. Where nothing was replaced, the
    /// piece is a part of what was looked through already.
    fn piece(&mut self, mut out: Vec<u8>) -> Sanitised {
        if !self.redactions.is_empty() && !self.sanitiser.canaries.find(&out).is_empty() {
            self.redactions.count(Rule::Canary);
            out = format!("{} {} bytes omitted", Rule::Canary.marker(), out.len()).into_bytes();
        }
        Sanitised {
            bytes: out,
            shape: Shape::Bytes,
            is_canonical: false,
            redactions: std::mem::take(&mut self.redactions),
        }
    }
}

/// Edits in order, those that overlap taken together.
pub(super) fn groups(edits: &[Edit]) -> impl Iterator<Item = Group> + use<'_> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let first = next;
        let Edit { start, mut end, .. } = *edits.get(first)?;
        next += 1;
        while let Some(edit) = edits.get(next).filter(|edit| edit.start < end) {
            end = end.max(edit.end);
            next += 1;
        }
        Some(Group { start, end, first, edits: first..next })
    })
}
