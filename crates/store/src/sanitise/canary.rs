//! Values that are known to be secret, in every form that they are likely to take.

use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{Edit, Rule, Run, count_work, view::View};

/// The shortest canary that is looked for wherever it stands.
pub const MIN_CANARY_BYTES: usize = 8;
/// The shortest secret that is looked for as a whole word.
pub const MIN_SECRET_BYTES: usize = 4;
/// The fewest different bytes of a canary.
pub const MIN_DISTINCT_BYTES: usize = 4;

/// A longer canary is looked for in pieces of this size, so that what a stream must hold back is bounded.
const MAX_NEEDLE_BYTES: usize = 4096;
/// How many readings are laid over each other: percent escapes in an escaped string in a string, say.
const MAX_READINGS: u32 = 3;
/// The most bytes that one byte of a canary is spelled with, for what a stream holds back: `\u0025` and two escaped digits.
const MAX_SPELLING_BYTES: usize = 36;

/// The most that [`Sanitiser::hold_back_bytes`](super::Sanitiser::hold_back_bytes) can be.
pub const MAX_HOLD_BACK_BYTES: usize = MAX_NEEDLE_BYTES * MAX_SPELLING_BYTES;

/// A value that must not be kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Canary {
    value: Vec<u8>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Secret,
    Setting,
}

/// Why a canary is not looked for: it would match by chance and destroy evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// It has fewer than [`MIN_CANARY_BYTES`], and is not a secret of [`MIN_SECRET_BYTES`] with two kinds of characters.
    TooShort,
    /// It has fewer than [`MIN_DISTINCT_BYTES`] different bytes.
    TooUniform,
    /// It is a setting that is a lower-case identifier or path, such as `production`, `session/update` or `/usr/bin`.
    PlainWord,
    /// It is a part of what replaces secrets.
    Marker,
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "it is too short",
            Self::TooUniform => "it has too few different characters",
            Self::PlainWord => "it is a plain word",
            Self::Marker => "it is a part of the marker that replaces secrets",
        })
    }
}

impl Canary {
    /// A value that somebody says is secret, or that the name of its variable says so of.
    pub fn secret(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), kind: Kind::Secret }
    }

    /// A value that may be secret, such as that of any variable which was handed to an agent.
    pub fn setting(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), kind: Kind::Setting }
    }

    /// Why it is not looked for; `None` if it is. An empty one has nothing to hide.
    #[must_use]
    pub fn weakness(&self) -> Option<Weakness> {
        let value = self.value.as_slice();
        let mut seen = [false; 256];
        value.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
        let kinds = [
            has(u8::is_ascii_lowercase),
            has(u8::is_ascii_uppercase),
            has(u8::is_ascii_digit),
            has(|byte| !byte.is_ascii_alphanumeric()),
        ];
        let mixed = kinds.iter().filter(|is| **is).count() >= 2;
        let long_enough =
            value.len() >= MIN_CANARY_BYTES || (self.kind == Kind::Secret && value.len() >= MIN_SECRET_BYTES && mixed);
        if value.is_empty() {
            None
        } else if !long_enough {
            Some(Weakness::TooShort)
        } else if seen.iter().filter(|is| **is).count() < MIN_DISTINCT_BYTES {
            Some(Weakness::TooUniform)
        } else if self.kind == Kind::Setting && is_plain(value) {
            Some(Weakness::PlainWord)
        } else if is_part_of_a_marker(value) {
            Some(Weakness::Marker)
        } else {
            None
        }
    }
}

/// Lower-case letters and underscores, or lower-case parts between slashes.
fn is_plain(value: &[u8]) -> bool {
    let is_path = value.contains(&b'/');
    value
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || *byte == b'_' || is_path && matches!(byte, b'/' | b'.' | b':' | b'-'))
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canary([redacted] {:?})", self.kind)
    }
}

/// The canaries of a sanitiser. `Debug` shows how many there are.
#[derive(Default)]
pub(super) struct Canaries {
    /// Finds canaries as they are, and in base64 and hexadecimal.
    needles: Option<AhoCorasick>,
    forms: Vec<Form>,
    /// Tells most texts apart from those that have one of the needles in them.
    grams: Grams,
    /// Finds short ones, which count only as whole words.
    words: Option<AhoCorasick>,
    count: usize,
    ignored: usize,
    longest: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Base64,
    Hex,
}

impl fmt::Debug for Canaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canaries").field("count", &self.count).field("ignored", &self.ignored).finish()
    }
}

impl Canaries {
    pub(super) fn new(canaries: impl IntoIterator<Item = Canary>) -> Self {
        let mut built = Self::default();
        let (mut needles, mut words): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
        for canary in canaries {
            if canary.weakness().is_some() {
                built.ignored += 1;
                continue;
            }
            if canary.value.is_empty() {
                continue;
            }
            built.count += 1;
            built.longest = built.longest.max(canary.value.len().min(MAX_NEEDLE_BYTES));
            if canary.value.len() < MIN_CANARY_BYTES {
                words.push(canary.value);
                continue;
            }
            for piece in pieces(&canary.value) {
                let mut add = |needle: Vec<u8>, form: Form| {
                    needles.push(needle);
                    built.forms.push(form);
                };
                add(piece.to_vec(), Form::Plain);
                base64_cores(piece).into_iter().for_each(|core| add(core, Form::Base64));
                let hex = piece.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                add(hex.to_ascii_uppercase().into_bytes(), Form::Hex);
                add(hex.into_bytes(), Form::Hex);
            }
        }
        // Building fails only for more needles than a 32-bit number counts, which no caller can pass.
        let build = |needles: &[Vec<u8>]| {
            let some = (!needles.is_empty()).then_some(needles)?;
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(some).ok()
        };
        built.grams = Grams::of(&needles);
        built.needles = build(&needles);
        built.words = build(&words);
        built
    }

    pub(super) fn ignored(&self) -> usize {
        self.ignored
    }

    /// How many bytes the longest spelling of a canary may take.
    pub(super) fn longest_spelling_bytes(&self) -> usize {
        self.longest * MAX_SPELLING_BYTES
    }

    /// Every canary in `bytes`, in whatever form.
    pub(super) fn find(&self, bytes: &[u8]) -> Vec<Edit> {
        let mut edits = Vec::new();
        if self.count > 0 {
            self.look(bytes, MAX_READINGS, &mut edits);
        }
        edits
    }

    /// Whether a canary may stand in `bytes` as they are, in base64 or in hexadecimal. Other readings of them are not made.
    pub(super) fn may_stand_in(&self, bytes: &[u8]) -> bool {
        self.words.as_ref().is_some_and(|words| words.is_match(bytes))
            || self.grams.may_stand_in(bytes) && self.needles.as_ref().is_some_and(|needles| needles.is_match(bytes))
    }

    fn look(&self, bytes: &[u8], readings: u32, edits: &mut Vec<Edit>) {
        count_work(bytes.len());
        self.look_for_needles(bytes, edits);
        for found in self.words.iter().flat_map(|words| words.find_iter(bytes)) {
            if is_a_word(bytes, found.start(), found.end()) {
                edits.push(Edit::new(found.start(), found.end(), Rule::Canary));
            }
        }
        if readings == 0 {
            return;
        }
        for view in [View::percent(bytes), View::backslash(bytes)].into_iter().flatten() {
            let mut inner = Vec::new();
            self.look(&view.bytes, readings - 1, &mut inner);
            edits.extend(inner.into_iter().map(|mut edit| {
                (edit.start, edit.end) = view.raw(edit.start, edit.end);
                edit
            }));
        }
    }

    fn look_for_needles(&self, bytes: &[u8], edits: &mut Vec<Edit>) {
        let Some(needles) = &self.needles else { return };
        // A run that was replaced whole is not walked through again for the next canary in it.
        let mut done = 0;
        for found in needles.find_iter(bytes) {
            if found.end() <= done {
                continue;
            }
            let run = match self.forms.get(found.pattern().as_usize()) {
                Some(Form::Base64) => Run::Base64,
                Some(Form::Hex) => Run::Hex,
                Some(Form::Plain) | None => Run::None,
            };
            let start = run.start(&bytes[done.min(found.start())..found.start()]) + done.min(found.start());
            let end = run.end(bytes, found.end());
            edits.push(Edit::new(start, end, Rule::Canary).running(run));
            done = end;
        }
    }
}

/// The first pieces of the needles, four bytes each, as a set of bits by their hash.
///
/// No needle is shorter than [`MIN_CANARY_BYTES`]; so of the four bytes that begin at every fifth place of a text, some lie
/// within the first eight bytes of any needle there.
#[derive(Default)]
struct Grams(Vec<u64>);

impl Grams {
    const BYTES: usize = 4;
    const STEP: usize = MIN_CANARY_BYTES - Self::BYTES + 1;
    const BITS: u32 = 16;

    fn of(needles: &[Vec<u8>]) -> Self {
        let mut bits = vec![0; if needles.is_empty() { 0 } else { 1 << (Self::BITS - 6) }];
        for gram in needles.iter().flat_map(|needle| needle[..MIN_CANARY_BYTES].windows(Self::BYTES)) {
            let at = Self::hash(gram);
            bits[at / 64] |= 1 << (at % 64);
        }
        Self(bits)
    }

    fn may_stand_in(&self, bytes: &[u8]) -> bool {
        !self.0.is_empty()
            && bytes.windows(Self::BYTES).step_by(Self::STEP).any(|gram| {
                let at = Self::hash(gram);
                self.0[at / 64] >> (at % 64) & 1 == 1
            })
    }

    fn hash(gram: &[u8]) -> usize {
        let word = gram.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        (word.wrapping_mul(0x9e37_79b1) >> (32 - Self::BITS)) as usize
    }
}

/// Pieces of which none is shorter than a canary may be.
fn pieces(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let left_over = rest.len().saturating_sub(MAX_NEEDLE_BYTES);
        let take = match left_over {
            0 => rest.len(),
            short if short < MIN_CANARY_BYTES => rest.len() / 2,
            _ => MAX_NEEDLE_BYTES,
        };
        let (piece, more) = rest.split_at(take);
        rest = more;
        Some(piece)
    })
}

/// The base64 digits that a value leads to wherever it stands in a longer text: one core for each of the three positions
/// in a group of three bytes, without the digits that its neighbours have a part in; in both alphabets.
fn base64_cores(canary: &[u8]) -> Vec<Vec<u8>> {
    use base64::{
        Engine,
        engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
    };
    let mut cores = Vec::new();
    for before in 0..3 {
        let shifted = [&[0; 2][..before], canary].concat();
        // Digits that the bytes in front have a part in, and those behind the last whole group.
        let first = [0, 2, 3][before];
        let whole_bits = shifted.len() * 8;
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            let core = encoded.as_bytes()[first..whole_bits / 6].to_vec();
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
    }
    cores
}

/// Such a value would be found in what replaces it.
fn is_part_of_a_marker(canary: &[u8]) -> bool {
    Rule::ALL.iter().any(|rule| memchr::memmem::find(rule.marker().as_bytes(), canary).is_some())
}

fn is_a_word(bytes: &[u8], start: usize, end: usize) -> bool {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !start.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(belongs) && !bytes.get(end).is_some_and(belongs)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_canary_is_found_in_base64_at_every_position(
            before in prop::collection::vec(any::<u8>(), 0..9),
            canary in prop::collection::vec(any::<u8>(), MIN_CANARY_BYTES..40),
            after in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            prop_assume!(Canary::secret(canary.clone()).weakness().is_none());
            let canaries = Canaries::new([Canary::secret(canary.clone())]);
            let whole = [before, canary, after].concat();
            for engine in [&base64::engine::general_purpose::STANDARD, &base64::engine::general_purpose::URL_SAFE] {
                let encoded = engine.encode(&whole);
                let found = canaries.find(encoded.as_bytes());
                prop_assert!(found.iter().any(|edit| (edit.start, edit.end) == (0, encoded.len())), "{encoded}");
            }
        }
    }

    #[test]
    fn what_is_short_common_or_uniform_is_not_looked_for() {
        let weak = |canary: Canary| canary.weakness();
        for setting in ["1", "true", "en_US", "C.UTF-8"] {
            assert_eq!(weak(Canary::setting(setting)), Some(Weakness::TooShort), "{setting}");
        }
        for setting in ["production", "session/request_permission", "/usr/local/bin"] {
            assert_eq!(weak(Canary::setting(setting)), Some(Weakness::PlainWord), "{setting}");
            assert_eq!(weak(Canary::secret(setting)), None, "{setting}");
        }
        for secret in ["1", "true", "test", "1234", "a1"] {
            assert_eq!(weak(Canary::secret(secret)), Some(Weakness::TooShort), "{secret}");
        }
        for uniform in ["00000000", "1010101010"] {
            assert_eq!(weak(Canary::secret(uniform)), Some(Weakness::TooUniform), "{uniform}");
        }
        assert_eq!(weak(Canary::secret("redacted:canary")), Some(Weakness::Marker));
        for setting in ["en_US.UTF-8", "correct-horse-battery", "correct horse"] {
            assert_eq!(weak(Canary::setting(setting)), None, "{setting}");
        }
        for good in ["hunter2", "correct horse", "sk-live-1"] {
            assert_eq!(weak(Canary::secret(good)), None, "{good}");
        }
        assert_eq!(weak(Canary::secret("")), None);
        assert!(!format!("{:?}", Canary::secret("hunter2")).contains("hunter2"));
    }

    #[test]
    fn a_long_canary_is_looked_for_in_pieces_that_are_long_enough() {
        for len in [8, 4096, 4097, 4103, 4104, 9000] {
            let value: Vec<u8> = (0..len).map(|n| b'a' + (n % 23) as u8).collect();
            let lens: Vec<usize> = pieces(&value).map(<[u8]>::len).collect();
            assert_eq!(lens.iter().sum::<usize>(), len);
            assert!(lens.iter().all(|piece| (MIN_CANARY_BYTES..=MAX_NEEDLE_BYTES).contains(piece)), "{lens:?}");
        }
    }
}
