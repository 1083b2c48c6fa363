//! Whether a log is so busy that the file of its next segment is worth preparing.
//!
//! Looks at the last piece of the segment that was filled and at nothing else: an earlier burst does not count, and a log
//! that takes longer than a minute for a segment is never busy enough, however many records it has. So of all logs of a
//! process only those that write much hold the space of one more segment.

use std::time::Duration;

/// Writes beyond this many bytes gain less than the zeros cost, which are written as well.
pub(super) const SMALL_WRITE: u64 = 32 << 10;
/// Smaller segments are filled before a file for the next one would be.
const LEAST_SEGMENT: u64 = 1 << 20;
/// A segment is looked at in so many pieces.
const LAPS: u64 = 8;
/// How many of them were filled before the next file is begun: a log that ends soon needs none.
const AFTER_LAPS: u64 = 2;
/// A whole segment is expected to be filled within this time.
const SEGMENT_WITHIN: Duration = Duration::from_secs(60);

/// How fast a segment fills.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    lap: Option<Lap>,
    /// Once a segment, whatever becomes of it.
    asked: bool,
}

/// A piece of the segment that is being filled.
#[derive(Debug, Clone, Copy)]
struct Lap {
    from: u64,
    at: Duration,
    writes: u64,
}

impl Pace {
    /// A write at `now`, monotonic, has made the frames end at `end` in a segment of `cap` bytes. Answers whether the file
    /// of the next segment is to be begun: at most once for each segment.
    pub(super) fn wrote(&mut self, end: u64, cap: u64, now: Duration) -> bool {
        if cap < LEAST_SEGMENT || self.asked {
            return false;
        }
        let lap = self.lap.get_or_insert(Lap { from: end, at: now, writes: 0 });
        lap.writes += 1;
        let (bytes, took) = (end.saturating_sub(lap.from), now.saturating_sub(lap.at));
        if bytes < cap / LAPS {
            return false;
        }
        let are_small = bytes / lap.writes <= SMALL_WRITE;
        let soon = SEGMENT_WITHIN.as_millis() * u128::from(bytes) / u128::from(cap);
        *lap = Lap { from: end, at: now, writes: 0 };
        self.asked = are_small && took.as_millis() <= soon && end >= cap / LAPS * AFTER_LAPS && end < cap;
        self.asked
    }

    /// The log is idle: whether it is busy is to be seen anew.
    pub(super) fn rest(&mut self) {
        self.lap = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: u64 = 64 << 20;

    /// Fills a segment with writes of `bytes`, `every` so often; answers where the next file was begun.
    fn begun(bytes: u64, every: Duration) -> Vec<u64> {
        let mut pace = Pace::default();
        let writes = CAP / bytes;
        (1..=writes)
            .filter(|&write| pace.wrote(write * bytes, CAP, every * u32::try_from(write).unwrap()))
            .map(|write| write * bytes)
            .collect()
    }

    #[test]
    fn a_busy_segment_asks_once_when_a_part_of_it_is_filled() {
        let [at] = begun(17_000, Duration::from_micros(110))[..] else { panic!("once") };
        assert!((CAP / 4..CAP / 2).contains(&at), "{at}");
    }

    #[test]
    fn a_segment_that_fills_slowly_or_with_large_writes_never_asks() {
        // 64 MiB in 60 s are 16 KiB each 14.6 ms.
        assert_eq!(begun(16 << 10, Duration::from_millis(14)).len(), 1);
        assert_eq!(begun(16 << 10, Duration::from_millis(15)), [0; 0]);
        assert_eq!(begun(SMALL_WRITE + 1, Duration::ZERO), [0; 0]);
    }

    #[test]
    fn a_small_segment_never_asks_and_neither_does_one_that_is_full() {
        let mut pace = Pace::default();
        for end in (0..LEAST_SEGMENT - 1).step_by(100) {
            assert!(!pace.wrote(end, LEAST_SEGMENT - 1, Duration::ZERO));
        }
        let mut pace = Pace::default();
        for end in (CAP..2 * CAP).step_by(10_000) {
            assert!(!pace.wrote(end, CAP, Duration::ZERO));
        }
    }

    #[test]
    fn a_burst_of_earlier_does_not_count() {
        let mut pace = Pace::default();
        let mut asked = 0;
        for (write, now) in (1..=CAP / 10_000).zip((1..).map(|ms| Duration::from_millis(ms * 20))) {
            // Ten in a row, then nothing for two seconds and a half.
            let now = if write % 100 < 10 { now } else { now * 5 };
            asked += u32::from(pace.wrote(write * 10_000, CAP, now));
        }
        assert_eq!(asked, 0);
    }
}
