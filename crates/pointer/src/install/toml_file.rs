//! Our table in Codex's `config.toml`, and no byte beside it.

use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::error::{EditError, EditFault};
use super::json_edit::SETTINGS_MAX_BYTES;
use super::setup::MCP_SERVER;

const SERVERS: &str = "mcp_servers";

/// Codex reads a `config.toml` that begins with one.
const BOM: &[u8] = b"\xef\xbb\xbf";

pub(super) fn install(current: Option<&[u8]>, command: &str, args: &[String]) -> Result<Vec<u8>, EditError> {
    let frame = Frame::of(current.unwrap_or_default())?;
    let mut doc = parse(current.unwrap_or_default())?;
    let wanted: Array = args.iter().map(String::as_str).collect();
    let same = doc.get(SERVERS).and_then(|servers| servers.get(MCP_SERVER)).is_some_and(|server| {
        let own_args: Option<Vec<&str>> =
            server.get("args").and_then(Item::as_array).map(|list| list.iter().filter_map(|v| v.as_str()).collect());
        server.get("command").and_then(Item::as_str) == Some(command)
            && own_args.is_some_and(|own| own.iter().copied().eq(args.iter().map(String::as_str)))
    });
    if same {
        return Ok(current.unwrap_or_default().to_vec());
    }
    let has_servers = doc.contains_key(SERVERS);
    let servers = doc.entry(SERVERS).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| EditError::member(EditFault::Schema, Some(SERVERS)))?;
    if let Some(server) = servers.get_mut(MCP_SERVER) {
        // The user's own members of our table (an approval, a time-out) stay.
        let server =
            server.as_table_like_mut().ok_or_else(|| EditError::member(EditFault::Schema, Some(MCP_SERVER)))?;
        server.insert("command", value(command));
        server.insert("args", value(wanted));
    } else {
        let mut server = Table::new();
        server.insert("command", value(command));
        server.insert("args", value(wanted));
        if !has_servers && current.is_none_or(<[u8]>::is_empty) {
            server.decor_mut().set_prefix("");
        }
        servers.insert(MCP_SERVER, Item::Table(server));
    }
    Ok(frame.put_around(&doc))
}

pub(super) fn uninstall(current: &[u8]) -> Result<Vec<u8>, EditError> {
    let frame = Frame::of(current)?;
    let mut doc = parse(current)?;
    let Some(servers) = doc.get_mut(SERVERS).and_then(Item::as_table_like_mut) else { return Ok(current.to_vec()) };
    if servers.remove(MCP_SERVER).is_none() {
        return Ok(current.to_vec());
    }
    let implicit = doc.get(SERVERS).and_then(Item::as_table).is_some_and(Table::is_implicit);
    if implicit && doc.get(SERVERS).and_then(Item::as_table).is_some_and(Table::is_empty) {
        doc.remove(SERVERS);
    }
    Ok(frame.put_around(&doc))
}

/// What the editor drops of a file: its byte order mark, and which line ends it has.
struct Frame {
    bom: bool,
    crlf: bool,
}

impl Frame {
    /// A file that mixes line ends is left alone: which of them ours took over could not be told afterwards.
    fn of(bytes: &[u8]) -> Result<Self, EditError> {
        let crlf = bytes.windows(2).filter(|pair| *pair == b"\r\n").count();
        let lf = bytes.iter().filter(|byte| **byte == b'\n').count();
        if crlf != 0 && crlf != lf {
            return Err(EditError::new(EditFault::MixedLineEnds));
        }
        Ok(Self { bom: bytes.starts_with(BOM), crlf: crlf != 0 })
    }

    fn put_around(&self, doc: &DocumentMut) -> Vec<u8> {
        let text = doc.to_string();
        let text = if self.crlf { text.replace('\n', "\r\n") } else { text };
        let bom = if self.bom { BOM } else { b"" };
        [bom, text.as_bytes()].concat()
    }
}

/// The command of our server, program first.
pub(super) fn server(bytes: &[u8]) -> Result<Option<Vec<String>>, EditError> {
    let doc = parse(bytes)?;
    let Some(server) = doc.get(SERVERS).and_then(|servers| servers.get(MCP_SERVER)) else { return Ok(None) };
    let program = server.get("command").and_then(Item::as_str).unwrap_or_default().to_owned();
    let args = server.get("args").and_then(Item::as_array);
    let args = args.into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned));
    Ok(Some(std::iter::once(program).chain(args).collect()))
}

/// The document, its line ends as LF.
pub(super) fn parse(bytes: &[u8]) -> Result<DocumentMut, EditError> {
    if bytes.len() > SETTINGS_MAX_BYTES {
        return Err(EditError::new(EditFault::TooLarge));
    }
    let text = str::from_utf8(bytes.strip_prefix(BOM).unwrap_or(bytes));
    let text = text.map_err(|_| EditError::new(EditFault::Encoding))?.replace("\r\n", "\n");
    text.parse::<DocumentMut>().map_err(|e| {
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
            &format!("[mcp_servers.other]\n  command   = 'o'\n\n{table}\n[profiles.a]\nb=1\n"),
        );
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_stay() {
        let table = "[mcp_servers.pintle-task]\r\ncommand = \"/opt/pintle\"\r\nargs = [\"task\", \"mcp\"]\r\n";
        let own = "model = \"x\"\r\nnotes = \"\"\"\r\na\r\n\"\"\"\r\n";
        check(own, &format!("{own}\r\n{table}"));
        check("\u{feff}a = 1\n", &format!("\u{feff}a = 1\n\n{}", table.replace('\r', "")));
        let error = install(Some(b"a = 1\r\nb = 2\n"), "/p", &args()).expect_err("refused");
        assert_eq!(error.fault(), EditFault::MixedLineEnds);
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
