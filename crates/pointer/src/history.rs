//! The ring of published states (A10): `history.ndjson`, one state per line, oldest first.
//!
//! A ring to its readers; the file is appended to and written anew when it has grown, which costs a publish microseconds
//! where a replace each time would cost it a tenth of a millisecond.

use crate::ids::SessionId;
use crate::state::{Observed, State};

/// How many published states are kept.
pub const HISTORY_MAX_ENTRIES: usize = 20;
/// From this length on a history is written anew instead of appended to.
pub const HISTORY_REWRITE_BYTES: usize = 128 * 1024;
/// The largest history that is read; a longer file is not ours. An entry has at most 50 KiB.
pub const HISTORY_MAX_BYTES: usize = HISTORY_REWRITE_BYTES + (HISTORY_MAX_ENTRIES + 1) * 51 * 1024;

/// Reads a history. Lines that are no valid state of the session are left out: the file is written without waiting for
/// the disk, so its end may be torn.
pub fn decode_history(bytes: &[u8], session: &SessionId) -> Vec<State> {
    let states = bytes.split(|byte| *byte == b'\n').filter_map(|line| match Observed::decode(line, session) {
        Observed::Current(state) => Some(state),
        _ => None,
    });
    let mut states: Vec<State> = states.collect();
    states.drain(..states.len().saturating_sub(HISTORY_MAX_ENTRIES));
    states
}

/// The bytes to append for `state`. They begin with an LF of their own, so that an end that a crash has torn spoils no
/// line but itself.
pub fn history_entry(state: &State) -> Vec<u8> {
    format!("\n{}\n", one_line(state)).into_bytes()
}

/// The history with `state` at its end and the oldest dropped, to write anew.
pub fn rewrite_history(bytes: &[u8], session: &SessionId, state: &State) -> Vec<u8> {
    let mut states = decode_history(bytes, session);
    states.push(state.clone());
    let kept = states.len().saturating_sub(HISTORY_MAX_ENTRIES);
    let mut out = Vec::with_capacity(bytes.len() + 1024);
    for state in &states[kept..] {
        out.extend_from_slice(one_line(state).as_bytes());
        out.push(b'\n');
    }
    out
}

/// Line ends and indentation stand only between members: a string never holds a bare LF.
fn one_line(state: &State) -> String {
    let bytes = state.to_bytes();
    String::from_utf8_lossy(&bytes).lines().map(str::trim_start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generation, Pointer, PointerText, Revision, Task, TaskId, Timestamp};

    fn state(revision: u64) -> State {
        State {
            session_id: "s".parse().expect("id"),
            generation: Generation::from_random([1; 16]),
            revision: Revision::new(revision).expect("legal"),
            pointer: Pointer::Clean(Task {
                id: TaskId::from_random([2; 16]),
                text: PointerText::publish("  goal\n  next: \"x\"\t").expect("legal"),
            }),
            updated_at: Timestamp::clamped(0),
        }
    }

    /// A10: the last twenty, oldest first.
    #[test]
    fn the_ring_keeps_the_last_twenty() {
        let session = state(1).session_id;
        let mut bytes = Vec::new();
        for revision in 1..=25 {
            bytes = rewrite_history(&bytes, &session, &state(revision));
        }
        let kept = decode_history(&bytes, &session);
        assert_eq!(kept, (6..=25).map(state).collect::<Vec<_>>());
    }

    #[test]
    fn a_torn_end_is_left_out() {
        let session = state(1).session_id;
        let mut bytes = rewrite_history(&[], &session, &state(1));
        bytes.extend(history_entry(&state(2)));
        bytes.truncate(bytes.len() - 5);
        assert_eq!(decode_history(&bytes, &session), vec![state(1)]);
        bytes.extend(history_entry(&state(3)));
        assert_eq!(decode_history(&bytes, &session), vec![state(1), state(3)]);
    }
}
