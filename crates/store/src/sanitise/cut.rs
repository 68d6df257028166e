//! Where bytes were left out: a secret that lies across such a place shows only a part of itself, by which nothing knows it.
//!
//! So what stands beside the place is left out, too: as much as the longest canary takes in any spelling, and from there to
//! the next border of a line, because few secrets go over one. Where there is none, as much as a stream holds back.

/// How much of a text is whole whose end was left out.
pub(super) fn whole_until(bytes: &[u8], canary_bytes: usize, hold_back: usize) -> usize {
    let seen = bytes.len().saturating_sub(canary_bytes);
    let line = memchr::memrchr(b'\n', &bytes[..seen]).map_or(0, |at| at + 1);
    line.max(bytes.len().saturating_sub(hold_back))
}

/// Where a text is whole whose beginning was left out.
pub(super) fn whole_from(bytes: &[u8], canary_bytes: usize, hold_back: usize) -> usize {
    let unseen = canary_bytes.min(bytes.len());
    let line = memchr::memchr(b'\n', &bytes[unseen..]).map_or(bytes.len(), |at| unseen + at + 1);
    line.min(hold_back.min(bytes.len())).max(key_without_beginning(bytes).unwrap_or(0))
}

/// Where the private key ends that began in what was left out.
fn key_without_beginning(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"-----END ";
    const LABEL_LIMIT_BYTES: usize = 64;
    let end = memchr::memmem::find(bytes, END)?;
    if memchr::memmem::find(&bytes[..end], b"-----BEGIN ").is_some() {
        return None;
    }
    let label = &bytes[end + END.len()..];
    let label = &label[..label.len().min(LABEL_LIMIT_BYTES)];
    let key = memchr::memmem::find(label, b"PRIVATE KEY-----")?;
    Some(end + END.len() + key + b"PRIVATE KEY-----".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canary_bytes: usize, hold_back: usize, until: &str, from: &str) {
        assert_eq!(&text[..whole_until(text.as_bytes(), canary_bytes, hold_back)], until, "{text:?}");
        assert_eq!(&text[whole_from(text.as_bytes(), canary_bytes, hold_back)..], from, "{text:?}");
    }

    #[test]
    fn a_text_is_whole_from_line_to_line() {
        check("one\ntwo\nthree", 0, 100, "one\ntwo\n", "two\nthree");
        check("one\ntwo\nthree", 5, 100, "one\ntwo\n", "three");
        check("one\ntwo\nthree", 6, 100, "one\n", "three");
        check("no line border in it", 0, 8, "no line bord", "border in it");
        check("short", 0, 8, "", "");
        check("", 3, 8, "", "");
    }

    #[test]
    fn a_key_that_began_before_is_gone_to_its_end() {
        let text = "MIIE\nabcd\n-----END RSA PRIVATE KEY-----\nafter";
        assert_eq!(&text[whole_from(text.as_bytes(), 0, 100)..], "\nafter");
        let text = "log\n-----BEGIN PRIVATE KEY-----\nabcd\n-----END PRIVATE KEY-----\nafter";
        assert_eq!(whole_from(text.as_bytes(), 0, 100), 4, "that one is found as a whole");
    }
}
