//! Duplicate member names, found without an allocation for ordinary objects and in O(n log n) for any.

use std::cmp::Ordering;

use crate::lex::unescape_into;

/// Names that live in the scanner itself; more go to the heap.
const INLINE_NAMES: usize = 24;
/// Up to this many names of an object are compared one by one; beyond, they are sorted when the object closes.
const PAIRWISE_NAMES: usize = 16;
/// Set in [`Name::len`] when the name has escapes; the other bits are then its index in [`Names::unescaped`].
const UNESCAPED: u32 = 1 << 31;

/// A name: its first bytes, the offset of its body in the text and its length. Also a marker that saves the state of the
/// enclosing object.
#[derive(Debug, Clone, Copy, Default)]
struct Name {
    /// The first 8 bytes after unescaping, zeros behind a shorter name; the first byte counts most.
    prefix: u64,
    start: u32,
    len: u32,
}

/// The names of all objects that are open, innermost last.
///
/// Most objects that machines write have ascending names: then one comparison per name proves that none occurs twice. Others
/// are compared pairwise while they are small, and sorted at their end when they are not. Nearly all comparisons are decided
/// by the first 8 bytes, which are at hand.
#[derive(Debug)]
pub(crate) struct Names {
    inline: [Name; INLINE_NAMES],
    heap: Vec<Name>,
    len: usize,
    /// Index of the first name of the innermost open object.
    base: usize,
    /// Whether the names of the innermost open object ascend strictly so far.
    ascending: bool,
    /// Unescaped spellings, one after another, of names that have escapes.
    arena: String,
    /// Where each of them ends in the arena.
    unescaped: Vec<u32>,
    /// Whether every object closed or open so far had ascending names.
    all_ascending: bool,
}

impl Names {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            inline: [Name::default(); INLINE_NAMES],
            heap: Vec::new(),
            len: 0,
            base: 0,
            ascending: true,
            arena: String::new(),
            unescaped: Vec::new(),
            all_ascending: true,
        }
    }

    /// Whether the names of every object ascended strictly in byte order.
    pub(crate) fn all_ascending(&self) -> bool {
        self.all_ascending
    }

    /// An object opens.
    #[inline]
    pub(crate) fn open(&mut self) {
        self.push(Name { prefix: 0, start: self.base as u32, len: u32::from(self.ascending) });
        self.base = self.len;
        self.ascending = true;
    }

    /// The innermost object closes. Returns the offset of the first name that repeats an earlier one, if it was not found
    /// before.
    #[inline]
    pub(crate) fn close(&mut self, text: &str) -> Option<usize> {
        let large = !self.ascending && self.len - self.base > PAIRWISE_NAMES;
        let duplicate = if large { self.sorted_duplicate(text) } else { None };
        let saved = self.name(self.base - 1);
        self.len = self.base - 1;
        if !self.heap.is_empty() {
            self.heap.truncate(self.len.saturating_sub(INLINE_NAMES));
        }
        self.base = saved.start as usize;
        self.ascending = saved.len != 0;
        duplicate
    }

    /// A name of the innermost object: the body between `start` and `end` of `text`. False when it is a duplicate (of a
    /// small object; a large one tells at its end).
    #[inline]
    pub(crate) fn add(&mut self, text: &str, start: usize, end: usize, escaped: bool) -> bool {
        let name = if escaped {
            self.unescape(text, start, end)
        } else {
            Name { prefix: prefix(text.as_bytes(), start, end - start), start: start as u32, len: (end - start) as u32 }
        };
        let count = self.len - self.base;
        if self.ascending && count > 0 {
            match self.order(text, self.name(self.len - 1), name) {
                Ordering::Less => {}
                Ordering::Equal => return false,
                Ordering::Greater => {
                    self.ascending = false;
                    self.all_ascending = false;
                }
            }
        }
        if !self.ascending && count < PAIRWISE_NAMES && self.repeats(text, name) {
            return false;
        }
        self.push(name);
        true
    }

    fn repeats(&self, text: &str, name: Name) -> bool {
        (self.base..self.len).any(|index| {
            let other = self.name(index);
            other.prefix == name.prefix && self.bytes(text, other) == self.bytes(text, name)
        })
    }

    #[cold]
    fn unescape(&mut self, text: &str, start: usize, end: usize) -> Name {
        let at = self.arena.len();
        unescape_into(&text[start..end], &mut self.arena);
        let prefix = prefix(self.arena.as_bytes(), at, self.arena.len() - at);
        let index = self.unescaped.len() as u32;
        self.unescaped.push(self.arena.len() as u32);
        Name { prefix, start: start as u32, len: index | UNESCAPED }
    }

    fn sorted_duplicate(&self, text: &str) -> Option<usize> {
        let mut names: Vec<Name> = (self.base..self.len).map(|index| self.name(index)).collect();
        names.sort_unstable_by(|a, b| self.order(text, *a, *b).then(a.start.cmp(&b.start)));
        names
            .windows(2)
            .filter(|pair| self.order(text, pair[0], pair[1]).is_eq())
            .map(|pair| pair[1].start as usize)
            .min()
    }

    #[inline]
    fn order(&self, text: &str, a: Name, b: Name) -> Ordering {
        match a.prefix.cmp(&b.prefix) {
            // Zeros are also what a name may begin with, so that only the bytes tell.
            Ordering::Equal => self.bytes(text, a).cmp(self.bytes(text, b)),
            order => order,
        }
    }

    #[inline]
    fn push(&mut self, name: Name) {
        match self.inline.get_mut(self.len) {
            Some(slot) => *slot = name,
            None => self.heap.push(name),
        }
        self.len += 1;
    }

    #[inline]
    fn name(&self, index: usize) -> Name {
        match self.inline.get(index) {
            Some(name) => *name,
            None => self.heap.get(index - INLINE_NAMES).copied().unwrap_or_default(),
        }
    }

    #[inline]
    fn bytes<'t>(&'t self, text: &'t str, name: Name) -> &'t [u8] {
        if name.len & UNESCAPED == 0 {
            return text.as_bytes().get(name.start as usize..(name.start + name.len) as usize).unwrap_or_default();
        }
        let index = (name.len & !UNESCAPED) as usize;
        let start = if index == 0 { 0 } else { self.unescaped[index - 1] as usize };
        self.arena.as_bytes().get(start..self.unescaped[index] as usize).unwrap_or_default()
    }
}

/// The first 8 of the `len` bytes at `start`, zeros behind fewer. Numbers that differ are ordered as the bytes are.
#[inline]
pub(crate) fn prefix(bytes: &[u8], start: usize, len: usize) -> u64 {
    let Some(rest) = bytes.get(start..) else { return 0 };
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_be_bytes(*word),
        // The last bytes of a text.
        None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)) << (8 * (8 - rest.len()) as u32 % 64),
    };
    if len >= 8 { word } else { word & !(u64::MAX >> (8 * len as u32)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_order_as_bytes_do_wherever_they_stand() {
        let words: [&[u8]; 9] = [b"", b"\0", b"a", b"a\0", b"ab", b"abcdefg", b"abcdefgh", b"abcdefghi", b"\xff"];
        for (index, a) in words.iter().enumerate() {
            for behind in [&b""[..], b"zzz", b"zzzzzzzzzz"] {
                let text = [b"12", *a, behind].concat();
                let padded: Vec<u8> = a.iter().copied().chain([0; 8]).take(8).collect();
                assert_eq!(prefix(&text, 2, a.len()).to_be_bytes()[..], padded, "{a:?} before {behind:?}");
            }
            for b in &words[index + 1..] {
                assert!(prefix(a, 0, a.len()) <= prefix(b, 0, b.len()), "{a:?} {b:?}");
            }
        }
        assert_eq!(prefix(b"", 0, 0), 0);
    }
}
