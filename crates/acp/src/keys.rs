//! Maps by keys that this side numbers itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by keys that count up: requests, sessions and turns as the connection names them.
///
/// No peer can choose such a key, so none can make them collide, and a multiplication spreads them well enough. What a peer
/// chooses, such as an id on the wire, must not be a key here.
pub(crate) type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, number: u64) {
        // The golden ratio: what counts up lands far apart, in the upper bits too, of which a table takes some.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    use super::*;

    /// Keys that count up spread over the low bits, which choose the place, and the top ones, which tell neighbours apart.
    #[test]
    fn keys_that_count_up_spread() {
        #[derive(Hash)]
        struct Turn(u64, u64);

        let hasher = BuildHasherDefault::<KeyHasher>::default();
        for hashes in [
            (0..1024_u64).map(|key| hasher.hash_one(key)).collect::<Vec<_>>(),
            (0..1024_i64).map(|key| hasher.hash_one(-key)).collect(),
            (0..1024_u64).map(|key| hasher.hash_one(Turn(key % 32, key / 32))).collect(),
        ] {
            let places: HashSet<u64> = hashes.iter().map(|hash| hash % 2048).collect();
            let tops: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(places.len() > 700, "{} places", places.len());
            assert!(tops.len() > 100, "{} tops", tops.len());
        }
    }
}
