//! The fuzz targets, one a file. `README.md` says how long they run and how to let them run longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]
