//! Seeded mutations: the same inputs in every run.

/// Pieces that are likely to matter somewhere.
const TOKENS: &[&str] = &[
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "\\udc00",
    "\\ud83d\\ude00",
    "\\u0000",
    "\\u0041",
    "\\/",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\r",
    "\r\n",
    "\t",
    " ",
    "-",
    "-0",
    "0",
    "01",
    "1",
    ".",
    ".5",
    "e",
    "E+",
    "1e400",
    "1e-400",
    "9007199254740993",
    "18446744073709551616",
    "true",
    "false",
    "null",
    "\"a\":1,",
    "\"a\":1,\"a\":2",
    "\"\\u0061\":",
    "\u{e9}",
    "\u{fb33}",
    "\u{1f600}",
    "\u{feff}",
    "\u{fffd}",
    "\"jsonrpc\":\"2.0\",",
    "\"id\":",
    "\"method\":\"m\"",
    "\"result\":",
    "\"error\":{}",
    "\"params\":[]",
];

/// Changes inputs by a generator that starts from a seed.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// A mutator whose inputs depend on `seed` alone.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    /// `input` with a few changes; `other` is what pieces are taken from.
    pub fn mutate(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(7) {
                0 => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
                1 => {
                    if at < bytes.len() {
                        bytes.remove(at);
                    }
                }
                2 => bytes.truncate(at),
                3 => {
                    let end = (at + self.below(24)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => {
                    let start = self.below(other.len() + 1);
                    let end = (start + self.below(48)).min(other.len());
                    bytes.splice(at..at, other[start..end].iter().copied());
                }
                5 => {
                    let end = (at + self.below(8)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let token = TOKENS[self.below(TOKENS.len())];
                    bytes.splice(at..at, token.bytes());
                }
            }
        }
        bytes
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % bound as u64) as usize
    }
}
