//! What looks like a secret in any text.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::{Edit, Rule, canary::Canaries, names};

/// Beginnings of secrets. Each is looked at more closely where it is found.
const STARTS: [(&str, Start); 30] = [
    ("-----BEGIN ", Start::Pem),
    ("bearer ", Start::Bearer),
    ("eyJ", Start::Jwt),
    ("://", Start::Url),
    ("AKIA", Start::Aws),
    ("ASIA", Start::Aws),
    ("ghp_", Start::Token { min: 20 }),
    ("gho_", Start::Token { min: 20 }),
    ("ghu_", Start::Token { min: 20 }),
    ("ghs_", Start::Token { min: 20 }),
    ("ghr_", Start::Token { min: 20 }),
    ("github_pat_", Start::Token { min: 20 }),
    ("glpat-", Start::Token { min: 20 }),
    ("sk-", Start::Token { min: 20 }),
    ("sk_live_", Start::Token { min: 16 }),
    ("sk_test_", Start::Token { min: 16 }),
    ("rk_live_", Start::Token { min: 16 }),
    ("xoxb-", Start::Token { min: 10 }),
    ("xoxp-", Start::Token { min: 10 }),
    ("xoxa-", Start::Token { min: 10 }),
    ("xoxr-", Start::Token { min: 10 }),
    ("xoxs-", Start::Token { min: 10 }),
    ("AIza", Start::Token { min: 35 }),
    ("npm_", Start::Token { min: 30 }),
    ("hf_", Start::Token { min: 30 }),
    ("pypi-", Start::Token { min: 50 }),
    ("dop_v1_", Start::Token { min: 40 }),
    ("xai-", Start::Token { min: 30 }),
    ("gsk_", Start::Token { min: 30 }),
    ("=", Start::Assignment),
];

/// A colon in text may end a header's name; it is too frequent to be worth the automaton's report where it does not.
const COLON: u8 = b':';

#[derive(Debug, Clone, Copy)]
enum Start {
    Pem,
    Bearer,
    Jwt,
    Url,
    Aws,
    Token { min: usize },
    Assignment,
}

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder().ascii_case_insensitive(true).build(STARTS.iter().map(|(start, _)| start)).ok()
});

/// Everything in `bytes` that is to be replaced.
pub(super) fn find(canaries: &Canaries, bytes: &[u8]) -> Vec<Edit> {
    let mut edits = canaries.find(bytes);
    if let Some(finder) = FINDER.as_ref() {
        for found in finder.find_overlapping_iter(bytes) {
            let Some((text, start)) = STARTS.get(found.pattern().as_usize()) else { continue };
            let exact = &bytes[found.start()..found.end()] == text.as_bytes();
            edits.extend(look_at(bytes, found.start(), found.end(), *start, exact));
        }
    }
    for colon in memchr::memchr_iter(COLON, bytes) {
        edits.extend(header(bytes, colon));
    }
    edits
}

fn look_at(bytes: &[u8], start: usize, after: usize, kind: Start, exact: bool) -> Option<Edit> {
    match kind {
        Start::Pem => private_key(bytes, start, after),
        Start::Bearer => {
            let blanks = run(&bytes[after..], |byte| byte == b' ');
            let from = after + blanks;
            let token = &bytes[from..from + run(&bytes[from..], is_token68)];
            // "bearer authentication" is prose; a token of that length has a digit, or is longer.
            let is_token = token.len() >= 8 && (token.len() >= 24 || token.iter().any(u8::is_ascii_digit));
            is_token.then(|| Edit::new(from, from + token.len(), Rule::BearerToken))
        }
        Start::Jwt if exact && stands_alone(bytes, start) => jwt(bytes, start),
        Start::Url => userinfo(bytes, after),
        Start::Aws if exact && stands_alone(bytes, start) => {
            let id = run(&bytes[after..], |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
            (id == 16).then(|| Edit::new(start, after + id, Rule::AwsKeyId))
        }
        Start::Token { min } if exact && stands_alone(bytes, start) => {
            let rest = run(&bytes[after..], |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
            (rest >= min).then(|| Edit::new(start, after + rest, Rule::ServiceToken))
        }
        Start::Assignment => assignment(bytes, start),
        Start::Jwt | Start::Aws | Start::Token { .. } => None,
    }
}

/// The whole block, to its last line or, where that is missing, to the end.
fn private_key(bytes: &[u8], start: usize, after: usize) -> Option<Edit> {
    const LABEL_LIMIT_BYTES: usize = 64;
    let label = &bytes[after..bytes.len().min(after + LABEL_LIMIT_BYTES)];
    memchr::memmem::find(label, b"PRIVATE KEY")?;
    let end = memchr::memmem::find(&bytes[after..], b"-----END ").map_or(bytes.len(), |end| {
        let label = after + end + "-----END ".len();
        memchr::memmem::find(&bytes[label..], b"-----").map_or(bytes.len(), |dashes| label + dashes + 5)
    });
    Some(Edit::new(start, end, Rule::PrivateKey))
}

/// Three parts of base64url, of which the first two begin as JSON objects do.
fn jwt(bytes: &[u8], start: usize) -> Option<Edit> {
    let part =
        |from: usize| from + run(&bytes[from..], |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let header = part(start);
    let claims = part(bytes.get(header).filter(|byte| **byte == b'.').map(|_| header + 1)?);
    let signature = part(bytes.get(claims).filter(|byte| **byte == b'.').map(|_| claims + 1)?);
    let long_enough = header - start >= 10 && claims - header > 10;
    long_enough.then(|| Edit::new(start, signature, Rule::Jwt))
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

/// `name=value`, with a sensitive name, in a query, a fragment, a command line or a file.
fn assignment(bytes: &[u8], equals: usize) -> Option<Edit> {
    let name = name_before(bytes, equals)?;
    if !names::is_sensitive(name) {
        return None;
    }
    let quote = bytes.get(equals + 1).copied().filter(|byte| matches!(byte, b'"' | b'\''));
    let from = equals + 1 + usize::from(quote.is_some());
    let value = match quote {
        Some(quote) => run(&bytes[from..], |byte| byte != quote && byte != b'\n'),
        None => run(&bytes[from..], |byte| {
            !byte.is_ascii_whitespace()
                && !matches!(byte, b'&' | b';' | b',' | b'"' | b'\'' | b')' | b'}' | b']' | b'#')
        }),
    };
    (value > 0).then(|| Edit::new(from, from + value, Rule::Assignment))
}

/// A header line: the rest of the line is the value.
fn header(bytes: &[u8], colon: usize) -> Option<Edit> {
    let name = name_before(bytes, colon)?;
    if !names::is_header(name) {
        return None;
    }
    let from = colon + 1 + run(&bytes[colon + 1..], |byte| matches!(byte, b' ' | b'\t' | b'"' | b'\''));
    let value = run(&bytes[from..], |byte| !matches!(byte, b'\r' | b'\n' | b'"' | b'\''));
    (value > 0).then(|| Edit::new(from, from + value, Rule::Assignment))
}

fn name_before(bytes: &[u8], at: usize) -> Option<&str> {
    const NAME_LIMIT_BYTES: usize = 64;
    let before = &bytes[at.saturating_sub(NAME_LIMIT_BYTES)..at];
    let trimmed = before.trim_ascii_end();
    let trimmed = trimmed.strip_suffix(b"\"").or_else(|| trimmed.strip_suffix(b"'")).unwrap_or(trimmed);
    let name = trimmed
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        .count();
    let name = std::str::from_utf8(&trimmed[trimmed.len() - name..]).ok()?;
    let name = name.trim_start_matches('-');
    (!name.is_empty()).then_some(name)
}

/// Whether nothing before it makes it the middle of a word: `task-force` has no key in it.
fn stands_alone(bytes: &[u8], start: usize) -> bool {
    start.checked_sub(1).is_none_or(|before| !bytes[before].is_ascii_alphanumeric() && bytes[before] != b'_')
}

fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| belongs(**byte)).count()
}
