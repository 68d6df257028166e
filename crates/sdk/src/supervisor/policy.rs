//! Whether and when an ended child is started again. No clock: time is an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// When an ended child is started again.
///
/// A connection has no such policy: it is never started again ([`ChildSpec::agent`](super::ChildSpec::agent)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restart {
    /// Always, however it ended.
    Permanent,
    /// Only after an error or a panic.
    Transient,
    /// Never.
    Temporary,
}

impl Restart {
    /// Whether a child with this policy is started again after an end that was `good` or not.
    #[must_use]
    pub const fn applies(self, good: bool) -> bool {
        match self {
            Self::Permanent => true,
            Self::Transient => !good,
            Self::Temporary => false,
        }
    }
}

/// The bounds of one supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Restarts, of all children together, that one [`period`](Self::period) may see. The next one makes the supervisor give
    /// up: it stops every child and ends. 5 by default.
    pub max_restarts: u32,
    /// The sliding window in which restarts are counted. A minute by default.
    pub period: Duration,
    /// How long a child waits before its first restart; doubled for each restart of the same child that the window still
    /// has. 100 ms by default.
    pub first_delay: Duration,
    /// The longest such wait. 10 s by default.
    pub longest_delay: Duration,
    /// How long a connection may take to be up: its transport opened, [`Agent::init`](crate::acp::Agent::init) returned.
    /// 30 s by default.
    pub start_timeout: Duration,
    /// Most children at once. 1,024 by default.
    pub max_children: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_restarts: 5,
            period: Duration::from_secs(60),
            first_delay: Duration::from_millis(100),
            longest_delay: Duration::from_secs(10),
            start_timeout: Duration::from_secs(30),
            max_children: 1024,
        }
    }
}

/// The restarts that the sliding window has: when, and of which child. Never more than `max_restarts`.
#[derive(Debug, Default)]
pub(super) struct Window(VecDeque<(Instant, u64)>);

impl Window {
    /// Counts a restart of `child`, and says how long it is to wait. `None` when that would be one too many.
    pub(super) fn admit(&mut self, now: Instant, child: u64, limits: &Limits) -> Option<Duration> {
        while self.0.front().is_some_and(|(at, _)| now.duration_since(*at) >= limits.period) {
            self.0.pop_front();
        }
        if self.0.len() >= limits.max_restarts as usize {
            return None;
        }
        let before = self.0.iter().filter(|(_, other)| *other == child).count();
        self.0.push_back((now, child));
        let factor = u32::try_from(before).ok().and_then(|power| 2_u32.checked_pow(power)).unwrap_or(u32::MAX);
        Some(limits.first_delay.saturating_mul(factor).min(limits.longest_delay))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        max_restarts: 3,
        period: Duration::from_secs(10),
        first_delay: Duration::from_secs(1),
        longest_delay: Duration::from_secs(3),
        start_timeout: Duration::from_secs(1),
        max_children: 8,
    };

    /// Restarts at these seconds, of these children, and the delay in seconds that each gets.
    fn check(restarts: &[(u64, u64)], expected: &[Option<u64>]) {
        let start = Instant::now();
        let mut window = Window::default();
        let got: Vec<_> = restarts
            .iter()
            .map(|(at, child)| window.admit(start + Duration::from_secs(*at), *child, &LIMITS))
            .map(|delay| delay.map(|delay| delay.as_secs()))
            .collect();
        assert_eq!(got, expected);
    }

    /// restarts are bounded in a window, and each waits longer than the one before.
    #[test]
    fn r_240_restarts_wait_longer_each_time_until_the_window_is_full() {
        check(&[(0, 1), (1, 1), (2, 1), (3, 1)], &[Some(1), Some(2), Some(3), None]);
        check(&[(0, 1), (1, 2), (2, 3), (3, 4)], &[Some(1), Some(1), Some(1), None]);
        check(&[(0, 1), (1, 1), (2, 1), (10, 1)], &[Some(1), Some(2), Some(3), Some(3)]);
        check(&[(0, 1), (20, 1), (40, 1), (60, 1)], &[Some(1), Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn no_restart_is_allowed_where_none_is() {
        let none = Limits { max_restarts: 0, ..LIMITS };
        assert_eq!(Window::default().admit(Instant::now(), 1, &none), None);
    }

    #[test]
    fn the_policies_look_at_how_a_child_ended() {
        for (restart, good, bad) in
            [(Restart::Permanent, true, true), (Restart::Transient, false, true), (Restart::Temporary, false, false)]
        {
            assert_eq!((restart.applies(true), restart.applies(false)), (good, bad), "{restart:?}");
        }
    }

    proptest! {
        /// Whatever the times, no period sees more restarts than allowed, and no wait is longer than the longest.
        #[test]
        fn no_window_has_too_many(gaps in prop::collection::vec((0_u64..6_000, 0_u64..3), 0..60)) {
            let mut now = Instant::now();
            let mut window = Window::default();
            let mut admitted: Vec<Instant> = Vec::new();
            for (gap_ms, child) in gaps {
                now += Duration::from_millis(gap_ms);
                if let Some(delay) = window.admit(now, child, &LIMITS) {
                    prop_assert!(delay >= LIMITS.first_delay && delay <= LIMITS.longest_delay);
                    admitted.push(now);
                }
                let recent = admitted.iter().filter(|at| now.duration_since(**at) < LIMITS.period).count();
                prop_assert!(recent <= LIMITS.max_restarts as usize);
                prop_assert!(window.0.len() <= LIMITS.max_restarts as usize);
            }
        }
    }
}
