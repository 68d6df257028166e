//! Values that must not reach a log, a report or the evidence.

use std::fmt;

/// A text that is used but never shown: a capability token, an input handle.
///
/// It prints `[redacted]` and has no `Serialize`, so it cannot be part of a document by accident:
///
/// ```compile_fail
/// fn show<T: serde::Serialize>(_: &T) {}
/// show(&pintle_driver::Secret::new("token"));
/// ```
///
/// What must leave (the frame that carries a token to the driver) asks for it with [`expose`](Self::expose).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself. Call it only to use the value, never to print or store it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("tok-123");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
        assert_eq!(secret.expose(), "tok-123");
    }
}
