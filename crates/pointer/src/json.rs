//! The few lines of JSON output whose bytes the protocol fixes.

/// Appends `text` as a JSON string with no escape but those that RFC 8259 requires: quote, backslash, and control
/// characters as `\n`, `\t`, `\r` or `\u00xx`.
pub(crate) fn push_string(out: &mut String, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push('"');
    let mut plain = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[plain..index]);
        plain = index + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                out.push_str("\\u00");
                out.push(char::from(DIGITS[usize::from(control >> 4)]));
                out.push(char::from(DIGITS[usize::from(control & 0xf)]));
            }
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

/// [`push_string`], or `null`.
pub(crate) fn push_nullable(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => push_string(out, text),
        None => out.push_str("null"),
    }
}

/// One compact object on one line, built member by member in the order of the calls.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    fn name(mut self, name: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_string(&mut self.0, name);
        self.0.push(':');
        self
    }

    pub(crate) fn string(self, name: &str, value: &str) -> Self {
        let mut this = self.name(name);
        push_string(&mut this.0, value);
        this
    }

    pub(crate) fn nullable(self, name: &str, value: Option<&str>) -> Self {
        let mut this = self.name(name);
        push_nullable(&mut this.0, value);
        this
    }

    /// Leaves the member out when there is no value.
    pub(crate) fn optional(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.string(name, value),
            None => self,
        }
    }

    pub(crate) fn boolean(self, name: &str, value: bool) -> Self {
        let mut this = self.name(name);
        this.0.push_str(if value { "true" } else { "false" });
        this
    }

    pub(crate) fn number(self, name: &str, value: u64) -> Self {
        let mut this = self.name(name);
        this.0.push_str(&value.to_string());
        this
    }

    pub(crate) fn object(self, name: &str, value: Self) -> Self {
        let mut this = self.name(name);
        this.0.push_str(&value.finish());
        this
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_escapes() {
        let mut out = String::new();
        push_string(&mut out, "a\"\\/\u{8}\u{c}\n\r\t\u{1f}\u{7f}\u{e9}\u{1f600}");
        assert_eq!(out, "\"a\\\"\\\\/\\u0008\\u000c\\n\\r\\t\\u001f\u{7f}\u{e9}\u{1f600}\"");
        assert_eq!(serde_json::from_str::<String>(&out).expect("JSON").len(), 17);
    }

    #[test]
    fn members_keep_their_order() {
        let inner = Object::new().number("n", 7).boolean("b", false);
        let text =
            Object::new().string("z", "1").nullable("a", None).optional("gone", None).object("o", inner).finish();
        assert_eq!(text, r#"{"z":"1","a":null,"o":{"n":7,"b":false}}"#);
    }
}
