//! What tests of the engine and of plugins stand on: a disk that fails and loses power on demand, a clock that
//! only a test moves, and the suites that check a plugin against its trait's contract.
//!
//! No product code uses this. Everything here is deterministic from a seed: [`seed`] takes it from `NARAD_SEED`, and
//! what was built from a seed prints it when the test panics.
//!
//! | what | for |
//! | --- | --- |
//! | [`SimDisk`] | an in-memory disk: power loss, process crash, faults, full disk, lying syncs, a log of calls |
//! | [`Garbled`] | a wrapper around any disk that stores changed bytes, one a call: shows paths around the seam |
//! | [`ManualClock`] | wall and monotonic time, moved by the test alone |
//! | [`Verbatim`] | a codec that keeps records as they are, for tests that know none |
//! | [`conformance`] | the contract of each plugin trait, point by point |
#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a test tool that goes wrong should panic in the test that uses it"
)]

mod clock;
pub mod conformance;
mod garbled;
mod seed;
mod sim_disk;
mod verbatim;

pub use clock::ManualClock;
pub use garbled::Garbled;
pub use seed::{SeedGuard, seed};
pub use sim_disk::{Call, CallKind, Failure, Fault, FaultId, Gate, SimDisk, Survival};
pub use verbatim::Verbatim;
