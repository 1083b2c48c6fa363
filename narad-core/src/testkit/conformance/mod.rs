//! The contract of each plugin trait, as code: run it over an implementation of your own.
//!
//! Each function goes through the numbered points of its trait's contract with inputs that are the same on every
//! run, and panics with the number of the point that failed and the input that failed it. A test is one line:
//!
//! ```
//! use std::sync::Arc;
//! use narad_core::{plugin::BatchedSync, testkit::conformance};
//!
//! conformance::sync_policy(|| Arc::new(BatchedSync::default()));
//! ```
//!
//! What only the engine can keep (that it contains a panic, outside which lock it calls) is the engine's to test.

mod disk;

use std::fmt::Display;

pub use disk::disk;

/// Panics with the point and the input unless `holds`.
#[track_caller]
fn check(point: &str, holds: bool, input: impl FnOnce() -> String) {
    assert!(holds, "contract point {point} does not hold: {}", input());
}

/// The value of a call that must not fail.
#[track_caller]
fn ok<T, E: Display>(call: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{call} failed: {error}"))
}
