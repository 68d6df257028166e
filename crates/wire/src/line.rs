//! The ending of one line.

use bytes::Bytes;

/// What is wrong with the bytes of one line before any JSON is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LineError {
    /// Nothing but a line ending, or nothing at all.
    #[error("line is empty")]
    Empty,
    /// A CR or LF that is not the line ending.
    #[error("line break inside the line at byte {offset}")]
    LineBreak {
        /// Zero-based offset of the first stray CR or LF.
        offset: usize,
    },
}

/// Removes the ending of one line as Driver RPC has it: one LF, and one CR directly before that LF.
///
/// A CR without an LF ends nothing. What is left may hold neither byte, not even as white space around a value.
///
/// # Errors
///
/// [`LineError`]. Size, UTF-8 and JSON are not looked at.
pub fn strip_line_ending(line: &[u8]) -> Result<&[u8], LineError> {
    let body = match line {
        [body @ .., b'\r', b'\n'] | [body @ .., b'\n'] => body,
        body => body,
    };
    match memchr::memchr2(b'\r', b'\n', body) {
        _ if body.is_empty() => Err(LineError::Empty),
        Some(offset) => Err(LineError::LineBreak { offset }),
        None => Ok(body),
    }
}

/// Removes one UTF-8 byte order mark at the start. ACP allows one before the first line of a stream.
pub fn strip_bom(line: Bytes) -> Bytes {
    if line.starts_with(b"\xef\xbb\xbf") { line.slice(3..) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &[u8], expected: Result<&[u8], LineError>) {
        assert_eq!(strip_line_ending(line), expected, "{}", line.escape_ascii());
    }

    #[test]
    fn only_one_ending_is_removed() {
        check(b"{}", Ok(b"{}"));
        check(b"{}\n", Ok(b"{}"));
        check(b"{}\r\n", Ok(b"{}"));
        check(b"{}\r", Err(LineError::LineBreak { offset: 2 }));
        check(b"{}\r\r\n", Err(LineError::LineBreak { offset: 2 }));
        check(b"{}\n\n", Err(LineError::LineBreak { offset: 2 }));
        check(b"{\n}\n", Err(LineError::LineBreak { offset: 1 }));
        check(b"", Err(LineError::Empty));
        check(b"\n", Err(LineError::Empty));
        check(b"\r\n", Err(LineError::Empty));
        check(b"\r", Err(LineError::LineBreak { offset: 0 }));
    }

    #[test]
    fn one_mark_is_removed() {
        assert_eq!(strip_bom(Bytes::from_static(b"\xef\xbb\xbf\xef\xbb\xbf{}")), &b"\xef\xbb\xbf{}"[..]);
        assert_eq!(strip_bom(Bytes::from_static(b"{}")), &b"{}"[..]);
    }
}
