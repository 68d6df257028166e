//! Texts of a form that is known beforehand.

use std::ops::Range;

use crate::lex::{self, Escape};

/// Reads a text that consists of fixed pieces with strings between them, as nearly every frame of a peer that streams does:
/// a piece of `before`, a string, the next piece, a string, and so on, and `end` behind the last string. Returns the text,
/// and where the strings stand, without their quotes and with their escapes. `None` if the bytes are anything else, or a
/// string has half of a surrogate pair; then [`scan`](crate::scan) has to tell what they are.
///
/// Each piece of `before` ends with the opening quote of its string, and `end` begins behind the closing quote of the last.
/// The pieces have to be such that any strings between them make strict JSON, within every limit but that of size. Then this
/// is the scan, in a few comparisons: what it accepts is what the scan accepts, and means the same.
///
/// ```
/// use pintle_wire::scan_form;
///
/// let (text, [name]) = scan_form(br#"{"name":"Ada","age":36}"#, &[r#"{"name":""#], r#","age":36}"#).expect("the form");
/// assert_eq!(&text[name], "Ada");
/// assert!(scan_form(br#"{"name":"Ada","age":37}"#, &[r#"{"name":""#], r#","age":36}"#).is_none());
/// ```
pub fn scan_form<'a, const N: usize>(
    bytes: &'a [u8],
    before: &[&str; N],
    end: &str,
) -> Option<(&'a str, [Range<usize>; N])> {
    let mut strings = [const { 0..0 }; N];
    let mut at = 0;
    for (piece, string) in before.iter().zip(&mut strings) {
        if !bytes.get(at..)?.starts_with(piece.as_bytes()) {
            return None;
        }
        at += piece.len();
        let close = string_end(bytes, at)?;
        *string = at..close;
        at = close + 1;
    }
    if bytes.get(at..)? != end.as_bytes() {
        return None;
    }
    Some((std::str::from_utf8(bytes).ok()?, strings))
}

/// Where the closing quote of the string is that goes on at `at`. `None` if there is none, or the string is not strict.
#[inline]
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = lex::plain_end(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => match lex::escape(bytes, at) {
                Escape::Char(_, length) => at += length,
                Escape::Lone | Escape::Invalid => return None,
            },
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::raw::unescape;
    use crate::{Profile, ScanLimits, scan};

    const BEFORE: [&str; 2] = [r#"{"a":{"b":""#, r#","c":[1,""#];
    const END: &str = "]}}";

    fn check(bytes: &[u8], expected: bool) {
        let read = scan_form(bytes, &BEFORE, END);
        assert_eq!(read.is_some(), expected, "{}", bytes.escape_ascii());
        if let Some((text, [first, second])) = read {
            let scanned = scan(bytes, Profile::DriverRpc, ScanLimits::CONTROL).expect("strict");
            assert_eq!(scanned.as_str(), text);
            let value: serde_json::Value = scanned.decode().expect("JSON");
            assert_eq!(value["a"]["b"], *unescape(&text[first]));
            assert_eq!(value["a"]["c"][1], *unescape(&text[second]));
        }
    }

    #[test]
    fn only_the_form_itself_is_taken() {
        check(br#"{"a":{"b":"x","c":[1,"y"]}}"#, true);
        check(br#"{"a":{"b":"x\n\"\\\/\b\f\r\t","c":[1,"\u0000\u00e9\ud83c\udf89"]}}"#, true);
        check("{\"a\":{\"b\":\"\",\"c\":[1,\"\u{1f389}\u{7f}\"]}}".as_bytes(), true);
        for other in [
            &br#"{"a":{"b":"x","c":[1,"y"]}} "#[..],
            br#" {"a":{"b":"x","c":[1,"y"]}}"#,
            br#"{"a":{"b":"x","c":[1,"y"]}"#,
            br#"{"a":{"b":"x","c":[1,"y"#,
            br#"{"a":{"b":"x","c":[1,"\a"]}}"#,
            br#"{"a":{"b":"x","c":[1,"\u00g0"]}}"#,
            br#"{"a":{"b":"x","c":[1,"\ud83c"]}}"#,
            br#"{"a":{"b":"x","c":[1,"\udf89\ud83c"]}}"#,
            br#"{"a":{"b":"x","c":[1,"\"#,
            br#"{"a":{"b":"x","c":[1,"\u00"#,
            br#"{"a":{"b":"x\","c":[1,"y"]}}"#,
            b"{\"a\":{\"b\":\"x\n\",\"c\":[1,\"y\"]}}",
            b"{\"a\":{\"b\":\"\xff\",\"c\":[1,\"y\"]}}",
            b"{\"a\":{\"b\":\"\xed\xa0\x80\",\"c\":[1,\"y\"]}}",
            br#"{"a":{"b":"x","b":[1,"y"]}}"#,
            b"",
        ] {
            check(other, false);
        }
    }

    proptest! {
        /// Design invariant 2: what comes in this way would have come in by the scan, and means the same.
        #[test]
        fn nothing_comes_in_that_the_scan_would_refuse(
            first in proptest::collection::vec(any::<u8>(), 0..20),
            second in r#"([^"\\]|\\["\\/bfnrtux]|\\u(00|d8|dc)[0-9a-f]{2}|\\ud83c\\udf89){0,12}"#,
        ) {
            let bytes = [BEFORE[0].as_bytes(), &first, b"\"", BEFORE[1].as_bytes(), second.as_bytes(), b"\"", END.as_bytes()].concat();
            let taken = scan_form(&bytes, &BEFORE, END).is_some();
            check(&bytes, taken);
        }
    }
}
