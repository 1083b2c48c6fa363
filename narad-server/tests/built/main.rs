//! The built `narad` on real files: killed, without disk or descriptors, with system calls that fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

#[path = "../real_broker/mod.rs"]
mod real_broker;

mod crash_children;
mod crash_kill9;
mod damaged_directory;
mod disk_full;
mod few_descriptors;
mod field_descriptors;
#[cfg(target_os = "linux")]
mod hung_fsync;
mod serve_secured;
mod st_06_descriptor_limit;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(target_os = "linux")]
mod system_calls_at_start;
#[cfg(target_os = "linux")]
mod system_calls_by_number;
