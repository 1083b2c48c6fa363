//! A clock that stands still until a test moves it.

use std::{sync::Arc, time::Duration};

use crate::{clock::Clock, sync::Mutex};

/// 2026-01-01T00:00:00Z, so that times in tests look like times.
const START_UNIX_MS: i64 = 1_767_225_600_000;

/// Wall and monotonic time, each moved by the test alone. Clones are handles on the same clock.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Hands>>);

#[derive(Debug)]
struct Hands {
    unix_ms: i64,
    monotonic: Duration,
}

impl ManualClock {
    /// A clock at 2026-01-01T00:00:00Z and monotonic zero.
    pub fn new() -> Self {
        Self::at(START_UNIX_MS)
    }

    /// A clock at that wall time (Unix milliseconds) and monotonic zero.
    pub fn at(unix_ms: i64) -> Self {
        Self(Arc::new(Mutex::new(Hands { unix_ms: unix_ms.max(0), monotonic: Duration::ZERO })))
    }

    /// Time passes: both hands move.
    pub fn advance(&self, by: Duration) {
        self.advance_wall(by);
        self.advance_monotonic(by);
    }

    /// Moves wall time alone, as a step of the system's clock would.
    pub fn advance_wall(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let mut hands = self.0.lock();
        hands.unix_ms = hands.unix_ms.saturating_add(ms);
    }

    /// Moves monotonic time alone: wall time has been stepped back by as much.
    pub fn advance_monotonic(&self, by: Duration) {
        let mut hands = self.0.lock();
        hands.monotonic = hands.monotonic.saturating_add(by);
    }

    /// Sets wall time, forward or back. Negative times count as 0.
    pub fn set_unix_ms(&self, unix_ms: i64) {
        self.0.lock().unix_ms = unix_ms.max(0);
    }

    /// Sets monotonic time. It never goes back: an earlier time changes nothing.
    pub fn set_monotonic(&self, monotonic: Duration) {
        let mut hands = self.0.lock();
        hands.monotonic = hands.monotonic.max(monotonic);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> i64 {
        self.0.lock().unix_ms
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_move_apart_and_monotonic_time_never_goes_back() {
        let clock = ManualClock::at(1_000);
        let handle = clock.clone();
        handle.advance(Duration::from_millis(5));
        assert_eq!((clock.unix_ms(), clock.monotonic()), (1_005, Duration::from_millis(5)));
        handle.set_unix_ms(3);
        handle.set_monotonic(Duration::from_millis(4));
        assert_eq!((clock.unix_ms(), clock.monotonic()), (3, Duration::from_millis(5)));
    }
}
