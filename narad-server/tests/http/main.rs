//! The HTTP API, of a broker in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

#[path = "../documented/mod.rs"]
mod documented;
#[path = "../http_support/mod.rs"]
mod http_support;
#[path = "../secured/mod.rs"]
mod secured;

mod auth;
mod children;
mod children_users;
mod directories;
mod edges;
mod encoded;
mod full_disk;
mod leaving;
mod lifecycle;
mod manners;
mod manual;
mod messages;
mod openapi;
mod schemas;
mod topics;
mod users;
