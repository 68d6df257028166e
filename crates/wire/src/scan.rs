//! The strict scan: one pass over a peer's bytes, before anything else may read them.

use std::borrow::Cow;

use crate::error::{JsonError, JsonReason};
use crate::lex::{self, Escape};
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
        at: 0,
        max_depth: limits.max_depth.min(MAX_DEPTH),
        lenient: profile == Profile::Acp,
        kinds: [0; KIND_WORDS],
        depth: 0,
        names: Names::new(),
        lone: Vec::new(),
        plain: true,
    };
    match scanner.run() {
        Ok(root) => Ok(scanner.finish(root)),
        Err(reason) => Err(JsonError::at(bytes, scanner.at, reason)),
    }
}

/// One bit per level, the root included, and the innermost empty container below the deepest level.
const KIND_WORDS: usize = (MAX_DEPTH + 1).div_ceil(64);

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// Where reading stands; on failure, where the text is wrong.
    at: usize,
    max_depth: usize,
    lenient: bool,
    /// One bit per open container: set for an object.
    kinds: [u64; KIND_WORDS],
    /// Number of open containers, which is the level of the next value.
    depth: usize,
    names: Names,
    /// Offsets of lone surrogate escapes.
    lone: Vec<u32>,
    /// Whether the text so far has only spellings that are canonical.
    plain: bool,
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
        Text::new(Scanned { raw: self.bytes, text, lone_surrogates, root, sorted, plain })
    }

    fn run(&mut self) -> Result<RootKind, JsonReason> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(JsonReason::ByteOrderMark);
        }
        self.space();
        let root = match self.peek() {
            Some(b'{') => RootKind::Object,
            Some(b'[') => RootKind::Array,
            Some(b'"') => RootKind::String,
            Some(b'-' | b'0'..=b'9') => RootKind::Number,
            Some(b't' | b'f') => RootKind::Bool,
            Some(b'n') => RootKind::Null,
            Some(_) => return Err(JsonReason::ExpectedValue),
            None => return Err(JsonReason::Empty),
        };
        self.values()?;
        self.space();
        if self.at < self.bytes.len() { Err(JsonReason::TrailingData) } else { Ok(root) }
    }

    /// Reads the root value, and with it every other.
    fn values(&mut self) -> Result<(), JsonReason> {
        loop {
            // `at` is where a value must start.
            if self.depth > self.max_depth {
                return Err(self.too_deep());
            }
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'{') => {
                    self.open(true);
                    self.space();
                    if self.peek() == Some(b'}') {
                        self.close_object()?;
                    } else {
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.open(false);
                    self.space();
                    if self.peek() == Some(b']') {
                        self.close_array();
                    } else {
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                Some(_) => return Err(JsonReason::ExpectedValue),
                None => return Err(JsonReason::UnexpectedEnd),
            }
            if !self.next_value()? {
                return Ok(());
            }
        }
    }

    /// After a value: closes what ends here and goes to the start of the next value. False when the root has ended.
    #[inline]
    fn next_value(&mut self) -> Result<bool, JsonReason> {
        while self.depth > 0 {
            self.space();
            let object = self.in_object();
            match (self.peek(), object) {
                (Some(b','), true) => {
                    self.at += 1;
                    self.space();
                    self.name()?;
                    return Ok(true);
                }
                (Some(b','), false) => {
                    self.at += 1;
                    self.space();
                    return Ok(true);
                }
                (Some(b'}'), true) => self.close_object()?,
                (Some(b']'), false) => self.close_array(),
                (Some(_), _) => return Err(JsonReason::ExpectedCommaOrEnd),
                (None, _) => return Err(JsonReason::UnexpectedEnd),
            }
        }
        Ok(false)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        let at = lex::skip_space(self.bytes, self.at);
        if at != self.at {
            self.plain = false;
            self.at = at;
        }
    }

    #[inline]
    fn open(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        // A container may sit at the deepest level, so that there are MAX_DEPTH + 1 of them at most.
        if let Some(word) = self.kinds.get_mut(word) {
            *word = *word & !(1 << bit) | u64::from(object) << bit;
        }
        self.depth += 1;
        self.at += 1;
        if object {
            self.names.open();
        }
    }

    #[inline]
    fn in_object(&self) -> bool {
        let level = self.depth - 1;
        self.kinds.get(level / 64).is_some_and(|word| word >> (level % 64) & 1 == 1)
    }

    #[inline]
    fn close_object(&mut self) -> Result<(), JsonReason> {
        if let Some(body) = self.names.close(self.text) {
            self.at = body - 1;
            return Err(JsonReason::DuplicateName);
        }
        self.depth -= 1;
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn close_array(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    /// A member name and its colon; ends at the start of the member's value.
    #[inline]
    fn name(&mut self) -> Result<(), JsonReason> {
        match self.peek() {
            Some(b'"') => {}
            Some(_) => return Err(JsonReason::ExpectedName),
            None => return Err(JsonReason::UnexpectedEnd),
        }
        let start = self.at;
        let escaped = self.string()?;
        if !self.names.add(self.text, start + 1, self.at - 1, escaped) {
            self.at = start;
            return Err(JsonReason::DuplicateName);
        }
        self.space();
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(JsonReason::ExpectedColon),
            None => return Err(JsonReason::UnexpectedEnd),
        }
        self.space();
        Ok(())
    }

    /// A string. True when it has an escape.
    #[inline]
    fn string(&mut self) -> Result<bool, JsonReason> {
        self.at = lex::plain_end(self.bytes, self.at + 1);
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(false);
        }
        self.string_with_escapes()?;
        Ok(true)
    }

    fn string_with_escapes(&mut self) -> Result<(), JsonReason> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(JsonReason::ControlCharacter),
                None => return Err(JsonReason::UnexpectedEnd),
            }
            self.at = lex::plain_end(self.bytes, self.at);
        }
    }

    fn escape(&mut self) -> Result<(), JsonReason> {
        match lex::escape(self.bytes, self.at) {
            Escape::Char(scalar, length) => {
                self.plain &= is_canonical_escape(scalar, &self.bytes[self.at..self.at + length]);
                self.at += length;
                Ok(())
            }
            Escape::Lone if self.lenient => {
                self.lone.push(self.at as u32);
                self.at += 6;
                Ok(())
            }
            Escape::Lone => Err(JsonReason::LoneSurrogate),
            Escape::Invalid if ends_inside_escape(&self.bytes[self.at..]) => {
                self.at = self.bytes.len();
                Err(JsonReason::UnexpectedEnd)
            }
            Escape::Invalid => Err(JsonReason::InvalidEscape),
        }
    }

    #[inline]
    fn literal(&mut self, word: &[u8]) -> Result<(), JsonReason> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        if word.starts_with(rest) {
            self.at = self.bytes.len();
            return Err(JsonReason::UnexpectedEnd);
        }
        Err(JsonReason::InvalidLiteral)
    }

    #[inline]
    fn number(&mut self) -> Result<(), JsonReason> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        let digits = start + usize::from(negative);
        let end = lex::skip_digits(self.bytes, digits);
        let count = end - digits;
        self.at = end;
        match self.bytes.get(digits) {
            Some(b'0') if count > 1 => {
                self.at = digits;
                return Err(JsonReason::InvalidNumber);
            }
            Some(b'0') if negative => self.plain = false,
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(JsonReason::InvalidNumber),
            None => return Err(JsonReason::UnexpectedEnd),
        }
        self.plain &= count <= EXACT_DIGITS;
        if let Some(b'.' | b'e' | b'E') = self.peek() {
            return self.real(start, count);
        }
        if count > SAFE_RANGE_DIGITS { self.check_range(start) } else { Ok(()) }
    }

    /// The rest of a number that has a fraction or an exponent.
    fn real(&mut self, start: usize, integer_digits: usize) -> Result<(), JsonReason> {
        self.plain = false;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if exponent {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if exponent || integer_digits > SAFE_RANGE_DIGITS { self.check_range(start) } else { Ok(()) }
    }

    fn digits(&mut self) -> Result<(), JsonReason> {
        let end = lex::skip_digits(self.bytes, self.at);
        if end == self.at {
            return Err(if end == self.bytes.len() { JsonReason::UnexpectedEnd } else { JsonReason::InvalidNumber });
        }
        self.at = end;
        Ok(())
    }

    fn check_range(&mut self, start: usize) -> Result<(), JsonReason> {
        if self.text[start..self.at].parse::<f64>().is_ok_and(f64::is_finite) {
            return Ok(());
        }
        self.at = start;
        Err(JsonReason::NumberOutOfRange)
    }

    fn too_deep(&self) -> JsonReason {
        JsonReason::TooDeep { limit_levels: self.max_depth }
    }
}

/// Whether an escape that means `scalar` is spelled as RFC 8785 spells it.
fn is_canonical_escape(scalar: char, spelling: &[u8]) -> bool {
    match scalar {
        '"' | '\\' | '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => spelling.len() == 2,
        '\0'..='\u{1f}' => !spelling.iter().any(u8::is_ascii_uppercase),
        _ => false,
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
