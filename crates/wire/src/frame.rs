//! NDJSON framing: bytes in any chunks, lines out.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// One line of the stream, without its ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line with content, without its LF and without one CR directly before that LF. A last line without LF keeps a CR at
    /// its end.
    Complete(Bytes),
    /// A line over the limit. Its content is gone.
    TooLong {
        /// How long it was, in bytes, without its ending.
        bytes: u64,
    },
    /// A line without content. ACP skips it, Driver RPC refuses it.
    Blank,
}

/// Cuts a byte stream into lines, whatever the chunks in which it comes.
///
/// The lines that come out, and their order, do not depend on where the chunks are cut. A byte is looked at once. A line that
/// lies within one chunk is a slice of that chunk, without a copy; of a line in the making no more than the limit is kept; an
/// over-long line is dropped as it comes, through its LF, and reported once, at its place among the others.
///
/// Chunks wait inside until [`next`](Self::next) has cut them: drain it after each [`feed`](Self::feed), and
/// [`buffered_bytes`](Self::buffered_bytes) stays below the limit plus one chunk. A line that is a slice keeps its whole chunk
/// alive: copy a short one that is to be kept for long.
#[derive(Debug)]
pub struct Framer {
    max_line_bytes: usize,
    /// Chunks that have not been cut yet, none of them empty.
    chunks: VecDeque<Bytes>,
    /// The start of a line whose end has not come. Holds no LF.
    partial: BytesMut,
    /// Set while an over-long line is dropped: how much of it has come, and whether its last byte was a CR.
    dropped: Option<Dropped>,
}

#[derive(Debug, Clone, Copy)]
struct Dropped {
    bytes: u64,
    ends_in_cr: bool,
}

impl Framer {
    /// A framer for lines of at most `max_line_bytes` bytes, the line ending not counted.
    pub fn new(max_line_bytes: usize) -> Self {
        Self { max_line_bytes, chunks: VecDeque::new(), partial: BytesMut::new(), dropped: None }
    }

    /// The next bytes of the stream. An empty chunk changes nothing; it is not the end.
    pub fn feed(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next bytes of the stream, copied.
    pub fn feed_slice(&mut self, chunk: &[u8]) {
        self.feed(Bytes::copy_from_slice(chunk));
    }

    /// The next line that is complete.
    #[expect(clippy::should_implement_trait, reason = "None is not the end: more may come with the next chunk")]
    pub fn next(&mut self) -> Option<Line> {
        while let Some(chunk) = self.chunks.front_mut() {
            match memchr::memchr(b'\n', chunk) {
                Some(at) => {
                    let head = chunk.split_to(at + 1).slice(..at);
                    if chunk.is_empty() {
                        self.chunks.pop_front();
                    }
                    return Some(self.line(head));
                }
                None => {
                    let head = std::mem::take(chunk);
                    self.chunks.pop_front();
                    self.keep(&head);
                }
            }
        }
        None
    }

    /// The stream has ended: the last line, if it had no LF. Lines that [`next`](Self::next) has not returned yet come first.
    /// Call it until it returns `None`; the framer is then as new.
    pub fn finish(&mut self) -> Option<Line> {
        if let Some(line) = self.next() {
            return Some(line);
        }
        if let Some(dropped) = self.dropped.take() {
            return Some(Line::TooLong { bytes: dropped.bytes });
        }
        let rest = self.partial.split().freeze();
        if rest.is_empty() {
            return None;
        }
        // A CR that no LF follows is content, and `keep` lets one byte over the limit pass, for the sake of that CR.
        Some(if rest.len() > self.max_line_bytes {
            Line::TooLong { bytes: rest.len() as u64 }
        } else {
            Line::Complete(rest)
        })
    }

    /// Bytes that are held: of chunks that wait and of a line in the making.
    pub fn buffered_bytes(&self) -> usize {
        self.partial.len() + self.chunks.iter().map(Bytes::len).sum::<usize>()
    }

    /// While an over-long line is being dropped: how much of it has come so far, in bytes.
    pub fn dropping_bytes(&self) -> Option<u64> {
        self.dropped.map(|dropped| dropped.bytes)
    }

    /// The limit, in bytes.
    pub fn max_line_bytes(&self) -> usize {
        self.max_line_bytes
    }

    /// A piece of a line whose end is not in it.
    fn keep(&mut self, piece: &[u8]) {
        let ends_in_cr = piece.last() == Some(&b'\r');
        if let Some(dropped) = &mut self.dropped {
            dropped.bytes += piece.len() as u64;
            dropped.ends_in_cr = ends_in_cr;
            return;
        }
        let length = self.partial.len() + piece.len();
        // One byte more may come: the CR of the ending. Anything else shows at the end of the line.
        if length > self.max_line_bytes.saturating_add(1) {
            self.dropped = Some(Dropped { bytes: length as u64, ends_in_cr });
            self.partial = BytesMut::new();
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    /// A line whose last piece, up to its LF, is `head`.
    fn line(&mut self, head: Bytes) -> Line {
        if let Some(dropped) = self.dropped.take() {
            let ends_in_cr = if head.is_empty() { dropped.ends_in_cr } else { head.last() == Some(&b'\r') };
            return Line::TooLong { bytes: dropped.bytes + head.len() as u64 - u64::from(ends_in_cr) };
        }
        let body = if self.partial.is_empty() {
            head
        } else {
            let length = self.partial.len() + head.len();
            if length > self.max_line_bytes.saturating_add(1) {
                let ends_in_cr = head.last() == Some(&b'\r');
                self.partial = BytesMut::new();
                return Line::TooLong { bytes: length as u64 - u64::from(ends_in_cr) };
            }
            self.partial.extend_from_slice(&head);
            self.partial.split().freeze()
        };
        let body = if body.last() == Some(&b'\r') { body.slice(..body.len() - 1) } else { body };
        if body.is_empty() {
            Line::Blank
        } else if body.len() > self.max_line_bytes {
            Line::TooLong { bytes: body.len() as u64 }
        } else {
            Line::Complete(body)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 8;

    fn lines(chunks: &[&[u8]]) -> Vec<Line> {
        let mut framer = Framer::new(LIMIT);
        let mut lines = Vec::new();
        for chunk in chunks {
            framer.feed_slice(chunk);
            lines.extend(std::iter::from_fn(|| framer.next()));
        }
        lines.extend(std::iter::from_fn(|| framer.finish()));
        assert_eq!((framer.buffered_bytes(), framer.dropping_bytes()), (0, None));
        lines
    }

    /// Every way of cutting `stream` into two, byte by byte, and whole.
    fn check(stream: &[u8], expected: &[Line]) {
        assert_eq!(lines(&[stream]), expected, "whole: {}", stream.escape_ascii());
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(lines(&bytes), expected, "byte by byte: {}", stream.escape_ascii());
        for at in 0..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(lines(&[left, right]), expected, "cut at {at}: {}", stream.escape_ascii());
        }
    }

    fn complete(text: &'static str) -> Line {
        Line::Complete(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn endings_are_lf_or_crlf_r221() {
        check(b"a\nbc\r\n", &[complete("a"), complete("bc")]);
        check(b"a\rb\n", &[complete("a\rb")]);
        check(b"a\r\r\n", &[complete("a\r")]);
        check(b"\n\r\na\n\n", &[Line::Blank, Line::Blank, complete("a"), Line::Blank]);
        check(b"", &[]);
    }

    #[test]
    fn a_last_line_without_lf_counts_g13() {
        check(b"a\nb", &[complete("a"), complete("b")]);
        check(b"a\r", &[complete("a\r")]);
        check(b"\r", &[complete("\r")]);
        check(b"12345678", &[complete("12345678")]);
        check(b"12345678\r", &[Line::TooLong { bytes: 9 }]);
        check(b"1234567890", &[Line::TooLong { bytes: 10 }]);
    }

    #[test]
    fn the_limit_counts_the_line_without_its_ending_g12() {
        check(b"12345678\nx\n", &[complete("12345678"), complete("x")]);
        check(b"12345678\r\nx\n", &[complete("12345678"), complete("x")]);
        check(b"123456789\nx\n", &[Line::TooLong { bytes: 9 }, complete("x")]);
        check(b"123456789\r\nx\n", &[Line::TooLong { bytes: 9 }, complete("x")]);
        check(b"12345678\r\r\nx\n", &[Line::TooLong { bytes: 9 }, complete("x")]);
        check(b"123456789\r\r\r\nx\n", &[Line::TooLong { bytes: 11 }, complete("x")]);
    }

    #[test]
    fn an_over_long_line_is_reported_once_at_its_place_r222() {
        check(
            b"a\n123456789abcdefghi\r\n\nb",
            &[complete("a"), Line::TooLong { bytes: 18 }, Line::Blank, complete("b")],
        );
    }

    #[test]
    fn memory_stays_below_the_limit_while_a_line_is_dropped() {
        let mut framer = Framer::new(LIMIT);
        for _ in 0..10_000 {
            framer.feed_slice(b"0123456789");
            assert_eq!(framer.next(), None);
            assert!(framer.buffered_bytes() <= LIMIT + 1);
        }
        assert_eq!(framer.dropping_bytes(), Some(100_000));
        framer.feed_slice(b"\nok\n");
        assert_eq!(framer.next(), Some(Line::TooLong { bytes: 100_000 }));
        assert_eq!(framer.next(), Some(complete("ok")));
    }

    #[test]
    fn a_line_within_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"one\ntwo\r\n");
        let mut framer = Framer::new(LIMIT);
        framer.feed(chunk.clone());
        for at in [0, 4] {
            match framer.next() {
                Some(Line::Complete(line)) => assert_eq!(line.as_ptr(), chunk[at..].as_ptr()),
                other => panic!("expected a line, got {other:?}"),
            }
        }
    }
}
