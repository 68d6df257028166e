//! What a command printed, as text, and no more of it than its reader wants.

/// Room that may be wasted before it is given back.
const SLACK_BYTES: usize = 64 * 1024;

/// The end of a command's output, at most so many bytes of it. What is over goes from the front, at a character's boundary;
/// what is no UTF-8 is replaced.
#[derive(Debug)]
pub(super) struct Output {
    text: String,
    /// Where what is kept begins.
    start: usize,
    limit_bytes: usize,
    truncated: bool,
    /// The beginning of a character whose rest has not come yet; at most three bytes.
    partial: Vec<u8>,
}

impl Output {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { text: String::new(), start: 0, limit_bytes, truncated: false, partial: Vec::new() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            joined = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
            rest = &joined;
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text.push_str(text);
                    break;
                }
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(valid));
                    let Some(length) = error.error_len() else {
                        self.partial = bad.to_vec();
                        break;
                    };
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
        self.trim();
    }

    /// No more comes: half a character is none.
    pub(super) fn end(&mut self) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
            self.trim();
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text[self.start..]
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.truncated
    }

    fn trim(&mut self) {
        let kept = self.text.len() - self.start;
        if kept <= self.limit_bytes {
            return;
        }
        self.truncated = true;
        self.start = self.text.len() - self.limit_bytes;
        while !self.text.is_char_boundary(self.start) {
            self.start += 1;
        }
        if self.start > self.limit_bytes.max(SLACK_BYTES) {
            self.text.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(chunks: &[&[u8]], limit_bytes: usize, expected: &str, truncated: bool) {
        let mut output = Output::new(limit_bytes);
        for chunk in chunks {
            output.push(chunk);
        }
        output.end();
        assert_eq!((output.text(), output.is_truncated()), (expected, truncated), "{chunks:?} {limit_bytes}");
    }

    /// cut from the front, never inside a character, and told.
    #[test]
    fn the_end_is_kept_and_no_character_is_cut() {
        check(&[b"hello"], 5, "hello", false);
        check(&[b"hello"], 4, "ello", true);
        check(&["a\u{e9}b".as_bytes()], 2, "b", true);
        check(&["a\u{e9}b".as_bytes()], 3, "\u{e9}b", true);
        check(&[b"\xc3", b"\xa9"], 9, "\u{e9}", false);
        check(&[b"\xf0\x9f", b"\x98", b"\x80!"], 9, "\u{1f600}!", false);
        check(&[b"a\xffb\xc3"], 99, "a\u{fffd}b\u{fffd}", false);
        check(&[b"x"], 0, "", true);
        check(&[], 0, "", false);
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0_usize..400,
            limit in 0_usize..450) {
            let whole = String::from_utf8_lossy(&bytes).into_owned();
            let mut output = Output::new(limit);
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            output.push(first);
            output.push(second);
            output.end();
            prop_assert!(output.text().len() <= limit);
            prop_assert!(whole.ends_with(output.text()));
            prop_assert_eq!(output.is_truncated(), output.text().len() < whole.len());
            prop_assert!(output.text().len() + 3 >= whole.len().min(limit));
        }
    }

    /// Memory follows the limit, not the length of the output.
    #[test]
    fn what_is_dropped_is_given_back() {
        let mut output = Output::new(1000);
        for _ in 0..1000 {
            output.push(&[b'x'; 16 * 1024]);
        }
        assert!(output.text.capacity() < 4 * SLACK_BYTES, "{}", output.text.capacity());
        assert_eq!(output.text().len(), 1000);
    }
}
