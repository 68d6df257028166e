//! What is to be replaced in a JSON text: a walk over its bytes that decodes nothing but strings.

use std::borrow::Cow;

use pintle_wire::{MAX_DEPTH, Profile, ScanLimits, scan};

use super::{
    Edit, Rule,
    canary::Canaries,
    names, text,
    view::{MAX_ESCAPES, View},
};

/// Everything in a JSON text that is to be replaced. The text has passed the strict scan; if it has not, the walk stops
/// where it makes no sense and finds less, but does not fail.
pub(super) fn find(canaries: &Canaries, json: &[u8], nested: u32) -> Vec<Edit> {
    let mut walk = Walk { canaries, json, at: 0, edits: Vec::new(), replaced_names: 0, nested };
    walk.value();
    walk.edits
}

struct Walk<'a> {
    canaries: &'a Canaries,
    json: &'a [u8],
    at: usize,
    edits: Vec<Edit>,
    replaced_names: u32,
    nested: u32,
}

impl Walk<'_> {
    /// Recursion is bounded by the depth that the scan has accepted.
    fn value(&mut self) {
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => {
                let (start, end) = self.string();
                self.look_into_string(start, end);
            }
            // At least one byte, so that the walk ends on whatever it is given.
            _ => {
                let scalar = self.json[self.at..].iter().take_while(|byte| !is_structure(**byte)).count();
                self.at = (self.at + scalar.max(1)).min(self.json.len());
            }
        }
    }

    fn array(&mut self) {
        self.at += 1;
        while self.more(b']') {
            self.value();
        }
    }

    fn object(&mut self) {
        self.at += 1;
        let mut pair_name = None;
        let mut pair_value = None;
        while self.more(b'}') {
            let (start, end) = self.string();
            let key = decoded(&self.json[start..end]).into_owned();
            let known_edits = self.edits.len();
            self.look_into_string(start, end);
            self.number_names(known_edits);
            self.blanks();
            self.at = (self.at + 1).min(self.json.len());
            self.blanks();
            let value_start = self.at;
            let known_edits = self.edits.len();
            self.value();
            let value = (value_start, self.at);
            if is_sensitive(&key) {
                self.replace_value(value, known_edits, Rule::Member);
            } else if key.eq_ignore_ascii_case(b"value") {
                pair_value = Some((value, known_edits..self.edits.len()));
            } else if std::str::from_utf8(&key).is_ok_and(names::is_pair_name)
                && self.json.get(value_start) == Some(&b'"')
                && self.at >= value_start + 2
            {
                pair_name = Some(decoded(&self.json[value_start + 1..self.at - 1]).into_owned());
            }
        }
        if let (Some(name), Some((value, inside))) = (pair_name, pair_value)
            && is_sensitive(&name)
        {
            self.edits.drain(inside);
            self.replace_value(value, self.edits.len(), Rule::Pair);
        }
    }

    /// Two names that are replaced must not become one.
    fn number_names(&mut self, known_edits: usize) {
        for edit in &mut self.edits[known_edits..] {
            self.replaced_names += 1;
            if self.replaced_names > 1 && edit.with.pop() == Some(b']') {
                edit.with.extend_from_slice(format!("#{}]", self.replaced_names).as_bytes());
            }
        }
    }

    /// Replaces a whole value, and with it what was to be replaced inside, which are the edits behind the first
    /// `known_edits`. What cannot be secret stays.
    fn replace_value(&mut self, (start, end): (usize, usize), known_edits: usize, rule: Rule) {
        self.edits.truncate(known_edits);
        let is_public = matches!(&self.json[start..end], b"null" | b"true" | b"false" | b"\"\"" | b"{}" | b"[]");
        let is_string = self.json.get(start) == Some(&b'"');
        let is_marker = is_string && text::is_marker(self.json, start + 1, end - 1);
        if !is_public && !is_marker {
            self.edits.push(Edit::value(start, end, rule));
        }
    }

    /// Looks for secrets in the content of a string, which may be a JSON text itself.
    fn look_into_string(&mut self, start: usize, end: usize) {
        let raw = &self.json[start..end];
        let view = View::backslash(raw).unwrap_or_else(|| View::plain(raw));
        if memchr::memchr_iter(b'\\', raw).nth(2 * MAX_ESCAPES).is_some() {
            self.edits.push(Edit::new(start, end, Rule::Canary));
            return;
        }
        let mut found = text::find(self.canaries, &view.bytes);
        if self.nested > 0 && matches!(view.bytes.first(), Some(b'{' | b'[')) {
            let limits = ScanLimits { max_bytes: usize::MAX, max_depth: MAX_DEPTH };
            if scan(&view.bytes, Profile::Acp, limits).is_ok() {
                found.extend(find(self.canaries, &view.bytes, self.nested - 1));
            }
        }
        self.edits.extend(found.into_iter().map(|edit| {
            let (raw_start, raw_end) = view.raw(edit.start, edit.end);
            Edit { start: start + raw_start, end: start + raw_end, with: escaped(&edit.with), ..edit }
        }));
    }

    /// Steps over a string; the positions of its content.
    fn string(&mut self) -> (usize, usize) {
        let start = (self.at + 1).min(self.json.len());
        let mut end = start;
        while let Some(next) = memchr::memchr2(b'"', b'\\', &self.json[end..]) {
            end += next;
            if self.json[end] == b'"' {
                self.at = end + 1;
                return (start, end);
            }
            end = (end + 2).min(self.json.len());
        }
        self.at = self.json.len();
        (start, self.json.len())
    }

    /// Steps over blanks and a comma. Whether another element begins there; if not, steps over `end`.
    fn more(&mut self, end: u8) -> bool {
        self.blanks();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.blanks();
        }
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                false
            }
            other => other.is_some(),
        }
    }

    fn blanks(&mut self) {
        self.at += self.json[self.at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }
}

fn is_structure(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
}

fn is_sensitive(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(names::is_sensitive)
}

fn decoded(raw: &[u8]) -> Cow<'_, [u8]> {
    View::backslash(raw).map_or(Cow::Borrowed(raw), |view| Cow::Owned(view.bytes.into_owned()))
}

/// A marker is ASCII without control characters: quotes and backslashes are all that needs an escape.
fn escaped(marker: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(marker.len() + 4);
    for byte in marker {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}
