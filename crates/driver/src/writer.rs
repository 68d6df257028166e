//! Writes our own members in RFC 8785 form: the caller names them in canonical order.

use std::io::Write;

use pintle_wire::{Digest, InstanceId};

use crate::error::ProtocolError;
use crate::value::FreeValue;

const HEX: &[u8; 16] = b"0123456789abcdef";

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
        self.out.reserve(text.len() + 2);
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
    pub(crate) fn integer(&mut self, value: i64) {
        let _ = write!(self.out, "{value}");
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        let mut digits = [0; 20];
        let mut rest = value;
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[start..]);
    }

    /// An instance id, quoted.
    pub(crate) fn instance_id(&mut self, id: InstanceId) {
        let mut text = *b"\"00000000-0000-0000-0000-000000000000\"";
        let digits = text.iter_mut().filter(|byte| **byte == b'0');
        for (index, digit) in digits.enumerate() {
            let byte = id.as_bytes()[index / 2];
            *digit = HEX[usize::from(if index % 2 == 0 { byte >> 4 } else { byte & 0xf })];
        }
        self.out.extend_from_slice(&text);
    }

    /// A digest, quoted.
    pub(crate) fn digest(&mut self, digest: Digest) {
        self.raw("\"sha256:");
        self.out.extend(
            digest.as_bytes().iter().flat_map(|byte| [byte >> 4, byte & 0xf]).map(|nibble| HEX[usize::from(nibble)]),
        );
        self.raw("\"");
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
