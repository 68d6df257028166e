//! Lines out of chunks, in bounded memory: of a line that is too long to be kept, the beginning.

use pintle_store::sanitise::MAX_HOLD_BACK_BYTES;

/// Lines up to this length are kept, looked at and recorded as a whole.
pub(super) const KEPT_LINE_BYTES: usize = 8 * 1024 * 1024;
/// Of longer ones, this much is recorded.
pub(super) const HEAD_BYTES: usize = 4 * 1024;
/// And this much looked at: a secret that begins in what is recorded shows behind it.
const LOOKED_AT_BYTES: usize = HEAD_BYTES + MAX_HOLD_BACK_BYTES;
/// Room for lines in the making that is kept between them.
const ROOM_BYTES: usize = 64 * 1024;

/// One line, without its LF and one CR before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TracedLine<'a> {
    /// All of it, or its beginning.
    pub(super) bytes: &'a [u8],
    /// Its whole length.
    pub(super) len: u64,
    /// Whether the stream ended before its LF.
    pub(super) unterminated: bool,
}

impl TracedLine<'_> {
    /// Whether only the beginning was kept.
    pub(super) fn is_cut(&self) -> bool {
        self.bytes.len() as u64 != self.len
    }
}

/// Cuts one direction into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    len: u64,
    ends_in_cr: bool,
    /// Bytes are missing here: what comes up to the next LF is the rest of a line.
    broken: bool,
}

impl Lines {
    /// The lines that `chunk` completes, each given to `take`. One that lies within the chunk is not copied.
    pub(super) fn push(&mut self, chunk: &[u8], mut take: impl FnMut(TracedLine<'_>)) {
        let mut rest = chunk;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let line = &rest[..at];
            rest = &rest[at + 1..];
            if self.len == 0 && !self.broken && line.len() <= KEPT_LINE_BYTES {
                let bytes = line.strip_suffix(b"\r").unwrap_or(line);
                take(TracedLine { bytes, len: bytes.len() as u64, unterminated: false });
            } else {
                self.keep(line);
                self.end(false, &mut take);
            }
        }
        self.keep(rest);
    }

    /// What is left at the end of the stream is given to `take`.
    pub(super) fn finish(&mut self, take: impl FnMut(TracedLine<'_>)) {
        if self.len > 0 {
            self.end(true, take);
        }
    }

    /// Bytes passed that are not known. The line they were part of is given up.
    pub(super) fn lose(&mut self) {
        self.partial = Vec::new();
        self.len = 0;
        self.broken = true;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_in_cr = *last == b'\r';
        self.len += bytes.len() as u64;
        if self.len <= KEPT_LINE_BYTES as u64 {
            self.partial.extend_from_slice(bytes);
        } else if self.partial.len() > LOOKED_AT_BYTES {
            // Its room is given back at once.
            self.partial.truncate(LOOKED_AT_BYTES);
            self.partial.shrink_to_fit();
        } else {
            let more = (LOOKED_AT_BYTES - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..more]);
        }
    }

    /// The line that was kept ends here.
    fn end(&mut self, unterminated: bool, mut take: impl FnMut(TracedLine<'_>)) {
        let mut len = std::mem::take(&mut self.len);
        let mut bytes = &self.partial[..];
        if len > 0 && self.ends_in_cr && !unterminated {
            len -= 1;
            bytes = &bytes[..bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
        }
        self.ends_in_cr = false;
        if !std::mem::take(&mut self.broken) {
            take(TracedLine { bytes, len, unterminated });
        }
        if self.partial.capacity() > ROOM_BYTES {
            self.partial = Vec::new();
        }
        self.partial.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line that was given: its text, its whole length, and whether it is cut or unterminated.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Given {
        text: String,
        len: u64,
        is_cut: bool,
        unterminated: bool,
    }

    impl From<TracedLine<'_>> for Given {
        fn from(line: TracedLine<'_>) -> Self {
            let text = String::from_utf8_lossy(line.bytes).into_owned();
            Self { text, len: line.len, is_cut: line.is_cut(), unterminated: line.unterminated }
        }
    }

    fn cut(chunks: &[&[u8]]) -> Vec<Given> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |line| found.push(line.into()));
        }
        lines.finish(|line| found.push(line.into()));
        found
    }

    fn texts(lines: &[Given]) -> Vec<&str> {
        lines.iter().map(|line| &*line.text).collect()
    }

    /// R-221: a frame ends at LF, one CR before it is no part of it, blank lines are lines, and the last may lack its LF.
    #[test]
    fn r_221_lines_end_at_lf() {
        let lines = cut(&[b"a\r\n\nb\r", b"\nc"]);
        assert_eq!(texts(&lines), ["a", "", "b", "c"]);
        assert_eq!(lines.iter().map(|line| line.unterminated).collect::<Vec<_>>(), [false, false, false, true]);
    }

    /// R-222: a line of any length takes bounded memory, and the next one is found.
    #[test]
    fn r_222_a_line_that_is_too_long_is_cut_and_not_lost() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..64 {
            lines.push(&chunk, |_| panic!("no line ends here"));
            assert!(lines.partial.len() <= KEPT_LINE_BYTES);
        }
        assert!(lines.partial.capacity() <= KEPT_LINE_BYTES);
        let mut found: Vec<Given> = Vec::new();
        lines.push(b"\r\nnext\n", |line| found.push(line.into()));
        assert_eq!((found[0].len, found[0].text.len(), found[0].is_cut), (64 << 20, LOOKED_AT_BYTES, true));
        assert_eq!(texts(&found[1..]), ["next"]);
    }

    #[test]
    fn exactly_at_the_limit_a_line_is_whole() {
        let line = vec![b'x'; KEPT_LINE_BYTES];
        let lines = cut(&[&line, b"\n", &line, b"y\n"]);
        assert_eq!(lines.iter().map(|line| line.is_cut).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn after_a_loss_it_goes_on_with_the_next_line() {
        let mut lines = Lines::default();
        let mut found: Vec<Given> = Vec::new();
        lines.push(b"one\nbegin", |line| found.push(line.into()));
        lines.lose();
        lines.push(b"end\ntwo\n", |line| found.push(line.into()));
        assert_eq!(texts(&found), ["one", "two"]);
    }

    proptest! {
        /// R-221: where the chunks are cut changes nothing.
        #[test]
        fn chunks_do_not_matter(text in "[ab\r\n]{0,40}", at in 0_usize..40) {
            let bytes = text.as_bytes();
            let (left, right) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(cut(&[left, right]), cut(&[bytes]));
        }
    }
}
