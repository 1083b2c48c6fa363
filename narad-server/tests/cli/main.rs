//! The commands of `narad`, run as processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

#[path = "../http_support/mod.rs"]
mod http_support;
#[path = "../secured/mod.rs"]
mod secured;

mod bench;
mod config;
mod log;
mod plugin;
mod publish;
mod server;
mod stub;
mod subscribe;
mod topic;
mod user;
