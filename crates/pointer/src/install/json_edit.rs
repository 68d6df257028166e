//! Edits of a JSON file that move no byte which is not ours: key order, indentation, line ends and the end of the file
//! stay as the user has them.
//!
//! The file is read as its agent reads it ([`Dialect`]). What the agent would drop whole is refused and not repaired:
//! repairing it would switch on hooks that the user never ran (section 8).

use std::ops::Range;

use super::dialect::Dialect;
use super::error::{EditError, EditFault};
use super::json_text::{Id, Kind, Tree, last_comment, squeezed, unescape};

/// Over this a settings file is not edited.
pub const SETTINGS_MAX_BYTES: usize = 4 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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

    /// The member of that name, of an object; of two of one name the last, as in JavaScript.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value),
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
    dialect: Dialect,
    has_byte_order_mark: bool,
    text: String,
    tree: Tree,
    style: Style,
}

/// Where a member or an item stands, its name included, and the comma behind it.
#[derive(Clone, Debug)]
struct Place {
    span: Range<usize>,
    comma: Option<usize>,
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
    /// [`EditFault`] for what `dialect` does not take, with line and column, and where the root is not an object.
    pub fn parse(bytes: &[u8], dialect: Dialect) -> Result<Self, EditError> {
        if bytes.len() > SETTINGS_MAX_BYTES {
            return Err(EditError::new(EditFault::TooLarge));
        }
        let without = bytes.strip_prefix(BYTE_ORDER_MARK);
        if without.is_some() && !dialect.byte_order_mark {
            return Err(EditError::new(EditFault::Bom));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Self::read("{}\n".to_owned(), false, dialect);
        }
        let bytes_of_text = without.unwrap_or(bytes);
        let text = str::from_utf8(bytes_of_text).map_err(|e| {
            let before = String::from_utf8_lossy(&bytes_of_text[..e.valid_up_to()]);
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            EditError::at(EditFault::Encoding, before.matches('\n').count() + 1, column)
        })?;
        Self::read(text.to_owned(), without.is_some(), dialect)
    }

    fn read(text: String, has_byte_order_mark: bool, dialect: Dialect) -> Result<Self, EditError> {
        let tree = Tree::read(&text, &dialect)?;
        let Kind::Map(members) = &tree.node(Tree::ROOT).kind else {
            return Err(EditError::new(EditFault::NotAnObject));
        };
        let stranger = members.iter().find(|one| !dialect.root.is_empty() && !dialect.root.contains(&&*one.name));
        if let Some(stranger) = stranger {
            return Err(EditError::member(EditFault::RootMember, Some(&stranger.name)));
        }
        let style = Style::of(&text, &tree);
        Ok(Self { dialect, has_byte_order_mark, text, tree, style })
    }

    /// The text, edits included, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file, edits included.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mark = if self.has_byte_order_mark { BYTE_ORDER_MARK } else { b"" };
        [mark, self.text.as_bytes()].concat()
    }

    /// Whether both hold the same tokens and comments in the same order, whatever white space is between them.
    pub fn differs_in_layout_only(&self, other: &Self) -> bool {
        squeezed(&self.text) == squeezed(&other.text)
    }

    /// The value at a path, if there is one.
    pub fn value(&self, path: &[Step<'_>]) -> Option<Json> {
        self.find(path).map(|id| self.to_json(id))
    }

    /// How many members of the name that `path` ends in stand beside one another; those before the last are dead.
    pub fn times(&self, path: &[&str]) -> usize {
        let Some((last, parents)) = path.split_last() else { return 0 };
        let parents: Vec<Step<'_>> = parents.iter().copied().map(Step::Member).collect();
        match self.find(&parents).map(|id| &self.tree.node(id).kind) {
            Some(Kind::Map(members)) => members.iter().filter(|member| member.name == *last).count(),
            _ => 0,
        }
    }

    /// Sets a member, replacing its value or adding it behind the last one; objects on the way are created.
    ///
    /// # Errors
    /// [`EditFault::Schema`] where something on the way is not an object.
    pub fn set(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
        if self.find(&steps).is_some() {
            return self.replace(&steps, value);
        }
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let (depth, id) = self.deepest(parents);
        if !matches!(self.tree.node(id).kind, Kind::Map(_)) {
            return Err(EditError::member(EditFault::Schema, parents.get(depth.saturating_sub(1)).copied()));
        }
        let mut value = value.clone();
        let mut name = *last;
        for parent in parents[depth..].iter().rev() {
            value = Json::Map(vec![(name.to_owned(), value)]);
            name = parent;
        }
        self.append(id, Some(name), &value)
    }

    /// Adds an item behind the last one of the array at `path`, which is created where it is missing.
    ///
    /// # Errors
    /// [`EditFault::Schema`] where something on the way is not an object, or the value there is not an array.
    pub fn push(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Member).collect();
        if self.find(&steps).is_none() {
            return self.set(path, &Json::List(vec![value.clone()]));
        }
        self.push_into(&steps, value)
    }

    /// Adds an item behind the last one of an array that exists; a missing one changes nothing.
    ///
    /// # Errors
    /// [`EditFault::Schema`] where the value there is not an array.
    pub fn push_into(&mut self, path: &[Step<'_>], value: &Json) -> Result<(), EditError> {
        let Some(id) = self.find(path) else { return Ok(()) };
        if !matches!(self.tree.node(id).kind, Kind::List(_)) {
            let name =
                path.iter().rev().find_map(|step| if let Step::Member(name) = step { Some(*name) } else { None });
            return Err(EditError::member(EditFault::Schema, name));
        }
        self.append(id, None, value)
    }

    /// Replaces the value at a path that exists; a missing one changes nothing.
    ///
    /// # Errors
    /// None that a caller can cause; the edited text is parsed again as every edit is.
    pub fn replace(&mut self, path: &[Step<'_>], value: &Json) -> Result<(), EditError> {
        let Some(id) = self.find(path) else { return Ok(()) };
        if self.to_json(id) == *value {
            return Ok(());
        }
        let span = self.tree.node(id).span.clone();
        let rendered = self.style.render(value, &self.line_indent(span.start));
        self.splice(span, &rendered)
    }

    /// Removes the member or item at a path, with its comma; a missing one changes nothing. Comments around it stay.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn remove(&mut self, path: &[Step<'_>]) -> Result<(), EditError> {
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let Some(parent) = self.find(parents) else { return Ok(()) };
        let places = self.places(parent);
        let index = match (&self.tree.node(parent).kind, last) {
            (Kind::Map(members), Step::Member(name)) => members.iter().rposition(|member| member.name == *name),
            (Kind::List(items), Step::Item(index)) => Some(*index).filter(|at| *at < items.len()),
            _ => return Ok(()),
        };
        let Some(index) = index else { return Ok(()) };
        let inside = self.tree.node(parent).span.start + 1..self.tree.node(parent).span.end - 1;
        let own = &places[index];
        let from = index.checked_sub(1).map_or(inside.start, |before| places[before].span.end);
        let until = places.get(index + 1).map_or(inside.end, |next| next.span.start);
        let comment_before = last_comment(&self.text, from..own.span.start).is_some();
        let comment_behind = last_comment(&self.text, own.span.end..until).is_some();
        match (own.comma, places.get(index + 1)) {
            (_, None) if index == 0 && !comment_before && !comment_behind => self.splice(inside, ""),
            (Some(_), Some(next)) if index == 0 && !comment_before && !comment_behind => {
                self.splice(own.span.start..next.span.start, "")
            }
            (Some(comma), _) => self.splice(self.with_its_line(&inside, own.span.start, comma + 1), ""),
            (None, _) => {
                let gone = self.with_its_line(&inside, own.span.start, own.span.end);
                // The comma of the one before: nothing follows it any more. First, since what is behind it moves.
                let comma = index.checked_sub(1).and_then(|before| places[before].comma);
                let Some(comma) = comma else { return self.splice(gone, "") };
                let between = self.text[comma + 1..gone.start].to_owned();
                self.splice(comma..gone.end, &between)
            }
        }
    }

    /// `start..end` with the white space in front; but for what keeps a line comment in front from taking in what is
    /// behind.
    fn with_its_line(&self, inside: &Range<usize>, start: usize, end: usize) -> Range<usize> {
        let from = self.text[inside.start..start].trim_ascii_end().len() + inside.start;
        let line_ends = self.text[end..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
        let behind_a_comment = last_comment(&self.text, self.line_start(from)..from) == Some(from);
        if !behind_a_comment || line_ends {
            return from..end;
        }
        let rest = &self.text[end..];
        start..end + (rest.len() - rest.trim_start_matches([' ', '\t']).len())
    }

    fn append(&mut self, container: Id, name: Option<&str>, value: &Json) -> Result<(), EditError> {
        let span = self.tree.node(container).span.clone();
        let close = span.end - 1;
        let own_indent = self.line_indent(span.start);
        let inner = if self.style.one_line { String::new() } else { format!("{own_indent}{}", self.style.indent) };
        let newline = self.style.newline;
        let places = self.places(container);
        let Some(last) = places.last() else {
            let comment = last_comment(&self.text, span.start + 1..close);
            let rendered = self.style.render_member(name, value, &inner);
            let (from, tail) = match comment {
                Some(end) if self.text[end..close].contains('\n') => (end..end, String::new()),
                Some(end) => (end..end, format!("{newline}{own_indent}")),
                None if self.style.one_line => (span.start + 1..close, String::new()),
                None => (span.start + 1..close, format!("{newline}{own_indent}")),
            };
            let head =
                if self.style.one_line && comment.is_none() { String::new() } else { format!("{newline}{inner}") };
            return self.splice(from, &format!("{head}{rendered}{tail}"));
        };
        // The white space in front of the last one, which is how this container sets its items.
        let from = self.text[..last.span.start].rfind(|c: char| !c.is_ascii_whitespace()).map_or(0, |at| at + 1);
        let gap = self.text[from..last.span.start].to_owned();
        let spread = gap.contains('\n');
        let end = last.comma.map_or(last.span.end, |comma| comma + 1);
        let comment = last_comment(&self.text, end..close);
        let inner = if spread { gap.rsplit('\n').next().unwrap_or_default().to_owned() } else { own_indent };
        let gap = if comment.is_some() && !spread {
            format!("{newline}{inner}")
        } else if places.len() == 1 && gap.is_empty() && !self.style.one_line {
            " ".to_owned()
        } else {
            gap
        };
        let rendered = self.style.render_member(name, value, if self.style.one_line && !spread { "" } else { &inner });
        let at = comment.unwrap_or(end);
        if last.comma.is_some() {
            return self.splice(at..at, &format!("{gap}{rendered},"));
        }
        let between = self.text[end..at].to_owned();
        self.splice(end..at, &format!(",{between}{gap}{rendered}"))
    }

    fn splice(&mut self, span: Range<usize>, with: &str) -> Result<(), EditError> {
        let mut text = self.text.clone();
        text.replace_range(span, with);
        self.tree = Tree::read(&text, &self.dialect)?;
        self.text = text;
        Ok(())
    }

    fn places(&self, container: Id) -> Vec<Place> {
        let place = |start: usize, value: Id| {
            let node = self.tree.node(value);
            Place { span: start..node.span.end, comma: node.comma }
        };
        match &self.tree.node(container).kind {
            Kind::Map(members) => members.iter().map(|member| place(member.start, member.value)).collect(),
            Kind::List(items) => items.iter().map(|item| place(self.tree.node(*item).span.start, *item)).collect(),
            Kind::Scalar => Vec::new(),
        }
    }

    fn find(&self, path: &[Step<'_>]) -> Option<Id> {
        path.iter().try_fold(Tree::ROOT, |id, step| match (&self.tree.node(id).kind, step) {
            (Kind::Map(_), Step::Member(name)) => self.tree.member(id, name),
            (Kind::List(items), Step::Item(index)) => items.get(*index).copied(),
            _ => None,
        })
    }

    /// How far along `path` there is something, and what.
    fn deepest(&self, path: &[&str]) -> (usize, Id) {
        let mut id = Tree::ROOT;
        for (depth, name) in path.iter().enumerate() {
            let Some(value) = self.tree.member(id, name) else { return (depth, id) };
            id = value;
        }
        (path.len(), id)
    }

    /// At most [`SETTINGS_MAX_DEPTH`](super::dialect::SETTINGS_MAX_DEPTH) calls deep.
    fn to_json(&self, id: Id) -> Json {
        match &self.tree.node(id).kind {
            Kind::Scalar => {
                let text = &self.text[self.tree.node(id).span.clone()];
                if text.starts_with('"') { Json::Text(unescape(text)) } else { Json::Plain(text.to_owned()) }
            }
            Kind::List(items) => Json::List(items.iter().map(|item| self.to_json(*item)).collect()),
            Kind::Map(members) => {
                Json::Map(members.iter().map(|member| (member.name.clone(), self.to_json(member.value))).collect())
            }
        }
    }

    /// The indentation of the line that holds `at`.
    fn line_indent(&self, at: usize) -> String {
        self.text[self.line_start(at)..].chars().take_while(|c| *c == ' ' || *c == '\t').collect()
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |at| at + 1)
    }
}

impl Style {
    fn of(text: &str, tree: &Tree) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let root = tree.node(Tree::ROOT);
        let first = match &root.kind {
            Kind::Map(members) => members.first(),
            Kind::Scalar | Kind::List(_) => None,
        };
        let indent = first
            .and_then(|member| text[..member.start].rsplit_once('\n'))
            .map(|(_, indent)| indent.to_owned())
            .filter(|indent| !indent.is_empty() && indent.chars().all(|c| c == ' ' || c == '\t'));
        let one_line = first.is_some() && !text[root.span.clone()].contains('\n');
        let tight = first.is_some_and(|member| text[..tree.node(member.value).span.start].ends_with(':'));
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

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
#[path = "json_edit_tests.rs"]
mod tests;
