//! Duplicate member names, found without an allocation for ordinary objects and in O(n log n) for any.

use crate::lex::unescape_into;

/// Names that live in the scanner itself; more go to the heap.
const INLINE_NAMES: usize = 48;
/// Up to this many names of an object are compared one by one; beyond, they are sorted when the object closes.
const PAIRWISE_NAMES: usize = 16;
/// Set in [`Name::len`] when the name has escapes; the other bits are then its index in [`Names::unescaped`].
const UNESCAPED: u32 = 1 << 31;

/// A name: the offset of its body in the text, and its length. Also a marker that saves the state of the enclosing object.
#[derive(Debug, Clone, Copy, Default)]
struct Name {
    start: u32,
    len: u32,
}

/// The names of all objects that are open, innermost last.
///
/// Most objects that machines write have ascending names: then one comparison per name proves that none occurs twice. Others
/// are compared pairwise while they are small, and sorted at their end when they are not.
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
        let saved = Name { start: self.base as u32, len: u32::from(self.ascending) };
        self.push(saved);
        self.base = self.len;
        self.ascending = true;
    }

    /// The innermost object closes. Returns the offset of the first name that repeats an earlier one, if it was not found
    /// before.
    #[inline]
    pub(crate) fn close(&mut self, text: &str) -> Option<usize> {
        let duplicate =
            if !self.ascending && self.len - self.base > PAIRWISE_NAMES { self.sorted_duplicate(text) } else { None };
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
            unescape_into(&text[start..end], &mut self.arena);
            let index = self.unescaped.len() as u32;
            self.unescaped.push(self.arena.len() as u32);
            Name { start: start as u32, len: index | UNESCAPED }
        } else {
            Name { start: start as u32, len: (end - start) as u32 }
        };
        let count = self.len - self.base;
        if self.ascending && count > 0 {
            let previous = self.bytes(text, self.name(self.len - 1));
            match previous.cmp(self.bytes(text, name)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return false,
                std::cmp::Ordering::Greater => {
                    self.ascending = false;
                    self.all_ascending = false;
                }
            }
        }
        if !self.ascending && count < PAIRWISE_NAMES {
            let bytes = self.bytes(text, name);
            if (self.base..self.len).any(|index| self.bytes(text, self.name(index)) == bytes) {
                return false;
            }
        }
        self.push(name);
        true
    }

    fn sorted_duplicate(&self, text: &str) -> Option<usize> {
        let mut order: Vec<(u32, Name)> = (self.base..self.len).map(|index| (index as u32, self.name(index))).collect();
        order.sort_unstable_by(|a, b| self.bytes(text, a.1).cmp(self.bytes(text, b.1)).then(a.0.cmp(&b.0)));
        order
            .windows(2)
            .filter(|pair| self.bytes(text, pair[0].1) == self.bytes(text, pair[1].1))
            .map(|pair| pair[1].1.start as usize)
            .min()
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
