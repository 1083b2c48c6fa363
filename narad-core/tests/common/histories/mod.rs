//! Random histories of a log on a failing disk: drawn from a seed as data, run against the model, and shrunk when they
//! fail.
#![allow(unreachable_pub, reason = "one test uses it")]

mod callers;
mod check;
mod draw;
mod driver;
mod quiet;
mod shrink;
mod steps;
mod world;

use driver::fails;
use shrink::shrink;
pub use steps::{Drive, Plan};

/// Runs the history of this seed; one that fails is shrunk and told.
pub fn run(seed: u64, drive: Drive) {
    let plan = Plan::drawn(seed, drive);
    let Some(first) = fails(&plan) else { return };
    let steps = plan.steps.len();
    let (plan, why) = shrink(plan, first.clone(), fails);
    let told: Vec<String> = plan.steps.iter().map(|step| format!("    {step:?}")).collect();
    panic!(
        "NARAD_SEED={seed} NARAD_HISTORIES=1 repeats this history of {steps} steps:\n  {first}\nShrunk to {:?}, {} steps:\n{}\n  {why}",
        plan.setup,
        told.len(),
        told.join("\n"),
    );
}
