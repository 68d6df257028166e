//! The short way: nearly every text has nothing in it that is to be replaced, and one look shows that.
//!
//! The look is careful: it turns down many a text that is harmless, such as one with the word "key" in it, and then the
//! detectors decide. What it lets pass is what they would have left as it is; a property test holds one against the other.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{
    canary::Canaries,
    count_work, names, text,
    view::{MAX_ESCAPES, View},
};

/// Finds whatever a detector begins with, in upper or lower case.
static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .build(text::starts().chain(names::PARTS))
        .ok()
});

/// Whether a JSON text, which has passed the strict scan, is certain to have nothing in it that is to be replaced.
pub(super) fn json(canaries: &Canaries, json: &[u8]) -> bool {
    // A string with too many escapes is replaced for that alone.
    if json.len() > MAX_ESCAPES || has_percent_escape(json) || canaries.may_stand_in(json) {
        return false;
    }
    count_work(2 * json.len());
    // Outside of its strings a JSON text has no backslash; so what they say, it says as a whole.
    match View::backslash(json) {
        None => !may_show(json),
        Some(view) => {
            let said = &view.bytes[..];
            count_work(3 * said.len());
            // Escapes within escapes, and documents in strings with strings of their own, are for the long way.
            memchr::memchr(b'\\', said).is_none()
                && !has_percent_escape(said)
                && !canaries.may_stand_in(said)
                && !may_show(said)
        }
    }
}

/// Whether any text is certain to have nothing in it that is to be replaced.
pub(super) fn text(canaries: &Canaries, text: &[u8]) -> bool {
    count_work(2 * text.len());
    memchr::memchr(b'\\', text).is_none()
        && !has_percent_escape(text)
        && !canaries.may_stand_in(text)
        && !may_show(text)
}

/// Whether a detector may find something, by shape or by name.
fn may_show(bytes: &[u8]) -> bool {
    FINDER.as_ref().is_none_or(|finder| finder.is_match(bytes))
}

fn has_percent_escape(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'%', bytes)
        .any(|at| matches!(bytes.get(at + 1..at + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
}
