//! Leases, acknowledgements and waiting consumers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod clock;
mod delivery;
mod faults;
mod race_leases;
mod support;
mod waiting;
