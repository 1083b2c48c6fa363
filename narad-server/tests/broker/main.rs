//! Whole brokers in this process: how they are assembled, their plugins and series, and races between their users.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

#[path = "../http_support/mod.rs"]
mod http_support;
#[path = "../secured/mod.rs"]
mod secured;

mod builder;
#[cfg(feature = "codec-aead")]
mod codec_plugins;
mod durations;
mod metrics;
mod race_links;
mod race_messages;
mod retention_consumed;
mod stock_plugins;
mod topic_plugins;
mod wake_http;
