//! Other readings of the same bytes, each with the way back to where they came from.

use std::borrow::Cow;

/// How many escapes one text may have before its other readings are given up. Each costs 12 bytes of memory here.
pub(super) const MAX_ESCAPES: usize = 4_000_000;

/// Decoded bytes, and which bytes they were decoded from.
#[derive(Debug, Clone)]
pub(super) struct View<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    escapes: Vec<Escape>,
}

#[derive(Debug, Clone, Copy)]
struct Escape {
    decoded: u32,
    raw: u32,
    decoded_len: u8,
    raw_len: u8,
}

impl<'a> View<'a> {
    /// The bytes as they are.
    pub(super) fn plain(bytes: &'a [u8]) -> Self {
        Self { bytes: Cow::Borrowed(bytes), escapes: Vec::new() }
    }

    /// Backslash escapes of JSON and of most languages: `\n`, `\"`, `\u0061`, `\x61`. `None` if there is none.
    pub(super) fn backslash(bytes: &'a [u8]) -> Option<Self> {
        Self::decode(bytes, b'\\', backslash_escape)
    }

    /// Percent escapes of URLs: `%61`. `None` if there is none.
    pub(super) fn percent(bytes: &'a [u8]) -> Option<Self> {
        Self::decode(bytes, b'%', |rest| {
            let mut out = Decoded::new(3);
            out.push(hex(rest.get(1..3)?)? as u8);
            Some(out)
        })
    }

    fn decode(bytes: &'a [u8], mark: u8, escape: impl Fn(&[u8]) -> Option<Decoded>) -> Option<Self> {
        u32::try_from(bytes.len()).ok()?;
        let mut decoded = Vec::new();
        let mut escapes = Vec::new();
        let mut at = 0;
        for found in memchr::memchr_iter(mark, bytes) {
            // The second backslash of a pair belongs to the first.
            if found < at {
                continue;
            }
            let Some(meaning) = escape(&bytes[found..]) else { continue };
            if escapes.len() >= MAX_ESCAPES {
                return None;
            }
            decoded.extend_from_slice(&bytes[at..found]);
            escapes.push(Escape {
                decoded: u32::try_from(decoded.len()).ok()?,
                raw: u32::try_from(found).ok()?,
                decoded_len: meaning.len,
                raw_len: meaning.raw_len,
            });
            decoded.extend_from_slice(&meaning.bytes[..usize::from(meaning.len)]);
            at = found + usize::from(meaning.raw_len);
        }
        if escapes.is_empty() {
            return None;
        }
        decoded.extend_from_slice(&bytes[at..]);
        Some(Self { bytes: Cow::Owned(decoded), escapes })
    }

    /// Where the decoded bytes `start..end` came from; an escape is taken whole.
    pub(super) fn raw(&self, start: usize, end: usize) -> (usize, usize) {
        let raw_start = match self.escape_at(start) {
            Some((escape, true)) => escape.raw as usize,
            Some((escape, false)) => escape.raw_end() + (start - escape.decoded_end()),
            None => start,
        };
        let Some(last) = end.checked_sub(1).filter(|last| *last >= start) else { return (raw_start, raw_start) };
        let raw_end = match self.escape_at(last) {
            Some((escape, true)) => escape.raw_end(),
            Some((escape, false)) => escape.raw_end() + (end - escape.decoded_end()),
            None => end,
        };
        (raw_start, raw_end)
    }

    /// The last escape that begins at or before a decoded position, and whether the position is inside it.
    fn escape_at(&self, position: usize) -> Option<(Escape, bool)> {
        let after = self.escapes.partition_point(|escape| escape.decoded as usize <= position);
        let escape = *self.escapes.get(after.checked_sub(1)?)?;
        Some((escape, position < escape.decoded_end()))
    }
}

impl Escape {
    fn raw_end(self) -> usize {
        self.raw as usize + usize::from(self.raw_len)
    }

    fn decoded_end(self) -> usize {
        self.decoded as usize + usize::from(self.decoded_len)
    }
}

struct Decoded {
    bytes: [u8; 4],
    len: u8,
    raw_len: u8,
}

impl Decoded {
    fn new(raw_len: u8) -> Self {
        Self { bytes: [0; 4], len: 0, raw_len }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    fn push_char(&mut self, c: char) {
        self.len = u8::try_from(c.encode_utf8(&mut self.bytes).len()).unwrap_or(0);
    }
}

fn backslash_escape(rest: &[u8]) -> Option<Decoded> {
    let mut out = Decoded::new(2);
    match rest.get(1)? {
        b'n' => out.push(b'\n'),
        b't' => out.push(b'\t'),
        b'r' => out.push(b'\r'),
        b'b' => out.push(8),
        b'f' => out.push(12),
        escaped @ (b'"' | b'\\' | b'/' | b'\'') => out.push(*escaped),
        b'x' => {
            out.raw_len = 4;
            out.push(hex(rest.get(2..4)?)? as u8);
        }
        b'u' => {
            let unit = hex(rest.get(2..6)?)?;
            out.raw_len = 6;
            let low = || {
                let next = rest.get(6..12)?;
                hex(next.strip_prefix(b"\\u")?).filter(|low| (0xdc00..0xe000).contains(low))
            };
            if (0xd800..0xdc00).contains(&unit)
                && let Some(low) = low()
            {
                out.raw_len = 12;
                out.push_char(char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))?);
            } else {
                out.push_char(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        _ => return None,
    }
    Some(out)
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(view: Option<View<'_>>, decoded: &str, found: &str, raw: (usize, usize)) {
        let view = view.expect("there are escapes");
        assert_eq!(String::from_utf8_lossy(&view.bytes), decoded);
        let at = decoded.find(found).expect("it is in there");
        assert_eq!(view.raw(at, at + found.len()), raw, "{found} in {decoded}");
    }

    #[test]
    fn a_reading_knows_where_it_comes_from() {
        check(View::backslash(br"ab\u0063d"), "abcd", "cd", (2, 9));
        check(View::backslash(br"ab\u0063d"), "abcd", "ab", (0, 2));
        check(View::backslash(br"\ud83d\ude00x"), "\u{1f600}x", "x", (12, 13));
        check(View::backslash(br"\\n\n."), "\\n\n.", ".", (5, 6));
        check(View::backslash(br"\ud800\u0041"), "\u{fffd}A", "A", (6, 12));
        check(View::percent(b"a%2Fb%zz"), "a/b%zz", "/b", (1, 5));
        assert!(View::percent(b"100%").is_none());
        assert!(View::backslash(br"\u12").is_none());
    }
}
