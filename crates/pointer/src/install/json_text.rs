//! Reads a settings file for the places of things. A reader of its own, since what an agent takes is not what RFC 8259
//! says: one allows comments, the next a byte order mark, a third drops the whole file for either.

use std::ops::Range;

use super::dialect::Dialect;
use super::error::{EditError, EditFault};

/// A file's values with their places. Flat, so that depth costs no stack.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

/// The place of a value in [`Tree`].
pub(super) type Id = usize;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    /// Where the comma behind it stands.
    pub(super) comma: Option<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Scalar,
    List(Vec<Id>),
    Map(Vec<Member>),
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) start: usize,
    pub(super) value: Id,
}

impl Tree {
    /// The root of every file.
    pub(super) const ROOT: Id = 0;

    /// Reads a whole text.
    ///
    /// # Errors
    /// [`EditError`] with line and column, for what `dialect` does not take.
    pub(super) fn read(text: &str, dialect: &Dialect) -> Result<Self, EditError> {
        let mut reader = Reader { text, at: 0, dialect, nodes: Vec::new(), open: Vec::new() };
        match reader.document() {
            Ok(()) => Ok(Self { nodes: reader.nodes }),
            Err((fault, at)) => {
                let before = text.get(..at).unwrap_or(text);
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                Err(EditError::at(fault, line, column))
            }
        }
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    /// The value of a member; of two of one name the last, as in JavaScript.
    pub(super) fn member(&self, id: Id, name: &str) -> Option<Id> {
        match &self.nodes[id].kind {
            Kind::Map(members) => members.iter().rev().find(|member| member.name == name).map(|member| member.value),
            Kind::Scalar | Kind::List(_) => None,
        }
    }
}

/// The end of the last comment in `range`, which holds white space, commas and comments.
pub(super) fn last_comment(text: &str, range: Range<usize>) -> Option<usize> {
    let mut at = range.start;
    let mut found = None;
    while at < range.end {
        let rest = &text.as_bytes()[at..range.end];
        at += match rest {
            [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest[2..].windows(2).position(|two| two == b"*/").map_or(rest.len(), |at| at + 4),
            _ => {
                at += 1;
                continue;
            }
        };
        // A carriage return in front of the line end is none of the comment's.
        found = Some(at - usize::from(text.as_bytes()[at - 1] == b'\r'));
    }
    found
}

/// The text without the white space between its tokens: two files of the same of it differ in layout only.
pub(super) fn squeezed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match rest.as_bytes() {
            [b'"', ..] => string_len(rest.as_bytes()),
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest[2..].find("*/").map_or(rest.len(), |at| at + 4),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(len);
        out.push_str(token.trim_ascii());
        if token.starts_with("//") {
            out.push('\n');
        }
        rest = behind;
    }
    out
}

/// The length of the string literal that `bytes` begins with, also where its end is missing.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// What is wrong, and at which byte.
type Broken = (EditFault, usize);

struct Reader<'a> {
    text: &'a str,
    at: usize,
    dialect: &'a Dialect,
    nodes: Vec<Node>,
    /// The containers around, outermost first.
    open: Vec<Id>,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// The first member or item of a container, or its end.
    First,
    /// What follows a comma.
    AfterComma,
    /// A comma or the end of the container.
    Behind,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Broken> {
        let mut next = Next::Value;
        loop {
            self.trivia()?;
            let Some(byte) = self.peek() else { return Err((EditFault::Syntax, self.at)) };
            next = match next {
                Next::Value => self.value(byte)?,
                Next::First | Next::AfterComma if matches!(byte, b'}' | b']') => {
                    if next == Next::AfterComma && !self.dialect.trailing_commas {
                        return Err((EditFault::TrailingComma, self.at));
                    }
                    self.close(byte)?
                }
                Next::First | Next::AfterComma if self.in_map() => self.name(byte)?,
                Next::First | Next::AfterComma => self.value(byte)?,
                Next::Behind if byte == b',' => {
                    let at = self.at;
                    if let Some(last) = self.last_child() {
                        self.nodes[last].comma = Some(at);
                    }
                    self.at += 1;
                    Next::AfterComma
                }
                Next::Behind => self.close(byte)?,
            };
            if next == Next::Behind && self.open.is_empty() {
                self.trivia()?;
                return if self.at == self.text.len() { Ok(()) } else { Err((EditFault::Syntax, self.at)) };
            }
        }
    }

    fn in_map(&self) -> bool {
        self.open.last().is_some_and(|id| matches!(self.nodes[*id].kind, Kind::Map(_)))
    }

    fn last_child(&self) -> Option<Id> {
        match &self.nodes[*self.open.last()?].kind {
            Kind::Map(members) => members.last().map(|member| member.value),
            Kind::List(items) => items.last().copied(),
            Kind::Scalar => None,
        }
    }

    fn name(&mut self, byte: u8) -> Result<Next, Broken> {
        if byte != b'"' {
            return Err((EditFault::Syntax, self.at));
        }
        let start = self.at;
        self.string()?;
        let name = unescape(&self.text[start..self.at]);
        self.trivia()?;
        if self.peek() != Some(b':') {
            return Err((EditFault::Syntax, self.at));
        }
        self.at += 1;
        let value = self.nodes.len();
        if let Some(id) = self.open.last()
            && let Kind::Map(members) = &mut self.nodes[*id].kind
        {
            members.push(Member { name, start, value });
        }
        Ok(Next::Value)
    }

    fn value(&mut self, byte: u8) -> Result<Next, Broken> {
        let (id, start) = (self.nodes.len(), self.at);
        if let Some(parent) = self.open.last()
            && let Kind::List(items) = &mut self.nodes[*parent].kind
        {
            items.push(id);
        }
        let kind = match byte {
            b'{' => Kind::Map(Vec::new()),
            b'[' => Kind::List(Vec::new()),
            _ => Kind::Scalar,
        };
        let is_scalar = matches!(kind, Kind::Scalar);
        self.nodes.push(Node { span: start..start, comma: None, kind });
        if !is_scalar {
            if self.open.len() >= self.dialect.depth_max {
                return Err((EditFault::TooDeep, start));
            }
            self.open.push(id);
            self.at += 1;
            return Ok(Next::First);
        }
        match byte {
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => {
                let rest = &self.text[start..];
                let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
                self.at += word.ok_or((EditFault::Syntax, start))?.len();
            }
        }
        self.nodes[id].span.end = self.at;
        Ok(Next::Behind)
    }

    fn close(&mut self, byte: u8) -> Result<Next, Broken> {
        let wrong = (EditFault::Syntax, self.at);
        let id = self.open.pop().ok_or(wrong)?;
        let node = &mut self.nodes[id];
        match &node.kind {
            Kind::Map(_) if byte == b'}' => {}
            Kind::List(_) if byte == b']' => {}
            _ => return Err(wrong),
        }
        self.at += 1;
        node.span.end = self.at;
        if let Kind::Map(members) = &node.kind
            && !self.dialect.once.is_empty()
        {
            let names = members.iter().map(|one| (one.name.as_str(), one.start));
            let mut names: Vec<(&str, usize)> = names.filter(|(name, _)| self.dialect.once.contains(name)).collect();
            names.sort_unstable();
            if let Some(two) = names.windows(2).find(|two| two[0].0 == two[1].0) {
                return Err((EditFault::DuplicateKey, two[1].1));
            }
        }
        Ok(Next::Behind)
    }

    fn string(&mut self) -> Result<(), Broken> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                None => return Err((EditFault::Syntax, start)),
                Some(b'"') => break,
                Some(0..=0x1f) => return Err((EditFault::Syntax, self.at)),
                Some(b'\\') => self.escape()?,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Broken> {
        let at = self.at;
        let unit = |at: usize| {
            let digits = self.text.get(at..at + 4)?;
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
        };
        self.at += match self.text.as_bytes().get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match unit(at + 2).ok_or((EditFault::Syntax, at))? {
                0xd800..=0xdbff => {
                    let low = self.text[at + 6..].starts_with("\\u").then(|| unit(at + 8)).flatten();
                    if matches!(low, Some(0xdc00..=0xdfff)) { 12 } else { self.lone(at)? }
                }
                0xdc00..=0xdfff => self.lone(at)?,
                _ => 6,
            },
            _ => return Err((EditFault::Syntax, at)),
        };
        Ok(())
    }

    fn lone(&self, at: usize) -> Result<usize, Broken> {
        if self.dialect.lone_surrogates { Ok(6) } else { Err((EditFault::LoneSurrogate, at)) }
    }

    fn number(&mut self) -> Result<(), Broken> {
        let start = self.at;
        let wrong = (EditFault::Syntax, start);
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(wrong);
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(wrong);
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return Err(wrong);
            }
        }
        let fits = || self.text[start..self.at].parse::<f64>().is_ok_and(f64::is_finite);
        if self.dialect.huge_numbers || fits() { Ok(()) } else { Err((EditFault::HugeNumber, start)) }
    }

    fn digits(&mut self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn trivia(&mut self) -> Result<(), Broken> {
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            match rest {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'/', b'/' | b'*', ..] if !self.dialect.comments => return Err((EditFault::Comment, self.at)),
                [b'/', b'/', ..] => self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
                [b'/', b'*', ..] => {
                    let end = rest[2..].windows(2).position(|two| two == b"*/");
                    self.at += end.ok_or((EditFault::Syntax, self.at))? + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// The text of a string literal. Half a surrogate pair becomes U+FFFD, which no name of ours holds.
pub(super) fn unescape(quoted: &str) -> String {
    if let Ok(text) = serde_json::from_str(quoted) {
        return text;
    }
    let limits = pintle_wire::ScanLimits { max_bytes: quoted.len(), max_depth: 1 };
    let scanned = pintle_wire::scan(quoted.as_bytes(), pintle_wire::Profile::Acp, limits);
    scanned.ok().and_then(|text| text.decode().ok()).unwrap_or_default()
}

#[cfg(test)]
#[path = "json_text_tests.rs"]
mod tests;
