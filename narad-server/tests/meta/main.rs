//! What the broker knows of topics, links, schemas and users, and what a crash leaves of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod broker;
mod damage;
mod every_call_fails;
mod full_disk;
mod links;
mod redb;
mod schemas;
mod support;
mod syncs;
mod users;
