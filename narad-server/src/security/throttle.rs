//! How many wrong passwords a user takes: five, then one try every twelve seconds.

use std::time::Duration;

/// Wrong passwords that cost nothing but themselves.
const FREE: u32 = 5;
/// How long a further try has to wait after the last wrong one.
const INTERVAL: Duration = Duration::from_secs(12);
/// Wrong passwords are forgotten when none has come for so long.
const MEMORY: Duration = Duration::from_secs(15 * 60);

/// The wrong passwords of one user. Times are monotonic.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    wrong: u32,
    last: Duration,
}

impl Throttle {
    /// Whether a password may be tried now.
    ///
    /// # Errors
    /// How long to wait for that.
    pub(super) fn check(&self, now: Duration) -> Result<(), Duration> {
        let next = self.last + INTERVAL;
        if self.wrong >= FREE && now < next { Err(next - now) } else { Ok(()) }
    }

    /// A wrong password was tried. Answers whether further ones have to wait from here on.
    pub(super) fn wrong(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.last) >= MEMORY {
            self.wrong = 0;
        }
        self.wrong = self.wrong.saturating_add(1);
        self.last = now;
        self.wrong == FREE
    }

    /// The right one was.
    pub(super) fn right(&mut self) {
        self.wrong = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn five_are_free_then_one_every_twelve_seconds_until_the_right_one() {
        let mut throttle = Throttle::default();
        let mut now = SECOND;
        for nth in 1..=5 {
            assert_eq!(throttle.check(now), Ok(()));
            assert_eq!(throttle.wrong(now), nth == 5);
        }
        for _ in 0..3 {
            assert_eq!(throttle.check(now), Err(12 * SECOND));
            now += 11 * SECOND;
            assert_eq!(throttle.check(now), Err(SECOND));
            now += SECOND;
            assert_eq!(throttle.check(now), Ok(()));
            throttle.wrong(now);
        }
        now += 12 * SECOND;
        throttle.right();
        for _ in 0..4 {
            throttle.wrong(now);
        }
        assert_eq!(throttle.check(now), Ok(()));
    }

    #[test]
    fn a_quarter_of_an_hour_without_one_is_forgotten() {
        let mut throttle = Throttle::default();
        for _ in 0..9 {
            throttle.wrong(SECOND);
        }
        throttle.wrong(SECOND + MEMORY);
        assert_eq!(throttle.check(SECOND + MEMORY), Ok(()));
    }
}
