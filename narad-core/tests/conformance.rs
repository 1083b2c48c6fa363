//! The plugins that stand beside their traits keep the traits' contracts.
#![allow(missing_docs, reason = "a test")]

use std::sync::Arc;

use narad_core::{
    plugin::{BatchedSync, SilentWake},
    testkit::conformance,
};

#[test]
fn batched_sync_keeps_the_contract() {
    conformance::sync_policy(|| Arc::new(BatchedSync::default()));
}

#[test]
fn the_silent_notifier_keeps_the_contract() {
    conformance::wake_notifier(|| Arc::new(SilentWake));
}
