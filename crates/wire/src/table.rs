//! Requests that wait for an answer, bounded, with deadlines as data.

use std::collections::{BTreeMap, BTreeSet};

/// Why a request could not be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TableError {
    /// As many requests wait as may.
    #[error("{max_entries} requests are in flight already")]
    Full {
        /// The bound.
        max_entries: usize,
    },
    /// A request with this key waits already.
    #[error("a request with this id is in flight already")]
    Duplicate,
}

/// Requests in flight by key, each with what the caller wants to remember and perhaps a deadline.
///
/// Time is an argument and of any ordered type: the table reads no clock. An entry leaves in exactly one of three ways:
/// [`remove`](Self::remove), [`expire`](Self::expire) or [`drain`](Self::drain). Every operation is O(log n).
#[derive(Debug, Clone)]
pub struct RequestTable<K, V, T> {
    max_entries: usize,
    entries: BTreeMap<K, Entry<V, T>>,
    deadlines: BTreeSet<(T, K)>,
}

#[derive(Debug, Clone)]
struct Entry<V, T> {
    value: V,
    deadline: Option<T>,
}

impl<K: Ord + Clone, V, T: Ord + Copy> RequestTable<K, V, T> {
    /// An empty table that holds at most `max_entries` requests.
    pub const fn new(max_entries: usize) -> Self {
        Self { max_entries, entries: BTreeMap::new(), deadlines: BTreeSet::new() }
    }

    /// Enters a request. Without a deadline it waits until it is removed or drained.
    ///
    /// # Errors
    ///
    /// [`TableError`]; the table is then unchanged. A duplicate is told before a full table.
    pub fn insert(&mut self, key: K, value: V, deadline: Option<T>) -> Result<(), TableError> {
        if self.entries.contains_key(&key) {
            return Err(TableError::Duplicate);
        }
        if self.entries.len() >= self.max_entries {
            return Err(TableError::Full { max_entries: self.max_entries });
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, key.clone()));
        }
        self.entries.insert(key, Entry { value, deadline });
        Ok(())
    }

    /// Takes a request out, as its answer has come or its caller has given up.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (key, entry) = self.entries.remove_entry(key)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, key));
        }
        Some(entry.value)
    }

    /// What is remembered of a request.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// What is remembered of a request, to change it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Whether a request with this key waits.
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Gives a waiting request another deadline, or none. False when no such request waits.
    pub fn set_deadline(&mut self, key: &K, deadline: Option<T>) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        if let Some(old) = std::mem::replace(&mut entry.deadline, deadline) {
            self.deadlines.remove(&(old, key.clone()));
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, key.clone()));
        }
        true
    }

    /// The earliest deadline: when [`expire`](Self::expire) next has something to give.
    pub fn next_deadline(&self) -> Option<T> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out every request whose deadline is `now` or before, earliest first, then by key.
    pub fn expire(&mut self, now: T) -> Vec<(K, V)> {
        let mut expired = Vec::new();
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            let Some((_, key)) = self.deadlines.pop_first() else { break };
            if let Some((key, entry)) = self.entries.remove_entry(&key) {
                expired.push((key, entry.value));
            }
        }
        expired
    }

    /// Takes out every request, in the order of the keys: the peer is gone.
    pub fn drain(&mut self) -> Vec<(K, V)> {
        self.deadlines.clear();
        std::mem::take(&mut self.entries).into_iter().map(|(key, entry)| (key, entry.value)).collect()
    }

    /// The requests that wait, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Number of requests that wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bound.
    pub fn max_entries(&self) -> usize {
        self.max_entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_a_duplicate_changes_nothing() {
        let mut table = RequestTable::new(2);
        assert_eq!(table.insert(1, "a", Some(10)), Ok(()));
        assert_eq!(table.insert(1, "b", Some(5)), Err(TableError::Duplicate));
        assert_eq!(table.insert(2, "c", None), Ok(()));
        assert_eq!(table.insert(2, "d", None), Err(TableError::Duplicate));
        assert_eq!(table.insert(3, "e", None), Err(TableError::Full { max_entries: 2 }));
        assert_eq!((table.next_deadline(), table.get(&1), table.len()), (Some(10), Some(&"a"), 2));
        assert_eq!(table.remove(&1), Some("a"));
        assert_eq!((table.next_deadline(), table.remove(&1)), (None, None));
        assert_eq!(table.insert(3, "e", None), Ok(()));
    }

    #[test]
    fn deadlines_come_in_order_and_once() {
        let mut table = RequestTable::new(9);
        for (key, deadline) in [(1, Some(30)), (2, Some(10)), (3, Some(20)), (4, None), (5, Some(10))] {
            assert_eq!(table.insert(key, (), deadline), Ok(()));
        }
        assert!(table.expire(9).is_empty());
        assert_eq!(table.expire(20), [(2, ()), (5, ()), (3, ())]);
        assert!(table.set_deadline(&4, Some(25)));
        assert!(table.set_deadline(&1, None));
        assert_eq!(table.next_deadline(), Some(25));
        assert_eq!(table.drain(), [(1, ()), (4, ())]);
        assert_eq!((table.next_deadline(), table.is_empty()), (None, true));
    }
}
