//! The segments of a log as readers and sweeps see them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::recover::SegmentFile;
use crate::{format::Offset, segment::Segment, sync::Mutex};

/// Sealed segments that keep their descriptor and index between reads.
const HOT: usize = 2;

/// The segments, oldest first; the last one is active if the log has an active one.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) segments: VecDeque<Entry>,
    pub(super) has_active: bool,
    /// The first offset kept when there is no segment at all.
    pub(super) oldest_if_empty: Offset,
    pub(super) closed: bool,
}

/// A segment, and when it was written.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) segment: Arc<Segment>,
    pub(super) times: Times,
    /// Monotonic time at which a sweep first found these times ahead of the wall clock.
    pub(super) ahead_since: Option<Duration>,
}

impl Entry {
    /// The last write as a sweep takes it. A time ahead of the wall clock counts as now when it is first seen so, and
    /// ages from there: a date in the far future holds nothing up for years, and one that only looks so while the
    /// clock is wrong is believed again once the clock is right.
    pub(super) fn believable(&mut self, last_ms: i64, now_ms: i64, monotonic: Duration) -> i64 {
        if last_ms <= now_ms {
            self.ahead_since = None;
            return last_ms;
        }
        let since = *self.ahead_since.get_or_insert(monotonic);
        let age = i64::try_from(monotonic.saturating_sub(since).as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(age)
    }
}

/// First and last write of a segment, Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// Known from the writes themselves, or from the records.
    Known { first: i64, last: i64 },
    /// Recovered from disk: the file's time, until a sweep asks the records.
    File(i64),
    /// The active segment: the writer knows.
    Active,
}

impl View {
    /// The view of recovered sealed segments; each ends where the next begins, the last one at `end`.
    pub(super) fn recovered(sealed: &[SegmentFile], end: Offset) -> Self {
        let limits = sealed.iter().skip(1).map(|next| next.base).chain([end]);
        let entries = sealed.iter().zip(limits).map(|(file, limit)| Entry {
            segment: Arc::new(Segment::sealed(file.base, file.path.clone(), file.len, limit)),
            times: Times::File(file.modified_ms),
            ahead_since: None,
        });
        Self { segments: entries.collect(), has_active: false, oldest_if_empty: end, closed: false }
    }

    /// Seals the active segment, if there is one, and adds its successor.
    pub(super) fn push_active(&mut self, segment: Arc<Segment>, times: Option<(Option<i64>, i64)>) {
        if self.has_active
            && let Some(before) = self.segments.back_mut()
        {
            before.segment.seal(segment.base());
            let (first, last) = times.unwrap_or_default();
            before.times = Times::Known { first: first.unwrap_or(last), last };
        }
        self.segments.push_back(Entry { segment, times: Times::Active, ahead_since: None });
        self.has_active = true;
    }

    /// The active segment, if there is one.
    pub(super) fn active(&self) -> Option<&Arc<Segment>> {
        self.segments.back().filter(|_| self.has_active).map(|entry| &entry.segment)
    }

    /// Remembers since when the times of these segments are ahead of the clock.
    pub(super) fn note_ahead(&mut self, entries: &[Entry]) {
        for entry in &mut self.segments {
            let base = entry.segment.base();
            let same = entries.binary_search_by_key(&base, |other| other.segment.base()).ok();
            entry.ahead_since = same.and_then(|index| entries.get(index)).and_then(|same| same.ahead_since);
        }
    }

    /// The oldest offset kept.
    pub(super) fn oldest(&self) -> Offset {
        self.segments.front().map_or(self.oldest_if_empty, |entry| entry.segment.base())
    }

    /// Takes off the segments that begin below `oldest`, but for the active one.
    pub(super) fn drop_below(&mut self, oldest: Offset) {
        let gone = self.segments.partition_point(|entry| entry.segment.base() < oldest);
        let kept_active =
            if self.has_active { self.segments.len().saturating_sub(1) } else { self.segments.len() };
        self.segments.drain(..gone.min(kept_active));
        self.oldest_if_empty = self.oldest_if_empty.max(oldest);
    }

    /// The segment that `offset` lies in, and whether it is the active one.
    pub(super) fn find(&self, offset: Offset) -> Option<(Arc<Segment>, bool)> {
        let index = self.segments.partition_point(|entry| entry.segment.base() <= offset).checked_sub(1)?;
        let is_active = self.has_active && index + 1 == self.segments.len();
        self.segments.get(index).map(|entry| (Arc::clone(&entry.segment), is_active))
    }
}

/// The sealed segments that were read last.
#[derive(Debug, Default)]
pub(super) struct HotSet(Mutex<VecDeque<Arc<Segment>>>);

impl HotSet {
    /// Notes a read of a sealed segment; the one that falls out gives back its descriptor and its index.
    pub(super) fn touch(&self, segment: &Arc<Segment>) {
        let mut hot = self.0.lock();
        if hot.front().is_some_and(|first| Arc::ptr_eq(first, segment)) {
            return;
        }
        hot.retain(|other| !Arc::ptr_eq(other, segment));
        hot.push_front(Arc::clone(segment));
        while hot.len() > HOT
            && let Some(cold) = hot.pop_back()
        {
            if !cold.try_cool() {
                // Somebody reads it at this moment, and nobody waits for that here: the next touch tries again.
                hot.push_back(cold);
                break;
            }
        }
    }

    /// Lets go of the segments that begin below `oldest`. Unlinked, a file takes space until it is closed: that is when
    /// the last reader lets go of the segment too.
    pub(super) fn forget_below(&self, oldest: Offset) {
        self.0.lock().retain(|segment| segment.base() >= oldest);
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for segment in self.0.lock().drain(..) {
            segment.cool();
        }
    }
}
