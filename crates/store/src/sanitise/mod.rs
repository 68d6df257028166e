//! The one way for bytes to become evidence.
//!
//! Everything that is kept passes a [`Sanitiser`]; what comes out is a [`Sanitised`], which nothing else can make and which
//! is all that the evidence store takes. A sanitiser replaces
//!
//! * the values of members with sensitive names, also where name and value are members of their own
//!   (`{"name":"OPENAI_API_KEY","value":".."}`, the form of environments and headers in ACP);
//! * what looks like a secret in any text, JSON strings and member names included: private keys, bearer tokens, the key
//!   formats of well-known services, user and password in URLs, `name=value` with a sensitive name;
//! * the configured canaries: values that are known to be secret, also in base64, percent, hexadecimal and escaped forms.
//!
//! JSON inside a JSON string is treated as JSON. What is not replaced stays byte for byte as it was: a peer's frame is
//! evidence, and spelling it anew would destroy what it proves. A report says which rule replaced how much, and never
//! anything that is derived from a secret.
//!
//! Text that comes in chunks passes a [`StreamRedactor`], which holds back what may be the beginning of a secret. Text in
//! pieces that are kept one by one passes a [`PieceRedactor`].
//!
//! Limits: a canary that would match by chance is not looked for ([`Canary::weakness`] says why); one that is split over
//! two members of JSON, or two frames that are not pieces of one text, is not found.

mod canary;
mod cut;
mod json;
mod names;
mod pass;
mod pieces;
mod run;
mod stream;
mod text;
mod view;

use std::{borrow::Cow, collections::BTreeMap, fmt};

use pintle_wire::{CanonError, MAX_ACP_LINE_BYTES, MAX_DEPTH, Profile, ScanLimits, Text, scan, to_canonical};
use serde::Serialize;

pub use canary::{Canary, MAX_HOLD_BACK_BYTES, MIN_CANARY_BYTES, MIN_DISTINCT_BYTES, MIN_SECRET_BYTES, Weakness};
pub use names::is_sensitive as is_sensitive_name;
pub use pieces::PieceRedactor;
pub use stream::StreamRedactor;

use canary::Canaries;
use run::Run;

/// How much is kept of a line that is not JSON.
pub const KEPT_GARBAGE_BYTES: usize = 4 * 1024;

/// How deep JSON in strings of JSON is treated as such.
const MAX_NESTED_DOCUMENTS: u32 = 4;

/// What every marker begins with.
const MARKER: &str = "[redacted:";

/// Why something was replaced: the rule's stable id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each name is the rule")]
pub enum Rule {
    /// The value of a member with a sensitive name.
    Member,
    /// The value of a `{name, value}` pair with a sensitive name.
    Pair,
    /// The value of `name=value` or of a header line in text.
    Assignment,
    PrivateKey,
    BearerToken,
    Jwt,
    ServiceToken,
    AwsKeyId,
    UrlUserinfo,
    Canary,
    /// What stands beside a place where bytes were left out, and may be a part of a secret.
    Cut,
}

impl Rule {
    /// All, in order.
    pub const ALL: [Self; 11] = [
        Self::Member,
        Self::Pair,
        Self::Assignment,
        Self::PrivateKey,
        Self::BearerToken,
        Self::Jwt,
        Self::ServiceToken,
        Self::AwsKeyId,
        Self::UrlUserinfo,
        Self::Canary,
        Self::Cut,
    ];

    /// The rule's id, as it stands in markers and reports.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Pair => "pair",
            Self::Assignment => "assignment",
            Self::PrivateKey => "private_key",
            Self::BearerToken => "bearer_token",
            Self::Jwt => "jwt",
            Self::ServiceToken => "service_token",
            Self::AwsKeyId => "aws_key_id",
            Self::UrlUserinfo => "url_userinfo",
            Self::Canary => "canary",
            Self::Cut => "cut",
        }
    }

    fn marker(self) -> String {
        format!("{MARKER}{}]", self.id())
    }
}

/// How often each rule replaced something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Redactions(BTreeMap<Rule, u64>);

impl Redactions {
    /// Rules and counts, in the order of the rules.
    pub fn iter(&self) -> impl Iterator<Item = (Rule, u64)> {
        self.0.iter().map(|(rule, count)| (*rule, *count))
    }

    /// Whether nothing was replaced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the counts of another report.
    pub fn add(&mut self, other: &Self) {
        for (rule, count) in other.iter() {
            *self.0.entry(rule).or_default() += count;
        }
    }

    fn count(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }
}

/// What the bytes of a [`Sanitised`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One JSON value.
    Json,
    /// Anything else.
    Bytes,
}

/// Bytes that a [`Sanitiser`] has looked through. There is no other way to make one:
///
/// ```compile_fail
/// let forged = pintle_store::Sanitised { bytes: b"secret".to_vec() };
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Sanitised {
    bytes: Vec<u8>,
    shape: Shape,
    is_canonical: bool,
    redactions: Redactions,
}

impl Sanitised {
    /// Bytes in which nothing was to be replaced.
    fn unchanged(bytes: Vec<u8>, shape: Shape) -> Self {
        Self { bytes, shape, is_canonical: false, redactions: Redactions::default() }
    }

    /// Whether they are known to be JSON in canonical form.
    pub(crate) fn is_canonical(&self) -> bool {
        self.is_canonical
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as text; what is not UTF-8 is replaced.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// What they are.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What was replaced in them.
    #[must_use]
    pub fn redactions(&self) -> &Redactions {
        &self.redactions
    }

    /// The same JSON object with one member more, which says how often each rule replaced something. The names in it are
    /// those of rules and the values are numbers, so that a rule called as a secret is (`private_key`) hides no count.
    /// Anything but an object stays as it is.
    ///
    /// # Errors
    /// [`CanonError`] if the object has no canonical form.
    pub fn with_redactions(self, member: &str, counts: &Redactions) -> Result<Self, CanonError> {
        let Ok(mut object) = serde_json::from_slice::<serde_json::Map<_, _>>(&self.bytes) else { return Ok(self) };
        let counts = counts.iter().map(|(rule, count)| (rule.id().to_owned(), count.into())).collect();
        object.insert(member.to_owned(), serde_json::Value::Object(counts));
        Ok(Self { bytes: to_canonical(&object)?, is_canonical: true, ..self })
    }

    /// The bytes, for a writer that the evidence store does not do itself, such as a report.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl fmt::Debug for Sanitised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sanitised")
            .field("bytes", &self.bytes.len())
            .field("shape", &self.shape)
            .field("redactions", &self.redactions)
            .finish()
    }
}

/// Replaces secrets. See the module.
#[derive(Debug, Default)]
pub struct Sanitiser {
    canaries: Canaries,
}

impl Sanitiser {
    /// A sanitiser that knows these values to be secret. Those that would match by chance are left out, see
    /// [`Canary::weakness`].
    pub fn new<C: AsRef<[u8]>>(secrets: impl IntoIterator<Item = C>) -> Self {
        Self::with(secrets.into_iter().map(|secret| Canary::secret(secret.as_ref())))
    }

    /// A sanitiser that knows these canaries.
    pub fn with(canaries: impl IntoIterator<Item = Canary>) -> Self {
        Self { canaries: Canaries::new(canaries) }
    }

    /// For text that comes in chunks.
    #[must_use]
    pub fn stream(&self) -> StreamRedactor<'_> {
        StreamRedactor::new(self)
    }

    /// For text in pieces that are kept one by one.
    #[must_use]
    pub fn pieces<T>(&self) -> PieceRedactor<'_, T> {
        PieceRedactor::new(self)
    }

    /// How many of the canaries were left out: their owner should be told.
    #[must_use]
    pub fn ignored_canaries(&self) -> usize {
        self.canaries.ignored()
    }

    /// One line of a peer: as JSON if it is strict JSON, else as text of which the first [`KEPT_GARBAGE_BYTES`] are kept,
    /// so that the garbage that proves a failure survives.
    #[must_use]
    pub fn line(&self, line: &[u8]) -> Sanitised {
        match scan(line, Profile::Acp, ScanLimits { max_bytes: MAX_ACP_LINE_BYTES, max_depth: MAX_DEPTH }) {
            Ok(text) => self.json(&text),
            Err(_) => self.text(line, KEPT_GARBAGE_BYTES),
        }
    }

    /// Whether [`Sanitiser::json`] would leave a JSON text as it is, told by one look that costs a fraction of it. The text
    /// has to be strict JSON. False says nothing.
    #[must_use]
    pub fn passes(&self, json: &str) -> bool {
        pass::json(&self.canaries, json.as_bytes())
    }

    /// A JSON text.
    #[must_use]
    pub fn json(&self, text: &Text<'_>) -> Sanitised {
        if pass::json(&self.canaries, text.raw()) {
            return Sanitised::unchanged(text.raw().to_vec(), Shape::Json);
        }
        let edits = json::find(&self.canaries, text.raw(), MAX_NESTED_DOCUMENTS);
        self.finish(text.raw(), edits, Shape::Json)
    }

    /// Text, or bytes that nothing is known of. Behind the first `limit_bytes` the rest is left out, and the number of
    /// bytes told in its place; what would be cut in the middle of a secret is replaced before.
    #[must_use]
    pub fn text(&self, bytes: &[u8], limit_bytes: usize) -> Sanitised {
        let mut sanitised = if pass::text(&self.canaries, bytes) {
            Sanitised::unchanged(bytes.to_vec(), Shape::Bytes)
        } else {
            let edits = text::find(&self.canaries, bytes);
            self.finish(bytes, edits, Shape::Bytes)
        };
        let whole = sanitised.bytes.len();
        if whole > limit_bytes {
            sanitised.bytes.truncate(limit_bytes);
            sanitised.bytes.extend_from_slice(format!("[{} bytes omitted]", whole - limit_bytes).as_bytes());
        }
        sanitised
    }

    /// The first `limit_bytes` of text of which no more than the beginning is there. A secret is replaced as a whole wherever
    /// it begins in them, as long as `bytes` has [`hold_back_bytes`](Self::hold_back_bytes) more than the limit, or all.
    #[must_use]
    pub fn beginning(&self, bytes: &[u8], limit_bytes: usize) -> Sanitised {
        let limit = limit_bytes.min(bytes.len());
        let mut edits = text::find(&self.canaries, bytes);
        edits.retain(|edit| edit.start < limit);
        let end = edits.iter().map(|edit| edit.end).fold(limit, usize::max);
        self.finish(&bytes[..end], edits, Shape::Bytes)
    }

    /// How far behind its beginning a secret shows that it is one: 16 KiB, or 36 times the longest canary (of which 4 KiB
    /// count).
    #[must_use]
    pub fn hold_back_bytes(&self) -> usize {
        stream::MIN_HELD_BYTES.max(self.canaries.longest_spelling_bytes())
    }

    /// A value of ours, in canonical form.
    ///
    /// # Errors
    /// [`CanonError`] if it has no canonical form.
    pub fn value<T: Serialize + ?Sized>(&self, value: &T) -> Result<Sanitised, CanonError> {
        let canonical = to_canonical(value)?;
        if pass::json(&self.canaries, &canonical) {
            return Ok(Sanitised { is_canonical: true, ..Sanitised::unchanged(canonical, Shape::Json) });
        }
        let edits = json::find(&self.canaries, &canonical, MAX_NESTED_DOCUMENTS);
        let mut sanitised = self.finish(&canonical, edits, Shape::Json);
        if !sanitised.redactions.is_empty() {
            // A replaced member name stands in the wrong place.
            sanitised.bytes = pintle_wire::canonicalize_bytes(&sanitised.bytes)?;
        }
        sanitised.is_canonical = true;
        Ok(sanitised)
    }

    fn finish(&self, raw: &[u8], edits: Vec<Edit>, shape: Shape) -> Sanitised {
        let mut redactions = Redactions::default();
        let bytes = apply(raw, edits, &mut redactions);
        // What was replaced may have put a secret together, or made two member names equal.
        let is_safe = self.canaries.find(&bytes).is_empty();
        let is_whole = shape == Shape::Bytes || redactions.is_empty() || is_json(&bytes);
        if is_safe && is_whole {
            return Sanitised { bytes, shape, is_canonical: false, redactions };
        }
        redactions.count(Rule::Canary);
        let marker = format!("{} {} bytes omitted", Rule::Canary.marker(), raw.len());
        let bytes = if shape == Shape::Json { format!("\"{marker}\"") } else { marker }.into_bytes();
        Sanitised { bytes, shape, is_canonical: false, redactions }
    }
}

fn is_json(bytes: &[u8]) -> bool {
    scan(bytes, Profile::Acp, ScanLimits { max_bytes: usize::MAX, max_depth: MAX_DEPTH }).is_ok()
}

/// Bytes to be replaced by a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    start: usize,
    end: usize,
    rule: Rule,
    /// What stands there afterwards.
    with: Vec<u8>,
    /// What the secret would go on with behind the last byte that was looked at.
    run: Run,
}

impl Edit {
    fn new(start: usize, end: usize, rule: Rule) -> Self {
        Self { start, end, rule, with: rule.marker().into_bytes(), run: Run::None }
    }

    fn running(self, run: Run) -> Self {
        Self { run, ..self }
    }

    /// Replaces a whole JSON value.
    fn value(start: usize, end: usize, rule: Rule) -> Self {
        Self { start, end, rule, with: format!("\"{}\"", rule.marker()).into_bytes(), run: Run::None }
    }
}

/// Applies edits, of which the outer wins over the inner, and of two that overlap the earlier over the later, whose rest
/// it takes along.
fn apply(bytes: &[u8], mut edits: Vec<Edit>, redactions: &mut Redactions) -> Vec<u8> {
    edits.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for edit in edits {
        if edit.start >= at {
            out.extend_from_slice(&bytes[at..edit.start]);
            out.extend_from_slice(&edit.with);
            redactions.count(edit.rule);
        } else if edit.end > at {
            redactions.count(edit.rule);
        }
        at = at.max(edit.end);
    }
    out.extend_from_slice(&bytes[at..]);
    out
}

/// Tells the tests how many bytes were looked at, so that they can hold it to a multiple of the input.
#[cfg(test)]
fn count_work(bytes: usize) {
    tests::WORK.with(|work| work.set(work.get() + bytes as u64));
}

#[cfg(not(test))]
const fn count_work(_bytes: usize) {}

#[cfg(test)]
mod tests;
