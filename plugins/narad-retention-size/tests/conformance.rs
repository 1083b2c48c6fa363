//! The policy keeps the contract of its trait.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::{num::NonZeroU64, sync::Arc};

use narad_core::testkit::conformance;
use narad_retention_size::Size;

#[test]
fn size_of_every_size() {
    for max_bytes in [1, 1_000, 64 << 20, 1 << 30, u64::MAX] {
        let max_bytes = NonZeroU64::new(max_bytes).unwrap();
        conformance::retention_policy(|| Arc::new(Size::new(max_bytes)));
    }
}
