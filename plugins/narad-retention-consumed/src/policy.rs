//! The policy that keeps what somebody has yet to settle.

use std::time::Duration;

use narad_core::plugin::{RetentionDecision, RetentionPolicy, RetentionView, SegmentInfo};

/// A segment is not sealed for its age more often than this: each one is a file.
const SHORTEST_ROLL: Duration = Duration::from_secs(60);

/// Expires the oldest segments of which every record is settled, and whose last write is older than a time to keep them.
///
/// Settled is what is acknowledged, by the topic's consumers, and copied, to each of its children:
/// [`RetentionView::frontier`]. As long as the frontier is not known (nobody has consumed the topic since the broker
/// started, a child is being attached) everything is kept. So is everything of a topic that nobody consumes: bound it
/// by age or size as well, with the policy `any` of `narad-retention`.
///
/// What crash may undo: a position is durable a second after it moved, and a segment may go before that. A power loss in
/// this second brings the position back and not the segment; what it held had been settled, and is reported as lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumed {
    keep: Duration,
}

impl Consumed {
    /// Keeps what is settled for `keep` after its segment's last write, so that it can be replayed.
    pub const fn new(keep: Duration) -> Self {
        Self { keep }
    }

    fn is_kept_long_enough(&self, segment: &SegmentInfo, now_ms: i64) -> bool {
        let age_ms = now_ms.saturating_sub(segment.last_write_ms);
        Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)) >= self.keep
    }
}

impl RetentionPolicy for Consumed {
    fn name(&self) -> &str {
        "consumed"
    }

    /// With a time to keep records, a segment that is always written to would keep its oldest ones for ever. Without
    /// one, whatever is settled when a sweep looks goes, the segment that is written to included.
    fn roll_age(&self) -> Option<Duration> {
        (!self.keep.is_zero()).then(|| self.keep.max(SHORTEST_ROLL))
    }

    fn decide(&self, view: &RetentionView<'_>) -> RetentionDecision {
        let Some(frontier) = view.frontier else { return RetentionDecision::KEEP };
        let unsettled = frontier.saturating_add(1);
        let expired = view
            .segments
            .iter()
            .take_while(|segment| segment.end <= unsettled && self.is_kept_long_enough(segment, view.now_ms));
        match expired.count() {
            0 => RetentionDecision::KEEP,
            expired => RetentionDecision::expire(expired, "consumed"),
        }
    }
}
