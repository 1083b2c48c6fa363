//! When to try again what failed: after one second, then after twice as long each time, up to a minute.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The next try of one thing, by the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    failed: Option<Failed>,
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    retry_at: Duration,
    delay: Duration,
}

impl Backoff {
    /// When the next try is due, if that lies in the future.
    pub(super) fn waits_until(&self, now: Duration) -> Option<Duration> {
        self.failed.map(|failed| failed.retry_at).filter(|&at| at > now)
    }

    /// A try failed at `now`; returns when the next is due.
    pub(super) fn failed(&mut self, now: Duration) -> Duration {
        let delay = self.failed.map_or(FIRST, |before| (before.delay * 2).min(LONGEST));
        let retry_at = now.saturating_add(delay);
        self.failed = Some(Failed { retry_at, delay });
        retry_at
    }

    /// A try succeeded.
    pub(super) fn reset(&mut self) {
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_03_waits_from_one_second_to_a_minute() {
        let (mut backoff, mut now) = (Backoff::default(), Duration::ZERO);
        assert_eq!(backoff.waits_until(now), None);
        let mut delays = Vec::new();
        for _ in 0..8 {
            let at = backoff.failed(now);
            delays.push((at - now).as_secs());
            assert_eq!(backoff.waits_until(now), Some(at));
            assert_eq!(backoff.waits_until(at), None);
            now = at;
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.failed(now) - now, FIRST);
    }
}
