//! What the fuzz targets stand on. The targets themselves are in `tests/targets`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test tool")]

pub mod golden;
