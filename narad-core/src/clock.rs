//! The seam to time. Nothing else in the engine looks at a clock, so retention, timers and commit times are
//! tested without sleeping.

use std::{fmt::Debug, time::Duration};

/// A source of wall time and of monotonic time.
///
/// Wall time may jump in either direction; it is used for what is written down (commit times) and for ages of
/// data that outlive a process. Monotonic time never goes back; every interval and deadline uses it.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Wall time in milliseconds since the Unix epoch. Never negative.
    fn unix_ms(&self) -> i64;

    /// Time since an origin of the clock's own choosing. Never decreases.
    fn monotonic(&self) -> Duration;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic origin is now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the real clock")]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the real clock")]
    fn unix_ms(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}
