//! The contract of `SyncPolicy`.

use std::{sync::Arc, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{SEED, at_once, calm, check, check_name};
use crate::plugin::{SyncDecision, SyncPolicy, Unsynced};

/// How often a policy may ask for more time over the same records before it counts as never syncing.
const PATIENCE: usize = 1_000;

/// Checks a sync policy. `make` builds it, each time with the same configuration.
///
/// Beyond the numbered points it checks the trait's usual mistake: a policy that asked for a time keeps to it. Asked
/// again when that time has passed, over the same records, it does not put the sync off for ever; nor does a write
/// in between push it further away.
///
/// # Panics
/// With the point that failed and the input that failed it.
pub fn sync_policy(make: impl Fn() -> Arc<dyn SyncPolicy>) {
    let (policy, other) = (make(), make());
    check_name("1", &policy, policy.name(), other.name());
    for unsynced in sequence() {
        let input = || format!("{unsynced:?}");
        let decided = calm("1", input, || policy.decide(&unsynced));
        let again = calm("2", input, || other.decide(&unsynced));
        check("2", decided == again, || format!("{unsynced:?} gives {decided:?} and {again:?}"));
    }
    for unsynced in sequence() {
        keeps_its_time(&*make(), unsynced);
    }
    for extreme in extremes() {
        calm("4", || format!("{extreme:?}"), || make().decide(&extreme));
    }
    at_once("3", move || {
        for unsynced in sequence() {
            policy.decide(&unsynced);
        }
    });
}

/// Asks again each time the policy's own time has passed.
fn keeps_its_time(policy: &dyn SyncPolicy, first: Unsynced) {
    let mut unsynced = first;
    let mut due: Option<Duration> = None;
    for _ in 0..PATIENCE {
        let SyncDecision::Within(wait) = policy.decide(&unsynced) else { return };
        let asked_for = unsynced.age.saturating_add(wait);
        let due = *due.get_or_insert(asked_for);
        check("1 (the usual mistake)", asked_for <= due, || {
            format!("{unsynced:?} puts the sync off from age {due:?} to {asked_for:?}")
        });
        // One more write halfway, then the time itself, both with the age that they would have.
        let halfway = Unsynced::new(unsynced.bytes, unsynced.records, unsynced.age.saturating_add(wait / 2));
        if let SyncDecision::Within(wait) = policy.decide(&halfway) {
            let asked_for = halfway.age.saturating_add(wait);
            check("1 (the usual mistake)", asked_for <= due, || {
                format!("{halfway:?} puts the sync off from age {due:?} to {asked_for:?}")
            });
        }
        unsynced.age = asked_for;
    }
    check("1 (the usual mistake)", false, || format!("{first:?} is put off {PATIENCE} times"));
}

fn sequence() -> Vec<Unsynced> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut random = |_| {
        let bytes = 1_u64 << rng.random_range(0..30);
        let age = Duration::from_millis(rng.random_range(0..3_000));
        Unsynced::new(bytes, rng.random_range(1..=bytes), age)
    };
    let mut sequence: Vec<_> = (0..200).map(&mut random).collect();
    sequence.push(Unsynced::new(1, 1, Duration::ZERO));
    sequence
}

fn extremes() -> Vec<Unsynced> {
    let mut extremes = Vec::new();
    for bytes in [1, u64::MAX] {
        for records in [1, u64::MAX] {
            for age in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
                extremes.push(Unsynced::new(bytes, records, age));
            }
        }
    }
    extremes
}
