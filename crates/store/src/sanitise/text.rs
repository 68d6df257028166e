//! What looks like a secret in any text.
//!
//! Every detector looks at each byte a bounded number of times, whatever the text: a candidate inside what a detector has
//! replaced already is passed over, and a run that was found to be nothing is not walked through again.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{Edit, MARKER, Rule, Run, canary::Canaries, count_work, names};

/// Beginnings of secrets: what is searched for, and what must stand before it. Each is looked at more closely where it is found.
///
/// The search goes by the first three bytes of its needles, and is fast where it seldom finds what looks like them. What is cut
/// off was found by trying: with it, rules of dashes or a run of `x` take fifty times as long as other texts.
const STARTS: [(&str, &str, Start); 31] = [
    ("---", "--BEGIN ", Start::Pem),
    ("", "bearer ", Start::Bearer),
    ("", "Bearer ", Start::Bearer),
    ("", "BEARER ", Start::Bearer),
    ("", "eyJ", Start::Jwt),
    ("", "://", Start::Url),
    ("", "AKIA", Start::Aws),
    ("", "ASIA", Start::Aws),
    ("g", "hp_", Start::Token { min: 20 }),
    ("g", "ho_", Start::Token { min: 20 }),
    ("g", "hu_", Start::Token { min: 20 }),
    ("g", "hs_", Start::Token { min: 20 }),
    ("g", "hr_", Start::Token { min: 20 }),
    ("", "github_pat_", Start::Token { min: 20 }),
    ("", "glpat-", Start::Token { min: 20 }),
    ("", "sk-", Start::Token { min: 20 }),
    ("", "sk_live_", Start::Token { min: 16 }),
    ("", "sk_test_", Start::Token { min: 16 }),
    ("", "rk_live_", Start::Token { min: 16 }),
    ("", "xoxb-", Start::Token { min: 10 }),
    ("", "xoxp-", Start::Token { min: 10 }),
    ("", "xoxa-", Start::Token { min: 10 }),
    ("", "xoxr-", Start::Token { min: 10 }),
    ("", "xoxs-", Start::Token { min: 10 }),
    ("", "AIza", Start::Token { min: 35 }),
    ("", "npm_", Start::Token { min: 30 }),
    ("", "hf_", Start::Token { min: 30 }),
    ("", "pypi-", Start::Token { min: 50 }),
    ("", "dop_v1_", Start::Token { min: 40 }),
    ("", "xai-", Start::Token { min: 30 }),
    ("", "gsk_", Start::Token { min: 30 }),
];

/// The longest name that is looked at before a `=` or `:`.
const NAME_LIMIT_BYTES: usize = 64;
/// How far the value of a `{name, value}` pair may be from its name, in text that is not JSON.
const PAIR_LIMIT_BYTES: usize = 512;
/// What stands before a secret and makes it one is at most this long; a stream keeps as much of what it has let go.
pub(super) const CONTEXT_BYTES: usize = NAME_LIMIT_BYTES + 16;
/// How far behind its beginning a secret shows that it is one. [`Run`]s are longer, but begin before that.
pub(super) const LOOKAHEAD_BYTES: usize = 2 * PAIR_LIMIT_BYTES + CONTEXT_BYTES;

#[derive(Debug, Clone, Copy)]
enum Start {
    Pem,
    Bearer,
    Jwt,
    Url,
    Aws,
    Token { min: usize },
}

static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(starts()).ok());

/// What stands at the beginning of every secret that shows by its own shape.
pub(super) fn starts() -> impl Iterator<Item = &'static str> {
    STARTS.iter().map(|(_, needle, _)| *needle)
}

/// Everything in `bytes` that is to be replaced.
pub(super) fn find(canaries: &Canaries, bytes: &[u8]) -> Vec<Edit> {
    let mut edits = canaries.find(bytes);
    count_work(2 * bytes.len());
    shapes(bytes, &mut edits);
    named_values(bytes, &mut edits);
    edits.retain(|edit| !is_marker(bytes, edit.start, edit.end));
    edits
}

/// Whether what stands there was replaced already: what is looked through twice is not counted twice, nor spelled anew.
/// An unquoted value ends before the bracket that closes the marker.
pub(super) fn is_marker(bytes: &[u8], start: usize, end: usize) -> bool {
    let Some(rest) = bytes.get(start..).and_then(|rest| rest.strip_prefix(MARKER.as_bytes())) else { return false };
    let id = run(rest, |byte| byte.is_ascii_lowercase() || byte == b'_');
    let number = match rest[id..] {
        [b'#', ..] => 1 + run(&rest[id + 1..], |byte| byte.is_ascii_digit()),
        _ => 0,
    };
    Rule::ALL.iter().any(|rule| rule.id().as_bytes() == &rest[..id])
        && rest.get(id + number) == Some(&b']')
        && end <= start + MARKER.len() + id + number + 1
}

/// Secrets that show by their own shape.
fn shapes(bytes: &[u8], edits: &mut Vec<Edit>) {
    let Some(finder) = FINDER.as_ref() else { return };
    let mut done = 0;
    let mut no_jwt_before = 0;
    for found in finder.find_iter(bytes) {
        let Some((before, _, kind)) = STARTS.get(found.pattern().as_usize()) else { continue };
        let Some(start) = found.start().checked_sub(before.len()).filter(|start| *start >= done) else { continue };
        if !bytes[start..].starts_with(before.as_bytes()) {
            continue;
        }
        if let Some(edit) = look_at(bytes, start, found.end(), *kind, &mut no_jwt_before) {
            done = edit.end;
            edits.push(edit);
        }
    }
}

fn look_at(bytes: &[u8], start: usize, after: usize, kind: Start, no_jwt_before: &mut usize) -> Option<Edit> {
    match kind {
        Start::Pem => private_key(bytes, start, after),
        Start::Bearer => {
            let from = after + run(&bytes[after..], |byte| byte == b' ');
            let end = Run::Token68.end(bytes, from);
            let token = &bytes[from..end];
            // "bearer authentication" is prose; a token of that length has a digit, or is longer.
            let is_token = token.len() >= 8 && (token.len() >= 24 || token.iter().any(u8::is_ascii_digit));
            is_token.then(|| Edit::new(from, end, Rule::BearerToken).running(Run::Token68))
        }
        Start::Jwt if stands_alone(bytes, start) && start >= *no_jwt_before => jwt(bytes, start, no_jwt_before),
        Start::Url => userinfo(bytes, after),
        Start::Aws if stands_alone(bytes, start) => {
            let id = run(&bytes[after..], |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            (id == 16).then(|| Edit::new(start, after + id, Rule::AwsKeyId))
        }
        Start::Token { min } if stands_alone(bytes, start) => {
            let end = Run::Word.end(bytes, after);
            (end - after >= min).then(|| Edit::new(start, end, Rule::ServiceToken).running(Run::Word))
        }
        Start::Jwt | Start::Aws | Start::Token { .. } => None,
    }
}

/// The whole block, to its last line or, where that is missing, to the end.
fn private_key(bytes: &[u8], start: usize, after: usize) -> Option<Edit> {
    const LABEL_LIMIT_BYTES: usize = 64;
    let label = &bytes[after..bytes.len().min(after + LABEL_LIMIT_BYTES)];
    memchr::memmem::find(label, b"PRIVATE KEY")?;
    Some(Edit::new(start, Run::Pem.end(bytes, after), Rule::PrivateKey).running(Run::Pem))
}

/// Three parts of base64url, of which the first two begin as JSON objects do.
fn jwt(bytes: &[u8], start: usize, no_jwt_before: &mut usize) -> Option<Edit> {
    let part = |from: usize| Run::Word.end(bytes, from);
    let header = part(start);
    // Whatever begins inside this first part ends as it does.
    *no_jwt_before = header;
    let claims = part(bytes.get(header).filter(|byte| **byte == b'.').map(|_| header + 1)?);
    let signature = part(bytes.get(claims).filter(|byte| **byte == b'.').map(|_| claims + 1)?);
    let long_enough = header - start >= 10 && claims - header > 10;
    long_enough.then(|| Edit::new(start, signature, Rule::Jwt).running(Run::Word))
}

/// What stands before the `@` of an authority. `git@` is everybody's.
fn userinfo(bytes: &[u8], after: usize) -> Option<Edit> {
    let authority = run(&bytes[after..], |byte| {
        !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`')
    });
    let at = memchr::memrchr(b'@', &bytes[after..after + authority])?;
    let user = &bytes[after..after + at];
    (!user.is_empty() && user != b"git").then(|| Edit::new(after, after + at, Rule::UrlUserinfo))
}

/// Values that a name makes secret: assignments, headers, members of what looks like JSON.
fn named_values(bytes: &[u8], edits: &mut Vec<Edit>) {
    let mut done = 0;
    let mut look = |at: usize| {
        if at < done || !may_end_a_name(bytes, at) {
            return;
        }
        let edit =
            if bytes[at] == b'=' { assignment(bytes, at) } else { header(bytes, at).or_else(|| member(bytes, at)) };
        if let Some(edit) = edit {
            done = edit.end;
            edits.push(edit);
        }
    };
    let (blocks, rest) = bytes.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        let mut marks = separators(block);
        while marks != 0 {
            look(64 * number + marks.trailing_zeros() as usize);
            marks &= marks - 1;
        }
    }
    let before = bytes.len() - rest.len();
    (before..).zip(rest).filter(|(_, byte)| matches!(byte, b'=' | b':')).for_each(|(at, _)| look(at));
}

/// A bit for each `=` and `:`. JSON has one in every twenty bytes, so often that a search from one to the next would take
/// longer than to look at all of them.
fn separators(block: &[u8; 64]) -> u64 {
    // Sixteen comparisons are one instruction.
    let mut flags = [0_u8; 64];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(*byte == b'=') | u8::from(*byte == b':');
    }
    let (words, _) = flags.as_chunks::<8>();
    // The product has the eight flags of a word in its highest byte.
    let eight = |word: &[u8; 8]| u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    words.iter().enumerate().fold(0, |marks, (number, word)| marks | eight(word) << (8 * number))
}

/// Most colons and equals signs are turned down here, by the last two letters of what stands before them.
fn may_end_a_name(bytes: &[u8], at: usize) -> bool {
    // As nearly all of them are: a letter or a digit, perhaps a quote, and the separator.
    match bytes[..at].last_chunk::<3>() {
        Some([_, a, b]) | Some([a, b, b'"']) if b.is_ascii_alphanumeric() => names::may_end_with([*a, *b]),
        _ => letters_before(bytes, at).is_some_and(names::may_end_with),
    }
}

/// The last two bytes of a name, behind which there may be quotes and blanks.
fn letters_before(bytes: &[u8], at: usize) -> Option<[u8; 2]> {
    let mut end = at;
    while let Some(before) = end.checked_sub(1)
        && matches!(bytes[before], b' ' | b'\t' | b'"' | b'\'' | b'\\')
        && at - before <= 8
    {
        end = before;
    }
    bytes[..end].last_chunk::<2>().copied()
}

/// `name=value`, with a sensitive name, in a query, a fragment, a command line or a file.
fn assignment(bytes: &[u8], equals: usize) -> Option<Edit> {
    let name = name_before(bytes, equals)?;
    if !names::is_sensitive(name) {
        return None;
    }
    let from = equals + 1;
    let (from, run) = match bytes.get(from).copied() {
        Some(quote @ (b'"' | b'\'')) => (from + 1, Run::Quoted(quote)),
        _ => (from, Run::Bare),
    };
    let end = run.end(bytes, from);
    (end > from).then(|| Edit::new(from, end, Rule::Assignment).running(run))
}

/// A header line: the rest of the line is the value.
fn header(bytes: &[u8], colon: usize) -> Option<Edit> {
    let name = name_before(bytes, colon)?;
    if !names::is_header(name) {
        return None;
    }
    let from = colon + 1 + run(&bytes[colon + 1..], |byte| matches!(byte, b' ' | b'\t' | b'"' | b'\''));
    let end = Run::Line.end(bytes, from);
    (end > from).then(|| Edit::new(from, end, Rule::Assignment).running(Run::Line))
}

/// A member in text that is not JSON as a whole, such as a frame that was cut: `"token":"..."`, also with escaped quotes,
/// and `"name":"TOKEN","value":".."` in either order.
fn member(bytes: &[u8], colon: usize) -> Option<Edit> {
    let name = quoted_before(bytes, colon)?;
    if names::is_sensitive(name) {
        let from = colon + 1 + blanks(bytes, colon + 1);
        return secret_value(bytes, from, Rule::Member);
    }
    let is_value = name.eq_ignore_ascii_case("value");
    if !is_value && !names::is_pair_name(name) {
        return None;
    }
    let (first, after) = short_string(bytes, colon + 1)?;
    let other = after + blanks(bytes, after);
    (bytes.get(other) == Some(&b',')).then_some(())?;
    let (second_name, after) = short_string(bytes, other + 1)?;
    let second_colon = after + blanks(bytes, after);
    (bytes.get(second_colon) == Some(&b':')).then_some(())?;
    let text = |bytes: (usize, usize), all: &'_ [u8]| std::str::from_utf8(&all[bytes.0..bytes.1]).map(str::to_owned);
    let second_name = text(second_name, bytes).ok()?;
    if is_value {
        let (second, _) = short_string(bytes, second_colon + 1)?;
        let sensitive = names::is_pair_name(&second_name) && names::is_sensitive(&text(second, bytes).ok()?);
        return (sensitive && first.1 > first.0).then(|| Edit::new(first.0, first.1, Rule::Pair));
    }
    if !second_name.eq_ignore_ascii_case("value") || !names::is_sensitive(&text(first, bytes).ok()?) {
        return None;
    }
    let from = second_colon + 1 + blanks(bytes, second_colon + 1);
    secret_value(bytes, from, Rule::Pair)
}

/// A value that begins at `from`: a string to its closing quote, or a bare word.
fn secret_value(bytes: &[u8], from: usize, rule: Rule) -> Option<Edit> {
    let rest = &bytes[from..];
    let (from, run) = if rest.starts_with(b"\\\"") {
        (from + 2, Run::Quoted(b'\\'))
    } else if rest.starts_with(b"\"") {
        (from + 1, Run::JsonString)
    } else {
        (from, Run::Bare)
    };
    let end = run.end(bytes, from);
    let is_public = run == Run::Bare && matches!(&bytes[from..end], b"null" | b"true" | b"false" | b"{" | b"[" | b"{}");
    (end > from && !is_public).then(|| Edit::new(from, end, rule).running(run))
}

/// The content of a quoted string that begins at or behind `from`, and where it is over; only a short one.
fn short_string(bytes: &[u8], from: usize) -> Option<((usize, usize), usize)> {
    let from = from + blanks(bytes, from);
    let window = &bytes[..bytes.len().min(from + PAIR_LIMIT_BYTES)];
    let (content, escaped) = match window.get(from..)? {
        [b'\\', b'"', ..] => (from + 2, true),
        [b'"', ..] => (from + 1, false),
        _ => return None,
    };
    let end = if escaped { Run::Quoted(b'\\') } else { Run::JsonString }.end(window, content);
    let after = end + if escaped { 2 } else { 1 };
    (after <= window.len()).then_some(((content, end), after))
}

/// The name in quotes, escaped or not, that ends before a colon.
fn quoted_before(bytes: &[u8], colon: usize) -> Option<&str> {
    let before = bytes[colon.saturating_sub(NAME_LIMIT_BYTES)..colon].trim_ascii_end();
    let before = before.strip_suffix(b"\"")?;
    let before = before.strip_suffix(b"\\").unwrap_or(before);
    let name = before.iter().rev().take_while(|byte| is_name_byte(**byte)).count();
    let (rest, name) = before.split_at(before.len() - name);
    rest.ends_with(b"\"").then_some(())?;
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
}

fn name_before(bytes: &[u8], at: usize) -> Option<&str> {
    let before = &bytes[at.saturating_sub(NAME_LIMIT_BYTES)..at];
    let trimmed = before.trim_ascii_end();
    let trimmed = trimmed.strip_suffix(b"\"").or_else(|| trimmed.strip_suffix(b"'")).unwrap_or(trimmed);
    let name = trimmed.iter().rev().take_while(|byte| is_name_byte(**byte)).count();
    let name = std::str::from_utf8(&trimmed[trimmed.len() - name..]).ok()?;
    let name = name.trim_start_matches('-');
    (!name.is_empty()).then_some(name)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether nothing before it makes it the middle of a word: `task-force` has no key in it.
fn stands_alone(bytes: &[u8], start: usize) -> bool {
    start.checked_sub(1).is_none_or(|before| !bytes[before].is_ascii_alphanumeric() && bytes[before] != b'_')
}

fn blanks(bytes: &[u8], from: usize) -> usize {
    run(bytes.get(from..).unwrap_or_default(), |byte| matches!(byte, b' ' | b'\t'))
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    let count = bytes.iter().take_while(|byte| belongs(**byte)).count();
    count_work(count);
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_end_of_a_name_is_the_same_at_a_glance(text in r#"[a-d9eE_ "'\\\\\t(]{0,14}"#) {
            let found = may_end_a_name(text.as_bytes(), text.len());
            let letters = letters_before(text.as_bytes(), text.len());
            prop_assert_eq!(found, letters.is_some_and(names::may_end_with));
        }

        #[test]
        fn every_separator_has_its_bit_and_nothing_else_has_one(
            block in prop::array::uniform32(prop_oneof![Just(b'='), Just(b':'), any::<u8>()]),
            more in prop::array::uniform32(prop_oneof![Just(b';'), Just(b'<'), Just(0xba), any::<u8>()]),
        ) {
            let mut both = [0; 64];
            both[..32].copy_from_slice(&block);
            both[32..].copy_from_slice(&more);
            let expected = both.iter().rev().fold(0, |marks, byte| marks << 1 | u64::from(matches!(byte, b'=' | b':')));
            prop_assert_eq!(separators(&both), expected);
        }
    }
}
