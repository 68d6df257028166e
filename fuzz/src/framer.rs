//! The framer against splitting the whole stream at once.

use bytes::Bytes;
use pintle_wire::{Framer, Line};

/// The first byte sets the limit, the second how the rest is cut; the rest is the stream. Whatever both are, the lines are
/// those of the whole stream, and memory stays within its bound.
pub fn framer(input: &[u8]) {
    let [limit, seed, stream @ ..] = input else { return };
    let limit = usize::from(*limit);
    let expected = split(stream, limit);
    for seed in [*seed, 0, 255] {
        assert_eq!(framed(stream, limit, seed), expected, "limit {limit}, cut by {seed}");
    }
}

fn framed(stream: &[u8], limit: usize, seed: u8) -> Vec<Line> {
    let mut framer = Framer::new(limit);
    let mut lines = Vec::new();
    let mut rest = stream;
    let mut state = u32::from(seed);
    while !rest.is_empty() {
        // Chunks of 1 byte for seed 0, of everything for seed 255, else of 1 to 16 bytes.
        let size = match seed {
            0 => 1,
            255 => rest.len(),
            _ => {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 28) as usize + 1
            }
        };
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        framer.feed(Bytes::copy_from_slice(chunk));
        while let Some(line) = framer.next() {
            lines.push(line);
        }
        assert!(framer.buffered_bytes() <= limit + 1, "no more than a line is kept");
    }
    while let Some(line) = framer.finish() {
        lines.push(line);
    }
    assert_eq!((framer.buffered_bytes(), framer.dropping_bytes()), (0, None), "the end leaves nothing");
    lines
}

/// The lines of a stream that is there as a whole.
fn split(stream: &[u8], limit: usize) -> Vec<Line> {
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let ended = lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).map(|line| (line, true));
    let unended = (!last.is_empty()).then_some((last, false));
    ended
        .chain(unended)
        .map(|(line, _)| match line.len() {
            0 => Line::Blank,
            length if length > limit => Line::TooLong { bytes: length as u64 },
            _ => Line::Complete(Bytes::copy_from_slice(line)),
        })
        .collect()
}
