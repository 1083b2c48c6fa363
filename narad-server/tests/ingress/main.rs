//! From a produce to its partition: the produce log, the dispatcher and the ways past them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod bulk;
mod checkpoint;
mod crash;
mod direct;
mod failures;
mod partitions;
mod produce;
mod reroute;
mod support;
mod torn_checkpoint;
