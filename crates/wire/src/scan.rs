//! The strict scan: one pass over a peer's bytes, before anything else may read them.

use std::borrow::Cow;

use crate::error::{JsonError, JsonReason};
use crate::lex::{self, Escape};
use crate::members::Members;
use crate::names::Names;
use crate::text::{RootKind, Scanned, Text};

/// Control frame bound of Driver RPC v1: 1 MiB, counted without the line ending.
pub const MAX_CONTROL_FRAME_BYTES: usize = 1 << 20;
/// Data frame payload bound of Driver RPC v1 unless a lower one is set: 256 KiB.
pub const DEFAULT_MAX_DATA_FRAME_BYTES: usize = 256 << 10;
/// Default bound of one ACP line, counted without the line ending: 64 MiB.
pub const MAX_ACP_LINE_BYTES: usize = 64 << 20;
/// The deepest level at which a value may sit; the root is level 0.
pub const MAX_DEPTH: usize = 256;
/// Offsets are kept in 31 bits, so that the scan's own tables stay small.
const MAX_TEXT_BYTES: usize = i32::MAX as usize;
/// With this many integer digits or fewer, and no exponent, a number is within the range of a double.
const SAFE_RANGE_DIGITS: usize = 308;
/// With this many digits or fewer an integer is exact as a double and prints as it was written.
const EXACT_DIGITS: usize = 15;

/// Whose rules apply where protocols differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Driver RPC, evidence, our own files: a lone surrogate escape is refused.
    DriverRpc,
    /// ACP: a lone surrogate escape decodes to U+FFFD and is counted, because JavaScript peers cut strings between the
    /// halves of a pair. [`Text::raw`] keeps what was sent.
    Acp,
}

/// Bounds of one scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScanLimits {
    /// Most bytes of the text. Whatever is set here, 2 GiB - 1 is the most.
    pub max_bytes: usize,
    /// The deepest level at which a value may sit, the root being level 0. Whatever is set here, [`MAX_DEPTH`] is the most,
    /// because decoding recurses.
    pub max_depth: usize,
}

impl ScanLimits {
    /// One Driver RPC control frame: 1 MiB, 256 levels.
    pub const CONTROL: Self = Self { max_bytes: MAX_CONTROL_FRAME_BYTES, max_depth: MAX_DEPTH };
    /// One ACP line: 64 MiB, 256 levels.
    pub const ACP: Self = Self { max_bytes: MAX_ACP_LINE_BYTES, max_depth: MAX_DEPTH };
    /// Text whose size somebody else has bounded: 256 levels.
    pub const DEPTH_ONLY: Self = Self { max_bytes: usize::MAX, max_depth: MAX_DEPTH };
}

/// Proves that `bytes` are strict JSON: within the limits, UTF-8, exactly one value of the RFC 8259 grammar, no value deeper
/// than the limit, no two members of one object with the same name after unescaping, every number within the range of a
/// double, every surrogate escape half of a pair (see [`Profile`] for the exception).
///
/// The checks come in this order: size, UTF-8, then the rest as the text is read; the first failure is the one reported.
/// Time is linear in the size, but for objects whose names do not ascend: O(n log n) in their number of members.
///
/// # Errors
///
/// [`JsonError`] with class, place and reason.
pub fn scan<'a>(bytes: &'a [u8], profile: Profile, limits: ScanLimits) -> Result<Text<'a>, JsonError> {
    let limit_bytes = limits.max_bytes.min(MAX_TEXT_BYTES);
    if bytes.len() > limit_bytes {
        return Err(JsonError::at(bytes, limit_bytes, JsonReason::TooLarge { limit_bytes }));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError::at(bytes, error.valid_up_to(), JsonReason::InvalidUtf8))?;
    let mut scanner = Scanner {
        text,
        bytes,
        max_depth: limits.max_depth.min(MAX_DEPTH),
        lenient: profile == Profile::Acp,
        kinds: [0; KIND_WORDS],
        names: Names::new(),
        lone: Vec::new(),
        plain: true,
        members: Members::default(),
        fault: (0, JsonReason::Empty),
    };
    match scanner.root() {
        Some(root) => Ok(scanner.finish(root)),
        None => {
            let (at, reason) = scanner.fault;
            Err(JsonError::at(bytes, at, reason))
        }
    }
}

/// One bit per level, the root included, and the innermost empty container below the deepest level.
const KIND_WORDS: usize = (MAX_DEPTH + 1).div_ceil(64);

/// The state of one scan. Where reading stands is an argument and a result of each step, so that it stays in a register;
/// `None` is a fault, which is kept aside.
struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    max_depth: usize,
    lenient: bool,
    /// One bit per open container: set for an object.
    kinds: [u64; KIND_WORDS],
    names: Names,
    /// Offsets of lone surrogate escapes.
    lone: Vec<u32>,
    /// Whether the text so far has only spellings that are canonical.
    plain: bool,
    /// The members of the root object.
    members: Members,
    /// Where the text is wrong, and why.
    fault: (usize, JsonReason),
}

impl<'a> Scanner<'a> {
    fn finish(self, root: RootKind) -> Text<'a> {
        let text = if self.lone.is_empty() {
            Cow::Borrowed(self.text)
        } else {
            Cow::Owned(replace_lone(self.text, &self.lone))
        };
        let sorted = self.names.all_ascending() && utf16_order_is_byte_order(self.bytes);
        let (lone_surrogates, plain) = (self.lone.len() as u32, self.plain && self.lone.is_empty());
        Text::new(Scanned { raw: self.bytes, text, lone_surrogates, root, sorted, plain, members: self.members })
    }

    fn root(&mut self) -> Option<RootKind> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            return self.fail(0, JsonReason::ByteOrderMark);
        }
        let at = self.space(0);
        let root = match self.bytes.get(at) {
            Some(b'{') => RootKind::Object,
            Some(b'[') => RootKind::Array,
            Some(b'"') => RootKind::String,
            Some(b'-' | b'0'..=b'9') => RootKind::Number,
            Some(b't' | b'f') => RootKind::Bool,
            Some(b'n') => RootKind::Null,
            Some(_) => return self.fail(at, JsonReason::ExpectedValue),
            None => return self.fail(at, JsonReason::Empty),
        };
        let end = self.values(at)?;
        let end = self.space(end);
        if end < self.bytes.len() { self.fail(end, JsonReason::TrailingData) } else { Some(root) }
    }

    /// Reads the root value, and with it every other. Returns where it ends.
    fn values(&mut self, mut at: usize) -> Option<usize> {
        let bytes = self.bytes;
        // Number of open containers, which is the level of the next value, and whether the innermost is an object.
        let mut depth = 0;
        let mut object = false;
        // Whether a member name stands before the next value.
        let mut named = false;
        loop {
            if named {
                let name = at;
                let (name_end, escaped, value) = self.name(at)?;
                at = value;
                if depth == 1 {
                    self.members.begin(name, name_end, escaped, value);
                }
            }
            // `at` is where a value must start.
            if depth > self.max_depth {
                return self.fail(at, JsonReason::TooDeep { limit_levels: self.max_depth });
            }
            match bytes.get(at) {
                Some(b'"') => at = self.string(at)?.0,
                Some(b'{') => {
                    self.set_kind(depth, true);
                    self.names.open();
                    depth += 1;
                    object = true;
                    at = self.space(at + 1);
                    if bytes.get(at) != Some(&b'}') {
                        named = true;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.set_kind(depth, false);
                    depth += 1;
                    object = false;
                    at = self.space(at + 1);
                    if bytes.get(at) != Some(&b']') {
                        named = false;
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => at = self.number(at)?,
                Some(b't') => at = self.literal(at, b"true")?,
                Some(b'f') => at = self.literal(at, b"false")?,
                Some(b'n') => at = self.literal(at, b"null")?,
                Some(_) => return self.fail(at, JsonReason::ExpectedValue),
                None => return self.fail(at, JsonReason::UnexpectedEnd),
            }
            // After a value: close what ends here, up to the next value.
            loop {
                match depth {
                    0 => return Some(at),
                    1 => self.members.end(at),
                    _ => {}
                }
                at = self.space(at);
                match bytes.get(at) {
                    Some(b',') => {
                        at = self.space(at + 1);
                        named = object;
                        break;
                    }
                    Some(b'}') if object => {
                        if let Some(body) = self.names.close(self.text) {
                            return self.fail(body - 1, JsonReason::DuplicateName);
                        }
                    }
                    Some(b']') if !object => {}
                    Some(_) => return self.fail(at, JsonReason::ExpectedCommaOrEnd),
                    None => return self.fail(at, JsonReason::UnexpectedEnd),
                }
                at += 1;
                depth -= 1;
                object = depth > 0 && self.kind(depth - 1);
            }
        }
    }

    #[cold]
    fn fail<T>(&mut self, at: usize, reason: JsonReason) -> Option<T> {
        self.fault = (at, reason);
        None
    }

    #[inline]
    fn space(&mut self, at: usize) -> usize {
        match self.bytes.get(at) {
            Some(b' ' | b'\t' | b'\n' | b'\r') => {
                self.plain = false;
                lex::skip_space(self.bytes, at + 1)
            }
            _ => at,
        }
    }

    #[inline]
    fn set_kind(&mut self, level: usize, object: bool) {
        // A container may sit at the deepest level, so that there are MAX_DEPTH + 1 of them at most.
        if let Some(word) = self.kinds.get_mut(level / 64) {
            *word = *word & !(1 << (level % 64)) | u64::from(object) << (level % 64);
        }
    }

    #[inline]
    fn kind(&self, level: usize) -> bool {
        self.kinds.get(level / 64).is_some_and(|word| word >> (level % 64) & 1 == 1)
    }

    /// A member name and its colon. Returns where the name ends, whether it has an escape, and where the member's value
    /// starts.
    #[inline]
    fn name(&mut self, start: usize) -> Option<(usize, bool, usize)> {
        match self.bytes.get(start) {
            Some(b'"') => {}
            Some(_) => return self.fail(start, JsonReason::ExpectedName),
            None => return self.fail(start, JsonReason::UnexpectedEnd),
        }
        let (end, escaped) = self.string(start)?;
        if !self.names.add(self.text, start + 1, end - 1, escaped) {
            return self.fail(start, JsonReason::DuplicateName);
        }
        let colon = self.space(end);
        match self.bytes.get(colon) {
            Some(b':') => Some((end, escaped, self.space(colon + 1))),
            Some(_) => self.fail(colon, JsonReason::ExpectedColon),
            None => self.fail(colon, JsonReason::UnexpectedEnd),
        }
    }

    /// A string. Returns where it ends, and whether it has an escape.
    #[inline]
    fn string(&mut self, at: usize) -> Option<(usize, bool)> {
        let at = lex::plain_end(self.bytes, at + 1);
        if self.bytes.get(at) == Some(&b'"') {
            return Some((at + 1, false));
        }
        Some((self.string_with_escapes(at)?, true))
    }

    fn string_with_escapes(&mut self, mut at: usize) -> Option<usize> {
        loop {
            at = match self.bytes.get(at) {
                Some(b'"') => return Some(at + 1),
                Some(b'\\') => self.escape(at)?,
                Some(_) => return self.fail(at, JsonReason::ControlCharacter),
                None => return self.fail(at, JsonReason::UnexpectedEnd),
            };
            at = lex::plain_end(self.bytes, at);
        }
    }

    fn escape(&mut self, at: usize) -> Option<usize> {
        match lex::escape(self.bytes, at) {
            Escape::Char(scalar, length) => {
                self.plain &= lex::is_canonical_escape(scalar, &self.bytes[at..at + length]);
                Some(at + length)
            }
            Escape::Lone if self.lenient => {
                self.lone.push(at as u32);
                Some(at + 6)
            }
            Escape::Lone => self.fail(at, JsonReason::LoneSurrogate),
            Escape::Invalid if ends_inside_escape(&self.bytes[at..]) => {
                self.fail(self.bytes.len(), JsonReason::UnexpectedEnd)
            }
            Escape::Invalid => self.fail(at, JsonReason::InvalidEscape),
        }
    }

    #[inline]
    fn literal(&mut self, at: usize, word: &[u8]) -> Option<usize> {
        let rest = &self.bytes[at..];
        if rest.starts_with(word) {
            return Some(at + word.len());
        }
        if word.starts_with(rest) {
            return self.fail(self.bytes.len(), JsonReason::UnexpectedEnd);
        }
        self.fail(at, JsonReason::InvalidLiteral)
    }

    #[inline]
    fn number(&mut self, start: usize) -> Option<usize> {
        let negative = self.bytes.get(start) == Some(&b'-');
        let digits = start + usize::from(negative);
        let end = lex::skip_digits(self.bytes, digits);
        let count = end - digits;
        match self.bytes.get(digits) {
            Some(b'0') if count > 1 => return self.fail(digits, JsonReason::InvalidNumber),
            Some(b'0') if negative => self.plain = false,
            Some(b'0'..=b'9') => {}
            Some(_) => return self.fail(digits, JsonReason::InvalidNumber),
            None => return self.fail(digits, JsonReason::UnexpectedEnd),
        }
        self.plain &= count <= EXACT_DIGITS;
        if let Some(b'.' | b'e' | b'E') = self.bytes.get(end) {
            return self.real(start, end, count);
        }
        if count > SAFE_RANGE_DIGITS { self.in_range(start, end) } else { Some(end) }
    }

    /// The rest of a number, from `at`, that has a fraction or an exponent.
    fn real(&mut self, start: usize, mut at: usize, integer_digits: usize) -> Option<usize> {
        self.plain = false;
        if self.bytes.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        let exponent = matches!(self.bytes.get(at), Some(b'e' | b'E'));
        if exponent {
            let sign = matches!(self.bytes.get(at + 1), Some(b'+' | b'-'));
            at = self.digits(at + 1 + usize::from(sign))?;
        }
        if exponent || integer_digits > SAFE_RANGE_DIGITS { self.in_range(start, at) } else { Some(at) }
    }

    fn digits(&mut self, at: usize) -> Option<usize> {
        let end = lex::skip_digits(self.bytes, at);
        if end > at {
            return Some(end);
        }
        let reason = if end == self.bytes.len() { JsonReason::UnexpectedEnd } else { JsonReason::InvalidNumber };
        self.fail(at, reason)
    }

    fn in_range(&mut self, start: usize, end: usize) -> Option<usize> {
        if self.text[start..end].parse::<f64>().is_ok_and(f64::is_finite) {
            return Some(end);
        }
        self.fail(start, JsonReason::NumberOutOfRange)
    }
}

/// Whether the text, which ends inside a string, stops before its last escape does.
fn ends_inside_escape(rest: &[u8]) -> bool {
    match rest {
        [_] => true,
        [_, b'u', digits @ ..] => digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    }
}

/// `text` with each lone surrogate escape spelled as U+FFFD; both spellings are 6 bytes long.
fn replace_lone(text: &str, lone: &[u32]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    for &at in lone {
        let at = at as usize;
        replaced.push_str(&text[done..at]);
        replaced.push_str("\\ufffd");
        done = at + 6;
    }
    replaced.push_str(&text[done..]);
    replaced
}

/// Whether sorting by bytes and by UTF-16 code units gives the same order for every string of this text: true without
/// characters beyond U+FFFF.
fn utf16_order_is_byte_order(bytes: &[u8]) -> bool {
    bytes.is_ascii() || !bytes.iter().any(|byte| *byte >= 0xf0)
}
