//! What the race of topics is made of.
#![allow(unreachable_pub, reason = "used by one test")]

pub mod bed;
pub mod ledger;
pub mod life;
