//! Random histories of a log on a failing disk, against a reference model. `NARAD_SEED` repeats a run, and
//! `NARAD_HISTORIES` says how many there are. One that fails is shrunk to the steps that matter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs, reason = "a test")]

#[path = "common/histories/mod.rs"]
mod histories;
#[path = "common/model.rs"]
mod model;
#[path = "common/write_path.rs"]
mod write_path;

use histories::Drive;
use narad_core::testkit::seed;

/// Of every kind of drive together.
const HISTORIES: u64 = 12_000;
/// The seed of the first one, unless `NARAD_SEED` names another: every run of the suite walks the same histories, so that
/// a change is the only thing that turns it red.
const FIRST: u64 = 1;

/// Runs a share of the histories, in percent.
fn share(percent: u64, drive: Drive) {
    let all =
        std::env::var("NARAD_HISTORIES").map_or(HISTORIES, |count| count.parse().expect("NARAD_HISTORIES"));
    let first = if std::env::var_os("NARAD_SEED").is_some() { seed() } else { FIRST };
    for number in 0..(all * percent).div_ceil(100) {
        histories::run(first.wrapping_add(number), drive);
    }
}

#[test]
fn cm_03_random_histories_agree_with_the_model() {
    share(70, Drive::Honest);
}

#[test]
fn cm_03_random_histories_on_a_garbling_disk_agree_with_the_model() {
    share(10, Drive::Garbled);
}

#[test]
fn lf_01_random_histories_on_a_lying_drive_cost_no_honest_record() {
    share(20, Drive::Lying);
}
