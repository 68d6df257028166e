//! What was said in the sessions of one case.

use std::collections::VecDeque;

use pintle_sdk::driver::HelloResult;

use super::heard::Heard;

/// Lines that are kept for the report.
const KEPT_LINES: usize = 8;
/// Bytes of a line that are kept.
const KEPT_LINE_BYTES: usize = 400;

/// The last lines of a case, and what the driver said of itself in it.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(super) hello: Option<HelloResult>,
    pub(super) heard: Heard,
    lines: VecDeque<Line>,
    next: u64,
    secrets: Vec<String>,
}

/// One line, as it is shown: cut, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Which of all lines of the case it was, from 1.
    pub(crate) number: u64,
    /// Whether Core sent it.
    pub(crate) sent: bool,
    /// Its beginning.
    pub(crate) text: String,
    /// Its whole length in bytes.
    pub(crate) bytes: u64,
}

impl Transcript {
    /// A text that must not be shown from now on.
    pub(super) fn hide(&mut self, secret: &str) {
        self.secrets.push(secret.to_owned());
    }

    pub(super) fn sent(&mut self, line: &[u8]) {
        self.keep(true, line);
    }

    pub(super) fn heard(&mut self, line: &[u8]) {
        self.keep(false, line);
    }

    fn keep(&mut self, sent: bool, line: &[u8]) {
        self.next += 1;
        // A secret lies in the part that is looked at or is cut away with the rest.
        let shown = line.get(..line.len().min(KEPT_LINE_BYTES * 4)).unwrap_or_default();
        let mut text = String::from_utf8_lossy(shown).into_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "[redacted]");
        }
        if text.len() > KEPT_LINE_BYTES {
            let mut end = KEPT_LINE_BYTES;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { number: self.next, sent, text, bytes: line.len() as u64 });
    }

    pub(super) fn last_lines(&self) -> Vec<Line> {
        self.lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_cut_and_without_secrets() {
        let mut transcript = Transcript::default();
        transcript.hide("s3cret");
        for number in 0..20 {
            transcript.sent(format!("{number} s3cret {}", "x".repeat(1000)).as_bytes());
        }
        let lines = transcript.last_lines();
        assert_eq!(lines.len(), KEPT_LINES);
        assert_eq!(lines[0].number, 13);
        assert!(lines.iter().all(|line| line.text.len() <= KEPT_LINE_BYTES && !line.text.contains("s3cret")));
    }

    #[test]
    fn a_secret_at_the_cut_does_not_show_in_part() {
        let mut transcript = Transcript::default();
        transcript.hide("0123456789abcdef");
        transcript.heard(format!("{}0123456789abcdef", "x".repeat(KEPT_LINE_BYTES - 4)).as_bytes());
        assert!(!transcript.last_lines()[0].text.contains("0123"));
    }
}
