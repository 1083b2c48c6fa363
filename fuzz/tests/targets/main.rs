//! The fuzz targets, one a file. `README.md` says how long they run and how to let them run longer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

mod ahead;
mod frame;
mod known;
mod open;
mod position;
mod record;
mod scan;

use std::time::Duration;

/// For how long a plain `cargo test` generates inputs, once the corpus is through. A fuzzing engine does not stop there.
const DECODER_TIME: Duration = Duration::from_millis(1500);
/// The same for targets that open directories.
const DIRECTORY_TIME: Duration = Duration::from_secs(4);
