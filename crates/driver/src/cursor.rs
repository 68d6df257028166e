//! Walks the text of a value that the strict scan has accepted.
//!
//! The scan has proven the grammar, so walking needs no second parse: a value is found by its end, a name is compared as
//! it stands. Serde would work as well and costs about three times as much per frame. Everything here is total: on a
//! text that was not scanned it stops early, it does not panic.

use std::borrow::Cow;
use std::cell::Cell;

use pintle_wire::parse_integer;

/// The text of one JSON value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'a> {
    text: &'a str,
    /// Byte offset of the value in the text that was scanned.
    offset: usize,
    /// Where an open value (see [`Members::open_object`]) says where it ends.
    end: Option<&'a Cell<usize>>,
}

/// One member of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    name: &'a str,
    escaped: bool,
    pub(crate) value: Value<'a>,
    /// Byte offset of the name in the text that was scanned.
    pub(crate) offset: usize,
}

impl<'a> Member<'a> {
    /// The name after unescaping.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        unescape(self.name, self.escaped)
    }
}

impl<'a> Value<'a> {
    /// The root value of a scanned text.
    pub(crate) fn root(text: &'a str) -> Self {
        let trimmed = text.trim_ascii_start();
        Self { text: trimmed.trim_ascii_end(), offset: text.len() - trimmed.len(), end: None }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    fn first(&self) -> u8 {
        self.text.as_bytes().first().copied().unwrap_or(b' ')
    }

    pub(crate) fn is_null(&self) -> bool {
        self.text == "null"
    }

    pub(crate) fn is_object(&self) -> bool {
        self.first() == b'{'
    }

    pub(crate) fn is_array(&self) -> bool {
        self.first() == b'['
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match self.text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The unescaped content, if the value is a string.
    pub(crate) fn string(&self) -> Option<Cow<'a, str>> {
        let inner = self.text.strip_prefix('"')?.strip_suffix('"')?;
        Some(unescape(inner, inner.as_bytes().contains(&b'\\')))
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self.first(), b'-' | b'0'..=b'9')
    }

    /// The exact integer, if the value is a number that is one.
    pub(crate) fn integer(&self) -> Option<i64> {
        parse_integer(self.text).ok()
    }

    /// The members, in order; nothing if the value is no object.
    pub(crate) fn members(&self) -> Members<'a> {
        Members { text: self.text, position: usize::from(self.is_object()), offset: self.offset, end: self.end }
    }

    /// The elements, in order; nothing if the value is no array.
    pub(crate) fn elements(&self) -> Elements<'a> {
        Elements { text: self.text, position: usize::from(self.is_array()), offset: self.offset }
    }
}

pub(crate) struct Members<'a> {
    text: &'a str,
    position: usize,
    offset: usize,
    end: Option<&'a Cell<usize>>,
}

/// The name of the next member, whose value has not been looked at.
pub(crate) struct Name<'a> {
    text: &'a str,
    escaped: bool,
    start: usize,
    value: usize,
}

impl<'a> Name<'a> {
    /// The name after unescaping.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        unescape(self.text, self.escaped)
    }
}

impl<'a> Members<'a> {
    /// The next name. Take its value, or skip it, before the next one.
    #[inline]
    pub(crate) fn next_name(&mut self) -> Option<Name<'a>> {
        if self.position == 0 {
            return None;
        }
        let bytes = self.text.as_bytes();
        let start = skip_to(bytes, self.position, |byte| byte == b',')?;
        if bytes.get(start) != Some(&b'"') {
            if let Some(end) = self.end {
                end.set(start + 1);
            }
            self.position = 0;
            return None;
        }
        let (end, escaped) = end_of_string(bytes, start)?;
        let text = self.text.get(start + 1..end - 1)?;
        let value = skip_to(bytes, end, |byte| byte == b':')?;
        Some(Name { text, escaped, start, value })
    }

    /// The whole member of a name.
    #[inline]
    pub(crate) fn member(&mut self, name: &Name<'a>) -> Option<Member<'a>> {
        let end = end_of_value(self.text.as_bytes(), name.value)?;
        self.position = end;
        let value = Value { text: self.text.get(name.value..end)?, offset: self.offset + name.value, end: None };
        Some(Member { name: name.text, escaped: name.escaped, value, offset: self.offset + name.start })
    }

    /// Reads an object that is the value of a name without looking for its end first: most of a frame is in its params,
    /// and walking them twice would cost as much as the rest of decoding. `None` if the value is no object.
    pub(crate) fn open_object<T>(&mut self, name: &Name<'a>, read: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        let end = Cell::new(0);
        let text = self.text.get(name.value..)?;
        let value = Value { text, offset: self.offset + name.value, end: Some(&end) };
        if !value.is_object() {
            return None;
        }
        let read = read(value);
        self.position = match end.get() {
            // Whoever reads stops at the first fault.
            0 => end_of_value(self.text.as_bytes(), name.value)?,
            length => name.value + length,
        };
        Some(read)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let name = self.next_name()?;
        self.member(&name)
    }
}

pub(crate) struct Elements<'a> {
    text: &'a str,
    position: usize,
    offset: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == 0 {
            return None;
        }
        let bytes = self.text.as_bytes();
        let start = skip_to(bytes, self.position, |byte| byte == b',')?;
        if matches!(bytes.get(start), None | Some(b']')) {
            return None;
        }
        let end = end_of_value(bytes, start)?;
        self.position = end;
        Some(Value { text: self.text.get(start..end)?, offset: self.offset + start, end: None })
    }
}

/// The first byte from `position` on that is neither white space nor `separator`.
#[inline]
fn skip_to(bytes: &[u8], position: usize, separator: impl Fn(u8) -> bool) -> Option<usize> {
    let mut position = position;
    loop {
        let byte = *bytes.get(position)?;
        if !(is_space(byte) || separator(byte)) {
            return Some(position);
        }
        position += 1;
    }
}

#[inline]
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The position after the closing quote of the string at `start`, and whether it has escapes.
#[inline]
fn end_of_string(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut position = start + 1;
    let mut escaped = false;
    loop {
        let found = quote_or_backslash(bytes, position)?;
        if bytes.get(found) == Some(&b'"') {
            return Some((found + 1, escaped));
        }
        escaped = true;
        position = found + 2;
    }
}

/// The first quote or backslash from `position` on. Eight bytes at a time: most strings are too short for a search
/// function and too long to look at each byte.
#[inline]
fn quote_or_backslash(bytes: &[u8], position: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut position = position;
    while let Some(word) = bytes.get(position..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        // A byte that equals the one wanted becomes zero; subtracting one borrows from it. Only the lowest hit is exact.
        let (quote, slash) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
        let hits = (quote.wrapping_sub(ONES) & !quote | slash.wrapping_sub(ONES) & !slash) & HIGH;
        if hits != 0 {
            return Some(position + (hits.trailing_zeros() / 8) as usize);
        }
        position += 8;
    }
    let rest = bytes.get(position..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(position + rest)
}

/// The position after the value that starts at `start`.
#[inline]
fn end_of_value(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => end_of_string(bytes, start).map(|(end, _)| end),
        b'{' | b'[' => end_of_container(bytes, start),
        _ => {
            let rest = bytes.get(start..)?;
            let length = rest.iter().position(|&byte| is_space(byte) || matches!(byte, b',' | b'}' | b']'));
            Some(start + length.unwrap_or(rest.len()))
        }
    }
}

fn end_of_container(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut position = start;
    loop {
        match bytes.get(position)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            b'"' => {
                position = end_of_string(bytes, position)?.0;
                continue;
            }
            _ => {}
        }
        position += 1;
    }
}

fn unescape(inner: &str, escaped: bool) -> Cow<'_, str> {
    if !escaped {
        return Cow::Borrowed(inner);
    }
    // The scan accepted it, so serde_json does; U+FFFD alone could never equal a name or pass for a known value.
    let quoted = format!("\"{inner}\"");
    Cow::Owned(serde_json::from_str(&quoted).unwrap_or_else(|_| char::REPLACEMENT_CHARACTER.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Vec<(String, String)> {
        Value::root(text).members().map(|m| (m.name().into_owned(), m.value.text().to_owned())).collect()
    }

    #[test]
    fn members_are_found_whatever_the_spacing() {
        let text = " { \"a\" : 1 , \"b\\u0063\":[\"]\", {\"}\":\"\\\\\\\"\"}] ,\t\"\":null} ";
        let expected = [("a", "1"), ("bc", "[\"]\", {\"}\":\"\\\\\\\"\"}]"), ("", "null")];
        let expected: Vec<_> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        assert_eq!(members(text), expected);
        assert!(members("{}").is_empty());
        assert!(members("[1]").is_empty());
    }

    #[test]
    fn elements_are_found_whatever_the_spacing() {
        let texts = |text| Value::root(text).elements().map(|v| v.text().to_owned()).collect::<Vec<_>>();
        assert_eq!(texts("[1, \"a,]\" ,[],{} , true]"), ["1", "\"a,]\"", "[]", "{}", "true"]);
        assert!(texts("[ ]").is_empty());
        assert!(texts("{\"a\":1}").is_empty());
    }

    #[test]
    fn long_strings_and_offsets() {
        let long = "x".repeat(1000);
        let text = format!("{{\"first\":\"{long}\\n\",\"second\":2}}");
        let members: Vec<_> = Value::root(&text).members().collect();
        assert_eq!(members[0].value.string().as_deref(), Some(format!("{long}\n").as_str()));
        assert_eq!(&text[members[1].offset..members[1].offset + 8], "\"second\"");
    }
}
