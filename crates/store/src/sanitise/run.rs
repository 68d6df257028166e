//! How far a secret goes that has no fixed length.

use super::count_work;

/// What ends a secret. A stream goes on dropping bytes by it when the secret is longer than what the stream can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// It has a fixed length.
    None,
    /// The digits of base64, both alphabets and padding.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// What an `Authorization` header allows in a token.
    Token68,
    /// Letters, digits, `_` and `-`.
    Word,
    /// To the end of the line, or a quote.
    Line,
    /// To this quote, or the end of the line. A backslash stands for an escaped quote.
    Quoted(u8),
    /// To the quote that ends a JSON string.
    JsonString,
    /// An unquoted value, to a separator or a blank.
    Bare,
    /// To the last line of a PEM block.
    Pem,
}

const PEM_END: &[u8] = b"-----END ";
const PEM_DASHES: &[u8] = b"-----";

impl Run {
    /// Where the run ends that has reached `from`; the end of the bytes if it does not end there.
    pub(super) fn end(self, bytes: &[u8], from: usize) -> usize {
        self.find_end(bytes, from).unwrap_or(bytes.len())
    }

    /// Where the run ends that has reached `from`; `None` if it may go on behind these bytes.
    pub(super) fn find_end(self, bytes: &[u8], from: usize) -> Option<usize> {
        let rest = bytes.get(from..).unwrap_or_default();
        let len = match self {
            Self::None => Some(0),
            Self::Pem => memchr::memmem::find(rest, PEM_END).and_then(|end| {
                let label = end + PEM_END.len();
                let dashes = memchr::memmem::find(&rest[label..], PEM_DASHES)?;
                Some(label + dashes + PEM_DASHES.len())
            }),
            Self::JsonString => json_string(rest),
            _ => rest.iter().position(|byte| !self.belongs(*byte)),
        };
        count_work(len.unwrap_or(rest.len()));
        Some(from + len?)
    }

    /// Where in `before` the run begins that goes on behind it.
    pub(super) fn start(self, before: &[u8]) -> usize {
        let len = match self {
            Self::Base64 | Self::Hex => before.iter().rev().take_while(|byte| self.belongs(**byte)).count(),
            _ => 0,
        };
        count_work(len);
        before.len() - len
    }

    /// How many of the last bytes of an unfinished run are looked at again with what comes next.
    pub(super) fn overlap_bytes(self, dropped: &[u8]) -> usize {
        match self {
            // Most of `-----END RSA PRIVATE KEY-----`, whose label is at most 64 bytes long.
            Self::Pem => dropped.len().min(PEM_END.len() + 64 + PEM_DASHES.len()),
            // A backslash whose meaning the next byte decides.
            Self::JsonString => dropped.iter().rev().take_while(|byte| **byte == b'\\').count() % 2,
            _ => 0,
        }
    }

    fn belongs(self, byte: u8) -> bool {
        match self {
            Self::None | Self::Pem | Self::JsonString => false,
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'='),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Token68 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
            }
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Line => !matches!(byte, b'\r' | b'\n' | b'"' | b'\''),
            Self::Quoted(quote) => byte != quote && byte != b'\n',
            Self::Bare => {
                !byte.is_ascii_whitespace()
                    && !matches!(byte, b'&' | b';' | b',' | b'"' | b'\'' | b')' | b'}' | b']' | b'#')
            }
        }
    }
}

fn json_string(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(next) = memchr::memchr3(b'"', b'\\', b'\n', rest.get(at..)?) {
        at += next;
        if rest[at] != b'\\' {
            return Some(at);
        }
        at += 2;
    }
    None
}
