//! What an agent says beside the protocol, as it may be shown: without secrets, harmless and short.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pintle_sdk::process::Captured;
use pintle_sdk::transport::{Transport, TransportKind};
use pintle_store::sanitise::{Canary, KEPT_GARBAGE_BYTES, Sanitiser};
use pintle_wire::{Profile, ScanLimits, scan};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::text;

/// How much of a line of its standard output is looked at. It is more than is shown, so that a secret at the edge is known.
const LINE_BYTES: usize = 256 * 1024;

/// Makes words of the agent's fit to be shown.
#[derive(Debug)]
pub(crate) struct Words {
    sanitiser: Sanitiser,
}

impl Words {
    /// Beside what looks like a secret, these values are replaced.
    pub(crate) fn new(canaries: Vec<Canary>) -> Self {
        Self { sanitiser: Sanitiser::with(canaries) }
    }

    /// On one line, cut when it is long.
    pub(super) fn one_line(&self, said: &str) -> String {
        // Before it is cut: of a secret that the cut has parted nothing would be known.
        text::one_line(&self.sanitiser.text(said.as_bytes(), usize::MAX).to_text())
    }

    /// The same of a line of which no more than the beginning may be there.
    fn beginning(&self, line: &[u8]) -> String {
        text::one_line(&self.sanitiser.beginning(line, KEPT_GARBAGE_BYTES).to_text())
    }

    /// The last lines of a standard error.
    pub(crate) fn last_lines(&self, stderr: &Captured, most: usize) -> Vec<String> {
        let mut said = stderr.to_text();
        if stderr.is_truncated() {
            // The end begins in the middle of a line, and maybe of a secret.
            let tail: Vec<u8> = stderr.tail.iter().copied().collect();
            let tail = String::from_utf8_lossy(&tail);
            said = tail.split_once('\n').map(|(_, whole)| whole.to_owned()).unwrap_or_default();
        }
        let clean = self.sanitiser.text(said.as_bytes(), usize::MAX);
        let shown = text::harmless(&clean.to_text());
        let lines: Vec<&str> = shown.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| text::cut_words(line)).collect()
    }
}

/// Hears what comes on an agent's standard output until it has answered, and remembers the first line that is no message.
#[derive(Debug, Clone, Default)]
pub(super) struct Ears(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    line: Vec<u8>,
    noise: Option<Vec<u8>>,
    is_over: bool,
}

impl Ears {
    /// The carrier, listened to.
    pub(super) fn on<T: Transport>(&self, carrier: T) -> Listening<T> {
        Listening { carrier, ears: self.clone() }
    }

    /// What comes from here on is the connection's business alone.
    pub(super) fn close(&self) {
        let mut heard = self.lock();
        heard.is_over = true;
        heard.line = Vec::new();
    }

    /// The first line that was no message, also one that has no end yet.
    pub(super) fn noise(&self, words: &Words) -> Option<String> {
        let heard = self.lock();
        let open = Some(&heard.line).filter(|line| !is_message(line) && !may_become_one(line));
        heard.noise.as_ref().or(open).map(|line| words.beginning(line))
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn hear(&mut self, mut bytes: &[u8]) {
        while !self.is_over && self.noise.is_none() && !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes);
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let room = LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..room.min(piece.len())]);
            let Some(end) = end else { return };
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            // Of a line that is cut only the beginning is known.
            let is_fine = if line.len() == LINE_BYTES { may_become_one(&line) } else { is_message(&line) };
            if !is_fine {
                self.noise = Some(line);
            }
        }
    }
}

/// Blank lines are none, but nothing to speak of either.
fn is_message(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Members {
        method: Option<IgnoredAny>,
        id: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    let line = line.trim_ascii();
    if line.is_empty() {
        return true;
    }
    scan(line, Profile::Acp, ScanLimits::DEPTH_ONLY).is_ok()
        && serde_json::from_slice::<Members>(line).is_ok_and(|members| {
            [members.method, members.id, members.result, members.error].iter().any(Option::is_some)
        })
}

/// The beginning of an object may be that of a message.
fn may_become_one(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
}

/// A carrier that is listened to.
pub(super) struct Listening<T> {
    carrier: T,
    ears: Ears,
}

impl<T: Transport> Transport for Listening<T> {
    fn kind(&self) -> TransportKind {
        self.carrier.kind()
    }

    fn open(&mut self) -> io::Result<()> {
        self.carrier.open()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = ready!(self.carrier.poll_read(cx, buf))?;
        self.ears.lock().hear(&buf[..read]);
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.carrier.poll_write(cx, bufs)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.carrier.poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "kR7wQz2LmN9xTb4VcP6s";

    fn words() -> Words {
        Words::new(vec![Canary::secret(SECRET)])
    }

    fn stderr(head: &str, tail: &str, omitted_bytes: u64) -> Captured {
        let total_bytes = (head.len() + tail.len()) as u64 + omitted_bytes;
        Captured { head: head.into(), tail: tail.bytes().collect(), total_bytes }
    }

    #[test]
    fn the_end_of_standard_error_has_no_secret_and_no_escape() {
        let said = stderr(&format!("first\nno access with {SECRET}\n\n\x1b[2Jlast\n"), "", 0);
        let shown = words().last_lines(&said, 2);
        assert_eq!(shown, [format!("no access with {}", words().one_line(SECRET)), "\\u{1b}[2Jlast".to_owned()]);
        assert!(!shown[0].contains(SECRET), "{shown:?}");
        assert_eq!(words().last_lines(&stderr(" \n", "", 0), 2), [""; 0]);
        let long = words().last_lines(&stderr(&format!("{}{SECRET}", "y. ".repeat(20_000)), "", 0), 2);
        assert!(long[0].len() < 1000, "{}", long[0].len());
    }

    /// What is behind the gap may be the rest of a secret.
    #[test]
    fn of_a_standard_error_with_a_gap_whole_lines_are_shown() {
        let cut = stderr("begin\n", &format!("{}\nthe end\n", &SECRET[6..]), 10);
        assert_eq!(words().last_lines(&cut, 9), ["the end"]);
        assert_eq!(words().last_lines(&stderr("begin\n", &SECRET[6..], 10), 9), [""; 0]);
    }

    #[track_caller]
    fn check(pieces: &[&str], expected: Option<&str>) {
        let ears = Ears::default();
        for piece in pieces {
            ears.lock().hear(piece.as_bytes());
        }
        assert_eq!(ears.noise(&words()).as_deref(), expected, "{pieces:?}");
    }

    #[test]
    fn the_first_line_that_is_no_message_is_remembered() {
        check(&["\n", "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n", "\r\n"], None);
        check(&["Welcome", " to\tit\n", "more\n"], Some("Welcome to it"));
        check(&["no end"], Some("no end"));
        check(&["{\"id\":1,\"resu"], None);
        check(&["{\"id\":1,\"resu\n"], Some("{\"id\":1,\"resu"));
        check(&["{\"level\":\"info\"}\n"], Some("{\"level\":\"info\"}"));
        check(&["[1]\n"], Some("[1]"));
        check(&[&format!("{{\"method\":\"{}\"}}\n", "x".repeat(2 * LINE_BYTES))], None);
        let marked = words().one_line(SECRET);
        check(&[&format!("key {SECRET}\x1b[2J\n")], Some(&format!("key {marked}\\u{{1b}}[2J")));
    }

    #[test]
    fn nobody_listens_when_the_agent_has_answered() {
        let ears = Ears::default();
        ears.close();
        ears.lock().hear(b"noise\n");
        assert_eq!(ears.noise(&words()), None);
    }
}
