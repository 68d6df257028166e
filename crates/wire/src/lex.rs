//! Byte-level pieces that the scan, the canonical writer and the envelope share.
//!
//! All of them are total: on text that is not JSON they stop at the end instead of panicking.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Offset of the first byte at or after `at` that ends a plain run inside a string: a quote, a backslash or a control
/// character; the length of `bytes` when there is none.
#[inline]
pub(crate) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*word);
        let found = special(word);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            return at;
        }
        at += 1;
    }
    at
}

/// The high bit of each byte that is a quote, a backslash or below 0x20. Only the lowest set bit is exact, because a
/// borrow may run upwards from a true hit.
#[inline]
const fn special(word: u64) -> u64 {
    // Flipping bit 1 takes the quote (0x22) to 0x20, next to the control characters, and keeps those below 0x20.
    let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21) & !word;
    let slash = word ^ (ONES * b'\\' as u64);
    let slash = slash.wrapping_sub(ONES) & !slash;
    (quote_or_control | slash) & HIGH
}

/// Offset of the first byte at or after `at` that is not JSON white space.
#[inline]
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Offset of the first byte at or after `at` that is not an ASCII digit.
#[inline]
pub(crate) fn skip_digits(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Offset just after the closing quote of the string whose opening quote is at `at`, and whether it has an escape. Jumps
/// over escapes unseen.
#[inline]
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> (usize, bool) {
    let mut at = at + 1;
    let mut escaped = false;
    loop {
        at = plain_end(bytes, at);
        match bytes.get(at) {
            Some(b'"') => return (at + 1, escaped),
            Some(b'\\') => {
                escaped = true;
                at += 2;
            }
            Some(_) => at += 1,
            None => return (bytes.len(), escaped),
        }
    }
}

/// Offset just after the number or literal that starts at `at`.
#[inline]
pub(crate) fn skip_atom(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Offset just after the value that starts at `at`, which must be inside text that the scan has accepted.
pub(crate) fn skip_value(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = skip_string(bytes, at).0,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            // Between values, inside a container only: a scalar at depth 0 has ended before these.
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            _ => at = skip_atom(bytes, at).max(at + 1),
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The value of the four hexadecimal digits at `at`.
#[inline]
pub(crate) fn hex4(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..)?.first_chunk::<4>()?;
    let mut value = 0_u16;
    for &digit in digits {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        value = value << 4 | u16::from(nibble);
    }
    Some(value)
}

/// One escape of a string: the character it means and its length in bytes, backslash included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// A character.
    Char(char, usize),
    /// A surrogate escape that is not half of a pair (always 6 bytes).
    Lone,
    /// Not an escape of the grammar.
    Invalid,
}

/// Reads the escape whose backslash is at `at`.
#[inline]
pub(crate) fn escape(bytes: &[u8], at: usize) -> Escape {
    let simple = match bytes.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(bytes, at),
        _ => return Escape::Invalid,
    };
    Escape::Char(simple, 2)
}

fn unicode_escape(bytes: &[u8], at: usize) -> Escape {
    let Some(first) = hex4(bytes, at + 2) else { return Escape::Invalid };
    if let Some(scalar) = char::from_u32(u32::from(first)) {
        return Escape::Char(scalar, 6);
    }
    if first < 0xdc00
        && bytes.get(at + 6) == Some(&b'\\')
        && bytes.get(at + 7) == Some(&b'u')
        && let Some(second @ 0xdc00..=0xdfff) = hex4(bytes, at + 8)
    {
        let code = 0x1_0000 + ((u32::from(first) - 0xd800) << 10) + (u32::from(second) - 0xdc00);
        return char::from_u32(code).map_or(Escape::Lone, |scalar| Escape::Char(scalar, 12));
    }
    Escape::Lone
}

/// Whether an escape that means `scalar` is spelled as RFC 8785 spells it.
pub(crate) fn is_canonical_escape(scalar: char, spelling: &[u8]) -> bool {
    match scalar {
        '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => spelling.len() == 2,
        '\0'..='\u{1f}' => !spelling.iter().any(u8::is_ascii_uppercase),
        _ => false,
    }
}

/// Appends the characters of a string body (what stands between its quotes) to `out`, escapes resolved and lone surrogates
/// as U+FFFD.
pub(crate) fn unescape_into(body: &str, out: &mut String) {
    let bytes = body.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        out.push_str(&body[at..at + found]);
        at += found;
        let (scalar, length) = match escape(bytes, at) {
            Escape::Char(scalar, length) => (scalar, length),
            Escape::Lone => (char::REPLACEMENT_CHARACTER, 6),
            Escape::Invalid => return,
        };
        out.push(scalar);
        at += length;
    }
    out.push_str(&body[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_run_stops_at_each_special_byte_wherever_it_stands() {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for before in 0..20 {
                for fill in [b'a', 0x7f, 0xc3, 0xff, b' '] {
                    let mut bytes = vec![fill; before];
                    bytes.push(special);
                    bytes.extend([b'"'; 9]);
                    assert_eq!(plain_end(&bytes, 0), before, "special {special:#x} after {before} of {fill:#x}");
                }
            }
        }
        assert_eq!(plain_end(b"abcdefghijkl", 2), 12);
        for byte in 0..=u8::MAX {
            let special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for before in [0, 7, 8] {
                let mut bytes = [b'x'; 17];
                bytes[before] = byte;
                assert_eq!(plain_end(&bytes, 0), if special { before } else { 17 }, "{byte:#x} at {before}");
            }
        }
    }

    #[test]
    fn values_are_skipped_whole() {
        for (text, end) in [
            ("1,2", 1),
            (r#""a\"]b",1"#, 7),
            (r#"{"a":[1,"}"]} x"#, 13),
            ("[[],[]],", 7),
            ("true}", 4),
            ("-1.5e+3]", 7),
        ] {
            assert_eq!(skip_value(text.as_bytes(), 0), end, "{text}");
        }
    }

    #[test]
    fn escapes_resolve() {
        let mut out = String::new();
        unescape_into(r#"a\n\u00e9\ud83d\ude00\/\ud800x\udc00\ud800"#, &mut out);
        assert_eq!(out, "a\n\u{e9}\u{1f600}/\u{fffd}x\u{fffd}\u{fffd}");
    }
}
