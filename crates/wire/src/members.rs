//! Where the members of a text's root object stand, noted while it is scanned.

use std::ops::Range;

/// Most members that are noted: a request has four, and whoever has more is read once more.
const MAX_MEMBERS: usize = 6;
/// Set in [`Member::name_end`] when the name has escapes.
const ESCAPED: u32 = 1 << 31;

/// One member: offsets into the text, which is shorter than 2 GiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Member {
    /// Of the opening quote of the name.
    name_start: u32,
    /// Behind the closing quote, with [`ESCAPED`].
    name_end: u32,
    value_start: u32,
    value_end: u32,
}

impl Member {
    /// The name without its quotes, as it is spelled.
    pub(crate) fn name(&self) -> Range<usize> {
        self.name_start as usize + 1..(self.name_end & !ESCAPED) as usize - 1
    }

    /// Whether the name has escapes.
    pub(crate) fn is_escaped(&self) -> bool {
        self.name_end & ESCAPED != 0
    }

    /// The value.
    pub(crate) fn value(&self) -> Range<usize> {
        self.value_start as usize..self.value_end as usize
    }
}

/// The members of one object, in their order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Members {
    members: [Member; MAX_MEMBERS],
    count: u32,
}

impl Members {
    /// A value starts at `value`, under the name that stands from `name` to `name_end`.
    #[inline]
    pub(crate) fn begin(&mut self, name: usize, name_end: usize, escaped: bool, value: usize) {
        if let Some(member) = self.members.get_mut(self.count as usize) {
            let escaped = if escaped { ESCAPED } else { 0 };
            *member = Member {
                name_start: name as u32,
                name_end: name_end as u32 | escaped,
                value_start: value as u32,
                value_end: value as u32,
            };
        }
        self.count = self.count.saturating_add(1);
    }

    /// The last value ends at `at`. The items of a root that is a list have no name and are not noted.
    #[inline]
    pub(crate) fn end(&mut self, at: usize) {
        if let Some(member) = self.members.get_mut((self.count as usize).wrapping_sub(1)) {
            member.value_end = at as u32;
        }
    }

    /// All of them; `None` if there are more than are noted.
    pub(crate) fn all(&self) -> Option<&[Member]> {
        self.members.get(..self.count as usize)
    }
}
