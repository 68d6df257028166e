//! Our table in Codex's `config.toml`, and no byte beside it.
//!
//! The parser says where things stand and whether a file is one; the edits are made in the text. Only a server that
//! somebody wrote as an inline table is edited through the parser's own writer, which spells all line ends alike.

use std::ops::Range;

use toml_edit::{Array, Document, DocumentMut, Item, Table, TableLike, value};

use super::error::{EditError, EditFault};
use super::json_edit::SETTINGS_MAX_BYTES;
use super::setup::MCP_SERVER;

const SERVERS: &str = "mcp_servers";

/// Codex reads a `config.toml` that begins with one.
const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) fn install(current: Option<&[u8]>, command: &str, args: &[String]) -> Result<Vec<u8>, EditError> {
    let current = current.unwrap_or_default();
    let text = text_of(current)?;
    let doc = read(text)?;
    let args: Array = args.iter().map(String::as_str).collect();
    let server = match doc.get(SERVERS) {
        None => None,
        Some(servers) => {
            let servers = servers.as_table_like();
            servers.ok_or_else(|| EditError::member(EditFault::Schema, Some(SERVERS)))?.get(MCP_SERVER)
        }
    };
    let Some(server) = server else {
        let may_append = doc.get(SERVERS).is_none_or(Item::is_table);
        let appended = if may_append { with_mark(current, &append(text, command, &args)) } else { Vec::new() };
        // Where a table of that name cannot stand behind the others, it goes among them.
        return if may_append && command_in(&appended).is_ok_and(|found| found.is_some()) {
            Ok(appended)
        } else {
            through_writer(current, command, args)
        };
    };
    let server_table = server.as_table_like().ok_or_else(|| EditError::member(EditFault::Schema, Some(MCP_SERVER)))?;
    if is_same(server_table, command, &args) {
        return Ok(current.to_vec());
    }
    let Some(table) = server.as_table().filter(|table| !table.is_dotted()) else {
        return through_writer(current, command, args);
    };
    // The user's own members of our table (an approval, a time-out) stay.
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut missing = String::new();
    for (name, wanted) in [("command", value(command)), ("args", value(args))] {
        let wanted = wanted.to_string();
        match table.get(name).and_then(Item::span) {
            Some(span) => edits.push((span, wanted.trim().to_owned())),
            None => missing.push_str(&format!("{}{name} = {}", newline_of(text), wanted.trim())),
        }
    }
    if let Some(header) = table.span().filter(|_| !missing.is_empty()) {
        let end = text[header.end..].find(['\n', '#']).map_or(text.len(), |at| header.end + at);
        let line = text[end..].find('\n').map_or(text.len(), |at| end + at);
        let at = line - usize::from(text[..line].ends_with('\r'));
        edits.push((at..at, missing));
    }
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut edited = text.to_owned();
    for (span, with) in edits {
        edited.replace_range(span, &with);
    }
    read(&edited)?;
    Ok(with_mark(current, &edited))
}

pub(super) fn uninstall(current: &[u8]) -> Result<Vec<u8>, EditError> {
    let text = text_of(current)?;
    let doc = read(text)?;
    let Some(server) = doc.get(SERVERS).and_then(|servers| servers.get(MCP_SERVER)) else {
        return Ok(current.to_vec());
    };
    let (without, frame) = without_server(text)?;
    let cut = server.as_table().filter(|table| !table.is_dotted()).and_then(|table| lines_of(text, table));
    if let Some(lines) = cut {
        let mut cut = text.to_owned();
        cut.replace_range(lines, "");
        // The lines were found by their places; that they were the table and nothing else is proved here.
        if cut.replace("\r\n", "\n").parse::<DocumentMut>().is_ok_and(|doc| flat(&doc) == flat(&without)) {
            return Ok(with_mark(current, &cut));
        }
    }
    frame.require_one_line_end()?;
    Ok(with_mark(current, &frame.spelled(&without)))
}

/// The command of our server, program first.
pub(super) fn server(bytes: &[u8]) -> Result<Option<Vec<String>>, EditError> {
    command_in(bytes)
}

/// The document, its line ends as LF.
pub(super) fn parse(bytes: &[u8]) -> Result<DocumentMut, EditError> {
    let text = text_of(bytes)?.replace("\r\n", "\n");
    read(&text)?;
    text.parse::<DocumentMut>().map_err(|_| EditError::new(EditFault::TomlSyntax))
}

fn command_in(bytes: &[u8]) -> Result<Option<Vec<String>>, EditError> {
    let doc = read(text_of(bytes)?)?;
    let Some(server) = doc.get(SERVERS).and_then(|servers| servers.get(MCP_SERVER)) else { return Ok(None) };
    let program = server.get("command").and_then(Item::as_str).unwrap_or_default().to_owned();
    let args = server.get("args").and_then(Item::as_array);
    let args = args.into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned));
    Ok(Some(std::iter::once(program).chain(args).collect()))
}

fn is_same(server: &dyn TableLike, command: &str, args: &Array) -> bool {
    let own = server.get("args").and_then(Item::as_array);
    let words = |list: &Array| list.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Vec<_>>();
    server.get("command").and_then(Item::as_str) == Some(command) && own.is_some_and(|own| words(own) == words(args))
}

/// The table behind everything else, with an empty line in front.
fn append(text: &str, command: &str, args: &Array) -> String {
    let newline = newline_of(text);
    let gap = match text {
        "" => String::new(),
        text if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    let (command, args) = (value(command).to_string(), value(args.clone()).to_string());
    let (command, args) = (command.trim(), args.trim());
    format!("{text}{gap}[{SERVERS}.{MCP_SERVER}]{newline}command = {command}{newline}args = {args}{newline}")
}

/// From the empty line in front of a table's header to the end of its last line.
fn lines_of(text: &str, table: &Table) -> Option<Range<usize>> {
    let start = text[..table.span()?.start].rfind('\n').map_or(0, |at| at + 1);
    let last = last_byte(table)?.max(table.span()?.end);
    let end = text[last..].find('\n').map_or(text.len(), |at| last + at + 1);
    let before = &text[..start];
    let above = ["\r\n", "\n"].iter().find_map(|newline| before.strip_suffix(newline)).unwrap_or(before);
    let is_gap = above.is_empty() || above.ends_with('\n');
    Some(if is_gap { above.len() } else { start }..end)
}

/// Where the last value of a table ends, the tables in it included.
fn last_byte(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, item)| match item {
        Item::Table(inner) => last_byte(inner).max(inner.span().map(|span| span.end)),
        other => other.span().map(|span| span.end),
    });
    ends.max().or_else(|| table.span().map(|span| span.end))
}

/// The edit by the parser's own writer.
fn through_writer(current: &[u8], command: &str, args: Array) -> Result<Vec<u8>, EditError> {
    let text = text_of(current)?;
    let frame = Frame::of(text);
    frame.require_one_line_end()?;
    let mut doc = parse(current)?;
    let servers = doc.entry(SERVERS).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| EditError::member(EditFault::Schema, Some(SERVERS)))?;
    let is_inline = servers.iter().all(|(_, item)| item.is_value());
    if servers.get(MCP_SERVER).is_none() {
        let empty = if is_inline { value(toml_edit::InlineTable::new()) } else { Item::Table(Table::new()) };
        servers.insert(MCP_SERVER, empty);
    }
    let server = servers.get_mut(MCP_SERVER).and_then(Item::as_table_like_mut);
    let server = server.ok_or_else(|| EditError::member(EditFault::Schema, Some(MCP_SERVER)))?;
    server.insert("command", value(command));
    server.insert("args", value(args));
    Ok(with_mark(current, &frame.spelled(&doc)))
}

/// The document without our server.
fn without_server(text: &str) -> Result<(DocumentMut, Frame), EditError> {
    let mut doc = parse(text.as_bytes())?;
    if let Some(servers) = doc.get_mut(SERVERS).and_then(Item::as_table_like_mut) {
        servers.remove(MCP_SERVER);
    }
    let implicit = doc.get(SERVERS).and_then(Item::as_table).is_some_and(Table::is_implicit);
    if implicit && doc.get(SERVERS).and_then(Item::as_table).is_some_and(Table::is_empty) {
        doc.remove(SERVERS);
    }
    Ok((doc, Frame::of(text)))
}

/// Every value with its path, in the order of the paths.
fn flat(doc: &DocumentMut) -> Vec<(String, String)> {
    fn walk(item: &Item, path: &str, out: &mut Vec<(String, String)>) {
        match item {
            Item::Table(table) => {
                out.push((path.to_owned(), "table".to_owned()));
                table.iter().for_each(|(name, item)| walk(item, &format!("{path}\0{name}"), out));
            }
            Item::ArrayOfTables(tables) => {
                for (index, table) in tables.iter().enumerate() {
                    table.iter().for_each(|(name, item)| walk(item, &format!("{path}\0{index}\0{name}"), out));
                }
            }
            other => out.push((path.to_owned(), other.to_string().trim().to_owned())),
        }
    }
    let mut out = Vec::new();
    doc.iter().for_each(|(name, item)| walk(item, name, &mut out));
    out.sort();
    out
}

/// The line ends that the parser's writer drops.
struct Frame {
    crlf: bool,
    mixed: bool,
}

impl Frame {
    fn of(text: &str) -> Self {
        let crlf = text.matches("\r\n").count();
        Self { crlf: crlf != 0, mixed: crlf != 0 && crlf != text.matches('\n').count() }
    }

    /// A file that mixes line ends cannot be spelled again as it was.
    fn require_one_line_end(&self) -> Result<(), EditError> {
        if self.mixed { Err(EditError::new(EditFault::MixedLineEnds)) } else { Ok(()) }
    }

    fn spelled(&self, doc: &DocumentMut) -> String {
        let text = doc.to_string();
        if self.crlf { text.replace('\n', "\r\n") } else { text }
    }
}

fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn with_mark(current: &[u8], text: &str) -> Vec<u8> {
    let mark = if current.starts_with(BOM) { BOM } else { b"" };
    [mark, text.as_bytes()].concat()
}

fn text_of(bytes: &[u8]) -> Result<&str, EditError> {
    if bytes.len() > SETTINGS_MAX_BYTES {
        return Err(EditError::new(EditFault::TooLarge));
    }
    str::from_utf8(bytes.strip_prefix(BOM).unwrap_or(bytes)).map_err(|_| EditError::new(EditFault::Encoding))
}

/// The document with the places of its values.
fn read(text: &str) -> Result<Document<&str>, EditError> {
    Document::parse(text).map_err(|e| {
        let before = e.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        EditError::at(EditFault::TomlSyntax, line, column)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Vec<String> {
        ["task", "mcp"].map(str::to_owned).to_vec()
    }

    #[track_caller]
    fn check(before: &str, after: &str) {
        let installed = install(Some(before.as_bytes()), "/opt/pintle", &args()).expect("installs");
        assert_eq!(String::from_utf8_lossy(&installed), after);
        assert_eq!(install(Some(&installed), "/opt/pintle", &args()).expect("again"), installed, "idempotent");
        let removed = uninstall(&installed).expect("uninstalls");
        assert_eq!(String::from_utf8_lossy(&removed), before, "no trace");
    }

    #[test]
    fn our_table_goes_to_the_end_and_leaves_no_trace() {
        let table = "[mcp_servers.pintle-task]\ncommand = \"/opt/pintle\"\nargs = [\"task\", \"mcp\"]\n";
        check("", table);
        check("model = \"x\" # mine\n", &format!("model = \"x\" # mine\n\n{table}"));
        check(
            "[mcp_servers.other]\n  command   = 'o'\n\n[profiles.a]\nb=1\n",
            &format!("[mcp_servers.other]\n  command   = 'o'\n\n[profiles.a]\nb=1\n\n{table}"),
        );
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_stay() {
        let table = "[mcp_servers.pintle-task]\r\ncommand = \"/opt/pintle\"\r\nargs = [\"task\", \"mcp\"]\r\n";
        let own = "model = \"x\"\r\nnotes = \"\"\"\r\na\r\n\"\"\"\r\n";
        check(own, &format!("{own}\r\n{table}"));
        check("\u{feff}a = 1\n", &format!("\u{feff}a = 1\n\n{}", table.replace('\r', "")));
        let mixed = "a = 1\r\nb = 2\n";
        check(mixed, &format!("{mixed}\r\n{table}"));
    }

    /// What can only be edited by the parser's writer is refused where that would move a line end.
    #[test]
    fn an_inline_list_of_servers_is_edited_in_place() {
        let before = "mcp_servers = { other = { command = \"o\" } }\n";
        let installed = install(Some(before.as_bytes()), "/opt/pintle", &args()).expect("installs");
        assert_eq!(server(&installed).expect("reads").expect("ours"), ["/opt/pintle", "task", "mcp"]);
        assert_eq!(String::from_utf8_lossy(&uninstall(&installed).expect("uninstalls")).trim_end(), before.trim_end());
        let mixed = format!("a = 1\r\n{before}");
        let error = install(Some(mixed.as_bytes()), "/p", &args()).expect_err("refused");
        assert_eq!(error.fault(), EditFault::MixedLineEnds);
    }

    /// Whatever stands around it, the table goes and nothing else does.
    #[test]
    fn a_table_between_others_goes_alone() {
        let ours =
            "[mcp_servers.pintle-task]\ncommand = \"/p\" # x\nargs = []\n\n[mcp_servers.pintle-task.env]\nA = \"1\"\n";
        let text = format!("a = \"\"\"\n[mcp_servers.pintle-task]\n\"\"\"\n\n{ours}\n# mine\n[b]\nc = 1\r\n");
        let left = uninstall(text.as_bytes()).expect("uninstalls");
        let expected = "a = \"\"\"\n[mcp_servers.pintle-task]\n\"\"\"\n\n# mine\n[b]\nc = 1\r\n";
        assert_eq!(String::from_utf8_lossy(&left), expected);
    }

    #[test]
    fn members_that_the_user_added_to_our_table_stay() {
        let before = "[mcp_servers.pintle-task]\ncommand = \"/old\"\nargs = []\ntool_timeout_sec = 9\n";
        let after = install(Some(before.as_bytes()), "/new", &args()).expect("installs");
        assert_eq!(
            String::from_utf8_lossy(&after),
            "[mcp_servers.pintle-task]\ncommand = \"/new\"\nargs = [\"task\", \"mcp\"]\ntool_timeout_sec = 9\n"
        );
    }

    #[test]
    fn a_broken_file_is_refused_with_its_line() {
        let error = install(Some(b"a = 1\nb = \n"), "/p", &args()).expect_err("refused");
        assert_eq!((error.fault(), error.to_string().contains("line 2")), (EditFault::TomlSyntax, true), "{error}");
        let error = install(Some(b"mcp_servers = 3\n"), "/p", &args()).expect_err("refused");
        assert_eq!(error.fault(), EditFault::Schema);
    }
}
