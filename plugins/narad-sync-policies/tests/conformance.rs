//! Each policy keeps the contract of its trait.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::{
    plugin::{SyncPolicy, Synced, Unsynced},
    testkit::conformance,
};
use narad_sync_policies::{Adaptive, AdaptiveLimits, EveryWrite, Never};

#[test]
fn every_write() {
    conformance::sync_policy(|| Arc::new(EveryWrite));
}

#[test]
fn never() {
    conformance::sync_policy(|| Arc::new(Never));
}

#[test]
fn adaptive_whatever_the_disk_is_like() {
    for cost in [None, Some(Duration::ZERO), Some(Duration::from_millis(5)), Some(Duration::MAX)] {
        conformance::sync_policy(|| {
            let policy = Adaptive::new(AdaptiveLimits::default()).unwrap();
            if let Some(took) = cost {
                policy.synced(&Synced::new(Unsynced::new(1, 1, Duration::ZERO), took));
            }
            Arc::new(policy)
        });
    }
}
