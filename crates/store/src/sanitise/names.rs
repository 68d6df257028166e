//! Names whose values are secret, whatever they look like.

/// Whole names, in lower case with `_` for every separator.
const NAMES: [&str; 26] = [
    "authorization",
    "proxy_authorization",
    "x_api_key",
    "api_key",
    "apikey",
    "cookie",
    "set_cookie",
    "access_token",
    "refresh_token",
    "id_token",
    "auth_token",
    "session_token",
    "bearer_token",
    "client_secret",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secret_key",
    "access_key",
    "private_key",
    "token",
    "credential",
    "credentials",
    "x_goog_api_key",
    "x_auth_token",
];

/// Endings of names.
const SUFFIXES: [&str; 11] = [
    "_token",
    "_secret",
    "_password",
    "_passwd",
    "_passphrase",
    "_api_key",
    "_apikey",
    "_access_key",
    "_secret_key",
    "_private_key",
    "_credentials",
];

/// Names with such an ending whose values are public: MCP's and ACP's progress tokens and the cursors of lists.
const PUBLIC: [&str; 3] = ["progress_token", "page_token", "next_page_token"];

/// Names that a value may follow behind a colon in free text. `token:` and the like are words of every parser's errors.
const HEADERS: [&str; 7] =
    ["authorization", "proxy_authorization", "x_api_key", "api_key", "cookie", "set_cookie", "x_goog_api_key"];

/// Whether the value of a member, variable, header or query parameter of this name is secret.
#[must_use]
pub fn is_sensitive(name: &str) -> bool {
    let name = normalise(name);
    !PUBLIC.contains(&name.as_str())
        && (NAMES.contains(&name.as_str()) || SUFFIXES.iter().any(|suffix| name.ends_with(suffix)))
}

/// Every sensitive name has one of these in it, in upper or lower case.
pub(super) const PARTS: [&str; 7] = ["auth", "key", "cookie", "token", "secret", "pass", "credential"];

/// Names of the member that has the name in a `{name, value}` pair.
const PAIR_NAMES: [&str; 3] = ["name", "key", "header"];

/// The last two letters of every name above, of `value` and of the names of pairs.
const ENDINGS: [[u8; 2]; 13] =
    [*b"on", *b"ey", *b"ie", *b"en", *b"et", *b"rd", *b"wd", *b"se", *b"al", *b"ls", *b"me", *b"er", *b"ue"];

/// For each letter, the letters that may follow it at an end. A letter is its last five bits, which are those of both cases.
const MAY_END: [u32; 32] = {
    let mut table = [0; 32];
    let mut at = 0;
    while at < ENDINGS.len() {
        let [a, b] = ENDINGS[at];
        table[(a & 31) as usize] |= 1 << (b & 31);
        at += 1;
    }
    table
};

/// Whether a name that is looked for may end so, in whatever case. Turns down most of a text at once; what is no letter may
/// pass.
pub(super) const fn may_end_with([a, b]: [u8; 2]) -> bool {
    MAY_END[(a & 31) as usize] >> (b & 31) & 1 == 1
}

/// Whether a member of this name has the name in a `{name, value}` pair.
pub(super) fn is_pair_name(name: &str) -> bool {
    PAIR_NAMES.iter().any(|pair| name.eq_ignore_ascii_case(pair))
}

/// Whether this is a header whose value fills the rest of its line.
pub(super) fn is_header(name: &str) -> bool {
    HEADERS.contains(&normalise(name).as_str())
}

/// `X-Api-Key`, `x_api_key`, `xApiKey` and `x.api.key` are one name.
fn normalise(name: &str) -> String {
    let mut normal = String::with_capacity(name.len() + 4);
    let mut after_lower = false;
    for c in name.trim().chars() {
        if c.is_ascii_uppercase() && after_lower {
            normal.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        normal.push(if matches!(c, '-' | '.' | ' ') { '_' } else { c.to_ascii_lowercase() });
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_known_ending() {
        let names = NAMES.iter().chain(&SUFFIXES).chain(&HEADERS).chain(&PAIR_NAMES).chain(&["value"]);
        for name in names {
            let ending = name.as_bytes().last_chunk::<2>().copied().expect("two letters");
            assert!(may_end_with(ending) && may_end_with(ending.map(|letter| letter.to_ascii_uppercase())), "{name}");
        }
    }

    /// Separators are told apart where letters are not, so a part of a name that has none stands in it as it is.
    #[test]
    fn every_sensitive_name_has_a_known_part() {
        for name in NAMES.iter().chain(&SUFFIXES).chain(&HEADERS) {
            assert!(PARTS.iter().any(|part| name.contains(part)), "{name}");
        }
        assert!(PARTS.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_lowercase())));
    }

    #[test]
    fn names_are_told_apart() {
        for name in [
            "Authorization",
            "X-Api-Key",
            "api_key",
            "apiKey",
            "OPENAI_API_KEY",
            "anthropic-api-key",
            "accessToken",
            "GITHUB_TOKEN",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "db.password",
            "Set-Cookie",
            "token",
        ] {
            assert!(is_sensitive(name), "{name}");
        }
        for name in
            ["tokens", "max_tokens", "inputTokens", "progressToken", "sessionId", "authMethods", "key", "tokenize"]
        {
            assert!(!is_sensitive(name), "{name}");
        }
    }
}
