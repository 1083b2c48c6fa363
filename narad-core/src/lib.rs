//! A storage engine for message logs.
//!
//! A partition is a directory: a segmented log of CRC-checked frames. A commit syncs its frames, reads them back
//! and only then moves the high watermark; nobody sees a record above it.
//!
//! The modules, from the ground floor up; each uses only those before it:
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`error`], [`clock`] | the error type; the seam to time |
//! | [`units`] | durations and sizes as people write them in a configuration |
//! | [`mod@format`] | frames, records and state files: bytes in, bytes out |
//! | [`disk`] | the seam to the file system |
//! | [`plugin`] | the four traits that other crates implement, and the registry that builds them |
#![cfg_attr(
    feature = "engine",
    doc = "| [`runtime`] | what the logs of a process share: workers, timer, frame cache, counters |"
)]
#![cfg_attr(feature = "engine", doc = "| `segment` | one file: write frames, scan, index, read |")]
#![cfg_attr(
    feature = "engine",
    doc = "| [`log`] | a partition: open and recover, append, commit, read, retain, close |"
)]
#![cfg_attr(
    feature = "engine",
    doc = "| [`metrics`] | what the engine counts: failures, each log's work, each call into a plugin |"
)]
#![cfg_attr(
    feature = "engine",
    doc = "| [`store`] | a data directory: lock, paths, open logs, consumer state |"
)]
#![cfg_attr(
    feature = "testkit",
    doc = "| [`testkit`] | the simulated disk, the manual clock, the conformance suites |"
)]

pub mod clock;
pub mod disk;
pub mod error;
pub mod format;
pub mod plugin;
pub mod units;

#[cfg(feature = "engine")]
pub mod log;
#[cfg(feature = "engine")]
pub mod metrics;
#[cfg(feature = "engine")]
pub mod runtime;
#[cfg(feature = "engine")]
mod segment;
#[cfg(feature = "engine")]
pub mod store;
#[cfg(any(feature = "engine", feature = "testkit"))]
mod sync;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use error::{Error, Result};

#[cfg(all(doctest, feature = "engine"))]
#[doc = include_str!("../README.md")]
struct Readme;
