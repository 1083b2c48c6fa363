//! Both policies keep the contract.
#![allow(missing_docs, reason = "a test")]

use std::{sync::Arc, time::Duration};

use narad_core::testkit::conformance;
use narad_retention::{Age, Forever};

#[test]
fn age_of_every_size() {
    let sizes = [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(86_400), Duration::MAX];
    for retention in sizes {
        conformance::retention_policy(|| Arc::new(Age::new(retention)));
    }
}

#[test]
fn forever() {
    conformance::retention_policy(|| Arc::new(Forever));
}
