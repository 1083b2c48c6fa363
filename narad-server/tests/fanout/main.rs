//! Copies of a topic's messages in its children.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod copies;
mod crash;
mod delay;
mod random;
mod retention;
mod support;
