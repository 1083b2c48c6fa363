//! The contract of `RetentionPolicy`.

use std::{collections::BTreeSet, sync::Arc};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{SEED, at_once, calm, check, check_name};
use crate::{
    format::Offset,
    plugin::{RetentionPolicy, RetentionView, SegmentInfo},
};

/// 2026-01-01T00:00:00Z.
const NOW_MS: i64 = 1_767_225_600_000;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// How much later point 3 asks again: within a day, on each day of a week, in a month, a century.
const LATER_MS: [i64; 14] = [
    0,
    1,
    HOUR_MS,
    7 * HOUR_MS,
    13 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    3 * DAY_MS,
    4 * DAY_MS,
    5 * DAY_MS,
    6 * DAY_MS,
    7 * DAY_MS,
    31 * DAY_MS,
    36_525 * DAY_MS,
];
/// Different `reason` labels a policy may use; each makes a series of its own.
const MAX_REASONS: usize = 8;

/// Checks a retention policy. `make` builds it, each time with the same configuration.
///
/// Of point 2 the policy's part is checked: whatever it answers is a count of the oldest, with a short fixed word as its
/// reason. That it looks at no other clock than `now_ms` cannot be seen here.
///
/// # Panics
/// With the point that failed and the input that failed it.
pub fn retention_policy(make: impl Fn() -> Arc<dyn RetentionPolicy>) {
    let (policy, other) = (make(), make());
    check_name("1", &policy, policy.name(), other.name());
    let roll_age = policy.roll_age();
    let mut reasons = BTreeSet::new();
    let cases = cases();
    for case in &cases {
        reasons.insert(decide(&*policy, &*other, case));
        more_with_time(&*policy, case);
        nothing_more_unknown(&*policy, case);
        check("4", policy.roll_age() == roll_age, || format!("roll_age changed after {case:?}"));
    }
    prefixes(&*policy);
    check_name("1", &policy, policy.name(), other.name());
    check("2", reasons.len() <= MAX_REASONS, || format!("too many reasons: {reasons:?}"));
    for case in cases.iter().rev() {
        decide(&*policy, &*other, case);
    }
    check("4", other.roll_age() == roll_age, || "two instances, two roll ages".to_owned());
    at_once("5", move || {
        for case in &cases {
            policy.decide(&case.view());
            policy.roll_age();
        }
    });
}

#[derive(Debug, Clone)]
struct Case {
    now_ms: i64,
    segments: Vec<SegmentInfo>,
    high_watermark: Offset,
    frontier: Option<Offset>,
}

impl Case {
    fn view(&self) -> RetentionView<'_> {
        RetentionView::new(self.now_ms, &self.segments, self.high_watermark).with_frontier(self.frontier)
    }
}

fn decide(policy: &dyn RetentionPolicy, other: &dyn RetentionPolicy, case: &Case) -> &'static str {
    let input = || format!("{case:?}");
    let decided = calm("5", input, || policy.decide(&case.view()));
    for again in [policy, other] {
        let again = again.decide(&case.view());
        check("1", again == decided, || format!("{case:?} gives {decided:?} and {again:?}"));
    }
    let word = !decided.reason.is_empty()
        && decided.reason.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-');
    check("2", word, || format!("the reason {:?} is no word in lower case", decided.reason));
    decided.reason
}

fn more_with_time(policy: &dyn RetentionPolicy, case: &Case) {
    let expired = |now_ms| {
        let case = Case { now_ms, ..case.clone() };
        policy.decide(&case.view()).expire.min(case.segments.len())
    };
    let mut before = 0;
    for later_ms in LATER_MS {
        let after = expired(case.now_ms.saturating_add(later_ms));
        check("3", after >= before, || {
            format!("{before} of {case:?} expire, and {after} of them {later_ms} ms later")
        });
        before = after;
    }
}

/// Point 3: as long as it is not known what is settled, no more goes than when something is.
fn nothing_more_unknown(policy: &dyn RetentionPolicy, case: &Case) {
    let expired = |frontier| {
        let case = Case { frontier, ..case.clone() };
        policy.decide(&case.view()).expire.min(case.segments.len())
    };
    let unknown = expired(None);
    for frontier in [Offset::ZERO, case.high_watermark] {
        let known = expired(Some(frontier));
        check("3", unknown <= known, || {
            format!("{unknown} of {case:?} expire with no frontier, and {known} with the frontier {frontier}")
        });
    }
}

/// Point 2, and the trait's usual mistake: a segment that is old, behind ones that stay, has none of those go. All are
/// young, and one of them becomes old: not the last nor the newest, by which a policy may tell when a log was last
/// written to, and not the one behind those that go, by which it may tell when they ended.
fn prefixes(policy: &dyn RetentionPolicy) {
    const SEGMENTS: u32 = 8;
    for bytes in [1, 1 << 20, 64 << 20] {
        for frontier in [None, Some(Offset::from(SEGMENTS * 10))] {
            let young = |number: u32| {
                let (start, end) = (Offset::from(number * 10), Offset::from((number + 1) * 10));
                let written_ms = NOW_MS - 1_000 + i64::from(number);
                SegmentInfo::sealed(start, end, bytes, written_ms, written_ms)
            };
            let segments: Vec<SegmentInfo> = (0..SEGMENTS).map(young).collect();
            let high_watermark = Offset::from(SEGMENTS * 10);
            let all_young = Case { now_ms: NOW_MS, segments, high_watermark, frontier };
            let before = policy.decide(&all_young.view()).expire;
            for old in before.saturating_add(2)..all_young.segments.len() - 1 {
                let mut case = all_young.clone();
                (case.segments[old].first_write_ms, case.segments[old].last_write_ms) = (0, 0);
                let after = policy.decide(&case.view()).expire;
                check("2", after <= before, || {
                    format!(
                        "{after} of {case:?} expire, and {before} if segment {old} is not old: what goes is a prefix, \
                         and segments in front of it stay"
                    )
                });
            }
        }
    }
}

fn cases() -> Vec<Case> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut cases: Vec<Case> = (0..200).map(|_| random(&mut rng)).collect();
    cases.push(Case { now_ms: NOW_MS, segments: Vec::new(), high_watermark: Offset::ZERO, frontier: None });
    // Clocks and file times that cannot be right.
    for now_ms in [0, NOW_MS, i64::MAX] {
        for write_ms in [i64::MIN, -1, 0, NOW_MS, i64::MAX] {
            let segments = vec![
                SegmentInfo::sealed(Offset::ZERO, Offset::from(10), u64::MAX, write_ms, write_ms),
                SegmentInfo::sealed(Offset::from(10), Offset::MAX, 0, write_ms, write_ms),
            ];
            cases.push(Case { now_ms, segments, high_watermark: Offset::MAX, frontier: Some(Offset::MAX) });
        }
    }
    cases
}

/// Up to 20 segments one after the other, with write times that do not always grow, as after a restore.
fn random(rng: &mut StdRng) -> Case {
    let mut segments = Vec::new();
    let mut end = Offset::from(rng.random_range(0..1_000_u32));
    for _ in 0..rng.random_range(0..20) {
        let start = end;
        end = start.saturating_add(rng.random_range(1..10_000));
        let age_ms =
            if rng.random() { rng.random_range(0..10_000) } else { rng.random_range(0..10_000_000_000) };
        let last_write_ms = NOW_MS - age_ms;
        let first_write_ms = last_write_ms - rng.random_range(0..100_000);
        let bytes = rng.random_range(1..100_000_000);
        segments.push(SegmentInfo::sealed(start, end, bytes, first_write_ms, last_write_ms));
    }
    if let Some(active) = segments.last_mut() {
        active.sealed = rng.random();
    }
    let frontier = rng.random::<bool>().then(|| Offset::from(rng.random_range(0..200_000_u32)).min(end));
    Case { now_ms: NOW_MS, segments, high_watermark: end, frontier }
}
