//! Edits of a JSON file that move no byte which is not ours: key order, indentation, line ends and the end of the file
//! stay as the user has them.
//!
//! The file is read by the strict scan first. What an agent would drop whole (a byte order mark, comments, a repeated
//! member) is refused and not repaired: repairing it would switch on hooks that the user never ran (section 8).

use std::ops::Range;

use pintle_wire::{JsonErrorClass, JsonReason, Profile, ScanLimits, scan};

use super::error::{EditError, EditFault};

/// Over this a settings file is not edited.
pub const SETTINGS_MAX_BYTES: usize = 4 << 20;
const SETTINGS_MAX_DEPTH: usize = 128;

/// A JSON value of ours, with its members in the order in which they are written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`, a boolean or a number, as it is spelled.
    Plain(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// An object.
    Map(Vec<(String, Self)>),
}

impl Json {
    /// A string value.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number.
    pub fn number(number: u64) -> Self {
        Self::Plain(number.to_string())
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Self::Plain(value.to_string())
    }

    /// An object of these members.
    pub fn map<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// An array of strings.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// The member of that name, of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }
}

/// One step of a path: a member of an object or an item of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The member of that name.
    Member(&'a str),
    /// The item at that index.
    Item(usize),
}

/// A parsed file and its text.
#[derive(Clone, Debug)]
pub struct JsonDoc {
    text: String,
    root: Node,
    style: Style,
}

#[derive(Clone, Debug)]
struct Node {
    span: Range<usize>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Scalar,
    List(Vec<Node>),
    Map(Vec<Member>),
}

#[derive(Clone, Debug)]
struct Member {
    name: String,
    start: usize,
    value: Node,
}

/// How the file is laid out, as far as its first lines tell.
#[derive(Clone, Debug)]
struct Style {
    newline: &'static str,
    indent: String,
    /// The whole file is one line.
    one_line: bool,
    colon: &'static str,
}

impl JsonDoc {
    /// Reads a file. An empty one, or one of white space, reads as `{}` with the layout that agents write themselves.
    ///
    /// # Errors
    /// [`EditFault`] for what the strict scan refuses, and where the root is not an object.
    pub fn parse(bytes: &[u8]) -> Result<Self, EditError> {
        if bytes.len() > SETTINGS_MAX_BYTES {
            return Err(EditError::new(EditFault::TooLarge));
        }
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(EditError::new(EditFault::Bom));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Self::parse(b"{}\n");
        }
        let limits = ScanLimits { max_bytes: SETTINGS_MAX_BYTES, max_depth: SETTINGS_MAX_DEPTH };
        let text = scan(bytes, Profile::DriverRpc, limits).map_err(|e| {
            let fault = match (&e.class, &e.reason) {
                (JsonErrorClass::Encoding, _) => EditFault::Encoding,
                (_, JsonReason::DuplicateName) => EditFault::DuplicateKey,
                _ if comment_at(bytes, e.offset) => EditFault::Comment,
                _ => EditFault::Syntax,
            };
            EditError::at(fault, e.line, e.column)
        })?;
        let text = text.as_str().to_owned();
        let root = Parser { text: &text, at: 0 }.document();
        if !matches!(root.kind, Kind::Map(_)) {
            return Err(EditError::new(EditFault::NotAnObject));
        }
        let style = Style::of(&text, &root);
        Ok(Self { text, root, style })
    }

    /// The text, edits included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value at a path, if there is one.
    pub fn value(&self, path: &[Step<'_>]) -> Option<Json> {
        self.node(path).map(|node| self.to_json(node))
    }

    /// Sets a member, replacing its value or adding it behind the last one; objects on the way are created.
    ///
    /// # Errors
    /// [`EditFault::Schema`] where something on the way is not an object.
    pub fn set(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
        if let Some(node) = self.node(&steps) {
            if self.to_json(node) == *value {
                return Ok(());
            }
            let depth_indent = self.line_indent(node.span.start);
            let rendered = self.style.render(value, &depth_indent);
            return self.splice(node.span.clone(), &rendered);
        }
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let (depth, node) = self.deepest(parents);
        let Kind::Map(members) = &node.kind else {
            return Err(EditError::member(EditFault::Schema, parents.get(depth.saturating_sub(1)).copied()));
        };
        let mut value = value.clone();
        let mut name = *last;
        for parent in parents[depth..].iter().rev() {
            value = Json::Map(vec![(name.to_owned(), value)]);
            name = parent;
        }
        let places = members.iter().map(|member| member.start..member.value.span.end).collect();
        let (span, places) = (node.span.clone(), places);
        self.append(span, places, Some(name), &value)
    }

    /// Adds an item behind the last one of the array at `path`, which is created where it is missing.
    ///
    /// # Errors
    /// [`EditFault::Schema`] where something on the way is not an object, or the value there is not an array.
    pub fn push(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
        let Some(node) = self.node(&steps) else {
            return self.set(path, &Json::List(vec![value.clone()]));
        };
        let Kind::List(items) = &node.kind else {
            return Err(EditError::member(EditFault::Schema, path.last().copied()));
        };
        let places = items.iter().map(|item| item.span.clone()).collect();
        self.append(node.span.clone(), places, None, value)
    }

    /// Replaces the value at a path that exists; a missing one changes nothing.
    ///
    /// # Errors
    /// None that a caller can cause; the edited text is parsed again as every edit is.
    pub fn replace(&mut self, path: &[Step<'_>], value: &Json) -> Result<(), EditError> {
        let Some(node) = self.node(path) else { return Ok(()) };
        if self.to_json(node) == *value {
            return Ok(());
        }
        let rendered = self.style.render(value, &self.line_indent(node.span.start));
        self.splice(node.span.clone(), &rendered)
    }

    /// Removes the member or item at a path, with its comma; a missing one changes nothing.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn remove(&mut self, path: &[Step<'_>]) -> Result<(), EditError> {
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let Some(parent) = self.node(parents) else { return Ok(()) };
        let (places, index): (Vec<Range<usize>>, _) = match (&parent.kind, last) {
            (Kind::Map(members), Step::Member(name)) => (
                members.iter().map(|member| member.start..member.value.span.end).collect(),
                members.iter().position(|member| member.name == *name),
            ),
            (Kind::List(items), Step::Item(index)) => {
                (items.iter().map(|item| item.span.clone()).collect(), Some(*index).filter(|at| *at < items.len()))
            }
            _ => return Ok(()),
        };
        let Some(index) = index else { return Ok(()) };
        let gone = match (index.checked_sub(1), places.get(index + 1)) {
            (Some(before), _) => places[before].end..places[index].end,
            (None, Some(next)) => places[index].start..next.start,
            (None, None) => parent.span.start + 1..parent.span.end - 1,
        };
        self.splice(gone, "")
    }

    fn append(
        &mut self,
        span: Range<usize>,
        places: Vec<Range<usize>>,
        name: Option<&str>,
        value: &Json,
    ) -> Result<(), EditError> {
        let own_indent = self.line_indent(span.start);
        let Some(last) = places.last() else {
            let inner = if self.style.one_line { String::new() } else { format!("{own_indent}{}", self.style.indent) };
            let (before, after) = if self.style.one_line {
                (String::new(), String::new())
            } else {
                (format!("{}{inner}", self.style.newline), format!("{}{own_indent}", self.style.newline))
            };
            let rendered = self.style.render_member(name, value, &inner);
            return self.splice(span.start + 1..span.end - 1, &format!("{before}{rendered}{after}"));
        };
        // The white space in front of the last one, which is how this container sets its items.
        let from = self.text[..last.start].rfind(|c: char| !c.is_ascii_whitespace()).map_or(0, |at| at + 1);
        let gap = self.text[from..last.start].to_owned();
        let spread = gap.contains('\n');
        let inner = if spread { gap.rsplit('\n').next().unwrap_or_default().to_owned() } else { own_indent };
        let gap = if places.len() == 1 && gap.is_empty() && !self.style.one_line { " ".to_owned() } else { gap };
        let rendered = if spread || !self.style.one_line {
            self.style.render_member(name, value, &inner)
        } else {
            self.style.render_member(name, value, "")
        };
        let end = last.end;
        self.splice(end..end, &format!(",{gap}{rendered}"))
    }

    fn splice(&mut self, span: Range<usize>, with: &str) -> Result<(), EditError> {
        let mut text = self.text.clone();
        text.replace_range(span, with);
        let edited = Self::parse(text.as_bytes())?;
        self.text = edited.text;
        self.root = edited.root;
        Ok(())
    }

    fn node(&self, path: &[Step<'_>]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match (&node.kind, step) {
            (Kind::Map(members), Step::Member(name)) => {
                members.iter().find(|member| member.name == *name).map(|member| &member.value)
            }
            (Kind::List(items), Step::Item(index)) => items.get(*index),
            _ => None,
        })
    }

    /// How far along `path` there is something, and what.
    fn deepest(&self, path: &[&str]) -> (usize, &Node) {
        let mut node = &self.root;
        for (depth, name) in path.iter().enumerate() {
            let Kind::Map(members) = &node.kind else { return (depth, node) };
            let Some(member) = members.iter().find(|member| member.name == *name) else { return (depth, node) };
            node = &member.value;
        }
        (path.len(), node)
    }

    fn to_json(&self, node: &Node) -> Json {
        match &node.kind {
            Kind::Scalar => {
                let text = &self.text[node.span.clone()];
                if text.starts_with('"') { Json::Text(unescape(text)) } else { Json::Plain(text.to_owned()) }
            }
            Kind::List(items) => Json::List(items.iter().map(|item| self.to_json(item)).collect()),
            Kind::Map(members) => {
                Json::Map(members.iter().map(|member| (member.name.clone(), self.to_json(&member.value))).collect())
            }
        }
    }

    /// The indentation of the line that holds `at`.
    fn line_indent(&self, at: usize) -> String {
        let start = self.text[..at].rfind('\n').map_or(0, |at| at + 1);
        self.text[start..].chars().take_while(|c| *c == ' ' || *c == '\t').collect()
    }
}

impl Style {
    fn of(text: &str, root: &Node) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = match &root.kind {
            Kind::Map(members) => members.first(),
            _ => None,
        };
        let indent = first
            .and_then(|member| text[..member.start].rsplit_once('\n'))
            .map(|(_, indent)| indent.to_owned())
            .filter(|indent| !indent.is_empty() && indent.chars().all(|c| c == ' ' || c == '\t'));
        let one_line = first.is_some() && !text[root.span.clone()].contains('\n');
        let tight = first.is_some_and(|member| {
            let value = member.value.span.start;
            text[..value].ends_with(':')
        });
        let indent = indent.unwrap_or_else(|| "  ".to_owned());
        Self { newline, indent, one_line, colon: if tight { ":" } else { ": " } }
    }

    fn render_member(&self, name: Option<&str>, value: &Json, indent: &str) -> String {
        let value = self.render(value, indent);
        name.map_or_else(|| value.clone(), |name| format!("{}{}{value}", quote(name), self.colon))
    }

    fn render(&self, value: &Json, indent: &str) -> String {
        let inner = format!("{indent}{}", self.indent);
        let (items, open, close): (Vec<String>, _, _) = match value {
            Json::Plain(text) => return text.clone(),
            Json::Text(text) => return quote(text),
            Json::List(items) => (items.iter().map(|item| self.render(item, &inner)).collect(), '[', ']'),
            Json::Map(members) => {
                (members.iter().map(|(name, value)| self.render_member(Some(name), value, &inner)).collect(), '{', '}')
            }
        };
        if items.is_empty() {
            return format!("{open}{close}");
        }
        if self.one_line {
            let comma = if self.colon == ":" { "," } else { ", " };
            return format!("{open}{}{close}", items.join(comma));
        }
        let line = format!("{}{inner}", self.newline);
        format!("{open}{line}{}{}{indent}{close}", items.join(&format!(",{line}")), self.newline)
    }
}

/// Reads what the strict scan has accepted, for the places of things. It cannot fail and goes at most as deep as the
/// scan allowed.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn document(mut self) -> Node {
        self.space();
        self.value()
    }

    fn value(&mut self) -> Node {
        let start = self.at;
        let kind = match self.peek() {
            b'{' => Kind::Map(self.members()),
            b'[' => Kind::List(self.items()),
            b'"' => {
                self.string();
                Kind::Scalar
            }
            _ => {
                let rest = &self.text.as_bytes()[self.at..];
                let len = rest.iter().position(|b| matches!(b, b',' | b']' | b'}') || b.is_ascii_whitespace());
                self.at += len.unwrap_or(rest.len());
                Kind::Scalar
            }
        };
        Node { span: start..self.at, kind }
    }

    fn members(&mut self) -> Vec<Member> {
        let mut members = Vec::new();
        self.at += 1;
        self.space();
        while self.peek() == b'"' {
            let start = self.at;
            self.string();
            let name = unescape(&self.text[start..self.at]);
            self.space();
            self.at += 1;
            self.space();
            members.push(Member { name, start, value: self.value() });
            self.space();
            if self.peek() != b',' {
                break;
            }
            self.at += 1;
            self.space();
        }
        self.at += 1;
        members
    }

    fn items(&mut self) -> Vec<Node> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        while !matches!(self.peek(), b']' | 0) {
            items.push(self.value());
            self.space();
            if self.peek() != b',' {
                break;
            }
            self.at += 1;
            self.space();
        }
        self.at += 1;
        items
    }

    fn string(&mut self) {
        self.at += 1;
        loop {
            match self.peek() {
                b'\\' => self.at += 2,
                b'"' | 0 => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
    }

    fn space(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// The next byte; 0 at the end, which no accepted text holds.
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn unescape(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_default()
}

/// Whether what the scan stumbled over is a comment, as some agents allow and others do not.
fn comment_at(bytes: &[u8], offset: usize) -> bool {
    let rest = bytes.get(offset..).unwrap_or_default();
    rest.starts_with(b"//") || rest.starts_with(b"/*")
}

#[cfg(test)]
#[path = "json_edit_tests.rs"]
mod tests;
