//! The Driver RPC vectors of `testdata/driver` (its README says what the kinds mean and how they are scored).

use pintle_wire::Digest;
use serde_json::Value;

const DRIVER_VECTORS: &str = include_str!("../../../testdata/driver/vectors.jsonl");

/// One case.
#[derive(Debug, Clone)]
pub struct Vector {
    /// Its name.
    pub id: String,
    /// What is done with the input: `decode`, `canonicalize`, ..
    pub kind: String,
    /// What it is about.
    pub family: String,
    /// The input as it stands in the file; [`bytes`](Self::bytes) builds it.
    pub input: Value,
    /// The recorded verdict.
    pub expect: Value,
    /// The contract of a `typed` case.
    pub contract: Option<String>,
    /// Set when the recorded verdict is questionable; [`recommended`](Self::recommended) then counts.
    pub quirk: Option<String>,
    /// What a strict implementation does, in words.
    pub recommended: Option<String>,
}

/// Every case of a kind, in the order of the file.
///
/// # Panics
///
/// When the file is malformed, or has no such kind.
pub fn driver_vectors(kind: &str) -> Vec<Vector> {
    let vectors: Vec<Vector> = DRIVER_VECTORS.lines().map(Vector::read).filter(|vector| vector.kind == kind).collect();
    assert!(!vectors.is_empty(), "no vectors of kind {kind}");
    vectors
}

impl Vector {
    fn read(line: &str) -> Self {
        let vector: Value = serde_json::from_str(line).expect("a vector is JSON");
        let text = |member: &str| vector[member].as_str().map(str::to_owned);
        Self {
            id: text("id").expect("a vector has an id"),
            kind: text("kind").expect("a vector has a kind"),
            family: text("family").expect("a vector has a family"),
            input: vector["input"].clone(),
            expect: vector["expect"].clone(),
            contract: text("type"),
            quirk: text("quirk"),
            recommended: text("recommended"),
        }
    }

    /// The input of a case whose input is bytes.
    ///
    /// # Panics
    ///
    /// When it is of another form.
    pub fn bytes(&self) -> Vec<u8> {
        input_bytes(&self.input)
    }

    /// Whether the recorded verdict is a success.
    pub fn ok(&self) -> bool {
        self.expect["ok"] == true
    }

    /// The recorded class of the failure; `None` when it has none.
    pub fn class(&self) -> Option<&str> {
        self.expect["class"].as_str()
    }

    /// Where the recorded failure happened.
    pub fn stage(&self) -> Option<&str> {
        self.expect["stage"].as_str()
    }

    /// Whether the recommendation is to refuse what the recorded verdict accepts.
    pub fn recommends_refusal(&self) -> bool {
        self.recommended.as_deref().is_some_and(|words| words.starts_with("reject"))
    }

    /// Asserts that `canonical` is the canonical form that the case expects.
    ///
    /// # Panics
    ///
    /// When it is not, naming the case.
    pub fn assert_canonical(&self, canonical: &[u8]) {
        assert_canonical(&self.id, &self.expect, canonical);
    }
}

/// The bytes that an input of the file describes.
///
/// # Panics
///
/// When `input` is no description of bytes.
pub fn input_bytes(input: &Value) -> Vec<u8> {
    if let Some(text) = input.as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(hex) = input["hex"].as_str() {
        return unhex(hex);
    }
    let parts = input["repeat"].as_array().expect("bytes are a string, hex or repeat");
    let mut bytes = Vec::new();
    for part in parts {
        let piece = part["s"]
            .as_str()
            .map_or_else(|| unhex(part["hex"].as_str().expect("s or hex")), |s| s.as_bytes().to_vec());
        let count = part["n"].as_u64().unwrap_or(1) as usize;
        bytes.extend_from_slice(&piece.repeat(count));
    }
    bytes
}

/// Asserts that `canonical` is what `expect` describes (of a case, or of one event of a stream).
///
/// # Panics
///
/// When it is not, naming `id`.
pub fn assert_canonical(id: &str, expect: &Value, canonical: &[u8]) {
    if let Some(text) = expect["canonical"].as_str() {
        assert_eq!(String::from_utf8_lossy(canonical), text, "{id}");
    }
    assert_eq!(Some(canonical.len() as u64), expect["canonical_len"].as_u64(), "{id}: length");
    assert_eq!(Some(Digest::of(canonical).hex().as_str()), expect["canonical_sha256"].as_str(), "{id}: digest");
}

/// The bytes that hexadecimal digits spell.
///
/// # Panics
///
/// When they are none.
pub fn unhex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "hex digits come in pairs");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits")).collect()
}
