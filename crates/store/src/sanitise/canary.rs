//! Values that are known to be secret, in every form that they are likely to take.

use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};

use super::{Edit, MIN_CANARY_BYTES, Rule, view::View};

/// How many readings are laid over each other: percent escapes in an escaped string in a string, say.
const MAX_READINGS: u32 = 3;

/// The canaries of a sanitiser. `Debug` shows how many there are.
#[derive(Default)]
pub(super) struct Canaries {
    /// Finds canaries as they are, and in base64 and hexadecimal.
    needles: Option<AhoCorasick>,
    forms: Vec<Form>,
    count: usize,
    ignored: usize,
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
    pub(super) fn new<C: AsRef<[u8]>>(canaries: impl IntoIterator<Item = C>) -> Self {
        let mut built = Self::default();
        let mut needles: Vec<Vec<u8>> = Vec::new();
        for canary in canaries {
            let canary = canary.as_ref();
            if canary.len() < MIN_CANARY_BYTES || is_part_of_a_marker(canary) {
                built.ignored += usize::from(!canary.is_empty());
                continue;
            }
            built.count += 1;
            let mut add = |needle: Vec<u8>, form: Form| {
                needles.push(needle);
                built.forms.push(form);
            };
            add(canary.to_vec(), Form::Plain);
            base64_cores(canary).into_iter().for_each(|core| add(core, Form::Base64));
            let hex = canary.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            add(hex.to_ascii_uppercase().into_bytes(), Form::Hex);
            add(hex.into_bytes(), Form::Hex);
        }
        if !needles.is_empty() {
            // It fails only for more needles than a 32-bit number counts, which no caller can pass.
            built.needles = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&needles).ok();
        }
        built
    }

    pub(super) fn ignored(&self) -> usize {
        self.ignored
    }

    /// Every canary in `bytes`, in whatever form.
    pub(super) fn find(&self, bytes: &[u8]) -> Vec<Edit> {
        let mut edits = Vec::new();
        if self.needles.is_some() {
            self.look(bytes, MAX_READINGS, &mut edits);
        }
        edits
    }

    fn look(&self, bytes: &[u8], readings: u32, edits: &mut Vec<Edit>) {
        let Some(needles) = &self.needles else { return };
        for found in needles.find_iter(bytes) {
            let (start, end) = match self.forms.get(found.pattern().as_usize()) {
                Some(Form::Base64) => whole_run(bytes, found.start(), found.end(), is_base64),
                Some(Form::Hex) => whole_run(bytes, found.start(), found.end(), |byte| byte.is_ascii_hexdigit()),
                Some(Form::Plain) | None => (found.start(), found.end()),
            };
            edits.push(Edit::new(start, end, Rule::Canary));
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

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// The run of such bytes around `start..end`: the rest of an encoded text is as secret as its middle.
fn whole_run(bytes: &[u8], start: usize, end: usize, belongs: impl Fn(u8) -> bool) -> (usize, usize) {
    let before = bytes[..start].iter().rev().take_while(|byte| belongs(**byte)).count();
    let after = bytes[end..].iter().take_while(|byte| belongs(**byte)).count();
    (start - before, end + after)
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
            let canaries = Canaries::new([&canary]);
            let whole = [before, canary, after].concat();
            for engine in [&base64::engine::general_purpose::STANDARD, &base64::engine::general_purpose::URL_SAFE] {
                let encoded = engine.encode(&whole);
                let found = canaries.find(encoded.as_bytes());
                prop_assert!(found.iter().any(|edit| (edit.start, edit.end) == (0, encoded.len())), "{encoded}");
            }
        }
    }
}
