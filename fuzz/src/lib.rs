//! What the fuzz targets stand on: golden directories in memory, harm done to them by structure and not by chance alone,
//! and a scanner of its own that says what may be read back. The targets themselves are in `tests/targets`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a test tool; fields of the enums of harms are said in the variant"
)]

pub mod dir_harm;
pub mod directory;
pub mod golden;
pub mod harm;
pub mod rig;
pub mod slow;
pub mod watch;
