//! The time that counts against a peer.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::{task::yield_now, time::sleep};

/// The longest that one wait may count. Whoever waits with a deadline wakes at least that often, so a longer wait is one in
/// which this process did not run: it was stopped, or the machine had other work.
pub const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// A clock that only runs while its owner attends to a peer.
///
/// A peer is late when somebody has waited for it in vain, not when nobody has looked. So the clock stands while an application
/// handles what came (it redacts, it writes to a slow disk), and a wait counts no more than was asked for. Its moments are those
/// of [`Instant`] or before them: deadlines are made of [`now`](Self::now) and compared with it.
#[derive(Debug)]
pub struct FairClock {
    counted: Instant,
    /// Since when it runs.
    running: Option<Instant>,
    #[cfg(test)]
    skipped: Duration,
}

impl FairClock {
    /// A clock that stands at this moment.
    pub fn new() -> Self {
        Self {
            counted: Instant::now(),
            running: None,
            #[cfg(test)]
            skipped: Duration::ZERO,
        }
    }

    #[cfg(not(test))]
    fn wall(&self) -> Instant {
        Instant::now()
    }

    #[cfg(test)]
    fn wall(&self) -> Instant {
        Instant::now() + self.skipped
    }

    /// The time of the machine goes on.
    #[cfg(test)]
    pub(super) fn skip(&mut self, time: Duration) {
        self.skipped += time;
    }

    /// Its moment now.
    pub fn now(&self) -> Instant {
        self.counted + self.running.map_or(Duration::ZERO, |since| self.wall().saturating_duration_since(since))
    }

    /// Its owner does something else from now on.
    pub fn stand(&mut self) {
        self.counted = self.now();
        self.running = None;
    }

    /// Its owner attends to the peer from now on.
    pub fn attend(&mut self) {
        self.counted = self.now();
        self.running = Some(self.wall());
    }

    /// Its owner waits for the peer until the value is dropped; then the clock stands. `longest` is how long the wait can last
    /// if all goes well: what is above does not count.
    pub fn wait(&mut self, longest: Option<Duration>) -> Waiting<'_> {
        self.stand();
        let since = self.wall();
        Waiting { clock: self, since, longest }
    }

    /// How long to wait for a moment of this clock, [`LONGEST_WAIT`] at most.
    pub fn until(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since(self.now()).min(LONGEST_WAIT)
    }
}

impl Default for FairClock {
    fn default() -> Self {
        Self::new()
    }
}

/// A wait for the peer. It ends with the value, also where the future that holds it is dropped.
#[derive(Debug)]
pub struct Waiting<'a> {
    clock: &'a mut FairClock,
    since: Instant,
    longest: Option<Duration>,
}

impl Waiting<'_> {
    /// Ends when the wait has lasted as long as it may; what can be read until then is known to the runtime.
    pub async fn passed(&self) {
        match self.longest {
            Some(Duration::ZERO) => yield_now().await,
            Some(longest) => sleep(longest).await,
            None => pending().await,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.clock.wall().saturating_duration_since(self.since);
        self.clock.counted += self.longest.map_or(waited, |longest| waited.min(longest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// How far the clock goes while the machine's goes on by an hour, to a second.
    fn check(clock: &mut FairClock, what: impl FnOnce(&mut FairClock), expected: Duration) {
        let before = clock.now();
        what(clock);
        let passed = clock.now() - before;
        assert!(passed >= expected && passed < expected + HOUR / 2, "{passed:?} for {expected:?}");
    }

    #[test]
    fn only_waits_and_work_for_the_peer_count() {
        let mut clock = FairClock::new();
        check(&mut clock, |clock| clock.skip(HOUR), Duration::ZERO);
        check(&mut clock, |clock| clock.wait(None).clock.skip(HOUR), HOUR);
        check(&mut clock, |clock| clock.wait(Some(HOUR / 4)).clock.skip(HOUR), HOUR / 4);
        check(&mut clock, |clock| clock.skip(HOUR), Duration::ZERO);
        clock.attend();
        check(&mut clock, |clock| clock.skip(HOUR), HOUR);
        clock.stand();
        check(&mut clock, |clock| clock.skip(HOUR), Duration::ZERO);
    }

    #[test]
    fn a_wait_is_cut_into_pieces() {
        let clock = FairClock::new();
        let now = clock.now();
        assert_eq!(clock.until(now), Duration::ZERO);
        assert_eq!(clock.until(now + Duration::from_millis(9)), Duration::from_millis(9));
        assert_eq!(clock.until(now + Duration::from_secs(9)), LONGEST_WAIT);
    }
}
