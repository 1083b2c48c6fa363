//! The contract of `WakeNotifier`, as far as it is the notifier's to keep.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
};

use super::{PATIENCE, at_once, check, check_name};
use crate::plugin::{Incarnation, LogIdentity, PartitionId, WakeNotifier, WakeReason};

const REASONS: [WakeReason; 3] = [WakeReason::Committed, WakeReason::Requested, WakeReason::Closed];
/// Announcements in a row. Whoever fills a queue that nobody empties blocks long before.
const BURST: usize = 10_000;

/// Checks a wake notifier. `make` builds it. Of points 1 and 2 the order and the merging are the engine's; here the
/// notifier takes announcements of several logs and of each reason, any number of times, also after `Closed` (a log
/// that was opened again). Point 3: it never blocks, though nobody takes what it passes on. Nothing is asked of 4.
///
/// # Panics
/// With the point that failed and the input that failed it.
pub fn wake_notifier(make: impl Fn() -> Arc<dyn WakeNotifier>) {
    let notifier = make();
    check_name("1", &notifier, notifier.name(), make().name());
    for reason in REASONS {
        burst(&notifier, reason);
    }
    at_once("1", move || {
        for reason in REASONS.into_iter().cycle().take(300) {
            for log in logs() {
                notifier.wake(&log, reason);
            }
        }
    });
}

/// Announces many times on a thread of its own, so that a notifier that blocks fails the test and does not hang it.
fn burst(notifier: &Arc<dyn WakeNotifier>, reason: WakeReason) {
    let (notifier, (done, all_done)) = (notifier.clone(), mpsc::channel());
    thread::spawn(move || {
        let woken = catch_unwind(AssertUnwindSafe(|| {
            for log in logs().iter().cycle().take(BURST) {
                notifier.wake(log, reason);
            }
        }));
        done.send(woken.is_ok())
    });
    match all_done.recv_timeout(PATIENCE) {
        Ok(calm) => check("2", calm, || format!("it panicked over {reason:?}, see above")),
        Err(_) => check("3", false, || format!("it blocks over {BURST} announcements of {reason:?}")),
    }
}

fn logs() -> [LogIdentity; 3] {
    [
        LogIdentity::named("standalone"),
        LogIdentity::partition("orders", Incarnation::new(1), PartitionId(0)),
        LogIdentity::partition("orders", Incarnation::new(2), PartitionId(u32::MAX)),
    ]
}
