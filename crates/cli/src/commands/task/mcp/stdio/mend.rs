//! Half a surrogate pair, as a model writes it that was cut within an emoji, is legal JSON and nothing that serde_json
//! reads. rmcp drops such a line, and the model waits for an answer that never comes. Here the half becomes U+FFFD.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pintle_wire::{Profile, ScanLimits, scan};
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

use super::LINE_MAX_BYTES;

/// How much is read at once.
const CHUNK_BYTES: usize = 8 * 1024;
/// As deep as serde_json goes.
const DEPTH_MAX: usize = 127;

/// A stream of lines in which every half surrogate pair is mended.
pub(super) struct Mended<R> {
    from: R,
    /// The beginning of a line; never more than [`LINE_MAX_BYTES`] and a chunk.
    line: Vec<u8>,
    /// What may be read, and how much of it was.
    out: Vec<u8>,
    taken: usize,
}

impl<R> Mended<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, line: Vec::new(), out: Vec::new(), taken: 0 }
    }

    /// Takes in what was read; nothing is the end of the stream.
    fn take_in(&mut self, chunk: &[u8]) {
        self.out.clear();
        self.taken = 0;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                match mended(&self.line) {
                    Some(line) => self.out.extend(line),
                    None => self.out.append(&mut self.line),
                }
                self.line.clear();
            }
        }
        // A line that is too long is passed on in pieces: it is for the reader to drop.
        if chunk.is_empty() || self.line.len() > LINE_MAX_BYTES {
            self.out.append(&mut self.line);
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Mended<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let left = &this.out[this.taken..];
            if !left.is_empty() {
                let count = left.len().min(buf.remaining());
                buf.put_slice(&left[..count]);
                this.taken += count;
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; CHUNK_BYTES];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.from).poll_read(cx, &mut chunk))?;
            let is_end = chunk.filled().is_empty();
            this.take_in(chunk.filled());
            if is_end && this.out.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// The line with U+FFFD for every half pair; `None` where it is to stay as it is.
fn mended(line: &[u8]) -> Option<Vec<u8>> {
    let has_surrogates = line.windows(3).any(|three| matches!(three, [b'\\', b'u', b'd' | b'D']));
    if !has_surrogates || serde_json::from_slice::<Value>(line).is_ok() {
        return None;
    }
    let limits = ScanLimits { max_bytes: LINE_MAX_BYTES, max_depth: DEPTH_MAX };
    let value: Value = scan(line.trim_ascii(), Profile::Acp, limits).ok()?.decode().ok()?;
    let mut line = serde_json::to_vec(&value).ok()?;
    line.push(b'\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// In pieces of every size, since a chunk may end anywhere.
    #[track_caller]
    fn check(input: &[u8], expected: &[u8]) {
        for size in [1, 2, 7, input.len().max(1)] {
            let mut mended = Mended::new(&b""[..]);
            let mut out = Vec::new();
            for chunk in input.chunks(size).chain([&b""[..]]) {
                mended.take_in(chunk);
                out.append(&mut mended.out);
            }
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected), "pieces of {size}");
        }
    }

    #[test]
    fn half_a_pair_is_mended_and_all_else_stays() {
        check(b"", b"");
        check(b"garbage\n\n{\"a\" : \"\\ud83d\\ude00\"}\n no end", b"garbage\n\n{\"a\" : \"\\ud83d\\ude00\"}\n no end");
        check(b"{ \"a\": \"x\\uD83D\", \"id\": 1 }\r\n{}\n", "{\"a\":\"x\u{fffd}\",\"id\":1}\n{}\n".as_bytes());
        check(b"\\ud800 no JSON\n", b"\\ud800 no JSON\n");
        let long = [b"{\"\\ud800\":\"", "x".repeat(LINE_MAX_BYTES).as_bytes(), b"\"}\n"].concat();
        check(&long, &long);
    }

    #[tokio::test]
    async fn it_is_read_to_its_end() {
        let mut text = String::new();
        let input = "{}\n{\"a\":\"\\ud800\"}\nrest".to_owned();
        Mended::new(input.as_bytes()).read_to_string(&mut text).await.expect("reads");
        assert_eq!(text, "{}\n{\"a\":\"\u{fffd}\"}\nrest");
    }
}
