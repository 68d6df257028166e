//! Limits that hold before anything parses an expression, found by a scan that does not recurse.

use super::error::{ExpressionError, Problem};

/// Longest expression in bytes.
pub const MAX_EXPRESSION_BYTES: usize = 4096;
/// Most operators in an expression: arithmetic, comparison, logic, `in`, `?`.
pub const MAX_OPERATORS: usize = 64;
/// Deepest nesting of parentheses, brackets and braces.
pub const MAX_NESTING: usize = 24;
/// Most field selections in an expression.
pub const MAX_SELECTIONS: usize = 256;
/// Deepest nesting of `all`, `exists`, `exists_one`, `filter` and `map`: their cost multiplies.
pub const MAX_COMPREHENSION_DEPTH: usize = 3;

/// Refuses what the parser should not see. Strings and comments do not count.
pub(super) fn check_bounds(source: &str) -> Result<(), ExpressionError> {
    if source.len() > MAX_EXPRESSION_BYTES {
        return Err(ExpressionError::new(0, Problem::TooLong { bytes: source.len() }));
    }
    let bytes = source.as_bytes();
    let mut at = 0;
    let mut operators = 0_usize;
    let mut nesting = 0_usize;
    let mut selections = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match byte {
            b'"' | b'\'' => {
                at = skip_string(bytes, at, raw_prefix(bytes, at));
                continue;
            }
            b'/' if next == Some(b'/') => {
                at = bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |offset| at + offset);
                continue;
            }
            b'(' | b'[' | b'{' => {
                nesting += 1;
                if nesting > MAX_NESTING {
                    return Err(ExpressionError::new(line_of(source, at), Problem::TooDeep));
                }
            }
            b')' | b']' | b'}' => nesting = nesting.saturating_sub(1),
            b'.' if !next.is_some_and(|b| b.is_ascii_digit()) => selections += 1,
            b'&' | b'|' | b'=' | b'!' | b'<' | b'>' => {
                operators += 1;
                let two = matches!(
                    (byte, next),
                    (b'&', Some(b'&')) | (b'|', Some(b'|')) | (b'=' | b'!' | b'<' | b'>', Some(b'='))
                );
                at += usize::from(two);
            }
            b'+' | b'-' | b'*' | b'/' | b'%' => operators += 1,
            b'?' if !is_optional_marker(bytes, at) => operators += 1,
            _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                let end = bytes[at..]
                    .iter()
                    .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_'))
                    .map_or(bytes.len(), |offset| at + offset);
                if &bytes[at..end] == b"in" {
                    operators += 1;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        if operators > MAX_OPERATORS {
            return Err(ExpressionError::new(line_of(source, at), Problem::TooManyOperators));
        }
        if selections > MAX_SELECTIONS {
            return Err(ExpressionError::new(line_of(source, at), Problem::TooManySelections));
        }
        at += 1;
    }
    Ok(())
}

/// `?` right after `.` or `[`: the optional syntax, not the conditional operator.
fn is_optional_marker(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|b| matches!(b, b'.' | b'['))
}

/// True when the quote at `at` belongs to a raw string (`r"..."`, `rb'...'`).
fn raw_prefix(bytes: &[u8], at: usize) -> bool {
    bytes[..at].iter().rev().take(2).take_while(|b| b.is_ascii_alphabetic()).any(|b| matches!(b, b'r' | b'R'))
}

/// The index after the string literal that starts at `at`; the end of input when it is not closed.
fn skip_string(bytes: &[u8], at: usize, raw: bool) -> usize {
    let quote = bytes[at];
    let triple = bytes.get(at + 1) == Some(&quote) && bytes.get(at + 2) == Some(&quote);
    let mut at = at + if triple { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        if byte == b'\\' && !raw {
            at += 2;
        } else if byte == quote && (!triple || bytes[at..].starts_with(&[quote; 3])) {
            return at + if triple { 3 } else { 1 };
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Line of a byte offset, counted from 0 at the expression's start.
pub(super) fn line_of(source: &str, offset: usize) -> usize {
    source.as_bytes()[..offset.min(source.len())].iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(source: &str) -> Option<Problem> {
        check_bounds(source).err().map(|error| error.problem)
    }

    #[test]
    fn length_is_limited_to_4_kib() {
        let exactly = format!("true {}", " ".repeat(MAX_EXPRESSION_BYTES - 5));
        assert_eq!(problem(&exactly), None);
        assert!(matches!(problem(&format!("{exactly} ")), Some(Problem::TooLong { bytes }) if bytes == 4097));
    }

    #[test]
    fn operators_are_limited_to_64() {
        let chain = |count: usize| format!("1{}", "+1".repeat(count));
        assert_eq!(problem(&chain(64)), None);
        assert_eq!(problem(&chain(65)), Some(Problem::TooManyOperators));
        let words = format!("true{}", " && 'a' in []".repeat(32));
        assert_eq!(problem(&words), None);
        assert_eq!(problem(&format!("!{words}")), Some(Problem::TooManyOperators));
    }

    #[test]
    fn unary_chains_and_conditionals_count() {
        assert_eq!(problem(&format!("{}true", "!".repeat(65))), Some(Problem::TooManyOperators));
        assert_eq!(problem(&format!("{}1", "- ".repeat(65))), Some(Problem::TooManyOperators));
        assert_eq!(problem(&"true ? 1 : ".repeat(65)), Some(Problem::TooManyOperators));
    }

    #[test]
    fn nesting_and_selections_are_limited() {
        let nest = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(problem(&nest(MAX_NESTING)), None);
        assert_eq!(problem(&nest(MAX_NESTING + 1)), Some(Problem::TooDeep));
        assert_eq!(problem(&format!("a{}", ".b".repeat(MAX_SELECTIONS))), None);
        assert_eq!(problem(&format!("a{}", ".b".repeat(MAX_SELECTIONS + 1))), Some(Problem::TooManySelections));
    }

    #[test]
    fn strings_and_comments_do_not_count() {
        let noise = "+".repeat(100);
        assert_eq!(problem(&format!("'{noise}'")), None);
        assert_eq!(problem(&format!("\"\"\"{noise}\"{noise}\"\"\"")), None);
        assert_eq!(problem(&format!("r'{noise}\\' + 'x'")), None);
        assert_eq!(problem(&format!("'\\'{noise}'")), None);
        assert_eq!(problem(&format!("true // {noise}")), None);
        assert_eq!(problem(&format!("a.?b.orValue('{noise}')")), None);
    }
}
