//! Text in pieces that stay apart: a secret that lies across their borders is replaced in all of them.

use std::collections::VecDeque;

use super::{
    Edit, Redactions, Rule, Run, Sanitised, Sanitiser, Shape, cut,
    stream::{Group, MAX_SECRET_BYTES, groups},
    text::{self, CONTEXT_BYTES},
};

/// Pieces are looked at when there are so many more bytes of them.
const STEP_BYTES: usize = 16 * 1024;
/// So many pieces are held at most; of more, the older half is let go.
const MAX_PIECES: usize = 4096;

/// Replaces secrets in text whose pieces are kept one by one, such as what a program wrote to its standard error from time
/// to time, or the deltas of a message. Made by [`Sanitiser::pieces`].
///
/// Each piece comes back with what it was pushed with, in order, once nothing that follows can be the rest of a secret in
/// it: 16 KiB later, or 36 times the longest canary, or 4096 pieces; and at the end. A secret that lies in several pieces has
/// its marker where it begins, and is gone from the others. What was not replaced is as it was.
#[derive(Debug)]
pub struct PieceRedactor<'a, T> {
    sanitiser: &'a Sanitiser,
    /// Raw bytes: first what was let go and still tells what the next ones are, then the pieces that are held.
    buffer: Vec<u8>,
    held: usize,
    hold_back: usize,
    pieces: VecDeque<(T, usize)>,
    /// Inside a secret whose marker is in a piece that was let go.
    inside: Run,
    /// So many bytes of what is held belong to a secret whose marker was written already.
    covered: usize,
    /// What is held begins behind bytes that were left out.
    after_gap: bool,
    looked_at: usize,
}

/// What follows on what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// More of the text.
    More,
    /// Bytes that nobody has.
    Gap,
    Nothing,
}

impl<'a, T> PieceRedactor<'a, T> {
    pub(super) fn new(sanitiser: &'a Sanitiser) -> Self {
        Self {
            sanitiser,
            buffer: Vec::new(),
            held: 0,
            hold_back: sanitiser.hold_back_bytes(),
            pieces: VecDeque::new(),
            inside: Run::None,
            covered: 0,
            after_gap: false,
            looked_at: 0,
        }
    }

    /// Takes the next piece, and gives back those that are certain by now.
    #[must_use]
    pub fn push(&mut self, with: T, piece: &[u8]) -> Vec<(T, Sanitised)> {
        let before = self.buffer.len();
        self.buffer.extend_from_slice(piece);
        self.pieces.push_back((with, piece.len()));
        if self.inside != Run::None {
            let end = self.inside.find_end(&self.buffer, before);
            self.covered = end.unwrap_or(self.buffer.len()) - self.held;
            if end.is_some() {
                self.inside = Run::None;
            }
        }
        let many = self.pieces.len() >= MAX_PIECES;
        let held = self.buffer.len() - self.held;
        if many || held >= self.hold_back + STEP_BYTES && held >= self.looked_at + STEP_BYTES {
            return self.let_go(if many { self.hold_back.min(held / 2) } else { self.hold_back }, Follows::More);
        }
        Vec::new()
    }

    /// Bytes of the text were left out between what came and what comes next: gives back the rest of the one. A secret that
    /// lies across the gap would not be known by its parts, so what stands on either side of it is replaced: as much as the
    /// longest canary can take, and from there to the next border of a line, 16 KiB at most or 36 times the longest canary.
    #[must_use]
    pub fn gap(&mut self) -> Vec<(T, Sanitised)> {
        let certain = self.let_go(0, Follows::Gap);
        self.buffer.clear();
        (self.held, self.covered, self.looked_at) = (0, 0, 0);
        self.inside = Run::None;
        self.after_gap = true;
        certain
    }

    /// The end of the text: gives back the rest.
    #[must_use]
    pub fn finish(mut self) -> Vec<(T, Sanitised)> {
        self.let_go(0, Follows::Nothing)
    }

    /// What of the text is beside a gap.
    fn beside_gaps(&self, follows: Follows) -> impl Iterator<Item = Edit> {
        let canary_bytes = self.sanitiser.canaries.longest_spelling_bytes();
        let (held, len) = (self.held, self.buffer.len());
        let text = &self.buffer[held..];
        let before = self.after_gap.then(|| (held, held + cut::whole_from(text, canary_bytes, self.hold_back)));
        let after =
            (follows == Follows::Gap).then(|| (held + cut::whole_until(text, canary_bytes, self.hold_back), len));
        before
            .into_iter()
            .chain(after)
            .filter(|(start, end)| start < end)
            .map(|(start, end)| Edit::new(start, end, Rule::Cut))
    }

    fn let_go(&mut self, hold_back: usize, follows: Follows) -> Vec<(T, Sanitised)> {
        let is_last = follows != Follows::More;
        let mut edits = text::find(&self.sanitiser.canaries, &self.buffer);
        edits.extend(self.beside_gaps(follows));
        if self.covered > 0 {
            let hidden = Edit { with: Vec::new(), ..Edit::new(self.held, self.held + self.covered, Rule::Canary) };
            edits.push(hidden.running(self.inside));
        }
        edits.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
        edits.retain(|edit| edit.end > self.held);
        let len = self.buffer.len();
        let mut limit = len - hold_back;
        // What goes on from a piece that was let go has its marker there, and need not wait.
        let (held, covered) = (self.held, self.covered);
        let has_marker = |group: &Group| covered > 0 && group.start <= held;
        for group in groups(&edits) {
            // Held back whole, unless it is too long for that.
            let open =
                group.start < limit && (group.end > limit || group.end == len && !is_last) && !has_marker(&group);
            if open && len - group.start <= self.hold_back + MAX_SECRET_BYTES {
                limit = group.start.max(self.held);
                break;
            }
        }
        if is_last {
            limit = len;
        }
        let (mut at, mut out) = (self.held, Vec::new());
        while let Some((_, bytes)) = self.pieces.front() {
            let end = at + bytes;
            if end > limit {
                break;
            }
            let piece = self.piece(&edits, at, end);
            out.extend(self.pieces.pop_front().map(|(with, _)| (with, piece)));
            at = end;
        }
        self.after_gap &= out.is_empty();
        // A secret that was too long to be held back goes on in what is held.
        let over = groups(&edits).find(|group| (group.start < at || has_marker(group)) && group.end > at);
        self.covered = over.as_ref().map_or(0, |group| group.end - at);
        let running = over.filter(|group| group.end == len).and_then(|group| {
            edits[group.edits].iter().find(|edit| edit.end == len && edit.run != Run::None).map(|edit| edit.run)
        });
        self.inside = running.unwrap_or(Run::None);
        self.held = at.min(CONTEXT_BYTES);
        self.buffer.drain(..at - self.held);
        self.looked_at = self.buffer.len() - self.held;
        out
    }

    /// What is left of the bytes from `start` to `end`.
    fn piece(&self, edits: &[Edit], start: usize, end: usize) -> Sanitised {
        let mut redactions = Redactions::default();
        let (mut at, mut bytes) = (start, Vec::with_capacity(end - start));
        for group in groups(edits).filter(|group| group.end > start && group.start < end) {
            if group.start >= start {
                bytes.extend_from_slice(&self.buffer[at..group.start]);
                bytes.extend_from_slice(&edits[group.first].with);
                edits[group.edits]
                    .iter()
                    .filter(|edit| !edit.with.is_empty())
                    .for_each(|edit| redactions.count(edit.rule));
            }
            at = group.end.min(end);
        }
        bytes.extend_from_slice(&self.buffer[at..end]);
        if !self.sanitiser.canaries.find(&bytes).is_empty() {
            redactions.count(Rule::Canary);
            bytes = format!("{} {} bytes omitted", Rule::Canary.marker(), bytes.len()).into_bytes();
        }
        Sanitised { bytes, shape: Shape::Bytes, is_canonical: false, redactions }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "s3cr3t-Canary-0123456789";

    /// Cuts `text` at these places and gives the pieces back as they were let go.
    fn run(text: &str, cuts: &[usize]) -> Vec<String> {
        let sanitiser = Sanitiser::new([SECRET]);
        let mut redactor = sanitiser.pieces();
        let mut pieces = Vec::new();
        let mut at = 0;
        for (number, cut) in cuts.iter().copied().chain([text.len()]).enumerate() {
            let cut = cut.clamp(at, text.len());
            pieces.extend(redactor.push(number, &text.as_bytes()[at..cut]));
            at = cut;
        }
        pieces.extend(redactor.finish());
        assert!(pieces.iter().map(|(number, _)| *number).eq(0..=cuts.len()), "in order, each once");
        pieces.into_iter().map(|(_, piece)| piece.to_text().into_owned()).collect()
    }

    #[test]
    fn a_secret_across_pieces_has_one_marker_and_the_rest_stays_as_it_was() {
        let text = format!("start {SECRET} end");
        let pieces = run(&text, &[10, 12, 26]);
        assert_eq!(pieces, ["start [redacted:canary]", "", "", " end"]);
        assert_eq!(run("no secret at all", &[3, 3, 9]), ["no ", "", "secret", " at all"]);
    }

    #[test]
    fn a_private_key_in_lines_is_gone_from_all_of_them() {
        let mut text = "log\n-----BEGIN PRIVATE KEY-----\n".to_owned();
        (0..20_000).for_each(|n| text.push_str(&format!("{n:032x}{n:032x}\n")));
        text.push_str("-----END PRIVATE KEY-----\nafter\n");
        let cuts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let pieces = run(&text, &cuts);
        let kept = pieces.concat();
        assert_eq!(kept, "log\n[redacted:private_key]\nafter\n");
    }

    /// Wherever the gap cuts it, no part of the secret is left on either side, and no more than a few lines are lost.
    #[test]
    fn a_secret_across_a_gap_is_gone_from_both_sides() {
        let sanitiser = Sanitiser::new([SECRET]);
        let lines = "a line of a log, as programs write them\n".repeat(2_000);
        for cut in 1..SECRET.len() {
            let (head, tail) = SECRET.split_at(cut);
            let mut redactor = sanitiser.pieces();
            let mut kept = redactor.push(1, format!("{lines}{head}").as_bytes());
            kept.extend(redactor.gap());
            kept.extend(redactor.push(2, format!("{tail}\n{lines}").as_bytes()));
            kept.extend(redactor.finish());
            assert!(kept.iter().map(|(number, _)| *number).eq([1, 2]));
            for (number, piece) in &kept {
                let text = piece.to_text();
                for part in SECRET.as_bytes().windows(4) {
                    assert!(memchr::memmem::find(text.as_bytes(), part).is_none(), "cut at {cut}, piece {number}");
                }
                assert_eq!(piece.redactions().iter().collect::<Vec<_>>(), [(Rule::Cut, 1)]);
                assert!(text.len() > lines.len() - 2_000, "{} of {} bytes are left", text.len(), lines.len());
            }
            assert!(kept[0].1.to_text().starts_with(&lines[..70_000]));
            assert!(kept[1].1.to_text().ends_with(&lines[10_000..]));
        }
    }

    #[test]
    fn what_is_held_is_bounded() {
        let sanitiser = Sanitiser::new([SECRET]);
        let mut redactor = sanitiser.pieces();
        let mut most = 0;
        for n in 0..100_000_u32 {
            drop(redactor.push(n, b"x"));
            most = most.max(redactor.pieces.len());
        }
        assert!(most <= MAX_PIECES, "{most}");
        for n in 0..1_000_u32 {
            drop(redactor.push(n, &[b'y'; 10_000]));
            most = most.max(redactor.buffer.len());
        }
        assert!(most < 2 * MAX_SECRET_BYTES, "{most}");
    }

    proptest! {
        /// Wherever it is cut, it is gone, in each spelling; and what stands around it is whole.
        #[test]
        fn no_secret_survives_any_cut(
            before in "[a-z ]{0,40}", after in "[a-z ]{0,40}", spelling in 0..4, long in any::<bool>(),
            mut cuts in prop::collection::vec(0_usize..40_000, 0..40),
        ) {
            use base64::Engine as _;
            let spelled = match spelling {
                0 => SECRET.to_owned(),
                1 => base64::engine::general_purpose::STANDARD.encode(SECRET),
                2 => SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
                _ => SECRET.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            };
            let filler = if long { "lorem ipsum ".repeat(2_000) } else { String::new() };
            let text = format!("{before} {filler}. {spelled} .{filler} {after}");
            cuts.sort_unstable();
            let kept = run(&text, &cuts).concat();
            prop_assert!(!kept.contains(&spelled) && !kept.contains(SECRET));
            let (head, tail) = (format!("{before} {filler}. "), format!(" .{filler} {after}"));
            prop_assert!(kept.starts_with(&head) && kept.ends_with(&tail), "what stands around it is whole");
        }
    }
}
