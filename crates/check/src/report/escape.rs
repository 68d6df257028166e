//! Text of others, made harmless for the format that it lands in.

use std::fmt::Write as _;

/// On one line, with control characters and direction marks as escapes: nothing in it can move a cursor, set a colour or
/// reorder what is shown.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_direction_mark(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// [`plain`], cut to `width` characters; 0 is no limit.
pub(crate) fn plain_cut(text: &str, width: usize) -> String {
    let text = plain(text);
    match text.char_indices().nth(width) {
        Some((at, _)) if width > 2 => {
            let end = text[..at].char_indices().rev().nth(1).map_or(at, |(end, _)| end);
            format!("{}..", &text[..end])
        }
        _ => text,
    }
}

/// For XML and HTML text and attributes. Characters that XML 1.0 forbids are escaped in words first.
pub(super) fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "{}", c.escape_unicode());
            }
            c if c.is_control() || is_direction_mark(c) => {
                let _ = write!(out, "{}", c.escape_default());
            }
            c => out.push(c),
        }
    }
    out
}

/// For Markdown text and table cells.
pub(super) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// For a Markdown code span in a table cell or list.
pub(super) fn code(text: &str) -> String {
    let text = plain(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    match longest {
        0 => format!("{fence}{text}{fence}"),
        _ => format!("{fence} {text} {fence}"),
    }
}

fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\r\nc\u{202e}d"), "a\\u{1b}[31mb\\r\\nc\\u{202e}d");
        assert_eq!(plain_cut("abcdefgh", 5), "abc..");
        assert_eq!(plain_cut("abcde", 5), "abcde");
        assert_eq!(plain_cut("abcde", 0), "abcde");
    }

    #[test]
    fn markup_and_markdown_are_inert() {
        assert_eq!(markup("<a href='x'>\u{0}&"), "&lt;a href=&#39;x&#39;&gt;\\u{0}&amp;");
        assert_eq!(markdown("[x](y) | *b*"), "\\[x\\](y) \\| \\*b\\*");
        assert_eq!(code("a`b"), "`` a`b ``");
        assert_eq!(code("plain"), "`plain`");
    }
}
