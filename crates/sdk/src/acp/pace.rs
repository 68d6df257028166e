//! When notifications leave: at once, but in a stream of them a moment later, together with those behind them.
//!
//! An agent that lets others run after each update would else cost a write, and its client a wake-up and a read, for each.
//! Whoever sends a few, or now and then, does not wait: a stream is what has been written one by one in quick succession for
//! some time. What somebody waits for, a request or an answer, is never held.

use std::time::{Duration, Instant};

/// Writes within this time of the one before are in quick succession.
const QUICK: Duration = Duration::from_micros(20);
/// So many of them make a stream.
const STREAM_WRITES: u8 = 16;
/// Held at most.
const HELD_BYTES: usize = 32 * 1024;
/// Held for at most so long, if the runtime lets the loop look in time.
const HELD_FOR: Duration = Duration::from_micros(200);
/// Looks without anything new after which a stream has paused. Two, since a sender that is woken with the loop may come
/// behind it.
const QUIET_LOOKS: u8 = 2;

/// Whether what waits to be written is held.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last_write: Option<Instant>,
    quick_writes: u8,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    bytes: usize,
    quiet_looks: u8,
}

impl Pace {
    /// Looks at `bytes` of notifications that wait to be written: true if they may go on waiting, up to another look that
    /// is due when the runtime has let others run. `is_new_look` where that has happened since the last call.
    pub(crate) fn holds(&mut self, now: Instant, bytes: usize, is_new_look: bool) -> bool {
        if bytes >= HELD_BYTES {
            self.held = None;
            return false;
        }
        let Some(held) = &mut self.held else {
            let is_stream = self.quick_writes >= STREAM_WRITES && self.is_quick(now);
            if is_stream {
                self.held = Some(Held { since: now, bytes, quiet_looks: 0 });
            }
            return is_stream;
        };
        if bytes != held.bytes {
            held.bytes = bytes;
            held.quiet_looks = 0;
        } else if is_new_look {
            held.quiet_looks += 1;
        }
        let has_paused = held.quiet_looks >= QUIET_LOOKS;
        if has_paused || now.duration_since(held.since) >= HELD_FOR {
            self.held = None;
            self.quick_writes = if has_paused { 0 } else { self.quick_writes };
            return false;
        }
        true
    }

    /// Something was written.
    pub(crate) fn wrote(&mut self, now: Instant) {
        self.quick_writes = if self.is_quick(now) { self.quick_writes.saturating_add(1) } else { 0 };
        self.last_write = Some(now);
        self.held = None;
    }

    /// Something is held, so that another look is due.
    pub(crate) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// What is held leaves, whatever it is.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }

    fn is_quick(&self, now: Instant) -> bool {
        self.last_write.is_some_and(|last| now.duration_since(last) < QUICK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATE_BYTES: usize = 200;

    /// A pace after so many writes of one update each, every microsecond, and the time.
    fn after(writes: u8) -> (Pace, Instant) {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..writes {
            now += Duration::from_micros(1);
            pace.wrote(now);
        }
        (pace, now)
    }

    #[test]
    fn a_lone_update_leaves_at_once() {
        assert!(!Pace::default().holds(Instant::now(), UPDATE_BYTES, true));
        let (mut pace, now) = after(STREAM_WRITES);
        assert!(!pace.holds(now, UPDATE_BYTES, true), "a few in quick succession are no stream");
        let (mut pace, now) = after(STREAM_WRITES + 1);
        assert!(!pace.holds(now + QUICK, UPDATE_BYTES, true), "after a pause it is a lone one");
        assert!(!pace.is_holding());
    }

    #[test]
    fn a_stream_is_held_while_it_goes_on() {
        let (mut pace, now) = after(STREAM_WRITES + 1);
        for updates in 1..=HELD_BYTES / UPDATE_BYTES {
            assert!(pace.holds(now, updates * UPDATE_BYTES, true));
            assert!(pace.holds(now, updates * UPDATE_BYTES, true), "the sender may come behind the loop");
        }
        assert!(!pace.holds(now, HELD_BYTES, true), "up to so many bytes");
        pace.wrote(now);
        assert!(pace.holds(now, UPDATE_BYTES, true), "the next are held at once");
        assert!(!pace.holds(now + HELD_FOR, 2 * UPDATE_BYTES, true), "up to so long");
    }

    #[test]
    fn a_pause_lets_it_go() {
        let (mut pace, now) = after(STREAM_WRITES + 1);
        assert!(pace.holds(now, UPDATE_BYTES, true));
        assert!(pace.holds(now, UPDATE_BYTES, true));
        assert!(pace.holds(now, UPDATE_BYTES, false), "nobody else has run in between");
        assert!(!pace.holds(now, UPDATE_BYTES, true));
        pace.wrote(now);
        assert!(!pace.holds(now, UPDATE_BYTES, true), "and it takes some more to be a stream again");
    }
}
