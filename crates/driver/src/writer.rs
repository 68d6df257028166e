//! Writes our own members in RFC 8785 form: the caller names them in canonical order.

use std::io::Write;

use crate::error::ProtocolError;
use crate::value::FreeValue;

/// A buffer of canonical JSON under construction.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Text that is JSON already: punctuation, names that need no escape, literals.
    pub(crate) fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.out.push(b'"');
        let bytes = text.as_bytes();
        let mut start = 0;
        for (position, &byte) in bytes.iter().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.out.extend_from_slice(&bytes[start..position]);
            start = position + 1;
            self.escape(byte);
        }
        self.out.extend_from_slice(&bytes[start..]);
        self.out.push(b'"');
    }

    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => {
                self.out.extend_from_slice(b"\\u00");
                self.out.push(HEX[usize::from(byte >> 4)]);
                self.out.push(HEX[usize::from(byte & 0xf)]);
                return;
            }
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }

    /// Writing to a `Vec` cannot fail, so the result carries nothing.
    pub(crate) fn display(&mut self, value: impl std::fmt::Display) {
        let _ = write!(self.out, "{value}");
    }

    /// A string that needs no escape, such as an id or a digest.
    pub(crate) fn quoted(&mut self, value: impl std::fmt::Display) {
        self.out.push(b'"');
        self.display(value);
        self.out.push(b'"');
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    pub(crate) fn strings<'s>(&mut self, values: impl IntoIterator<Item = &'s str>) {
        self.out.push(b'[');
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.string(value);
        }
        self.out.push(b']');
    }

    pub(crate) fn value(&mut self, value: &FreeValue) -> Result<(), ProtocolError> {
        value.write_canonical(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_rfc_8785_says() {
        let mut out = Vec::new();
        Writer::new(&mut out).string("a\"\\\u{8}\t\n\u{c}\r\u{1}\u{1f}\u{7f}/<\u{2028}\u{1f600}");
        let expected = "\"a\\\"\\\\\\b\\t\\n\\f\\r\\u0001\\u001f\u{7f}/<\u{2028}\u{1f600}\"";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
