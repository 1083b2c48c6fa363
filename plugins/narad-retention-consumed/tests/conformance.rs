//! The policy keeps the contract of its trait.
#![allow(missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::testkit::conformance;
use narad_retention_consumed::Consumed;

#[test]
fn consumed_with_every_time_to_keep() {
    for keep in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(86_400), Duration::MAX] {
        conformance::retention_policy(|| Arc::new(Consumed::new(keep)));
    }
}
