//! The agent's words and deeds as text for a terminal: harmless, short, plain.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use pintle_sdk::acp::types::{
    ContentBlock, Diff, PlanEntry, PlanEntryStatus, ResourceContents, ToolCall, ToolCallContent, ToolCallStatus,
};
use similar::{ChangeTag, TextDiff};

use crate::commands::evidence::count;

/// Characters of a line of somebody else's that are shown.
const MAX_LINE_CHARS: usize = 160;
/// Characters of a line that tells what went wrong.
const MAX_WORDS_CHARS: usize = 500;
/// Lines of a tool's result that are shown.
const MAX_RESULT_LINES: usize = 6;
/// Lines of a diff that are shown.
const MAX_DIFF_LINES: usize = 40;
/// Lines around a change that are shown.
const DIFF_CONTEXT: usize = 2;
/// Texts above this are counted and not compared.
const MAX_DIFF_BYTES: usize = 512 * 1024;
/// How long comparing two texts may take before the result becomes coarser.
const DIFF_TIME: Duration = Duration::from_millis(200);

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const GREEN: Style = AnsiColor::Green.on_default();
pub(super) const RED: Style = AnsiColor::Red.on_default();
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(super) const CYAN: Style = AnsiColor::Cyan.on_default();

/// Text of somebody else's over any number of lines: line ends and tabs stay, everything else that a terminal obeys is
/// spelled out, so that nothing in it can move a cursor, set a colour or a title, or reorder what is shown.
pub(super) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            c if c.is_control() || is_direction_mark(c) => {
                let _ = write!(out, "{}", c.escape_default());
            }
            c => out.push(c),
        }
    }
    out
}

/// The same on one line, cut when it is long.
pub(super) fn one_line(text: &str) -> String {
    let mut out = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            out.push(' ');
        }
        out.push_str(&harmless(word));
        if out.len() > 4 * MAX_LINE_CHARS {
            break;
        }
    }
    cut(&out)
}

fn cut(line: &str) -> String {
    cut_at(line, MAX_LINE_CHARS)
}

/// A line that tells what went wrong, cut when it is very long.
pub(super) fn cut_words(line: &str) -> String {
    cut_at(line, MAX_WORDS_CHARS)
}

fn cut_at(line: &str, limit_chars: usize) -> String {
    match line.char_indices().nth(limit_chars) {
        Some((at, _)) => format!("{}..", &line[..at]),
        None => line.to_owned(),
    }
}

fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// What a content block is in a stream of text.
pub(super) fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => harmless(&text.text),
        ContentBlock::Image(image) => format!("[image {}]", one_line(&image.mime_type)),
        ContentBlock::Audio(audio) => format!("[audio {}]", one_line(&audio.mime_type)),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", one_line(&link.name), one_line(&link.uri)),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(text) => harmless(&text.text),
            _ => "[resource]".to_owned(),
        },
        _ => "[content of an unknown kind]".to_owned(),
    }
}

/// A tool call in one line.
pub(super) fn tool_line(call: &ToolCall) -> String {
    let (mark, style) = match call.status {
        ToolCallStatus::Completed => ("[x]", GREEN),
        ToolCallStatus::Failed => ("[!]", RED),
        ToolCallStatus::InProgress => ("[>]", CYAN),
        _ => ("[ ]", DIM),
    };
    let kind = one_line(call.kind.as_str());
    let mut line = format!("{style}{mark}{style:#} {DIM}{kind:7}{DIM:#} {}", one_line(&call.title));
    if let Some(location) = call.locations.first() {
        let path = one_line(location.path.as_str());
        if !line.contains(&path) {
            let at = location.line.map(|line| format!(":{line}")).unwrap_or_default();
            let _ = write!(line, "  {DIM}{path}{at}{DIM:#}");
        }
    }
    line
}

/// What a tool call produced, indented; empty where there is nothing to show. Terminals are shown by the caller.
pub(super) fn tool_content(content: &ToolCallContent) -> String {
    match content {
        ToolCallContent::Content(content) => first_lines(&block(&content.content), MAX_RESULT_LINES),
        ToolCallContent::Diff(change) => diff(change),
        _ => String::new(),
    }
}

/// The first lines of a text, indented.
pub(super) fn first_lines(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    for line in lines.by_ref().take(limit) {
        let _ = writeln!(out, "      {DIM}{}{DIM:#}", cut(line));
    }
    more(&mut out, lines.count(), "");
    out
}

/// The last lines of a text, indented.
pub(super) fn last_lines(text: &str, limit: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(limit);
    let mut out = String::new();
    if skipped > 0 {
        let _ = writeln!(out, "      {DIM}.. {} before{DIM:#}", count(skipped as u64, "line"));
    }
    for line in &lines[skipped..] {
        let _ = writeln!(out, "      {DIM}{}{DIM:#}", cut(line));
    }
    out
}

fn more(out: &mut String, lines: usize, of: &str) {
    if lines > 0 {
        let plural = if lines == 1 { "" } else { "s" };
        let _ = writeln!(out, "      {DIM}.. {lines} more line{plural}{of}{DIM:#}");
    }
}

fn diff(change: &Diff) -> String {
    let path = one_line(change.path.as_str());
    let old = change.old_text.as_deref().unwrap_or_default();
    let mut out = String::new();
    if old.len() + change.new_text.len() > MAX_DIFF_BYTES {
        let (before, after) = (old.lines().count(), change.new_text.lines().count());
        let _ = writeln!(out, "      {BOLD}{path}{BOLD:#} {before} lines become {after}");
        return out;
    }
    let compared = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, &change.new_text);
    let (mut added, mut removed) = (0_usize, 0_usize);
    for change in compared.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    let fresh = if change.old_text.is_none() { " (new)" } else { "" };
    let _ = writeln!(out, "      {BOLD}{path}{BOLD:#}{fresh} {GREEN}+{added}{GREEN:#} {RED}-{removed}{RED:#}");
    let mut shown = 0_usize;
    let mut hidden = 0_usize;
    for (group, operations) in compared.grouped_ops(DIFF_CONTEXT).iter().enumerate() {
        if group > 0 && shown < MAX_DIFF_LINES {
            let _ = writeln!(out, "      {DIM}..{DIM:#}");
        }
        for change in operations.iter().flat_map(|operation| compared.iter_changes(operation)) {
            if shown == MAX_DIFF_LINES {
                hidden += 1;
                continue;
            }
            shown += 1;
            let (mark, style) = match change.tag() {
                ChangeTag::Insert => ('+', GREEN),
                ChangeTag::Delete => ('-', RED),
                ChangeTag::Equal => (' ', DIM),
            };
            let line = harmless(change.value().trim_end_matches(['\n', '\r']));
            let _ = writeln!(out, "      {style}{mark}{}{style:#}", cut(&line));
        }
    }
    more(&mut out, hidden, " of the diff");
    out
}

/// A step of a plan in one line.
pub(super) fn plan_line(entry: &PlanEntry) -> String {
    let (mark, style) = match entry.status {
        PlanEntryStatus::Completed => ("[x]", GREEN),
        PlanEntryStatus::InProgress => ("[>]", CYAN),
        _ => ("[ ]", DIM),
    };
    format!("      {style}{mark}{style:#} {}", one_line(&entry.content))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown, without the colours of our own.
    fn bare(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(harmless(text), expected, "{text:?}");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        check("plain\ttext\nwith lines", "plain\ttext\nwith lines");
        check("\x1b[31mred\x1b]0;title\x07", "\\u{1b}[31mred\\u{1b}]0;title\\u{7}");
        check("over\rwritten\r\n", "over\\rwritten\n");
        check("c1 \u{9b}31m", "c1 \\u{9b}31m");
        check("\u{202e}reversed", "\\u{202e}reversed");
        check("\u{e9}\u{1f600}", "\u{e9}\u{1f600}");
        assert_eq!(one_line(" a\n\n b\x1bc "), "a b\\u{1b}c");
        assert!(one_line(&"x".repeat(10_000)).len() < 200);
    }

    #[test]
    fn a_diff_shows_what_changed_and_no_more() {
        let old: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 50\n", "line fifty\n");
        let mut change = Diff::new("/w/file", new);
        change.old_text = Some(old);
        let shown = bare(&diff(&change));
        assert!(shown.starts_with("      /w/file +1 -1\n"), "{shown}");
        assert!(shown.contains("      -line 50\n      +line fifty\n"), "{shown}");
        assert_eq!(shown.lines().count(), 1 + 2 + 2 + 2, "{shown}");
        let fresh = bare(&diff(&Diff::new("/w/new", "x\x1b[2J\n".repeat(100))));
        assert!(fresh.contains("/w/new (new) +100 -0"), "{fresh}");
        assert!(fresh.contains("+x\\u{1b}[2J") && fresh.contains(".. 60 more lines of the diff"), "{fresh}");
    }

    #[test]
    fn a_tool_call_is_a_line() {
        let mut call = ToolCall::new("1", "Edit\nthe file");
        call.kind = pintle_sdk::acp::types::ToolKind::Edit;
        call.status = ToolCallStatus::Failed;
        call.locations = vec![pintle_sdk::acp::types::ToolCallLocation::new("/w/a").line(7u32)].into();
        assert_eq!(bare(&tool_line(&call)), "[!] edit    Edit the file  /w/a:7");
    }

    #[test]
    fn long_results_are_cut() {
        assert_eq!(bare(&first_lines("a\nb\nc", 2)), "      a\n      b\n      .. 1 more line\n");
        assert_eq!(bare(&last_lines("a\nb\nc", 2)), "      .. 1 line before\n      b\n      c\n");
    }
}
