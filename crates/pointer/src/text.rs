use std::borrow::Cow;

use pintle_wire::Digest;
use thiserror::Error;

use crate::Code;

/// The longest pointer text, in UTF-8 bytes after line endings became LF.
pub const TEXT_MAX_BYTES: usize = 8192;

/// Why a text cannot be a pointer text. Never repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// Nothing but white space (item 13).
    #[error("pointer text is empty")]
    Empty,
    /// Over [`TEXT_MAX_BYTES`].
    #[error("pointer text has {bytes} bytes, the limit is {TEXT_MAX_BYTES}")]
    TooLarge {
        /// Its length in UTF-8 bytes after normalisation.
        bytes: usize,
    },
    /// A control character other than TAB and LF.
    #[error("pointer text holds the control character U+{code_point:04X}")]
    Control {
        /// The character.
        code_point: u32,
    },
}

impl TextError {
    /// The code of the refusal.
    pub const fn code(self) -> Code {
        match self {
            Self::Empty => Code::PointerEmpty,
            Self::TooLarge { .. } => Code::PointerTooLarge,
            Self::Control { .. } => Code::RequestSchema,
        }
    }
}

/// Goal and next step of a task as its publisher wrote them: not blank, at most [`TEXT_MAX_BYTES`], lines ended by LF.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PointerText(Box<str>);

impl PointerText {
    /// The text of a publish: CRLF and CR become LF, then the rules above; control characters but TAB and LF are
    /// refused, since nobody means them and a terminal would obey them.
    pub fn publish(raw: &str) -> Result<Self, TextError> {
        let text = normalise(raw);
        if let Some(control) = text.chars().find(|c| *c < ' ' && !matches!(c, '\t' | '\n')) {
            return Err(TextError::Control { code_point: control.into() });
        }
        Self::bounded(text)
    }

    /// The text of a stored state. Kept byte for byte: another writer of the protocol may have stored control
    /// characters, and a prompt must be able to mark its state dirty all the same.
    pub fn stored(raw: &str) -> Result<Self, TextError> {
        let normalised = normalise(raw).len();
        if normalised > TEXT_MAX_BYTES {
            return Err(TextError::TooLarge { bytes: normalised });
        }
        if raw.is_empty() { Err(TextError::Empty) } else { Ok(Self(raw.into())) }
    }

    fn bounded(text: Cow<'_, str>) -> Result<Self, TextError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(TextError::TooLarge { bytes: text.len() });
        }
        if text.trim().is_empty() { Err(TextError::Empty) } else { Ok(Self(text.into())) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its SHA-256, under which the sidecar remembers what was delivered (A4).
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// The first line that is not blank, without surrounding white space and control characters, for lists.
    pub fn first_line(&self) -> String {
        let line = self.0.split(['\n', '\r']).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        line.chars().filter(|c| !c.is_control()).collect()
    }

    /// Whether the text holds characters that reorder or hide what a person reads (item 13).
    pub fn has_invisible_controls(&self) -> bool {
        self.0.chars().any(|c| {
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
                || (c.is_control() && !matches!(c, '\t' | '\n'))
        })
    }
}

fn normalise(raw: &str) -> Cow<'_, str> {
    if raw.contains('\r') { Cow::Owned(raw.replace("\r\n", "\n").replace('\r', "\n")) } else { Cow::Borrowed(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_become_lf_before_the_limit_counts() {
        let crlf = "a\r\n".repeat(TEXT_MAX_BYTES / 2);
        let text = PointerText::publish(&crlf).expect("8192 bytes after normalisation");
        assert_eq!(text.as_str().len(), TEXT_MAX_BYTES);
        assert_eq!(PointerText::publish("a\rb\r\nc").expect("legal").as_str(), "a\nb\nc");
        assert_eq!(
            PointerText::publish(&"a".repeat(TEXT_MAX_BYTES + 1)),
            Err(TextError::TooLarge { bytes: TEXT_MAX_BYTES + 1 })
        );
    }

    #[test]
    fn blank_and_control_texts_are_refused() {
        for blank in ["", " ", "\n\t\r\n", "\u{3000}"] {
            assert_eq!(PointerText::publish(blank), Err(TextError::Empty), "{blank:?}");
        }
        assert_eq!(PointerText::publish("a\0"), Err(TextError::Control { code_point: 0 }));
        assert_eq!(PointerText::publish("a\u{1b}[2J"), Err(TextError::Control { code_point: 0x1b }));
        assert!(PointerText::publish("\ta\u{2028}b\u{202e}").is_ok());
        assert_eq!(PointerText::publish("  keep  ").expect("legal").as_str(), "  keep  ");
    }

    #[test]
    fn stored_text_keeps_its_bytes() {
        assert_eq!(PointerText::stored("a\u{1}\r\n").expect("legal").as_str(), "a\u{1}\r\n");
        assert_eq!(PointerText::stored(""), Err(TextError::Empty));
    }

    #[test]
    fn first_line_is_safe_to_print() {
        assert_eq!(PointerText::stored("\n \u{1b}[1mgoal\nnext").expect("legal").first_line(), "[1mgoal");
    }
}
