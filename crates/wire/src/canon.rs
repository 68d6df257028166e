//! RFC 8785 for text: the canonical form of what a peer sent.
//!
//! The text is not turned into a tree. Values are copied in the order in which they are wanted, straight from the text; only
//! objects whose names are not in order get an index of their members. So memory stays small, and time is that of sorting.

use std::cmp::Ordering;

use crate::error::JsonError;
use crate::lex::{self, Escape};
use crate::names::prefix;
use crate::scan::{Profile, ScanLimits, scan};
use crate::text::Text;

/// Digits up to which an integer is exact as a double and is printed as it is written.
const EXACT_DIGITS: usize = 15;

/// Why there is no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonError {
    /// The bytes are not strict JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The text has a lone surrogate escape, which RFC 8785 has no form for (only after [`Profile::Acp`]).
    #[error("text has a surrogate escape without its other half")]
    LoneSurrogate,
    /// A value of ours has an integer beyond 2^53 in magnitude, which a double would change silently.
    #[error("integer is beyond 2^53 in magnitude")]
    UnsafeInteger,
    /// A value of ours has a float that is not finite.
    #[error("number is not finite")]
    NotFinite,
    /// A map of ours has a key that is not a string, an integer, a boolean or a character.
    #[error("map key is not a string")]
    KeyNotString,
    /// A map of ours has the same key twice.
    #[error("map has the same key twice")]
    DuplicateKey,
    /// The `Serialize` implementation of a value of ours gave up, with these words.
    #[error("value cannot be serialised: {message}")]
    Refused {
        /// Its words.
        message: Box<str>,
    },
}

/// The canonical form (RFC 8785) of a text: members sorted by UTF-16 code units, no white space, shortest spellings, numbers
/// as doubles.
///
/// # Errors
///
/// [`CanonError::LoneSurrogate`].
pub fn canonicalize(text: &Text<'_>) -> Result<Vec<u8>, CanonError> {
    let mut out = Vec::with_capacity(text.raw().len());
    canonicalize_into(text, &mut out)?;
    Ok(out)
}

/// Appends the canonical form of a text to `out`; on an error `out` is unchanged.
///
/// # Errors
///
/// [`CanonError::LoneSurrogate`].
pub fn canonicalize_into(text: &Text<'_>, out: &mut Vec<u8>) -> Result<(), CanonError> {
    if text.lone_surrogates() > 0 {
        return Err(CanonError::LoneSurrogate);
    }
    if text.is_known_canonical() {
        out.extend_from_slice(text.raw());
        return Ok(());
    }
    let index = if text.is_known_sorted() { Index::default() } else { Index::of(text.as_str()) };
    let (text, frames) = (text.as_str(), Vec::with_capacity(16));
    Writer { text, bytes: text.as_bytes(), index: &index, next_object: 0, frames, run: 0, out }.run();
    Ok(())
}

/// Scans `bytes` with the strict profile and no size bound, and gives their canonical form.
///
/// # Errors
///
/// [`CanonError::Json`] when the bytes are not strict JSON.
pub fn canonicalize_bytes(bytes: &[u8]) -> Result<Vec<u8>, CanonError> {
    canonicalize(&scan(bytes, Profile::DriverRpc, ScanLimits::DEPTH_ONLY)?)
}

/// The order of RFC 8785: by UTF-16 code units. It differs from the order of the bytes only where a character beyond U+FFFF
/// (surrogates D800 to DFFF in UTF-16) meets one from U+E000 to U+FFFF.
pub(crate) fn utf16_order(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    match (a.get(common), b.get(common)) {
        (Some(a @ 0xee..), Some(b @ 0xee..)) if (*a >= 0xf0) != (*b >= 0xf0) => b.cmp(a),
        (Some(a), Some(b)) => a.cmp(b),
        _ => a.len().cmp(&b.len()),
    }
}

/// The order by the first bytes alone; `None` when it takes all of them.
#[inline]
pub(crate) fn prefix_order(a: u64, b: u64) -> Option<Ordering> {
    const NOT_ASCII: u64 = 0x8080_8080_8080_8080;
    if a != b && (a | b) & NOT_ASCII == 0 { Some(a.cmp(&b)) } else { None }
}

/// Appends `value` as a string of JSON, quotes and all, in the canonical spelling of RFC 8785.
pub fn append_string(value: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = value.as_bytes();
    let mut at = 0;
    loop {
        let end = lex::plain_end(bytes, at);
        out.extend_from_slice(&bytes[at..end]);
        match bytes.get(end) {
            Some(&byte) => write_escaped(byte, out),
            None => break,
        }
        at = end + 1;
    }
    out.push(b'"');
}

/// Appends an integer in decimal digits.
pub fn append_integer(value: i64, out: &mut Vec<u8>) {
    // Twenty bytes: a sign and the nineteen digits of the largest.
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a double as ECMAScript prints it.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
}

/// A character that needs an escape: a quote, a backslash or a control character.
fn write_escaped(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// The objects of a text in the order in which they open, and the members of those that are not sorted.
#[derive(Default)]
struct Index {
    objects: Vec<Object>,
    members: Vec<Member>,
    /// Unescaped spellings of names that have escapes.
    unescaped: Vec<Box<str>>,
}

#[derive(Clone, Copy, Default)]
struct Object {
    /// Its members in `Index::members`; empty when it is printed in the order of the text.
    first: u32,
    count: u32,
    /// Offset after its closing brace.
    end: u32,
    /// Number of objects that open before `end`.
    next_object: u32,
}

#[derive(Clone, Copy)]
struct Member {
    /// The first bytes of the name.
    prefix: u64,
    /// Offset of the quote that opens the name.
    name: u32,
    /// Length of the name's body, or its index in `Index::unescaped`.
    len: u32,
    escaped: bool,
    /// Number of objects that open before its value.
    next_object: u32,
}

/// A container that is open while the index is built.
enum Open {
    Array,
    Object { object: usize, first: usize, sorted: bool },
}

impl Index {
    /// Reads a text that the scan has accepted.
    fn of(text: &str) -> Self {
        let mut index = Self::default();
        let mut open: Vec<Open> = Vec::with_capacity(16);
        let mut pending: Vec<Member> = Vec::with_capacity(32);
        let bytes = text.as_bytes();
        let mut at = lex::skip_space(bytes, 0);
        loop {
            match bytes.get(at) {
                Some(b'{') => {
                    open.push(Open::Object { object: index.objects.len(), first: pending.len(), sorted: true });
                    index.objects.push(Object::default());
                    at = lex::skip_space(bytes, at + 1);
                    if bytes.get(at) != Some(&b'}') {
                        at = index.member(text, at, &mut open, &mut pending);
                        continue;
                    }
                }
                Some(b'[') => {
                    open.push(Open::Array);
                    at = lex::skip_space(bytes, at + 1);
                    if bytes.get(at) != Some(&b']') {
                        continue;
                    }
                }
                Some(b'"') => at = lex::skip_string(bytes, at).0,
                Some(_) => at = lex::skip_atom(bytes, at),
                None => return index,
            }
            loop {
                at = lex::skip_space(bytes, at);
                match (bytes.get(at), open.last()) {
                    (Some(b','), Some(Open::Array)) => {
                        at = lex::skip_space(bytes, at + 1);
                        break;
                    }
                    (Some(b','), Some(Open::Object { .. })) => {
                        at = index.member(text, lex::skip_space(bytes, at + 1), &mut open, &mut pending);
                        break;
                    }
                    (Some(_), Some(_)) => {
                        at += 1;
                        if let Some(Open::Object { object, first, sorted }) = open.pop() {
                            index.close(text, at, object, first, sorted, &mut pending);
                        }
                    }
                    _ => return index,
                }
            }
        }
    }

    /// A member whose name starts at `at`; returns the offset of its value.
    fn member(&mut self, text: &str, at: usize, open: &mut [Open], pending: &mut Vec<Member>) -> usize {
        let bytes = text.as_bytes();
        let (end, escaped) = lex::skip_string(bytes, at);
        let (prefix, len) = if escaped {
            let mut name = String::new();
            lex::unescape_into(text.get(at + 1..end - 1).unwrap_or_default(), &mut name);
            let prefix = prefix(name.as_bytes(), 0, name.len());
            self.unescaped.push(name.into_boxed_str());
            (prefix, self.unescaped.len() - 1)
        } else {
            let len = end.saturating_sub(at + 2);
            (prefix(bytes, at + 1, len), len)
        };
        let colon = lex::skip_space(bytes, end);
        let value = lex::skip_space(bytes, colon + 1);
        let next_object = self.objects.len() as u32;
        let member = Member { prefix, name: at as u32, len: len as u32, escaped, next_object };
        if let Some(Open::Object { first, sorted, .. }) = open.last_mut()
            && *sorted
            && pending.len() > *first
        {
            *sorted = pending.last().is_some_and(|last| self.order(text, last, &member) == Ordering::Less);
        }
        pending.push(member);
        value
    }

    fn close(&mut self, text: &str, end: usize, object: usize, first: usize, sorted: bool, pending: &mut Vec<Member>) {
        let next_object = self.objects.len() as u32;
        let mut closed = Object { first: self.members.len() as u32, count: 0, end: end as u32, next_object };
        if !sorted {
            pending[first..].sort_unstable_by(|a, b| self.order(text, a, b));
            closed.count = (pending.len() - first) as u32;
            self.members.extend_from_slice(&pending[first..]);
        }
        pending.truncate(first);
        self.objects[object] = closed;
    }

    fn order(&self, text: &str, a: &Member, b: &Member) -> Ordering {
        prefix_order(a.prefix, b.prefix).unwrap_or_else(|| utf16_order(self.name(text, a), self.name(text, b)))
    }

    fn name<'t>(&'t self, text: &'t str, member: &Member) -> &'t str {
        if member.escaped {
            return self.unescaped.get(member.len as usize).map_or("", |name| name);
        }
        let start = member.name as usize + 1;
        text.get(start..start + member.len as usize).unwrap_or_default()
    }
}

/// A container that is open while the form is written.
enum Frame {
    Array,
    /// An object in the order of the text.
    Inline,
    /// An object in the order of its index: the next member, the one after the last, and where to go on behind it.
    Sorted {
        next: u32,
        end: u32,
        object: Object,
    },
}

/// Writes the form. What stands in the text as it must stand in the form is not copied piece by piece: it is a run, which
/// ends where the two part.
struct Writer<'w> {
    text: &'w str,
    bytes: &'w [u8],
    index: &'w Index,
    /// The object of the index that opens next.
    next_object: u32,
    frames: Vec<Frame>,
    /// Where the text begins that is yet to be copied.
    run: usize,
    out: &'w mut Vec<u8>,
}

impl Writer<'_> {
    fn run(&mut self) {
        let mut at = self.gap(0);
        loop {
            at = match self.bytes.get(at) {
                Some(b'{') => {
                    let (next, is_value) = self.open_object(at);
                    if is_value {
                        at = next;
                        continue;
                    }
                    next
                }
                Some(b'[') => {
                    self.frames.push(Frame::Array);
                    let next = self.gap(at + 1);
                    if self.bytes.get(next) != Some(&b']') {
                        at = next;
                        continue;
                    }
                    next
                }
                Some(b'"') => self.string(at),
                Some(b't' | b'f' | b'n') => lex::skip_atom(self.bytes, at),
                Some(_) => self.number(at),
                None => return,
            };
            match self.next_value(at) {
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// Copies the run, up to `end`; the next begins at `start`.
    #[inline]
    fn flush(&mut self, end: usize, start: usize) {
        self.out.extend_from_slice(self.bytes.get(self.run..end).unwrap_or_default());
        self.run = start;
    }

    /// Leaves out white space; returns where it ends.
    #[inline]
    fn gap(&mut self, at: usize) -> usize {
        let end = lex::skip_space(self.bytes, at);
        if end != at {
            self.flush(at, end);
        }
        end
    }

    /// An object opens. Returns where to go on, and whether a value stands there (or else the closing brace).
    fn open_object(&mut self, at: usize) -> (usize, bool) {
        let object = self.index.objects.get(self.next_object as usize).copied().unwrap_or_default();
        self.next_object += 1;
        if object.count > 0 {
            self.flush(at + 1, at + 1);
            self.frames.push(Frame::Sorted { next: object.first, end: object.first + object.count, object });
            return match self.next_member() {
                Some(value) => (value, true),
                None => (object.end as usize, false),
            };
        }
        self.frames.push(Frame::Inline);
        let start = self.gap(at + 1);
        if self.bytes.get(start) == Some(&b'}') { (start, false) } else { (self.name(start), true) }
    }

    /// After a value: closes what ends, and returns where the next value starts; `None` when the root has ended.
    fn next_value(&mut self, mut at: usize) -> Option<usize> {
        loop {
            let Some(frame) = self.frames.last() else {
                self.flush(at, at);
                return None;
            };
            match frame {
                Frame::Array | Frame::Inline => {
                    let inline = matches!(frame, Frame::Inline);
                    at = self.gap(at);
                    if self.bytes.get(at) == Some(&b',') {
                        at = self.gap(at + 1);
                        return Some(if inline { self.name(at) } else { at });
                    }
                    at += 1;
                }
                Frame::Sorted { next, end, object } => {
                    let (done, object) = (next == end, *object);
                    self.flush(at, at);
                    if !done {
                        self.out.push(b',');
                        return self.next_member();
                    }
                    // The closing brace of the text begins the next run.
                    at = object.end as usize;
                    self.run = at - 1;
                    self.next_object = object.next_object;
                }
            }
            self.frames.pop();
        }
    }

    /// The next member of the sorted object on top: a run begins at its name. Returns where its value starts.
    fn next_member(&mut self) -> Option<usize> {
        let Some(Frame::Sorted { next, .. }) = self.frames.last_mut() else { return None };
        let member = *self.index.members.get(*next as usize)?;
        *next += 1;
        self.next_object = member.next_object;
        self.run = member.name as usize;
        Some(self.name(member.name as usize))
    }

    /// A name and its colon; returns where the value starts.
    #[inline]
    fn name(&mut self, at: usize) -> usize {
        let end = self.string(at);
        let colon = self.gap(end);
        self.gap(colon + 1)
    }

    /// A string whose opening quote is at `at`; returns where it ends.
    #[inline]
    fn string(&mut self, at: usize) -> usize {
        let mut at = lex::plain_end(self.bytes, at + 1);
        while self.bytes.get(at) == Some(&b'\\') {
            at = lex::plain_end(self.bytes, self.escape(at));
        }
        // The closing quote; anything else cannot be.
        at + 1
    }

    /// An escape, which is copied or spelled anew; returns where it ends.
    fn escape(&mut self, at: usize) -> usize {
        let Escape::Char(scalar, length) = lex::escape(self.bytes, at) else { return self.bytes.len() };
        let end = at + length;
        if !lex::is_canonical_escape(scalar, &self.bytes[at..end]) {
            self.flush(at, end);
            match scalar {
                '"' | '\\' | '\0'..='\u{1f}' => write_escaped(scalar as u8, self.out),
                scalar => self.out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        end
    }

    /// A number, which is copied or printed anew; returns where it ends.
    fn number(&mut self, at: usize) -> usize {
        let digits = at + usize::from(self.bytes.get(at) == Some(&b'-'));
        let end = lex::skip_digits(self.bytes, digits);
        let whole = !matches!(self.bytes.get(end), Some(b'.' | b'e' | b'E'));
        let negative_zero = digits > at && self.bytes.get(digits) == Some(&b'0');
        if whole && end - digits <= EXACT_DIGITS && !negative_zero {
            return end.max(at + 1);
        }
        let end = lex::skip_atom(self.bytes, at).max(at + 1);
        self.flush(at, end);
        // The scan has made sure that this is a finite double.
        write_double(self.text.get(at..end).and_then(|text| text.parse().ok()).unwrap_or(0.0), self.out);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_decimal() {
        for value in [0, 7, -1, 10, -90, 1_000_000, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            append_integer(value, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), value.to_string());
        }
    }

    fn check(text: &str, expected: &str) {
        let canonical = canonicalize_bytes(text.as_bytes()).expect("strict");
        assert_eq!(String::from_utf8_lossy(&canonical), expected, "{text}");
    }

    #[test]
    fn members_are_sorted_at_every_depth_and_arrays_are_not() {
        check(
            r#" { "b" : [ 3 , { "z" : 1 , "a" : { "y" : {} , "x" : [ ] } } ] , "a" : "" } "#,
            r#"{"a":"","b":[3,{"a":{"x":[],"y":{}},"z":1}]}"#,
        );
        check(
            r#"{"b":{"d":1,"c":{"f":{"h":1,"g":2},"e":3}},"a":{"j":1,"i":2}}"#,
            r#"{"a":{"i":2,"j":1},"b":{"c":{"e":3,"f":{"g":2,"h":1}},"d":1}}"#,
        );
    }

    #[test]
    fn names_sort_by_utf16_code_units_after_unescaping() {
        check("{\"\u{fb33}\":1,\"\u{1f600}\":2}", "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
        check("{\"\u{1f600}\":2,\"\u{fb33}\":1}", "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
        check(r#"{"b":1,"\u0061":2}"#, r#"{"a":2,"b":1}"#);
        check(r#"{"a":1,"":2}"#, r#"{"":2,"a":1}"#);
    }

    #[test]
    fn strings_have_one_spelling() {
        check(r#""\u0041\/\u001F\u000a\u00e9\ud83d\ude00\"\\""#, "\"A/\\u001f\\n\u{e9}\u{1f600}\\\"\\\\\"");
    }

    #[test]
    fn numbers_print_as_doubles() {
        check(
            "[-0,0.0,1.0,1e2,1e21,1e-7,9007199254740993,123456789012345,0.1,1e-400]",
            "[0,0,1,100,1e+21,1e-7,9007199254740992,123456789012345,0.1,0]",
        );
    }

    #[test]
    fn a_text_with_a_lone_surrogate_has_no_form() {
        let text = scan(br#"["\ud800"]"#, Profile::Acp, ScanLimits::ACP).expect("ACP takes it");
        assert_eq!(canonicalize(&text), Err(CanonError::LoneSurrogate));
    }
}
