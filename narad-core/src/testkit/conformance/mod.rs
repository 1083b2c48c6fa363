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

mod codec;
mod codec_inputs;
mod disk;
mod retention;
mod sync;
#[cfg(test)]
mod tests;
mod wake;

use std::{
    fmt::{Debug, Display},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

pub use codec::{codec, codec_reads};
pub use disk::disk;
pub use retention::retention_policy;
pub use sync::sync_policy;
pub use wake::wake_notifier;

use crate::plugin::is_plugin_name;

/// The randomness of every suite: fixed, so that a failure comes back.
const SEED: u64 = 0x6e61_7261_6400_0001;
/// Longer than anything that does not block takes, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Threads that call a plugin at once.
const THREADS: usize = 4;

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

/// The value of a call that must not panic.
#[track_caller]
fn calm<T>(point: &str, input: impl FnOnce() -> String, call: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => value,
        Err(_) => panic!("contract point {point} does not hold, it panicked: {}", input()),
    }
}

/// Runs `call` in several threads at once, and panics when one of them does not get through or does not come back.
#[track_caller]
fn at_once(point: &str, call: impl Fn() + Clone + Send + 'static) {
    let (done, all_done) = mpsc::channel();
    for _ in 0..THREADS {
        let (call, done) = (call.clone(), done.clone());
        thread::spawn(move || done.send(catch_unwind(AssertUnwindSafe(call)).is_ok()));
    }
    for _ in 0..THREADS {
        match all_done.recv_timeout(PATIENCE) {
            Ok(got_through) => {
                check(point, got_through, || format!("one of {THREADS} threads at once failed, see above"));
            }
            Err(_) => check(point, false, || format!("{THREADS} threads at once block each other")),
        }
    }
}

/// A plugin's name: one that can be registered, and the same each time.
#[track_caller]
fn check_name(point: &str, plugin: &dyn Debug, first: &str, second: &str) {
    check(point, is_plugin_name(first), || {
        format!("{plugin:?} is called {first:?}, which no plugin can be: a name is 1 to 64 of a-z 0-9 - _")
    });
    check(point, first == second, || format!("{plugin:?} has two names, {first} and {second}"));
}
